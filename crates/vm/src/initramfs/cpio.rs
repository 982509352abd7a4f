//! The newc cpio format. Source: `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::io;

use serde::Serialize;

/// Name of the entry that ends an archive.
pub const TRAILER: &str = "TRAILER!!!";
const MAGIC: &[u8] = b"070701";
/// Magic number of newc with checksums, which the kernel does not check either.
const MAGIC_SUM: &[u8] = b"070702";
const HEADER: usize = 110;
const TYPE: u32 = 0o170_000;
/// A directory.
pub const DIR: u32 = 0o040_000;
/// A regular file.
pub const FILE: u32 = 0o100_000;
/// A symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// A character device.
pub const CHARACTER: u32 = 0o020_000;

/// Writes an archive whose bytes depend only on what is put in: owner 0, time 0, inodes counted.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    inode: u32,
}

impl Writer {
    /// Appends an entry; `mode` has the type and the permission bits, `device` major and minor.
    ///
    /// # Errors
    ///
    /// If the name or the data is larger than the format's 32 bits.
    pub fn add(
        &mut self,
        path: &str,
        mode: u32,
        device: (u32, u32),
        data: &[u8],
    ) -> io::Result<()> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let size = u32::try_from(data.len()).map_err(too_large)?;
        let name = u32::try_from(path.len() + 1).map_err(too_large)?;
        let links = if mode & TYPE == DIR { 2 } else { 1 };
        self.inode += 1;
        self.out.extend_from_slice(MAGIC);
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name, 0,
        ];
        for field in fields {
            self.out
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.out.extend_from_slice(path.as_bytes());
        self.out.push(0);
        self.pad();
        self.out.extend_from_slice(data);
        self.pad();
        Ok(())
    }

    /// Ends the archive.
    ///
    /// # Errors
    ///
    /// None in practice; see [`Self::add`].
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        self.add(TRAILER, 0, (0, 0), &[])?;
        Ok(self.out)
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
    }
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry<'a> {
    /// Path as it is written, lossily as text.
    pub path: String,
    /// Type and permission bits.
    pub mode: u32,
    /// Inode number.
    pub inode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Content of a file, target of a link.
    #[serde(skip)]
    pub data: &'a [u8],
}

impl Entry<'_> {
    /// The type bits of the mode: [`DIR`], [`FILE`], [`SYMLINK`], [`CHARACTER`] or others.
    #[must_use]
    pub fn kind(&self) -> u32 {
        self.mode & TYPE
    }
}

/// Entries of an initramfs.
#[derive(Debug)]
pub struct Archive<'a> {
    /// The entries of all archives, one after the other, without trailers.
    pub entries: Vec<Entry<'a>>,
    /// What follows the last archive: a distribution's initramfs has a compressed one there,
    /// behind an uncompressed one with microcode.
    pub rest: &'a [u8],
}

/// Error of reading an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not start like one.
    #[error("it is not a newc cpio archive")]
    NotCpio,
    /// It ends within an entry.
    #[error("the archive is truncated in the entry at byte {at}")]
    Truncated {
        /// Where the entry starts.
        at: usize,
    },
    /// A field is not a hexadecimal number.
    #[error("the header of the entry at byte {at} is malformed")]
    Malformed {
        /// Where the entry starts.
        at: usize,
    },
}

/// Reads one or more newc archives with zeros between them.
///
/// # Errors
///
/// If the bytes do not start with an archive, or one is damaged.
pub fn read(bytes: &[u8]) -> Result<Archive<'_>, Error> {
    let magic = |at: usize| bytes[at..].starts_with(MAGIC) || bytes[at..].starts_with(MAGIC_SUM);
    if !magic(0) {
        return Err(Error::NotCpio);
    }
    let (mut entries, mut at, mut ended) = (Vec::new(), 0, false);
    while at < bytes.len() {
        if ended && bytes[at] == 0 {
            at += 1;
        } else if magic(at) {
            let (entry, next) = entry(bytes, at)?;
            at = next;
            ended = entry.path == TRAILER;
            if !ended {
                entries.push(entry);
            }
        } else if ended {
            break;
        } else {
            return Err(Error::Malformed { at });
        }
    }
    if !ended {
        return Err(Error::Truncated { at });
    }
    Ok(Archive {
        entries,
        rest: &bytes[at..],
    })
}

