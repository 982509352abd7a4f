//! Ends of files, and replacement of files such that a reader finds the old content or the new, also
//! after a power cut.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{
    FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ResolveFlags, memfd_create, openat, openat2};
use tempfile::NamedTempFile;

pub use crate::own_file::{append, open_lock, read_own};

/// Degree to which a replacement is on the disk when [`replace`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The kernel writes the file at a time of its own. A reader finds the old content or the new.
    Atomic,
    /// A power cut leaves the old content or the new, and the new is written to the disk before the
    /// file has its name.
    Synced,
    /// The new content survives a power cut from now on: the directory is synced as well.
    Durable,
}

/// Path of a file of the system below `root`, given its absolute path there.
#[must_use]
pub fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Bytes of a file that [`text`] reads at most.
const LONGEST_TEXT: u64 = 16 << 20;

/// As [`text`], of a file below `root`: links in another system's tree lead to files of that.
#[must_use]
pub fn text_below(root: &Path, path: &Path) -> Option<String> {
    if root == Path::new("/") {
        return text(&below(root, path));
    }
    text(&by_descriptor(&found_below(root, path).ok()?))
}

/// Text of a file of another system's tree, which may be anything: at most 16 MiB of it, without
/// waiting for the other end of a pipe; what is no UTF-8 is replaced. None if it cannot be read.
#[must_use]
pub fn text(path: &Path) -> Option<String> {
    text_within(path, LONGEST_TEXT)
}

/// Text of a file as [`text`] reads it, at most `most` bytes of it: for one of many files.
#[must_use]
pub fn text_within(path: &Path, most: u64) -> Option<String> {
    let bytes = start(path, most).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first bytes of a file of another system's tree, at most `most` of them, without waiting for
/// the other end of a pipe.
///
/// # Errors
/// If it cannot be read.
pub fn start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file of another system's tree for reading, without waiting for the other end of a pipe.
/// Character devices are refused: to open one may do something, such as starting a watchdog, and
/// some never end.
///
/// # Errors
/// If it cannot be opened, or is a character device.
pub fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.file_type().is_char_device() {
        let reason = "it is a character device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    open_any(path)
}

/// Opens a regular file of another system's tree for reading.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    must_be_regular(&fs::metadata(path)?)?;
    let file = open_any(path)?;
    // It may have been replaced in between.
    must_be_regular(&file.metadata()?)?;
    Ok(file)
}

pub(crate) fn must_be_regular(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Content of a regular file of at most so many bytes. Pipes, which would be waited for, and devices,
/// which may have no end, are refused.
///
/// # Errors
/// If it cannot be read, is no such file, or is longer.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded(&open_regular(path)?, most)
}

/// Text of a regular file, as [`read_regular`] reads it.
///
/// # Errors
/// As of [`read_regular`], and if it is not UTF-8.
pub fn read_regular_text(path: &Path) -> io::Result<String> {
    let bytes = read_regular(path, LONGEST_TEXT)?;
    String::from_utf8(bytes).map_err(|_| {
        let reason = "it is not UTF-8 text";
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

/// Content of a regular file of another system, by its path there, as [`read_regular`] reads it:
/// links that lead out of `root` lead to files below it.
///
/// # Errors
/// As of [`read_regular`].
pub fn read_regular_below(root: &Path, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let found = found_below(root, path)?;
    // To open a device may do something.
    must_be_regular(&found.metadata()?)?;
    bounded(&open_any(&by_descriptor(&found))?, most)
}

/// A place in another system's tree, not opened: links that lead out of `root` lead below it.
fn found_below(root: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&root, path, flags, Mode::empty(), within)?.into())
}

/// A name by which a place that was found can be opened.
fn by_descriptor(found: &File) -> PathBuf {
    format!("/proc/self/fd/{}", found.as_raw_fd()).into()
}

pub(crate) fn bounded(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let reason = format!(
            "it has more than {} MiB, which nothing of this kind has",
            most >> 20
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(bytes)
}

/// Opens a file of any kind, a device too, for reading, without waiting for the other end of a pipe.
///
/// # Errors
/// If it cannot be opened.
pub fn open_any(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
}

/// The last bytes of a file, `most` of them, as text. Its position stays: a program that writes to
/// it may share that.
///
/// # Errors
/// If it cannot be read.
pub fn tail(file: &File, most: u64) -> io::Result<String> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(most);
    let mut bytes = vec![0; (length - start) as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Replaces a file by one with these bytes, which only its owner may read and write.
///
/// # Errors
/// If the new file cannot be written; the old file is unchanged.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    replace_with_mode(path, bytes, 0o600, durability)
}

/// Replaces a file as [`replace`] does, by one of this mode, whatever the umask is.
///
/// # Errors
/// If it cannot be written; the old one is there as it was.
pub fn replace_with_mode(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    durability: Durability,
) -> io::Result<()> {
    let rights = Rights { mode, old: None };
    write_beside(path, bytes, &rights, durability, false)
}

/// Replaces a file that belongs to a user, through links: one that is there keeps its owner and
/// mode, a new one has this mode. With `only_new` nothing is replaced. A terminal, a pipe or a device
/// is written to, for there is nothing to replace.
///
/// # Errors
/// If it cannot be written; a file that was there is as it was. `AlreadyExists`: it was to be new.
pub fn replace_keeping(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    durability: Durability,
    only_new: bool,
) -> io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) && !only_new {
        return fs::write(path, bytes);
    }
    // Nobody executes it as its owner.
    let mode = old.as_ref().map_or(mode, |old| old.mode() & 0o777);
    let old = old.as_ref();
    write_beside(path, bytes, &Rights { mode, old }, durability, only_new)
}

