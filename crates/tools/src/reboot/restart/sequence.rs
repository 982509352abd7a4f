//! Steps of a restart, each undone if a later one fails. Pure: a [`Host`] does them.

use super::record::{Restart, Stage, Way};

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Loads the kernel.
    Load,
    /// Suspends VMs.
    Vms,
    /// Releases GPUs.
    Quiesce,
    /// Arms the watchdog.
    Arm,
    /// Consumes the one-shot choice of the boot loader.
    Once,
    /// Has systemd restart the machine.
    Restart,
}

impl Step {
    /// What it does, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Load => "load the kernel",
            Self::Vms => "suspend VMs",
            Self::Quiesce => "release GPUs",
            Self::Arm => "arm the watchdog",
            Self::Once => "consume the one-shot choice of the boot loader",
            Self::Restart => "have systemd restart the machine",
        }
    }

    /// What undoing it does, for people.
    #[must_use]
    pub const fn undoing(self) -> &'static str {
        match self {
            Self::Load => "unload the kernel",
            Self::Vms => "resume VMs",
            Self::Quiesce => "give GPUs back",
            Self::Arm => "disarm the watchdog",
            Self::Once => "restore the one-shot choice of the boot loader",
            Self::Restart => "cancel the restart",
        }
    }

    const fn stage(self) -> Stage {
        match self {
            Self::Load => Stage::Load,
            Self::Vms => Stage::Vms,
            Self::Quiesce => Stage::Quiesce,
            Self::Arm => Stage::Arm,
            Self::Once => Stage::Once,
            Self::Restart => Stage::Restart,
        }
    }
}

/// Steps of a way, in their order.
///
/// The kernel is loaded first: that is the best check there is. Loading needs memory in one piece,
/// and where there is none it is tried again after VMs and GPUs have given theirs back. The one-shot
/// choice is consumed last: until then a power cut leaves it as it was.
#[must_use]
pub const fn steps(way: Way) -> &'static [Step] {
    match way {
        Way::Warm => &[
            Step::Load,
            Step::Vms,
            Step::Quiesce,
            Step::Arm,
            Step::Once,
            Step::Restart,
        ],
        Way::Cold => &[Step::Vms, Step::Restart],
    }
}

/// What does the steps.
pub trait Host {
    /// Writes the restart to the disk.
    ///
    /// # Errors
    /// Text of the reason.
    fn save(&mut self, restart: &Restart) -> Result<(), String>;

    /// Forgets the restart.
    ///
    /// # Errors
    /// Text of the reason.
    fn forget(&mut self) -> Result<(), String>;

    /// Does a step. It may add to the restart what it has done.
    ///
    /// # Errors
    /// The reason; what was done of the step is undone by [`Self::undo`].
    fn take(&mut self, step: Step, restart: &mut Restart) -> Result<(), Refused>;

    /// Undoes a step that was done, or begun.
    ///
    /// # Errors
    /// What could not be undone.
    fn undo(&mut self, step: Step, restart: &Restart) -> Result<(), String>;

    /// Whether the restart is no longer wanted.
    fn is_cancelled(&self) -> bool;

    /// Shows a line of progress, such as the step that begins.
    fn tell(&mut self, text: &str);
}

/// Reason why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// There is no memory for the kernel in one piece.
    NoMemory(String),
    /// Another reason.
    Reason(String),
}

/// A restart that did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed; none if it was cancelled, or could not be written down.
    pub step: Option<Step>,
    /// Why.
    pub reason: String,
    /// What could not be undone.
    pub left: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            Some(step) => write!(f, "could not {}: {}", step.text(), self.reason)?,
            None => f.write_str(&self.reason)?,
        }
        match &self.left[..] {
            [] => f.write_str("; the machine is as it was before"),
            left => write!(
                f,
                "; not undone: {}; brisk reboot undo tries that again",
                left.join("; ")
            ),
        }
    }
}

