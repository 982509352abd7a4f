//! Virtual machines that have a name and stay: defined in a file, started, suspended to an image
//! and resumed from it.
//!
//! There is no daemon. A machine is a QEMU in a session of its own, and where systemd runs in a unit
//! of its own; whether it runs is asked of itself, over its control channel, so that a brisk that
//! was killed leaves no wrong state.

mod auto;
mod bases;
mod busy;
mod clone;
mod copy;
mod definition;
mod describe;
mod directories;
mod disk_locks;
mod disks;
mod ended;
mod error;
mod filling;
mod first_run;
mod home;
mod identity;
mod late;
mod lazy;
mod lifecycle;
mod live;
mod log_size;
mod memory;
mod noted;
mod ports;
mod resume;
mod said;
mod serving;
mod shrink;
mod standing;
mod suspend;
mod unit;
mod unlock;

pub use auto::{Action, Outcome, Turn, autostart, autostop};
pub use clone::resume_clone;
pub use definition::{Autoshutdown, Definition, DefinitionError, ImageFormat, Network, Suspend};
pub use error::Error;
pub use filling::fill;
pub use home::{Dirs, Home, Lock, new_uuid};
pub use lazy::{Lazily, resume_lazily};
pub use lifecycle::{kill, start, stop};
pub(crate) use live::process_in;
pub use live::{Condition, condition};
pub use log_size::bound_logs;
pub use ports::{Execution, Words, exec, executions};
pub use resume::{How, Resumed, resume};
pub use serving::stand_by;
pub use suspend::{Suspending, suspend};
pub use unit::unit_of;
pub use unlock::needs_passphrase;
