//! A process that is started before its command is known.
//!
//! A template's guest waits for its command, and is restored by many runs. It pays for the start of
//! a process before that, once: under emulation nearly all code that runs for the first time after
//! a restore has to be translated first, and that of fork(2) is a sixth of the time of a short
//! command.

use core::cell::UnsafeCell;

use crate::job::Job;
use crate::spawn::{self, Ends, Streams};
use crate::sys;

/// Bytes of its stack; pages of it that are not used are not taken from memory.
const STACK: usize = 64 * 1024;

/// Memory that the process and its parent share.
struct Order {
    /// Written by the parent before it writes to `go`, read by the process after it has read there.
    job: UnsafeCell<*mut Job<'static>>,
    /// The process's ends of the command's pipes.
    ends: Ends,
    /// Pipe from which the process reads the signal to begin.
    go: i32,
    /// Pipe to which the process writes an error.
    status_out: i32,
}

/// The parent's side.
pub(crate) struct Spare {
    pub(crate) pid: i32,
    /// The parent's ends of the command's pipes.
    pub(crate) ends: Ends,
    /// Pipe from which the error is read if the command cannot be executed.
    pub(crate) status_in: i32,
    /// Pipe for the signal to begin.
    pub(crate) go: i32,
    order: &'static Order,
}

/// Starts the process; returns when it waits.
pub(crate) fn prepare() -> sys::Result<Spare> {
    let Streams { ours, theirs } = spawn::pipes()?;
    let (status_in, status_out) = sys::pipe(sys::O_CLOEXEC)?;
    let (wait, go) = sys::pipe(sys::O_CLOEXEC)?;
    let stack = sys::pages(STACK)?;
    let memory = sys::pages(size_of::<Order>())?;
    let order: *mut Order = memory.as_mut_ptr().cast();
    // SAFETY: a mapping of our own, aligned to a page, large enough and never given back; its other
    // half is a process that touches `job` only after it got the byte.
    let (order, pid) = unsafe {
        order.write(Order {
            job: UnsafeCell::new(core::ptr::null_mut()),
            ends: theirs,
            go: wait,
            status_out,
        });
        (&*order, sys::twin(stack, serve, order as usize)?)
    };
    for fd in theirs.into_iter().chain([status_out, wait]) {
        sys::close(fd);
    }
    // The first byte says that it waits.
    let _ = sys::read(status_in, &mut [0]);
    Ok(Spare {
        pid,
        ends: ours,
        status_in,
        go,
        order,
    })
}

impl Spare {
    /// Runs the command of `job`. The caller reads from `status_in` before it touches the job again:
    /// that ends when the process has executed the program, or ended.
    pub(crate) fn run(&self, job: &mut Job<'static>) -> sys::Result<()> {
        // SAFETY: the process does not look there before it has read the byte.
        unsafe { *self.order.job.get() = job };
        // Nobody waits for its end, and closing it now is one more thing to translate.
        sys::write(self.go, b"!").map(drop)
    }

    /// Ends the process: it is not needed.
    pub(crate) fn dismiss(self) {
        for fd in self.ends.into_iter().chain([self.status_in, self.go]) {
            sys::close(fd);
        }
    }
}

extern "C" fn serve(order: usize) -> ! {
    // SAFETY: what `prepare` wrote there, which stays.
    let order = unsafe { &*(order as *const Order) };
    spawn::lead();
    let _ = sys::write(order.status_out, b"!");
    while let Err(sys::EINTR) = sys::read(order.go, &mut [0]) {}
    // SAFETY: written before the byte was; the parent waits until this process has other memory or
    // has ended.
    let job = unsafe { (*order.job.get()).as_mut() };
    if let Some(job) = job {
        let errno = match sys::own_root() {
            Ok(()) => spawn::execute(job, order.ends),
            Err(errno) => errno,
        };
        let _ = sys::write(order.status_out, &errno.to_le_bytes());
    }
    sys::exit(127);
}
