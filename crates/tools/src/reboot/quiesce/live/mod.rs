//! The running system as a [`Machine`]: systemctl(1), modprobe(8), sysfs and signals.

mod kernel;
mod process;
mod service;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_host::files::{self, Durability};
use brisk_host::proc::Procfs;
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

use super::action::Action;
use super::machine::Machine;
use super::plan::{self, Options, Plan, plan};
use super::record::{Record, RecordError};
use super::state::{State, parse};
use crate::reboot::config::QuiesceConfig;
use brisk_host::interrupt::Interrupt;

/// Name of the record.
const RECORD: &str = "quiesced.json";
/// Time between two looks at something that cannot be waited for otherwise.
const LOOK: Duration = Duration::from_millis(100);
/// Processes that an error names at most.
const MOST_NAMED: usize = 4;

/// Error of the running system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There are no descriptors left.
    #[error("cannot watch for signals")]
    Signals(#[source] io::Error),
    /// systemd says nothing.
    #[error("cannot ask systemd about units: {0}")]
    Systemd(String),
}

/// The running system.
#[derive(Debug)]
pub struct Live {
    root: PathBuf,
    directory: PathBuf,
    boot: String,
    limit: Duration,
    interrupt: Interrupt,
    /// One that nobody sets off, for what has to be put back.
    never: Interrupt,
}

impl Live {
    /// The running system. Records are in `directory`, one step takes `limit` at most, and
    /// `interrupt` ends what is not being put back.
    ///
    /// # Errors
    /// [`LiveError::Signals`].
    pub fn new(directory: &Path, limit: Duration, interrupt: Interrupt) -> Result<Self, LiveError> {
        let boot = Procfs::default().boot_id();
        Ok(Self {
            root: "/".into(),
            directory: directory.to_owned(),
            boot: boot.unwrap_or_default(),
            limit,
            interrupt,
            never: Interrupt::new().map_err(LiveError::Signals)?,
        })
    }

    /// Looks at the system, and at units that the plan depends on; and plans.
    ///
    /// # Errors
    /// [`LiveError::Systemd`].
    pub fn plan(&self, config: &QuiesceConfig, options: Options) -> Result<Plan, LiveError> {
        let mut state = State::read(&self.root);
        let units = plan::units(&state, config);
        if state.has_systemd && !units.is_empty() {
            let show = |units: &[String]| service::show(units, &self.interrupt);
            state.ask(&units, show).map_err(LiveError::Systemd)?;
        }
        Ok(plan(&state, config, options))
    }

    /// The record of this boot, if there is one.
    ///
    /// # Errors
    /// As of [`Record::read`].
    pub fn record(&self) -> Result<Option<Record>, RecordError> {
        Record::read(&self.directory.join(RECORD), &self.boot)
    }

    /// A record of a plan of which nothing is done.
    #[must_use]
    pub fn begin(&self, plan: &Plan) -> Record {
        Record::new(plan.actions(), self.boot.clone())
    }

    /// Waits until something is so, or until the time is over or `interrupt` comes.
    fn wait(
        &self,
        limit: Duration,
        interrupt: &Interrupt,
        mut is_so: impl FnMut() -> bool,
    ) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if is_so() {
                return true;
            }
            if interrupt.came() || Instant::now() >= deadline {
                return false;
            }
            let next = deadline.min(Instant::now() + LOOK);
            let mut fds = [PollFd::new(interrupt, PollFlags::IN)];
            let _ = wait_for(&mut fds, Some(next));
        }
    }

    /// An error with what holds these modules and devices.
    fn held(&self, error: &str, modules: &[String], devices: &[String]) -> String {
        let state = State::read(&self.root);
        let holders = state.holders.iter();
        let holders = holders.filter(|one| plan::is_relevant(one, modules, devices));
        let mut names: Vec<_> = holders.map(plan::describe).collect();
        if names.len() > MOST_NAMED {
            let more = names.len() - MOST_NAMED;
            names.truncate(MOST_NAMED);
            names.push(format!("and {more} more"));
        }
        match names.is_empty() {
            true => format!("{error}; no process is seen that has it open"),
            false => format!("{error}: {}", names.join("; ")),
        }
    }

    /// Whether no process holds any of these.
    fn is_released(&self, modules: &[String], devices: &[String]) -> bool {
        let state = State::read(&self.root);
        let mut holders = state.holders.iter();
        !holders.any(|one| plan::is_relevant(one, modules, devices))
    }

    /// Whether all units are active, or none is.
    fn are_all(&self, units: &[String], active: bool) -> bool {
        let text = service::show(units, &self.never);
        let facts = text.map(|text| parse(&text)).unwrap_or_default();
        let mut units = units.iter().map(|unit| facts.get(unit));
        units.all(|facts| facts.is_some_and(|facts| facts.is_active == active))
    }

    fn release(&self, modules: &[String], devices: &[String]) -> Result<(), String> {
        let is_free = || self.is_released(modules, devices);
        match self.wait(self.limit, &self.interrupt, is_free) {
            true => Ok(()),
            false => {
                let error = format!("not within {} s", self.limit.as_secs());
                Err(self.held(&error, modules, devices))
            }
        }
    }
}

impl Machine for Live {
    fn carry_out(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Stop { units } => service::stop(units, self.limit, &self.interrupt),
            Action::End { .. } => self.end(action),
            Action::Release { modules, devices } => self.release(modules, devices),
            Action::LeaveFramebuffer => self.leave_framebuffer(),
            Action::Unbind { device } => self.unbind(device),
            Action::Unload { module, .. } => self.unload(module),
        }
    }

    fn put_back(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Stop { units } => service::start(units, self.limit, &self.never),
            Action::End { .. } => Err("the process has ended".to_owned()),
            Action::Release { .. } => Ok(()),
            Action::LeaveFramebuffer => self.enter_framebuffer(),
            Action::Unbind { device } => self.bind(device),
            Action::Unload { module, devices } => self.load(module, devices),
        }
    }

    fn is_done(&mut self, action: &Action) -> bool {
        match action {
            Action::Stop { units } => self.are_all(units, false),
            Action::End { .. } => !process::lives(&self.root, action),
            Action::Release { modules, devices } => self.is_released(modules, devices),
            Action::LeaveFramebuffer => !self.is_on_framebuffer(),
            Action::Unbind { device } => !self.is_bound(device),
            Action::Unload { module, devices } => {
                !self.is_loaded(module) && !devices.iter().any(|device| self.is_bound(device))
            }
        }
    }

    fn is_back(&mut self, action: &Action) -> bool {
        match action {
            Action::Stop { units } => self.are_all(units, true),
            Action::End { .. } => process::lives(&self.root, action),
            Action::Release { .. } => true,
            Action::LeaveFramebuffer => self.is_on_framebuffer(),
            Action::Unbind { device } => self.is_bound(device),
            Action::Unload { module, devices } => {
                self.is_loaded(module) && devices.iter().all(|device| self.is_bound(device))
            }
        }
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        let path = self.directory.join(RECORD);
        files::replace(&path, &record.bytes(), Durability::Atomic)
    }

    fn forget(&mut self) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(RECORD))
    }

    fn interrupted(&self) -> Option<i32> {
        self.interrupt.signal()
    }
}

/// An error with its causes in one line: those of programs have several.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let text = brisk_host::chain(error);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.join(" ")
}
