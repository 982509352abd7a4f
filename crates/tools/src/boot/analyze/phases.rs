//! Main phases of a boot, which follow each other from the execution of QEMU to its end, by events
//! of brisk and its init.

use brisk_measure::{Clock, Timeline};

use super::clock::Seen;
use super::lines::{self, Line};
use crate::boot::Observation;
use crate::boot::observation::{SCRIPT, SENT};
use crate::boot::running_vm::ASKED;

/// A phase, with its start.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Phase {
    at: u64,
    name: &'static str,
    kind: &'static str,
    /// Whether it is a part of the phase before that is no part.
    part: bool,
}

/// The phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    phases: Vec<(Phase, u64)>,
    /// Start and end of the firmware.
    pub(super) firmware: Option<(u64, u64)>,
    /// Start and end of the kernel, up to init's first instruction.
    pub(super) kernel: Option<(u64, u64)>,
    /// Whether the time of the command is known.
    pub(super) command: bool,
    /// Time at which init had sent the log.
    pub(super) sent: Option<u64>,
}

/// Definition of a phase: the source of its start, its name and kind, and whether it is a part.
struct Definition {
    name: &'static str,
    kind: &'static str,
    part: bool,
}

const fn phase(name: &'static str, kind: &'static str) -> Definition {
    Definition {
        name,
        kind,
        part: false,
    }
}

const fn part(name: &'static str, kind: &'static str) -> Definition {
    Definition {
        name,
        kind,
        part: true,
    }
}

/// What a boot's phases are known from.
struct Sources<'a> {
    observation: &'a Observation,
    console: &'a [Line],
    firmware: &'a [Line],
    seen: &'a Seen,
}

/// What may begin a phase: when, and the name that is missed where nothing says when; empty if none
/// is.
struct Step {
    at: Option<u64>,
    name: &'static str,
    definition: Definition,
}

const fn step(at: Option<u64>, name: &'static str, definition: Definition) -> Step {
    Step {
        at,
        name,
        definition,
    }
}

impl Sources<'_> {
    fn moment(&self, name: &str) -> Option<u64> {
        self.observation.moment(name)
    }

    /// When init noted something, by the timeline's clock.
    fn stamp(&self, name: &str) -> Option<u64> {
        let at = self.observation.stamp(name)? as i64;
        u64::try_from(at.saturating_add(self.seen.stamp_offset?)).ok()
    }

    /// When QEMU first reported an event.
    fn reported(&self, name: &str) -> Option<u64> {
        let mut events = self.observation.qmp.iter();
        Some(events.find(|event| event.name == name)?.at)
    }

    /// When the kernel was entered, or first wrote to the console.
    fn kernel(&self) -> Option<u64> {
        let mut console = self.console.iter();
        console
            .find(|line| lines::printk(&line.text).is_some())
            .map(|line| line.at)
            .or_else(|| self.moment("kernel entry"))
            .or_else(|| self.seen.records.first().map(|record| record.at))
    }

    /// When the guest was reset. Firmware may do so as well; that is its own affair.
    fn again(&self) -> Option<u64> {
        let kernel = self.kernel();
        let mut events = self.observation.qmp.iter();
        events
            .find(|event| event.name == "RESET" && kernel.is_some_and(|kernel| event.at > kernel))
            .map(|event| event.at)
    }

    /// All that may begin a phase, in the order of a boot.
    fn steps(&self) -> Vec<Step> {
        let spoken = self.firmware.first().map(|line| line.at);
        // The guest is asked to power itself off, or has done so.
        let down = self
            .reported("POWERDOWN")
            .or_else(|| self.reported("SHUTDOWN"));
        let after_qemu = if spoken.is_some() {
            phase("QEMU sets up the machine", "qemu")
        } else {
            phase("machine, firmware, kernel loaded", "firmware")
        };
        vec![
            step(self.moment(ASKED), "", phase("libvirt", "host")),
            step(
                self.moment("QEMU executed").or(Some(0)),
                "QEMU executed",
                phase("QEMU starts", "qemu"),
            ),
            step(self.moment("QEMU up"), "QEMU up", after_qemu),
            step(spoken, "", phase("firmware", "firmware")),
            step(self.kernel(), "kernel entry", phase("kernel", "kernel")),
            step(
                self.stamp("init started"),
                "init started",
                phase("init", "userspace"),
            ),
            step(self.stamp("init started"), "", part("modules", "userspace")),
            step(
                self.stamp("modules loaded"),
                "",
                part("open the channel", "userspace"),
            ),
            step(
                self.stamp("channel open"),
                "",
                part(
                    if self.stamp(SCRIPT).is_some() {
                        "receive the script"
                    } else {
                        "script and root"
                    },
                    "userspace",
                ),
            ),
            step(
                self.stamp(SCRIPT),
                "",
                part("prepare the root", "userspace"),
            ),
            step(
                self.stamp("root ready"),
                "",
                part("execute the command", "userspace"),
            ),
            step(
                self.stamp("command started"),
                "command started",
                phase("command", "command"),
            ),
            step(
                self.stamp("command started"),
                "",
                part("until its first output", "command"),
            ),
            step(
                self.stamp("first output"),
                "",
                part("after its first output", "command"),
            ),
            step(self.again(), "", phase("boot again", "firmware")),
            step(
                self.stamp("command ended").or(down),
                "command ended",
                phase("shutdown", "shutdown"),
            ),
            step(
                self.stamp("command ended"),
                "",
                part("sync and exit status", "shutdown"),
            ),
            step(
                self.moment("exit status received")
                    .or(self.reported("SHUTDOWN")),
                "",
                part("QEMU ends", "shutdown"),
            ),
        ]
    }
}

