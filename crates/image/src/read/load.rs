//! Loading of a whole image.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, io_error};
use crate::format::chunk::Scratch;
use crate::format::pages;
use crate::format::record::Record;
use crate::memory::PAGE;
use crate::pipeline::{Control, Progress, Work};
use crate::read::reader::Image;

/// A range of the memory, and its place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the memory.
    pub from: u64,
    /// Offset in the file.
    pub to: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Image {
    /// Writes the memory to a new file, whose length is set; zero pages become holes. The path is
    /// for messages.
    ///
    /// # Errors
    /// If a chunk cannot be read or was altered, or the file cannot be written. The file's content
    /// is not the guest's memory then.
    pub fn load(
        &self,
        into: &File,
        path: &Path,
        threads: usize,
        control: Control<'_>,
    ) -> Result<(), Error> {
        let all = Piece {
            from: 0,
            to: 0,
            length: self.header.memory,
        };
        self.load_pieces(into, path, &[all], threads, control)
    }

    /// Writes parts of the memory to a new file, each to its own place; otherwise as
    /// [`Self::load`].
    ///
    /// # Errors
    /// See [`Self::load`].
    pub fn load_pieces(
        &self,
        into: &File,
        path: &Path,
        pieces: &[Piece],
        threads: usize,
        control: Control<'_>,
    ) -> Result<(), Error> {
        let failed = || io_error("write", path);
        let end = pieces.iter().map(|piece| piece.to + piece.length).max();
        into.set_len(end.unwrap_or(0)).map_err(failed())?;
        self.each_chunk(threads, control, |index, plain, bitmap| {
            let start = self.header.chunk_start(index);
            let mut at = 0;
            for (first, count) in pages::runs(bitmap) {
                let bytes = &plain[at..at + count * PAGE];
                at += bytes.len();
                for (part, to) in placed(pieces, start + (first * PAGE) as u64, bytes) {
                    into.write_all_at(part, to).map_err(failed())?;
                }
            }
            Ok(())
        })
    }

    /// Calls `with` for each chunk that is not zero: its number, its pages that are not zero,
    /// and their bitmap.
    pub(crate) fn each_chunk(
        &self,
        threads: usize,
        control: Control<'_>,
        with: impl Fn(u64, &[u8], &[u8]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let size = self.header.chunk_size as usize;
        let (done, stored) = (AtomicU64::new(0), AtomicU64::new(0));
        let worker = || Ok((Scratch::new(size)?, vec![0; size]));
        let step = |(scratch, out): &mut (Scratch, Vec<u8>), index: u64| {
            let length = self.header.chunk_len(index);
            let record = self.records[index as usize];
            if record != Record::Zero {
                let bitmap = self.gathered(index, &mut out[..length], scratch)?;
                with(index, out, bitmap)?;
            }
            let read = match record {
                Record::Here { length, .. } => u64::from(length),
                _ => 0,
            };
            (control.progress)(Progress {
                done: done.fetch_add(length as u64, Ordering::Relaxed) + length as u64,
                total: self.header.memory,
                stored: stored.fetch_add(read, Ordering::Relaxed) + read,
            });
            Ok(())
        };
        Work::new(self.header.chunks(), control)
            .run(threads.max(1), worker, step)
            .map(drop)
    }
}

/// The parts of a range of memory that `pieces` place in the file, with their places.
fn placed<'a>(
    pieces: &'a [Piece],
    from: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], u64)> {
    let end = from + bytes.len() as u64;
    pieces.iter().filter_map(move |piece| {
        let first = from.max(piece.from);
        let last = end.min(piece.from + piece.length);
        (first < last).then(|| {
            let part = &bytes[(first - from) as usize..(last - from) as usize];
            (part, piece.to + (first - piece.from))
        })
    })
}
