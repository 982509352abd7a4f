//! The command line of a unified kernel image: what systemd-stub(7) makes of its own one, of the one
//! that it is given, and of addons.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::entry::{Entry, Kind};
use super::super::image::addon;
use super::super::options::without_loader_words;
use super::super::partition::partition_of;
use super::found::without_tries;
use super::variables::Variables;
use crate::tree::Tree;

/// Addons of a directory at most.
const MOST_ADDONS: usize = 100;
/// Ending of addons.
const ADDON: &str = ".addon.efi";
/// Endings of what the stub hands to the system in an initial RAM disk that it makes itself.
const HANDED: [&str; 2] = [".cred", ".raw"];

/// The stub as it would run below a root.
#[derive(Debug)]
pub(in crate::boot_entries) struct Stub<'a> {
    tree: &'a Tree,
    /// Whether Secure Boot is on, if that is known.
    is_secure: Option<bool>,
    notes: RefCell<BTreeSet<String>>,
}

impl<'a> Stub<'a> {
    pub(in crate::boot_entries) fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            is_secure: Variables::new(tree).is_secure(),
            notes: RefCell::default(),
        }
    }

    /// Gives the entry of an image, which has the image's own command line, the one that its kernel
    /// gets; `given` are words of the boot loader.
    pub(in crate::boot_entries) fn settle(&self, entry: &mut Entry, given: &str) {
        if entry.kind != Kind::Uki {
            return;
        }
        let given = without_loader_words(given);
        let has_own = !entry.options.is_empty();
        if has_own && !given.is_empty() && self.is_secure.is_none() {
            self.note(format!(
                "{} has a command line of its own, and with Secure Boot it ignores the one of its entry",
                entry.kernel.display()
            ));
        }
        let keeps_own = has_own && self.is_secure == Some(true);
        if !given.is_empty() && !keeps_own {
            entry.options = given;
        }
        for directory in self.directories(&entry.kernel) {
            for words in self.addons(&directory, &entry.release) {
                if !entry.options.is_empty() {
                    entry.options.push(' ');
                }
                entry.options.push_str(&words);
            }
        }
    }

    /// What was found that is not in command lines, each a sentence without its end.
    pub(in crate::boot_entries) fn notes(self) -> impl Iterator<Item = String> {
        self.notes.into_inner().into_iter()
    }

    fn note(&self, text: String) {
        self.notes.borrow_mut().insert(text);
    }

    /// Directories of addons: of all images of the partition, and then of this one.
    fn directories(&self, image: &Path) -> Vec<PathBuf> {
        let mut found: Vec<_> = partition_of(image)
            .map(|it| Path::new(it).join("loader/addons"))
            .into_iter()
            .collect();
        let name = image.file_name().and_then(|name| name.to_str());
        if let Some(name) = name {
            let (whole, _) = without_tries(name);
            let names = BTreeSet::from([name.to_owned(), whole]);
            let mut beside = names
                .into_iter()
                .map(|it| image.with_file_name(format!("{it}.extra.d")));
            found.extend(beside.find(|it| self.tree.is_dir(it)));
        }
        found
    }

    /// Command lines of the addons of a directory.
    fn addons(&self, directory: &Path, release: &str) -> Vec<String> {
        let mut names = self.tree.names(directory).unwrap_or_default();
        names.sort();
        if let Some(name) = names
            .iter()
            .find(|it| HANDED.iter().any(|end| it.ends_with(end)))
        {
            self.note(format!(
                "{} is handed to the system by the stub of a unified kernel image, and not by kexec",
                directory.join(name).display()
            ));
        }
        let names = names
            .iter()
            .filter(|it| it.to_ascii_lowercase().ends_with(ADDON));
        let read = |name: &String| {
            let host = self.tree.host(&directory.join(name))?;
            let (cmdline, uname) = addon(&host)?;
            // One for another kernel is left out.
            let is_other = uname.is_some_and(|uname| uname != release);
            Some(without_loader_words(&cmdline)).filter(|it| !is_other && !it.is_empty())
        };
        names.take(MOST_ADDONS).filter_map(read).collect()
    }
}