impl Frame {
    pub(super) fn of(
        observation: &Observation,
        console: &[Line],
        firmware: &[Line],
        seen: &Seen,
        notes: &mut Vec<String>,
    ) -> Self {
        let end = end(observation, console, seen);
        let sources = Sources {
            observation,
            console,
            firmware,
            seen,
        };
        let mut phases: Vec<(Phase, u64)> = Vec::new();
        let mut missing = Vec::new();
        let mut reached = 0;
        for Step {
            at,
            name,
            definition,
        } in sources.steps()
        {
            let Some(at) = at else {
                missing.extend(Some(name).filter(|name| !name.is_empty()));
                continue;
            };
            reached = at.clamp(reached, end);
            phases.push((
                Phase {
                    at: reached,
                    name: definition.name,
                    kind: definition.kind,
                    part: definition.part,
                },
                end,
            ));
        }
        if observation.clock == Clock::Instructions {
            // What others than the guest do takes no instructions.
            missing.retain(|name| *name != "QEMU up");
            notes.push(
                "Nothing counts for us before the kernel has a clock: what the firmware executed \
                 is in the kernel's first part."
                    .to_owned(),
            );
        }
        if !missing.is_empty() {
            notes.push(format!(
                "Not seen, so that the phases before are larger: {}.",
                missing.join(", ")
            ));
        }
        close(&mut phases);
        let find = |name: &str| {
            let found = phases.iter().find(|(phase, _)| phase.name == name)?;
            Some((found.0.at, found.1))
        };
        Self {
            firmware: find("firmware").or_else(|| find("machine, firmware, kernel loaded")),
            kernel: find("kernel"),
            command: find("command").is_some(),
            sent: sources.stamp(SENT).map(|at| at.min(end)),
            phases,
        }
    }

    /// Adds the phases and the events to the timeline.
    pub(super) fn draw(&self, observation: &Observation, timeline: &mut Timeline) {
        let clock = timeline.clock;
        for (phase, end) in &self.phases {
            if !phase.part || *end > phase.at {
                timeline.activity(phase.name, phase.kind, phase.at, *end, clock);
            }
        }
        let last = self.phases.iter().map(|(_, end)| *end).max().unwrap_or(0);
        for event in observation.moments.iter().chain(&observation.qmp) {
            timeline.event(event.name.as_str(), event.at.min(last), clock);
        }
        for (phase, _) in &self.phases {
            let name = match (phase.name, phase.part) {
                ("init", false) => "init started",
                ("command", false) => "command started",
                ("after its first output", true) => "first output",
                ("shutdown", false) if self.command => "command ended",
                _ => continue,
            };
            timeline.event(name, phase.at, clock);
        }
    }
}

/// The main phases that a report compares between passes, in order.
pub(super) const MAIN: [&str; 10] = [
    "libvirt",
    "QEMU starts",
    "QEMU sets up the machine",
    "machine, firmware, kernel loaded",
    "firmware",
    "kernel",
    "init",
    "command",
    "boot again",
    "shutdown",
];

/// Time at which QEMU had ended; if unknown, the time of the last event.
fn end(observation: &Observation, console: &[Line], seen: &Seen) -> u64 {
    observation.moment("QEMU ended").unwrap_or_else(|| {
        let moments = observation.moments.iter().map(|event| event.at);
        let lines = console.iter().map(|line| line.at);
        let records = seen.records.iter().map(|record| record.at);
        moments.chain(lines).chain(records).max().unwrap_or(0)
    })
}

/// Ends each phase where the next begins, and each part there or where its phase ends.
fn close(phases: &mut [(Phase, u64)]) {
    for place in 0..phases.len() {
        let is_part = phases[place].0.part;
        let next = phases[place + 1..]
            .iter()
            .find(|(next, _)| is_part || !next.part);
        if let Some((next, _)) = next {
            phases[place].1 = next.at;
        }
    }
}
