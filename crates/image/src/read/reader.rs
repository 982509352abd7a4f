//! Reading of an image.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;

use crate::durable::split;
use crate::error::{Error, Place, io_error};
use crate::format::chunk::{self, Scratch};
use crate::format::description::Description;
use crate::format::head::Head;
use crate::format::header::Header;
use crate::format::pages;
use crate::format::record::Record;
use crate::format::seal::{self, DataKey, INDEX, Kind, Owner, PIECES, SealKey};
use crate::keys::Keys;
use crate::read::open::{read_head, read_header, read_records};

/// Most images of a chain.
pub(crate) const MAX_CHAIN: usize = 16;

/// An image whose header, description and list of chunks are authentic. Chunks are
/// authenticated when they are read. All of it can be used by several threads at once.
pub struct Image {
    pub(crate) file: File,
    path: PathBuf,
    pub(crate) header: Header,
    pub(crate) head: Head,
    pub(crate) records: Vec<Record>,
    pub(crate) data_key: DataKey,
    pub(crate) key: SealKey,
    pub(crate) owner: Owner,
    pub(crate) digest: [u8; 32],
    pub(crate) parent: Option<Box<Image>>,
    scratch: Mutex<Vec<Scratch>>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({})", self.path.display())
    }
}

impl Header {
    /// Reads the public facts of an image. Only a key shows whether they are authentic.
    ///
    /// # Errors
    /// If the file cannot be read, or is no image, or damaged.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = open_unknown(path).map_err(io_error("read", path))?;
        read_header(&file, path).map(|(header, _)| header)
    }
}

/// Opens what may be an image, or anything else that somebody put there: a FIFO would be waited for.
pub(crate) fn open_unknown(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    File::options().read(true).custom_flags(flags).open(path)
}

impl Image {
    /// Opens an image with one of the keys. An incremental image needs its parents before its
    /// chunks can be read: see [`Self::with_parents`].
    ///
    /// # Errors
    /// If the image cannot be read, is damaged, or no key fits.
    pub fn open(path: &Path, keys: &Keys) -> Result<Self, Error> {
        let file = open_unknown(path).map_err(io_error("read", path))?;
        Self::from_file(file, path, keys)
    }

