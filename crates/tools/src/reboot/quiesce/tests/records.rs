//! Records, of which a file may have anything.

use std::fs;

use crate::reboot::quiesce::{Action, Bound, Progress, Record, RecordError};

fn actions() -> Vec<Action> {
    let device = Bound {
        bus: "pci".to_owned(),
        address: "0000:01:00.0".to_owned(),
        driver: "nvidia".to_owned(),
    };
    vec![
        Action::Stop {
            units: vec!["gdm.service".to_owned(), "a.socket".to_owned()],
        },
        Action::End {
            pid: 7,
            start_ticks: 8,
            name: "a\nb".to_owned(),
        },
        Action::Release {
            modules: vec!["nvidia".to_owned()],
            devices: vec![device.address.clone()],
        },
        Action::LeaveFramebuffer,
        Action::Unload {
            module: "nvidia".to_owned(),
            devices: vec![device.clone()],
        },
        Action::Unbind { device },
    ]
}

#[test]
fn what_is_written_is_read_in_the_same_boot() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    assert_eq!(Record::read(&path, "one").unwrap(), None);
    let mut record = Record::new(actions(), "one".to_owned());
    record.entries[0].progress = Progress::Begun;
    fs::write(&path, record.bytes()).unwrap();
    assert_eq!(Record::read(&path, "one").unwrap(), Some(record));
    assert_eq!(Record::read(&path, "another").unwrap(), None);
}

#[test]
fn what_is_no_record_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    let good = String::from_utf8(Record::new(actions(), "one".to_owned()).bytes()).unwrap();
    for (from, to) in [
        ("quiesced/1", "quiesced/2"),
        ("gdm.service", "--force"),
        ("gdm.service", "gdm"),
        ("\"module\": \"nvidia\"", "\"module\": \"../../x\""),
        ("\"module\": \"nvidia\"", "\"module\": \"-r\""),
        ("\"bus\": \"pci\"", "\"bus\": \"..\""),
        ("\"driver\": \"nvidia\"", "\"driver\": \"\""),
        ("0000:01:00.0", "../0000"),
        ("\"boot\"", "\"boots\""),
        ("leave-framebuffer", "leave"),
        ("{", ""),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&path, good.replace(from, to)).unwrap();
        let read = Record::read(&path, "one");
        assert!(matches!(read, Err(RecordError::Form { .. })), "{from} {to}");
    }
    fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
    let error = Record::read(&path, "one").unwrap_err().to_string();
    assert!(error.contains("1 MiB"), "{error}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let read = Record::read(&path, "one");
    assert!(matches!(read, Err(RecordError::Read { .. })));
}
