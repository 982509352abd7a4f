//! Verification of the initramfs of any system, as the kernel would unpack it, without keeping it.
//!
//! An initramfs is a sequence of newc archives, each as it is or compressed, with zeros between
//! them. Sources: `Documentation/driver-api/early-userspace/buffer-format.rst`, and
//! `unpack_to_rootfs` in `init/initramfs.c`.

use std::io::{self, BufRead, Read};

use super::cpio::TRAILER;
use super::limits::{self, HEAD, LZO};
use crate::kernel::{Compression, lz4_blocks};

mod defect;
#[cfg(test)]
mod tests;

pub use defect::Defect;
use defect::{Broken, at};

/// Most bytes that an initramfs may have when it is unpacked. A bomb is refused here.
pub const MAX_UNPACKED: u64 = 16 << 30;
/// Longest path of an entry with its NUL (`PATH_MAX`).
const LONGEST_NAME: u32 = 4096;
const HEADER: usize = 110;
const MAGIC: usize = 6;
/// The file that a kernel starts when it has unpacked an initramfs.
const INIT: &str = "init";
/// Type of a file in its mode, and that of a directory.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
/// Memory that a decompressor of LZMA may take, bytes. Dictionaries have up to 64 MiB in practice,
/// and the format has room for 4 GiB.
const MEMORY: u64 = 1 << 30;

/// An initramfs that is whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Its size, bytes.
    pub size: u64,
    /// Size of its archives when they are unpacked, bytes.
    pub unpacked: u64,
    /// Entries in its archives.
    pub entries: u64,
    /// Compressions of its archives, each once.
    pub compressions: Vec<Compression>,
    /// Further options of its build that the kernel needs for them, each once.
    pub options: Vec<&'static str>,
    /// Whether `/init` is in it, which the kernel starts.
    pub has_init: bool,
    /// Where bytes begin behind its archives that are none: the kernel says so, and starts `/init`.
    pub junk: Option<u64>,
}

/// An entry of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed<'a> {
    /// Path as it is written.
    pub path: &'a [u8],
    /// Type and permission bits.
    pub mode: u32,
    /// Size of its content, bytes.
    pub size: u32,
    /// Compression of its archive.
    pub compression: Option<Compression>,
}

/// What was found so far, and who is told of entries.
struct Walk<'a> {
    found: Verified,
    /// Of the archive that is read.
    compression: Option<Compression>,
    visit: &'a mut dyn FnMut(Listed<'_>),
}

impl<'a> Walk<'a> {
    fn new(visit: &'a mut dyn FnMut(Listed<'_>)) -> Self {
        Self {
            found: Verified::default(),
            compression: None,
            visit,
        }
    }
}

/// Reads an initramfs to its end, and unpacks it to nowhere.
///
/// # Errors
/// The first [`Defect`].
pub fn verify(reader: impl BufRead) -> Result<Verified, Defect> {
    list(reader, &mut |_| {})
}

