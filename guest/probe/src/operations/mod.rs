//! Operations by their names.

mod files;
mod memory;
mod processes;
mod user;

use crate::batch::{Prepared, Skip};

/// Prepares an operation of the list.
pub(crate) fn prepared(name: &str) -> Prepared {
    match name {
        "user-integer" => user::integer(),
        "user-float" => user::float(),
        "user-sort" => user::sort(),
        "memory-copy" => memory::copy(),
        "memory-chase" => memory::chase(),
        "memory-chase-huge" => memory::chase_huge(),
        "syscall-getppid" => processes::getppid(),
        "syscall-open" => files::open(),
        "syscall-read" => files::read(),
        "syscall-write" => files::write(),
        "switch-pipe" => processes::pipe(),
        "switch-futex" => processes::futex(),
        "process-exec" => processes::exec(),
        "process-fork" => processes::fork(),
        "fault-anonymous" => memory::fault_anonymous(),
        "fault-file" => files::fault(),
        "fault-copy" => memory::fault_copy(),
        "fault-unmap" => memory::unmap(),
        "timer-sleep" => processes::sleep(),
        "ipi-mprotect" => processes::mprotect(),
        "disk-sync" => files::sync(),
        "disk-create" => files::create(),
        "net-loopback" => files::loopback(),
        _ => Err(Skip("not known".to_owned())),
    }
}
