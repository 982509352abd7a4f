//! Description of an initramfs and of the reasons for its contents, for people and programs.

use serde::{Deserialize, Serialize};

use super::plan::{Builtin, Planned, Skipped};

/// The contents of an initramfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Release of the kernel.
    pub release: String,
    /// Modules in load order.
    pub modules: Vec<ModuleRow>,
    /// Modules asked for that the kernel has built in.
    pub builtin: Vec<Builtin>,
    /// Soft dependencies left out because they are denied.
    pub skipped: Vec<Skipped>,
    /// Files, links and devices that are not modules, by path.
    pub files: Vec<FileRow>,
    /// Size of the archive in bytes.
    pub total: u64,
}

/// A module in an initramfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRow {
    /// Its name.
    pub name: String,
    /// Its path in the archive.
    pub path: String,
    /// Size in the archive in bytes.
    pub size: u64,
    /// Purpose of the module.
    pub reason: String,
    /// Names of the modules that need it.
    pub needed_by: Vec<String>,
    /// Whether the guest works without it.
    pub soft: bool,
    /// Modules of the same group do not need each other.
    pub group: u32,
}

/// Another file in an initramfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path in the archive.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Type and permission bits.
    pub mode: u32,
}

impl ModuleRow {
    pub(super) fn new(module: &Planned, size: u64) -> Self {
        Self {
            name: module.name.clone(),
            path: module.path.clone(),
            size,
            reason: module.reason.clone(),
            needed_by: module.needed_by.clone(),
            soft: module.soft,
            group: module.group,
        }
    }
}
