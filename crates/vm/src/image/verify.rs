//! Reading everything once to know that it can be read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Error, Place};
use super::pages;
use super::pipeline::Control;
use super::reader::{Image, Record};

/// What was found whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// Chunks of memory.
    pub chunks: u64,
    /// Pages in them that are not zero.
    pub pages: u64,
    /// Bytes of device state.
    pub state: u64,
    /// Whether all parents were there; without them only this image's own chunks are read.
    pub complete: bool,
}

impl Image {
    /// Reads and authenticates everything: device state, working set, and all chunks of this
    /// image and of those that it is based on, if they are open.
    ///
    /// # Errors
    /// The first place that is not whole.
    pub fn verify(&self, threads: usize, control: Control<'_>) -> Result<Verified, Error> {
        let state = self.state()?.len() as u64;
        self.working_set()?;
        self.each_working_page(&mut |_, _| true)?;
        let (chunks, pages, own) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let count = |index: u64, bitmap: &[u8]| {
            let kept = pages::count(bitmap) as u64;
            chunks.fetch_add(1, Ordering::Relaxed);
            pages.fetch_add(kept, Ordering::Relaxed);
            if let Record::Here { .. } = self.records[index as usize] {
                own.fetch_add(kept, Ordering::Relaxed);
            }
            Ok(())
        };
        let complete = self.parent.is_some() || self.head.parent.is_none();
        self.each_chunk(threads, control, |index, _, bitmap| count(index, bitmap))?;
        if own.into_inner() != self.header.stored_pages {
            let what = "it has another number of pages than its chunks";
            return Err(Error::damaged(self.path(), Place::Header, what));
        }
        Ok(Verified {
            chunks: chunks.into_inner(),
            pages: pages.into_inner(),
            state,
            complete,
        })
    }
}
