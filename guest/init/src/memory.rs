//! Memory functions that the compiler expects from a C library.

use core::arch::asm;

/// Copies eight bytes at a time: under emulation a byte-wise `rep movsb` is slow.
///
/// # Safety
/// As `memcpy(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep movsq", "mov ecx, {rest:e}", "rep movsb",
            rest = in(reg) len & 7, inout("rcx") len >> 3 => _,
            inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As `memmove(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= len {
        // SAFETY: copying forwards never overwrites what is still to be read.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the ranges overlap with `to` behind `from`, so this copies backwards; the
    // direction flag is restored.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") len => _,
            inout("rdi") to.wrapping_add(len).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(len).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As `memset(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the range.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As `memcmp(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: the caller vouches for both ranges.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As `bcmp(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, len) }
}

/// # Safety
/// As `strlen(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller vouches that a NUL ends the text.
    while unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}
