//! The memory of a machine: a file that its QEMU shares with who saves or fills it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use brisk_vm::launch::without_name;
use brisk_vm::qemu::{Fds, Ram};
use rustix::fs::OFlags;
use rustix::thread::{CapabilitySet, capabilities};

use super::error::{Error, file};
use super::lifecycle::Running;
use super::live;
use super::paths::VmPaths;
use crate::guest;

/// Memory that no QEMU has yet.
pub(super) struct Fresh {
    /// Empty, of the size that was asked for.
    pub(super) file: File,
    /// Where the file is as long as it is open here.
    pub(super) path: PathBuf,
}

impl Fresh {
    /// A file of `bytes` that nobody else can open.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn without_name(bytes: u64, huge_pages: bool) -> Result<Self, Error> {
        let made = without_name(bytes, huge_pages);
        let file = File::from(made.map_err(file("make", "memory"))?);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        Ok(Self { file, path })
    }
}

impl VmPaths {
    /// Memory for this machine, which is gone when its QEMU ends.
    ///
    /// # Errors
    /// If it cannot be made, or another machine has it.
    pub(super) fn make_memory(&self, bytes: u64, huge_pages: bool) -> Result<Fresh, Error> {
        if reaches_into_processes() {
            return Fresh::without_name(bytes, huge_pages);
        }
        let path = guest::memory_directory::memory_directory()?.join(self.memory_name());
        // One of a machine that ended unseen.
        let _ = fs::remove_file(&path);
        let made = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|ram| {
                ram.set_len(bytes)?;
                Ok(ram)
            });
        let file = made.map_err(file("make", &path))?;
        Ok(Fresh { file, path })
    }

    /// The file with the memory of this machine, if it runs and that has a name.
    pub(super) fn named_memory(&self) -> Option<PathBuf> {
        match Running::of(self).ok()?.machine.memory.ram {
            Ram::File(path) if has_name(&path) => Some(path),
            _ => None,
        }
    }

    /// The memory of this machine, which runs, for reading.
    ///
    /// # Errors
    /// If it has ended, or is no memory of this size.
    pub(super) fn open_memory(&self, running: &Running) -> Result<File, Error> {
        let path = match &running.machine.memory.ram {
            Ram::File(path) => path.clone(),
            _ => {
                let pid = live::pid(self).ok_or_else(|| Error::has_ended(&self.name))?;
                format!("/proc/{pid}/fd/{}", Fds::RAM).into()
            }
        };
        // What QEMU has there is what it was given, unless its guest has taken it over: then it may
        // be what would be waited for.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(&path);
        let memory = opened.map_err(file("open", &path))?;
        let meta = memory.metadata().map_err(file("look at", &path))?;
        if !meta.is_file() || meta.len() < running.machine.memory.mib << 20 {
            let what = "has lost its memory";
            let hint = "brisk vm kill ends it";
            return Err(Error::state(&self.name, what, hint));
        }
        Ok(memory)
    }
}

/// Whether memory at this path is there for others, too.
pub(super) fn has_name(path: &Path) -> bool {
    !path.starts_with("/proc")
}

/// Whether the memory of a QEMU can be reached through its descriptors (proc(5)): by who has
/// started it as himself, and by root, unless a container keeps that from it.
fn reaches_into_processes() -> bool {
    let root = rustix::process::geteuid().is_root();
    !root || capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_PTRACE))
}
