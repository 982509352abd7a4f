//! Where pieces go: compressed, sealed and written to the next free place.

use std::path::Path;

use crate::error::{Error, io_error};
use crate::format::chunk::{self, Scratch};
use crate::format::codec::Encoder;
use crate::format::header::Header;
use crate::format::pages;
use crate::format::seal::{self, Kind, Owner, PieceId, SealKey, TAG};
use crate::memory::PAGE;
use crate::pipeline::Control;
use crate::write::output::Output;
use crate::write::report::{Stages, Watch};

/// Where chunks go, and what they are sealed with.
pub(crate) struct Target<'a> {
    pub(crate) path: &'a Path,
    pub(crate) header: &'a Header,
    pub(crate) owner: Owner,
    pub(crate) key: &'a SealKey,
    pub(crate) output: &'a Output<'a>,
    pub(crate) control: Control<'a>,
}

/// What one thread needs: all the memory it will ever use.
pub(crate) struct Worker {
    pub(crate) chunk: Vec<u8>,
    pub(crate) bitmap: Vec<u8>,
    sealed: Vec<u8>,
    encoder: Encoder,
    pub(crate) base: Option<Scratch>,
    pub(crate) stages: Stages,
}

impl Worker {
    /// For chunks of an image; `compares` them with those of another one.
    pub(crate) fn new(target: &Target<'_>, compares: bool) -> Result<Self, Error> {
        let size = target.header.chunk_size as usize;
        Ok(Self {
            chunk: vec![0; size],
            bitmap: vec![0; pages::bitmap_len(size)],
            sealed: vec![0; chunk::sealed_bound(size)],
            encoder: target.encoder()?,
            base: compares.then(|| Scratch::new(size)).transpose()?,
            stages: Stages::default(),
        })
    }

    /// What all of them did.
    pub(crate) fn stages(workers: &[Self]) -> Stages {
        let mut stages = Stages::default();
        workers.iter().for_each(|worker| stages.add(&worker.stages));
        stages
    }
}

impl Target<'_> {
    /// A context of the image's compression.
    pub(crate) fn encoder(&self) -> Result<Encoder, Error> {
        Encoder::new(self.header.compression).map_err(io_error("compress", self.path))
    }

    /// Compresses, seals and writes the `kept` pages at the start of a worker's chunk; where they
    /// are, and their sealed length.
    pub(crate) fn put_chunk(
        &self,
        worker: &mut Worker,
        kind: Kind,
        index: u64,
        kept: usize,
        watch: &mut Watch,
    ) -> Result<(u64, u32), Error> {
        let bitmap = &worker.bitmap[..pages::bitmap_len(self.header.chunk_len(index))];
        let (plain, sealed) = (&worker.chunk[..kept * PAGE], &mut worker.sealed);
        let length = chunk::encode(&mut worker.encoder, bitmap, plain, sealed)
            .map_err(io_error("compress the memory for", self.path))?;
        worker.stages.compress += watch.lap();
        let sealed = self.seal(kind.piece(index), self.header.chunks(), sealed, length);
        worker.stages.seal += watch.lap();
        let offset = self.output.put(sealed, self.control)?;
        worker.stages.write += watch.lap();
        Ok((offset, sealed.len() as u32))
    }

    /// Seals the first bytes of a buffer, which has room for the tag behind them.
    pub(crate) fn seal<'b>(
        &self,
        piece: PieceId,
        count: u64,
        bytes: &'b mut [u8],
        length: usize,
    ) -> &'b [u8] {
        let associated = seal::associated(&self.owner, piece, count);
        let tag = self.key.seal(piece, &associated, &mut bytes[..length]);
        bytes[length..length + TAG].copy_from_slice(&tag);
        &bytes[..length + TAG]
    }
}
