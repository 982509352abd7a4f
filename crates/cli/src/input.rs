//! Files that the user names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::ensure;
use rustix::fs::OFlags;

/// Content of a regular file of at most so many bytes. Pipes, which would be waited for, and
/// devices, which may have no end, are refused.
pub(crate) fn read_file(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut options = File::options();
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = options.read(true).custom_flags(nonblocking).open(path)?;
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= most,
        "it has more than {} MiB, which nothing of this kind has",
        most >> 20
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_some_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read_file(&path, 100).unwrap(), [7; 100]);
        let error = read_file(&path, 99).unwrap_err().to_string();
        assert!(error.contains("more than 0 MiB"), "{error}");
        for other in [dir.path(), Path::new("/dev/zero")] {
            let error = read_file(other, 100).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
    }
}
