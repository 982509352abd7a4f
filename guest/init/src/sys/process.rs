//! Processes, and the signals between them.

use core::arch::asm;

use super::{EINTR, EINVAL, O_CLOEXEC, O_NONBLOCK, Result, SIGCHLD, Text, call};

/// The kernel's signal set.
fn set_of(signals: &[i32]) -> u64 {
    let mut set = 0;
    for signal in signals {
        set |= 1 << (signal - 1);
    }
    set
}

pub(crate) fn block_signals(signals: &[i32]) -> Result<()> {
    let set = set_of(signals);
    // SAFETY: a signal set of eight bytes; SIG_BLOCK is 0.
    unsafe { call(14, [0, (&raw const set) as usize, 0, 8, 0]) }.map(drop)
}

pub(crate) fn unblock_signals() {
    let set = 0u64;
    // SAFETY: a signal set of eight bytes; SIG_SETMASK is 2.
    let _ = unsafe { call(14, [2, (&raw const set) as usize, 0, 8, 0]) };
}

/// A descriptor that becomes readable when one of `signals` is pending.
pub(crate) fn signalfd(signals: &[i32]) -> Result<i32> {
    let set = set_of(signals);
    // SAFETY: a signal set of eight bytes.
    unsafe {
        call(
            289,
            [
                usize::MAX,
                (&raw const set) as usize,
                8,
                O_CLOEXEC | O_NONBLOCK,
                0,
            ],
        )
    }
    .map(|fd| fd as i32)
}

/// The child whose end a descriptor as of [`signalfd`] reports, and its status as of `wait(2)`. It is
/// there until it is waited for, which takes longer than to know its end.
pub(crate) fn ended(children: i32) -> Option<(i32, i32)> {
    const CLD_EXITED: i32 = 1;
    const CLD_KILLED: i32 = 2;
    const CLD_DUMPED: i32 = 3;
    let mut information = [0u8; 128];
    let read = super::read(children, &mut information);
    if read != Ok(information.len()) {
        return None;
    }
    // `struct signalfd_siginfo`.
    let word = |at: usize| {
        let bytes = information.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_le_bytes(bytes))
    };
    let (code, pid, status) = (word(8)?, word(12)?, word(40)?);
    let status = match code {
        CLD_EXITED => (status & 0xff) << 8,
        CLD_KILLED => status,
        CLD_DUMPED => status | 0x80,
        _ => return None,
    };
    Some((pid, status))
}

/// Has `SIGIO` sent to this process when something happens at `fd`, which stays non-blocking.
pub(crate) fn signals_of(fd: i32) {
    const F_SETFL: usize = 4;
    const F_SETOWN: usize = 8;
    const O_ASYNC: usize = 0o20000;
    // SAFETY: no memory is involved; getpid has no arguments.
    unsafe {
        let pid = call(39, [0; 5]).unwrap_or(1);
        let _ = call(72, [fd as usize, F_SETOWN, pid, 0, 0]);
        let _ = call(72, [fd as usize, F_SETFL, O_NONBLOCK | O_ASYNC, 0, 0]);
    }
}

/// Whether there is a child, dead or alive.
pub(crate) fn has_children() -> bool {
    const ECHILD: i32 = 10;
    const WNOHANG_NOWAIT: usize = 0x0100_0001;
    const EXITED: usize = 4;
    const P_ALL: usize = 0;
    // SAFETY: waitid takes null pointers for what is not asked for.
    let found = unsafe { call(247, [P_ALL, 0, 0, WNOHANG_NOWAIT | EXITED, 0]) };
    found != Err(ECHILD)
}

/// Waits for a child to end.
pub(crate) fn wait(pid: i32) {
    // SAFETY: no memory is involved: the status is not asked for.
    while unsafe { call(61, [pid as usize, 0, 0, 0, 0]) } == Err(EINTR) {}
}

/// 0 in the child.
pub(crate) fn fork() -> Result<i32> {
    // SAFETY: this process has one thread and no state that must not be doubled.
    unsafe { call(57, [0; 5]) }.map(|pid| pid as i32)
}

const CLONE_VM: usize = 0x100;
const CLONE_FS: usize = 0x200;
const CLONE_VFORK: usize = 0x4000;

