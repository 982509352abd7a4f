//! System calls that are refused, as by file systems that the host does not have.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// The bit of `O_TMPFILE` that is not `O_DIRECTORY` (open(2)).
const TMPFILE: u64 = 0o20_000_000;

/// A system call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// renameat2(2) with flags is `EINVAL`, as on NFS and 9p.
    RenameFlags,
    /// linkat(2) is `EPERM`, as on FAT.
    Links,
    /// Renaming is `EDQUOT`, as on btrfs beyond a quota.
    Renames,
    /// open(2) with `O_TMPFILE` is `EOPNOTSUPP`, as on NFS and 9p.
    TemporaryFiles,
    /// chown(2) and lchown(2), which take a name, are `EPERM`.
    OwnersByName,
    /// fsync(2) of this descriptor is `EIO`, as of a disk that fails.
    Sync(RawFd),
}

impl Refusal {
    /// fsync(2) of this file.
    #[must_use]
    pub fn sync_of(file: impl AsFd) -> Self {
        Self::Sync(file.as_fd().as_raw_fd())
    }

    fn filter(self) -> BpfProgram {
        let named = [libc::SYS_chown, libc::SYS_lchown, libc::SYS_fchownat];
        let renames = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
        let argument = |number, op, value| {
            let length = SeccompCmpArgLen::Dword;
            SeccompCondition::new(number, length, op, value).unwrap()
        };
        let (calls, condition, errno) = match self {
            Self::OwnersByName => (&named[..], None, libc::EPERM),
            Self::RenameFlags => {
                let flags = argument(4, SeccompCmpOp::Ne, 0);
                (&[libc::SYS_renameat2][..], Some(flags), libc::EINVAL)
            }
            Self::Links => (&[libc::SYS_linkat][..], None, libc::EPERM),
            Self::Renames => (&renames[..], None, libc::EDQUOT),
            Self::TemporaryFiles => {
                let flags = argument(2, SeccompCmpOp::MaskedEq(TMPFILE), TMPFILE);
                (&[libc::SYS_openat][..], Some(flags), libc::EOPNOTSUPP)
            }
            Self::Sync(fd) => {
                let file = argument(0, SeccompCmpOp::Eq, fd as u64);
                (&[libc::SYS_fsync][..], Some(file), libc::EIO)
            }
        };
        let rules = condition.map(|one| SeccompRule::new(vec![one]).unwrap());
        let rules: Vec<_> = rules.into_iter().collect();
        let filter = SeccompFilter::new(
            calls.iter().map(|call| (*call, rules.clone())).collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(errno as u32),
            TargetArch::x86_64,
        );
        filter.unwrap().try_into().unwrap()
    }
}

/// Has system calls of this thread fail from now on, and of the processes that it starts. There is
/// no way back: see [`apart`].
pub fn refuse(refusals: &[Refusal]) {
    for refusal in refusals {
        apply_filter(&refusal.filter()).unwrap();
    }
}

/// Does something in a thread of its own.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
