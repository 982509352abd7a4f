//! The record of a running VM: enough to start its QEMU again.

use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use brisk_vm::cache::Cache;
use brisk_vm::launch::Unprivileged;
use brisk_vm::qemu::{Capabilities, CapabilitiesError, Ram, VmConfig};
use serde::{Deserialize, Serialize};

use super::directories::Directories;
use super::error::{Error, file};
use super::paths::{LARGEST, VmPaths};
use super::qemu_fit::{self, Fit, fit};

/// The VM that runs; enough to start its QEMU again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) machine: VmConfig,
    pub(super) unprivileged: Option<Unprivileged>,
    /// Release of the kernel.
    pub(super) kernel: String,
    /// Version of QEMU, with its package.
    pub(super) qemu: String,
    /// What serves its directories, if it has any that virtiofsd serves.
    #[serde(default)]
    pub(super) directories: Option<Directories>,
    /// The image that its memory comes from while it runs, by its usual name, whatever its definition
    /// says meanwhile of the next one.
    #[serde(default)]
    pub(super) filled_from: Option<PathBuf>,
    /// Identities of the image that it was resumed from and of those that is based on.
    #[serde(default)]
    pub(super) images: Vec<[u8; 16]>,
    /// Whether it has not got its configuration yet.
    #[serde(default)]
    pub(super) booting: bool,
    /// Whether it is a clone that has no identity of its own yet.
    #[serde(default)]
    pub(super) nameless: bool,
}

impl Running {
    /// Why it cannot be suspended, and what to try, if it cannot.
    pub(super) fn cannot_be_saved(&self) -> Option<(String, &'static str)> {
        let (major, minor) = self.machine.version;
        if (major, minor) < qemu_fit::FIRST {
            return Some((
                format!("runs in QEMU {major}.{minor}, which cannot go on from a file"),
                "stop it, and start it with QEMU 8.2 or later; brisk doctor shows how to get one",
            ));
        }
        let served = self.directories.as_ref();
        if self.machine.devices.filesystems.is_empty()
            || served.is_some_and(Directories::can_be_kept)
        {
            return None;
        }
        let what = match served {
            Some(_) => "has directories served by a virtiofsd whose state cannot be kept",
            None => "has directories served by QEMU itself (9p), which cannot be saved then",
        };
        let hint = "stop it, and start it with virtiofsd 1.11 or later";
        Some((what.to_owned(), hint))
    }

    /// Why no image of it could be resumed, and what to try: another QEMU is installed since.
    ///
    /// # Errors
    /// If the QEMU that is installed cannot be asked.
    pub(super) fn cannot_be_resumed(
        &self,
        cache: &Cache,
    ) -> Result<Option<(String, &'static str)>, CapabilitiesError> {
        let installed = Capabilities::of(&self.machine.program, cache)?;
        Ok(match fit(self, &installed) {
            Fit::Same | Fit::Alike => None,
            Fit::Doubtful(_) | Fit::Impossible(_) => Some((
                format!(
                    "runs in QEMU {}, and {} is {} now, which may not resume its image",
                    self.qemu,
                    self.machine.program.display(),
                    installed.package
                ),
                "stop it and start it again, or install the QEMU that it runs in",
            )),
        })
    }

    pub(super) fn save(&self, paths: &VmPaths) -> Result<(), Error> {
        let path = paths.plan();
        // The state is there only until it is loaded.
        let mut lasting = self.clone();
        lasting.machine.state = None;
        if !matches!(&lasting.machine.memory.ram, Ram::File(path) if has_name(path)) {
            // Only its QEMU has it.
            lasting.machine.memory.ram = Ram::Shared;
        }
        lasting.machine.memory.postcopy = false;
        lasting.machine.stopped = false;
        let text = serde_json::to_vec(&lasting).map_err(std::io::Error::other);
        let written = text.and_then(|text| files::replace(&path, &text, Durability::Atomic));
        written.map_err(file("write", path))
    }

    pub(super) fn of(paths: &VmPaths) -> Result<Self, Error> {
        let path = paths.plan();
        let text = files::read_own(&path, LARGEST).map_err(file("read", &path))?;
        serde_json::from_slice(&text).map_err(|error| file("read", path)(error.into()))
    }
}

/// Whether memory at this path is there for others, too.
pub(super) fn has_name(path: &Path) -> bool {
    !path.starts_with("/proc")
}
