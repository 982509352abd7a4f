//! What kept memory is after a QEMU that had it was ended before its guest ran.
//!
//! QEMU changes it as it loads the state of the devices: with KVM, setting `MSR_KVM_WALL_CLOCK`
//! (`kvm_put_msrs` in QEMU's `target/i386/kvm/kvm.c`) has the kernel write the time into the guest's
//! memory (`kvm_write_wall_clock` in `arch/x86/kvm/x86.c`).

use std::io;

use brisk_host::files::{self, Durability};
use serde::{Deserialize, Serialize};

use super::super::paths::{LARGEST, VmPaths};

/// The record.
#[derive(Serialize, Deserialize)]
struct Again {
    /// Identity of the image that the memory was kept for.
    image: [u8; 16],
    digest: [u8; 32],
}

/// Records the digest of the memory that was kept for an image.
pub(super) fn note(paths: &VmPaths, image: &[u8; 16], digest: [u8; 32]) -> io::Result<()> {
    let again = Again {
        image: *image,
        digest,
    };
    files::replace(
        &paths.kept_again(),
        &serde_json::to_vec(&again)?,
        Durability::Durable,
    )
}

/// The digest that was recorded last, if it was for this image.
pub(super) fn digest_of(paths: &VmPaths, image: &[u8; 16]) -> Option<[u8; 32]> {
    let text = files::read_regular(&paths.kept_again(), LARGEST).ok()?;
    let again: Again = serde_json::from_slice(&text).ok()?;
    (again.image == *image).then_some(again.digest)
}