/// Rights to a new file.
struct Rights<'a> {
    mode: u32,
    /// The file whose owner it gets.
    old: Option<&'a Metadata>,
}

/// Writes a file beside the path, and names it only when all of it is there. Owner and mode are
/// those of the open file: its name is one of a directory that others may be able to write to.
fn write_beside(
    path: &Path,
    bytes: &[u8],
    rights: &Rights<'_>,
    durability: Durability,
    only_new: bool,
) -> io::Result<()> {
    let dir = directory(path);
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    if let Some(old) = rights.old {
        // Only root can give files to others; for others the file is their own.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
    }
    file.as_file()
        .set_permissions(Permissions::from_mode(rights.mode))?;
    if durability != Durability::Atomic {
        file.as_file().sync_all()?;
    }
    match only_new {
        true => file.persist_noclobber(path)?,
        false => file.persist(path)?,
    };
    if durability == Durability::Durable {
        sync_directory(dir)?;
    }
    Ok(())
}

/// A file in memory with these bytes, read from its beginning. The name is for /proc.
///
/// # Errors
/// If there is not enough memory.
pub fn in_memory(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Syncs a directory, so that files that were made, named or removed in it survive a power cut.
///
/// # Errors
/// If the directory cannot be opened or synced.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The directory of a file.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_pipe_is_not_waited_for_and_a_file_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(text(&path).as_deref(), Some(""));
        fs::write(dir.path().join("file"), b"text\xff").unwrap();
        assert_eq!(start(&dir.path().join("file"), 3).unwrap(), b"tex");
        assert_eq!(
            text(&dir.path().join("file")).as_deref(),
            Some("text\u{fffd}")
        );
        assert!(start(&dir.path().join("no"), 3).is_err());
        assert_eq!(
            text_within(&dir.path().join("file"), 2).as_deref(),
            Some("te")
        );
        let error = open_regular(&path).unwrap_err().to_string();
        assert_eq!(error, "it is not a regular file");
    }

    #[test]
    fn devices_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let error = start(&link, 3).unwrap_err().to_string();
        assert_eq!(error, "it is a character device");
        assert!(open_regular(&link).is_err());
        assert!(open_any(&link).is_ok());
        fs::write(dir.path().join("file"), b"text").unwrap();
        assert!(open_regular(&dir.path().join("file")).is_ok());
    }

    #[test]
    fn only_regular_files_of_some_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read_regular(&path, 100).unwrap(), [7; 100]);
        let error = read_regular(&path, 99).unwrap_err().to_string();
        assert!(error.contains("more than 0 MiB"), "{error}");
        for other in [dir.path(), Path::new("/dev/zero")] {
            let error = read_regular(other, 100).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file");
        }
        fs::write(&path, b"\xff").unwrap();
        assert!(read_regular_text(&path).is_err());
    }

    #[test]
    fn a_link_does_not_lead_out_of_a_root() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(dir.path().join("secret"), "outside").unwrap();
        fs::write(root.join("secret"), "inside").unwrap();
        let read = |path: &str| read_regular_below(&root, Path::new(path), 100);
        for (name, target) in [("up", "../../secret"), ("absolute", "/secret")] {
            symlink(target, root.join("etc").join(name)).unwrap();
            assert_eq!(read(&format!("etc/{name}")).unwrap(), b"inside");
        }
        assert_eq!(read("/secret").unwrap(), b"inside");
        symlink(dir.path().join("secret"), root.join("etc/out")).unwrap();
        assert!(read("etc/out").is_err());
        symlink("/dev/zero", root.join("etc/zero")).unwrap();
        assert!(read("etc/zero").is_err());
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(CWD, root.join("etc/fifo"), fifo, mode, 0).unwrap();
        let error = read("etc/fifo").unwrap_err().to_string();
        assert_eq!(error, "it is not a regular file");
    }

    #[test]
    fn the_end_of_a_file_is_read_where_a_writer_goes_on() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one, two").unwrap();
        assert_eq!(tail(&file, 3).unwrap(), "two");
        assert_eq!(tail(&file, 100).unwrap(), "one, two");
        file.rewind().unwrap();
        file.write_all(b"ONE").unwrap();
        assert_eq!(tail(&file, 100).unwrap(), "ONE, two");
        file.write_all(b";").unwrap();
        assert_eq!(tail(&file, 5).unwrap(), "; two");
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (text, durability) in [
            ("one", Durability::Atomic),
            ("two", Durability::Synced),
            ("three", Durability::Durable),
        ] {
            replace(&path, text.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // Nothing can take the place of a directory that is not empty.
        let full = dir.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("kept"), "").unwrap();
        assert!(replace(&full, b"new", Durability::Durable).is_err());
        assert!(replace(&dir.path().join("no/file"), b"new", Durability::Atomic).is_err());
        let mut names: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "full"], "no temporary file is left");
    }

    #[test]
    fn a_file_of_somebody_keeps_owner_mode_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o4640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&file, Some(12345), Some(54321)).unwrap();
        }
        replace_keeping(&link, b"new", 0o600, Durability::Synced, false).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let now = fs::metadata(&file).unwrap();
        assert_eq!(now.mode() & 0o7777, 0o640);
        if is_root {
            assert_eq!((now.uid(), now.gid()), (12345, 54321));
        }
        let again = replace_keeping(&file, b"again", 0o600, Durability::Synced, true);
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let fresh = dir.path().join("fresh");
        replace_keeping(&fresh, b"", 0o604, Durability::Durable, true).unwrap();
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o7777, 0o604);
    }

    #[test]
    fn a_bare_name_is_in_the_current_directory() {
        assert_eq!(directory(Path::new("file")), Path::new("."));
        assert_eq!(directory(Path::new("/a/file")), Path::new("/a"));
    }
}
