//! Backups in a directory: what is kept, found and refused.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// One that was added: with a number, and of a batch if it is of one.
fn added(before: &str) -> Backup {
    Backup {
        sequence: 1,
        ..backup(before)
    }
}

fn backup(before: &str) -> Backup {
    Backup::new("qemu:///session", "u-1", "web", "now".into(), before.into())
}

#[test]
fn the_last_backup_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("idle");
    let backups = Backups::open_in(&dir).unwrap();
    assert_eq!(backups.last("u-1").unwrap(), None);
    let first = backups.add(&backup("a")).unwrap();
    for number in 2..=11 {
        backups.add(&backup(&format!("b{number}"))).unwrap();
    }
    let Kept { path, backup: last } = backups.last("u-1").unwrap().unwrap();
    assert_eq!(last, added("b11"));
    assert_eq!(backups.last("u-2").unwrap(), None);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&path)), (0o700, 0o600));
    for _ in 2..=11 {
        let last = backups.last("u-1").unwrap().unwrap();
        backups.remove(&last.path).unwrap();
    }
    assert_eq!(backups.last("u-1").unwrap().unwrap().path, first);
}

fn of(name: &str, time: &str) -> Backup {
    let uuid = format!("u-{name}");
    Backup::new("qemu:///session", &uuid, name, time.into(), String::new())
}

fn names(batch: &Batch) -> Vec<String> {
    let name = |kept: &Kept| format!("{} {}", kept.backup.name, kept.backup.time);
    batch.kept.iter().map(name).collect()
}

/// As the next process would.
fn again(backups: Backups) -> Backups {
    let dir = backups.dir.clone();
    drop(backups);
    Backups::open_in(&dir).unwrap()
}

#[test]
fn what_was_changed_together_is_found_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut backups = Backups::open_in(dir.path()).unwrap();
    backups.add(&of("alone", "3")).unwrap();
    assert_eq!(names(&backups.last_batch().unwrap()), [""; 0]);
    // The clock went back in between.
    for (time, guests) in [("9", ["web", "old"]), ("2", ["web", "db"])] {
        backups = again(backups);
        backups.begin_batch(time);
        for name in guests {
            backups.add(&of(name, time)).unwrap();
        }
    }
    backups = again(backups);
    backups.add(&of("db", "4")).unwrap();
    assert_eq!(names(&backups.last_batch().unwrap()), ["db 2", "web 2"]);
    // The one before comes next.
    for key in ["u-web", "u-db", "u-db"] {
        let last = backups.last(key).unwrap().unwrap();
        backups.remove(&last.path).unwrap();
    }
    assert_eq!(names(&backups.last_batch().unwrap()), ["old 9", "web 9"]);
}

#[test]
fn files_without_a_number_are_older_than_those_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut backups = Backups::open_in(dir.path()).unwrap();
    for (time, batch) in [
        ("2026-01-01", "2026-01-01 7"),
        ("2030-01-01", "2030-01-01 8"),
    ] {
        let old = of("old", time);
        let path = backups.add(&old).unwrap();
        let mut value = serde_json::to_value(&old).unwrap();
        let fields = value.as_object_mut().unwrap();
        fields.remove("sequence");
        fields.insert("batch".into(), batch.into());
        fs::write(path, value.to_string()).unwrap();
    }
    assert_eq!(names(&backups.last_batch().unwrap()), ["old 2030-01-01"]);
    backups = again(backups);
    backups.begin_batch("2027-01-01");
    backups.add(&of("web", "2027-01-01")).unwrap();
    assert_eq!(names(&backups.last_batch().unwrap()), ["web 2027-01-01"]);
}

#[test]
fn what_is_damaged_leaves_the_others() {
    use std::os::unix::fs::symlink;

    let dir = tempfile::tempdir().unwrap();
    let mut backups = Backups::open_in(dir.path()).unwrap();
    backups.begin_batch("1");
    let path = backups.add(&of("web", "1")).unwrap();
    let bad = |key: &str| {
        let place = dir.path().join(key);
        fs::create_dir(&place).unwrap();
        place.join("1.json")
    };
    fs::write(bad("u-empty"), "{}").unwrap();
    // It would be restored twice.
    fs::copy(&path, bad("u-copy")).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, bad("u-fifo"), fifo, mode, 0).unwrap();
    symlink("/dev/zero", bad("u-zero")).unwrap();
    let long = File::create(bad("u-long")).unwrap();
    long.set_len(LARGEST + 1).unwrap();
    symlink("nowhere", dir.path().join("u-link")).unwrap();
    let batch = backups.last_batch().unwrap();
    assert_eq!(names(&batch), ["web 1"]);
    let told: Vec<_> = batch.damaged.iter().map(ToString::to_string).collect();
    let keys = ["copy", "empty", "fifo", "link", "long", "zero"];
    assert_eq!(told.len(), keys.len(), "{told:?}");
    for (key, told) in keys.iter().zip(&told) {
        assert!(told.contains(&format!("/u-{key}")), "{told}");
    }
    // A new one can be kept all the same, and a directory be elsewhere.
    backups.add(&of("db", "1")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().join("web");
    fs::rename(dir.path().join("u-web"), &place).unwrap();
    symlink(&place, dir.path().join("u-web")).unwrap();
    assert_eq!(names(&backups.last_batch().unwrap()), ["db 1", "web 1"]);
}

