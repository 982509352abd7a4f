//! Whether a qcow2 image is there to its end.
//!
//! Its tables say where in the file its clusters are: QEMU's docs/interop/qcow2.txt, "Cluster
//! mapping".

use std::fs::File;

use super::{MAGIC, read_at};

/// Bits 9 to 55 of an entry: where the cluster begins.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 62 of an entry: the cluster is compressed.
const COMPRESSED: u64 = 1 << 62;
/// Bit 0 of an entry: the cluster reads as zeros, wherever it is.
const ZEROS: u64 = 1;
/// Bit 4 of the incompatible features: entries of 16 bytes.
const EXTENDED: u64 = 1 << 4;
/// Most L1 entries that QEMU takes (32 MiB of them), and most L2 tables that are read: those of
/// 2 TiB with clusters of the usual size.
const L1_MAX: u32 = 4 << 20;
const TABLES_MAX: usize = 4096;

/// The first offset behind the end of the file at which the image has something, if one is found:
/// it was not copied or downloaded to its end. `head` is its header; one that is malformed has none.
pub(super) fn beyond_end(file: &File, head: &[u8]) -> Option<u64> {
    let length = file.metadata().ok().filter(|found| found.is_file())?.len();
    let u32_at = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_be_bytes(head.get(at..at + 8)?.try_into().ok()?));
    if !head.starts_with(MAGIC) {
        return None;
    }
    let bits = u32_at(20).filter(|bits| (9..=21).contains(bits))?;
    let is_extended = u32_at(4)? >= 3 && u64_at(72)? & EXTENDED != 0;
    let entries = u32_at(36).filter(|entries| *entries <= L1_MAX)?;
    let l1 = u64_at(40)?;
    let l1_end = l1.checked_add(u64::from(entries) * 8)?;
    if l1_end > length {
        return Some(l1_end);
    }
    let mut tables: Vec<u64> = words(file, l1, entries as usize * 8)?
        .map(|entry| entry & OFFSET)
        .filter(|table| *table != 0)
        .collect();
    tables.sort_unstable();
    tables.dedup();
    if let Some(last) = tables.last().filter(|last| **last >= length) {
        return Some(*last);
    }
    // The offset of a compressed cluster has fewer bits, the number of its sectors is above.
    let compressed = (1_u64 << (62 - (bits - 8))) - 1;
    let step = if is_extended { 2 } else { 1 };
    let clusters = tables.iter().take(TABLES_MAX).filter_map(|table| {
        let entries = words(file, *table, 1 << bits)?.step_by(step);
        entries
            .filter_map(|entry| match entry & COMPRESSED {
                0 if is_extended || entry & ZEROS == 0 => Some(entry & OFFSET),
                0 => None,
                _ => Some(entry & compressed),
            })
            .max()
    });
    clusters.max().filter(|last| *last >= length)
}

/// Numbers of 64 bits, big-endian, as many as there are up to the end of the file.
fn words(file: &File, at: u64, length: usize) -> Option<impl Iterator<Item = u64>> {
    let bytes = read_at(file, at, length).ok()?;
    let words = bytes.len() / 8;
    Some((0..words).map(move |index| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..][..8]);
        u64::from_be_bytes(word)
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// An image of 1 MiB with clusters of 512 bytes: L1 at 512, L2 at 1024, one cluster.
    fn image(entry: u64, length: usize) -> File {
        let mut bytes = vec![0; 4096];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..8].copy_from_slice(&3_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&9_u32.to_be_bytes());
        bytes[36..40].copy_from_slice(&32_u32.to_be_bytes());
        bytes[40..48].copy_from_slice(&512_u64.to_be_bytes());
        bytes[512..520].copy_from_slice(&(1024_u64 | 1 << 63).to_be_bytes());
        bytes[1032..1040].copy_from_slice(&entry.to_be_bytes());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes[..length]).unwrap();
        file
    }

    fn found(entry: u64, length: usize) -> Option<u64> {
        let file = image(entry, length);
        beyond_end(&file, &read_at(&file, 0, 512).unwrap())
    }

    #[test]
    fn an_image_that_was_cut_off_is_noticed() {
        let at = 3584;
        assert_eq!(found(at | 1 << 63, 4096), None);
        // The last cluster may be written in part.
        assert_eq!(found(at | 1 << 63, 3585), None);
        assert_eq!(found(at | 1 << 63, 3584), Some(at));
        assert_eq!(found(at | COMPRESSED | 3 << 61, 2048), Some(at));
        assert_eq!(found(at | ZEROS, 2048), None);
        assert_eq!(found(at, 1024), Some(1024));
        assert_eq!(found(at, 600), Some(768));
        assert_eq!(found(at, 100), Some(768));
        assert_eq!(found(at, 40), None);
    }
}