    /// Opens an image from an open file, as [`Self::open`] does; the path is for messages and to
    /// find parents.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn from_file(file: File, path: &Path, keys: &Keys) -> Result<Self, Error> {
        let (header, encoded) = read_header(&file, path)?;
        let data_key = keys.unwrap(path, &header.slots)?;
        let index = data_key.derive(INDEX, &encoded);
        let head = read_head(&file, path, &header, &index)?;
        let owner = Owner {
            vm: head.description.uuid,
            image: header.id,
        };
        let (records, digest) = read_records(&file, path, &header, &index, &owner)?;
        let key = data_key.derive(PIECES, &header.id);
        Ok(Self {
            file,
            path: path.to_owned(),
            header,
            head,
            records,
            data_key,
            key,
            owner,
            digest,
            parent: None,
            scratch: Mutex::new(Vec::new()),
        })
    }

    /// Opens the images that this one is based on, each of which is one of `candidates` or in
    /// the same directory. Does nothing for a full image.
    ///
    /// # Errors
    /// If one is not there, is not what it was, or no key fits.
    pub fn with_parents(self, keys: &Keys, candidates: &[PathBuf]) -> Result<Self, Error> {
        self.with_parents_at(keys, candidates, 1)
    }

    fn with_parents_at(
        mut self,
        keys: &Keys,
        candidates: &[PathBuf],
        depth: usize,
    ) -> Result<Self, Error> {
        let Some(wanted) = self.head.parent else {
            return Ok(self);
        };
        let missing = || Error::NoParent {
            path: self.path.clone(),
            id: hex(&wanted.id),
        };
        if depth >= MAX_CHAIN {
            return Err(missing());
        }
        let (dir, _) = split(&self.path)?;
        let beside = fs::read_dir(&dir).map_err(io_error("list", &dir))?;
        let beside = beside.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let is_it =
            |path: &PathBuf| path.is_file() && Header::read(path).is_ok_and(|h| h.id == wanted.id);
        let path = candidates
            .iter()
            .cloned()
            .chain(beside)
            .find(is_it)
            .ok_or_else(missing)?;
        let parent = Self::open(&path, keys)?.with_parents_at(keys, candidates, depth + 1)?;
        let fits = parent.digest == wanted.digest
            && parent.owner.vm == self.owner.vm
            && parent.header.memory == self.header.memory
            && parent.header.chunk_size == self.header.chunk_size;
        if !fits {
            let what = format!("it is not what {} is based on", self.path.display());
            return Err(Error::damaged(&path, Place::Header, what));
        }
        self.parent = Some(Box::new(parent));
        Ok(self)
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What everyone can see.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Facts that only a key shows.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Description of the VM.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.head.description
    }

    /// The base image, of an incremental image whose parents are open.
    #[must_use]
    pub fn parent(&self) -> Option<&Image> {
        self.parent.as_deref()
    }

    /// Number of open images of the backing chain, this one included.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.parent.as_ref().map_or(0, |parent| parent.depth())
    }

    /// Place of each chunk of the memory.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Chunks that are in this file.
    pub(crate) fn stored_chunks(&self) -> u64 {
        self.count(|record| matches!(record, Record::Here { .. }))
    }

    /// Number of chunks that are in base images.
    #[must_use]
    pub fn parent_chunks(&self) -> u64 {
        self.count(|record| matches!(record, Record::Parent))
    }

    fn count(&self, is_one: impl Fn(&Record) -> bool) -> u64 {
        self.records.iter().filter(|record| is_one(record)).count() as u64
    }

    /// Fills `out` with a chunk; it has [`Header::chunk_len`] bytes.
    ///
    /// # Errors
    /// If the chunk cannot be read or was altered; `out` has no valid content then.
    ///
    /// # Panics
    /// If there is no such chunk or `out` has another length.
    pub fn read_chunk(&self, index: u64, out: &mut [u8]) -> Result<(), Error> {
        assert_eq!(out.len(), self.header.chunk_len(index), "length of a chunk");
        let mut scratch = self.take_scratch()?;
        let bitmap = self.gathered(index, out, &mut scratch)?;
        pages::scatter(out, bitmap);
        self.give_scratch(scratch);
        Ok(())
    }

    /// The pages of a chunk that are not zero, one after the other in `out`, and which they are.
    pub(crate) fn gathered<'a>(
        &self,
        index: u64,
        out: &mut [u8],
        scratch: &'a mut Scratch,
    ) -> Result<&'a [u8], Error> {
        let (offset, length, kind) = match self.records[index as usize] {
            Record::Here {
                offset,
                length,
                early,
            } => (
                offset,
                length,
                if early { Kind::Early } else { Kind::Memory },
            ),
            Record::Zero => {
                scratch.bitmap.clear();
                scratch
                    .bitmap
                    .resize(pages::bitmap_len(self.header.chunk_len(index)), 0);
                return Ok(&scratch.bitmap);
            }
            Record::Kept => {
                return Err(Error::Kept {
                    path: self.path.clone(),
                });
            }
            Record::Parent => {
                let parent = self.parent.as_ref().ok_or_else(|| Error::NoParent {
                    path: self.path.clone(),
                    id: self.head.parent.map_or_else(String::new, |p| hex(&p.id)),
                })?;
                return parent.gathered(index, out, scratch);
            }
        };
        scratch.sealed.resize(length as usize, 0);
        self.file
            .read_exact_at(&mut scratch.sealed, self.header.len() + offset)
            .map_err(|error| self.unreadable(error))?;
        let piece = kind.piece(index);
        let associated = seal::associated(&self.owner, piece, self.header.chunks());
        let plain = self
            .key
            .open(piece, &associated, &mut scratch.sealed)
            .ok_or_else(|| self.altered(Place::Chunk(index)))?;
        chunk::decode(&mut scratch.decoder, &self.header, index, plain, out)
            .ok_or_else(|| self.altered(Place::Chunk(index)))
    }

    /// Whether a chunk has exactly these pages.
    pub(crate) fn same(
        &self,
        index: u64,
        bitmap: &[u8],
        plain: &[u8],
        scratch: &mut Scratch,
    ) -> Result<bool, Error> {
        let mut chunk = std::mem::take(&mut scratch.chunk);
        chunk.resize(self.header.chunk_len(index), 0);
        let same = self
            .gathered(index, &mut chunk, scratch)
            .map(|theirs| theirs == bitmap && chunk[..plain.len()] == *plain);
        scratch.chunk = chunk;
        same
    }

    pub(crate) fn take_scratch(&self) -> Result<Scratch, Error> {
        let mut pool = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        match pool.pop() {
            Some(scratch) => Ok(scratch),
            None => Scratch::new(self.header.chunk_size as usize),
        }
    }

    pub(crate) fn give_scratch(&self, scratch: Scratch) {
        let mut pool = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        pool.push(scratch);
    }

    pub(crate) fn altered(&self, place: Place) -> Error {
        Error::damaged(&self.path, place, "it is not what was written")
    }

    fn unreadable(&self, error: io::Error) -> Error {
        io_error("read", &self.path)(error)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
