//! Loading of a kernel that kexec is to start (kexec_file_load(2)).
#![expect(unsafe_code, reason = "a system call that neither libc nor rustix has")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// `KEXEC_FILE_UNLOAD` of `include/uapi/linux/kexec.h`.
const UNLOAD: libc::c_ulong = 1;
/// `KEXEC_FILE_NO_INITRAMFS`.
const NO_INITRAMFS: libc::c_ulong = 4;

/// Has the kernel read a kernel image and an initial RAM disk, both from the beginning of regular
/// files, and keep them in memory for the next `LINUX_REBOOT_CMD_KEXEC` of reboot(2). An image that
/// was loaded before is replaced. The machine runs on as before.
///
/// # Errors
/// Those of kexec_file_load(2); `ENOSYS` of a kernel without it.
pub fn kexec_file_load(kernel: &File, initrd: Option<&File>, cmdline: &CStr) -> io::Result<()> {
    let flags = match initrd {
        Some(_) => 0,
        None => NO_INITRAMFS,
    };
    // SAFETY: the descriptors are open, and the text, of the length that is given, ends in NUL and
    // outlives the call. The kernel copies all of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            libc::c_long::from(kernel.as_raw_fd()),
            initrd.map_or(-1, |file| libc::c_long::from(file.as_raw_fd())),
            cmdline.to_bytes_with_nul().len(),
            cmdline.as_ptr(),
            flags,
        )
    };
    ended(result)
}

/// Has the kernel forget what was loaded, whether by this call's counterpart or by
/// kexec_load(2), and whoever loaded it.
///
/// # Errors
/// Those of kexec_file_load(2); none if nothing is loaded.
pub fn kexec_file_unload() -> io::Result<()> {
    let none: libc::c_long = -1;
    // SAFETY: with this flag the kernel looks at no other argument.
    let result = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            none,
            none,
            0_usize,
            ptr::null::<libc::c_char>(),
            UNLOAD,
        )
    };
    ended(result)
}

fn ended(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
