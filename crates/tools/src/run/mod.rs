//! Runs: a command in a VM that was booted for it.
//!
//! [`Session`] executes a plan of [`crate::guest`]: it starts the VM, carries bytes and signals,
//! and makes sure that nothing is left. [`warm()`] restores a template instead of booting.

mod ending;
mod outbox;
mod peer;
mod pretranslation_recorder;
mod pump;
pub(crate) mod session;
mod streams;
mod timing;
mod warm;
mod warm_pool;

pub use ending::{Ending, Interrupted};
pub use session::Session;
pub use streams::Terminal;
pub use timing::{Milestone, Timing};
pub use warm::{Start, warm};
pub use warm_pool::{WarmPool, start_pool_process, time as ready_time};
