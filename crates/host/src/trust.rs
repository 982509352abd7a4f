//! Whether other users can change what is at a path.
//!
//! Root and the owner of `/` can change everything, and count as the user does: in a user namespace
//! `/` belongs to a user who has no number there.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Links on one way: as many as the kernel follows.
const LINKS: usize = 40;
const STICKY: u32 = 0o1000;

/// Cause why others can change what is at a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// Of another user.
    #[error("{} belongs to user {owner}", place.display())]
    Owner {
        /// The file, the directory or the link.
        place: PathBuf,
        /// The number of its owner.
        owner: u32,
    },
    /// Others may write to it.
    #[error("{} is writable for {}", place.display(), if *all { "all users" } else { "its group" })]
    Writable {
        /// The file or the directory.
        place: PathBuf,
        /// Whether all users may, and not its group alone.
        all: bool,
    },
    /// The way to it does not end, or cannot be followed.
    #[error("{} cannot be followed", .0.display())]
    Way(PathBuf),
}

impl Untrusted {
    /// A command that ends it, if one does.
    pub(crate) fn remedy(&self) -> Option<String> {
        match self {
            Self::Writable { place, .. } => Some(format!("chmod go-w {}", place.display())),
            _ => None,
        }
    }
}

/// Those who may change something.
pub(crate) struct Trust {
    users: Vec<u32>,
    /// Whether the group of root and those of one user alone count as the user, as with a umask of
    /// 002. They have the user's number.
    groups: bool,
}

/// End of a path.
enum End {
    There(PathBuf, Metadata),
    /// The first name that is not there, and its directory.
    Missing(PathBuf, Metadata),
    /// This process may not look.
    Closed,
}

impl Trust {
    fn new(mut users: Vec<u32>, groups: bool) -> Self {
        users.push(0);
        users.extend(fs::metadata("/").map(|root| root.uid()));
        Self { users, groups }
    }

    fn writers(&self, meta: &Metadata) -> Option<bool> {
        let private = self.groups && (meta.gid() == 0 || meta.gid() == meta.uid());
        match meta.mode() {
            mode if mode & 0o002 != 0 => Some(true),
            mode if mode & 0o020 != 0 && !private => Some(false),
            _ => None,
        }
    }

    fn has_owner(&self, place: &Path, meta: &Metadata) -> Result<(), Untrusted> {
        match self.users.contains(&meta.uid()) {
            true => Ok(()),
            false => Err(Untrusted::Owner {
                place: place.to_owned(),
                owner: meta.uid(),
            }),
        }
    }

    fn is_closed(&self, place: &Path, meta: &Metadata) -> Result<(), Untrusted> {
        match self.writers(meta) {
            None => Ok(()),
            Some(all) => Err(Untrusted::Writable {
                place: place.to_owned(),
                all,
            }),
        }
    }

    /// Follows a path, each link of it too. Others may write to a directory on the way that has the
    /// sticky bit: they cannot rename there what is not theirs.
    fn follow(&self, path: &Path) -> Result<End, Untrusted> {
        let way = || Untrusted::Way(path.to_owned());
        let absolute = std::path::absolute(path).map_err(|_| way())?;
        let mut names = reversed(&absolute);
        let mut place = PathBuf::from("/");
        let mut meta = fs::metadata("/").map_err(|_| way())?;
        let mut links = 0;
        while let Some(name) = names.pop() {
            if name == ".." {
                // No link is left in it.
                place.pop();
                meta = fs::metadata(&place).map_err(|_| way())?;
                continue;
            }
            self.has_owner(&place, &meta)?;
            if meta.mode() & STICKY == 0 {
                self.is_closed(&place, &meta)?;
            }
            let next = place.join(name);
            let found = match fs::symlink_metadata(&next) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(End::Missing(next, meta));
                }
                Err(_) => return Ok(End::Closed),
            };
            if !found.is_symlink() {
                (place, meta) = (next, found);
                continue;
            }
            self.has_owner(&next, &found)?;
            links += 1;
            let target = fs::read_link(&next).ok().filter(|_| links <= LINKS);
            let target = place.join(target.ok_or_else(way)?);
            names.extend(reversed(&target));
            place = PathBuf::from("/");
            meta = fs::metadata("/").map_err(|_| way())?;
        }
        self.has_owner(&place, &meta)?;
        Ok(End::There(place, meta))
    }
}

/// Names of an absolute path, the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    let named = |it| matches!(it, Component::Normal(_) | Component::ParentDir);
    let names = path.components().rev().filter(|it| named(*it));
    names.map(|it| it.as_os_str().to_owned()).collect()
}

/// Whether only root and this user can change a file: itself, each directory above it, and each link
/// that leads to it.
pub(crate) fn is_own_file(path: &Path, user: u32) -> bool {
    let trust = Trust::new(vec![user], false);
    let found = trust.follow(path);
    matches!(found, Ok(End::There(place, meta)) if trust.is_closed(&place, &meta).is_ok())
}

