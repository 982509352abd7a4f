//! Digest of a memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, io_error};
use crate::pipeline::{Control, Progress, Work};

/// Bytes that are hashed at once.
const PIECE: u64 = 1 << 20;

/// Digest of a memory of `size` bytes: BLAKE3 over the BLAKE3 of each MiB. The path is for messages.
///
/// # Errors
/// If the memory cannot be read, or the caller cancels.
pub fn digest(
    memory: &File,
    path: &Path,
    size: u64,
    threads: usize,
    control: Control<'_>,
) -> Result<[u8; 32], Error> {
    let pieces = size.div_ceil(PIECE);
    let hashes = Mutex::new(vec![[0; 32]; pieces as usize]);
    let step = |buffer: &mut Vec<u8>, index: u64| {
        let start = index * PIECE;
        let piece = &mut buffer[..(size - start).min(PIECE) as usize];
        let read = memory.read_exact_at(piece, start);
        read.map_err(io_error("read", path))?;
        let hash = blake3::hash(piece);
        let mut hashes = hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes[index as usize] = hash.into();
        (control.progress)(Progress {
            done: start + piece.len() as u64,
            total: size,
            stored: 0,
        });
        Ok(())
    };
    let worker = || Ok(vec![0; PIECE as usize]);
    Work::new(pieces, control).run(threads.max(1), worker, step)?;
    let hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(blake3::hash(hashes.as_flattened()).into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn each_bit_counts_and_its_place() {
        let memory = tempfile::tempfile().unwrap();
        let size = 3 * PIECE + 4096;
        memory.set_len(size).unwrap();
        let of = |threads| {
            let path = Path::new("memory");
            digest(&memory, path, size, threads, Control::none()).unwrap()
        };
        let mut seen = vec![of(1)];
        for at in [0, 1, PIECE, 3 * PIECE + 4095] {
            memory.write_all_at(&[1], at).unwrap();
            seen.push(of(2));
            assert_eq!(of(1), of(3));
            memory.write_all_at(&[0], at).unwrap();
        }
        assert_eq!(of(2), seen[0]);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 5);
        memory.set_len(size - 1).unwrap();
        let path = Path::new("memory");
        assert!(digest(&memory, path, size, 2, Control::none()).is_err());
    }
}
