//! Entries of a tar archive, parsed from their headers.

use std::io;

use tar::{EntryType, Header};

use super::extension::Extension;
use crate::Fault;

/// Metadata of an inode: everything but its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Permission bits, `0o7777` at most.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Modification time: seconds since 1970, and nanoseconds.
    pub(crate) mtime: (i64, u32),
    /// Extended attributes, sorted by name.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Kind of the file that an entry makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file of this many bytes.
    File(u64),
    Directory,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    Character(u32, u32),
    Block(u32, u32),
    Fifo,
}

/// One member of an archive.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) metadata: Metadata,
    /// Places of the stored bytes of a sparse file: offset and length, ascending.
    pub(crate) segments: Option<Vec<(u64, u64)>>,
}

impl Entry {
    pub(super) fn new(header: &Header, extension: &mut Extension) -> Result<Self, Fault> {
        let path = match extension.path.take() {
            Some(path) => path,
            None => header.path_bytes().into_owned(),
        };
        let link = match extension.link.take() {
            Some(link) => link,
            None => header
                .link_name_bytes()
                .map(|link| link.into_owned())
                .unwrap_or_default(),
        };
        let old = header.as_old();
        let metadata = Metadata {
            mode: blank_is_zero(&old.mode, header.mode())
                .map_err(|error| damaged(&path, &error))?
                & 0o7777,
            uid: id(
                extension.uid,
                || blank_is_zero(&old.uid, header.uid()),
                &path,
            )?,
            gid: id(
                extension.gid,
                || blank_is_zero(&old.gid, header.gid()),
                &path,
            )?,
            mtime: extension.mtime.unwrap_or_else(|| {
                let seconds = header.mtime().unwrap_or_default();
                (i64::try_from(seconds).unwrap_or_default(), 0)
            }),
            xattrs: std::mem::take(&mut extension.xattrs).into_iter().collect(),
        };
        let device = || -> Result<(u32, u32), Fault> {
            let number = |field: io::Result<Option<u32>>| {
                field
                    .map(Option::unwrap_or_default)
                    .map_err(|error| damaged(&path, &error))
            };
            Ok((
                number(header.device_major())?,
                number(header.device_minor())?,
            ))
        };
        let kind = match header.entry_type() {
            // Before POSIX a directory was a file whose name ends in a slash.
            EntryType::Regular if path.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File(0),
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link),
            EntryType::Link => Kind::HardLink(link),
            EntryType::Char => device().map(|(major, minor)| Kind::Character(major, minor))?,
            EntryType::Block => device().map(|(major, minor)| Kind::Block(major, minor))?,
            EntryType::Fifo => Kind::Fifo,
            other => {
                return Err(Fault::Archive(format!(
                    "{} has the unknown type {:?}",
                    String::from_utf8_lossy(&path).escape_debug(),
                    char::from(other.as_byte())
                )));
            }
        };
        Ok(Self {
            path,
            kind,
            metadata,
            segments: None,
        })
    }
}

/// Reads a blank number as zero, as GNU tar and Go do: some writers leave it blank.
pub(super) fn blank_is_zero<T: Default>(field: &[u8], value: io::Result<T>) -> io::Result<T> {
    match field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        true => Ok(T::default()),
        false => value,
    }
}

fn id(
    extended: Option<u64>,
    plain: impl FnOnce() -> io::Result<u64>,
    path: &[u8],
) -> Result<u32, Fault> {
    let wide = match extended {
        Some(id) => id,
        None => plain().map_err(|error| damaged(path, &error))?,
    };
    u32::try_from(wide).map_err(|_| {
        Fault::Archive(format!(
            "{} has the owner {wide}, which is beyond 32 bits",
            String::from_utf8_lossy(path).escape_debug()
        ))
    })
}

fn damaged(path: &[u8], error: &io::Error) -> Fault {
    Fault::Archive(format!(
        "the header of {} is damaged: {error}",
        String::from_utf8_lossy(path).escape_debug()
    ))
}
