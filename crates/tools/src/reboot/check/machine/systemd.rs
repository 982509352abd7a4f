//! Watchdogs in the configuration of systemd (systemd-system.conf(5)).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brisk_host::files;

/// Where configuration is, the most important first.
const DIRECTORIES: [&str; 4] = [
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
];
/// Drop-ins of a directory that are read.
const DROP_INS: usize = 256;
/// Bytes of a file that are read.
const LONGEST: u64 = 256 << 10;
const RUNTIME: &str = "RuntimeWatchdogSec";
const KEXEC: &str = "KExecWatchdogSec";
/// Settings that are kept.
const KEYS: [&str; 2] = [RUNTIME, KEXEC];

/// Timeouts of the watchdog, as they are written; none where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watchdog {
    /// While the system runs (`RuntimeWatchdogSec=`).
    pub runtime: Option<String>,
    /// Over a kexec (`KExecWatchdogSec=`).
    pub kexec: Option<String>,
}

impl Watchdog {
    pub(super) fn read(root: &Path) -> Self {
        let mut values = BTreeMap::new();
        for path in paths(root) {
            let text = files::text_within(&path, LONGEST).unwrap_or_default();
            settings(&text, &mut values);
        }
        let mut take = |key: &str| values.remove(key).filter(|value| is_on(value));
        Self {
            runtime: take(RUNTIME),
            kexec: take(KEXEC),
        }
    }
}

/// Files in the order in which they are read: the main file, which is the most important one, and
/// drop-ins by name. Of drop-ins with one name the most important is read.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut main = DIRECTORIES
        .iter()
        .map(|dir| root.join(dir).join("system.conf"));
    let mut all: Vec<_> = main.find(|path| path.exists()).into_iter().collect();
    let mut drop_ins = BTreeMap::new();
    for dir in DIRECTORIES.iter().rev() {
        let entries = std::fs::read_dir(root.join(dir).join("system.conf.d"));
        let entries = entries.into_iter().flatten().flatten().take(DROP_INS);
        for path in entries.map(|entry| entry.path()) {
            if path.extension().is_some_and(|end| end == "conf") {
                drop_ins.insert(path.file_name().map(ToOwned::to_owned), path);
            }
        }
    }
    all.extend(drop_ins.into_values());
    all
}

/// Settings of the section `[Manager]`; the last of a name counts, and an empty one is none.
fn settings(text: &str, values: &mut BTreeMap<&'static str, String>) {
    let mut is_manager = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_manager = line == "[Manager]";
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_manager) {
            if let Some(key) = KEYS.iter().find(|one| **one == key.trim()) {
                values.insert(key, value.trim().to_owned());
            }
        }
    }
}

/// Whether a timeout turns the watchdog on.
fn is_on(value: &str) -> bool {
    // A span of systemd.time(7), such as `0min`.
    let is_zero = value.contains('0') && !value.contains(|digit| ('1'..='9').contains(&digit));
    !(value.is_empty() || is_zero || ["off", "no", "infinity"].contains(&value))
}
