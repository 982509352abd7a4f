//! Where brisk keeps what must last.

use std::path::PathBuf;

/// The variable that moves it.
pub const DIR_VARIABLE: &str = "BRISK_STATE_DIR";

/// The state directory: `BRISK_STATE_DIR`, else `/var/lib/brisk` for root, else `brisk` in
/// `XDG_STATE_HOME` or `~/.local/state` (XDG Base Directory Specification: relative paths are
/// ignored). `None` if the environment names none.
#[must_use]
pub fn default_dir(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
    let absolute = |name| set(name).filter(|value| value.is_absolute());
    set(DIR_VARIABLE)
        .or_else(|| root.then(|| PathBuf::from("/var/lib/brisk")))
        .or_else(|| absolute("XDG_STATE_HOME").map(|dir| dir.join("brisk")))
        .or_else(|| absolute("HOME").map(|dir| dir.join(".local/state/brisk")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_user_and_environment() {
        let dir = |root, names: &[&str]| {
            let known = |name: &str| names.contains(&name).then(|| format!("/{name}").into());
            default_dir(root, known).map(|dir| dir.display().to_string())
        };
        let is = |path: &str| Some(path.to_owned());
        assert_eq!(dir(true, &["HOME"]), is("/var/lib/brisk"));
        assert_eq!(dir(true, &["BRISK_STATE_DIR"]), is("/BRISK_STATE_DIR"));
        assert_eq!(dir(false, &["HOME"]), is("/HOME/.local/state/brisk"));
        assert_eq!(
            dir(false, &["HOME", "XDG_STATE_HOME"]),
            is("/XDG_STATE_HOME/brisk")
        );
        assert_eq!(dir(false, &[]), None);
    }
}
