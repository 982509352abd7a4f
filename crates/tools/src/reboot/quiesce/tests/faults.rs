//! Whatever fails, and wherever: everything is as it was before.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::machine::{Fake, Fault, Killed};
use super::scene::Scene;
use crate::reboot::quiesce::state::State;
use crate::reboot::quiesce::{Action, Options, Plan, Record, RunError, plan, run, undo};

fn record(plan: &Plan) -> Record {
    Record::new(plan.actions(), "boot".to_owned())
}

/// Scenes that nothing stands against.
fn scenes() -> Vec<Scene> {
    let mut virtio = Scene::virtio();
    virtio.options = Options { force: true };
    let scenes = vec![Scene::nvidia(), Scene::i915(), Scene::amdgpu(), virtio];
    for scene in &scenes {
        assert_eq!(scene.plan().obstacles, []);
    }
    scenes
}

/// Runs a plan with a fault; none if the process was killed.
fn attempt(fake: &mut Fake, plan: &Plan) -> Option<Result<(), RunError>> {
    let mut record = record(plan);
    let result = catch_unwind(AssertUnwindSafe(|| run(&mut record, fake, &mut |_| {})));
    match result {
        Ok(result) => Some(result),
        Err(payload) => {
            assert!(payload.is::<Killed>(), "it panicked by itself");
            None
        }
    }
}

#[test]
fn without_a_fault_everything_is_released_and_put_back() {
    for scene in scenes() {
        let (state, plan) = (scene.state(), scene.plan());
        let mut fake = Fake::new(&state);
        let before = fake.snapshot().clone();
        let mut record = record(&plan);
        run(&mut record, &mut fake, &mut |_| {}).unwrap();
        assert!(record.is_complete());
        assert_eq!(fake.record().as_ref(), Some(&record));
        assert_ne!(fake.snapshot(), &before);
        let undone = undo(&mut record, &mut fake, &mut |_| {});
        assert_eq!(undone.lost, [""; 0]);
        assert_eq!(fake.snapshot(), &before);
        assert_eq!(fake.record(), None);
    }
}

#[test]
fn a_failure_at_any_step_leaves_everything_as_it_was() {
    for scene in scenes() {
        let (state, plan) = (scene.state(), scene.plan());
        let mut whole = Fake::new(&state);
        attempt(&mut whole, &plan).unwrap().unwrap();
        let calls = whole.calls;
        assert!(calls > plan.steps.len());
        for fault in [
            Fault::Fails,
            Fault::FailsLate,
            Fault::NoEffect,
            Fault::Signal,
            Fault::Unsaved,
            Fault::PutBack,
            Fault::FirstPutBack,
            Fault::KilledBefore,
            Fault::KilledAfter,
        ] {
            for at in 1..=calls {
                let mut fake = Fake::new(&state);
                let before = fake.snapshot().clone();
                fake.fault = Some((at, fault));
                let result = attempt(&mut fake, &plan);
                fake.restarted();
                match result {
                    Some(Ok(())) => {
                        // A fault of a call that it does not apply to.
                        let mut record = fake.record().unwrap();
                        assert_eq!(undo(&mut record, &mut fake, &mut |_| {}).lost, [""; 0]);
                    }
                    Some(Err(error)) => {
                        let is_signal = matches!(error, RunError::Interrupted { signal: 2, .. });
                        assert_eq!(is_signal, fault == Fault::Signal, "{error}");
                        assert_eq!(error.undone().lost, [""; 0]);
                    }
                    None => {
                        if let Some(mut record) = fake.record() {
                            assert_eq!(undo(&mut record, &mut fake, &mut |_| {}).lost, [""; 0]);
                        }
                    }
                }
                assert_eq!(fake.snapshot(), &before, "{fault:?} at {at}");
                assert_eq!(fake.record(), None, "{fault:?} at {at}");
            }
        }
    }
}

#[test]
fn what_something_else_puts_back_meanwhile_is_found_at_the_end() {
    let scene = Scene::nvidia();
    let (state, plan) = (scene.state(), scene.plan());
    let mut whole = Fake::new(&state);
    attempt(&mut whole, &plan).unwrap().unwrap();
    let mut fake = Fake::new(&state);
    let before = fake.snapshot().clone();
    // The last call only writes the record.
    fake.fault = Some((whole.calls - 1, Fault::FirstPutBack));
    let error = attempt(&mut fake, &plan).unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot keep to this: stop gdm.service: something else has put it back meanwhile"
    );
    assert_eq!(error.undone().lost, [""; 0]);
    assert_eq!(fake.snapshot(), &before);
}

