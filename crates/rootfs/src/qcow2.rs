//! qcow2 images: the files that a header refers to, and the bytes that a guest would see.
//!
//! The header is described in QEMU's docs/interop/qcow2.txt. The content is read with `qemu-img
//! dd`, which knows all of the format.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_host::files;
use rustix::fs::{MemfdFlags, memfd_create};

use super::error::Error;
use super::format::Format;

mod tables;

const MAGIC: &[u8] = b"QFI\xfb";
/// Backing files may have backing files; QEMU itself has no bound.
const CHAIN_MAX: u32 = 16;
const EXTENSION_DATA_FILE: u32 = 0x4441_5441;
const EXTENSION_BACKING_FORMAT: u32 = 0xe279_2aca;
const INCOMPATIBLE_DATA_FILE: u64 = 1 << 2;

/// References of a qcow2 header to other files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    pub(super) backing: Option<String>,
    /// The format of the backing file, as QEMU names it.
    pub(super) backing_format: Option<String>,
    pub(super) data: Option<String>,
    pub(super) encrypted: bool,
}

/// A file that a qcow2 image reads from where it has no data of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Path of the file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
}

/// Reads the header in `head`, the first bytes of the file.
pub(super) fn references(head: &[u8]) -> Result<References, String> {
    let field = |at: usize, length: usize| head.get(at..at + length).ok_or("its header is cut off");
    let u32_at = |at| -> Result<u32, String> {
        Ok(field(at, 4)?
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
    };
    let u64_at = |at| -> Result<u64, String> {
        Ok(u64::from(u32_at(at)?) << 32 | u64::from(u32_at(at + 4)?))
    };
    if field(0, 4)? != MAGIC {
        return Err("it is no qcow2 image".into());
    }
    let version = u32_at(4)?;
    if !matches!(version, 2 | 3) {
        return Err(format!("qcow2 has no version {version}"));
    }
    let mut found = References {
        encrypted: u32_at(32)? != 0,
        ..References::default()
    };
    let text = |offset: u64, length: u32| -> Result<String, String> {
        let offset = usize::try_from(offset)
            .ok()
            .filter(|&offset| offset < head.len())
            .ok_or("a name lies outside of its header")?;
        // QEMU allows 1023 bytes.
        if length > 1023 {
            return Err("the name of its backing file is too long".into());
        }
        Ok(String::from_utf8_lossy(field(offset, length as usize)?).into_owned())
    };
    let backing = u64_at(8)?;
    if backing != 0 {
        found.backing = Some(text(backing, u32_at(16)?)?);
    }
    let mut at = 72;
    if version == 3 {
        if u64_at(72)? & INCOMPATIBLE_DATA_FILE != 0 {
            found.data = Some("an external data file".into());
        }
        at = u32_at(100)? as usize;
        if at < 104 || at > head.len() {
            return Err("its header has an impossible length".into());
        }
    }
    // Extensions end before the name of the backing file, if nothing else ends them.
    let end = match usize::try_from(backing) {
        Ok(0) | Err(_) => head.len(),
        Ok(backing) => backing,
    };
    loop {
        if at >= end {
            return Ok(found);
        }
        let (kind, length) = (u32_at(at)?, u32_at(at + 4)?);
        match kind {
            0 => return Ok(found),
            EXTENSION_DATA_FILE => found.data = Some(text(at as u64 + 8, length)?),
            EXTENSION_BACKING_FORMAT => found.backing_format = Some(text(at as u64 + 8, length)?),
            _ => {}
        }
        at = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_next_multiple_of(8)?.checked_add(at + 8))
            .filter(|&at| at <= end.min(head.len()))
            .ok_or("a header extension is too long")?;
    }
}

/// A file and its first bytes, all of its header if it is a qcow2 image.
fn head(path: &Path) -> Result<(File, Vec<u8>), Error> {
    let read = || {
        let file = files::open(path)?;
        let head = read_at(&file, 0, 64 << 10)?;
        Ok((file, head))
    };
    read().map_err(|source| read_error(path, source))
}

