//! Source of an image's blobs: files in a directory or members of an archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use brisk_host::files;

use super::archive::{Kind, Reader};
use super::compression::{Compression, decompress};
use super::manifest::Layer;
use super::model::{Container, Form, Limits};
use super::room::{Filling, Room};
use crate::Fault;

/// containerd and skopeo bound manifests by 4 to 8 MiB.
const DOCUMENT_MAX: u64 = 8 << 20;
/// An archive holds a few members for each layer and image.
const MEMBERS_MAX: usize = 100_000;

pub(super) enum Member {
    Content { offset: u64, length: u64 },
    Link(String),
}

/// An opened image.
pub(super) enum Source {
    Directory(PathBuf),
    Archive {
        file: File,
        members: BTreeMap<String, Member>,
    },
    Tarball(File),
}

impl Source {
    /// Opens `found`. A compressed archive of blobs is unpacked into an unnamed file in
    /// `scratch` first, since its blobs are needed in another order than they are stored in.
    pub(super) fn open(found: &Container, scratch: &Path, limits: Limits) -> Result<Self, Fault> {
        match found.form {
            Form::OciDirectory => Ok(Self::Directory(found.path.clone())),
            Form::Tarball => Ok(Self::Tarball(files::open(&found.path)?)),
            Form::OciArchive | Form::DockerArchive => {
                let mut file = files::open(&found.path)?;
                let mut head = [0; 6];
                let read = file.read(&mut head)?;
                file.rewind()?;
                if Compression::of(&head[..read]).is_some() {
                    let mut unpacked = tempfile::tempfile_in(scratch)?;
                    let mut room = Room::beside(&unpacked, limits)?;
                    let mut filling =
                        BufWriter::with_capacity(256 << 10, Filling::new(&mut room, &unpacked));
                    let bounded = limits.content;
                    let copied = io::copy(&mut decompress(file)?.take(bounded), &mut filling)?;
                    filling.flush()?;
                    drop(filling);
                    if copied == bounded {
                        return Err(Fault::TooMuch {
                            what: "bytes in the archive",
                            limit: bounded,
                        });
                    }
                    unpacked.rewind()?;
                    file = unpacked;
                }
                let members = index(&file)?;
                Ok(Self::Archive { file, members })
            }
        }
    }

    /// Bytes stored for all layers.
    pub(super) fn length(&self, layers: &[Layer]) -> Result<u64, Fault> {
        let mut sum = 0;
        for layer in layers {
            sum += self.blob(&layer.name)?.1;
        }
        Ok(sum)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.blob(name).is_ok()
    }

    /// A blob and its length. Each call gives a reader of its own that starts at the front.
    pub(super) fn blob(&self, name: &str) -> Result<(Box<dyn Read + '_>, u64), Fault> {
        match self {
            Self::Directory(path) => {
                let file = open(&path.join(name)).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => Fault::Missing(name.into()),
                    io::ErrorKind::InvalidInput => {
                        Fault::Archive(format!("{}: {error}", name.escape_debug()))
                    }
                    _ => error.into(),
                })?;
                let length = file.metadata()?.len();
                Ok((Box::new(file), length))
            }
            Self::Archive { file, members } => {
                let (offset, length) = find(members, name)?;
                Ok((
                    Box::new(Window {
                        file,
                        offset,
                        left: length,
                    }),
                    length,
                ))
            }
            Self::Tarball(file) => {
                let length = file.metadata()?.len();
                Ok((
                    Box::new(Window {
                        file,
                        offset: 0,
                        left: length,
                    }),
                    length,
                ))
            }
        }
    }

    /// A whole small blob.
    pub(super) fn document(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let (blob, length) = self.blob(name)?;
        if length > DOCUMENT_MAX {
            return Err(Fault::TooMuch {
                what: "bytes in a manifest",
                limit: DOCUMENT_MAX,
            });
        }
        let mut bytes = Vec::new();
        blob.take(DOCUMENT_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Opens a regular file without waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let is_file = |found: std::fs::Metadata| match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    };
    // To open a device may do something.
    is_file(std::fs::metadata(path)?)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    is_file(file.metadata()?)?;
    Ok(file)
}

/// Reads a part of a file without moving the file's own position.
struct Window<'a> {
    file: &'a File,
    offset: u64,
    left: u64,
}

impl Read for Window<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file.read_at(&mut buffer[..want], self.offset)?;
        if read == 0 && want > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

fn index(file: &File) -> Result<BTreeMap<String, Member>, Fault> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Reader::new(file);
    let mut members = BTreeMap::new();
    while let Some(entry) = reader.next_entry()? {
        let Ok(name) = String::from_utf8(entry.path) else {
            continue;
        };
        let member = match entry.kind {
            Kind::File(_) => Member::Content {
                offset: reader.position(),
                length: reader.content(),
            },
            Kind::HardLink(target) => Member::Link(plain(&String::from_utf8_lossy(&target))),
            // `docker save` before version 25 stored a layer once and linked to it.
            Kind::Symlink(target) => {
                let parent = Path::new(&name).parent().unwrap_or(Path::new(""));
                let target = parent.join(&*String::from_utf8_lossy(&target));
                Member::Link(plain(&target.to_string_lossy()))
            }
            _ => continue,
        };
        members.insert(plain(&name), member);
        if members.len() > MEMBERS_MAX {
            return Err(Fault::TooMuch {
                what: "members",
                limit: MEMBERS_MAX as u64,
            });
        }
    }
    Ok(members)
}

/// `./a//x/../b` is `a/b`. Only a key of the map: no file of the host is opened by it.
fn plain(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn find(members: &BTreeMap<String, Member>, name: &str) -> Result<(u64, u64), Fault> {
    let mut key = plain(name);
    for _ in 0..8 {
        match members.get(&key) {
            Some(Member::Content { offset, length }) => return Ok((*offset, *length)),
            Some(Member::Link(target)) => key.clone_from(target),
            None => break,
        }
    }
    Err(Fault::Missing(name.into()))
}