/// Reads an initramfs as [`verify`] does, and calls `visit` with each entry.
///
/// # Errors
/// As [`verify`].
pub fn list(reader: impl BufRead, visit: &mut dyn FnMut(Listed<'_>)) -> Result<Verified, Defect> {
    let mut input = Counted::new(reader);
    let mut walk = Walk::new(visit);
    // Behind an uncompressed archive the kernel asks for zeros up to a multiple of 4 (do_reset).
    let mut is_plain = false;
    while let Some(first) = after_zeros(&mut input).map_err(Defect::Read)? {
        let start = input.count - 1;
        let head = input.look(first).map_err(Defect::Read)?;
        let is_archive = is_newc(&head) || Compression::of(&head).is_some();
        if is_archive && (is_newc(&head) || is_plain) && start % 4 != 0 {
            let reason = "it begins at no multiple of 4, and the kernel skips it".to_owned();
            return Err(Defect::Corrupt { start, reason });
        }
        is_plain = is_newc(&head);
        match segment(&mut input, &head, &mut walk) {
            Ok(()) => {}
            Err(Broken::Junk) if walk.found.has_init => {
                walk.found.junk = Some(start);
                break;
            }
            Err(broken) => return Err(at(broken, start, &head)),
        }
    }
    let mut found = walk.found;
    if found.entries == 0 {
        return Err(Defect::Empty);
    }
    // What is behind junk is not looked at.
    io::copy(&mut input, &mut io::sink()).map_err(Defect::Read)?;
    found.size = input.count;
    Ok(found)
}

/// Whether a kernel, the vmlinux, has an initramfs of its own with an `/init`
/// (`CONFIG_INITRAMFS_SOURCE`); `__initramfs_start` is at a multiple of 4
/// (`include/asm-generic/vmlinux.lds.h`). One that is compressed by LZMA or LZO is not found.
#[must_use]
pub fn is_built_in(vmlinux: &[u8]) -> bool {
    let starts = (0..vmlinux.len()).step_by(4);
    starts.map(|start| &vmlinux[start..]).any(|rest| {
        let is_one =
            is_newc(rest) || Compression::of(rest).is_some_and(|it| it != Compression::Lzma);
        is_one && {
            let mut visit = |_: Listed<'_>| {};
            let mut walk = Walk::new(&mut visit);
            let head = &rest[..rest.len().min(HEAD)];
            // What is behind it is the rest of the kernel.
            let _ = segment(&mut Counted::new(rest), head, &mut walk);
            walk.found.has_init
        }
    })
}

/// Reads what begins with these bytes to its end.
fn segment<R: BufRead>(
    input: &mut Counted<R>,
    head: &[u8],
    walk: &mut Walk<'_>,
) -> Result<(), Broken> {
    let limit = MAX_UNPACKED.saturating_sub(walk.found.unpacked);
    walk.compression = Compression::of(head);
    if is_newc(head) {
        io::copy(&mut input.take(MAGIC as u64), &mut io::sink())?;
        let mut limited = input.take(limit);
        let size = archive(&mut limited, walk)?;
        walk.found.unpacked += size;
        return Ok(());
    }
    let Some(compression) = walk.compression else {
        return Err(match limits::of_unknown(head) {
            // Such a frame behind all others is a table that nobody needs.
            Some(_) if walk.found.has_init && limits::is_skippable(head) => Broken::Junk,
            Some(limit) => limit.into(),
            None if head.starts_with(LZO) => match limits::of_lzo(head) {
                Some(limit) => limit.into(),
                None => Broken::NotUnpacked,
            },
            None => Broken::Junk,
        });
    };
    if let Some(option) = limits::of(compression, head)? {
        if !walk.found.options.contains(&option) {
            walk.found.options.push(option);
        }
    }
    match compressed(compression, &mut *input, limit, walk) {
        Ok(size) => walk.found.unpacked += size,
        // The stream has ended, the archive has not, and the file goes on.
        Err(Broken::Read(error))
            if error.kind() == io::ErrorKind::UnexpectedEof && !input.fill_buf()?.is_empty() =>
        {
            return Err(Broken::Unsupported(
                "it goes on over the end of a stream, and the kernel unpacks each by itself"
                    .to_owned(),
                limits::one_stream(compression),
            ));
        }
        Err(broken) => return Err(broken),
    }
    if !walk.found.compressions.contains(&compression) {
        walk.found.compressions.push(compression);
    }
    Ok(())
}

fn is_newc(magic: &[u8]) -> bool {
    [b"070701", b"070702"]
        .iter()
        .any(|known| magic.starts_with(*known))
}

/// The first byte that is no zero; none at the end.
fn after_zeros(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
        let first = buffer.get(zeros).copied();
        input.consume(zeros + usize::from(first.is_some()));
        if first.is_some() {
            return Ok(first);
        }
    }
}

