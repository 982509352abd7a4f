//! systemd-boot: entries of the Boot Loader Specification and unified kernel images.
//!
//! Sources: loader.conf(5), systemd-boot(7), the Boot Loader Specification (uapi-group.org), and
//! `src/boot/boot.c` of systemd.

mod automatic;
mod pattern;
mod program;

use std::io;
use std::path::{Path, PathBuf};

use super::bls::{Keys, LONGEST};
use super::efi::found::{Found, MOST_ENTRIES, order, without_tries};
use super::efi::stub::Stub;
use super::efi::unified::unified;
use super::efi::variables::{ONE_SHOT, Variables};
use super::entry::{Choice, Entry, Kind, Offer, Problem};
use super::image::Images;
use super::options::{initrds, without_loader_words};
use super::partition::{PARTITIONS, directories, on_partition};
use crate::tree::Tree;
use automatic::automatic;
use pattern::is_like;

/// How the specification calls this processor's architecture.
const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"aarch64" => "aa64",
    b"riscv64" => "riscv64",
    _ => "x64",
};

/// What identifiers of entries begin with that systemd-boot makes itself.
const AUTOMATIC: &str = "auto-";
/// Version from which identifiers have their ending.
const WHOLE_IDENTIFIERS: u32 = 246;
/// Version from which `preferred` counts.
const WITH_PREFERRED: u32 = 260;

/// Whether systemd-boot is installed.
pub(super) fn is_installed(tree: &Tree) -> bool {
    PARTITIONS
        .iter()
        .any(|partition| program::is_installed(tree, partition))
}

/// A directory that has entries on a partition without systemd-boot.
pub(super) fn entries_without_program(tree: &Tree) -> Option<PathBuf> {
    let directories = PARTITIONS.map(|it| Path::new(it).join("loader/entries"));
    let has_entries = |directory: &PathBuf| {
        let names = tree.names(directory).unwrap_or_default();
        names.iter().any(|name| name.ends_with(".conf"))
    };
    directories.into_iter().find(has_entries)
}

/// Entries in the order of the menu.
pub(super) fn read(tree: &Tree) -> Offer {
    let mut notes = denied(tree);
    let stub = Stub::new(tree);
    let mut found = files(tree, &stub, &mut notes);
    found.extend(unified(tree, &stub));
    found.sort_by(order);
    found.truncate(MOST_ENTRIES);
    let has_profiles = found.iter().any(|it| it.has_profiles);
    let mut entries: Vec<_> = found.into_iter().map(|it| it.entry).collect();
    entries.extend(automatic(tree, &PARTITIONS));
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.number = Some(index.to_string());
    }
    let variables = Variables::new(tree);
    let info = variables.loader("LoaderInfo");
    let version = program::version(tree, &PARTITIONS, info.as_deref());
    let chooser = Chooser {
        entries: &entries,
        variables,
        configured: Configured::read(tree),
        has_stems: version.is_none_or(|version| version < WHOLE_IDENTIFIERS),
    };
    let lasting = chooser.default();
    let preferred = chooser.preferred();
    let default = match version {
        Some(version) if version >= WITH_PREFERRED => preferred.or(lasting),
        Some(_) => lasting,
        None => {
            let is_same = |it: &Choice| lasting.as_ref().is_some_and(|by| by.entry == it.entry);
            notes.extend(preferred.filter(|it| !is_same(it)).map(|it| {
                format!(
                    "{}, which counts from systemd-boot 260 on, and its version is not known",
                    it.reason
                )
            }));
            lasting
        }
    };
    let next = chooser
        .by_variable(ONE_SHOT, "bootctl set-oneshot", true, &|_| true)
        .or_else(|| default.clone());
    notes.extend(chooser.unknown(has_profiles));
    // What could not be read may have the entry that is started.
    let is_known = notes.is_empty();
    notes.extend(stub.notes());
    Offer {
        default: default.filter(|_| is_known),
        next: next.filter(|_| is_known),
        once: variables.once(),
        entries,
        notes,
    }
}

/// `loader.conf`.
#[derive(Debug, Default)]
struct Configured {
    path: PathBuf,
    default: Option<String>,
    preferred: Option<String>,
}

impl Configured {
    fn read(tree: &Tree) -> Self {
        let mut paths = PARTITIONS
            .map(|it| Path::new(it).join("loader/loader.conf"))
            .into_iter();
        let found = paths.find_map(|path| Some((tree.text(&path).ok()?, path)));
        let Some((text, path)) = found else {
            return Self::default();
        };
        let keys = Keys::read(&text);
        Self {
            path,
            default: keys.last("default").map(str::to_owned),
            preferred: keys.last("preferred").map(str::to_owned),
        }
    }
}

