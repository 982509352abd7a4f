//! The layer that takes what a VM writes: an empty qcow2 image, in memory alone.
//!
//! The file has no name and is on no disk. It is as large as it may get, and sealed so that it grows
//! no further: what is beyond it is a write error in the VM.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// Bytes of a cluster, a power of 2.
const CLUSTER: u64 = 1 << CLUSTER_BITS;
const CLUSTER_BITS: u32 = 16;
/// Entries of an L2 table, each of 8 bytes for a cluster.
const L2_ENTRIES: u64 = CLUSTER / 8;
/// Largest disk, bytes: its L1 table has 8 MiB, and QEMU takes 32 (`QCOW_MAX_L1_SIZE`).
pub(super) const LARGEST: u64 = (1 << 20) * L2_ENTRIES * CLUSTER;

/// A layer for a disk of `size` bytes, which takes up to `most` bytes of memory.
///
/// # Errors
/// If memory cannot be had, or the disk is larger than [`LARGEST`].
pub(super) fn layer(size: u64, most: u64) -> io::Result<File> {
    if size > LARGEST {
        return Err(io::Error::other("the disk is larger than 512 TiB"));
    }
    let (head, l1) = image(size);
    let created = memfd_create(
        "brisk-layer",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let file = File::from(created);
    file.write_all_at(&head, 0)?;
    ftruncate(&file, most.max(3 * CLUSTER + l1))?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// The beginning of an empty image (`docs/interop/qcow2.rst` of QEMU): header, reference counts and
/// their table; and the bytes of the L1 table of zeros that follows.
fn image(size: u64) -> (Vec<u8>, u64) {
    let l1_entries = size.div_ceil(L2_ENTRIES * CLUSTER).max(1);
    let l1_clusters = (l1_entries * 8).div_ceil(CLUSTER);
    let mut bytes = vec![0; 3 * CLUSTER as usize];
    let mut put = |at: u64, value: &[u8]| {
        let at = at as usize;
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &CLUSTER_BITS.to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &(l1_entries as u32).to_be_bytes());
    put(40, &(3 * CLUSTER).to_be_bytes());
    // Table of reference counts, and its clusters.
    put(48, &CLUSTER.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    // Bits of a reference count, as a power of 2, and bytes of the header.
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(CLUSTER, &(2 * CLUSTER).to_be_bytes());
    for cluster in 0..3 + l1_clusters {
        put(2 * CLUSTER + 2 * cluster, &1_u16.to_be_bytes());
    }
    (bytes, l1_clusters * CLUSTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_an_image_that_reads_as_its_disk() {
        let size = 3 * (1 << 40) + 512;
        let (head, l1) = image(size);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("layer.qcow2");
        let mut bytes = head;
        bytes.resize(bytes.len() + l1 as usize, 0);
        std::fs::write(&path, bytes).unwrap();
        let found = brisk_rootfs::image(&path, None).unwrap();
        assert_eq!(found.format, brisk_rootfs::Format::Qcow2);
        assert!(found.backing.is_empty());
    }

    #[test]
    fn a_layer_takes_so_much_and_no_more() {
        let layer = layer(1 << 30, 8 << 20).unwrap();
        assert_eq!(layer.metadata().unwrap().len(), 8 << 20);
        layer.write_all_at(&[1], (8 << 20) - 1).unwrap();
        layer.write_all_at(&[1], 8 << 20).unwrap_err();
        layer.set_len(9 << 20).unwrap_err();
    }

    #[test]
    fn a_disk_that_is_too_large_is_refused() {
        layer(LARGEST + 1, 8 << 20).unwrap_err();
        assert_eq!(image(LARGEST).1, 8 << 20);
    }
}
