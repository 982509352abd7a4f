//! From the state of a system to the steps that release its graphics cards. Pure.

mod drivers;
mod holders;

use serde::Serialize;

use super::action::Action;
use super::state::{Device, Holder, State};
use crate::reboot::config::QuiesceConfig;
use drivers::Drivers;
use holders::Users;
pub(super) use holders::{describe, is_relevant};

/// Something that is done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// Why.
    pub reason: String,
}

/// Something that stands against it, before anything is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// Description.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// Steps that release graphics cards, and what the configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Devices that are released.
    pub devices: Vec<Device>,
    /// Processes that keep them in use now.
    pub holders: Vec<Holder>,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// What stands against it.
    pub obstacles: Vec<Obstacle>,
    /// Things to be known.
    pub notes: Vec<String>,
}

impl Plan {
    /// The actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action> {
        self.steps.iter().map(|step| step.action.clone())
    }

    pub(in crate::reboot::quiesce) fn step(&mut self, action: Action, reason: impl Into<String>) {
        self.steps.push(Step {
            action,
            reason: reason.into(),
        });
    }

    fn obstacle(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.obstacles.push(Obstacle {
            what: what.into(),
            fix: fix.into(),
        });
    }
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether processes are ended that belong to no service and not to the display manager, and
    /// whether it is tried where something that cannot be seen holds a module.
    pub force: bool,
}

/// Plans.
#[must_use]
pub fn plan(state: &State, config: &QuiesceConfig, options: Options) -> Plan {
    let mut plan = Plan::default();
    let drivers = Drivers::find(state, config, &mut plan);
    let users = Users::find(state, config, &drivers);
    users.stop(options, &mut plan);
    if !users.relevant.is_empty() && !drivers.is_empty() {
        plan.step(
            Action::Release {
                modules: drivers.modules(),
                devices: drivers.addresses(),
            },
            "services and sessions that were stopped may take a moment to close devices",
        );
    }
    users.look_for_hidden(options, &mut plan);
    drivers.release(&mut plan);
    if state.hidden > 0 && !drivers.is_empty() {
        plan.notes.push(format!(
            "the descriptors of {} processes cannot be seen; root sees all",
            state.hidden
        ));
    }
    plan.holders = users.relevant.into_iter().cloned().collect();
    plan.devices = drivers.released;
    plan
}

/// Units about which the plan depends on more than that a process is in them.
#[must_use]
pub(super) fn units(state: &State, config: &QuiesceConfig) -> Vec<String> {
    let stops = plan(state, config, Options::default());
    let stops = stops.steps.into_iter().flat_map(|step| match step.action {
        Action::Stop { units } => units,
        _ => Vec::new(),
    });
    let mut units: Vec<_> = config.stop.iter().cloned().chain(stops).collect();
    units.sort();
    units.dedup();
    units
}