/// A child with this process's memory, and its root and working directory until one of the two
/// does without ([`own_root`]): it runs `entry` on a stack of its own.
///
/// # Safety
/// `stack` must be the end of memory that nobody else uses and that is never given back, and what
/// `entry` does with `argument` must be sound beside what this process does meanwhile.
pub(crate) unsafe fn twin(
    stack: &'static mut [u8],
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> Result<i32> {
    let end = stack.as_mut_ptr_range().end as usize;
    // SAFETY: the caller's.
    unsafe { clone(CLONE_VM | CLONE_FS, end, entry, argument) }
}

/// A child that runs `entry` in this process's memory and below its stack, which stands still until
/// the child has executed a program or ended (`vfork(2)`): nothing is copied.
///
/// # Safety
/// What `entry` does with `argument` must be sound as if it were called here.
pub(crate) unsafe fn lend(entry: extern "C" fn(usize) -> !, argument: usize) -> Result<i32> {
    // SAFETY: the caller's; what is below the stack of a process that stands still is free.
    unsafe { clone(CLONE_VM | CLONE_VFORK, 0, entry, argument) }
}

/// A child that runs `entry` on `stack`, 0 for below this process's own.
///
/// # Safety
/// That what the child does beside this process is sound is up to the caller.
unsafe fn clone(
    flags: usize,
    stack: usize,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> Result<i32> {
    let result: isize;
    // SAFETY: the x86-64 system call convention. The child comes out of the call with its stack,
    // goes below what a leaf function may keep there, and never leaves `entry`; the parent goes on
    // behind it with all registers but those of the call as they were.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "sub rsp, 128",
            "and rsp, -16",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") 56isize => result,
            in("rdi") flags | SIGCHLD as usize,
            in("rsi") stack,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") entry,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(result as i32)
    }
}

/// From here on root and working directory are this process's own.
pub(crate) fn own_root() -> Result<()> {
    // SAFETY: no memory is involved.
    unsafe { call(272, [CLONE_FS, 0, 0, 0, 0]) }.map(drop)
}

/// Returns only on failure.
pub(crate) fn execve(path: Text<'_>, argv: &[usize], envp: &[usize]) -> i32 {
    // SAFETY: both arrays hold pointers to NUL-terminated text and end in a null pointer.
    unsafe {
        call(
            59,
            [
                path.ptr(),
                argv.as_ptr() as usize,
                envp.as_ptr() as usize,
                0,
                0,
            ],
        )
    }
    .err()
    .unwrap_or(EINVAL)
}

pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: ends the process.
        let _ = unsafe { call(60, [status as usize, 0, 0, 0, 0]) };
    }
}

/// Reaps any child that has ended: its number and status word.
pub(crate) fn reap() -> Option<(i32, i32)> {
    const WNOHANG: usize = 1;
    let mut status = 0i32;
    // SAFETY: room for the status; -1 means any child.
    match unsafe { call(61, [usize::MAX, (&raw mut status) as usize, WNOHANG, 0, 0]) } {
        Ok(pid) if pid != 0 => Some((pid as i32, status)),
        _ => None,
    }
}

pub(crate) fn kill(pid: i32, signal: i32) -> Result<()> {
    // SAFETY: no memory is involved.
    unsafe { call(62, [pid as usize, signal as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn setsid() {
    // SAFETY: no memory is involved. Fails only for a group leader, which a child is not.
    let _ = unsafe { call(112, [0; 5]) };
}

pub(crate) fn set_user(user: usize, group: usize) -> Result<()> {
    // SAFETY: no memory is involved: the list of supplementary groups is empty.
    unsafe {
        call(116, [0, 0, 0, 0, 0])?;
        call(106, [group, 0, 0, 0, 0])?;
        call(105, [user, 0, 0, 0, 0]).map(drop)
    }
}

/// Ends the guest at once. QEMU runs with `-no-reboot`, so a restart is an exit; with
/// `reboot=t` it is the shortest of all ways down.
pub(crate) fn restart() -> ! {
    loop {
        // SAFETY: the two magic numbers of reboot(2) and LINUX_REBOOT_CMD_RESTART.
        let _ = unsafe { call(169, [0xfee1_dead, 672_274_793, 0x0123_4567, 0, 0]) };
    }
}
