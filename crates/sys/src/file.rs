//! Files and the disks below them.
#![expect(unsafe_code, reason = "a system call that rustix has not")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::checked;

/// Has the kernel begin to write a range of a file to its disk, without waiting for it
/// (sync_file_range(2)). That makes nothing durable.
///
/// # Errors
/// If the file system or the range does not permit it.
pub fn start_writeback(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = libc::off64_t::try_from(offset).map_err(invalid)?;
    let length = libc::off64_t::try_from(length).map_err(invalid)?;
    // SAFETY: only numbers are passed, among them a descriptor that is open.
    checked(unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset,
            length,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn of_a_file_but_not_of_a_pipe() {
        let name = format!("start-writeback-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"text").unwrap();
        start_writeback(&file, 0, 4).unwrap();
        std::fs::remove_file(path).unwrap();
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(start_writeback(&File::from(writer), 0, 4).is_err());
    }
}
