//! Identity of a kernel with its initrds and command line.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::reboot::Target;
use brisk_host::files;

/// Hash of the content of a kernel, of its initrds and of its command line, of the system below
/// `root`: 64 hexadecimal digits.
///
/// # Errors
/// If a file cannot be read.
pub fn combination(root: &Path, target: &Target) -> io::Result<String> {
    let mut hash = Sha256::new();
    for path in std::iter::once(&target.kernel).chain(&target.initrds) {
        let mut file = files::open_regular(&files::below(root, path))?;
        let size = file.metadata()?.len();
        hash.update(size.to_le_bytes());
        io::copy(&mut file, &mut hash)?;
    }
    hash.update(target.cmdline.as_bytes());
    let digits = hash.finalize();
    Ok(digits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reason why a target is not what was checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Changed {
    /// A file is another one.
    #[error(
        "{} or its initrds were changed since they were checked, as by an upgrade; try again",
        .0.display()
    )]
    Content(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {} or its initrds", kernel.display())]
    Read {
        /// The kernel.
        kernel: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Ensures that a target of the system below `root` still has this [`combination`].
///
/// # Errors
/// If it has another one, or a file cannot be read.
pub fn unchanged(root: &Path, target: &Target, known: &str) -> Result<(), Changed> {
    let kernel = || target.kernel.clone();
    match combination(root, target) {
        Ok(now) if now == known => Ok(()),
        Ok(_) => Err(Changed::Content(kernel())),
        Err(source) => Err(Changed::Read {
            kernel: kernel(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path, kernel: &str, initrd: &str, cmdline: &str) -> Target {
        std::fs::write(dir.join("kernel"), kernel).unwrap();
        std::fs::write(dir.join("initrd"), initrd).unwrap();
        Target {
            release: String::new(),
            kernel: dir.join("kernel"),
            initrds: vec![dir.join("initrd")],
            cmdline: cmdline.to_owned(),
            is_uki: false,
        }
    }

    #[test]
    fn each_part_counts() {
        let dir = tempfile::tempdir().unwrap();
        let of = |kernel, initrd, cmdline| {
            combination(Path::new("/"), &target(dir.path(), kernel, initrd, cmdline)).unwrap()
        };
        let good = of("k", "i", "root=/dev/vda");
        assert_eq!(good.len(), 64);
        assert_eq!(good, of("k", "i", "root=/dev/vda"));
        for other in [
            of("k2", "i", "root=/dev/vda"),
            of("k", "i2", "root=/dev/vda"),
            of("k", "i", "root=/dev/vdb"),
            of("ki", "", "root=/dev/vda"),
        ] {
            assert_ne!(good, other);
        }
        let missing = Target {
            kernel: dir.path().join("none"),
            ..target(dir.path(), "k", "i", "")
        };
        assert_eq!(
            combination(Path::new("/"), &missing).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
