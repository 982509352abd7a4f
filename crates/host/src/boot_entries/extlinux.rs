//! extlinux and U-Boot: `extlinux.conf` (`doc/` of syslinux, `doc/develop/distro.rst` of U-Boot).

use std::path::{Component, Path, PathBuf};

use super::entry::{Choice, Entry, Kind, Offer};
use super::image::Images;
use super::mounts::{Device, Mounts};
use super::options::{initrds, without_loader_words};
use crate::tree::Tree;

const CONFIGURATIONS: [&str; 4] = [
    "/boot/extlinux/extlinux.conf",
    "/extlinux/extlinux.conf",
    "/boot/extlinux.conf",
    "/boot/syslinux/syslinux.cfg",
];
/// Entries at most.
const MOST_ENTRIES: usize = 500;

/// Files in files that are followed at most (`MAX_NEST_LEVEL` of U-Boot).
const DEEPEST: usize = 16;
/// Files that are read at most.
const MOST_FILES: usize = 64;
/// Keywords of labels that start something else than Linux.
const OTHERS: [&str; 9] = [
    "localboot",
    "com32",
    "comboot",
    "boot",
    "bss",
    "pxe",
    "fdimage",
    "config",
    "efi",
];

/// The configuration that is there.
pub(super) fn configuration(tree: &Tree) -> Option<PathBuf> {
    let mut paths = CONFIGURATIONS.into_iter().map(PathBuf::from);
    paths.find(|path| tree.is_file(path))
}

/// Keywords that name a label to start.
const DEFAULT: &str = "DEFAULT";
const ON_TIMEOUT: &str = "ONTIMEOUT";

#[derive(Debug, Default)]
struct Label {
    name: String,
    title: Option<String>,
    kernel: Option<String>,
    initrds: Vec<String>,
    append: String,
    is_default: bool,
    /// Whether it starts something else than Linux.
    is_other: bool,
}

/// What a configuration and the files that it includes say.
#[derive(Debug, Default)]
struct Configuration {
    labels: Vec<Label>,
    /// Names of labels to start, in their order, each with its keyword.
    named: Vec<(&'static str, String)>,
    /// Options of labels that have none of their own.
    append: String,
    /// Files that were read.
    files: usize,
    /// Files that cannot be read: what they have is not known.
    notes: Vec<String>,
}

/// Entries of the configuration at a path.
pub(super) fn read(tree: &Tree, mounts: &Mounts, path: &Path) -> Offer {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let locate = |file: &str| match file.starts_with('/') {
        true => mounts.locate(Device::Unknown, file).path,
        false => normal(&directory.join(file)),
    };
    let mut configuration = Configuration::default();
    configuration.file(tree, path, &locate, 0);
    let images = Images::new(tree);
    let (mut entries, mut marked) = (Vec::new(), None);
    for label in &configuration.labels {
        let kernel = label.kernel.as_deref();
        let is_other = label.is_other || kernel.is_some_and(is_module);
        let entry = match kernel {
            _ if is_other => Images::nothing(),
            Some(kernel) => images.entry(&locate(kernel)),
            None => continue,
        };
        let mut entry = Entry {
            id: label.name.clone(),
            title: label.title.as_ref().unwrap_or(&label.name).clone(),
            number: Some(entries.len().to_string()),
            source: path.to_owned(),
            ..entry
        };
        if is_other {
            entry.kind = Kind::Other;
        } else {
            entry.options = without_loader_words(&label.append);
            let files = label.initrds.iter().map(String::as_str);
            let files = files.chain(initrds(&label.append)).map(locate).collect();
            images.add_initrds(&mut entry, files);
        }
        if label.is_default {
            marked = Some(entries.len());
        }
        entries.push(entry);
    }
    let is_whole = configuration.notes.is_empty();
    let default = configuration.chosen(&entries, marked, &path.display().to_string());
    let mut notes = configuration.notes;
    let default = default.unwrap_or_else(|note| {
        notes.push(note);
        None
    });
    let default = default.filter(|_| is_whole);
    notes.extend(variables(&entries));
    Offer {
        entries,
        next: default.clone(),
        once: None,
        default,
        notes,
    }
}

/// Note that command lines have variables of U-Boot, whose values are not known here.
fn variables(entries: &[Entry]) -> Option<String> {
    let mut entries = entries.iter();
    let entry = entries.find(|it| it.options.contains("${"))?;
    Some(format!(
        "the command line of \"{}\" has variables that U-Boot replaces, and that are not known here: \
         {}; --cmdline gives another one",
        entry.id, entry.options
    ))
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            other => found.push(other),
        }
    }
    found
}

