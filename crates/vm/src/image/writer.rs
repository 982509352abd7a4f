//! Writing an image.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::blob;
use super::codec::{Compression, Encoder};
use super::description::Description;
use super::durable::Durable;
use super::error::{Error, io_error};
use super::estimate::{estimate, fits};
use super::head::{Head, MAX_BLOB, Parent};
use super::header::{self, Header, PAGE, chunk_size_for};
use super::job::{Done, Job};
use super::keys::{self, Recipient};
use super::output::Output;
use super::pages::Pages;
use super::pipeline::Control;
use super::reader::{Image, MAX_CHAIN, Record};
use super::report::Report;
use super::seal::{self, DataKey, Kind, Owner, TAG};
use super::working_set;

/// What goes into an image. The guest must stand still while it is written.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The guest's memory: a named file on tmpfs. Its position is moved.
    pub memory: &'a File,
    /// Bytes of it, a multiple of 4096.
    pub size: u64,
    /// Pages that need not be kept, such as free ones and clean page cache. They read as zero
    /// afterwards.
    pub leave_out: Option<&'a Pages>,
    /// What QEMU saves of everything but the memory.
    pub state: &'a [u8],
    /// The machine.
    pub description: &'a Description,
    /// The image that it was resumed from, to write only what has changed.
    pub base: Option<Base<'a>>,
    /// Ranges of pages in the order in which they were needed after the last resume; empty if
    /// unknown.
    pub working_set: &'a [std::ops::Range<u64>],
}

/// What an incremental image is based on.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The image, with its own parents. It is needed for as long as the new one is.
    pub image: &'a Image,
    /// How a chunk is known to be the same.
    pub changed: Changed<'a>,
}

/// How chunks that are the same as before are told.
#[derive(Debug, Clone, Copy)]
pub enum Changed<'a> {
    /// All other pages are as in the parent, even where the memory's file has holes.
    Pages(&'a Pages),
    /// Each chunk is held against the parent's.
    Compare,
}

/// How an image is written.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Compression.
    pub compression: Compression,
    /// Threads, each with two chunks of memory and a context of the compressor.
    pub threads: usize,
    /// Size of chunks in bytes; without it, one that suits the size of the memory.
    pub chunk_size: Option<u32>,
    /// Most bytes a second that are written.
    pub limit: Option<u64>,
    /// Whether a file of that name is replaced.
    pub replace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            compression: Compression::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            chunk_size: None,
            limit: None,
            replace: false,
        }
    }
}

/// Writes an image. When this returns, it is durable under its name; if it fails, nothing is
/// left of it.
///
/// # Errors
/// If the source makes no sense, the image does not fit, or cannot be written.
pub fn write(
    path: &Path,
    source: &Source<'_>,
    recipients: &[Recipient],
    options: &Options,
    control: Control<'_>,
) -> Result<Report, Error> {
    let started = Instant::now();
    let chunk_size = check(path, source, options)?;
    if !options.replace && path.symlink_metadata().is_ok() {
        return Err(Error::Exists {
            path: path.to_owned(),
        });
    }
    let durable = Durable::create(path)?;
    check_space(path, source, options)?;
    let key = DataKey::random()?;
    let mut header = Header {
        id: seal::random()?,
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        memory: source.size,
        chunk_size,
        incremental: source.base.is_some(),
        compression: options.compression,
        stored_chunks: 0,
        stored_pages: 0,
        data_len: 0,
        slots: keys::wrap(&key, recipients)?,
        head_len: 0,
    };
    let owner = Owner {
        vm: source.description.uuid,
        image: header.id,
    };
    let pieces = key.derive(PIECES, &header.id);
    let output = Output::new(&durable.file, path, header.len(), options.limit);
    let mut encoder = encoder(path, options.compression)?;
    let mut put = |kind, length, fill: &mut blob::Fill<'_>| {
        let sealed = (&pieces, &owner);
        blob::write(kind, length, fill, sealed, &mut encoder, &output, control)
    };
    let length = source.state.len() as u64;
    let state = put(Kind::State, length, &mut blob::copy(source.state))?;
    let (mut working_set, mut working_pages) = (None, None);
    if !source.working_set.is_empty() {
        let ranges = working_set::encode(source.working_set);
        let fill = &mut blob::copy(&ranges);
        working_set = Some(put(Kind::WorkingSet, ranges.len() as u64, fill)?);
        let pages = working_set::first_pages(source.working_set);
        let fill = &mut |from: u64, piece: &mut [u8]| {
            let pages = &pages[(from / PAGE as u64) as usize..];
            let read = pages
                .iter()
                .zip(piece.chunks_mut(PAGE))
                .try_for_each(|(page, out)| source.memory.read_exact_at(out, page * PAGE as u64));
            read.map_err(io_error("read the memory for", path))
        };
        let length = (pages.len() * PAGE) as u64;
        working_pages = Some(put(Kind::WorkingPages, length, fill)?);
    }
    drop(encoder);
    let job = Job {
        path,
        source,
        header: &header,
        owner,
        key: &pieces,
        output: &output,
        control,
        done: Mutex::new(Done::new(header.chunks())),
    };
    let stages = job.run(options)?;
    let done = job
        .done
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let chunks = done.chunks();
    header.stored_chunks = chunks[0];
    header.stored_pages = done.pages;
    header.data_len = output.len();
    let head = Head {
        description: source.description.clone(),
        parent: source.base.map(|base| base.image.as_parent()),
        state,
        working_set,
        working_pages,
    };
    write_index(
        &durable.file,
        path,
        &key,
        &owner,
        &mut header,
        &head,
        &done.records,
    )?;
    let elapsed_without_fsync = started.elapsed();
    durable.sync()?;
    if control.cancelled() {
        return Err(Error::Cancelled);
    }
    durable.publish(options.replace)?;
    Ok(Report {
        raw: done.pages * PAGE as u64,
        memory: source.size,
        compressed: header.file_len(),
        elapsed: started.elapsed(),
        elapsed_without_fsync,
        threads: options.threads.max(1),
        stages,
        chunks,
    })
}

