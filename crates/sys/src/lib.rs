//! Kernel interfaces of brisk that need unsafe code, as safe functions.

mod clock;
mod file;
mod kexec;
mod libcrypto;
mod lock;
mod memory;
mod pretranslation;
mod process;
mod set_id;
mod wait;

pub use clock::tsc_khz;
pub use file::start_writeback;
pub use kexec::{kexec_file_load, kexec_file_unload};
pub use libcrypto::{CipherError, CipherOperation, Libcrypto, Source, Tag};
pub use lock::{Sharing, is_byte_taken, is_taken, lock, try_lock, try_lock_byte};
pub use memory::populate;
pub use pretranslation::{
    PRETRANSLATION_BASE, PRETRANSLATION_VIRTUAL, Pretranslator, pretranslation_layout,
    pretranslator,
};
pub use process::{
    Credentials, Usage, as_user_that_locks, bounded, die_with_parent, exit_at_once, in_background,
    nice, own_session, read_only_view, small_pages, wait_with_usage, with_userfaultfd,
};
pub use set_id::refuse_set_id;
pub use wait::wait_for;

/// Turns the result of a system call that returns 0 or -1 into a `Result`.
fn checked(result: i32) -> std::io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