/// Whether the first bytes of a file are those of a qcow2 image.
pub(super) fn is_qcow2(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The files that a qcow2 image reads from besides itself, the nearest first, each with its
/// recorded format. QEMU gets the whole list, so that it guesses nothing and opens no other file.
///
/// # Errors
/// If a file is not in the directory of the image, has no recorded format or another one than raw
/// and qcow2, if the image has an external data file or is encrypted, or its headers cannot be
/// read.
pub fn backing_chain(path: &Path) -> Result<Vec<Backing>, Error> {
    let home = directory(path)?;
    let mut chain: Vec<Backing> = Vec::new();
    loop {
        let current = chain.last().map_or(path, |last| &last.path).to_owned();
        let (file, head) = head(&current)?;
        let damaged = |what: String| Error::Damaged {
            path: current.clone(),
            what,
        };
        let found = references(&head).map_err(damaged)?;
        if found.encrypted {
            return Err(Error::NotARoot {
                path: current,
                what: "an encrypted qcow2 image".into(),
                hint: "decrypt it with `qemu-img convert`",
            });
        }
        if let Some(referred) = found.data {
            return Err(Error::DataFile {
                path: path.into(),
                referred,
            });
        }
        if let Some(beyond) = tables::beyond_end(&file, &head) {
            return Err(damaged(format!(
                "it has something at byte {beyond}, behind its end; was it copied or downloaded to \
                 the end?"
            )));
        }
        let Some(referred) = found.backing else {
            return Ok(chain);
        };
        let target = inside(path, &current, &home, &referred)?;
        let format = match found.backing_format.as_deref() {
            Some("raw") => Format::Raw,
            Some("qcow2") => Format::Qcow2,
            format => {
                return Err(Error::BackingFormat {
                    path: current,
                    referred,
                    format: format.map(str::to_owned),
                });
            }
        };
        if target == path || chain.iter().any(|one| one.path == target) {
            return Err(damaged("its backing files read from each other".into()));
        }
        chain.push(Backing {
            path: target,
            format,
        });
        if format == Format::Raw {
            return Ok(chain);
        }
        if chain.len() as u32 > CHAIN_MAX {
            return Err(Error::Damaged {
                path: path.into(),
                what: format!("its chain of backing files is longer than {CHAIN_MAX}"),
            });
        }
    }
}

/// The file that `referred` names, if it lies in `home` without the help of symbolic links.
/// Names with a colon may be protocols or JSON to QEMU.
fn inside(path: &Path, from: &Path, home: &Path, referred: &str) -> Result<PathBuf, Error> {
    let refused = || Error::Backing {
        path: path.into(),
        referred: referred.into(),
    };
    if referred.contains(':') || referred.is_empty() {
        return Err(refused());
    }
    let target = from.parent().unwrap_or(Path::new("")).join(referred);
    let target = fs::canonicalize(&target).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => refused(),
        _ => read_error(&target, source),
    })?;
    if target.parent() != Some(home) || !target.is_file() {
        return Err(refused());
    }
    Ok(target)
}

fn directory(path: &Path) -> Result<PathBuf, Error> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::canonicalize(parent).map_err(|source| read_error(parent, source))
}

/// The command that copies `count` MiB of a guest's view, from `skip` MiB on, into `out`. It takes
/// no lock, so that an image in use can be looked at.
pub(super) fn dd(path: &Path, out: &Path, skip: u64, count: u64) -> Command {
    let mut command = Command::new("qemu-img");
    let named = |key: &str, path: &Path| {
        let mut argument = std::ffi::OsString::from(key);
        // A relative name with a colon would be a protocol.
        if path.is_relative() {
            argument.push("./");
        }
        argument.push(path);
        argument
    };
    command
        .args(["dd", "-U", "-f", "qcow2", "-O", "raw", "bs=1M"])
        .arg(format!("skip={skip}"))
        // Counted from the start of the image in QEMU, not from what was skipped.
        .arg(format!("count={}", skip + count))
        .arg(named("if=", path))
        .arg(named("of=", out));
    command
}

/// Bytes as a guest sees them; fewer where the disk ends.
pub(super) fn read(path: &Path, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
    const MIB: u64 = 1 << 20;
    // In memory and without a name: what a disk has may be secret, and a directory for temporary
    // files may be one in which others rename.
    let created = memfd_create("brisk-disk", MemfdFlags::CLOEXEC);
    let scratch = File::from(created.map_err(|error| read_error(path, error.into()))?);
    let out = format!("/proc/{}/fd/{}", std::process::id(), scratch.as_raw_fd());
    let out = Path::new(&out);
    let skip = offset / MIB;
    let count = (offset % MIB + length as u64).div_ceil(MIB);
    let mut command = dd(path, out, skip, count);
    let output = command.output().map_err(|source| Error::NoProgram {
        program: "qemu-img",
        package: "qemu-utils",
        source,
    })?;
    if !output.status.success() {
        let words = command.get_args().map(|word| word.to_string_lossy());
        let quoted = words.map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        return Err(Error::Program {
            command: format!("qemu-img {}", quoted.collect::<Vec<_>>().join(" ")),
            stderr: String::from_utf8_lossy(&output.stderr).trim().into(),
        });
    }
    read_at(&scratch, offset % MIB, length).map_err(|source| read_error(path, source))
}

/// Up to `length` bytes at `offset`; fewer where the file ends.
pub(super) fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    // A partition table may point anywhere, pread(2) takes a signed offset.
    if offset > i64::MAX as u64 - length as u64 {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn read_error(path: &Path, source: io::Error) -> Error {
    Error::Read {
        path: path.into(),
        source,
    }
}