impl Configuration {
    /// Reads a file, and those that it includes.
    fn file(&mut self, tree: &Tree, path: &Path, locate: &dyn Fn(&str) -> PathBuf, depth: usize) {
        self.files += 1;
        let text = match tree.text(path) {
            Ok(text) if depth < DEEPEST && self.files <= MOST_FILES => text,
            Ok(_) => {
                let note = format!("{} includes itself, or too many files", path.display());
                self.notes = vec![note];
                return;
            }
            Err(error) => {
                self.notes.push(super::entry::unreadable(path, &error));
                return;
            }
        };
        let mut is_help = false;
        for line in text.lines() {
            let line = line.trim();
            // Between TEXT HELP and ENDTEXT there is text for people.
            let first = line.split_ascii_whitespace().next().unwrap_or("");
            is_help |= first.eq_ignore_ascii_case("text");
            if is_help {
                is_help = !first.eq_ignore_ascii_case("endtext");
                continue;
            }
            if let Some(included) = self.line(line) {
                // Each round of files that include others twice would double them.
                if self.notes.is_empty() {
                    self.file(tree, &locate(included), locate, depth + 1);
                }
            }
        }
    }

    /// Takes a line; the file that it includes, if it does.
    fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let (keyword, value) = halves(line);
        let keyword = keyword.to_ascii_lowercase();
        match &*keyword {
            "default" => self.named.push((DEFAULT, value.to_owned())),
            "ontimeout" => self.named.push((ON_TIMEOUT, value.to_owned())),
            "include" => return value.split_ascii_whitespace().next(),
            "label" if self.labels.len() < MOST_ENTRIES => self.labels.push(Label {
                name: value.to_owned(),
                append: self.append.clone(),
                ..Label::default()
            }),
            "menu" => {
                let (keyword, value) = halves(value);
                let keyword = keyword.to_ascii_lowercase();
                match (&*keyword, self.labels.last_mut()) {
                    ("include", _) => return value.split_ascii_whitespace().next(),
                    ("label", Some(label)) => label.title = Some(value.replace('^', "")),
                    ("default", Some(label)) => label.is_default = true,
                    _ => {}
                }
            }
            // A minus is for no options, whatever all labels have.
            "append" => {
                let label = self.labels.last_mut().map(|label| &mut label.append);
                let append = label.unwrap_or(&mut self.append);
                *append = Some(value).filter(|it| *it != "-").unwrap_or("").to_owned();
            }
            _ => {
                let label = self.labels.last_mut()?;
                match &*keyword {
                    "kernel" | "linux" => label.kernel = Some(value.to_owned()),
                    "initrd" => label.initrds = value.split(',').map(str::to_owned).collect(),
                    other if OTHERS.contains(&other) => label.is_other = true,
                    _ => {}
                }
            }
        }
        None
    }

    /// The entry that is started if nobody chooses another one. `marked` has `MENU DEFAULT`.
    ///
    /// # Errors
    /// A note why it is not known.
    fn chosen(
        &self,
        entries: &[Entry],
        marked: Option<usize>,
        shown: &str,
    ) -> Result<Option<Choice>, String> {
        let choice = |entry, reason| {
            Ok(Some(Choice {
                entry,
                reason,
                is_once: false,
            }))
        };
        // U-Boot takes the last of both, and syslinux ONTIMEOUT wherever it is.
        let mut from_last = self.named.iter().rev();
        let by_timeout = from_last.find(|(keyword, _)| *keyword == ON_TIMEOUT);
        let named = match (self.named.last(), by_timeout) {
            (Some((_, last)), Some((_, timeout))) if last != timeout => {
                return Err(format!(
                    "{shown} has {ON_TIMEOUT} \"{timeout}\" and then {DEFAULT} \"{last}\": extlinux \
                     starts the one, and U-Boot the other"
                ));
            }
            (last, by_timeout) => by_timeout.or(last),
        };
        match (named, marked) {
            (Some((keyword, name)), _) if !is_module(halves(name).0) => {
                let entry = entries.iter().position(|it| it.id == *name);
                let entry = entry.ok_or_else(|| {
                    format!("{keyword} in {shown} is \"{name}\", and no label with a kernel has that name")
                })?;
                choice(entry, format!("{keyword} in {shown} is \"{name}\""))
            }
            (_, Some(entry)) => choice(entry, format!("{shown} has MENU DEFAULT at it")),
            (_, None) if entries.is_empty() => Ok(None),
            (_, None) => choice(
                0,
                format!("{shown} names no default, and it is the first entry"),
            ),
        }
    }
}

/// Whether a program is one of syslinux, such as its menu.
fn is_module(program: &str) -> bool {
    program.to_ascii_lowercase().ends_with(".c32")
}

/// The first word of a text, and the rest.
fn halves(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    (first, rest.trim())
}
