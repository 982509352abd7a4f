//! Persistent VMs: defined in a file, started, suspended to an image and resumed from it.
//!
//! There is no daemon. A VM is a QEMU in a session of its own, and where systemd runs in a unit of
//! its own. Commands ask QEMU for the VM's state over its control channel, so that a brisk that was
//! killed leaves no wrong state.

mod auto;
mod background;
mod backing_chain;
mod busy;
mod clock;
mod clone;
mod condition;
mod copy;
mod cpu_features;
mod definition;
mod describe;
mod directories;
mod discard;
mod disk_error;
mod disk_locks;
mod disks;
mod ended;
mod error;
mod exec;
mod first_run;
mod host_key;
mod identity;
mod kept;
mod late;
mod lifecycle;
mod live;
mod lock;
mod log_size;
mod memory;
mod moved;
mod page_server;
mod page_service;
mod paths;
mod ports;
mod postcopy;
mod postcopy_memory;
mod process;
mod qemu_fit;
mod removal;
mod requirements;
mod resume;
mod running;
mod shrink;
mod standing;
mod stderr_tail;
mod suspend;
mod suspend_record;
mod threads;
mod unit;
mod unlock;

pub use auto::{
    Action, Domains, Down, Outcome, Turn, Up, autostart, autostop, away, carry, carry_back,
    foresee, write_kept,
};
pub use clone::resume_clone;
pub use condition::Condition;
pub use definition::{Autoshutdown, Definition, DefinitionError, ImageFormat, Network, Suspend};
pub use discard::discard;
pub use disk_error::standstill;
pub use error::Error;
pub use exec::{ExecRequest, Execution, exec, executions};
pub use host_key::HostRecipient;
pub use identity::new_uuid;
pub use kept::Area;
pub use late::Late;
pub use lifecycle::{BOOT, Ending, kill, kill_process, start, start_as, stop, stop_process};
pub use live::condition;
pub use lock::Lock;
pub use log_size::bound_logs;
pub use moved::may_move_image;
pub use page_server::fill;
pub use page_service::stand_by;
pub use paths::{StateDirs, VmPaths};
pub use postcopy::{Postcopied, resume_postcopy};
pub use process::pid;
pub use requirements::check_requirements;
pub use resume::{How, Resumed, resume, stranded};
pub use suspend::{Suspending, suspend};
pub use suspend_record::recorded_uuid;
pub use threads::vcpu_threads;
pub use unit::unit_of;
pub use unlock::needs_passphrase;
