//! Running a command in a virtual machine that was booted for it.
//!
//! [`facts`] finds out what there is (kernel, QEMU, virtiofsd, root), [`plan`] decides from
//! that alone, and [`session`] carries the plan out: starts the machine, carries bytes and
//! signals, and makes sure that nothing is left.

mod accelerator;
mod ahead;
mod common;
mod console;
mod ending;
mod error;
mod facts;
mod identity;
pub(crate) mod levers;
mod machine;
mod memory_directory;
mod options;
pub(crate) mod parameters;
mod peer;
mod plan;
mod privileges;
mod profile;
mod pump;
mod ready;
mod root;
mod script;
pub(crate) mod session;
pub(crate) mod signals;
mod streams;
mod timing;
mod user;
mod variables;
mod warm;

pub(crate) use console::gave_up;
pub use console::harmless;
pub use ending::{Ending, Interrupted};
pub use error::Error;
pub use facts::{Facts, gather};
pub(crate) use identity::{clock, identity};
pub use levers::Levers;
pub(crate) use memory_directory::memory_directory;
pub use options::{
    Accel, Ahead, ExtraDisk, Firmware, LEAST_MEMORY, Machine, Net, Options, Ram, RootOption, Share,
    User, Warm, parse_memory,
};
pub(crate) use plan::encoded;
pub use plan::{Part, Plan, plan};
pub use profile::{Profile, ProfileError};
pub use ready::{Place, start_keeper, time as ready_time};
pub use root::Root;
pub(crate) use root::backing;
pub use session::Session;
pub use streams::Terminal;
pub use timing::{Moment, Timing};
pub(crate) use variables::variables;
pub use warm::{Start, warm};
