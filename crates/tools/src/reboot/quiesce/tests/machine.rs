//! A machine in memory, which has what a state has, and in which anything can fail.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::reboot::quiesce::state::{Holder, Kind, State, Unit};
use crate::reboot::quiesce::{Action, Bound, Machine, Record, plan};

/// What goes wrong, at one call that does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It fails without an effect.
    Fails,
    /// It fails, and has had its effect.
    FailsLate,
    /// It has no effect, and does not say so.
    NoEffect,
    /// A signal comes before.
    Signal,
    /// The process is killed before the effect.
    KilledBefore,
    /// The process is killed after the effect.
    KilledAfter,
    /// What was done is not written down.
    Unsaved,
    /// Something else puts it back right after.
    PutBack,
    /// Something else puts the first action back, after this one was done.
    FirstPutBack,
}

/// What there is to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    modules: BTreeSet<String>,
    bound: BTreeSet<(String, String)>,
    units: BTreeSet<String>,
    has_console: bool,
}

pub(super) struct Fake {
    state: State,
    processes: Vec<Holder>,
    now: Snapshot,
    directory: TempDir,
    /// Calls that do something, and saves, so far.
    pub(super) calls: usize,
    pub(super) fault: Option<(usize, Fault)>,
    /// Whether nothing can be put back.
    pub(super) is_stuck: bool,
    signal: Option<i32>,
    first: Option<Action>,
}

/// Payload of the panic that stands for SIGKILL.
pub(super) struct Killed;

impl Fake {
    pub(super) fn new(state: &State) -> Self {
        let devices = state.devices.iter();
        let bound = devices.map(|one| (one.address.clone(), one.driver.clone()));
        let units = state.units.iter().filter(|(_, facts)| facts.is_active);
        Self {
            processes: state.holders.clone(),
            now: Snapshot {
                modules: state.modules.iter().map(|one| one.name.clone()).collect(),
                bound: bound.collect(),
                units: units.map(|(name, _)| name.clone()).collect(),
                has_console: state.has_console,
            },
            state: state.clone(),
            directory: tempfile::tempdir().unwrap(),
            calls: 0,
            fault: None,
            is_stuck: false,
            signal: None,
            first: None,
        }
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.now
    }

    pub(super) fn record(&self) -> Option<Record> {
        Record::read(&self.path(), "boot").unwrap()
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("quiesced.json")
    }

    /// A process that is killed and started again knows nothing but what is written down.
    pub(super) fn restarted(&mut self) {
        self.fault = None;
        self.signal = None;
    }

    fn fault(&mut self) -> Option<Fault> {
        self.calls += 1;
        let now = self.fault.filter(|(at, _)| *at == self.calls);
        now.map(|(_, fault)| fault)
    }

    fn effect(&mut self, action: &Action) -> Result<(), String> {
        let holds = |one: &Holder, modules: &[String], devices: &[String]| {
            plan::is_relevant(one, modules, devices)
        };
        match action {
            Action::Stop { units } => {
                for unit in units {
                    assert!(self.now.units.remove(unit), "{unit} was not active");
                }
                let last = self.state.display_manager.as_ref();
                let is_last = last.is_some_and(|last| units.contains(last));
                self.processes.retain(|one| match &one.unit {
                    Some(Unit::Service(name)) => {
                        !(units.contains(name) || is_last && name == "systemd-logind.service")
                    }
                    Some(Unit::Other(name)) => !(is_last && name == "init.scope"),
                    Some(Unit::Session(_) | Unit::User(_)) => !is_last,
                    _ => true,
                });
            }
            Action::End { pid, .. } => self.processes.retain(|one| one.pid != *pid),
            Action::Release { modules, devices } => {
                if let Some(one) = self
                    .processes
                    .iter()
                    .find(|one| holds(one, modules, devices))
                {
                    return Err(plan::describe(one));
                }
            }
            Action::LeaveFramebuffer => self.now.has_console = false,
            Action::Unbind { device } => {
                let address = [device.address.clone()];
                if self.processes.iter().any(|one| holds(one, &[], &address)) {
                    return Err("in use".to_owned());
                }
                self.now.bound.remove(&key(device));
            }
            Action::Unload { module, devices } => self.unload(module, devices)?,
        }
        Ok(())
    }

