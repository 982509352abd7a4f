//! From what is asked for to the kernel, initial RAM disks and command line of a restart. Pure.

use std::path::{Path, PathBuf};

use brisk_host::boot_entries::{
    BootEntries, Entry, Kind, Loader, Once, without_loader_words, words,
};
use serde::Serialize;

use super::Target;

mod error;

pub use error::PlanError;

/// Request of a user. Without anything it is the entry that the boot loader starts next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Release of an installed kernel, or with a `/` in it the absolute path of an image.
    pub kernel: Option<String>,
    /// Absolute paths of initial RAM disks in place of the entry's.
    pub initrds: Vec<PathBuf>,
    /// Command line.
    pub cmdline: Cmdline,
    /// The kernel that runs, with its entry.
    pub is_same: bool,
    /// Identifier, title or number of an entry.
    pub entry: Option<String>,
}

/// Where the command line is from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cmdline {
    /// The entry, or if none has the kernel, the running kernel.
    #[default]
    Automatic,
    /// The running kernel.
    Running,
    /// The entry.
    Entry,
    /// This text.
    Text(String),
}

/// The system that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Release as `uname -r` shows it.
    pub release: String,
    /// Command line as `/proc/cmdline` has it.
    pub cmdline: String,
}

/// What the command line of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// That of the entry.
    Entry,
    /// That of the running kernel.
    Running,
    /// What was given.
    Given,
}

impl Origin {
    /// Text for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Entry => "the entry",
            Self::Running => "the running kernel",
            Self::Given => "--cmdline",
        }
    }
}

/// Words in which a command line differs from the running kernel's, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Words that only the new one has.
    pub added: Vec<String>,
    /// Words that only the running one has.
    pub removed: Vec<String>,
}

/// A restart that could be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Kernel with what it is started with.
    pub target: Target,
    /// Identifier and title of the entry; none if no entry has the kernel.
    pub entry: Option<Named>,
    /// Why it is this one, a sentence without its end.
    pub reason: String,
    /// Where the command line is from.
    pub cmdline_from: Origin,
    /// How the command line differs from that of the running kernel.
    pub difference: Difference,
    /// What the boot loader would take back as it starts this.
    #[serde(skip)]
    pub once: Option<Once>,
}

/// How an entry is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Identifier.
    pub id: String,
    /// Title.
    pub title: String,
}

/// Files of the system that is restarted.
pub trait Files {
    /// What an image says, as an entry of no boot loader.
    fn kernel(&self, path: &Path) -> Entry;
    /// Whether there is such a file.
    fn is_file(&self, path: &Path) -> bool;
}

/// Makes the plan of a restart.
///
/// # Errors
/// If what is asked for is not there, cannot be started, or the boot loader does not say what is
/// next.
pub fn plan(
    boot: &BootEntries,
    running: &Running,
    request: &Request,
    files: &impl Files,
) -> Result<Plan, PlanError> {
    let (entry, reason) = linux(boot, running, request, files)?;
    sound(&entry, request, files)?;
    let once = once(boot, request, &entry);
    finished(entry, reason, running, request).map(|plan| Plan { once, ..plan })
}

/// What would be started as [`plan`] has it, and what the boot loader would take back, whatever is wrong
/// with the files: for rules that say what is.
///
/// # Errors
/// If what is asked for is not there, or the boot loader does not say what is next.
pub fn target(
    boot: &BootEntries,
    running: &Running,
    request: &Request,
    files: &impl Files,
) -> Result<(Target, Option<Once>), PlanError> {
    let (entry, reason) = linux(boot, running, request, files)?;
    let once = once(boot, request, &entry);
    Ok((finished(entry, reason, running, request)?.target, once))
}

/// What the boot loader would take back as it starts an entry: of the one that it starts next, and of
/// another with the kernel that it is to start once. A choice that is not followed stays.
fn once(boot: &BootEntries, request: &Request, entry: &Entry) -> Option<Once> {
    let is_asked = request.entry.is_some() || request.kernel.is_some() || request.is_same;
    let next = boot.next.as_ref().filter(|next| next.is_once);
    let is_it = next.is_some_and(|next| boot.entries[next.entry].kernel == entry.kernel);
    boot.once.clone().filter(|_| !is_asked || is_it)
}