fn entry(bytes: &[u8], at: usize) -> Result<(Entry<'_>, usize), Error> {
    let truncated = Error::Truncated { at };
    let header = bytes.get(at..at + HEADER).ok_or(truncated.clone())?;
    let mut fields = [0; 13];
    for (field, text) in fields.iter_mut().zip(header[6..].chunks(8)) {
        // A sign would be accepted by the number parser and is none of the format.
        let digits = text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(text).ok().filter(|_| digits);
        *field = text
            .and_then(|t| u32::from_str_radix(t, 16).ok())
            .ok_or(Error::Malformed { at })?;
    }
    let [
        inode,
        mode,
        uid,
        gid,
        _,
        mtime,
        size,
        _,
        _,
        major,
        minor,
        name,
        _,
    ] = fields;
    let take = |from: usize, size: u32| -> Option<(&[u8], usize)> {
        let end = from.checked_add(size as usize)?;
        // The last padding may be cut off: the kernel does not need it.
        Some((
            bytes.get(from..end)?,
            end.checked_next_multiple_of(4)?.min(bytes.len()),
        ))
    };
    let (path, start) = take(at + HEADER, name).ok_or(truncated.clone())?;
    let (data, next) = take(start, size).ok_or(truncated)?;
    let path = path.strip_suffix(b"\0").ok_or(Error::Malformed { at })?;
    let path = String::from_utf8_lossy(path).into_owned();
    Ok((
        Entry {
            path,
            mode,
            inode,
            uid,
            gid,
            mtime,
            device: (major, minor),
            data,
        },
        next,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_newc() {
        let mut writer = Writer::default();
        writer.add("init", FILE | 0o755, (0, 0), b"abcde").unwrap();
        writer.add("dev", DIR | 0o755, (0, 0), &[]).unwrap();
        let bytes = writer.finish().unwrap();
        let zero = "00000000";
        let file = format!(
            "07070100000001000081ed{zero}{zero}00000001{zero}00000005{zero}{zero}{zero}{zero}00000005{zero}init\0\0abcde\0\0\0"
        );
        assert!(
            bytes.starts_with(file.as_bytes()),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
        let dir = &bytes[file.len()..];
        assert!(dir.starts_with(b"07070100000002000041ed0000000000000000000000020"));
        assert!(bytes.len() % 4 == 0);
    }

    #[test]
    fn damage_is_named() {
        let mut writer = Writer::default();
        writer.add("init", FILE, (0, 0), b"abcde").unwrap();
        let mut bytes = writer.finish().unwrap();
        assert_eq!(read(b"\x1f\x8b").unwrap_err(), Error::NotCpio);
        assert_eq!(read(&bytes[..50]).unwrap_err(), Error::Truncated { at: 0 });
        assert_eq!(
            read(&bytes[..124]).unwrap_err(),
            Error::Truncated { at: 124 }
        );
        assert_eq!(
            read(&bytes[..130]).unwrap_err(),
            Error::Truncated { at: 124 }
        );
        bytes[6] = b'+';
        assert_eq!(read(&bytes).unwrap_err(), Error::Malformed { at: 0 });
    }

    proptest! {
        #[test]
        fn archives_come_back(files in proptest::collection::btree_map("[a-z]{1,12}", proptest::collection::vec(any::<u8>(), 0..40), 0..8), tail in 0..9_usize) {
            let mut writer = Writer::default();
            for (path, data) in &files {
                writer.add(path, FILE | 0o644, (0, 0), data).unwrap();
            }
            let one = writer.finish().unwrap();
            let mut bytes = one.clone();
            bytes.resize(bytes.len() + 4 * tail, 0);
            bytes.extend(&one);
            bytes.extend(b"\x28\xb5");
            let archive = read(&bytes).unwrap();
            prop_assert_eq!(archive.rest, b"\x28\xb5");
            prop_assert_eq!(archive.entries.len(), 2 * files.len());
            for (entry, (path, data)) in archive.entries.iter().zip(&files) {
                prop_assert_eq!((&entry.path, entry.data), (path, &data[..]));
            }
            for cut in 0..one.len() - 4 {
                prop_assert!(read(&one[..cut]).is_err());
            }
        }

        #[test]
        fn hostile_archives_do_not_panic(fields in proptest::collection::vec("[0-9a-f]{8}|0000000[0-9a-f]|[+-g]{8}", 13), data in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut bytes = format!("070701{}", fields.concat()).into_bytes();
            bytes.extend(data);
            let _ = read(&bytes);
        }
    }
}
