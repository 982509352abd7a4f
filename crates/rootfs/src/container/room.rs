//! Room on the disk for what an archive unpacks to: a small archive can hold any amount.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{StatVfs, fstatvfs};

use super::erofs::BLOCK;
use super::model::Limits;
use crate::Fault;

/// Bytes that are written before it is looked again how much room there is: others write, too.
const GLANCE: u64 = 64 << 20;

/// Room beside what stays free for others.
pub(super) struct Room {
    file: File,
    reserve: fn(&StatVfs) -> u64,
    left: u64,
}

impl Room {
    /// Room on the file system of a file.
    pub(super) fn beside(file: &File, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            file: file.try_clone()?,
            reserve: limits.reserve,
            left: 0,
        })
    }

    /// Takes room for bytes that are about to be written.
    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        if bytes > self.left {
            let now = fstatvfs(&self.file).map_err(io::Error::from)?;
            let free = now.f_bavail.saturating_mul(now.f_frsize);
            let reserve = (self.reserve)(&now);
            if free.saturating_sub(reserve) < bytes {
                return Err(Fault::Full { free, reserve });
            }
            self.left = (free - reserve).min(GLANCE.max(bytes));
        }
        self.left -= bytes;
        Ok(())
    }

    /// Writes bytes at a place of a new file, of which blocks of zeros stay holes.
    pub(super) fn write(&mut self, file: &File, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let mut start = 0;
        for run in bytes
            .chunks(BLOCK)
            .collect::<Vec<_>>()
            .chunk_by(|a, b| is_zero(a) == is_zero(b))
        {
            let length: usize = run.iter().map(|block| block.len()).sum();
            if !is_zero(run[0]) {
                self.take(length as u64)?;
                file.write_all_at(&bytes[start..start + length], at + start as u64)?;
            }
            start += length;
        }
        Ok(())
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Writes a new file from its beginning.
pub(super) struct Filling<'a> {
    room: &'a mut Room,
    file: &'a File,
    at: u64,
}

impl<'a> Filling<'a> {
    pub(super) fn new(room: &'a mut Room, file: &'a File) -> Self {
        Self { room, file, at: 0 }
    }
}

impl Write for Filling<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.room.write(self.file, bytes, self.at);
        written.map_err(|fault| match fault {
            Fault::Io(error) => error,
            other => io::Error::other(other),
        })?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// The end may be a hole.
    fn flush(&mut self) -> io::Result<()> {
        self.file.set_len(self.at)
    }
}
