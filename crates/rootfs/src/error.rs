//! Errors of roots and disks.

use std::io;
use std::path::PathBuf;

use super::fault::Fault;
use super::partition::Partition;

/// Error of a root or a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing at the path.
    #[error("{path} does not exist; check the spelling, or use `--root none` for no root", path = path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path may not be read.
    #[error("no permission to read {path}; change its mode, or use a copy you may read", path = path.display())]
    Permission {
        /// The path.
        path: PathBuf,
    },
    /// Reading failed.
    #[error("cannot read {path}", path = path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// Writing failed.
    #[error("cannot write {path}; is there space, and may you write there?", path = path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The path is no root.
    #[error("{path} is {what}, not a root; {hint}", path = path.display())]
    NotARoot {
        /// The path.
        path: PathBuf,
        /// What the path is instead.
        what: String,
        /// Hint for the user.
        hint: &'static str,
    },
    /// The path cannot be a disk of a guest.
    #[error("{path} {what}, and cannot be a disk; {hint}", path = path.display())]
    NotADisk {
        /// The path.
        path: PathBuf,
        /// What the path is instead.
        what: String,
        /// Hint for the user.
        hint: &'static str,
    },
    /// A disk without a partition that could be the root.
    #[error(
        "{path} has no partition with a file system of Linux, but {}; give the image of one \
         partition or another disk",
        listed(partitions), path = path.display()
    )]
    NoRootPartition {
        /// The path.
        path: PathBuf,
        /// All partitions of the disk.
        partitions: Vec<Partition>,
    },
    /// A damaged qcow2 image or partition table.
    #[error("{path} is damaged: {what}", path = path.display())]
    Damaged {
        /// The path.
        path: PathBuf,
        /// Kind of the damage.
        what: String,
    },
    /// A qcow2 image refers to another file.
    #[error(
        "{path} reads from {referred:?}, which is not in its directory: an image from someone else \
         could show the guest any file you can read; put both into one directory, or make one image \
         of them: qemu-img convert -O qcow2",
        path = path.display()
    )]
    Backing {
        /// The image.
        path: PathBuf,
        /// The file that it refers to.
        referred: String,
    },
    /// A qcow2 image has a backing file whose format is not recorded, or cannot be used.
    #[error(
        "{path} reads from {referred:?}, {}", format_hint(format.as_deref()), path = path.display()
    )]
    BackingFormat {
        /// The image.
        path: PathBuf,
        /// The file that it refers to.
        referred: String,
        /// The format that is recorded.
        format: Option<String>,
    },
    /// A qcow2 image whose content is in another file.
    #[error(
        "{path} has its content in {referred:?}, which brisk does not open; qemu-img convert -O \
         qcow2 makes one image of both", path = path.display()
    )]
    DataFile {
        /// The image.
        path: PathBuf,
        /// The file that it refers to.
        referred: String,
    },
    /// The name and the content of a disk image imply different formats.
    #[error("{path} {what}", path = path.display())]
    Format {
        /// The image.
        path: PathBuf,
        /// The contradiction, and what to try.
        what: &'static str,
    },
    /// An external program failed.
    #[error("`{command}` failed: {stderr}")]
    Program {
        /// The command line, quoted for a shell.
        command: String,
        /// Its stderr.
        stderr: String,
    },
    /// An external program could not be started.
    #[error("cannot run {program}; install {package}")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// Debian's name of the package.
        package: &'static str,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// A container image that cannot be used.
    #[error("cannot use the container image {path}", path = path.display())]
    Container {
        /// The path.
        path: PathBuf,
        /// The defect.
        #[source]
        fault: Fault,
    },
}

fn listed(partitions: &[Partition]) -> String {
    if partitions.is_empty() {
        return "no partitions at all".into();
    }
    let each = partitions.iter().map(|partition| {
        format!(
            "{} ({} MiB, {})",
            partition.number,
            partition.length >> 20,
            partition.content
        )
    });
    each.collect::<Vec<_>>().join(", ")
}

fn format_hint(format: Option<&str>) -> String {
    match format {
        Some(format) => format!(
            "a file of the format {format:?}: QEMU would open files that it names; only raw and \
             qcow2 are allowed; qemu-img convert -O qcow2 makes one image of both"
        ),
        None => {
            "and does not say what format that has: QEMU would guess it; qemu-img rebase -u -F \
                 raw (or qcow2) -b FILE IMAGE notes it"
                .to_owned()
        }
    }
}
