//! Puts files into the work directory of a target.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use brisk_host::program::quote;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Instance, RunError};
use crate::overhead::launch::Channel;
use crate::overhead::session::Patience;
use crate::overhead::session_error::SessionError;
use crate::overhead::workload::File;

impl Instance {
    /// Puts files into its work directory.
    pub(super) fn give(
        &mut self,
        files: &[File<'_>],
        patience: Patience<'_>,
    ) -> Result<(), RunError> {
        if files.is_empty() {
            return Ok(());
        }
        let archive = archive(files).map_err(SessionError::Io)?;
        let status = self.unpacked(&archive, patience)?;
        self.is_unpacked(status, patience)
    }

    /// Unpacks an archive in its work directory.
    pub(super) fn give_archive(
        &mut self,
        path: &Path,
        patience: Patience<'_>,
    ) -> Result<(), RunError> {
        let status = match self.started.channel {
            Channel::SilentTerminal => self.unpacked_from(path, patience)?,
            Channel::Pipes | Channel::Console | Channel::ConsoleOfAgent => {
                let archive = fs::read(path).map_err(SessionError::Io)?;
                self.unpacked(&archive, patience)?
            }
        };
        self.is_unpacked(status, patience)
    }

    fn is_unpacked(&mut self, status: i32, patience: Patience<'_>) -> Result<(), RunError> {
        match status {
            0 => Ok(()),
            status => Err(self.unprepared("its tar cannot unpack the files", status, patience)),
        }
    }

    /// Status of its tar, which sees the host's files.
    fn unpacked_from(&mut self, path: &Path, patience: Patience<'_>) -> Result<i32, SessionError> {
        let path = quote(path.as_os_str());
        let script = format!("tar -xf {path} -C \"$d\" 2>out/errors");
        let session = &mut self.started.session;
        session.request(&script, patience, &mut |_, _| {})
    }

    /// Status of its tar.
    fn unpacked(&mut self, archive: &[u8], patience: Patience<'_>) -> Result<i32, SessionError> {
        match self.started.channel {
            Channel::Pipes => self.started.session.unpack(archive, patience),
            Channel::SilentTerminal => {
                let path = self.started.directory.path().join("files.tar");
                fs::write(&path, archive)?;
                self.unpacked_from(&path, patience)
            }
            Channel::Console | Channel::ConsoleOfAgent => {
                let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
                compressed.write_all(archive)?;
                let compressed = compressed.finish()?;
                self.started.session.unpack_in_pieces(&compressed, patience)
            }
        }
    }
}

/// A tar archive of some files.
fn archive(files: &[File<'_>]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(file.content.len() as u64);
        header.set_mode(file.mode);
        builder.append_data(&mut header, file.name, file.content)?;
    }
    builder.into_inner()
}
