//! Definition of a VM, as its file has it.

mod saving;

pub use saving::Suspend;

use std::path::PathBuf;

use brisk_host::quantity::memory_mib;
use brisk_vm::qemu::DiskFormat;
use brisk_vm::virtiofs::Access;
use saving::{NAME, UUID};
use serde::{Deserialize, Serialize};

use crate::guest::{
    Accel, CommandOptions, ExtraDisk, HardwareOptions, KernelOptions, LEAST_MEMORY, Net, Options,
    Ram, RootOption, RootOptions, Share, User,
};

/// Error of a definition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// No TOML, or not of this form; the message has the line.
    #[error("{0}")]
    Form(String),
    /// A value that makes no sense.
    #[error("{field} = {value:?}: {reason}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// Reason, and an allowed value.
        reason: String,
    },
}

impl DefinitionError {
    fn wrong(field: &'static str, value: &str, reason: impl Into<String>) -> Self {
        Self::Value {
            field,
            value: value.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Network of a VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None.
    #[default]
    None,
    /// QEMU's user network: outgoing connections only.
    User,
}

/// Format of a disk image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageFormat {
    /// The bytes of the disk.
    Raw,
    /// QEMU's qcow2.
    Qcow2,
}

impl ImageFormat {
    /// Format for QEMU's command line.
    #[must_use]
    pub const fn disk_format(self) -> DiskFormat {
        match self {
            Self::Raw => DiskFormat::Raw,
            Self::Qcow2 => DiskFormat::Qcow2,
        }
    }
}

impl From<DiskFormat> for ImageFormat {
    fn from(format: DiskFormat) -> Self {
        match format {
            DiskFormat::Raw => Self::Raw,
            DiskFormat::Qcow2 => Self::Qcow2,
        }
    }
}

/// Definition of a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Definition {
    /// UUID of the VM, such as `9b2a1f0e-…`; images are bound to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Release or path of the kernel; `None`: as `brisk run` chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `none`, `host`, or the path of an image or a directory.
    pub root: String,
    /// Format of the root's image; `None`: as `brisk run` decides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_format: Option<ImageFormat>,
    /// Whether the root is written to, instead of an overlay in memory.
    pub rw: Access,
    /// Further disks, `PATH` or `PATH:ro`, each with its format behind it: `,format=raw`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Directories of this host, `HOST:GUEST`, `HOST:GUEST:ro` or `HOST:GUEST,suid`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<String>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, such as `512M` or `2G`.
    pub memory: String,
    /// Whether its memory has huge pages where this host allows them.
    pub huge_pages: bool,
    /// Whether its memory is locked, so that none of it gets to this host's swap.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lock_memory: bool,
    /// Whether its memory is where it outlives a warm restart of this host, if there is such a place.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_memory: bool,
    /// Network.
    pub net: Network,
    /// Program of the root that becomes PID 1, such as `/sbin/init`; `None`: only commands of
    /// `exec` run in the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// User of the commands of `exec`, `USER` or `USER:GROUP`; `None`: root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// More kernel parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub append: Vec<String>,
    /// Whether it is started, or resumed, when this host has booted.
    pub autoboot: bool,
    /// Action when this host shuts down.
    pub autoshutdown: Autoshutdown,
    /// Options of a suspend.
    pub suspend: Suspend,
}

/// Action on a running VM when this host shuts down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autoshutdown {
    /// Suspend it to its image.
    Suspend,
    /// Ask it to stop.
    #[default]
    Shutdown,
    /// End it, as by a power cut.
    Off,
}

/// Whether it has the form of `USER[:GROUP]`.
fn is_user(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_part = |c: char| !c.is_control() && !c.is_whitespace() && c != ':';
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_part)
    };
    let User { user, group } = User::parse(text);
    is_name(&user) && group.as_deref().is_none_or(is_name)
}

impl Default for Definition {
    fn default() -> Self {
        Self {
            uuid: None,
            kernel: None,
            root: "none".into(),
            root_format: None,
            rw: Access::ReadOnly,
            disks: Vec::new(),
            shares: Vec::new(),
            cpus: 1,
            memory: "512M".into(),
            huge_pages: true,
            lock_memory: false,
            keep_memory: false,
            net: Network::None,
            init: None,
            user: None,
            append: Vec::new(),
            autoboot: false,
            autoshutdown: Autoshutdown::default(),
            suspend: Suspend::default(),
        }
    }
}

