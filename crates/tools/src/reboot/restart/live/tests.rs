//! Steps that are undone, by fakes of VMs and GPUs.

use brisk_host::boot_entries::{Change, Once};

use super::*;
use crate::reboot::restart::samples;

/// Number of times that something was put back, or would have been but fails.
#[derive(Default)]
struct Counted(usize, bool, usize);

impl Vms for Counted {
    fn suspend(&mut self, _: &mut dyn FnMut(&str)) -> Result<Vec<String>, String> {
        unreachable!("nothing is to be done")
    }

    fn away(&self) -> Vec<String> {
        unreachable!("nothing is to be done")
    }

    fn resume(&mut self, others: &[String]) -> Result<(), String> {
        assert_eq!(others, ["old"]);
        self.0 += 1;
        match self.1 {
            true => Err("web: no memory".to_owned()),
            false => Ok(()),
        }
    }

    fn write_kept(&mut self) -> Result<(), String> {
        self.2 += 1;
        Ok(())
    }
}

impl Devices for Counted {
    fn release(&mut self, _: &mut dyn FnMut(&str)) -> Result<(), String> {
        unreachable!("nothing is to be done")
    }

    fn give_back(&mut self) -> Result<(), String> {
        self.0 += 1;
        Ok(())
    }
}

/// A machine that may go down.
fn host<'a>(
    store: &Store,
    (vms, devices): (&'a mut Counted, &'a mut Counted),
    going_down: &'a dyn Fn() -> Option<bool>,
    tell: &'a mut dyn FnMut(&str),
) -> Live<'a> {
    Live {
        store: store.clone(),
        target: None,
        checked: None,
        older_call: false,
        vms,
        devices,
        cancelled: &|| false,
        going_down,
        tell,
    }
}

/// A restart of this boot, or of another one, that came as far as this.
fn restart(boot: &str, stage: Stage) -> Restart {
    Restart {
        from: Boot {
            id: boot.to_owned(),
            ..Boot::default()
        },
        away_before: vec!["old".to_owned()],
        ..samples::restart(Way::Cold, stage)
    }
}

#[test]
fn nothing_is_started_again_on_a_machine_that_goes_down() {
    let now = Boot::read(Path::new("/")).id;
    for (boot, stage, going_down, undone) in [
        (&*now, Stage::Restart, Some(false), Ok(true)),
        (&*now, Stage::Vms, Some(false), Ok(true)),
        // logind still waits for programs that delay it, or somebody else has asked.
        (&*now, Stage::Restart, Some(true), Ok(false)),
        (&*now, Stage::Vms, Some(true), Ok(false)),
        // systemd does not answer, and was asked or was not.
        (&*now, Stage::Restart, None, Ok(false)),
        (&*now, Stage::Vms, None, Ok(true)),
        ("another", Stage::Vms, Some(false), Ok(false)),
    ] {
        let says = going_down;
        let going_down = going_down.unwrap_or(stage == Stage::Restart);
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        store.set_pending(&restart(boot, stage)).unwrap();
        let (mut vms, mut devices) = (Counted::default(), Counted::default());
        let mut tell = |_: &str| {};
        let answer = || says;
        let mut host = host(&store, (&mut vms, &mut devices), &answer, &mut tell);
        assert_eq!(undo_leftovers(&mut host), undone);
        // Memory in RAM alone would be lost by another restart.
        let written = usize::from(going_down && stage == Stage::Vms);
        // So does a restart that is cancelled because its unit is stopped.
        let left = host.undo(Step::Vms, &restart(boot, stage));
        assert_eq!(left.is_err(), going_down);
        host.undo(Step::Quiesce, &restart(boot, stage)).unwrap();
        let is_undone = undone == Ok(true);
        assert_eq!(store.pending().is_none(), is_undone);
        let times = usize::from(is_undone) + usize::from(!going_down);
        assert_eq!((vms.0, devices.0), (times, usize::from(!going_down)));
        assert_eq!(vms.2, written + usize::from(going_down));
    }
}

/// A choice in an environment block in a directory, and what is in the block.
fn chosen_once(dir: &Path) -> (Once, impl Fn() -> String) {
    let file = dir.join("grubenv");
    let text = format!("{:#<1024}", "# GRUB Environment Block\nnext_entry=2\n");
    std::fs::write(&file, text).unwrap();
    let once = Once::Environment {
        file: file.clone(),
        changes: vec![Change {
            name: "next_entry".to_owned(),
            before: "2".to_owned(),
            after: String::new(),
        }],
    };
    let value = move || {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().nth(1).unwrap().to_owned()
    };
    (once, value)
}

