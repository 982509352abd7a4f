//! System calls of x86-64 Linux, made without a C library.
//!
//! Numbers from `arch/x86/entry/syscalls/syscall_64.tbl`, constants from the kernel's
//! `include/uapi`. Each function returns what the kernel returned; an error is its
//! positive number.

mod process;

use core::arch::asm;

pub(crate) use process::{
    block_signals, ended, execve, exit, fork, has_children, kill, lend, own_root, reap, restart,
    set_user, setsid, signalfd, signals_of, twin, unblock_signals, wait,
};

/// A system call's result.
pub(crate) type Result<T> = core::result::Result<T, i32>;

pub(crate) const ENOENT: i32 = 2;
pub(crate) const EINTR: i32 = 4;
pub(crate) const ENOEXEC: i32 = 8;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOTDIR: i32 = 20;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EPIPE: i32 = 32;

pub(crate) const O_RDONLY: usize = 0;
pub(crate) const O_WRONLY: usize = 1;
pub(crate) const O_RDWR: usize = 2;
pub(crate) const O_CREAT: usize = 0o100;
pub(crate) const O_NOCTTY: usize = 0o400;
pub(crate) const O_TRUNC: usize = 0o1000;
pub(crate) const O_NONBLOCK: usize = 0o4000;
pub(crate) const O_CLOEXEC: usize = 0o2_000_000;

pub(crate) const POLLIN: i16 = 1;
pub(crate) const POLLOUT: i16 = 4;
pub(crate) const POLLHUP: i16 = 16;

pub(crate) const SIGHUP: i32 = 1;
pub(crate) const SIGINT: i32 = 2;
pub(crate) const SIGUSR1: i32 = 10;
pub(crate) const SIGUSR2: i32 = 12;
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGIO: i32 = 29;

/// `struct pollfd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: i32,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

/// `struct timespec`.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

/// Makes a system call.
///
/// # Safety
/// As the call itself: pointers among the arguments must be valid for what it does.
unsafe fn call(number: usize, args: [usize; 5]) -> Result<usize> {
    let result: isize;
    // SAFETY: the x86-64 system call convention; the caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") 0usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        Err(-result as i32)
    } else {
        Ok(result as usize)
    }
}

/// Text for the kernel: bytes that end in NUL.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// `bytes` must end in NUL; anything else becomes the empty text.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        if bytes.last() == Some(&0) {
            Self(bytes)
        } else {
            Self(b"\0")
        }
    }

    pub(crate) fn ptr(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Without the NUL.
    pub(crate) fn bytes(self) -> &'a [u8] {
        &self.0[..self.0.len() - 1]
    }
}

pub(crate) fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is writable for its length.
    unsafe {
        call(
            0,
            [
                fd as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                0,
                0,
            ],
        )
    }
}

pub(crate) fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes are readable for their length.
    unsafe { call(1, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0]) }
}

pub(crate) fn open(path: Text<'_>, flags: usize, mode: usize) -> Result<i32> {
    // SAFETY: a path that ends in NUL.
    unsafe { call(2, [path.ptr(), flags, mode, 0, 0]) }.map(|fd| fd as i32)
}

pub(crate) fn close(fd: i32) {
    // SAFETY: no memory is involved. Nothing could be done about an error.
    let _ = unsafe { call(3, [fd as usize, 0, 0, 0, 0]) };
}

pub(crate) fn poll(fds: &mut [PollFd], millis: i32) -> Result<usize> {
    // SAFETY: an array of pollfd of that length.
    unsafe {
        call(
            7,
            [fds.as_mut_ptr() as usize, fds.len(), millis as usize, 0, 0],
        )
    }
}

/// Zeroed memory that is never given back.
pub(crate) fn pages(len: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: asks for fresh memory; the sixth argument (offset) is zero. The mapping is
    // ours alone and lives until the guest ends.
    unsafe {
        let start = call(9, [0, len, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX])?;
        Ok(core::slice::from_raw_parts_mut(start as *mut u8, len))
    }
}

/// `ioctl(2)` with a plain number.
pub(crate) fn ioctl(fd: i32, request: usize, argument: usize) -> Result<usize> {
    // SAFETY: used for requests whose argument is no pointer.
    unsafe { call(16, [fd as usize, request, argument, 0, 0]) }
}

/// `ioctl(2)` with a structure.
pub(crate) fn ioctl_with<T>(fd: i32, request: usize, argument: &mut T) -> Result<usize> {
    // SAFETY: callers pair requests with the structure the kernel's headers name.
    unsafe {
        call(
            16,
            [
                fd as usize,
                request,
                core::ptr::from_mut(argument) as usize,
                0,
                0,
            ],
        )
    }
}

pub(crate) fn pipe(flags: usize) -> Result<(i32, i32)> {
    let mut fds = [0i32; 2];
    // SAFETY: room for two descriptors.
    unsafe { call(293, [fds.as_mut_ptr() as usize, flags, 0, 0, 0]) }?;
    Ok((fds[0], fds[1]))
}

