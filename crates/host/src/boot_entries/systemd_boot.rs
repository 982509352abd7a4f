//! systemd-boot: entries of the Boot Loader Specification and unified kernel images.
//!
//! Sources: loader.conf(5), systemd-boot(7), the Boot Loader Specification (uapi-group.org), and
//! `src/boot/boot.c` of systemd.

use std::cmp::{Ordering, Reverse};
use std::io;
use std::path::{Path, PathBuf};

use super::automatic::automatic;
use super::bls::{Keys, LONGEST, compare_versions};
use super::entry::{Choice, Entry, Kind, Offer, Problem, Tries};
use super::firmware::Variables;
use super::image::Images;
use super::loader_version::version;
use super::options::{initrds, without_loader_words};
use crate::tree::Tree;

/// Where the EFI system partition and the one of extended boot loaders may be mounted.
pub(super) const PARTITIONS: [&str; 3] = ["/efi", "/boot/efi", "/boot"];
/// Entries at most.
const MOST_ENTRIES: usize = 500;
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
/// An entry with what it is sorted by.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) entry: Entry,
    sort_key: Option<String>,
    machine_id: String,
    version: String,
}

/// Whether systemd-boot is installed.
pub(super) fn is_installed(tree: &Tree) -> bool {
    let is_there = |path: &str| tree.is_dir(Path::new(path));
    PARTITIONS.iter().any(|partition| {
        let program = Path::new(partition).join("EFI/systemd");
        let names = tree.names(&program).unwrap_or_default();
        let is_program = names.iter().any(|name| name.starts_with("systemd-boot"));
        is_program && is_there(&format!("{partition}/loader"))
    })
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
    let mut found = files(tree, &mut notes);
    found.extend(unified(tree));
    found.sort_by(order);
    found.truncate(MOST_ENTRIES);
    let mut entries: Vec<_> = found.into_iter().map(|it| it.entry).collect();
    entries.extend(automatic(tree, &PARTITIONS));
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.number = Some(index.to_string());
    }
    let variables = Variables::new(tree);
    let info = variables.loader("LoaderInfo");
    let has_stems = version(tree, &PARTITIONS, info.as_deref())
        .is_none_or(|version| version < WHOLE_IDENTIFIERS);
    let choose = |pattern: &str, reason: String, is_once| {
        let entry = position(&entries, pattern, has_stems)?;
        Some(Choice {
            entry,
            reason,
            is_once,
        })
    };
    let variable = |name: &str, reason: &str, is_once| {
        let value = variables.loader(name)?;
        let value = match &*value {
            "@saved" => variables.loader("LoaderEntryLastBooted")?,
            _ => value,
        };
        choose(&value, format!("{reason} \"{value}\" ({name})"), is_once)
    };
    let configured = configured(tree);
    let by_file = || {
        let (path, pattern) = configured.as_ref()?;
        let path = path.display();
        match pattern.as_str() {
            "@saved" => {
                let value = variables.loader("LoaderEntryLastBooted")?;
                choose(
                    &value,
                    format!("{path} asks for the one that was started last, \"{value}\""),
                    false,
                )
            }
            pattern => choose(
                pattern,
                format!("default in {path} is \"{pattern}\""),
                false,
            ),
        }
    };
    let first = || {
        let reason = match &configured {
            Some((path, pattern)) if pattern != "@saved" => format!(
                "no entry is like the default \"{pattern}\" in {}, and it is the first one",
                path.display()
            ),
            _ => "no default is configured, and it is the first entry".to_owned(),
        };
        let is_first = |it: &Entry| is_offered(it) && !it.id.starts_with(AUTOMATIC);
        let entry = entries.iter().position(is_first)?;
        Some(Choice {
            entry,
            reason,
            is_once: false,
        })
    };
    let default = variable("LoaderEntryDefault", "bootctl set-default chose", false)
        .or_else(by_file)
        .or_else(first);
    let next = variable("LoaderEntryOneShot", "bootctl set-oneshot chose", true)
        .or_else(|| default.clone());
    // Entries that systemd-boot makes of what it finds, and that are not known here.
    let asked = ["LoaderEntryOneShot", "LoaderEntryDefault"].map(|name| variables.loader(name));
    let asked = asked.into_iter().flatten();
    let mut asked = asked.chain(configured.iter().map(|(_, pattern)| pattern.clone()));
    let unknown =
        asked.find(|it| it.starts_with(AUTOMATIC) && position(&entries, it, has_stems).is_none());
    notes.extend(unknown.map(|id| {
        format!("systemd-boot is to start \"{id}\", an entry that it makes itself, and that is not known here")
    }));
    // What could not be read may have the entry that is started.
    let is_known = notes.is_empty();
    Offer {
        entries,
        default: default.filter(|_| is_known),
        next: next.filter(|_| is_known),
        notes,
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

/// `loader.conf` with the pattern of its `default`.
fn configured(tree: &Tree) -> Option<(PathBuf, String)> {
    let paths = PARTITIONS
        .iter()
        .map(|it| Path::new(it).join("loader/loader.conf"));
    for path in paths {
        if let Ok(text) = tree.text(&path) {
            let pattern = Keys::read(&text).last("default")?.to_owned();
            return Some((path, pattern));
        }
    }
    None
}

/// Directories with this name on the partitions, each once.
fn directories(tree: &Tree, name: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for partition in PARTITIONS {
        let path = Path::new(partition).join(name);
        let Some(resolved) = tree.resolved(&path).filter(|_| tree.is_dir(&path)) else {
            continue;
        };
        if !known.contains(&resolved) {
            known.push(resolved);
            found.push((partition, path));
        }
    }
    found
}

/// Entries that are files of text.
fn files(tree: &Tree, notes: &mut Vec<String>) -> Vec<Found> {
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
                Ok(text) => found.extend(file(tree, partition, &path, &Keys::read(&text))),
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
fn file(tree: &Tree, partition: &str, path: &Path, keys: &Keys) -> Option<Found> {
    let architecture = keys.last("architecture");
    if architecture.is_some_and(|it| !it.eq_ignore_ascii_case(ARCHITECTURE)) {
        return None;
    }
    let at =
        |path: &str| Path::new(partition).join(path.replace('\\', "/").trim_start_matches('/'));
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
    // A unified kernel image may be given other options than its own.
    if entry.kind != Kind::Uki || !options.is_empty() {
        entry.options = without_loader_words(&options);
    }
    let files = keys.all("initrd").chain(initrds(&options));
    images.add_initrds(&mut entry, files.map(at).collect());
    let name = path.file_name()?.to_str()?;
    let (id, tries) = without_tries(name);
    entry.id = id;
    entry.tries = tries;
    entry.title = keys.last("title").unwrap_or(name).to_owned();
    let version = keys.last("version").unwrap_or_default().to_owned();
    if entry.release.is_empty() && entry.kind == Kind::Linux {
        entry.release.clone_from(&version);
    }
    entry.source = path.to_owned();
    Some(Found {
        entry,
        sort_key: keys.last("sort-key").map(str::to_owned),
        machine_id: keys.last("machine-id").unwrap_or_default().to_owned(),
        version,
    })
}

/// Unified kernel images in `EFI/Linux`.
pub(super) fn unified(tree: &Tree) -> Vec<Found> {
    let mut found = Vec::new();
    for (_, directory) in directories(tree, "EFI/Linux") {
        let names = tree.names(&directory).unwrap_or_default();
        for name in names.into_iter().take(MOST_ENTRIES) {
            if !name.to_ascii_lowercase().ends_with(".efi") {
                continue;
            }
            let path = directory.join(&name);
            // Other programs are not searched for a release.
            let images = Images::new(tree);
            if !images.is_uki(&path) {
                continue;
            }
            let (mut entry, Some(uki)) = images.entry_and_uki(&path) else {
                continue;
            };
            let value = |names: &[&str]| {
                names
                    .iter()
                    .find_map(|name| uki.value(name))
                    .map(str::to_owned)
            };
            entry.title =
                value(&["PRETTY_NAME", "IMAGE_ID", "NAME", "ID"]).unwrap_or_else(|| name.clone());
            (entry.id, entry.tries) = without_tries(&name);
            entry.source = path;
            found.push(Found {
                entry,
                sort_key: value(&["IMAGE_ID", "ID"]),
                machine_id: String::new(),
                version: value(&["IMAGE_VERSION", "VERSION", "VERSION_ID", "BUILD_ID"])
                    .unwrap_or_default(),
            });
        }
    }
    found
}

/// The order of the menu: `boot_entry_compare`.
fn order(a: &Found, b: &Found) -> Ordering {
    let has_none_left = |it: &Found| it.entry.tries.is_some_and(|tries| tries.left == 0);
    let newest = |a: &str, b: &str| compare_versions(b, a);
    let by_key = match (&a.sort_key, &b.sort_key) {
        (Some(x), Some(y)) => x
            .cmp(y)
            .then_with(|| a.machine_id.cmp(&b.machine_id))
            .then_with(|| newest(&a.version, &b.version)),
        (x, y) => x.is_none().cmp(&y.is_none()),
    };
    let by_tries = || match (a.entry.tries, b.entry.tries) {
        (Some(x), Some(y)) => (Reverse(x.left), x.done).cmp(&(Reverse(y.left), y.done)),
        _ => Ordering::Equal,
    };
    has_none_left(a)
        .cmp(&has_none_left(b))
        .then(by_key)
        .then_with(|| newest(&a.entry.id, &b.entry.id))
        .then_with(by_tries)
}

/// A file's name without the boots that are counted: `arch+3-1.conf` is `arch.conf`, of which three
/// are left, and one failed.
fn without_tries(name: &str) -> (String, Option<Tries>) {
    let counted = || {
        let (stem, end) = name.rsplit_once('.')?;
        let (start, count) = stem.rsplit_once('+')?;
        let (left, done) = count.split_once('-').unwrap_or((count, "0"));
        let number = |text: &str| match text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        let tries = Tries {
            left: number(left)?,
            done: number(done)?,
        };
        Some((format!("{start}.{end}"), Some(tries)))
    };
    counted().unwrap_or_else(|| (name.to_owned(), None))
}

/// The first entry that a pattern is of. With `has_stems`, identifiers without their ending are
/// compared, too, if no whole one is like the pattern.
fn position(entries: &[Entry], pattern: &str, has_stems: bool) -> Option<usize> {
    let pattern = pattern.to_lowercase();
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

/// Whether a text is like a pattern with `*`, `?` and sets in brackets.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<_>, Vec<_>) = (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much of the text it has taken.
    let mut star = None;
    while at < text.len() {
        if pattern.get(of) == Some(&'*') {
            star = Some((of, at));
            of += 1;
        } else if let Some(next) = pattern.get(of..).and_then(|rest| one(text[at], rest)) {
            at += 1;
            of += next;
        } else if let Some((before, taken)) = star {
            star = Some((before, taken + 1));
            at = taken + 1;
            of = before + 1;
        } else {
            return false;
        }
    }
    pattern[of..].iter().all(|next| *next == '*')
}

/// How many characters of the pattern stand for this one of the text, at its beginning.
fn one(next: char, pattern: &[char]) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == next).then_some(2),
        ['[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|it| *it == ']')? + 1;
            let set = &rest[..end];
            let is_range = |it: &[char]| it[1] == '-' && (it[0]..=it[2]).contains(&next);
            let is_in = set.contains(&next) || set.windows(3).any(is_range);
            is_in.then_some(end + 2)
        }
        [first, ..] => (*first == next).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, is) in [
            ("arch.conf", "arch.conf", true),
            ("arch.conf", "arch", false),
            ("arch-lts.conf", "arch-*", true),
            ("arch-lts.conf", "*lts*", true),
            ("nixos-generation-12.conf", "nixos-generation-??.conf", true),
            ("a1", "a[0-9]", true),
            ("ax", "a[0-9]", false),
            ("a*", r"a\*", true),
            ("ab", r"a\*", false),
            ("", "*", true),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "*a*a*a*a*a*a*a*a*b",
                false,
            ),
        ] {
            assert_eq!(is_like(text, pattern), is, "{text} {pattern}");
        }
    }

    #[test]
    fn boots_that_are_counted() {
        let tries = |left, done| Some(Tries { left, done });
        for (name, id, expected) in [
            ("arch.conf", "arch.conf", None),
            ("arch+3.conf", "arch.conf", tries(3, 0)),
            ("arch+3-1.conf", "arch.conf", tries(3, 1)),
            ("linux-6.1+deb13.efi", "linux-6.1+deb13.efi", None),
            (
                "linux-6.1+deb13+0-3.efi",
                "linux-6.1+deb13.efi",
                tries(0, 3),
            ),
            ("a++1.conf", "a+.conf", tries(1, 0)),
            ("a+99999999999.conf", "a+99999999999.conf", None),
        ] {
            assert_eq!(without_tries(name), (id.to_owned(), expected), "{name}");
        }
    }

    #[test]
    fn the_menu_is_sorted() {
        let found = |id: &str, key: Option<&str>, version: &str, left: Option<u32>| Found {
            entry: Entry {
                id: id.to_owned(),
                tries: left.map(|left| Tries { left, done: 0 }),
                ..Images::nothing()
            },
            sort_key: key.map(str::to_owned),
            machine_id: String::new(),
            version: version.to_owned(),
        };
        let mut all = [
            found("z-5.conf", None, "", None),
            found("z-10.conf", None, "", None),
            found("b.conf", Some("debian"), "6.1", None),
            found("a.conf", Some("debian"), "6.12", None),
            found("c.conf", Some("arch"), "1", None),
            found("tried.conf", Some("arch"), "2", Some(0)),
            found("fresh.conf", Some("arch"), "2", Some(3)),
        ];
        all.sort_by(order);
        let ids: Vec<_> = all.iter().map(|it| &*it.entry.id).collect();
        let expected = [
            "fresh.conf",
            "c.conf",
            "a.conf",
            "b.conf",
            "z-10.conf",
            "z-5.conf",
            "tried.conf",
        ];
        assert_eq!(ids, expected);
    }
}
