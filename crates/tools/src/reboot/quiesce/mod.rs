//! Releases graphics cards, and what else the configuration names, before a warm reboot; and puts
//! everything back.
//!
//! A graphics card whose driver is bound when another kernel starts is not initialised again: the
//! firmware, which would reset it, does not run. So the display manager and other services that hold
//! cards are stopped, the console leaves the framebuffer, and drivers are unloaded, or unbound
//! where they cannot be.
//!
//! [`State::read`] looks at the system, [`plan()`] says what to do and what stands against it,
//! [`run`] does it on a [`Machine`], and [`undo`] puts back what a [`Record`] says was done. [`Live`]
//! is the running system. [`release`] and [`give_back`] do all of it, for a restart.

mod action;
mod live;
mod lock;
mod machine;
mod names;
mod plan;
mod record;
mod report;
mod run;
pub mod state;
#[cfg(test)]
mod tests;
mod whole;

pub use action::{Action, Bound};
pub use live::{Live, LiveError};
pub use lock::Lock;
pub use machine::Machine;
pub use plan::{Obstacle, Options, Plan, Step, plan};
pub use record::{Entry, Progress, Record, RecordError};
pub use report::{SCHEMA, json, text};
pub use run::{Event, RunError, Undone, run, undo};
pub use state::State;
pub use whole::{give_back, release};
