//! What Linux's decompressors do not take, though other programs do: read in the first bytes.
//!
//! Sources: `lib/decompress_*.c`, `lib/xz/xz_dec_stream.c`, `lib/xz/xz_dec_bcj.c` and
//! `lib/zstd/decompress/zstd_decompress.c` of Linux 6.1 and 6.12; RFC 1952 (gzip), RFC 8878 (zstd),
//! the .xz file format 1.2, and `lzop.h` of lzop.

use crate::kernel::Compression;

/// Bytes of a compressed archive that are looked at: the header of an .xz stream, and the longest of a
/// block.
pub(super) const HEAD: usize = 12 + 1024;
/// Begins a file of lzop (`lib/decompress.c` of Linux).
pub(super) const LZO: &[u8] = b"\x89LZO";
/// Begins LZ4's frame of today.
const LZ4_FRAME: &[u8] = b"\x04\x22\x4d\x18";
/// Longest window of zstd (`ZSTD_MAXWINDOWSIZE_DEFAULT`), bytes.
const LARGEST_WINDOW: u64 = (1 << 27) + 1;
/// The XZ check CRC32; without any it is 0.
const XZ_CRC32: u8 = 1;
/// LZMA2 among the filters of XZ.
const LZMA2: u64 = 0x21;
/// Largest dictionary of LZMA2 that is taken, as its properties have it: all but 4 GiB less a byte.
const LARGEST_LZMA2: u8 = 39;

/// Why the kernel does not unpack an archive, and what makes one that it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

fn limit(reason: impl Into<String>, remedy: &'static str) -> Limit {
    Limit {
        reason: reason.into(),
        remedy,
    }
}

/// The limit that bytes of no compression which the kernel knows run into.
pub(super) fn of_unknown(head: &[u8]) -> Option<Limit> {
    if head.starts_with(LZ4_FRAME) {
        return Some(limit(
            "it is in LZ4's frame format, and the kernel reads the legacy one",
            "make it with lz4 -l",
        ));
    }
    is_skippable(head).then(|| {
        limit(
            "it begins with a frame of zstd that is to be skipped, as pzstd writes it, and the kernel \
             does not skip it",
            "make it with zstd -T0 in place of pzstd",
        )
    })
}

/// Whether a frame of zstd begins that has no data.
pub(super) fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// The limit of the kernel that an archive of a compression runs into. Else the options that the kernel
/// has to be built with, beside that of the compression.
pub(super) fn of(compression: Compression, head: &[u8]) -> Result<Option<&'static str>, Limit> {
    match compression {
        Compression::Gzip => of_gzip(head).map_or(Ok(None), Err),
        Compression::Xz => of_xz(head),
        Compression::Zstd => of_zstd(head).map_or(Ok(None), Err),
        Compression::Lz4 | Compression::Lzma | Compression::Bzip2 => Ok(None),
    }
}

/// The remedy for an archive that goes on over the end of a stream.
pub(super) const fn one_stream(compression: Compression) -> &'static str {
    match compression {
        Compression::Bzip2 => "make it with bzip2 in place of pbzip2",
        Compression::Zstd => "make it with zstd -T0 in place of pzstd",
        Compression::Gzip => "make it with gzip or pigz in place of bgzip",
        _ => "make it with one call of the program that compresses",
    }
}

/// `__gunzip` skips the name of the file alone.
fn of_gzip(head: &[u8]) -> Option<Limit> {
    let flags = *head.get(3)?;
    let what = match flags {
        _ if flags & 0x04 != 0 => "extra fields, as bgzip writes them",
        _ if flags & 0x10 != 0 => "a comment",
        _ if flags & 0x02 != 0 => "a checksum",
        _ => return None,
    };
    let reason = format!("its header has {what}, and the kernel takes that for data");
    Some(limit(reason, "make it with gzip -n"))
}

fn of_xz(head: &[u8]) -> Result<Option<&'static str>, Limit> {
    let check = head.get(7).map_or(XZ_CRC32, |byte| byte & 0x0f);
    if check > XZ_CRC32 {
        let name = match check {
            4 => "CRC64, which is xz's default".to_owned(),
            10 => "SHA-256".to_owned(),
            other => format!("number {other}"),
        };
        return Err(limit(
            format!("its check is {name}, and the kernel's XZ decoder has CRC32 alone"),
            "make it with xz --check=crc32",
        ));
    }
    let Some((filters, properties)) = head.get(12..).and_then(filters) else {
        // What is no header is corrupt, and found to be so by unpacking it.
        return Ok(None);
    };
    let other = |what: &str| {
        limit(
            format!(
                "{what}, and the kernel's XZ decoder has LZMA2, and before it one for programs"
            ),
            "make it with xz --check=crc32 and without other filters",
        )
    };
    let needed = match filters[..] {
        [(LZMA2, _)] => None,
        [(filter, length), (LZMA2, _)] => {
            let Some(option) = option(filter) else {
                return Err(other(&format!(
                    "its first filter is {}",
                    filter_name(filter)
                )));
            };
            if length != 0 {
                return Err(other("its first filter does not start at 0"));
            }
            Some(option)
        }
        _ => return Err(other(&format!("it has {} filters", filters.len()))),
    };
    if properties > LARGEST_LZMA2 {
        return Err(limit(
            "its dictionary has 4 GiB, and the kernel's XZ decoder has smaller ones",
            "make it with xz --check=crc32 --lzma2=dict=1MiB",
        ));
    }
    Ok(needed)
}

