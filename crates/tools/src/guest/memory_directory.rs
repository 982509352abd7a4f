//! Directory in memory that only its owner may enter, for templates and for guest memory that must
//! have a name.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use brisk_host::trust::own_directory;
use rustix::fs::{FsWord, OFlags, fstatfs};

use super::error::Error;

/// Variable that names another directory.
const VARIABLE: &str = "BRISK_WARM_DIR";
/// Directory in which all users may make directories. `/run` is a small tmpfs on most hosts.
const SHARED: &str = "/dev/shm";
/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: FsWord = 0x0102_1994;

/// Finds or makes the directory. It is in memory, because a guest's memory may be secret and must
/// not get to a disk.
///
/// # Errors
/// If there is no such directory and none can be made.
pub(crate) fn memory_directory() -> Result<PathBuf, Error> {
    let given = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty());
    let (dir, found) = match given.map(PathBuf::from) {
        Some(dir) => {
            let is_own = own_directory(&dir).map_err(io::Error::other);
            let found = is_own.and_then(|()| make(&dir)).and_then(|()| check(&dir));
            (dir, found)
        }
        None => match own_below(Path::new(SHARED)) {
            Ok(dir) => (dir.clone(), check(&dir)),
            Err(error) => (SHARED.into(), Err(error)),
        },
    };
    match found {
        Ok(()) => Ok(dir),
        Err(error) => Err(Error::unfit(
            format!("cannot keep guests in {}: {error}", dir.display()),
            format!("set {VARIABLE} to a directory of your own in a tmpfs"),
        )),
    }
}

/// This user's directory below one that all may write to: `brisk-UID`, or if another user has made
/// that, one whose name begins so.
fn own_below(parent: &Path) -> io::Result<PathBuf> {
    let name = format!("brisk-{}", rustix::process::geteuid().as_raw());
    let usual = parent.join(&name);
    make(&usual)?;
    if is_private(&usual).is_ok() {
        return Ok(usual);
    }
    let name = name + "-";
    let mut others: Vec<_> = fs::read_dir(parent)?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .map(|entry| entry.path())
        .filter(|path| is_private(path).is_ok())
        .collect();
    others.sort();
    if let Some(other) = others.into_iter().next() {
        return Ok(other);
    }
    // Two that are made at once do no harm: what lies in one is noted with its path, or made again.
    let made = tempfile::Builder::new()
        .prefix(&name)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)?;
    Ok(made.keep())
}

/// Makes a directory that only its owner may enter, if there is nothing of that name.
fn make(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a directory that belongs to this user alone.
fn is_private(dir: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(dir)?;
    let meta = opened.metadata()?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can reach it"));
    }
    Ok(opened)
}

fn check(dir: &Path) -> io::Result<()> {
    if fstatfs(is_private(dir)?)?.f_type != TMPFS {
        return Err(io::Error::other("it is not in memory (tmpfs)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn usual(parent: &Path) -> PathBuf {
        parent.join(format!("brisk-{}", rustix::process::geteuid().as_raw()))
    }

    #[test]
    fn the_usual_name_is_taken_where_it_is_free() {
        let parent = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let found = own_below(parent.path()).unwrap();
            assert_eq!(found, usual(parent.path()));
        }
        is_private(&usual(parent.path())).unwrap();
    }

    #[test]
    fn what_somebody_else_made_is_stepped_around() {
        let open = |path: &Path| {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        };
        let file = |path: &Path| fs::write(path, "").unwrap();
        let link = |path: &Path| {
            let own = path.with_file_name("own");
            make(&own).unwrap();
            symlink(own, path).unwrap();
        };
        let nowhere = |path: &Path| symlink("/nonexistent", path).unwrap();
        for (what, foreign) in [
            ("a directory", &open as &dyn Fn(&Path)),
            ("a file", &file),
            ("a link", &link),
            ("a link to nothing", &nowhere),
        ] {
            let parent = tempfile::tempdir().unwrap();
            let usual = usual(parent.path());
            foreign(&usual);
            // They may guess how other names begin.
            foreign(&parent.path().join(format!("{}-000", usual.display())));
            let found = own_below(parent.path()).unwrap();
            is_private(&found).unwrap();
            assert_eq!(found.parent(), Some(parent.path()), "{what}");
            assert_eq!(own_below(parent.path()).unwrap(), found, "{what}");
        }
    }
}
