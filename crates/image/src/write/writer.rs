//! Writing of an image.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::durable::Durable;
use crate::error::{Error, io_error};
use crate::format::codec::Compression;
use crate::format::head::{Blob, Head, MAX_BLOB, Parent};
use crate::format::header::{self, Header, chunk_size_for};
use crate::format::record::Record;
use crate::format::seal::{self, DataKey, Kind, Owner, PIECES, SealKey};
use crate::format::working_set;
use crate::keys::{self, Recipient};
use crate::memory::{PAGE, PAGE_SIZE, is_zero};
use crate::pipeline::Control;
use crate::read::reader::{Image, MAX_CHAIN};
use crate::write::blob;
use crate::write::early::{Early, Forecast, Limits};
use crate::write::estimate::{estimate, fits, spare};
use crate::write::index::{Index, write_index};
use crate::write::job::{Done, Job};
use crate::write::output::{Output, Pace};
use crate::write::report::Report;
use crate::write::source::Source;
use crate::write::target::Target;

/// How an image is written.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Compression.
    pub compression: Compression,
    /// Threads, each with two chunks of memory and a context of the compressor.
    pub threads: usize,
    /// Chunk size in bytes; `None`: one that suits the size of the memory.
    pub chunk_size: Option<u32>,
    /// Most bytes a second that are written.
    pub limit: Option<u64>,
    /// Whether an existing file of that name is replaced.
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

/// Writes an image. When this returns, the image is durable under its name. If it fails, nothing is
/// left of it.
///
/// # Errors
/// If the source is inconsistent, the image does not fit, or cannot be written.
pub fn write(
    path: &Path,
    source: &Source<'_>,
    recipients: &[Recipient],
    options: &Options,
    control: Control<'_>,
) -> Result<Report, Error> {
    let outline = Outline {
        vm: source.description.uuid,
        memory: source.size,
        base: source.base.map(|base| base.image),
    };
    Writer::begin(path, outline, recipients, options, control)?.finish(source)
}

/// Facts about an image that are known before its guest is stopped.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    /// UUID of the VM.
    pub vm: [u8; 16],
    /// Size of the memory in bytes.
    pub memory: u64,
    /// The image that the VM was resumed from, to write only what has changed.
    pub base: Option<&'a Image>,
}

/// Device state and working set, as written to the file.
#[derive(Default)]
struct Blobs {
    state: Blob,
    working_set: Option<Blob>,
    working_pages: Option<Blob>,
    /// Pages of the working set with stored contents that are not zero.
    needed: Vec<u64>,
}

/// An image that has been begun. It has no name before [`Self::finish`]; dropped before, it leaves
/// nothing.
pub struct Writer<'a> {
    path: &'a Path,
    options: &'a Options,
    control: Control<'a>,
    base: Option<&'a Image>,
    durable: Durable,
    data_key: DataKey,
    key: SealKey,
    header: Header,
    owner: Owner,
    pace: Option<Pace>,
    early: Option<Early>,
    /// Bytes of sealed data so far.
    written: u64,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({})", self.path.display())
    }
}

impl<'a> Writer<'a> {
    /// Creates the file and derives its keys.
    ///
    /// # Errors
    /// If the file cannot be created, or an image has that name.
    pub fn begin(
        path: &'a Path,
        outline: Outline<'a>,
        recipients: &[Recipient],
        options: &'a Options,
        control: Control<'a>,
    ) -> Result<Self, Error> {
        let chunk_size = check_outline(&outline, options)?;
        if !options.replace && path.symlink_metadata().is_ok() {
            return Err(Error::Exists {
                path: path.to_owned(),
            });
        }
        let durable = Durable::create(path)?;
        let data_key = DataKey::random()?;
        let header = Header {
            id: seal::random()?,
            created: 0,
            memory: outline.memory,
            chunk_size,
            incremental: outline.base.is_some(),
            kept: false,
            compression: options.compression,
            stored_chunks: 0,
            stored_pages: 0,
            data_len: 0,
            slots: keys::wrap(&data_key, recipients)?,
            head_len: 0,
        };
        let owner = Owner {
            vm: outline.vm,
            image: header.id,
        };
        Ok(Self {
            key: data_key.derive(PIECES, &header.id),
            path,
            options,
            control,
            base: outline.base,
            durable,
            data_key,
            header,
            owner,
            pace: options.limit.map(Pace::new),
            early: None,
            written: 0,
        })
    }

