//! Errors of the choice of a kernel.

use std::path::PathBuf;

/// Reason why a selector does not name exactly one kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No installed kernel was found.
    #[error("no kernel is installed under {}", root.display())]
    NoneInstalled {
        /// The root that was searched.
        root: PathBuf,
    },
    /// No installed kernel matches.
    #[error(
        "no installed kernel matches `{selector}`; installed: {}",
        list(installed)
    )]
    NoMatch {
        /// The selector.
        selector: String,
        /// Releases found, newest first.
        installed: Vec<String>,
    },
    /// No installed kernel matches, and a file here has the name.
    #[error("no installed kernel matches `{name}`, which is a file here")]
    IsFile {
        /// The selector.
        name: String,
    },
    /// More than one installed kernel matches.
    #[error("`{selector}` matches more than one kernel: {}", list(candidates))]
    Ambiguous {
        /// The selector.
        selector: String,
        /// Releases that match, newest first.
        candidates: Vec<String>,
    },
    /// The path of a kernel image cannot be read.
    #[error("cannot read the kernel image {}", path.display())]
    Image {
        /// Path of the image.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl Error {
    /// Hint for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoneInstalled { .. } => {
                "install one (Debian: `apt install linux-image-cloud-amd64`) or name an image by \
                 its path"
                    .to_owned()
            }
            Self::NoMatch { .. } => {
                "name one of the installed releases, or an image by a path with a `/` in it"
                    .to_owned()
            }
            Self::IsFile { name } => format!("write `./{name}` to use that file"),
            Self::Ambiguous { candidates, .. } => {
                let first = candidates.first().map_or("", String::as_str);
                format!("give the whole release, such as `{first}`")
            }
            Self::Image { path, source } => match source.kind() {
                std::io::ErrorKind::NotFound => "check the path".to_owned(),
                std::io::ErrorKind::PermissionDenied => permission_hint(path),
                _ => "is it a kernel image?".to_owned(),
            },
        }
    }
}

/// Ubuntu installs `/boot/vmlinuz-*` with mode 0600 (Launchpad bug 759725).
fn permission_hint(path: &std::path::Path) -> String {
    let path = path.display();
    format!(
        "Ubuntu lets only root read its kernels: `sudo chmod 0644 {path}`, or lastingly \
         `sudo dpkg-statoverride --update --add root root 0644 {path}`"
    )
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
