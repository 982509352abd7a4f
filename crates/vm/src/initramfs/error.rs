//! Errors of building an initramfs.

use std::io;
use std::path::PathBuf;

use crate::cache;
use crate::kernel::Reason;

/// Error of building an initramfs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A line of `modules.dep` is not what depmod writes.
    #[error("modules.dep of kernel {release} has a bad path: {line:?}")]
    BadDependency {
        /// Release of the kernel.
        release: String,
        /// The line, shortened.
        line: String,
    },
    /// A module that is asked for does not exist.
    #[error("kernel {release} has no module `{module}` ({reason}), nor is it built in")]
    Missing {
        /// Release of the kernel.
        release: String,
        /// The module.
        module: String,
        /// Purpose of the module.
        reason: String,
    },
    /// A module needs one that is denied.
    #[error("module `{module}` ({reason}) is denied by `{pattern}`")]
    Denied {
        /// The module.
        module: String,
        /// Purpose of the module.
        reason: String,
        /// The pattern that denies it.
        pattern: String,
    },
    /// Modules depend on each other.
    #[error("modules of kernel {release} depend on each other in a circle, through `{module}`")]
    Circle {
        /// Release of the kernel.
        release: String,
        /// One of them.
        module: String,
    },
    /// A module file is damaged.
    #[error("cannot unpack the module {}", path.display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Kind of the damage.
        source: Reason,
    },
    /// A module file is not a module.
    #[error("{} is not a kernel module for x86-64", path.display())]
    NotModule {
        /// The file.
        path: PathBuf,
    },
    /// A path of the request cannot be in an archive.
    #[error("`{path}` cannot be a path in an initramfs")]
    Path {
        /// The path.
        path: String,
    },
    /// Two files of the request have one path.
    #[error("two files want to be `{path}` in the initramfs")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A file is too large for the format.
    #[error("`{path}` is too large for an initramfs: cpio files end at 4 GiB")]
    TooLarge {
        /// The path.
        path: String,
    },
    /// The archive cannot be written.
    #[error("cannot write the initramfs")]
    Write {
        /// Error of the system.
        source: io::Error,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

impl Error {
    /// Hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { release, .. } if release.contains("cloud") => Some(
                "Debian's cloud kernels leave much out: `apt install linux-image-amd64`, then \
                 choose that kernel"
                    .to_owned(),
            ),
            Self::Missing { release, .. } => Some(format!(
                "it may be in a package of its own (Ubuntu: linux-modules-extra-{release}, Fedora: \
                 kernel-modules), or needs a kernel configured with it"
            )),
            Self::Read { path, source } if source.kind() == io::ErrorKind::NotFound => path
                .file_name()
                .filter(|name| *name == "modules.dep")
                .map(|_| "run `depmod RELEASE`, or install the kernel again".to_owned()),
            Self::BadDependency { release, .. } | Self::Circle { release, .. } => {
                Some(format!("write it again with `depmod {release}`"))
            }
            Self::Unpack { .. } | Self::NotModule { .. } => {
                Some("install the kernel again; was the disk full?".to_owned())
            }
            Self::Cache(error) => error.hint(),
            _ => None,
        }
    }
}
