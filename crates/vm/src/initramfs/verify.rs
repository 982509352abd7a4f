//! Verification of the initramfs of any system, as the kernel would unpack it, without keeping it.
//!
//! An initramfs is a sequence of newc archives, each as it is or compressed, with zeros between
//! them. Sources: `Documentation/driver-api/early-userspace/buffer-format.rst`, and
//! `unpack_to_rootfs` in `init/initramfs.c`.

use std::io::{self, BufRead, Read};

use super::cpio::TRAILER;
use crate::kernel::Compression;
use crate::kernel::lz4_blocks;

/// Most bytes that an initramfs may have when it is unpacked. A bomb is refused here.
pub const MAX_UNPACKED: u64 = 16 << 30;
/// Longest path of an entry with its NUL (`PATH_MAX`).
const LONGEST_NAME: u32 = 4096;
const HEADER: usize = 110;
const MAGIC: usize = 6;
/// Begins a file of lzop (`lib/decompress.c` of Linux).
const LZO: &[u8] = b"\x89LZO";
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
}

/// Defects of an initramfs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// No bytes, or only zeros.
    #[error("it is empty")]
    Empty,
    /// It ends within an archive.
    #[error("it is truncated: the archive that begins at byte {start} has no end")]
    Truncated {
        /// Where the archive begins.
        start: u64,
    },
    /// An archive is damaged.
    #[error("the archive that begins at byte {start} is corrupt: {reason}")]
    Corrupt {
        /// Where the archive begins.
        start: u64,
        /// Description of the damage.
        reason: String,
    },
    /// Neither an archive nor a known compression.
    #[error("at byte {start} is neither a cpio archive nor a known compression: {bytes:02x?}")]
    Unknown {
        /// Where that is.
        start: u64,
        /// The bytes there.
        bytes: Vec<u8>,
    },
    /// Compressed by LZO, which the kernel unpacks and this does not.
    #[error(
        "the archive that begins at byte {start} is compressed by LZO, which brisk does not unpack"
    )]
    NotUnpacked {
        /// Where the archive begins.
        start: u64,
    },
    /// A bomb.
    #[error("it unpacks to more than {} GiB", MAX_UNPACKED >> 30)]
    TooLarge,
}

/// Reads an initramfs to its end, and unpacks it to nowhere.
///
/// # Errors
/// The first [`Defect`].
pub fn verify(reader: impl BufRead) -> Result<Verified, Defect> {
    let mut input = Counted {
        inner: reader,
        count: 0,
    };
    let mut found = Verified::default();
    while let Some(first) = after_zeros(&mut input).map_err(Defect::Read)? {
        let start = input.count - 1;
        let (magic, length) = begin(&mut input, first).map_err(Defect::Read)?;
        let magic = &magic[..length];
        let of = |error| at(error, start);
        if is_newc(magic) {
            if start % 4 != 0 {
                let reason = "it begins at no multiple of 4, and the kernel skips it".to_owned();
                return Err(Defect::Corrupt { start, reason });
            }
            let mut limited = (&mut input).take(MAX_UNPACKED.saturating_sub(found.unpacked));
            let size = archive(&mut limited, &mut found.entries).map_err(of)?;
            found.unpacked += size;
        } else if let Some(compression) = Compression::of(magic) {
            let limit = MAX_UNPACKED.saturating_sub(found.unpacked);
            let whole = io::Cursor::new(magic).chain(&mut input);
            let size = compressed(compression, whole, limit, &mut found.entries).map_err(of)?;
            found.unpacked += size;
            if !found.compressions.contains(&compression) {
                found.compressions.push(compression);
            }
        } else if magic.starts_with(LZO) {
            return Err(Defect::NotUnpacked { start });
        } else {
            let bytes = magic.to_owned();
            return Err(Defect::Unknown { start, bytes });
        }
    }
    if found.entries == 0 {
        return Err(Defect::Empty);
    }
    found.size = input.count;
    Ok(found)
}

