//! All guests at once, after the host has booted and before it goes down: VMs of brisk, and domains
//! of libvirt that are named to it.
//!
//! On the way down guests that are saved share processors, disks and the time until a deadline: a
//! [`budget`] decides which of them begins, and which would not be done in time. A [`gate`] is what
//! their threads wait at. Those that would not be done are stopped instead.

mod budget;
mod carried;
mod domains;
mod down;
mod gate;
mod turn;
mod up;
mod written;

pub use domains::Domains;
pub use down::{Down, autostop, carry};
pub use turn::{Action, Outcome, Turn};
pub use up::{Up, autostart, away, carry_back, foresee};
pub use written::write_kept;
