//! Host CPU time and wakeups of guests by thread and role, while they idle.
//!
//! [`Guest`] is a QEMU that runs, of whoever. A [`Sampler`] reads the counters of its threads, and
//! two [`Snapshot`]s are a [`Window`]. [`measure`] waits until windows agree ([`has_settled`]),
//! measures, and gives a [`Measurement`] with a [`Measured`] for each guest. Everything but the
//! sampler and [`measure`] is pure.
//!
//! A percentage is always one of a single host CPU.

mod counters;
mod exits;
mod guests;
mod helpers;
mod measured;
mod report;
mod role;
mod run;
mod sampler;
mod settling;
#[cfg(test)]
mod tests;
mod window;

pub use exits::{Exits, NOTABLE};
pub use guests::{Guest, Kind, running_vms};
pub use helpers::{Helper, Helpers};
pub use measured::{HostNoise, Measured, Measurement, Recording, Signature, Thread};
pub use report::{picture, report};
pub use role::Role;
pub use run::{MeasureError, Options, Phase, Progress, WINDOW, measure};
pub use sampler::Sampler;
pub use settling::Settling;
pub use window::{GuestSample, GuestWindow, HostWindow, Life, Snapshot, ThreadWindow, Window};