#[test]
fn only_numbers_as_they_are_written_name_backups() {
    for (name, expected) in [
        ("1.json", Some(1)),
        ("4294967295.json", Some(u32::MAX)),
        ("+2.json", None),
        ("02.json", None),
        ("0.json", None),
        (".json", None),
        ("4294967296.json", None),
        ("1.gone-1", None),
        ("\u{664}.json", None),
    ] {
        assert_eq!(number(name), expected, "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let backups = Backups::open_in(dir.path()).unwrap();
    let path = backups.add(&backup("a")).unwrap();
    fs::rename(&path, path.with_file_name("4294967295.json")).unwrap();
    let error = backups.add(&backup("b")).unwrap_err().to_string();
    assert!(
        error.contains("4294967295.json has the greatest number"),
        "{error}"
    );
    let last = Backup {
        sequence: u64::MAX,
        ..backup("c")
    };
    fs::write(&path, serde_json::to_vec(&last).unwrap()).unwrap();
    let error = again(backups).add(&of("web", "1")).unwrap_err().to_string();
    assert!(error.contains("1.json has the greatest number"), "{error}");
}

#[test]
fn what_is_put_aside_is_kept_and_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let backups = Backups::open_in(dir.path()).unwrap();
    for text in ["a", "b"] {
        let path = backups.add(&backup(text)).unwrap();
        let aside = backups.put_aside(&path).unwrap();
        assert!(fs::read_to_string(aside).unwrap().contains(text));
        assert_eq!(backups.last("u-1").unwrap(), None);
    }
    assert_eq!(fs::read_dir(dir.path().join("u-1")).unwrap().count(), 2);
}

#[test]
fn what_others_can_change_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let idle = dir.path().join("idle");
    let backups = Backups::open_in(&idle).unwrap();
    let path = backups.add(&backup("a")).unwrap();
    let set_mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let guest = path.parent().unwrap();
    set_mode(guest, 0o777);
    for error in [
        backups.last("u-1").unwrap_err(),
        backups.add(&backup("b")).unwrap_err(),
        backups.last_batch().unwrap().damaged.remove(0),
    ] {
        assert!(matches!(error, Error::Unsafe { .. }), "{error}");
    }
    set_mode(guest, 0o755);
    assert!(backups.last("u-1").is_ok());
    if rustix::process::geteuid().is_root() {
        for place in [guest, &path] {
            std::os::unix::fs::chown(place, Some(12345), None).unwrap();
            let error = backups.last("u-1").unwrap_err();
            let error =
                std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
            assert!(error.contains("belongs to user 12345"), "{error}");
            std::os::unix::fs::chown(place, Some(0), None).unwrap();
        }
    }
    drop(backups);
    set_mode(&idle, 0o777);
    let error = Backups::open_in(&idle).unwrap_err().to_string();
    assert!(error.contains("idle is writable for all users"), "{error}");
}

#[test]
fn only_one_brisk_changes_domains() {
    let dir = tempfile::tempdir().unwrap();
    let one = Backups::open_in(dir.path()).unwrap();
    assert!(matches!(Backups::open_in(dir.path()), Err(Error::Busy)));
    drop(one);
    assert!(Backups::open_in(dir.path()).is_ok());
}

#[test]
fn other_files_are_no_backups() {
    let dir = tempfile::tempdir().unwrap();
    let backups = Backups::open_in(dir.path()).unwrap();
    let path = backups.add(&backup("a")).unwrap();
    for text in ["", "{}", "[1]", r#"{"schema":"other"}"#] {
        fs::write(&path, text).unwrap();
        let error = backups.last("u-1").unwrap_err().to_string();
        assert!(error.contains("1.json is no backup"), "{error}");
    }
}