pub(crate) fn dup2(from: i32, to: i32) -> Result<()> {
    // SAFETY: no memory is involved.
    unsafe { call(33, [from as usize, to as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn set_nonblocking(fd: i32) {
    const F_SETFL: usize = 4;
    // SAFETY: no memory is involved. A pipe end takes the flag always.
    let _ = unsafe { call(72, [fd as usize, F_SETFL, O_NONBLOCK, 0, 0]) };
}

pub(crate) fn sleep(nanos: i64) {
    let time = Timespec { seconds: 0, nanos };
    // SAFETY: a timespec below one second.
    let _ = unsafe { call(35, [(&raw const time) as usize, 0, 0, 0, 0]) };
}

pub(crate) fn socket_inet() -> Result<i32> {
    const AF_INET: usize = 2;
    const SOCK_DGRAM: usize = 2;
    // SAFETY: no memory is involved.
    unsafe { call(41, [AF_INET, SOCK_DGRAM | O_CLOEXEC, 0, 0, 0]) }.map(|fd| fd as i32)
}

pub(crate) fn chdir(path: Text<'_>) -> Result<()> {
    // SAFETY: a path that ends in NUL.
    unsafe { call(80, [path.ptr(), 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn mkdir(path: Text<'_>, mode: usize) -> Result<()> {
    // SAFETY: a path that ends in NUL.
    unsafe { call(83, [path.ptr(), mode, 0, 0, 0]) }.map(drop)
}

pub(crate) fn symlink(target: Text<'_>, path: Text<'_>) -> Result<()> {
    // SAFETY: two paths that end in NUL.
    unsafe { call(88, [target.ptr(), path.ptr(), 0, 0, 0]) }.map(drop)
}

/// Whether something is at `path`.
pub(crate) fn exists(path: Text<'_>) -> bool {
    // SAFETY: a path that ends in NUL; F_OK is 0.
    unsafe { call(21, [path.ptr(), 0, 0, 0, 0]) }.is_ok()
}

/// Whether what is at `path` is in a file system that is nothing but memory.
pub(crate) fn is_in_memory(path: Text<'_>) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    const TMPFS: u64 = 0x0102_1994;
    // `struct statfs`, which begins with the type.
    let mut system = [0_u64; 15];
    let into = system.as_mut_ptr() as usize;
    // SAFETY: a path that ends in NUL, and room for all of the structure.
    let result = unsafe { call(137, [path.ptr(), into, 0, 0, 0]) };
    result.is_ok() && matches!(system[0], RAMFS | TMPFS)
}

pub(crate) fn chroot(path: Text<'_>) -> Result<()> {
    // SAFETY: a path that ends in NUL.
    unsafe { call(161, [path.ptr(), 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn sync() {
    // SAFETY: no memory is involved.
    let _ = unsafe { call(162, [0; 5]) };
}

pub(crate) fn mount(
    source: Text<'_>,
    target: Text<'_>,
    kind: Text<'_>,
    flags: usize,
    data: Text<'_>,
) -> Result<()> {
    // SAFETY: four texts that end in NUL.
    unsafe {
        call(
            165,
            [source.ptr(), target.ptr(), kind.ptr(), flags, data.ptr()],
        )
    }
    .map(drop)
}

pub(crate) fn unmount(path: Text<'_>) -> Result<()> {
    // SAFETY: a path that ends in NUL.
    unsafe { call(166, [path.ptr(), 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn set_host_name(name: &[u8]) -> Result<()> {
    // SAFETY: the bytes are readable for their length.
    unsafe { call(170, [name.as_ptr() as usize, name.len(), 0, 0, 0]) }.map(drop)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = Timespec {
        seconds: 0,
        nanos: 0,
    };
    // SAFETY: room for a timespec.
    let _ = unsafe { call(228, [CLOCK_MONOTONIC, (&raw mut time) as usize, 0, 0, 0]) };
    time.seconds as u64 * 1_000_000_000 + time.nanos as u64
}

/// The processor's time stamp counter; under an instruction clock of one nanosecond and a counter
/// of 1 GHz, the instructions since power-on.
pub(crate) fn cycles() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sets `CLOCK_REALTIME`, nanoseconds since 1970.
pub(crate) fn set_clock(nanos: u64) {
    let time = Timespec {
        seconds: (nanos / 1_000_000_000) as i64,
        nanos: (nanos % 1_000_000_000) as i64,
    };
    // SAFETY: a timespec. A refusal leaves the clock as it is, which is no reason to stop.
    let _ = unsafe { call(227, [0, (&raw const time) as usize, 0, 0, 0]) };
}

pub(crate) fn load_module(fd: i32) -> Result<()> {
    // SAFETY: no parameters: the empty text.
    unsafe { call(313, [fd as usize, c"".as_ptr() as usize, 0, 0, 0]) }.map(drop)
}
