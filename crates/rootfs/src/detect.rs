//! Identification of a root by its path and its first bytes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use brisk_host::files;

use super::container::{Reader, Skip, decompress};
use super::magic::{self, Kind};
use super::partition::{self, Partition};
use super::{Container, Directory, DirectoryWarning, Disk, Error, Form, Format, Found, qcow2};

const SYSTEM: &str = "give a directory, a disk image or a container image";
/// Logical partitions; the kernel stops at 256 minors, no one uses a tenth of it.
const LOGICAL_MAX: u32 = 60;

/// Identifies `arg` by its type and its first bytes. `PATH#NAME` chooses one of several images in a
/// container archive, unless a file has that name. `format` is that of a disk image, if it is
/// known; else see [`decide`].
///
/// # Errors
///
/// `arg` cannot be read, or could not be a root.
pub fn detect(arg: &Path, format: Option<Format>) -> Result<Found, Error> {
    let (path, name) = split_name(arg);
    let metadata = fs::metadata(&path).map_err(|error| access(&path, error))?;
    let kind = metadata.file_type();
    let mut found = if kind.is_dir() {
        directory(&path, name.clone())
    } else if kind.is_file() || kind.is_block_device() {
        file(&path, kind.is_block_device(), name.clone(), format)?
    } else {
        return Err(not(&path, "neither a file nor a directory", SYSTEM));
    };
    if let Found::Disk(disk) = &mut found {
        disk.device = kind.is_block_device();
    }
    match (&found, name) {
        (Found::Container(container), _) if container.form != Form::Tarball => Ok(found),
        (_, None) => Ok(found),
        (_, Some(_)) => Err(not(
            arg,
            "a name in something that holds no named images",
            "leave out `#` and what follows",
        )),
    }
}

/// Splits `arg` into path and name; a file that is called `a#b` has no name.
fn split_name(arg: &Path) -> (PathBuf, Option<String>) {
    let whole = (arg.to_path_buf(), None);
    if arg.symlink_metadata().is_ok() {
        return whole;
    }
    let Some((path, name)) = arg.to_str().and_then(|text| text.rsplit_once('#')) else {
        return whole;
    };
    match Path::new(path).exists() && !name.is_empty() {
        true => (path.into(), Some(name.into())),
        false => whole,
    }
}

fn directory(path: &Path, name: Option<String>) -> Found {
    let has = |name: &str| path.join(name).symlink_metadata().is_ok();
    if has("oci-layout") && has("index.json") {
        return Found::Container(Container {
            path: path.into(),
            form: Form::OciDirectory,
            name,
        });
    }
    let system = ["usr/bin", "bin", "etc"].into_iter().any(has);
    Found::Directory(Directory {
        path: path.into(),
        warning: (!system).then_some(DirectoryWarning::NoSystem),
    })
}

/// Decides the format of a disk image that begins with these bytes. A known format never changes,
/// whatever a guest has written to the disk. Otherwise a file is a qcow2 image if its name ends in
/// `.qcow2` and its first bytes are those of one: a guest can write the header of a qcow2 image to
/// its raw disk, which would name other files and any size. Block devices are raw.
///
/// # Errors
/// If name and content do not agree.
pub(super) fn decide(
    path: &Path,
    device: bool,
    head: &[u8],
    known: Option<Format>,
) -> Result<Format, Error> {
    let qcow2 = qcow2::is_qcow2(head);
    let named = path.extension().is_some_and(|end| end == "qcow2");
    let refused = |what| {
        Err(Error::Format {
            path: path.into(),
            what,
        })
    };
    match (known, qcow2, named && !device) {
        (Some(Format::Qcow2), false, _) => refused("is no qcow2 image, which it is said to be"),
        (Some(format), _, _) => Ok(format),
        (None, true, true) => Ok(Format::Qcow2),
        (None, true, false) => refused(
            "begins as a qcow2 image, and its name does not end in .qcow2: it may be one, or a \
             guest that has it as a raw disk may have written that; say which it is: format=qcow2 \
             or format=raw behind a --disk, --root-format for the root",
        ),
        (None, false, true) => refused(
            "has a name that ends in .qcow2, and is no qcow2 image: a guest that has it as a raw \
             disk could make it one; rename it, or say format=raw, or --root-format raw of the root",
        ),
        (None, false, false) => Ok(Format::Raw),
    }
}

