//! Running a command in a virtual machine that was booted for it.
//!
//! [`Session`] carries out a plan of [`crate::guest`]: it starts the machine, carries bytes and
//! signals, and makes sure that nothing is left. [`warm()`] has it go on from a template instead of
//! booting.

mod ending;
mod learner;
mod peer;
mod pump;
mod ready;
pub(crate) mod session;
mod streams;
mod timing;
mod warm;

pub use ending::{Ending, Interrupted};
pub use ready::{Place, start_keeper, time as ready_time};
pub use session::Session;
pub use streams::Terminal;
pub use timing::{Moment, Timing};
pub use warm::{Start, warm};