impl Definition {
    /// Parses a definition and checks it.
    ///
    /// # Errors
    /// A text with the line or the field.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let form = |error: toml::de::Error| DefinitionError::Form(error.to_string());
        let definition: Self = toml::from_str(text).map_err(form)?;
        definition.check()?;
        Ok(definition)
    }

    /// Formats the definition as a file.
    ///
    /// # Errors
    /// If it cannot be written as TOML.
    pub fn text(&self) -> Result<String, DefinitionError> {
        toml::to_string(self).map_err(|error| DefinitionError::Form(error.to_string()))
    }

    fn check(&self) -> Result<(), DefinitionError> {
        self.memory_mib()?;
        self.uuid()?;
        self.suspend.check()?;
        let wrong = |field, value: &str, reason| Err(DefinitionError::wrong(field, value, reason));
        if self.cpus == 0 {
            return wrong("cpus", "0", "a VM has one at least");
        }
        if self.root == "host" && self.rw.is_writable() {
            let reason = "nobody but this host writes to its own root; write rw = false";
            return wrong("rw", "true", reason);
        }
        if !["none", "host"].contains(&self.root.as_str()) && !self.root.starts_with('/') {
            let reason = "write \"none\", \"host\" or an absolute path";
            return wrong("root", &self.root, reason);
        }
        if let Some(disk) = self.disks.iter().find(|disk| !disk.starts_with('/')) {
            let reason = "write the absolute path of an image, and :ro after it to only read";
            return wrong("disks", disk, reason);
        }
        let absolute = |share: &Share| share.host.is_absolute();
        let good = |text: &&String| !Share::parse(text).as_ref().is_some_and(absolute);
        if let Some(share) = self.shares.iter().find(good) {
            let reason = "write HOST:GUEST, two absolute paths, and :ro after them to only read";
            return wrong("shares", share, reason);
        }
        match &self.suspend.path {
            Some(path) if path.contains(UUID) && self.uuid.is_none() => {
                return wrong(
                    "suspend.path",
                    path,
                    "the VM has no UUID; write also uuid = \"…\", as uuidgen prints it",
                );
            }
            _ => {}
        }
        if self.suspend.passphrase && self.autoshutdown == Autoshutdown::Suspend {
            return wrong(
                "suspend.passphrase",
                "true",
                "nobody types it when this host goes down; write autoshutdown = \"shutdown\"",
            );
        }
        if let Some(user) = self.user.as_deref().filter(|user| !is_user(user)) {
            return wrong(
                "user",
                user,
                "write a name or a number, and :GROUP after it if wanted",
            );
        }
        match &self.init {
            Some(init) if !init.starts_with('/') => {
                wrong("init", init, "write an absolute path in the VM's root")
            }
            _ => Ok(()),
        }
    }

    /// Memory, MiB.
    ///
    /// # Errors
    /// If it is no size, or too small for a distribution's kernel.
    pub fn memory_mib(&self) -> Result<u64, DefinitionError> {
        memory_mib(&self.memory)
            .filter(|mib| (LEAST_MEMORY..=1 << 24).contains(mib))
            .ok_or_else(|| {
                let reason = format!("write for example 512M or 2G, {LEAST_MEMORY}M at least");
                DefinitionError::wrong("memory", &self.memory, reason)
            })
    }

    /// UUID of the VM, if the definition has one.
    ///
    /// # Errors
    /// If it is no UUID.
    pub fn uuid(&self) -> Result<Option<[u8; 16]>, DefinitionError> {
        let Some(text) = &self.uuid else {
            return Ok(None);
        };
        let wrong = || DefinitionError::wrong("uuid", text, "write one as uuidgen prints it");
        bytes_of_uuid(text).map(Some).ok_or_else(wrong)
    }

    /// Path of the image of a VM of this name, if the definition has one.
    #[must_use]
    pub fn image(&self, name: &str) -> Option<PathBuf> {
        let path = self.suspend.path.as_ref()?;
        let uuid = self.uuid.as_deref().unwrap_or_default();
        Some(path.replace(NAME, name).replace(UUID, uuid).into())
    }

    /// Disks besides the root.
    #[must_use]
    pub fn extra_disks(&self) -> Vec<ExtraDisk> {
        let disks = self.disks.iter();
        disks.map(|disk| ExtraDisk::parse(disk)).collect()
    }

    /// Options of `brisk run` that give this VM.
    ///
    /// # Errors
    /// As [`Definition::memory_mib`].
    pub fn options(&self) -> Result<Options, DefinitionError> {
        Ok(Options {
            kernel: KernelOptions {
                image: self.kernel.clone(),
                append: self.append.clone(),
                ..KernelOptions::default()
            },
            root: RootOptions {
                source: match self.root.as_str() {
                    "none" => RootOption::None,
                    "host" => RootOption::Host,
                    path => RootOption::Path(path.to_owned()),
                },
                format: self.root_format.map(ImageFormat::disk_format),
                access: self.rw,
                unread: false,
            },
            hardware: HardwareOptions {
                cpus: self.cpus,
                memory_mib: self.memory_mib()?,
                ram: Ram::Shared,
                lock_memory: self.lock_memory,
                keep_memory: self.keep_memory,
                accel: Accel::Auto,
                disks: self.extra_disks(),
                shares: self
                    .shares
                    .iter()
                    .filter_map(|text| Share::parse(text))
                    .collect(),
                net: match self.net {
                    Network::None => Net::None,
                    Network::User => Net::User,
                },
                ..HardwareOptions::default()
            },
            command: CommandOptions {
                // So that there are terminals for whoever is executed later.
                terminal: Some((24, 80)),
                ..CommandOptions::default()
            },
            persistent: true,
            powers_off: self.init.is_some(),
            ..Options::default()
        })
    }
}

/// Parses a UUID in its usual form, 8-4-4-4-12 digits.
fn bytes_of_uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    let digits = text.replace('-', "");
    let usual = groups == [8, 4, 4, 4, 12] && digits.bytes().all(|c| c.is_ascii_hexdigit());
    let number = usual.then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(number.to_be_bytes())
}

/// Formats a UUID in its usual form.
pub(super) fn text_of_uuid(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let group = |range: std::ops::Range<usize>| &digits[range];
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(group);
    groups.join("-")
}

#[cfg(test)]
mod tests;