    /// As the kernel has it.
    fn unload(&mut self, module: &str, devices: &[Bound]) -> Result<(), String> {
        let known = self.state.module(module).unwrap();
        let is_used = known
            .users
            .iter()
            .any(|user| self.now.modules.contains(user));
        let name = [module.to_owned()];
        let is_open = self
            .processes
            .iter()
            .any(|one| plan::is_relevant(one, &name, &[]));
        let of_module = |kind: Kind| {
            let mut all = self.state.devices.iter();
            all.any(|one| one.kind == kind && one.module.as_deref() == Some(module))
        };
        let mut sound = self
            .state
            .devices
            .iter()
            .filter(|one| one.kind == Kind::Sound);
        let is_heard = sound.any(|one| {
            let key = (one.address.clone(), one.driver.clone());
            self.now.bound.contains(&key)
        });
        let is_pinned = of_module(Kind::Gpu) && (is_heard || self.now.has_console);
        if known.is_permanent || is_used || is_open || is_pinned {
            return Err(format!("{module} is in use"));
        }
        self.now.modules.remove(module);
        for device in devices {
            self.now.bound.remove(&key(device));
        }
        Ok(())
    }

    fn restore(&mut self, action: &Action) {
        match action {
            Action::Stop { units } => self.now.units.extend(units.iter().cloned()),
            Action::End { .. } | Action::Release { .. } => {}
            Action::LeaveFramebuffer => self.now.has_console = true,
            Action::Unbind { device } => drop(self.now.bound.insert(key(device))),
            Action::Unload { module, devices } => {
                self.now.modules.insert(module.clone());
                self.now.bound.extend(devices.iter().map(key));
            }
        }
    }
}

fn key(device: &Bound) -> (String, String) {
    (device.address.clone(), device.driver.clone())
}

impl Machine for Fake {
    fn carry_out(&mut self, action: &Action) -> Result<(), String> {
        let first = self.first.get_or_insert_with(|| action.clone()).clone();
        match self.fault() {
            None => self.effect(action),
            Some(Fault::Fails | Fault::Unsaved) => Err("fault".to_owned()),
            Some(Fault::FailsLate) => {
                self.effect(action)?;
                Err("fault".to_owned())
            }
            Some(Fault::NoEffect) => Ok(()),
            Some(Fault::Signal) => {
                self.signal = Some(2);
                Err("interrupted".to_owned())
            }
            Some(Fault::KilledBefore) => std::panic::resume_unwind(Box::new(Killed)),
            Some(Fault::KilledAfter) => {
                self.effect(action)?;
                std::panic::resume_unwind(Box::new(Killed))
            }
            Some(Fault::FirstPutBack) => {
                self.effect(action)?;
                self.restore(&first);
                Ok(())
            }
            Some(Fault::PutBack) => {
                self.effect(action)?;
                self.restore(action);
                Ok(())
            }
        }
    }

    fn put_back(&mut self, action: &Action) -> Result<(), String> {
        if self.is_stuck {
            return Err("stuck".to_owned());
        }
        match self.fault() {
            Some(Fault::KilledBefore) => std::panic::resume_unwind(Box::new(Killed)),
            Some(Fault::KilledAfter) => {
                self.restore(action);
                std::panic::resume_unwind(Box::new(Killed))
            }
            _ => self.restore(action),
        }
        Ok(())
    }

    fn is_done(&mut self, action: &Action) -> bool {
        match action {
            Action::Stop { units } => !units.iter().any(|unit| self.now.units.contains(unit)),
            Action::End { pid, .. } => !self.processes.iter().any(|one| one.pid == *pid),
            Action::Release { modules, devices } => {
                let mut processes = self.processes.iter();
                !processes.any(|one| plan::is_relevant(one, modules, devices))
            }
            Action::LeaveFramebuffer => !self.now.has_console,
            Action::Unbind { device } => !self.now.bound.contains(&key(device)),
            Action::Unload { module, devices } => {
                let mut devices = devices.iter();
                let is_bound = devices.any(|device| self.now.bound.contains(&key(device)));
                !self.now.modules.contains(module) && !is_bound
            }
        }
    }

    fn is_back(&mut self, action: &Action) -> bool {
        match action {
            Action::Release { .. } => true,
            other => !self.is_done(other),
        }
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        match self.fault() {
            Some(Fault::Unsaved) => return Err(io::ErrorKind::StorageFull.into()),
            Some(Fault::KilledBefore) => std::panic::resume_unwind(Box::new(Killed)),
            fault => {
                std::fs::write(self.path(), record.bytes())?;
                if fault == Some(Fault::KilledAfter) {
                    std::panic::resume_unwind(Box::new(Killed));
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        match std::fs::remove_file(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn interrupted(&self) -> Option<i32> {
        self.signal
    }
}