/// Format of the disk image or block device at a path; `None` if the path does not exist or is
/// something else, such as a directory or an archive.
///
/// # Errors
/// If it cannot be read, or its name and its content do not agree: see [`decide`].
pub fn format_of(path: &Path) -> Result<Option<Format>, Error> {
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| access(path, error))?.file_type(),
    };
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    let file = files::open(path).map_err(|error| access(path, error))?;
    let head = qcow2::read_at(&file, 0, magic::HEAD).map_err(|error| access(path, error))?;
    match magic::kind(&head) {
        Kind::Tar | Kind::Compressed(_) => Ok(None),
        _ => decide(path, kind.is_block_device(), &head, None).map(Some),
    }
}

fn file(
    path: &Path,
    device: bool,
    name: Option<String>,
    known: Option<Format>,
) -> Result<Found, Error> {
    let file = files::open(path).map_err(|error| access(path, error))?;
    let head = qcow2::read_at(&file, 0, magic::HEAD).map_err(|error| access(path, error))?;
    if head.is_empty() {
        return Err(not(path, "an empty file", SYSTEM));
    }
    match magic::kind(&head) {
        _ if known.is_some() => {}
        Kind::Tar => return archive(path, &file, name).map(Found::Container),
        Kind::Compressed(compression) => return compressed(path, compression.name(), name),
        Kind::Other(what, hint) => return Err(not(path, what, hint)),
        _ => {}
    }
    let format = decide(path, device, &head, known)?;
    let backing = match format {
        Format::Qcow2 => qcow2::backing_chain(path)?,
        Format::Raw => Vec::new(),
    };
    let found = match format {
        Format::Qcow2 => disk(path, format, &|offset, length| {
            qcow2::read(path, offset, length)
        }),
        Format::Raw => disk(path, format, &|offset, length| {
            qcow2::read_at(&file, offset, length).map_err(|error| access(path, error))
        }),
    };
    found.map(|disk| Found::Disk(Disk { backing, ..disk }))
}

pub(super) type ReadAt<'a> = dyn Fn(u64, usize) -> Result<Vec<u8>, Error> + 'a;

fn disk(path: &Path, format: Format, read: &ReadAt<'_>) -> Result<Disk, Error> {
    let head = read(0, partition::TABLE.max(magic::HEAD))?;
    let mut disk = Disk {
        path: path.into(),
        device: false,
        format,
        backing: Vec::new(),
        filesystem: super::Filesystem::Ext4,
        partition: None,
        sector_size: 512,
        partitions: Vec::new(),
        reason: None,
    };
    if let Kind::Filesystem(filesystem) = magic::kind(&head) {
        disk.filesystem = filesystem;
        return Ok(disk);
    }
    let Some((sector_size, partitions)) = partitions(path, &head, read)? else {
        return Err(match magic::kind(&head) {
            Kind::Other(what, hint) => not(path, what, hint),
            Kind::Zeros => not(
                path,
                "all zeros at its start",
                "there is no file system on it yet",
            ),
            _ => not(path, "nothing that brisk knows", SYSTEM),
        });
    };
    disk.sector_size = sector_size;
    let Some((root, reason)) = partition::choose(&partitions) else {
        return Err(Error::NoRootPartition {
            path: path.into(),
            partitions,
        });
    };
    disk.partition = Some(root.number);
    disk.filesystem = root.filesystem.unwrap_or(disk.filesystem);
    disk.reason = Some(reason);
    disk.partitions = partitions;
    Ok(disk)
}

/// Sector size and partitions of a disk with a partition table.
pub(super) fn partitions(
    path: &Path,
    head: &[u8],
    read: &ReadAt<'_>,
) -> Result<Option<(u32, Vec<Partition>)>, Error> {
    let (sector_size, mut partitions) = match magic::kind(head) {
        Kind::Gpt => partition::gpt(head).map_err(|what| Error::Damaged {
            path: path.into(),
            what,
        })?,
        Kind::BootSector => (512, mbr(head, read)?),
        _ => return Ok(None),
    };
    for partition in &mut partitions {
        let head = read(partition.start, magic::HEAD)?;
        partition.content = magic::content(&head);
        partition.filesystem = match magic::kind(&head) {
            Kind::Filesystem(filesystem) => Some(filesystem),
            _ => None,
        };
    }
    Ok(Some((sector_size, partitions)))
}

