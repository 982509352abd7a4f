//! The C library, as safe functions.
#![expect(unsafe_code, reason = "there is no crate below the probe that has it")]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

// Constants of <linux/mman.h>, <fcntl.h>, <linux/futex.h> and <linux/prctl.h>, for x86.
const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE: c_int = 2;
const MAP_ANONYMOUS: c_int = 0x20;
const MADV_HUGEPAGE: c_int = 14;
const MADV_NOHUGEPAGE: c_int = 15;
const O_CLOEXEC: c_int = 0o2_000_000;
const SYS_GETPPID: c_long = 110;
const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT_PRIVATE: c_int = 128;
const FUTEX_WAKE_PRIVATE: c_int = 129;
const PR_SET_TIMERSLACK: c_int = 29;
const PR_SET_PDEATHSIG: c_int = 1;
const SYS_FINIT_MODULE: c_long = 313;
const SYS_DELETE_MODULE: c_long = 176;
const SIGUSR1: c_int = 10;
const SIGKILL: c_int = 9;
const SIG_ERR: usize = usize::MAX;
const RB_POWER_OFF: c_int = 0x4321_fedc;

/// Words of a set of CPUs (`cpu_set_t`).
const CPU_WORDS: usize = 16;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(address: *mut c_void, length: usize) -> c_int;
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn fork() -> c_int;
    safe fn _exit(status: c_int) -> !;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn pipe2(ends: *mut c_int, flags: c_int) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    fn sched_getaffinity(pid: c_int, size: usize, set: *mut u64) -> c_int;
    fn sched_setaffinity(pid: c_int, size: usize, set: *const u64) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: usize,
        data: *const c_void,
    ) -> c_int;
    safe fn reboot(command: c_int) -> c_int;
    safe fn getpid() -> c_int;
    safe fn getppid() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
}

fn checked(result: c_int) -> io::Result<c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Memory of its own. It is unmapped when this is dropped.
pub(crate) struct Area {
    start: *mut c_void,
    length: usize,
    is_writable: bool,
}

impl Area {
    /// Anonymous memory in small pages, none of which has been touched.
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let area = Self::map(
            length,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
        )?;
        // A kernel without huge pages refuses, and has small ones.
        let _ = area.advise(MADV_NOHUGEPAGE);
        Ok(area)
    }

    /// Anonymous memory that may have transparent huge pages.
    pub(crate) fn huge(length: usize) -> io::Result<Self> {
        let area = Self::map(
            length,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
        )?;
        area.advise(MADV_HUGEPAGE)?;
        Ok(area)
    }

    /// A file, from its beginning, to be read. It must not become shorter.
    pub(crate) fn of_file(file: &File, length: usize) -> io::Result<Self> {
        Self::map(length, PROT_READ, MAP_SHARED, file.as_raw_fd())
    }

    /// A private mapping of a file, such as `/dev/zero`, to be read and written.
    pub(crate) fn private_of(file: &File, length: usize) -> io::Result<Self> {
        let protection = PROT_READ | PROT_WRITE;
        Self::map(length, protection, MAP_PRIVATE, file.as_raw_fd())
    }

    fn map(length: usize, protection: c_int, flags: c_int, fd: c_int) -> io::Result<Self> {
        // SAFETY: The kernel chooses the address, so that nothing that is mapped is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, fd, 0) };
        if start.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start,
            length,
            is_writable: protection & PROT_WRITE != 0,
        })
    }

    fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: The range is mapped as long as `self` lives; the advice changes no content.
        checked(unsafe { madvise(self.start, self.length, advice) }).map(drop)
    }

    /// Writes a byte every `stride` bytes.
    pub(crate) fn write_every(&mut self, stride: usize) {
        assert!(self.is_writable, "an area of a file is not written to");
        for offset in (0..self.length).step_by(stride) {
            // SAFETY: The offset is below the length, the memory is writable and borrowed alone.
            unsafe { self.start.cast::<u8>().add(offset).write_volatile(1) };
        }
    }

    /// Reads a byte every `stride` bytes.
    pub(crate) fn read_every(&self, stride: usize) {
        for offset in (0..self.length).step_by(stride) {
            // SAFETY: The offset is below the length, and the memory is readable.
            unsafe { self.start.cast::<u8>().add(offset).read_volatile() };
        }
    }

    /// All of an anonymous area.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        assert!(self.is_writable, "an area of a file is not written to");
        // SAFETY: The memory is anonymous, zero or written before, a whole number of pages (thus
        // aligned), and borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length / 8) }
    }

    /// Has the area read-only, writable again, and written to.
    pub(crate) fn protect_and_back(&mut self) -> io::Result<()> {
        // SAFETY: The range is mapped, and nothing else uses it while `self` is borrowed alone.
        checked(unsafe { mprotect(self.start, self.length, PROT_READ) })?;
        // SAFETY: As before.
        checked(unsafe { mprotect(self.start, self.length, PROT_READ | PROT_WRITE) })?;
        self.write_every(self.length);
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: The range is this area's own, and nothing refers to it any more.
        unsafe { munmap(self.start, self.length) };
    }
}

