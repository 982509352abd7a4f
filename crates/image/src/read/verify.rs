//! Verification: reading everything once to know that it can be read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Place};
use crate::format::pages;
use crate::format::record::Record;
use crate::pipeline::Control;
use crate::read::reader::Image;

/// Parts of an image that were verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// Number of chunks in this file, equal to [`Header::stored_chunks`].
    ///
    /// [`Header::stored_chunks`]: super::Header::stored_chunks
    pub stored_chunks: u64,
    /// Nonzero pages in these chunks.
    pub stored_pages: u64,
    /// Number of chunks that are in base images.
    pub parent_chunks: u64,
    /// Bytes of device state.
    pub state: u64,
}

impl Image {
    /// Reads and authenticates everything: device state, working set, all chunks of this image, and
    /// the chunks of base images that it needs.
    ///
    /// # Errors
    /// The first place that is damaged, or [`Error::NoParent`] if a base image is not open.
    pub fn verify(&self, threads: usize, control: Control<'_>) -> Result<Verified, Error> {
        let state = self.state()?.len() as u64;
        self.working_set()?;
        self.each_working_page(&mut |_, _| true)?;
        let stored_pages = AtomicU64::new(0);
        self.each_chunk(threads, control, |index, _, bitmap| {
            if let Record::Here { .. } = self.records[index as usize] {
                stored_pages.fetch_add(pages::count(bitmap) as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        let (stored_chunks, stored_pages) = (self.stored_chunks(), stored_pages.into_inner());
        for (counted, stated, what) in [
            (stored_chunks, self.header.stored_chunks, "chunks"),
            (stored_pages, self.header.stored_pages, "pages"),
        ] {
            if counted != stated {
                let what = format!("it states {stated} {what}, and {counted} are there");
                return Err(Error::damaged(self.path(), Place::Header, what));
            }
        }
        Ok(Verified {
            stored_chunks,
            stored_pages,
            parent_chunks: self.parent_chunks(),
            state,
        })
    }
}
