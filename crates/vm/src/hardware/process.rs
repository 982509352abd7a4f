//! The hardware of a guest whose QEMU runs, from its command line in `/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::arguments;
use super::model::GuestHardware;
use super::place::Form;
use crate::qemu::cmdline::CommandLine;

/// A process whose guest cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is none with this number.
    #[error("there is no process {0}")]
    None(u32),
    /// Its files cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It has no command line: it has ended, or it is a thread of the kernel.
    #[error("process {0} has no command line: it has ended, or is a part of the kernel")]
    Empty(u32),
    /// It runs another program.
    #[error("process {pid} is {program}, not a QEMU")]
    Other {
        /// Its number.
        pid: u32,
        /// What it runs.
        program: String,
    },
}

impl GuestHardware {
    /// Reads the command line of a QEMU that runs. `root` is `/` but for tests.
    ///
    /// # Errors
    /// If there is no such process, or it is not a QEMU.
    pub fn of_process(root: &Path, pid: u32) -> Result<Self, Error> {
        let path = root.join(format!("proc/{pid}/cmdline"));
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::None(pid),
            // It ended while it was read (ESRCH).
            _ if source.raw_os_error() == Some(3) => Error::None(pid),
            _ => Error::Read { path, source },
        })?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(Error::Empty(pid));
        }
        let line = CommandLine::of_process(&bytes);
        let program = line.program().unwrap_or(Path::new("")).to_owned();
        if !is_qemu(&program) && !runs_qemu(root, pid) {
            let program = program.display().to_string();
            return Err(Error::Other { pid, program });
        }
        Ok(arguments::read(&line, Form::Process))
    }
}

/// Names of QEMU: those of its own build, and those of distributions.
fn is_qemu(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("qemu-system-") || matches!(&*name, "qemu-kvm" | "kvm" | "qemu")
}

/// Whether the program's file is a QEMU, whatever the process calls itself. Only its owner and root
/// can tell.
fn runs_qemu(root: &Path, pid: u32) -> bool {
    let file = fs::read_link(root.join(format!("proc/{pid}/exe")));
    file.is_ok_and(|file| is_qemu(&file))
}