/// Defects of an archive, wherever it is.
#[derive(Debug)]
enum Broken {
    Read(io::Error),
    Malformed(&'static str),
    TooLarge,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

fn at(broken: Broken, start: u64) -> Defect {
    let corrupt = |reason: String| Defect::Corrupt { start, reason };
    match broken {
        Broken::TooLarge => Defect::TooLarge,
        Broken::Malformed(reason) => corrupt(reason.to_owned()),
        Broken::Read(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => Defect::Truncated { start },
            // Of the reader, and not of a decompressor.
            _ if error.raw_os_error().is_some() => Defect::Read(error),
            _ => corrupt(error.to_string()),
        },
    }
}

fn is_newc(magic: &[u8]) -> bool {
    [b"070701", b"070702"].iter().any(|known| magic == *known)
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
    entries: &mut u64,
) -> Result<u64, Broken> {
    match compression {
        Compression::Gzip => archives(flate2::bufread::GzDecoder::new(input), limit, entries),
        Compression::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(MEMORY, 0);
            let stream = stream.map_err(io::Error::from)?;
            let decoder = liblzma::bufread::XzDecoder::new_stream(input, stream);
            archives(decoder, limit, entries)
        }
        Compression::Lzma => {
            let stream = liblzma::stream::Stream::new_lzma_decoder(MEMORY);
            let stream = stream.map_err(io::Error::from)?;
            let decoder = liblzma::bufread::XzDecoder::new_stream(input, stream);
            archives(decoder, limit, entries)
        }
        Compression::Zstd => {
            let decoder = zstd::Decoder::with_buffer(input)?.single_frame();
            archives(decoder, limit, entries)
        }
        Compression::Lz4 => archives(lz4_blocks(input), limit, entries),
        Compression::Bzip2 => archives(bzip2::bufread::BzDecoder::new(input), limit, entries),
    }
}

/// Reads archives that are as they are, and zeros, to the end; their size.
fn archives(input: impl Read, limit: u64, entries: &mut u64) -> Result<u64, Broken> {
    let mut input = io::BufReader::new(input.take(limit));
    let mut size = 0;
    while let Some(first) = after_zeros(&mut input)? {
        let (magic, length) = begin(&mut input, first)?;
        if !is_newc(&magic[..length]) {
            return Err(Broken::Malformed("no cpio archive is in it"));
        }
        size += archive(&mut input, entries)?;
    }
    match input.into_inner().limit() {
        0 => Err(Broken::TooLarge),
        _ => Ok(size),
    }
}

/// Reads an archive behind its first magic number, up to its trailer; its size.
fn archive(input: &mut impl Read, entries: &mut u64) -> Result<u64, Broken> {
    let mut size = 0;
    loop {
        let mut header = [0; HEADER - MAGIC];
        input.read_exact(&mut header)?;
        let [data, name] = [6, 11].map(|field| field_of(&header, field));
        let (data, name) = (data?, name?);
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
        if path.split(|byte| *byte == 0).next() == Some(TRAILER.as_bytes()) {
            // What may be missing is padding, which the kernel does not miss.
            return Ok(size);
        }
        if skipped < rest {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        *entries += 1;
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

/// A reader whose bytes are counted.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.count += count as u64;
        self.inner.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::cpio::{DIR, FILE, Writer};
    use super::*;

    fn archive() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.add("bin", DIR | 0o755, (0, 0), &[]).unwrap();
        let data: Vec<u8> = (0..50_000_u32).map(|i| ((i * i) >> 7) as u8).collect();
        writer.add("bin/sh", FILE | 0o755, (0, 0), &data).unwrap();
        writer.finish().unwrap()
    }

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Lzma => {
                let options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
                let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
                let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(bytes, 1).unwrap(),
            Compression::Lz4 => {
                let mut out = b"\x02\x21\x4c\x18".to_vec();
                let block = ::lz4::block::compress(bytes, None, false).unwrap();
                out.extend((block.len() as u32).to_le_bytes());
                out.extend(block);
                out
            }
            Compression::Bzip2 => {
                let level = bzip2::Compression::fast();
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    const ALL: [Compression; 6] = [
        Compression::Gzip,
        Compression::Xz,
        Compression::Lzma,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Bzip2,
    ];

    #[test]
    fn each_compression_is_read_behind_microcode_and_before_zeros() {
        let own = archive();
        for compression in ALL {
            let mut whole = own.clone();
            whole.extend([0; 512]);
            whole.extend(packed(compression, &own));
            whole.extend([0; 7]);
            let found = verify(&whole[..]).unwrap_or_else(|error| panic!("{compression}: {error}"));
            let expected = Verified {
                size: whole.len() as u64,
                unpacked: 2 * own.len() as u64,
                entries: 4,
                compressions: vec![compression],
            };
            assert_eq!(found, expected, "{compression}");
        }
    }

    #[test]
    fn compressed_archives_may_follow_each_other() {
        let own = archive();
        for compression in ALL {
            if compression == Compression::Lz4 {
                continue;
            }
            let one = packed(compression, &own);
            let found = verify(&[&one[..], &one].concat()[..]);
            assert_eq!(found.unwrap().entries, 4, "{compression}");
        }
    }

    #[test]
    fn wherever_it_is_cut_it_is_truncated() {
        let own = archive();
        for compression in ALL {
            let whole = packed(compression, &own);
            for cut in [10, whole.len() / 2, whole.len() - 1] {
                let error = verify(&whole[..cut]).unwrap_err();
                let is_it = matches!(
                    error,
                    Defect::Truncated { start: 0 } | Defect::Corrupt { .. }
                );
                assert!(is_it, "{compression} at {cut}: {error:?}");
            }
        }
        // The last bytes are padding.
        assert_eq!(verify(&own[..own.len() - 3]).unwrap().entries, 2);
        for cut in [7, 111, 200, own.len() - 4] {
            let error = verify(&own[..cut]).unwrap_err();
            assert!(
                matches!(error, Defect::Truncated { start: 0 }),
                "{cut}: {error:?}"
            );
        }
    }

    #[test]
    fn damage_and_other_files_are_named() {
        let own = archive();
        let mut flipped = packed(Compression::Gzip, &own);
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        assert!(matches!(
            verify(&flipped[..]),
            Err(Defect::Corrupt { start: 0, .. })
        ));
        let cases: [(&[u8], &str); 4] = [
            (b"", "it is empty"),
            (&[0; 4096], "it is empty"),
            (
                b"#!/bin/sh",
                "at byte 0 is neither a cpio archive nor a known compression: [23, 21, 2f, 62, 69, 6e]",
            ),
            (
                &packed(Compression::Zstd, b"no archive"),
                "the archive that begins at byte 0 is corrupt: no cpio archive is in it",
            ),
        ];
        for (bytes, text) in cases {
            assert_eq!(verify(bytes).unwrap_err().to_string(), text);
        }
        let mut malformed = own.clone();
        malformed[54] = b'+';
        let error = verify(&malformed[..]).unwrap_err().to_string();
        assert!(error.contains("malformed"), "{error}");
        let lzo = [&own[..], b"\x89LZO\0\r\n\x1a\n"].concat();
        let error = verify(&lzo[..]).unwrap_err();
        let at = own.len() as u64;
        assert!(
            matches!(error, Defect::NotUnpacked { start } if start == at),
            "{error:?}"
        );
        // unpack_to_rootfs takes no uncompressed archive there.
        let apart = [&own[..], &[0; 2], &own].concat();
        let error = verify(&apart[..]).unwrap_err().to_string();
        assert!(error.contains("no multiple of 4"), "{error}");
        let behind = [&own[..], b"junk"].concat();
        assert!(matches!(verify(&behind[..]), Err(Defect::Unknown { .. })));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(64))]
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..512), at in 0..6_usize) {
            let own = archive();
            let mut mutated = packed(ALL[at], &own);
            for (place, byte) in bytes.iter().enumerate() {
                let length = mutated.len();
                mutated[(place * 7919) % length] ^= byte & 3;
            }
            let _ = verify(&mutated[..]);
            let _ = verify(&bytes[..]);
        }
    }
}