/// What the key of the pieces is for; the image's identity is its material.
pub(super) const PIECES: &str = "brisk suspend image 1: memory, device state, working set";
/// What the key of head and records is for; the whole header is its material.
pub(super) const INDEX: &str = "brisk suspend image 1: head and records";

/// Seals head and records under a key of this very header, and writes all three.
pub(super) fn write_index(
    file: &File,
    path: &Path,
    key: &DataKey,
    owner: &Owner,
    header: &mut Header,
    head: &Head,
    records: &[Record],
) -> Result<(), Error> {
    let mut head = head.encode();
    header.head_len = u32::try_from(head.len() + TAG)
        .ok()
        .filter(|length| *length <= header::MAX_HEAD)
        .ok_or_else(|| Error::invalid("the description is too long"))?;
    let encoded = header.encode();
    let key = key.derive(INDEX, &encoded);
    let put = |bytes: &[u8], offset| {
        file.write_all_at(bytes, offset)
            .map_err(io_error("write", path))
    };
    // The owner is not known before the head is open: it binds itself by its key.
    let nobody = Owner {
        vm: [0; 16],
        image: header.id,
    };
    let tag = key.seal(
        (Kind::Head, 0),
        &seal::associated(&nobody, (Kind::Head, 0), 1),
        &mut head,
    );
    head.extend(tag);
    let mut offset = header.head_offset();
    put(&head, offset)?;
    offset += head.len() as u64;
    let count = header.record_pieces();
    let mut piece = Vec::new();
    for (index, records) in (0..).zip(records.chunks(header::RECORDS_IN_PIECE as usize)) {
        piece.clear();
        records
            .iter()
            .for_each(|record| piece.extend(record.encode()));
        let associated = seal::associated(owner, (Kind::Records, index), count);
        let tag = key.seal((Kind::Records, index), &associated, &mut piece);
        piece.extend(tag);
        put(&piece, offset)?;
        offset += piece.len() as u64;
    }
    put(&encoded, 0)
}

fn check(path: &Path, source: &Source<'_>, options: &Options) -> Result<u32, Error> {
    let size = source.size;
    let base = source.base.map(|base| base.image);
    let usual = base.map_or_else(|| chunk_size_for(size), |base| base.header().chunk_size);
    let chunk_size = options.chunk_size.unwrap_or(usual);
    header::check_sizes(size, chunk_size).map_err(Error::invalid)?;
    let length = source
        .memory
        .metadata()
        .map_err(io_error("examine the memory for", path))?;
    if length.len() < size {
        let length = length.len();
        return Err(Error::invalid(format!(
            "the memory's file has {length} bytes, fewer than the {size} of the memory"
        )));
    }
    source.description.check(size).map_err(Error::Invalid)?;
    if source.state.len() as u64 > MAX_BLOB || source.working_set.len() as u64 * 16 > MAX_BLOB {
        return Err(Error::invalid(format!(
            "a device state or working set of more than {MAX_BLOB} bytes"
        )));
    }
    let pages = size / PAGE as u64;
    if source.working_set.iter().any(|range| range.end > pages) {
        return Err(Error::invalid("a working set outside of the memory"));
    }
    if let Some(base) = base {
        let fits = base.header().memory == size && base.header().chunk_size == chunk_size;
        if !fits || base.description().uuid != source.description.uuid {
            return Err(Error::invalid(format!(
                "{} is no image of the same machine with memory and chunks of the same size",
                base.path().display()
            )));
        }
        if base.depth() >= MAX_CHAIN {
            return Err(Error::invalid(format!(
                "{} is the last of {MAX_CHAIN} images based on each other: write a full one",
                base.path().display()
            )));
        }
    }
    Ok(chunk_size)
}

fn check_space(path: &Path, source: &Source<'_>, options: &Options) -> Result<(), Error> {
    if source.base.is_some() {
        // How much has changed is not known before it is looked at.
        return Ok(());
    }
    let (memory, size) = (source.memory, source.size);
    if fits(path, memory, size, source.leave_out)? {
        return Ok(());
    }
    let estimate = estimate(path, memory, size, source.leave_out, options.compression)?;
    if !estimate.is_hopeless() {
        return Ok(());
    }
    let (dir, _) = super::durable::split(path)?;
    Err(Error::Space {
        path: dir,
        needed: estimate.likely,
        free: estimate.free,
    })
}

pub(super) fn encoder(path: &Path, compression: Compression) -> Result<Encoder, Error> {
    Encoder::new(compression).map_err(io_error("compress", path))
}

impl Image {
    /// What an image that is based on this one says of it.
    fn as_parent(&self) -> Parent {
        Parent {
            id: self.header().id,
            digest: self.digest,
        }
    }
}
