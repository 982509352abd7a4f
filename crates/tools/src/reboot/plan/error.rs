//! Reasons why there is no plan, in words.

use std::path::{Path, PathBuf};

/// Entries that an error names at most.
const MOST_NAMES: usize = 8;

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The boot loader does not say what is next.
    #[error("nothing says which entry is next{}; {}", notes(reasons), instead(*has_entries))]
    NothingIsNext {
        /// Why not, each a sentence without its end.
        reasons: Vec<String>,
        /// Whether there are entries to choose from.
        has_entries: bool,
    },
    /// No entry is called so.
    #[error(
        "no entry is called \"{name}\"{}; {}",
        of_nothing(name),
        entries(known)
    )]
    NoSuchEntry {
        /// What was asked for.
        name: String,
        /// Entries by number and title.
        known: Vec<String>,
    },
    /// A menu of entries is called so.
    #[error(
        "\"{name}\" is a menu, of which one entry is to be chosen: {}",
        list(known)
    )]
    Menu {
        /// What was asked for.
        name: String,
        /// Its entries by number and title.
        known: Vec<String>,
    },
    /// More than one entry is called so.
    #[error(
        "more than one entry is called \"{name}\": {}; give the identifier or the number",
        list(known)
    )]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Identifiers.
        known: Vec<String>,
    },
    /// No kernel of that release is installed.
    #[error("no kernel {name} is installed; {}", kernels(known))]
    NoSuchKernel {
        /// What was asked for.
        name: String,
        /// Releases.
        known: Vec<String>,
    },
    /// No entry has the running kernel.
    #[error(
        "no entry has the running kernel {0}, which may have been removed; leave out --same, or name an image with --kernel"
    )]
    RunningIsGone(String),
    /// The system below the root does not run.
    #[error(
        "--same asks for the running kernel, and this tree has no /proc/sys/kernel/osrelease that says \
         it; leave out --same, or name a kernel with --kernel"
    )]
    NothingRuns,
    /// The image that was named cannot be started.
    #[error("--kernel {name}: {problems}; check the path, or choose one of brisk reboot list")]
    NoImage {
        /// What was asked for.
        name: String,
        /// Problems, in one text.
        problems: String,
    },
    /// The entry starts something else.
    #[error(
        "the entry \"{title}\" starts no Linux kernel{}; choose another one of brisk reboot list with \
         --entry, or a kernel with --kernel",
        but(file)
    )]
    NoLinux {
        /// Title.
        title: String,
        /// What it starts; empty if that is not known.
        file: PathBuf,
    },
    /// Something is wrong with it.
    #[error(
        "\"{title}\" cannot be started: {problems}; choose another one of brisk reboot list with --entry"
    )]
    NotBootable {
        /// Title.
        title: String,
        /// Problems, in one text.
        problems: String,
    },
    /// The kernel has no options of its own.
    #[error("no entry has the kernel {}, so there is no --cmdline entry; try --cmdline running", .0.display())]
    NoOptions(PathBuf),
    /// A unified kernel image has its own initial RAM disk.
    #[error("{} is a unified kernel image, which has its own initial RAM disk; leave out --initrd", .0.display())]
    InitrdOfUki(PathBuf),
    /// There is no such file.
    #[error("the initial RAM disk {} is not there; check the path", .0.display())]
    NoInitrd(PathBuf),
}

fn notes(notes: &[String]) -> String {
    match notes {
        [] => String::new(),
        notes => format!(" ({})", notes.join("; ")),
    }
}

/// Words for a number that no entry has.
fn of_nothing(name: &str) -> &'static str {
    match name.starts_with(|c: char| c.is_ascii_digit()) && name.parse::<u32>().is_ok() {
        true => " that starts something",
        false => "",
    }
}

fn instead(has_entries: bool) -> &'static str {
    match has_entries {
        true => "choose one of brisk reboot list with --entry, or a kernel with --kernel",
        false => "name an image with --kernel, with a / in its path",
    }
}

/// What an entry starts that is no Linux kernel.
fn but(file: &Path) -> String {
    match file.file_name() {
        Some(_) => format!(" but {}", file.display()),
        None => String::new(),
    }
}

fn kernels(known: &[String]) -> String {
    match known {
        [] => "none was found; give the path of an image with a / in it".to_owned(),
        known => format!(
            "there are {}; give one of them, or the path of an image with a / in it",
            list(known)
        ),
    }
}

fn list(names: &[String]) -> String {
    let mut text = names
        .iter()
        .take(MOST_NAMES)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_NAMES {
        text.push_str(", and more");
    }
    text
}

fn entries(names: &[String]) -> String {
    match names {
        [] => "there are none".to_owned(),
        names => format!("there are {}; brisk reboot list shows all", list(names)),
    }
}
