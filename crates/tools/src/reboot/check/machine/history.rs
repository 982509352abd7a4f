//! Kernels that have run on a machine.

use std::collections::BTreeSet;
use std::path::Path;

use brisk_host::files;
use serde_json::Value;

/// Records of boots, and the older ones (wtmp(5)).
const RECORDS: [&str; 2] = ["var/log/wtmp", "var/log/wtmp.1"];
/// Restarts that brisk has noted, an object in each line. Files beside it are about restarts that may
/// not have happened.
const NOTES: &str = "var/lib/brisk/reboot/history.jsonl";
/// Where an object has releases that ran: of the boot, and of those before and after a restart.
const RELEASES: [&str; 3] = ["/release", "/from/release", "/to/release"];
/// Bytes of a file that are read.
const LONGEST: u64 = 16 << 20;
/// Bytes of a record, and the places of its fields (`struct utmp` of utmp(5), which is as large on
/// 64-bit systems as on 32-bit ones).
const RECORD: usize = 384;
const USER: usize = 44;
const HOST: usize = 76;
const HOST_END: usize = 332;
/// `ut_type` of a boot.
const BOOT_TIME: [u8; 2] = [2, 0];

/// Kernels that have run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Releases as `uname -r` shows them.
    pub releases: BTreeSet<String>,
}

impl History {
    pub(super) fn read(root: &Path) -> Self {
        let mut releases = BTreeSet::new();
        for path in RECORDS {
            let bytes = files::start(&root.join(path), LONGEST).unwrap_or_default();
            releases.extend(bytes.chunks_exact(RECORD).filter_map(booted));
        }
        let notes = files::text_within(&root.join(NOTES), LONGEST).unwrap_or_default();
        releases.extend(notes.lines().flat_map(noted));
        Self { releases }
    }
}

/// Release of a record of a boot, which is its host, as `last reboot` shows it.
fn booted(record: &[u8]) -> Option<String> {
    let is_boot = record[..2] == BOOT_TIME && record[USER..].starts_with(b"reboot\0");
    let host = &record[HOST..HOST_END];
    let end = host.iter().position(|byte| *byte == 0);
    let release = std::str::from_utf8(&host[..end.unwrap_or(host.len())]).ok()?;
    (is_boot && !release.is_empty()).then(|| release.to_owned())
}

/// Releases of a line, as far as it has any.
fn noted(line: &str) -> Vec<String> {
    let note: Value = serde_json::from_str(line).unwrap_or_default();
    let releases = RELEASES.iter().filter_map(|at| note.pointer(at)?.as_str());
    let known = releases.filter(|release| !release.is_empty());
    known.map(str::to_owned).collect()
}

#[cfg(test)]
pub(in crate::reboot::check) fn record(kind: u8, user: &str, host: &str) -> Vec<u8> {
    let mut record = vec![0; RECORD];
    record[0] = kind;
    record[USER..USER + user.len()].copy_from_slice(user.as_bytes());
    record[HOST..HOST + host.len()].copy_from_slice(host.as_bytes());
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_told_from_what_else_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("var/log")).unwrap();
        let records = [
            record(2, "reboot", "6.1.0-1-amd64"),
            record(7, "ada", "10.0.0.2"),
            record(1, "shutdown", "6.1.0-2-amd64"),
            record(2, "reboot", ""),
            record(2, "reboot", "6.1.0-3-amd64"),
        ];
        let mut bytes = records.concat();
        bytes.extend(&record(2, "reboot", "6.1.0-4-amd64")[..RECORD - 1]);
        std::fs::write(dir.path().join("var/log/wtmp"), bytes).unwrap();
        let older = record(2, "reboot", "5.10.0-1-amd64");
        std::fs::write(dir.path().join("var/log/wtmp.1"), older).unwrap();
        let found = History::read(dir.path()).releases;
        let found: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["5.10.0-1-amd64", "6.1.0-1-amd64", "6.1.0-3-amd64"]);
    }

    #[test]
    fn notes_are_read_as_far_as_they_are_some() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join(NOTES);
        std::fs::create_dir_all(notes.parent().unwrap()).unwrap();
        let text = "{\"release\":\"6.1\",\"x\":[1]}\nnot one\n[]\n{\"release\":7}\n{\"release\":\"\"}\n\
                    {\"from\":{\"release\":\"6.2\"},\"to\":{\"release\":\"6.3\"}}";
        std::fs::write(&notes, text).unwrap();
        // That one is still to come.
        std::fs::write(
            notes.with_file_name("pending.json"),
            "{\"release\":\"6.4\"}",
        )
        .unwrap();
        let found = History::read(dir.path()).releases;
        let found: Vec<_> = found.iter().map(String::as_str).collect();
        assert_eq!(found, ["6.1", "6.2", "6.3"]);
    }
}