/// What systemd-boot chooses an entry by (`config_select_default_entry`).
struct Chooser<'a> {
    entries: &'a [Entry],
    variables: Variables<'a>,
    configured: Configured,
    has_stems: bool,
}

impl Chooser<'_> {
    /// The first entry that a pattern is of.
    fn like(
        &self,
        pattern: &str,
        reason: String,
        is_once: bool,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Option<Choice> {
        Some(Choice {
            entry: position(self.entries, pattern, self.has_stems, counts)?,
            reason,
            is_once,
        })
    }

    /// The entry of an EFI variable, which a command has set.
    fn by_variable(
        &self,
        name: &str,
        command: &str,
        is_once: bool,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Option<Choice> {
        let value = self.variables.loader(name)?;
        let value = match &*value {
            "@saved" => self.variables.loader("LoaderEntryLastBooted")?,
            _ => value,
        };
        let reason = format!("{command} chose \"{value}\" ({name})");
        self.like(&value, reason, is_once, counts)
    }

    /// The entry of a key of `loader.conf`.
    fn by_file(
        &self,
        key: &str,
        pattern: Option<&String>,
        counts: &dyn Fn(&Entry) -> bool,
    ) -> Option<Choice> {
        let (path, pattern) = (self.configured.path.display(), pattern?);
        if pattern == "@saved" {
            let value = self.variables.loader("LoaderEntryLastBooted")?;
            let reason = format!("{path} asks for the one that was started last, \"{value}\"");
            return self.like(&value, reason, false, counts);
        }
        let reason = format!("{key} in {path} is \"{pattern}\"");
        self.like(pattern, reason, false, counts)
    }

    /// The entry that is preferred, unless boots of it have failed.
    fn preferred(&self) -> Option<Choice> {
        let is_good = |it: &Entry| it.tries.is_none_or(|tries| tries.left > 0);
        self.by_variable(
            "LoaderEntryPreferred",
            "bootctl set-preferred",
            false,
            &is_good,
        )
        .or_else(|| self.by_file("preferred", self.configured.preferred.as_ref(), &is_good))
    }

    fn default(&self) -> Option<Choice> {
        let all = |_: &Entry| true;
        self.by_variable("LoaderEntryDefault", "bootctl set-default", false, &all)
            .or_else(|| self.by_file("default", self.configured.default.as_ref(), &all))
            .or_else(|| self.first())
    }

    fn first(&self) -> Option<Choice> {
        let reason = match &self.configured.default {
            Some(pattern) if pattern != "@saved" => format!(
                "no entry is like the default \"{pattern}\" in {}, and it is the first one",
                self.configured.path.display()
            ),
            _ => "no default is configured, and it is the first entry".to_owned(),
        };
        let is_first = |it: &Entry| is_offered(it) && !it.id.starts_with(AUTOMATIC);
        let entry = self.entries.iter().position(is_first)?;
        Some(Choice {
            entry,
            reason,
            is_once: false,
        })
    }

    /// A note if an entry is asked for that is not known here: one that systemd-boot makes of what it
    /// finds, or one of several ways to start an image.
    fn unknown(&self, has_profiles: bool) -> Option<String> {
        let names = [ONE_SHOT, "LoaderEntryPreferred", "LoaderEntryDefault"];
        let asked = names
            .into_iter()
            .filter_map(|name| self.variables.loader(name));
        let configured = [&self.configured.preferred, &self.configured.default];
        let mut asked = asked.chain(configured.into_iter().flatten().cloned());
        let is_missing =
            |it: &String| position(self.entries, it, self.has_stems, &|_| true).is_none();
        let is_of_profile = |it: &str| has_profiles && it.contains(".efi@");
        let id =
            asked.find(|it| (it.starts_with(AUTOMATIC) || is_of_profile(it)) && is_missing(it))?;
        let what = match id.starts_with(AUTOMATIC) {
            true => "an entry that it makes itself, and that is not known here",
            false => {
                "a profile of a unified kernel image, of which only the first one is known here"
            }
        };
        Some(format!("systemd-boot is to start \"{id}\", {what}"))
    }
}

/// Whether the menu has an entry: one whose program is not there is left out
/// (`boot_entry_add_type1`).
fn is_offered(entry: &Entry) -> bool {
    let is_gone = |it: &Problem| matches!(it, Problem::NoKernel(_));
    !entry.problems.iter().any(is_gone)
}

/// Partitions that this process may not look at.
pub(super) fn denied(tree: &Tree) -> Vec<String> {
    let error = io::ErrorKind::PermissionDenied.into();
    let paths = PARTITIONS.iter().map(Path::new);
    paths
        .filter(|path| tree.is_denied(&path.join("loader")))
        .map(|path| super::entry::unreadable(path, &error))
        .collect()
}

/// Entries that are files of text.
fn files(tree: &Tree, stub: &Stub<'_>, notes: &mut Vec<String>) -> Vec<Found> {
    let mut found = Vec::new();
    for (partition, directory) in directories(tree, "loader/entries") {
        let names = tree.names(&directory).unwrap_or_else(|error| {
            notes.push(super::entry::unreadable(&directory, &error));
            Vec::new()
        });
        for name in names
            .iter()
            .filter(|name| is_entry(&name.to_lowercase()))
            .take(MOST_ENTRIES)
        {
            let path = directory.join(name);
            match tree.beginning(&path, LONGEST) {
                Ok(text) => found.extend(file(tree, stub, partition, &path, &Keys::read(&text))),
                Err(error) => notes.push(super::entry::unreadable(&path, &error)),
            }
        }
    }
    found
}

/// Whether a name in small letters is one of an entry (`valid_type1_filename`).
fn is_entry(name: &str) -> bool {
    name.ends_with(".conf") && !name.starts_with('.') && !name.starts_with("auto-")
}

/// An entry of a file; none of one for another architecture, or that starts nothing.
fn file(tree: &Tree, stub: &Stub<'_>, partition: &str, path: &Path, keys: &Keys) -> Option<Found> {
    let architecture = keys.last("architecture");
    if architecture.is_some_and(|it| !it.eq_ignore_ascii_case(ARCHITECTURE)) {
        return None;
    }
    let at = |path: &str| on_partition(partition, path);
    let images = Images::new(tree);
    let programs = ["linux", "uki", "efi"].map(|key| keys.last(key));
    let mut programs = programs.into_iter().flatten();
    // Of an entry with two kinds of them systemd-boot makes none.
    let (Some(program), None) = (programs.next(), programs.next()) else {
        return None;
    };
    let mut entry = images.entry(&at(program));
    let options: Vec<_> = keys.all("options").collect();
    let options = options.join(" ");
    if keys.last("linux").is_none() && entry.kind != Kind::Uki && entry.release.is_empty() {
        entry.kind = Kind::Other;
        entry.problems.clear();
    }
    match entry.kind {
        Kind::Uki => stub.settle(&mut entry, &options),
        // One that only names a kernel has its command line.
        _ if entry.kernel != at(program) => {}
        _ => entry.options = without_loader_words(&options),
    }
    let files = keys.all("initrd").chain(initrds(&options));
    images.add_initrds(&mut entry, files.map(at).collect());
    let name = path.file_name()?.to_str()?;
    let (id, tries) = without_tries(name);
    entry.id = id;
    entry.tries = tries;
    entry.title = keys.last("title").unwrap_or(name).to_owned();
    let version = keys.last("version").unwrap_or_default().to_owned();
    if entry.release.is_empty() && entry.kind == Kind::Linux && is_release(&version) {
        entry.release.clone_from(&version);
    }
    entry.source = path.to_owned();
    Some(Found {
        entry,
        sort_key: keys.last("sort-key").map(str::to_owned),
        machine_id: keys.last("machine-id").unwrap_or_default().to_owned(),
        version,
        has_profiles: false,
    })
}

/// Whether a version of an entry may be the release of its kernel; distributions write sentences there,
/// too.
fn is_release(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && !version.contains(|c: char| c.is_whitespace() || c == '@')
}

/// The first entry that a pattern is of, of those that count. With `has_stems`, identifiers without
/// their ending are compared, too, if no whole one is like the pattern.
fn position(
    entries: &[Entry],
    pattern: &str,
    has_stems: bool,
    counts: &dyn Fn(&Entry) -> bool,
) -> Option<usize> {
    let pattern = pattern.to_lowercase();
    let is_offered = |it: &Entry| is_offered(it) && counts(it);
    let whole = entries
        .iter()
        .position(|it| is_offered(it) && is_like(&it.id.to_lowercase(), &pattern));
    whole.or_else(|| {
        entries.iter().filter(|_| has_stems).position(|it| {
            let id = it.id.to_lowercase();
            let stem = id.rsplit_once('.').map(|(stem, _)| stem);
            is_offered(it) && stem.is_some_and(|stem| is_like(stem, &pattern))
        })
    })
}