/// The entry that is asked for, if it starts Linux, and why it is that one.
fn linux(
    boot: &BootEntries,
    running: &Running,
    request: &Request,
    files: &impl Files,
) -> Result<(Entry, String), PlanError> {
    let (entry, reason) = chosen(boot, running, request, files)?;
    match entry.kind {
        Kind::Other => Err(PlanError::NoLinux {
            title: entry.title,
            file: entry.kernel,
        }),
        _ => Ok((entry, reason)),
    }
}

/// Refuses an entry whose files, or those in their place, are not there or of no use.
fn sound(entry: &Entry, request: &Request, files: &impl Files) -> Result<(), PlanError> {
    let has_own = request.initrds.is_empty();
    if !has_own && entry.kind == Kind::Uki {
        return Err(PlanError::InitrdOfUki(entry.kernel.clone()));
    }
    if let Some(missing) = request.initrds.iter().find(|path| !files.is_file(path)) {
        return Err(PlanError::NoInitrd(missing.clone()));
    }
    let problems = entry.problems.iter();
    let problems = problems.filter(|problem| has_own || !problem.is_of_initrd());
    let problems: Vec<_> = problems.map(ToString::to_string).collect();
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    match &request.kernel {
        Some(name) if entry.number.is_none() && name.contains('/') => Err(PlanError::NoImage {
            name: name.clone(),
            problems,
        }),
        _ => Err(PlanError::NotBootable {
            title: entry.title.clone(),
            problems,
        }),
    }
}

/// The plan that an entry and a request make.
fn finished(
    entry: Entry,
    reason: String,
    running: &Running,
    request: &Request,
) -> Result<Plan, PlanError> {
    let has_options = entry.number.is_some() || entry.kind == Kind::Uki;
    let current = without_loader_words(&running.cmdline);
    let (cmdline, cmdline_from) = match &request.cmdline {
        Cmdline::Text(text) => (without_loader_words(text), Origin::Given),
        Cmdline::Running => (current.clone(), Origin::Running),
        Cmdline::Entry if !has_options => return Err(PlanError::NoOptions(entry.kernel)),
        Cmdline::Automatic if !has_options => (current.clone(), Origin::Running),
        Cmdline::Entry | Cmdline::Automatic => (entry.options.clone(), Origin::Entry),
    };
    Ok(Plan {
        difference: difference(&current, &cmdline),
        cmdline_from,
        reason,
        once: None,
        entry: entry.number.is_some().then_some(Named {
            id: entry.id,
            title: entry.title,
        }),
        target: Target {
            release: entry.release,
            kernel: entry.kernel,
            initrds: match &request.initrds[..] {
                [] => entry.initrds,
                given => given.to_vec(),
            },
            cmdline,
            is_uki: entry.kind == Kind::Uki,
        },
    })
}

/// The entry that is asked for, and why it is that one.
fn chosen(
    boot: &BootEntries,
    running: &Running,
    request: &Request,
    files: &impl Files,
) -> Result<(Entry, String), PlanError> {
    if let Some(name) = &request.entry {
        let entry = named(boot, name)?;
        return Ok((entry.clone(), format!("--entry \"{name}\" asks for it")));
    }
    if let Some(name) = &request.kernel {
        let reason = format!("--kernel {name} asks for it");
        if name.contains('/') {
            let path = Path::new(name);
            let of_path = boot
                .entries
                .iter()
                .filter(|it| it.kernel == path && it.kind != Kind::Other);
            let entry = likeliest(boot, running, of_path.collect());
            return Ok((entry.cloned().unwrap_or_else(|| files.kernel(path)), reason));
        }
        let of_release = |is: fn(&str, &str) -> bool| {
            let found = boot
                .entries
                .iter()
                .filter(|it| it.kind != Kind::Other && is(&it.release, name));
            likeliest(boot, running, found.collect())
        };
        let entry = of_release(|release, name| release == name).or_else(|| of_release(begins));
        let entry = entry.ok_or_else(|| PlanError::NoSuchKernel {
            name: name.clone(),
            known: releases(boot),
        })?;
        return Ok((entry.clone(), reason));
    }
    if request.is_same {
        if running.release.is_empty() {
            return Err(PlanError::NothingRuns);
        }
        let found = boot
            .entries
            .iter()
            .filter(|it| it.kind != Kind::Other && it.release == running.release);
        let entry = likeliest(boot, running, found.collect());
        let entry = entry.ok_or_else(|| PlanError::RunningIsGone(running.release.clone()))?;
        return Ok((
            entry.clone(),
            format!("--same asks for the running kernel {}", running.release),
        ));
    }
    let Some(next) = &boot.next else {
        let reasons = match &boot.notes[..] {
            [] => vec![boot.reason.clone()],
            notes => notes.to_vec(),
        };
        return Err(PlanError::NothingIsNext {
            reasons,
            has_entries: !boot.entries.is_empty(),
        });
    };
    let reason = match boot.loader {
        Loader::None => next.reason.clone(),
        loader => format!("{} starts it next: {}", loader.name(), next.reason),
    };
    Ok((boot.entries[next.entry].clone(), reason))
}