/// Takes all steps. After the last one the machine goes down.
///
/// # Errors
/// The step that failed; the steps before it, and what was done of it, are undone, the last one
/// first.
pub fn run(restart: &mut Restart, host: &mut dyn Host) -> Result<(), Failure> {
    let mut taken = Vec::new();
    let mut is_load_put_off = false;
    let mut rest: Vec<Step> = steps(restart.way).iter().rev().copied().collect();
    rest.retain(|step| *step != Step::Once || restart.once.is_some());
    while let Some(step) = rest.pop() {
        if host.is_cancelled() {
            return Err(back(restart, host, &taken, None, "cancelled".to_owned()));
        }
        // Written before the step: what is on the disk is never less than what was done.
        restart.stage = restart.stage.max(step.stage());
        if let Err(reason) = host.save(restart) {
            return Err(back(restart, host, &taken, None, reason));
        }
        host.tell(step.text());
        // What was put off is undone when what came before it is not yet.
        taken.retain(|one| *one != step);
        taken.push(step);
        match host.take(step, restart) {
            Ok(()) => {}
            Err(Refused::NoMemory(reason)) if step == Step::Load && !is_load_put_off => {
                host.tell(&format!(
                    "{reason}; once more after VMs and GPUs gave theirs back"
                ));
                is_load_put_off = true;
                let at = rest.iter().position(|step| *step == Step::Arm).unwrap_or(0);
                rest.insert(at + 1, Step::Load);
            }
            Err(Refused::NoMemory(reason) | Refused::Reason(reason)) => {
                return Err(back(restart, host, &taken, Some(step), reason));
            }
        }
    }
    Ok(())
}

/// Undoes steps.
fn back(
    restart: &Restart,
    host: &mut dyn Host,
    taken: &[Step],
    step: Option<Step>,
    reason: String,
) -> Failure {
    let mut left = Vec::new();
    for step in taken.iter().rev() {
        host.tell(step.undoing());
        if let Err(reason) = host.undo(*step, restart) {
            left.push(format!("{}: {reason}", step.undoing()));
        }
    }
    if left.is_empty() {
        left.extend(host.forget().err());
    }
    Failure { step, reason, left }
}

#[cfg(test)]
mod tests {
    use brisk_host::boot_entries::Once;

    use super::*;
    use crate::reboot::restart::samples;

    fn restart(way: Way) -> Restart {
        Restart {
            once: Some(Once::Variable {
                file: "/variable".into(),
                content: Vec::new(),
            }),
            ..samples::restart(way, Stage::Begun)
        }
    }

    /// A machine on which one call fails.
    #[derive(Default)]
    struct Machine {
        /// Number of the call that fails, from 0.
        fails: Option<usize>,
        /// Whether it fails for want of memory, the first time only.
        memory: bool,
        /// Step that cannot be undone.
        stuck: Option<Step>,
        /// Number of steps before it is cancelled.
        cancelled: Option<usize>,
        calls: usize,
        /// Steps whose effect is there.
        done: Vec<Step>,
        /// Most that was written down.
        stage: Option<Stage>,
        log: Vec<String>,
    }

    impl Machine {
        fn call(&mut self) -> Result<(), String> {
            let fails = self.fails == Some(self.calls);
            self.calls += 1;
            if fails { Err("no".to_owned()) } else { Ok(()) }
        }
    }

    impl Host for Machine {
        fn save(&mut self, restart: &Restart) -> Result<(), String> {
            self.call()?;
            self.stage = Some(restart.stage);
            Ok(())
        }

        fn forget(&mut self) -> Result<(), String> {
            self.stage = None;
            Ok(())
        }

        fn take(&mut self, step: Step, _: &mut Restart) -> Result<(), Refused> {
            assert!(
                self.stage >= Some(step.stage()),
                "{step:?} before it was written down"
            );
            // What fails may have had its effect.
            self.done.retain(|one| *one != step);
            self.done.push(step);
            if step == Step::Load && std::mem::take(&mut self.memory) {
                return Err(Refused::NoMemory("no memory".to_owned()));
            }
            self.call().map_err(Refused::Reason)
        }

        fn undo(&mut self, step: Step, _: &Restart) -> Result<(), String> {
            assert_eq!(self.done.pop(), Some(step), "the last one first");
            match self.stuck {
                Some(stuck) if stuck == step => Err("stuck".to_owned()),
                _ => Ok(()),
            }
        }

