//! Copies of files with holes: by reference to shared blocks where the file system can, else of the
//! data, with holes kept.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use brisk_sys::start_writeback;
use brisk_vm::holes::each_stretch;
use rustix::fs::ioctl_ficlone;

use super::error::{Error, file};

/// Bytes that are copied between two checks for cancellation.
const STEP: u64 = 1 << 20;

/// Lets `to` share the blocks of `from` (ioctl_ficlone(2)); whether that worked. If not, `to` is
/// empty.
pub(super) fn share(from: &File, to: &File) -> bool {
    // Whatever keeps it from that, bytes can be copied, or say why they cannot.
    ioctl_ficlone(to, from).is_ok() || {
        let _ = to.set_len(0);
        false
    }
}

/// Bytes of a file that are not holes.
pub(super) fn data(from: &File) -> io::Result<u64> {
    let length = from.metadata()?.len();
    let mut sum = 0;
    each_stretch(from, length, |stretch| {
        sum += stretch.end - stretch.start;
        Ok(())
    })?;
    Ok(sum)
}

/// An open file, and its path for messages.
#[derive(Clone, Copy)]
pub(super) struct OpenFile<'a> {
    pub(super) file: &'a File,
    pub(super) path: &'a Path,
}

/// Copies what is in a file to an empty one. `step` hears of each piece, and may say stop.
pub(super) fn copy(
    from: OpenFile<'_>,
    to: OpenFile<'_>,
    step: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let read = || file("read", from.path);
    let write = || file("write", to.path);
    let length = from.file.metadata().map_err(read())?.len();
    to.file.set_len(length).map_err(write())?;
    let mut buffer = vec![0; STEP as usize];
    let mut result = Ok(());
    let gone = each_stretch(from.file, length, |Range { start, end }| {
        let mut at = start;
        while at < end && result.is_ok() {
            let piece = &mut buffer[..(end - at).min(STEP) as usize];
            result = from
                .file
                .read_exact_at(piece, at)
                .map_err(read())
                .and_then(|()| to.file.write_all_at(piece, at).map_err(write()))
                .and_then(|()| step(piece.len() as u64));
            // So that little is left to wait for at the end; it is waited for there all the same.
            let _ = start_writeback(to.file, at, piece.len() as u64);
            at += piece.len() as u64;
        }
        match &result {
            Ok(()) => Ok(()),
            Err(_) => Err(io::ErrorKind::Interrupted.into()),
        }
    });
    result?;
    gone.map_err(read())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use proptest::prelude::*;

    use super::*;

    /// A file in memory, which has holes and no blocks to share.
    fn made_of(stretches: &[(u16, u8)], length: u64) -> File {
        let made = tempfile::tempfile_in("/dev/shm").unwrap();
        made.set_len(length).unwrap();
        for (page, byte) in stretches {
            let at = u64::from(*page) * 4096;
            if at < length {
                let piece = vec![*byte; (length - at).min(4096) as usize];
                made.write_all_at(&piece, at).unwrap();
            }
        }
        made
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn open<'a>(file: &'a File, path: &'a str) -> OpenFile<'a> {
        OpenFile {
            file,
            path: Path::new(path),
        }
    }

    fn copied(from: &File, to: &File) -> u64 {
        let mut sum = 0;
        copy(open(from, "from"), open(to, "to"), &mut |bytes| {
            sum += bytes;
            Ok(())
        })
        .unwrap();
        sum
    }

    proptest! {
        #[test]
        fn a_copy_has_the_same_bytes_and_holes(
            stretches in prop::collection::vec((0_u16..2000, any::<u8>()), 0..40),
            length in 0_u64..8_000_000,
        ) {
            let from = made_of(&stretches, length);
            let to = tempfile::tempfile_in("/dev/shm").unwrap();
            prop_assert_eq!(copied(&from, &to), data(&from).unwrap());
            prop_assert!(content(&to) == content(&from));
            let blocks = |file: &File| file.metadata().unwrap().blocks();
            prop_assert_eq!(blocks(&to), blocks(&from));
        }
    }

    #[test]
    fn it_stops_where_it_is_told_to() {
        let from = made_of(&[], 0);
        from.write_all_at(&vec![1; 5 << 20], 0).unwrap();
        let to = tempfile::tempfile_in("/dev/shm").unwrap();
        let mut steps = 0;
        let result = copy(open(&from, "from"), open(&to, "to"), &mut |_| {
            steps += 1;
            match steps {
                2 => Err(Error::Interrupted),
                _ => Ok(()),
            }
        });
        assert!(matches!(result, Err(Error::Interrupted)));
        assert_eq!(steps, 2);
        assert_eq!(to.metadata().unwrap().blocks() * 512, 2 << 20);
    }

    #[test]
    fn what_cannot_be_shared_is_empty() {
        let from = made_of(&[(1, 7)], 9000);
        let to = made_of(&[(0, 9)], 100);
        if !share(&from, &to) {
            assert_eq!(to.metadata().unwrap().len(), 0);
        }
    }
}
