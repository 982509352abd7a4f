//! Caches of disks.

use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};
use brisk_vm::hardware::{Backend, Class, Device};

use crate::idle::rules::Subject;
use brisk_lint::{Applies, Edit, Findings, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "guest-unsafe-cache",
        applies: Applies::Guest,
        why: "flushes of the guest are ignored: times of work on its disks are too good, and a power \
              cut loses them",
        source: "QEMU: qemu(1), cache of -drive",
        check: unsafe_cache,
    },
    Rule {
        id: "guest-sync-cache",
        applies: Applies::Guest,
        why: "each write waits for the disk, also where the guest asks for no flush",
        source: "QEMU: qemu(1), cache of -drive",
        check: sync_cache,
    },
];

/// Values of `cache` with which each write waits.
const SYNC: [&str; 2] = ["writethrough", "directsync"];
/// The value that brisk writes: the guest's flushes reach the disk, and nothing else waits.
const WRITEBACK: &str = "writeback";

fn disks(subject: &Subject) -> impl Iterator<Item = (&Device, &str)> {
    let disks = subject.hardware.devices(Class::Disk);
    disks.filter_map(|disk| Some((disk, &**disk.properties.get("driver.cache")?)))
}

/// What a drive is called: its identifier, or else its file.
fn named(drive: &Backend) -> &str {
    match &*drive.id {
        "" => drive
            .properties
            .get("file")
            .map_or("without a file", |file| file),
        id => id,
    }
}

fn drives(subject: &Subject) -> impl Iterator<Item = (&Backend, &str)> {
    let drives = subject.hardware.backends.iter();
    let drives = drives.filter(|backend| backend.option == "drive");
    drives.filter_map(|drive| Some((drive, &**drive.properties.get("cache")?)))
}

/// The edit that writes another cache mode where a disk or drive is.
fn edit(subject: &Subject, disk: Option<&Device>, drive: Option<&Backend>) -> Edit {
    let mut edit = Edit::of(&subject.hardware);
    if let Some(start) = disk.and_then(|disk| disk.place.start()) {
        let path = Path::at("disk", start).below("driver");
        edit = edit.exact_xml(XmlChange::Set {
            path,
            attribute: "cache",
            value: WRITEBACK.into(),
        });
    }
    if let Some(words) = drive.and_then(|drive| drive.place.words()) {
        edit = edit.exact(ArgumentChange::Set {
            word: words.end - 1,
            key: "cache",
            value: WRITEBACK.into(),
        });
    }
    edit
}

fn unsafe_cache(subject: &Subject, findings: &mut Findings) {
    let what = |name: &str| format!("disk {name} has cache=unsafe");
    for (disk, _) in disks(subject).filter(|(_, cache)| *cache == "unsafe") {
        let edit = edit(subject, Some(disk), None);
        findings.at(disk.place.clone(), Severity::High, what(disk.label()), edit);
    }
    for (drive, _) in drives(subject).filter(|(_, cache)| *cache == "unsafe") {
        let edit = edit(subject, None, Some(drive));
        findings.at(
            drive.place.clone(),
            Severity::High,
            what(named(drive)),
            edit,
        );
    }
    for node in subject
        .hardware
        .backends
        .iter()
        .filter(|backend| backend.option == "blockdev")
    {
        let key = "cache.no-flush";
        let is_on = |value: &String| matches!(&**value, "on" | "true");
        let Some(words) = node
            .place
            .words()
            .filter(|_| node.properties.get(key).is_some_and(is_on))
        else {
            continue;
        };
        let edit = Edit::of(&subject.hardware).exact(ArgumentChange::Unset {
            word: words.end - 1,
            key,
        });
        findings.at(node.place.clone(), Severity::High, what(&node.id), edit);
    }
}

fn sync_cache(subject: &Subject, findings: &mut Findings) {
    let what = |name: &str, cache: &str| format!("disk {name} has cache={cache}");
    for (disk, cache) in disks(subject).filter(|(_, cache)| SYNC.contains(cache)) {
        let edit = edit(subject, Some(disk), None).on_request();
        let what = what(disk.label(), cache);
        findings.at(disk.place.clone(), Severity::Medium, what, edit);
    }
    for (drive, cache) in drives(subject).filter(|(_, cache)| SYNC.contains(cache)) {
        let edit = edit(subject, None, Some(drive)).on_request();
        findings.at(
            drive.place.clone(),
            Severity::Medium,
            what(named(drive), cache),
            edit,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use brisk_vm::hardware::Place;

    use super::*;

    #[test]
    fn a_drive_without_an_identifier_is_called_by_its_file() {
        let drive = |id: &str| Backend {
            option: "drive".into(),
            id: id.into(),
            properties: BTreeMap::from([("file".into(), "disk.img".into())]),
            place: Place::default(),
        };
        assert_eq!(named(&drive("")), "disk.img");
        assert_eq!(named(&drive("hd")), "hd");
    }
}
