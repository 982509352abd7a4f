//! Loading of the kernel modules in the initramfs, in the order of brisk's list.

use crate::sys::{self, Text};
use crate::trace::Trace;

/// One path a line; written by the initramfs builder.
const LIST: &[u8] = b"/modules\0";
const MOST: usize = 64 * 1024;

/// Loads all; returns the first that failed, with the error.
///
/// One that says that its hardware is not there is no failure: soft dependencies such as
/// `crc32c_intel` refuse processors that they are not for.
///
/// One after the other: with one virtual CPU there is nothing to gain from threads, and the
/// few modules of a guest are mostly a chain of dependencies.
pub(crate) fn load_all(trace: Trace) -> Option<(&'static [u8], i32)> {
    let list = sys::open(Text::new(LIST), sys::O_RDONLY, 0).ok()?;
    let bytes = sys::pages(MOST).ok()?;
    let mut len = 0;
    while let Ok(count @ 1..) = sys::read(list, &mut bytes[len..MOST - 1]) {
        len += count;
    }
    sys::close(list);
    let mut start = 0;
    let mut failed = None;
    for end in 0..len {
        if bytes[end] != b'\n' {
            continue;
        }
        bytes[end] = 0;
        let path = &bytes[start..=end];
        trace.begin(b"module", path);
        let result = load(path);
        trace.end(b"module", path);
        if let Err(errno) = result {
            failed = failed.or(Some((start..end, errno)));
        }
        start = end + 1;
    }
    let bytes: &'static [u8] = bytes;
    failed.map(|(name, errno)| (&bytes[name], errno))
}

fn load(path: &[u8]) -> sys::Result<()> {
    let file = sys::open(Text::new(path), sys::O_RDONLY | sys::O_CLOEXEC, 0)?;
    let result = sys::load_module(file);
    sys::close(file);
    match result {
        Err(sys::EEXIST | sys::ENODEV) => Ok(()),
        other => other,
    }
}
