//! Formats of disk images.

use std::fmt;

/// The format of a disk image, as QEMU's `format=` has it. To be passed on always: guessing it
/// from content that a guest wrote is how a guest reads files of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// QEMU's qcow2.
    Qcow2,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}
