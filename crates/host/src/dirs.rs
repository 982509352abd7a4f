//! Directories of brisk's files, by user and environment.
//!
//! Each directory is the one that its `BRISK_…_DIR` names, else a fixed one for root, else `brisk`
//! below the user's directory of the XDG Base Directory Specification, whose relative paths are
//! ignored as it demands. None is made up where the environment names none: a directory that
//! anybody could make first is no substitute.
//!
//! What another user could have put there is not used either: see [`Dirs::check`].

use std::path::PathBuf;

use crate::trust::{self, Untrusted};

/// A user and the environment, from which directories follow.
pub struct Dirs<V> {
    root: bool,
    variable: V,
}

impl Dirs<fn(&str) -> Option<PathBuf>> {
    /// The user and the environment of this process.
    #[must_use]
    pub fn here() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self::new(rustix::process::geteuid().is_root(), variable)
    }
}

/// A directory that other users can change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "others can change what is in {}: {reason}; {}set {variable} to a directory of your own",
    dir.display(), reason.remedy().map_or_else(String::new, |command| format!("{command}, or "))
)]
pub struct Unsafe {
    dir: PathBuf,
    reason: Untrusted,
    variable: &'static str,
}

/// A kind of directory.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    variable: &'static str,
    root: &'static str,
    xdg: &'static str,
    /// Below the user's home directory, where the XDG variable is not set.
    home: Option<&'static str>,
}

/// See [`Dirs::cache`].
pub const CACHE: Kind = Kind {
    variable: "BRISK_CACHE_DIR",
    root: "/var/cache/brisk",
    xdg: "XDG_CACHE_HOME",
    home: Some(".cache/brisk"),
};
/// See [`Dirs::state`].
pub const STATE: Kind = Kind {
    variable: "BRISK_STATE_DIR",
    root: "/var/lib/brisk",
    xdg: "XDG_STATE_HOME",
    home: Some(".local/state/brisk"),
};
/// See [`Dirs::config`].
pub const CONFIG: Kind = Kind {
    variable: "BRISK_CONFIG_DIR",
    root: "/etc/brisk",
    xdg: "XDG_CONFIG_HOME",
    home: Some(".config/brisk"),
};
/// See [`Dirs::runtime`].
pub const RUNTIME: Kind = Kind {
    variable: "BRISK_RUNTIME_DIR",
    root: "/run/brisk",
    xdg: "XDG_RUNTIME_DIR",
    home: None,
};

impl<V: Fn(&str) -> Option<PathBuf>> Dirs<V> {
    /// Directories of root, or of another user, with these variables.
    pub fn new(root: bool, variable: V) -> Self {
        Self { root, variable }
    }

    /// Directory of the cache: files that can be made again at any time.
    pub fn cache(&self) -> Option<PathBuf> {
        self.find(&CACHE)
    }

    /// Directory of the state: reports, the host's profile, its key for images, persistent VMs.
    pub fn state(&self) -> Option<PathBuf> {
        self.find(&STATE)
    }

    /// Directory of definitions of persistent VMs.
    pub fn config(&self) -> Option<PathBuf> {
        self.find(&CONFIG)
    }

    /// Directory of sockets, which is empty after the host has restarted.
    pub fn runtime(&self) -> Option<PathBuf> {
        self.find(&RUNTIME)
    }

    /// Checks that nobody but root and this user can change what is in directories of these kinds,
    /// now or once they are made.
    ///
    /// # Errors
    /// The first that others can change.
    pub fn check(&self, kinds: &[Kind]) -> Result<(), Unsafe> {
        for kind in kinds {
            let Some(dir) = self.find(kind) else {
                continue;
            };
            trust::own_directory(&dir).map_err(|reason| Unsafe {
                dir,
                reason,
                variable: kind.variable,
            })?;
        }
        Ok(())
    }

    fn find(&self, kind: &Kind) -> Option<PathBuf> {
        let set = |name| (self.variable)(name).filter(|value| !value.as_os_str().is_empty());
        let absolute = |name| set(name).filter(|value| value.is_absolute());
        set(kind.variable)
            .or_else(|| self.root.then(|| kind.root.into()))
            .or_else(|| absolute(kind.xdg).map(|dir| dir.join("brisk")))
            .or_else(|| Some(absolute("HOME")?.join(kind.home?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(root: bool, names: &[&str]) -> [Option<String>; 4] {
        let known = |name: &str| names.contains(&name).then(|| format!("/{name}").into());
        let dirs = Dirs::new(root, known);
        [dirs.cache(), dirs.state(), dirs.config(), dirs.runtime()]
            .map(|dir| dir.map(|dir| dir.display().to_string()))
    }

    fn is(paths: [&str; 4]) -> [Option<String>; 4] {
        paths.map(|path| (!path.is_empty()).then(|| path.to_owned()))
    }

    #[test]
    fn they_follow_user_and_environment() {
        let root = [
            "/var/cache/brisk",
            "/var/lib/brisk",
            "/etc/brisk",
            "/run/brisk",
        ];
        assert_eq!(all(true, &["HOME", "XDG_CACHE_HOME"]), is(root));
        let home = [
            "/HOME/.cache/brisk",
            "/HOME/.local/state/brisk",
            "/HOME/.config/brisk",
            "",
        ];
        assert_eq!(all(false, &["HOME"]), is(home));
        let xdg = [
            "XDG_CACHE_HOME",
            "XDG_STATE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
        ];
        let below = xdg.map(|name| format!("/{name}/brisk"));
        let below = [&*below[0], &*below[1], &*below[2], &*below[3]];
        assert_eq!(all(false, &[&xdg[..], &["HOME"]].concat()), is(below));
        let set = [
            "BRISK_CACHE_DIR",
            "BRISK_STATE_DIR",
            "BRISK_CONFIG_DIR",
            "BRISK_RUNTIME_DIR",
        ];
        let named = set.map(|name| format!("/{name}"));
        let named = [&*named[0], &*named[1], &*named[2], &*named[3]];
        for root in [true, false] {
            assert_eq!(all(root, &[&set[..], &xdg[..]].concat()), is(named));
        }
        assert_eq!(all(false, &[]), is(["", "", "", ""]));
    }

    #[test]
    fn relative_and_empty_values_are_ignored() {
        let one = |name: &'static str, value: &'static str| {
            Dirs::new(false, move |asked: &str| match asked {
                "HOME" => Some("/h".into()),
                asked => (asked == name).then(|| value.into()),
            })
        };
        let usual = Some(PathBuf::from("/h/.cache/brisk"));
        assert_eq!(one("XDG_CACHE_HOME", "relative").cache(), usual);
        assert_eq!(one("BRISK_CACHE_DIR", "").cache(), usual);
        // What brisk's own variable says is as the user wrote it.
        assert_eq!(one("BRISK_CACHE_DIR", "here").cache(), Some("here".into()));
    }
}
