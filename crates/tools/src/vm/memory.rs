//! Memory of a VM: a file that QEMU shares with the processes that suspend or resume it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use brisk_vm::launch::without_name;
use brisk_vm::qemu::{Fds, Ram};
use rustix::fs::OFlags;
use rustix::thread::{CapabilitySet, capabilities};

use super::definition::Definition;
use super::error::{Error, file};
use super::paths::VmPaths;
use super::process;
use super::running::{Running, has_name};
use crate::guest;

/// Memory that no QEMU has yet.
pub(in crate::vm) struct Fresh {
    /// The empty file, of the size that was asked for.
    pub(in crate::vm) file: File,
    /// Path of the file, valid as long as the file is open here.
    pub(in crate::vm) path: PathBuf,
}

impl Fresh {
    /// Makes a file of `bytes` that no other process can open.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn without_name(bytes: u64, huge_pages: bool) -> Result<Self, Error> {
        let made = without_name(bytes, huge_pages);
        Ok(Self::of(File::from(made.map_err(file("make", "memory"))?)))
    }

    /// Memory in a file, by a path that does not depend on the file's name.
    pub(in crate::vm) fn of(file: File) -> Self {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        Self { file, path }
    }
}

impl VmPaths {
    /// Makes memory for this VM where its definition wants it.
    ///
    /// # Errors
    /// As of [`Self::make_memory`].
    pub(super) fn make_defined_memory(
        &self,
        bytes: u64,
        definition: &Definition,
    ) -> Result<Fresh, Error> {
        // An earlier one would take the room.
        self.forget_memory();
        match self.make_memory_in_area(bytes, definition) {
            Some(memory) => Ok(memory),
            None => self.make_memory(bytes, definition.huge_pages),
        }
    }

    /// Makes memory for this VM, which is gone when its QEMU ends.
    ///
    /// # Errors
    /// If it cannot be made, or another VM has it.
    pub(super) fn make_memory(&self, bytes: u64, huge_pages: bool) -> Result<Fresh, Error> {
        if reaches_into_processes() {
            return Fresh::without_name(bytes, huge_pages);
        }
        let path = guest::memory_directory::memory_directory()?.join(self.memory_name());
        // One of a VM that ended unseen.
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

    /// Path of the memory of this VM, if it runs and its memory has a name.
    pub(super) fn named_memory(&self) -> Option<PathBuf> {
        match Running::of(self).ok()?.machine.memory.ram {
            Ram::File(path) if has_name(&path) => Some(path),
            _ => None,
        }
    }

    /// Opens the memory of this VM, which runs, for reading.
    ///
    /// # Errors
    /// If it has ended, or the file has another size.
    pub(super) fn open_memory(&self, running: &Running) -> Result<File, Error> {
        let path = match &running.machine.memory.ram {
            Ram::File(path) => path.clone(),
            _ => {
                let pid = process::pid(self).ok_or_else(|| Error::has_ended(&self.name))?;
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

/// Whether the memory of a QEMU can be reached through its descriptors (proc(5)): by who has
/// started it as himself, and by root, unless a container keeps that from it.
fn reaches_into_processes() -> bool {
    let root = rustix::process::geteuid().is_root();
    !root || capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_PTRACE))
}