#[test]
fn a_kill_while_things_are_put_back_is_put_back_by_the_next() {
    for scene in scenes() {
        let (state, plan) = (scene.state(), scene.plan());
        for fault in [Fault::KilledBefore, Fault::KilledAfter] {
            for after in 1..=2 * plan.steps.len() {
                let mut fake = Fake::new(&state);
                let before = fake.snapshot().clone();
                attempt(&mut fake, &plan).unwrap().unwrap();
                fake.fault = Some((fake.calls + after, fault));
                let mut record = fake.record().unwrap();
                let killed = catch_unwind(AssertUnwindSafe(|| {
                    undo(&mut record, &mut fake, &mut |_| {})
                }));
                fake.restarted();
                let left = fake.record();
                assert!(killed.is_ok() || left.is_some());
                if let Some(mut record) = left {
                    undo(&mut record, &mut fake, &mut |_| {});
                }
                assert_eq!(fake.snapshot(), &before, "{fault:?} after {after}");
            }
        }
    }
}

#[test]
fn what_cannot_be_put_back_is_said_and_tried_again() {
    let scene = Scene::nvidia();
    let (state, plan) = (scene.state(), scene.plan());
    let mut fake = Fake::new(&state);
    let before = fake.snapshot().clone();
    let mut record = record(&plan);
    run(&mut record, &mut fake, &mut |_| {}).unwrap();
    fake.is_stuck = true;
    let lost = undo(&mut record, &mut fake, &mut |_| {}).lost;
    assert_eq!(lost[0], "unload nvidia: stuck");
    let waits = plan
        .actions()
        .filter(|one| matches!(one, Action::Release { .. }));
    assert_eq!(lost.len(), plan.steps.len() - waits.count());
    let mut record = fake.record().unwrap();
    assert!(!record.is_complete());
    fake.is_stuck = false;
    assert_eq!(undo(&mut record, &mut fake, &mut |_| {}).lost, [""; 0]);
    assert_eq!(fake.snapshot(), &before);
}

#[test]
fn processes_that_were_ended_are_said() {
    let mut scene = Scene::virtio();
    scene.options = Options { force: true };
    let mut fake = Fake::new(&scene.state());
    let mut record = record(&scene.plan());
    run(&mut record, &mut fake, &mut |_| {}).unwrap();
    let undone = undo(&mut record, &mut fake, &mut |_| {});
    assert_eq!(undone.ended, ["kmscube (PID 77)"]);
    assert_eq!(undone.lost, [""; 0]);
    assert_eq!(fake.record(), None);
}

proptest! {
    /// Modules use those with higher numbers; any of them drive cards.
    #[test]
    fn any_graph_is_unloaded_in_an_order_that_the_kernel_accepts(
        uses in prop::collection::vec(prop::collection::vec(any::<bool>(), 12), 12),
        cards in prop::collection::btree_set(0usize..12, 1..4),
    ) {
        let mut scene = Scene::new();
        let lines: Vec<_> = (0..12).map(|number: usize| {
            let users = (0..number).filter(|user| uses[*user][number]);
            let users: Vec<_> = users.map(|user| format!("m{user},")).collect();
            let list = if users.is_empty() { "-".to_owned() } else { users.concat() };
            format!("m{number} 1 {} {list}", users.len())
        }).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        scene.modules(&lines);
        for card in &cards {
            let (address, name) = (format!("0000:0{card:x}:00.0"), format!("m{card}"));
            scene.device("pci", &address, "0x030000", &name);
            scene.driver("pci", &name, &name);
        }
        let state: State = scene.state();
        let plan = plan(&state, &scene.config, scene.options);
        prop_assert_eq!(&plan.obstacles, &[]);
        prop_assert_eq!(plan.devices.len(), cards.len());
        let mut fake = Fake::new(&state);
        let before = fake.snapshot().clone();
        let mut record = record(&plan);
        let result = run(&mut record, &mut fake, &mut |_| {});
        prop_assert!(result.is_ok(), "{:?}", result);
        let lost = undo(&mut record, &mut fake, &mut |_| {}).lost;
        prop_assert_eq!(lost, [""; 0]);
        prop_assert_eq!(fake.snapshot(), &before);
    }
}
