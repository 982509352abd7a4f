//! Errors of preparing or starting a guest.

use std::io;
use std::path::PathBuf;

use brisk_vm::qemu::ChoiceError;
use brisk_vm::{cache, initramfs, kernel, launch, libvirt, qemu, virtiofs};

/// Error of preparing or starting a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant passes a lower layer's error on")]
pub enum Error {
    #[error("no kernel to boot")]
    FindKernel(#[source] brisk_host::kernel::Error),
    #[error("cannot use this kernel")]
    Kernel(#[from] kernel::Error),
    #[error("cannot build the initramfs")]
    Initramfs(#[from] initramfs::Error),
    #[error("no QEMU; install qemu-system-x86 (Debian) or name one with --qemu")]
    FindQemu(#[source] brisk_host::program::Error),
    #[error("this QEMU cannot be used")]
    Qemu(#[from] qemu::CapabilitiesError),
    #[error("cannot use {argument} as root")]
    Root {
        argument: String,
        source: Box<brisk_rootfs::Error>,
    },
    #[error(transparent)]
    Disk(Box<brisk_rootfs::Error>),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error("cannot share {}", path.display())]
    Share { path: PathBuf, source: io::Error },
    #[error("cannot serve {} to the guest", path.display())]
    Serve {
        path: PathBuf,
        source: virtiofs::Error,
    },
    #[error("cannot keep the guest for later runs")]
    Control(#[from] qemu::control::Error),
    #[error("cannot start the guest")]
    Launch(#[from] launch::Error),
    #[error("cannot boot the domain")]
    Libvirt(#[from] libvirt::Error),
    #[error("the guest and brisk lost each other")]
    Session(#[source] io::Error),
    #[error(
        "{} is a disk of the VM {machine}, which is suspended, or stands still to be: a guest \
         that writes to it makes {machine} impossible to resume; resume that first, remove its \
         image with brisk vm discard, or only read the disk (:ro)", path.display()
    )]
    Reserved { path: PathBuf, machine: String },
    #[error("{what}; {hint}")]
    Unfit { what: String, hint: String },
}

impl From<ChoiceError> for Error {
    fn from(error: ChoiceError) -> Self {
        match error {
            ChoiceError::Missing(error) => Self::FindQemu(error),
            ChoiceError::Capabilities(error) => Self::Qemu(error),
        }
    }
}

impl Error {
    /// An error of options that contradict each other or the host, with a hint.
    pub(crate) fn unfit(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unfit {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Hint for the user, where the layer that failed has one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::FindKernel(error) => Some(error.hint()),
            Self::Kernel(error) => error.hint(),
            Self::Cache(error) => error.hint(),
            Self::Serve { source, .. } => source.hint().map(str::to_owned),
            _ => None,
        }
    }
}