fn mbr(head: &[u8], read: &ReadAt<'_>) -> Result<Vec<Partition>, Error> {
    let (mut partitions, extended) = partition::mbr(head);
    let Some(extended) = extended else {
        return Ok(partitions);
    };
    let mut link = extended.start;
    for number in 5..5 + LOGICAL_MAX {
        let sector = read(link, 512)?;
        let (data, next) = partition::logical(&sector);
        if let Some((start, length)) = data {
            partitions.push(Partition {
                number,
                start: link + start,
                length,
                ..extended.clone()
            });
        }
        match next {
            Some(next) if next != 0 => link = extended.start + next,
            _ => break,
        }
    }
    Ok(partitions)
}

fn compressed(path: &Path, compression: &str, name: Option<String>) -> Result<Found, Error> {
    let open = || -> io::Result<Box<dyn Read>> { decompress(files::open(path)?) };
    let mut head = Vec::new();
    open()
        .and_then(|stream| stream.take(magic::HEAD as u64).read_to_end(&mut head))
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => access(path, error),
            _ => Error::Damaged {
                path: path.into(),
                what: format!("cannot decompress it with {compression}: {error}"),
            },
        })?;
    if magic::kind(&head) != Kind::Tar {
        let (what, hint) = magic::inside(compression, &head);
        return Err(not(path, &what, hint));
    }
    let stream = open().map_err(|error| access(path, error))?;
    let form = form(Reader::new(stream)).map_err(|fault| Error::Container {
        path: path.into(),
        fault,
    })?;
    Ok(Found::Container(Container {
        path: path.into(),
        form,
        name,
    }))
}

fn archive(path: &Path, file: &File, name: Option<String>) -> Result<Container, Error> {
    let file = file.try_clone().map_err(|error| access(path, error))?;
    let form = form(Reader::new(file)).map_err(|fault| Error::Container {
        path: path.into(),
        fault,
    })?;
    Ok(Container {
        path: path.into(),
        form,
        name,
    })
}

/// Looks at names until one has no place in an archive of images, which for the root of a system
/// is the first or second.
fn form<R: Skip>(mut reader: Reader<R>) -> Result<Form, super::Fault> {
    let (mut layout, mut index, mut manifest) = (false, false, false);
    while let Some(entry) = reader.next_entry()? {
        let name = String::from_utf8_lossy(&entry.path);
        let name = name.trim_start_matches("./").trim_end_matches('/');
        match name {
            "oci-layout" => layout = true,
            "index.json" => index = true,
            "manifest.json" => manifest = true,
            "" | "." | "repositories" | "blobs" => {}
            _ if name.starts_with("blobs/") || is_docker_blob(name) => {}
            _ => return Ok(Form::Tarball),
        }
    }
    Ok(match (layout && index, manifest) {
        (true, _) => Form::OciArchive,
        (false, true) => Form::DockerArchive,
        (false, false) => Form::Tarball,
    })
}

/// What a member of an archive with a `manifest.json` may be called, which says what each is:
/// `docker save` and podman have a directory by a digest with `layer.tar` in it, and a
/// configuration; others have layers and configuration side by side, compressed or not, the
/// configuration of crane and kaniko called `sha256:` and its digest.
fn is_docker_blob(name: &str) -> bool {
    const LAYERS: [&str; 5] = [".json", ".tar", ".tar.gz", ".tgz", ".tar.zst"];
    let digest = |part: &str| {
        let digits = part.strip_prefix("sha256:").unwrap_or(part);
        digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match name.split_once('/') {
        None => digest(name) || LAYERS.iter().any(|end| name.ends_with(end)),
        Some((first, rest)) => digest(first) || matches!(rest, "layer.tar" | "json" | "VERSION"),
    }
}

pub(super) fn access(path: &Path, source: io::Error) -> Error {
    let path = path.to_path_buf();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::Missing { path },
        io::ErrorKind::PermissionDenied => Error::Permission { path },
        _ => Error::Read { path, source },
    }
}

fn not(path: &Path, what: &str, hint: &'static str) -> Error {
    Error::NotARoot {
        path: path.into(),
        what: what.into(),
        hint,
    }
}