/// Identifiers of the filters of a block with the lengths of their properties, and the last byte of the
/// last one's; none if that is no header of a block.
fn filters(block: &[u8]) -> Option<(Vec<(u64, u64)>, u8)> {
    let size = (usize::from(*block.first()?) + 1) * 4;
    let (header, flags) = (block.get(..size)?, *block.get(1)?);
    // Size 0 is that of an index, which comes where there are no blocks.
    if header[0] == 0 {
        return None;
    }
    let mut rest = &header[2..];
    for has in [flags & 0x40, flags & 0x80] {
        if has != 0 {
            number(&mut rest)?;
        }
    }
    let (mut all, mut last) = (Vec::new(), 0);
    for _ in 0..=(flags & 3) {
        let (filter, length) = (number(&mut rest)?, number(&mut rest)?);
        let properties = rest.get(..usize::try_from(length).ok()?)?;
        rest = &rest[properties.len()..];
        last = properties.last().copied().unwrap_or(0);
        all.push((filter, length));
    }
    Some((all, last))
}

/// A number of variable length.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Option of the kernel that has a filter for programs; 6.12 is the first with the last two.
fn option(filter: u64) -> Option<&'static str> {
    Some(match filter {
        4 => "CONFIG_XZ_DEC_X86",
        5 => "CONFIG_XZ_DEC_POWERPC",
        6 => "CONFIG_XZ_DEC_IA64",
        7 => "CONFIG_XZ_DEC_ARM",
        8 => "CONFIG_XZ_DEC_ARMTHUMB",
        9 => "CONFIG_XZ_DEC_SPARC",
        10 => "CONFIG_XZ_DEC_ARM64",
        11 => "CONFIG_XZ_DEC_RISCV",
        _ => return None,
    })
}

fn filter_name(filter: u64) -> String {
    match filter {
        3 => "delta".to_owned(),
        LZMA2 => "LZMA2".to_owned(),
        other => format!("number {other}"),
    }
}

/// Limits of a frame of zstd.
fn of_zstd(head: &[u8]) -> Option<Limit> {
    let descriptor = *head.get(4)?;
    let is_single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let mut at = 5;
    let mut window = 0;
    if !is_single {
        let byte = u64::from(*head.get(at)?);
        let base = 1 << (10 + (byte >> 3));
        window = base + base / 8 * (byte & 7);
        at += 1;
    }
    let id = head.get(at..at + dictionary)?;
    if id.iter().any(|byte| *byte != 0) {
        return Some(limit(
            "it is compressed with a dictionary, which the kernel does not have",
            "make it with zstd without -D",
        ));
    }
    at += dictionary;
    if is_single {
        let length = [1, 2, 4, 8][usize::from(descriptor >> 6)];
        let bytes = head.get(at..at + length)?;
        let size = bytes
            .iter()
            .rev()
            .fold(0, |size, byte| size << 8 | u64::from(*byte));
        window = if length == 2 { size + 256 } else { size };
    }
    (window > LARGEST_WINDOW).then(|| {
        limit(
            format!(
                "its window has {} MiB, and the kernel takes 128 MiB",
                window >> 20
            ),
            "make it with zstd --long=27, or without --long",
        )
    })
}

/// The limit of the kernel that a file of lzop runs into: `unlzo` reads one checksum for each block.
pub(super) fn of_lzo(head: &[u8]) -> Option<Limit> {
    let version = u16::from_be_bytes(head.get(9..11)?.try_into().ok()?);
    let at = if version >= 0x0940 { 17 } else { 16 };
    let flags = u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?);
    let checksums = [0x1, 0x100].iter().filter(|flag| flags & **flag != 0);
    let is_usual = checksums.count() == 1 && flags & (0x2 | 0x200 | 0x800) == 0;
    (!is_usual).then(|| {
        limit(
            "its blocks have no checksum or several, or a filter, and the kernel reads one checksum for \
             each",
            "make it with lzop without -F, --crc32 and -C",
        )
    })
}