/// The bytes that say what follows, as many as there are.
fn begin(input: &mut impl Read, first: u8) -> io::Result<([u8; MAGIC], usize)> {
    let mut magic = [0; MAGIC];
    magic[0] = first;
    let mut length = 1;
    while length < MAGIC {
        match input.read(&mut magic[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((magic, length))
}

/// Reads a compressed archive to its end; its size.
fn compressed(
    compression: Compression,
    input: impl BufRead,
    limit: u64,
    walk: &mut Walk<'_>,
) -> Result<u64, Broken> {
    match compression {
        Compression::Gzip => archives(flate2::bufread::GzDecoder::new(input), limit, walk),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(MEMORY, 0);
            let stream = stream.map_err(io::Error::from)?;
            let decoder = liblzma::bufread::XzDecoder::new_stream(input, stream);
            archives(decoder, limit, walk)
        }
        Compression::Lzma => {
            let stream = liblzma::stream::Stream::new_lzma_decoder(MEMORY);
            let stream = stream.map_err(io::Error::from)?;
            let decoder = liblzma::bufread::XzDecoder::new_stream(input, stream);
            archives(decoder, limit, walk)
        }
        Compression::Zstd => {
            let decoder = zstd::Decoder::with_buffer(input)?.single_frame();
            archives(decoder, limit, walk)
        }
        Compression::Lz4 => archives(lz4_blocks(input), limit, walk),
        Compression::Bzip2 => archives(bzip2::bufread::BzDecoder::new(input), limit, walk),
    }
}

/// Reads archives that are as they are, and zeros, to the end; their size.
fn archives(input: impl Read, limit: u64, walk: &mut Walk<'_>) -> Result<u64, Broken> {
    let mut input = io::BufReader::new(input.take(limit));
    let mut size = 0;
    while let Some(first) = after_zeros(&mut input)? {
        let (magic, length) = begin(&mut input, first)?;
        if !is_newc(&magic[..length]) {
            return Err(Broken::Junk);
        }
        size += archive(&mut input, walk)?;
    }
    match input.into_inner().limit() {
        0 => Err(Broken::TooLarge),
        _ => Ok(size),
    }
}

/// Reads an archive behind its first magic number, up to its trailer; its size.
fn archive(input: &mut impl Read, walk: &mut Walk<'_>) -> Result<u64, Broken> {
    let mut size = 0;
    loop {
        let mut header = [0; HEADER - MAGIC];
        input.read_exact(&mut header)?;
        let [mode, data, name] = [1, 6, 11].map(|field| field_of(&header, field));
        let (mode, data, name) = (mode?, data?, name?);
        if name == 0 || name > LONGEST_NAME {
            return Err(Broken::Malformed("the name of an entry is too long"));
        }
        let mut path = vec![0; name as usize];
        input.read_exact(&mut path)?;
        let head = HEADER as u64 + u64::from(name);
        let rest = padding(head) + u64::from(data) + padding(u64::from(data));
        let skipped = skip(input, rest)?;
        size += head + skipped;
        // As strcmp(3) has it: more zeros may follow.
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        if path == TRAILER.as_bytes() {
            // What may be missing is padding, which the kernel does not miss.
            return Ok(size);
        }
        if skipped < rest {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        walk.found.entries += 1;
        (walk.visit)(Listed {
            path,
            mode,
            size: data,
            compression: walk.compression,
        });
        let bare = path.strip_prefix(b".").unwrap_or(path);
        let bare = bare.strip_prefix(b"/").unwrap_or(path);
        walk.found.has_init |= bare == INIT.as_bytes() && mode & TYPE != DIRECTORY;
        let mut magic = [0; MAGIC];
        input.read_exact(&mut magic)?;
        if !is_newc(&magic) {
            return Err(Broken::Malformed("an entry has no magic number"));
        }
    }
}

/// Bytes from an offset to the next multiple of 4.
const fn padding(at: u64) -> u64 {
    at.wrapping_neg() % 4
}

/// A field of the header, from 0 on, of eight hexadecimal digits.
fn field_of(header: &[u8; HEADER - MAGIC], field: usize) -> Result<u32, Broken> {
    let digits = &header[field * 8..][..8];
    let text = std::str::from_utf8(digits).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    text.and_then(|text| u32::from_str_radix(text, 16).ok())
        .ok_or(Broken::Malformed("the header of an entry is malformed"))
}

/// Reads bytes to nowhere; how many there were.
fn skip(input: &mut impl Read, count: u64) -> io::Result<u64> {
    io::copy(&mut input.take(count), &mut io::sink())
}

/// A reader whose bytes are counted, and that can be looked ahead in.
struct Counted<R> {
    inner: R,
    count: u64,
    /// What was looked at, and is still to be read.
    back: io::Cursor<Vec<u8>>,
}

impl<R: BufRead> Counted<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            count: 0,
            back: io::Cursor::default(),
        }
    }

    /// The byte that was just read, and those behind it, up to [`HEAD`]: all of them are read again.
    fn look(&mut self, first: u8) -> io::Result<Vec<u8>> {
        let mut head = vec![first];
        self.by_ref().take(HEAD as u64 - 1).read_to_end(&mut head)?;
        self.count -= head.len() as u64;
        let mut back = head.clone();
        self.back.read_to_end(&mut back)?;
        self.back = io::Cursor::new(back);
        Ok(head)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.back.fill_buf()? {
            [] => self.inner.fill_buf(),
            _ => self.back.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        self.count += count as u64;
        match self.back.fill_buf() {
            Ok([]) | Err(_) => self.inner.consume(count),
            Ok(_) => self.back.consume(count),
        }
    }
}
