//! The library that is loaded: see `lib.rs`.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]

mod request;

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use request::{GET, XSTATE, completed, reads_word, replaces_all};

/// More than the registers of any processor take: 11,008 bytes with AMX.
const ROOM: usize = 16 << 10;
const PTRACE: isize = 101;

/// `struct iovec`.
#[repr(C)]
struct Iovec {
    base: *mut u8,
    len: usize,
}

/// A buffer that one call at a time may have. The stacks of user-mode Linux are too small for it.
struct Buffer {
    is_taken: AtomicBool,
    bytes: UnsafeCell<[u8; ROOM]>,
}

// SAFETY: `ptrace` uses `bytes` only after it has set `is_taken`, which nobody else had.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer {
    is_taken: AtomicBool::new(false),
    bytes: UnsafeCell::new([0; ROOM]),
};

unsafe extern "C" {
    safe fn __errno_location() -> *mut i32;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: it ends the process.
        unsafe { asm!("ud2") };
    }
}

/// Function of the C library, which passes all four on to the kernel.
///
/// # Safety
/// As the system call: pointers must be valid for what the request does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: i32, pid: i32, addr: usize, data: usize) -> isize {
    let (request, pid) = (request as isize as usize, pid as isize as usize);
    let mut word = 0_isize;
    let result = if reads_word(request) {
        // SAFETY: the system call writes a word there; the caller vouches for the rest.
        unsafe { call(request, pid, addr, &raw mut word as usize) }
    } else if replaces_all(request, addr) {
        // SAFETY: of such a request `data` is a `struct iovec`, for which the caller vouches.
        unsafe { set(request, pid, &*(data as *const Iovec)) }
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { call(request, pid, addr, data) }
    };
    match i32::try_from(-result) {
        Ok(error @ 1..=4095) => {
            // SAFETY: the C library's errno of this thread.
            unsafe { *__errno_location() = error };
            -1
        }
        _ if reads_word(request) => {
            // As the C library, so that a word of -1 is none.
            // SAFETY: as above.
            unsafe { *__errno_location() = 0 };
            word
        }
        _ => result,
    }
}

/// Replaces all registers of a process.
///
/// # Safety
/// `given` must be valid.
unsafe fn set(request: usize, pid: usize, given: &Iovec) -> isize {
    if BUFFER.is_taken.swap(true, Ordering::Acquire) {
        // As without this library: a user-mode Linux that has several threads has room for all.
        // SAFETY: the caller vouches for it.
        return unsafe { call(request, pid, XSTATE, &raw const *given as usize) };
    }
    let base = BUFFER.bytes.get().cast::<u8>();
    let mut current = Iovec { base, len: ROOM };
    // SAFETY: the buffer is taken, and has that length; the caller vouches for `given`.
    let result = unsafe {
        let read = call(GET, pid, XSTATE, &raw mut current as usize);
        let room = core::slice::from_raw_parts_mut(base, ROOM);
        let text = core::slice::from_raw_parts(given.base, given.len);
        let all = (read >= 0)
            .then(|| completed(text, room, current.len))
            .flatten();
        let all = all.map_or((given.base, given.len), |all| (base, all.len()));
        let mut all = Iovec {
            base: all.0,
            len: all.1,
        };
        call(request, pid, XSTATE, &raw mut all as usize)
    };
    BUFFER.is_taken.store(false, Ordering::Release);
    result
}

/// The system call.
///
/// # Safety
/// Pointers must be valid for what the request does.
unsafe fn call(request: usize, pid: usize, addr: usize, data: usize) -> isize {
    let result;
    // SAFETY: the system call convention of x86-64; the caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") PTRACE => result,
            in("rdi") request,
            in("rsi") pid,
            in("rdx") addr,
            in("r10") data,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