/// Of entries with one kernel that with the running command line, else the next one, else the first
/// one that can be started.
fn likeliest<'a>(
    boot: &BootEntries,
    running: &Running,
    found: Vec<&'a Entry>,
) -> Option<&'a Entry> {
    let current = without_loader_words(&running.cmdline);
    let next = boot.next.as_ref().map(|next| &boot.entries[next.entry].id);
    let tests: [&dyn Fn(&Entry) -> bool; 3] = [
        &|it| it.is_bootable() && it.options == current && it.number.is_some(),
        &|it| it.is_bootable() && Some(&it.id) == next,
        &Entry::is_bootable,
    ];
    let best = tests
        .iter()
        .find_map(|test| found.iter().find(|it| test(it)));
    best.or(found.first()).copied()
}

/// The entry that is called so: by its identifier, its number, or its title.
fn named<'a>(boot: &'a BootEntries, name: &str) -> Result<&'a Entry, PlanError> {
    let tests: [&dyn Fn(&Entry) -> bool; 5] = [
        &|it| it.id == name,
        &|it| it.number.as_deref() == Some(name),
        &|it| it.full_title() == name,
        &|it| it.title == name,
        &|it| it.id.strip_suffix(".conf") == Some(name),
    ];
    for test in tests {
        let found: Vec<_> = boot.entries.iter().filter(|it| test(it)).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(one),
            _ => {
                return Err(PlanError::Ambiguous {
                    name: name.to_owned(),
                    known: found.iter().map(|it| it.id.clone()).collect(),
                });
            }
        }
    }
    let inside = boot.entries.iter().filter(|it| is_in(it, name));
    let inside: Vec<_> = inside.map(shown).collect();
    let name = name.to_owned();
    Err(match &inside[..] {
        [] => PlanError::NoSuchEntry {
            name,
            known: boot.entries.iter().map(shown).collect(),
        },
        _ => PlanError::Menu {
            name,
            known: inside,
        },
    })
}

/// Whether an entry is in the menu that is called so: by its number, its identifier, or its titles.
fn is_in(entry: &Entry, menu: &str) -> bool {
    let begins = |name: &str| {
        name.strip_prefix(menu)
            .is_some_and(|it| it.starts_with('>'))
    };
    entry.number.as_deref().is_some_and(begins) || begins(&entry.id) || begins(&entry.full_title())
}

/// An entry as it can be named, with its title.
fn shown(entry: &Entry) -> String {
    match &entry.number {
        Some(number) => format!("{number} ({})", entry.title),
        None => entry.id.clone(),
    }
}

/// Whether a release begins with a name whose last number is whole: 6.12 does not begin with 6.1.
fn begins(release: &str, name: &str) -> bool {
    let rest = release.strip_prefix(name);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

fn releases(boot: &BootEntries) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for entry in &boot.entries {
        if !entry.release.is_empty() && !known.contains(&entry.release) {
            known.push(entry.release.clone());
        }
    }
    known
}

/// Words that only one of two command lines has, as often as it has them more.
fn difference(current: &str, next: &str) -> Difference {
    let only = |one: &str, other: &str| {
        let mut rest = words(other);
        let is_only = |word: &&str| match rest.iter().position(|it| it == word) {
            Some(at) => {
                rest.remove(at);
                false
            }
            None => true,
        };
        words(one)
            .into_iter()
            .filter(is_only)
            .map(str::to_owned)
            .collect()
    };
    Difference {
        added: only(next, current),
        removed: only(current, next),
    }
}

#[cfg(test)]
mod tests;