    /// Random identity of the image.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        self.header.id
    }

    /// Whether [`Self::write_early`] would write anything: not for an incremental image, nor with
    /// one thread, which is left for the guest.
    #[must_use]
    pub fn takes_early(&self) -> bool {
        self.early.is_none() && self.base.is_none() && self.options.threads > 1
    }

    /// Writes chunks that are not expected to change, once, while the guest still runs, until
    /// `enough` is true. The expectation may be wrong: [`Self::finish`] compares the chunks with
    /// the memory. Chunks that are written in vain must leave room for the largest possible image.
    ///
    /// # Errors
    /// If memory or file cannot be read or written, or the caller cancels.
    pub fn write_early(
        mut self,
        memory: &File,
        forecast: &Forecast,
        enough: &AtomicBool,
    ) -> Result<Self, Error> {
        if !self.takes_early() {
            return Ok(self);
        }
        let room = spare(self.path, memory, self.header.memory)?;
        let output = self.output();
        let target = self.target(&output);
        let limits = Limits {
            threads: self.options.threads - 1,
            room,
            enough,
        };
        let early = Early::write(&target, memory, forecast, &limits)?;
        self.written = output.len();
        self.early = Some(early);
        Ok(self)
    }

    /// Bytes of pages that were written early.
    #[must_use]
    pub fn early_bytes(&self) -> u64 {
        self.early.as_ref().map_or(0, Early::bytes)
    }

    /// Writes the whole image. When this returns, the image is durable under its name. If it fails,
    /// nothing is left of it.
    ///
    /// # Errors
    /// If the source is inconsistent, the image does not fit, or cannot be written.
    pub fn finish(mut self, source: &Source<'_>) -> Result<Report, Error> {
        let started = Instant::now();
        self.check(source)?;
        self.header.kept = source.kept.is_some_and(|memory| !memory.in_image);
        if !self.header.kept {
            check_space(self.path, source, self.options)?;
        }
        let (path, control) = (self.path, self.control);
        self.header.created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let early = self.early.take().unwrap_or_default();
        let output = self.output();
        let blobs = self.blobs(source, &self.target(&output))?;
        let job = Job {
            target: self.target(&output),
            source,
            early: &early,
            done: Mutex::new(Done::new(self.header.chunks())),
        };
        let mut stages = job.run(self.options.threads)?;
        stages.add(&early.stages);
        let done = job
            .done
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let data_len = output.len();
        let chunks = done.chunks();
        // Beside the working set they are in no chunk of this file.
        let alone = blobs.needed.iter().filter(|page| {
            let chunk = *page * PAGE_SIZE / u64::from(self.header.chunk_size);
            done.records[chunk as usize] == Record::Parent
        });
        let raw = (done.pages + alone.count() as u64) * PAGE_SIZE;
        let header = &mut self.header;
        header.stored_chunks = chunks[0];
        header.stored_pages = done.pages;
        header.data_len = data_len;
        let head = Head {
            description: source.description.clone(),
            parent: source.base.map(|base| base.image.as_parent()),
            kept: source.kept.map(|memory| memory.kept.clone()),
            state: blobs.state,
            working_set: blobs.working_set,
            working_pages: blobs.working_pages,
        };
        let durable = self.durable;
        write_index(
            &durable.file,
            path,
            &self.data_key,
            header,
            &Index {
                owner: &self.owner,
                head: &head,
                records: &done.records,
            },
        )?;
        let elapsed_without_fsync = early.elapsed + started.elapsed();
        durable.sync()?;
        if control.cancelled() {
            return Err(Error::Cancelled);
        }
        durable.publish(self.options.replace)?;
        Ok(Report {
            raw,
            early: done.early * PAGE_SIZE,
            early_elapsed: early.elapsed,
            memory: source.size,
            compressed: header.file_len(),
            elapsed: early.elapsed + started.elapsed(),
            elapsed_without_fsync,
            threads: self.options.threads.max(1),
            stages,
            chunks,
        })
    }

    /// The output, whose next piece goes behind all pieces so far.
    fn output(&self) -> Output<'_> {
        Output::new(
            &self.durable.file,
            self.path,
            self.header.len(),
            self.written,
            self.pace.as_ref(),
        )
    }

    fn target<'t>(&'t self, output: &'t Output<'t>) -> Target<'t> {
        Target {
            path: self.path,
            header: &self.header,
            owner: self.owner,
            key: &self.key,
            output,
            control: self.control,
        }
    }

    fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        let size = source.size;
        let base = source.base.map(|base| base.image.header().id);
        let same = size == self.header.memory
            && source.description.uuid == self.owner.vm
            && base == self.base.map(|base| base.header().id);
        if !same {
            return Err(Error::invalid("another VM than the image was begun for"));
        }
        let length = source
            .memory
            .metadata()
            .map_err(io_error("examine the memory for", self.path))?;
        if length.len() < size {
            let length = length.len();
            return Err(Error::invalid(format!(
                "the memory's file has {length} bytes, fewer than the {size} of the memory"
            )));
        }
        source.description.check(size).map_err(Error::Invalid)?;
        if let Some(memory) = source.kept {
            memory.kept.check().map_err(Error::Invalid)?;
            if !memory.in_image && (base.is_some() || !source.working_set.is_empty()) {
                return Err(Error::invalid(
                    "an image without memory, and with a base image or a working set",
                ));
            }
        }
        if source.state.len() as u64 > MAX_BLOB || source.working_set.len() as u64 * 16 > MAX_BLOB {
            return Err(Error::invalid(format!(
                "a device state or working set of more than {MAX_BLOB} bytes"
            )));
        }
        let pages = size / PAGE_SIZE;
        if source.working_set.iter().any(|range| range.end > pages) {
            return Err(Error::invalid("a working set outside of the memory"));
        }
        Ok(())
    }

    /// Writes device state and working set.
    fn blobs(&self, source: &Source<'_>, target: &Target<'_>) -> Result<Blobs, Error> {
        let path = self.path;
        let mut encoder = target.encoder()?;
        let mut put = |kind, length, fill: &mut blob::Fill<'_>| {
            blob::write(kind, length, fill, target, &mut encoder)
        };
        let length = source.state.len() as u64;
        let mut blobs = Blobs {
            state: put(Kind::State, length, &mut blob::copy(source.state))?,
            ..Blobs::default()
        };
        let needed = working_set::without(source.working_set, source.leave_out);
        if needed.is_empty() {
            return Ok(blobs);
        }
        let ranges = working_set::encode(&needed);
        let fill = &mut blob::copy(&ranges);
        blobs.working_set = Some(put(Kind::WorkingSet, ranges.len() as u64, fill)?);
        let pages = working_set::first_pages(&needed);
        let fill = &mut |from: u64, piece: &mut [u8]| {
            let pages = &pages[(from / PAGE_SIZE) as usize..];
            for (page, out) in pages.iter().zip(piece.chunks_mut(PAGE)) {
                let read = source.memory.read_exact_at(out, page * PAGE_SIZE);
                read.map_err(io_error("read the memory for", path))?;
                if !is_zero(out) {
                    blobs.needed.push(*page);
                }
            }
            Ok(())
        };
        let length = (pages.len() * PAGE) as u64;
        blobs.working_pages = Some(put(Kind::WorkingPages, length, fill)?);
        Ok(blobs)
    }
}

/// Checks the outline; the result is the chunk size.
fn check_outline(outline: &Outline<'_>, options: &Options) -> Result<u32, Error> {
    let (size, base) = (outline.memory, outline.base);
    let usual = base.map_or_else(|| chunk_size_for(size), |base| base.header().chunk_size);
    let chunk_size = options.chunk_size.unwrap_or(usual);
    header::check_sizes(size, chunk_size).map_err(Error::invalid)?;
    if let Some(base) = base {
        let fits = base.header().memory == size && base.header().chunk_size == chunk_size;
        if !fits || base.header().kept || base.description().uuid != outline.vm {
            return Err(Error::invalid(format!(
                "{} is no image of the same VM with memory and chunks of the same size",
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
    let (dir, _) = crate::durable::split(path)?;
    Err(Error::Space {
        path: dir,
        needed: estimate.likely,
        free: estimate.free,
    })
}

impl Image {
    /// This image as the parent of an incremental image.
    fn as_parent(&self) -> Parent {
        Parent {
            id: self.header().id,
            digest: self.digest,
        }
    }
}
