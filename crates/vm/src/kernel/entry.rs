//! Entry points of kernels.

use std::path::Path;

use super::error::{Error, Reason};
use super::{Image, elf, read};

/// The first instruction of a kernel that QEMU's `-kernel` and its firmware reach in protected
/// mode, before there is paging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Physical address.
    pub address: u64,
    /// Name of the entry point.
    pub name: &'static str,
}

/// Entry point at which QEMU enters an image.
///
/// A vmlinux is entered by its PVH note. A bzImage's setup code runs in real mode and jumps to
/// `code32_start` (`arch/x86/boot/pm.c`), which is the decompressor's `startup_32`.
///
/// # Errors
///
/// If the file cannot be read, or QEMU does not start such a file, or not at a known address.
pub fn entry(image: &Path) -> Result<Entry, Error> {
    let bytes = read(image)?;
    of_bytes(&bytes).map_err(|source| Error::Image {
        path: image.to_owned(),
        source,
    })
}

fn of_bytes(bytes: &[u8]) -> Result<Entry, Reason> {
    let entry = |address, name| Ok(Entry { address, name });
    match Image::parse(bytes)? {
        Image::Vmlinux(vmlinux) => match elf::pvh_entry(vmlinux) {
            Some(address) => entry(address, "PVH entry"),
            None => Err(Reason::NoEntry("a vmlinux without PVH (CONFIG_PVH)")),
        },
        Image::BzImage(image) => match image.entry {
            Some(address) => entry(address.into(), "decompressor's startup_32"),
            None => Err(Reason::NoEntry("a zImage, which is loaded low")),
        },
        Image::Uki(_) => Err(Reason::NoEntry(
            "a program of UEFI, which loads it anywhere",
        )),
        Image::Compressed(..) => Err(Reason::NoEntry("compressed, which QEMU does not start")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bzimage, vmlinux};
    use super::*;

    #[test]
    fn each_kind_of_image_has_its_entry() {
        let own = vmlinux();
        let pvh = of_bytes(&own).unwrap();
        assert_eq!((pvh.address, pvh.name), (0x100_0850, "PVH entry"));
        let mut image = bzimage(&own);
        let zimage = of_bytes(&image).unwrap_err().to_string();
        assert!(zimage.contains("zImage"), "{zimage}");
        image[0x211] = 1;
        image[0x214..0x218].copy_from_slice(&0x10_0000_u32.to_le_bytes());
        assert_eq!(of_bytes(&image).unwrap().address, 0x10_0000);
        assert!(of_bytes(b"#!/bin/sh").is_err());
    }

    #[test]
    fn a_vmlinux_without_pvh_has_none() {
        let mut own = vmlinux();
        // The note's owner.
        own[0x110c] = b'Y';
        let error = of_bytes(&own).unwrap_err().to_string();
        assert!(error.contains("without PVH"), "{error}");
    }
}