/// A child process. It is waited for when this is dropped: it must end by then.
pub(crate) struct Child(c_int);

impl Child {
    /// Starts a child that does this, and ends.
    pub(crate) fn fork(work: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: The probe has no second thread at this time; the child returns to nobody.
        match checked(unsafe { fork() })? {
            0 => {
                work();
                _exit(0)
            }
            pid => Ok(Self(pid)),
        }
    }
}

/// A child that works until this is dropped, which kills it. It is killed, too, when its parent ends.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts it. `work` is not to use more than memory it has and the kernel: the parent may have
    /// held locks in other threads.
    pub(crate) fn fork(work: impl FnOnce()) -> io::Result<Self> {
        let parent = getpid();
        let child = Child::fork(|| {
            // SAFETY: The argument is a number.
            unsafe { prctl(PR_SET_PDEATHSIG, SIGKILL) };
            // The parent may have ended before the line above.
            if getppid() == parent {
                work();
            }
        })?;
        Ok(Self(child))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: The child has not been waited for, so that the number is its own.
        unsafe { kill(self.0.0, SIGKILL) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: The status is not asked for.
        unsafe { waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// The ends of a pipe: to read from and to write to.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: There is room for both descriptors.
    checked(unsafe { pipe2(ends.as_mut_ptr(), O_CLOEXEC) })?;
    // SAFETY: The kernel has just made them, and nobody else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Reads all of a buffer or nothing; an error if it is less.
pub(crate) fn read_all(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<()> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: The kernel writes into the buffer only.
    match unsafe { read(fd.as_raw_fd(), start, length) } {
        -1 => Err(io::Error::last_os_error()),
        count if count.unsigned_abs() == length => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Writes all of a buffer; an error if it is less.
pub(crate) fn write_all(fd: &impl AsRawFd, buffer: &[u8]) -> io::Result<()> {
    // SAFETY: The kernel reads the buffer only.
    match unsafe { write(fd.as_raw_fd(), buffer.as_ptr().cast(), buffer.len()) } {
        -1 => Err(io::Error::last_os_error()),
        count if count.unsigned_abs() == buffer.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Opens a file to read and closes it.
pub(crate) fn open_and_close(path: &CStr) -> io::Result<()> {
    // SAFETY: The path ends with a zero byte.
    let fd: RawFd = checked(unsafe { open(path.as_ptr(), O_CLOEXEC) })?;
    // SAFETY: The descriptor is that of the line before.
    checked(unsafe { close(fd) }).map(drop)
}

/// Closes a descriptor that a child of [`Child::fork`] has of its parent's.
pub(crate) fn close_copy(fd: RawFd) {
    // SAFETY: Only the parent's own descriptor, which this is not, belongs to somebody; the child
    // drops none of them, since it ends by `_exit`.
    unsafe { close(fd) };
}

/// Calls getppid(2).
pub(crate) fn parent() {
    // SAFETY: It has no arguments and no effect.
    unsafe { syscall(SYS_GETPPID) };
}

/// Waits until a word has another value, or somebody wakes those who wait for it.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    let no_limit = std::ptr::null::<c_void>();
    // SAFETY: The word lives as long as the call.
    unsafe {
        syscall(
            SYS_FUTEX,
            word.as_ptr(),
            FUTEX_WAIT_PRIVATE,
            value,
            no_limit,
        )
    };
}

/// Wakes one of those who wait for a word.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: The kernel only looks for the address.
    unsafe { syscall(SYS_FUTEX, word.as_ptr(), FUTEX_WAKE_PRIVATE, 1) };
}

/// Has timers of this thread end up to so many nanoseconds late.
pub(crate) fn timer_slack(nanoseconds: u64) {
    // SAFETY: The argument is a number. A kernel that does not know it refuses.
    unsafe { prctl(PR_SET_TIMERSLACK, nanoseconds) };
}

/// Processors that this thread may run on.
#[derive(Clone)]
pub(crate) struct Processors([u64; CPU_WORDS]);

impl Processors {
    pub(crate) fn allowed() -> io::Result<Self> {
        let mut set = [0; CPU_WORDS];
        // SAFETY: The size is that of the set.
        checked(unsafe { sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr()) })?;
        Ok(Self(set))
    }

    /// One, by its number; none if there is no room for it.
    pub(crate) fn only(cpu: usize) -> Option<Self> {
        let mut set = [0; CPU_WORDS];
        *set.get_mut(cpu / 64)? = 1 << (cpu % 64);
        Some(Self(set))
    }

    /// Each of them alone.
    pub(crate) fn each(&self) -> Vec<Self> {
        let is_set = |cpu: &usize| self.0[cpu / 64] >> (cpu % 64) & 1 == 1;
        let alone = |cpu: usize| {
            let mut set = [0; CPU_WORDS];
            set[cpu / 64] = 1 << (cpu % 64);
            Self(set)
        };
        (0..CPU_WORDS * 64).filter(is_set).map(alone).collect()
    }

    /// Has this thread run on them.
    pub(crate) fn enter(&self) -> io::Result<()> {
        // SAFETY: The size is that of the set.
        checked(unsafe { sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr()) }).map(drop)
    }
}

extern "C" fn on_signal(_: c_int) {}

/// Has SIGUSR1 do nothing.
pub(crate) fn handle_signal() -> io::Result<()> {
    // SAFETY: The handler does nothing.
    match unsafe { signal(SIGUSR1, on_signal) } {
        SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sends SIGUSR1 to this process, which has handled it when this returns.
pub(crate) fn signal_self() -> io::Result<()> {
    // SAFETY: It is this process that gets the signal; see [`handle_signal`].
    checked(unsafe { kill(getpid(), SIGUSR1) }).map(drop)
}

/// Ticks of the time stamp counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: Every x86-64 processor has it, and Linux allows it unless somebody asks otherwise.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Mounts a file system of the kernel's.
pub(crate) fn mount_kernel(kind: &CStr, target: &CStr) -> io::Result<()> {
    // SAFETY: All strings end with a zero byte; these file systems need no data.
    let result = unsafe {
        mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    checked(result).map(drop)
}

fn checked_call(result: c_long) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Loads a module, without parameters.
pub(crate) fn load_module(file: &File) -> io::Result<()> {
    // SAFETY: The parameters are an empty string; the kernel reads the file.
    checked_call(unsafe { syscall(SYS_FINIT_MODULE, file.as_raw_fd(), c"".as_ptr(), 0) })
}

/// Unloads a module by its name.
pub(crate) fn unload_module(name: &CStr) -> io::Result<()> {
    // SAFETY: The name ends with a zero byte.
    checked_call(unsafe { syscall(SYS_DELETE_MODULE, name.as_ptr(), 0) })
}

/// Turns the machine off at once. Only PID 1 of a guest calls this.
pub(crate) fn power_off() {
    reboot(RB_POWER_OFF);
}