        fn is_cancelled(&self) -> bool {
            self.cancelled.is_some_and(|steps| self.done.len() >= steps)
        }

        fn tell(&mut self, text: &str) {
            self.log.push(text.to_owned());
        }
    }

    #[test]
    fn all_steps_are_taken_in_their_order() {
        for way in [Way::Warm, Way::Cold] {
            let mut machine = Machine::default();
            let mut restart = restart(way);
            run(&mut restart, &mut machine).unwrap();
            assert_eq!(machine.done, steps(way));
            assert_eq!(machine.stage, Some(Stage::Restart));
        }
    }

    #[test]
    fn without_a_choice_none_is_consumed() {
        let mut machine = Machine::default();
        let mut restart = samples::restart(Way::Warm, Stage::Begun);
        run(&mut restart, &mut machine).unwrap();
        assert!(!machine.done.contains(&Step::Once));
        assert!(!machine.log.join(" ").contains("one-shot"));
    }

    #[test]
    fn whatever_fails_all_is_undone() {
        for way in [Way::Warm, Way::Cold] {
            // Each step is a call for writing and one for doing.
            let calls = 2 * steps(way).len();
            for call in 0..calls {
                let mut machine = Machine {
                    fails: Some(call),
                    ..Machine::default()
                };
                let failure = run(&mut restart(way), &mut machine).unwrap_err();
                assert_eq!(machine.done, [], "{call}");
                assert_eq!(machine.stage, None, "{call}");
                let step = (call % 2 == 1).then(|| steps(way)[call / 2]);
                assert_eq!((failure.step, &*failure.reason), (step, "no"));
                assert!(failure.left.is_empty());
            }
        }
    }

    #[test]
    fn what_is_not_undone_is_not_forgotten() {
        let mut machine = Machine {
            stuck: Some(Step::Vms),
            cancelled: Some(3),
            ..Machine::default()
        };
        let failure = run(&mut restart(Way::Warm), &mut machine).unwrap_err();
        assert_eq!(failure.left, ["resume VMs: stuck"]);
        // The other steps are undone all the same.
        assert_eq!(machine.done, []);
        assert_eq!(machine.stage, Some(Stage::Quiesce));
    }

    #[test]
    fn a_restart_can_be_cancelled_before_each_step() {
        for steps in 0..6 {
            let mut machine = Machine {
                cancelled: Some(steps),
                ..Machine::default()
            };
            let failure = run(&mut restart(Way::Warm), &mut machine).unwrap_err();
            assert_eq!(machine.done, [], "{steps}");
            assert_eq!(
                failure.to_string(),
                "cancelled; the machine is as it was before"
            );
        }
    }

    #[test]
    fn loading_is_tried_again_when_others_gave_their_memory_back() {
        let mut machine = Machine {
            memory: true,
            ..Machine::default()
        };
        run(&mut restart(Way::Warm), &mut machine).unwrap();
        assert_eq!(
            machine.done,
            [
                Step::Vms,
                Step::Quiesce,
                Step::Load,
                Step::Arm,
                Step::Once,
                Step::Restart
            ]
        );
    }

    #[test]
    fn a_load_that_is_put_off_is_undone_whatever_fails() {
        // Writing of the load that is put off, and both calls of all steps.
        for call in 0..13 {
            let mut machine = Machine {
                memory: true,
                fails: Some(call),
                ..Machine::default()
            };
            let failure = run(&mut restart(Way::Warm), &mut machine).unwrap_err();
            assert_eq!((&*failure.reason, &failure.left[..]), ("no", &[][..]));
            assert_eq!(machine.done, [], "{call}");
            assert_eq!(machine.stage, None, "{call}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_said() {
        let failure = Failure {
            step: Some(Step::Quiesce),
            reason: "i915 is held by Xorg".to_owned(),
            left: vec!["resume VMs: web: no memory".to_owned()],
        };
        assert_eq!(
            failure.to_string(),
            "could not release GPUs: i915 is held by Xorg; not undone: resume VMs: web: no memory; \
             brisk reboot undo tries that again"
        );
    }
}
