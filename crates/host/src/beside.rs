//! Newer programs beside the system's: where `setup/newer-qemu` and `setup/install` put what the
//! distribution's packages have too old.
//!
//! A program there is run only if nobody but root and the calling user can change it.

use std::env;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::trust;

/// The variable that names another directory.
pub const DIR_VARIABLE: &str = "BRISK_TOOLS_DIR";
/// The directory for root.
const SYSTEM: &str = "/usr/local/lib/brisk";

/// Directories with newer programs in `bin`, the user's own first: `BRISK_TOOLS_DIR` alone if that
/// is set.
#[must_use]
pub fn dirs() -> Vec<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from);
    dirs_for(geteuid().is_root(), set)
}

fn dirs_for(root: bool, variable: impl Fn(&'static str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(dir) = set(DIR_VARIABLE) {
        return vec![dir];
    }
    let home = set("HOME").filter(|_| !root);
    let own = home.map(|home| home.join(".local/lib/brisk"));
    own.into_iter().chain([SYSTEM.into()]).collect()
}

/// Programs of this name in these directories that can be trusted, in order.
#[must_use]
pub fn find(name: &str) -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    let trusted = there(name).filter(|path| is_trusted(path, user));
    // A path that is recorded stays valid when a newer program takes its name in `bin`.
    trusted
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

/// Programs of this name that others can change, and that are therefore not run.
#[must_use]
pub fn untrusted(name: &str) -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    there(name).filter(|path| !is_trusted(path, user)).collect()
}

fn there(name: &str) -> impl Iterator<Item = PathBuf> {
    let all = dirs().into_iter().map(|dir| dir.join("bin").join(name));
    let all: Vec<_> = all.filter(|path| path.is_file()).collect();
    all.into_iter()
}

/// Whether only root and this user can change what is at a path: each directory above it and the
/// file itself, also where symbolic links lead to. Others may write to a directory with the sticky
/// bit, where they cannot rename files of other users.
#[must_use]
pub fn is_trusted(path: &Path, user: u32) -> bool {
    trust::is_own_file(path, user)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_user_has_directories_of_their_own_and_root_only_the_systems() {
        let dirs = |root, names: &'static [(&str, &str)]| {
            let known = |name: &str| {
                let found = names.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            };
            let dirs = dirs_for(root, known).into_iter();
            dirs.map(|dir| dir.display().to_string())
                .collect::<Vec<_>>()
        };
        let home = &[("HOME", "/users/me")];
        assert_eq!(dirs(false, home), ["/users/me/.local/lib/brisk", SYSTEM]);
        assert_eq!(dirs(true, home), [SYSTEM]);
        assert_eq!(dirs(false, &[("HOME", "relative")]), [SYSTEM]);
        let set = &[("HOME", "/users/me"), (DIR_VARIABLE, "/opt/tools")];
        assert_eq!(dirs(true, set), ["/opt/tools"]);
    }

    #[test]
    fn what_others_can_change_is_not_trusted() {
        let me = geteuid().as_raw();
        let dir = tempfile::tempdir().unwrap();
        let (inner, link) = (dir.path().join("inner"), dir.path().join("link"));
        fs::create_dir(&inner).unwrap();
        let file = inner.join("file");
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        // A relative path counts as the absolute one does.
        let relative = Path::new("Cargo.toml");
        let absolute = relative.canonicalize().unwrap();
        assert_eq!(is_trusted(relative, me), is_trusted(&absolute, me));
        let trusted = || [is_trusted(&file, me), is_trusted(&link, me)];
        mode(&file, 0o755);
        assert_eq!(trusted(), [true, true]);
        for (path, open) in [(&file, 0o775), (&file, 0o757), (&inner, 0o777)] {
            mode(path, open);
            assert_eq!(trusted(), [false, false], "{open:o}");
            mode(path, 0o755);
        }
        mode(&inner, 0o1777);
        assert_eq!(trusted(), [true, true]);
        assert!(!is_trusted(&dir.path().join("gone"), me));
        // Of another user; only root can make such files.
        if me == 0 {
            chown(&file, Some(12345), None).unwrap();
            assert_eq!(trusted(), [false, false]);
            assert!(is_trusted(&file, 12345));
        }
    }
}
