//! Kernel images that entries name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::pe::PeFile64;
use object::{Object, ObjectSection};

use super::entry::{Entry, Kind, Problem};
use super::options::without_loader_words;
use super::partition::{on_partition, partition_of};
use crate::kernel::{name_version, version_in};
use crate::tree::Tree;

/// Bytes of a section with text that are read at most.
const LONGEST_TEXT: u64 = 64 << 10;

/// Text sections of a unified kernel image (systemd-stub(7)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uki {
    /// Kernel command line.
    pub(super) cmdline: String,
    /// Lines of os-release(5).
    pub(super) os_release: String,
    /// Release of the kernel; empty if it is not said.
    pub(super) uname: String,
    /// Whether it can be started in several ways (`.profile`).
    pub(super) has_profiles: bool,
    named: Option<Named>,
}

/// What may stand in the place of the parts of an image: paths of files on its partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Named {
    kernel: String,
    initrd: Option<String>,
}

/// The text of a section.
fn text<'d>(image: &impl Object<'d>, name: &str) -> Option<String> {
    let section = image.section_by_name(name)?;
    if section.size() > LONGEST_TEXT {
        return None;
    }
    let bytes = section.data().ok()?;
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    Some(text.to_owned())
}

/// Command line and release of an addon for systemd-stub(7); none of another file.
pub(super) fn addon(path: &Path) -> Option<(String, Option<String>)> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let image = PeFile64::parse(&cache).ok()?;
    let cmdline = text(&image, ".cmdline")?;
    Some((cmdline, text(&image, ".uname")))
}

impl Uki {
    /// Sections of the file at a path of this process; none if it is no such image.
    fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let image = PeFile64::parse(&cache).ok()?;
        image.section_by_name(".linux")?;
        let text = |name: &str| text(&image, name);
        // The stub of lanzaboote has paths in them, and hashes of the files in further sections.
        let named = image.section_by_name(".linuxh").and_then(|_| {
            Some(Named {
                kernel: text(".linux")?,
                initrd: text(".initrd"),
            })
        });
        Some(Self {
            cmdline: text(".cmdline").unwrap_or_default(),
            os_release: text(".osrel").unwrap_or_default(),
            uname: text(".uname").unwrap_or_default(),
            has_profiles: image.section_by_name(".profile").is_some(),
            named,
        })
    }

    /// A value of os-release(5), without quotes.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let lines = self.os_release.lines();
        let value = lines
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)?
            .1;
        Some(value.trim().trim_matches(['"', '\''])).filter(|value| !value.is_empty())
    }
}

/// Reads images below a root.
#[derive(Debug)]
pub(super) struct Images<'a> {
    tree: &'a Tree,
    /// Those that were read: a kernel often has several entries.
    known: RefCell<BTreeMap<PathBuf, Entry>>,
}

impl<'a> Images<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            known: RefCell::default(),
        }
    }

    /// An entry without anything.
    pub(super) fn nothing() -> Entry {
        Entry {
            id: String::new(),
            title: String::new(),
            menus: Vec::new(),
            number: None,
            kind: Kind::Linux,
            release: String::new(),
            kernel: PathBuf::new(),
            initrds: Vec::new(),
            options: String::new(),
            source: PathBuf::new(),
            tries: None,
            problems: Vec::new(),
        }
    }

    /// An entry that starts the kernel at a path of the system, with what the image says.
    pub(super) fn entry(&self, path: &Path) -> Entry {
        let known = self.known.borrow().get(path).cloned();
        known.unwrap_or_else(|| {
            let (entry, _) = self.entry_and_uki(path);
            self.known
                .borrow_mut()
                .insert(path.to_owned(), entry.clone());
            entry
        })
    }

    /// Whether there is a unified kernel image at a path.
    pub(super) fn is_uki(&self, path: &Path) -> bool {
        let host = self.tree.host(path).filter(|_| self.tree.is_file(path));
        host.and_then(|host| Uki::read(&host)).is_some()
    }

    /// The entry, and the sections of a unified kernel image.
    pub(super) fn entry_and_uki(&self, path: &Path) -> (Entry, Option<Uki>) {
        let mut entry = Entry {
            kernel: path.to_owned(),
            ..Self::nothing()
        };
        let Some(host) = self.tree.host(path).filter(|_| self.tree.is_file(path)) else {
            entry.problems.push(Problem::NoKernel(path.to_owned()));
            return (entry, None);
        };
        let uki = Uki::read(&host);
        if let Some(Uki {
            named: Some(named), ..
        }) = &uki
        {
            return (self.named(path, uki.as_ref(), named), uki);
        }
        if let Some(uki) = &uki {
            entry.kind = Kind::Uki;
            entry.options = without_loader_words(&uki.cmdline);
            uki.uname.clone_into(&mut entry.release);
        }
        let release = match entry.release.is_empty() {
            true => version_in(self.tree, path),
            false => File::open(&host).map(|_| Some(entry.release.clone())),
        };
        match release {
            Ok(release) => entry.release = release.unwrap_or_default(),
            Err(error) => {
                entry.release = name_of(path);
                entry.problems.push(unreadable(path, &error));
            }
        }
        (entry, uki)
    }

    /// The entry of an image that names its parts.
    fn named(&self, path: &Path, uki: Option<&Uki>, named: &Named) -> Entry {
        let Some(partition) = partition_of(path) else {
            let mut entry = Self::nothing();
            path.clone_into(&mut entry.kernel);
            entry.problems.push(Problem::Elsewhere);
            return entry;
        };
        let kernel = on_partition(partition, &named.kernel);
        if self.is_uki(&kernel) {
            // Perhaps itself.
            return Entry {
                kind: Kind::Other,
                kernel,
                ..Self::nothing()
            };
        }
        let mut entry = self.entry(&kernel);
        if let Some(uki) = uki {
            entry.options = without_loader_words(&uki.cmdline);
        }
        let initrds = named.initrd.iter();
        let initrds = initrds.map(|it| on_partition(partition, it)).collect();
        self.add_initrds(&mut entry, initrds);
        entry
    }

    /// Adds initial RAM disks, and what is wrong with them.
    pub(super) fn add_initrds(&self, entry: &mut Entry, paths: Vec<PathBuf>) {
        for path in &paths {
            if !self.tree.is_file(path) {
                entry.problems.push(Problem::NoInitrd(path.clone()));
            }
        }
        entry.initrds.extend(paths);
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(name_version).unwrap_or_default()
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; try it as root",
        _ => "",
    };
    Problem::Unreadable(path.to_owned(), format!("{error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_os_release_lose_their_quotes() {
        let uki = Uki {
            os_release: "ID=arch\nPRETTY_NAME=\"Arch Linux\"\nBUILD_ID=\n".to_owned(),
            ..Uki::default()
        };
        assert_eq!(uki.value("PRETTY_NAME"), Some("Arch Linux"));
        assert_eq!(uki.value("ID"), Some("arch"));
        assert_eq!(uki.value("BUILD_ID"), None);
        assert_eq!(uki.value("VERSION"), None);
    }
}
