//! The restart itself: its steps, what is kept of it on disk, and what came of it.
//!
//! A restart is a [`Restart`] record that is written before each step, so that after a failure, a
//! killed process or a power cut it is known what was done. [`run`] takes the steps and undoes them
//! when one fails. After the machine has started again, [`conclude`] says what came of it.

mod boot;
mod census;
mod combination;
mod conclude;
mod drop_in;
pub mod history;
mod kexec_tools;
mod live;
pub mod notes;
mod record;
mod request;
#[cfg(test)]
mod samples;
mod sequence;
mod store;
mod unattended;
mod watchdog;

pub use boot::Boot;
pub use census::{Census, Gpu, Link};
pub use combination::{Changed, combination, unchanged};
pub use conclude::{Conclusion, conclude};
pub use live::{Devices, Live, Vms, is_going_down, is_jumping, undo_leftovers};
pub use record::{Barred, Down, Outcome, Phase, Record, Restart, Stage, Times, Way};
pub use request::{
    DIRECTORY, Exchange, Keep, Progress, Request, UNIT, systemd_run, unit_has_ended, unit_is_active,
};
pub use sequence::{Failure, Host, Step, run, steps};
pub use store::{Store, StoreError};
pub use unattended::Unattended;
pub use watchdog::{Dog, Watch, with_panic};