#[test]
fn a_one_shot_choice_is_restored_whoever_ends_the_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (once, value) = chosen_once(dir.path());
    let store = Store::new(dir.path().join("store"));
    let now = Boot::read(Path::new("/")).id;
    for (stage, going_down, undone, restored) in [
        (Stage::Once, false, Ok(true), true),
        (Stage::Restart, false, Ok(true), true),
        // Another shutdown, which the choice is for.
        (Stage::Once, true, Ok(false), true),
        // This one goes on.
        (Stage::Restart, true, Ok(false), false),
    ] {
        let mut restart = Restart {
            way: Way::Warm,
            suspends: false,
            releases: false,
            once: Some(once.clone()),
            ..restart(&now, stage)
        };
        store.set_pending(&restart).unwrap();
        let (mut vms, mut devices) = (Counted::default(), Counted::default());
        let (mut tell, answer) = (|_: &str| {}, || Some(going_down));
        let mut host = host(&store, (&mut vms, &mut devices), &answer, &mut tell);
        host.take(Step::Once, &mut restart).unwrap();
        assert_eq!(value(), "next_entry=");
        assert_eq!(undo_leftovers(&mut host), undone, "{stage:?} {going_down}");
        let expected = if restored {
            "next_entry=2"
        } else {
            "next_entry="
        };
        assert_eq!(value(), expected, "{stage:?} {going_down}");
    }
}

#[test]
fn a_choice_that_was_changed_meanwhile_is_neither_consumed_nor_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (once, value) = chosen_once(dir.path());
    once.consume(Path::new("/")).unwrap();
    let (mut vms, mut devices) = (Counted::default(), Counted::default());
    let mut tell = |_: &str| {};
    let store = Store::new(dir.path().join("store"));
    let mut host = host(&store, (&mut vms, &mut devices), &|| Some(false), &mut tell);
    let mut restart = Restart {
        once: Some(once),
        ..restart("", Stage::Once)
    };
    let refused = host.take(Step::Once, &mut restart).unwrap_err();
    assert!(matches!(refused, Refused::Reason(text) if text.contains("changed meanwhile")));
    host.undo(Step::Once, &restart).unwrap();
    assert_eq!(value(), "next_entry=");
}

#[test]
fn what_others_did_is_not_undone() {
    let (mut vms, mut devices) = (Counted::default(), Counted::default());
    let dir = tempfile::tempdir().unwrap();
    let mut tell = |_: &str| {};
    let mut host = host(
        &Store::new(dir.path()),
        (&mut vms, &mut devices),
        &|| Some(false),
        &mut tell,
    );
    let mut restart = Restart {
        suspends: false,
        releases: false,
        ..restart("", Stage::Arm)
    };
    for step in [Step::Vms, Step::Quiesce] {
        assert_eq!(host.take(step, &mut restart), Ok(()));
        host.undo(step, &restart).unwrap();
    }
    assert_eq!((vms.0, vms.2, devices.0), (0, 0, 0));
}

#[test]
fn systemd_is_asked_until_it_answers() {
    let asked = std::cell::Cell::new(0);
    let ask = |answer_at: u32| {
        asked.set(0);
        let asked = &asked;
        move || {
            asked.set(asked.get() + 1);
            (asked.get() == answer_at).then_some(true)
        }
    };
    assert_eq!(answer(&ask(2), 3), Some(true));
    assert_eq!(asked.get(), 2);
    assert_eq!(answer(&ask(2), 1), None);
}

#[test]
fn what_cannot_be_undone_can_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let now = Boot::read(Path::new("/")).id;
    store.set_pending(&restart(&now, Stage::Vms)).unwrap();
    for (fails, result) in [
        (true, Err("resume VMs: web: no memory".to_owned())),
        (false, Ok(true)),
        (false, Ok(false)),
    ] {
        let (mut vms, mut devices) = (Counted(0, fails, 0), Counted::default());
        let mut tell = |_: &str| {};
        let mut host = host(&store, (&mut vms, &mut devices), &|| Some(false), &mut tell);
        assert_eq!(undo_leftovers(&mut host), result);
    }
}
