//! What runs that a reboot would disturb.

use std::path::Path;

use brisk_host::files;
use brisk_sys::is_taken;

/// Locks of package managers, which they hold while they work.
const LOCKS: [(&str, &str); 5] = [
    ("var/lib/dpkg/lock-frontend", "dpkg"),
    ("var/lib/dpkg/lock", "dpkg"),
    ("usr/lib/sysimage/rpm/.rpm.lock", "rpm"),
    ("var/lib/rpm/.rpm.lock", "rpm"),
    ("run/zypp.pid", "zypper"),
];
/// Files that are there while a package manager works.
const MARKS: [(&str, &str); 1] = [("var/lib/pacman/db.lck", "pacman")];
/// Inhibitors that are looked at.
const INHIBITORS: usize = 1024;
/// Bytes of the file of one that are read.
const LONGEST: u64 = 16 << 10;

/// A program that holds a shutdown back (systemd-inhibit(1)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inhibitor {
    /// Name of the program.
    pub who: String,
    /// Its reason.
    pub why: String,
}

/// Programs that a reboot would disturb.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Inhibitors of shutdowns that block, and do not only delay.
    pub inhibitors: Vec<Inhibitor>,
    /// Package managers at work.
    pub packages: Vec<&'static str>,
}

impl Activity {
    pub(super) fn read(root: &Path) -> Self {
        let is_held = |path: &str| {
            let file = files::open(&root.join(path));
            file.is_ok_and(|file| is_taken(&file).unwrap_or(false))
        };
        let locked = LOCKS.iter().filter(|(path, _)| is_held(path));
        let marked = MARKS.iter().filter(|(path, _)| root.join(path).exists());
        let mut packages: Vec<_> = locked.chain(marked).map(|(_, name)| *name).collect();
        packages.dedup();
        Self {
            inhibitors: inhibitors(&root.join("run/systemd/inhibit")),
            packages,
        }
    }
}

fn inhibitors(directory: &Path) -> Vec<Inhibitor> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.take(INHIBITORS).map(|entry| entry.path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_none_or(|end| end != "ref"))
        .collect();
    paths.sort();
    let texts = paths
        .iter()
        .filter_map(|path| files::text_within(path, LONGEST));
    texts.filter_map(|text| inhibitor(&text)).collect()
}

/// A file of systemd-logind's (`inhibitor_save` of `src/login/logind-inhibit.c`). Beside it is a
/// pipe whose name ends in `.ref`.
fn inhibitor(text: &str) -> Option<Inhibitor> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| *key == name);
        found.map_or("", |(_, value)| value)
    };
    let is_shutdown = field("WHAT").split(':').any(|what| what == "shutdown");
    let blocks = field("MODE").starts_with("block");
    (is_shutdown && blocks).then(|| Inhibitor {
        who: field("WHO").to_owned(),
        why: field("WHY").to_owned(),
    })
}