/// Whether only root and the user of this process can change where a path leads.
pub(crate) fn is_own_way(path: &Path) -> bool {
    let trust = Trust::new(vec![rustix::process::geteuid().as_raw()], true);
    matches!(trust.follow(path), Ok(End::There(..) | End::Missing(..)))
}

/// Checks that only root and the user of this process can change what is in a directory. Root by sudo
/// is the user who called that, too. A directory that is missing where others could make it first
/// is made.
///
/// # Errors
/// Why others can.
pub fn own_directory(dir: &Path) -> Result<(), Untrusted> {
    let user = rustix::process::geteuid();
    let caller = std::env::var("SUDO_UID").ok().filter(|_| user.is_root());
    let caller = caller.and_then(|number| number.parse().ok());
    own_directory_of(dir, caller.into_iter().chain([user.as_raw()]).collect())
}

fn own_directory_of(dir: &Path, users: Vec<u32>) -> Result<(), Untrusted> {
    let trust = Trust::new(users, true);
    // Somebody may make and remove it all the time.
    for _ in 0..10 {
        match trust.follow(dir)? {
            End::There(place, meta) => return trust.is_closed(&place, &meta),
            End::Missing(first, above) if trust.writers(&above).is_some() => {
                // Another user may be making it just now: look again.
                match DirBuilder::new().mode(0o700).create(first) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => return Ok(()),
                    _ => {}
                }
            }
            End::Missing(..) | End::Closed => return Ok(()),
        }
    }
    Err(Untrusted::Way(dir.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const OTHER: u32 = 12345;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn check(path: &Path) -> Result<(), String> {
        let user = rustix::process::geteuid().as_raw();
        own_directory_of(path, vec![user]).map_err(|error| error.to_string())
    }

    /// A directory with modes that do not depend on the umask.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("dir");
        fs::create_dir(&dir).unwrap();
        set_mode(&dir, 0o755);
        (temporary, dir)
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_and_one_below_it() {
        let (_temporary, dir) = place();
        let below = dir.join("missing/too");
        for good in [0o700, 0o755] {
            set_mode(&dir, good);
            assert_eq!([check(&dir), check(&below)], [Ok(()), Ok(())]);
        }
        assert!(!dir.join("missing").exists());
        set_mode(&dir, 0o757);
        for path in [&dir, &below] {
            let error = check(path).unwrap_err();
            assert!(error.ends_with("dir is writable for all users"), "{error}");
        }
        // Nobody can take the place of what is there, and others can make what is not there.
        set_mode(&dir, 0o1777);
        assert!(check(&dir).is_err());
        assert_eq!(check(&below), Ok(()));
        let made = fs::metadata(dir.join("missing")).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_group_of_one_user_is_that_user_and_another_is_not() {
        let (_temporary, dir) = place();
        let owner = fs::metadata(&dir).unwrap().uid();
        set_mode(&dir, 0o775);
        if fs::metadata(&dir).unwrap().gid() == owner {
            assert_eq!(check(&dir), Ok(()));
            assert!(!is_own_file(&dir, owner));
        }
        if owner == 0 {
            chown(&dir, None, Some(OTHER)).unwrap();
            let error = check(&dir).unwrap_err();
            assert!(error.ends_with("dir is writable for its group"), "{error}");
        }
    }

    #[test]
    fn links_are_followed_and_belong_to_who_may_be_trusted() {
        let (_temporary, dir) = place();
        let (target, link, far) = (dir.join("target"), dir.join("link"), dir.join("far"));
        fs::create_dir(&target).unwrap();
        set_mode(&target, 0o755);
        symlink("target", &link).unwrap();
        symlink(link.join("../link/."), &far).unwrap();
        assert_eq!([check(&link), check(&far)], [Ok(()), Ok(())]);
        set_mode(&target, 0o777);
        assert!(check(&link).is_err() && check(&far).is_err());
        set_mode(&target, 0o755);
        symlink("round", dir.join("round")).unwrap();
        assert!(check(&dir.join("round")).is_err());
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_temporary, dir) = place();
        let (theirs, mine) = (dir.join("theirs"), dir.join("theirs/mine"));
        fs::create_dir_all(&mine).unwrap();
        let of_other = |path: &Path| chown(path, Some(OTHER), None).unwrap();
        of_other(&theirs);
        for path in [&theirs, &mine, &theirs.join("missing")] {
            let error = check(path).unwrap_err();
            assert!(error.ends_with("theirs belongs to user 12345"), "{error}");
            assert_eq!(own_directory_of(path, vec![OTHER]), Ok(()));
        }
        // A link of theirs on the way, although where it leads to is safe now.
        symlink(&dir, theirs.join("back")).unwrap();
        symlink(theirs.join("back"), dir.join("link")).unwrap();
        assert!(check(&dir.join("link")).is_err());
        assert!(!is_own_file(&dir.join("link/theirs"), 0));
        set_mode(&dir, 0o1777);
        symlink(&dir, dir.join("planted")).unwrap();
        rustix::fs::chownat(
            rustix::fs::CWD,
            dir.join("planted"),
            Some(rustix::fs::Uid::from_raw(OTHER)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        assert!(check(&dir.join("planted/new")).is_err());
    }
}
