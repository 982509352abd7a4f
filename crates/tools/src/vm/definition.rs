//! What a machine is, as its file says it.

use std::path::PathBuf;

use brisk_vm::image::{Compression, Recipient};
use serde::{Deserialize, Serialize};

use crate::run::{Net, Options, Ram, RootOption};

/// Why a definition is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// No TOML, or not of this form; says the line.
    #[error("{0}")]
    Form(String),
    /// A value that makes no sense.
    #[error("{field} = {value:?}: {reason}")]
    Value {
        /// Which.
        field: &'static str,
        /// What it is.
        value: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Network of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None.
    #[default]
    None,
    /// QEMU's user network: outgoing connections only.
    User,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Definition {
    /// Release or path of the kernel; none: as `brisk run` chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `none`, or the path of an image.
    pub root: String,
    /// Whether the root is written to, instead of a layer in memory.
    pub rw: bool,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, such as `512M` or `2G`.
    pub memory: String,
    /// Network.
    pub net: Network,
    /// Program of the root that becomes PID 1, such as `/sbin/init`; none: only what is executed
    /// in the machine runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// More kernel parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub append: Vec<String>,
    /// How it is suspended.
    pub suspend: Suspend,
}

/// How a machine is suspended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Suspend {
    /// The image; `%{name}` stands for the machine's name. None: in its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `zstd`, `zstd:LEVEL`, `lz4`, `lz4:ACCELERATION` or `none`.
    pub compression: String,
    /// Public keys of age (`age1…`) that open the image, besides this host's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Threads; 0: as many as there are processors.
    pub threads: usize,
}

impl Default for Definition {
    fn default() -> Self {
        Self {
            kernel: None,
            root: "none".into(),
            rw: false,
            cpus: 1,
            memory: "512M".into(),
            net: Network::None,
            init: None,
            append: Vec::new(),
            suspend: Suspend::default(),
        }
    }
}

impl Default for Suspend {
    fn default() -> Self {
        Self {
            path: None,
            compression: Compression::default().to_string(),
            recipients: Vec::new(),
            threads: 0,
        }
    }
}

impl Definition {
    /// Reads a definition and checks it.
    ///
    /// # Errors
    /// What is wrong, with the line or the field.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let form = |error: toml::de::Error| DefinitionError::Form(error.to_string());
        let definition: Self = toml::from_str(text).map_err(form)?;
        definition.check()?;
        Ok(definition)
    }

    /// As a file.
    ///
    /// # Errors
    /// If it cannot be written as TOML.
    pub fn text(&self) -> Result<String, DefinitionError> {
        toml::to_string(self).map_err(|error| DefinitionError::Form(error.to_string()))
    }

    fn check(&self) -> Result<(), DefinitionError> {
        self.memory_mib()?;
        self.compression()?;
        self.recipients()?;
        let wrong = |field, value: &str, reason: &str| {
            Err(DefinitionError::Value {
                field,
                value: value.to_owned(),
                reason: reason.to_owned(),
            })
        };
        if self.cpus == 0 {
            return wrong("cpus", "0", "a machine has one at least");
        }
        if self.root == "host" {
            return wrong(
                "root",
                "host",
                "the state of what serves directories cannot be kept; write \"none\" or the path \
                 of an image",
            );
        }
        if self.root != "none" && !self.root.starts_with('/') {
            return wrong("root", &self.root, "write \"none\" or an absolute path");
        }
        match &self.suspend.path {
            Some(path) if !path.starts_with('/') => {
                return wrong("suspend.path", path, "write an absolute path");
            }
            _ => {}
        }
        match &self.init {
            Some(init) if !init.starts_with('/') => {
                wrong("init", init, "write an absolute path in the machine's root")
            }
            _ => Ok(()),
        }
    }

    /// Memory, MiB.
    ///
    /// # Errors
    /// If it is no size, or too small for a distribution's kernel.
    pub fn memory_mib(&self) -> Result<u64, DefinitionError> {
        let digits = self.memory.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match &self.memory[digits.len()..] {
            "M" | "MiB" => Some(1),
            "G" | "GiB" => Some(1024),
            _ => None,
        };
        let mib = unit.zip(digits.parse::<u64>().ok());
        mib.and_then(|(unit, number)| number.checked_mul(unit))
            .filter(|mib| (64..=1 << 24).contains(mib))
            .ok_or_else(|| DefinitionError::Value {
                field: "memory",
                value: self.memory.clone(),
                reason: "write for example 512M or 2G, 64M at least".into(),
            })
    }

    /// How the image is compressed.
    ///
    /// # Errors
    /// If there is no such way.
    pub fn compression(&self) -> Result<Compression, DefinitionError> {
        let text = &self.suspend.compression;
        let wrong = |reason: String| DefinitionError::Value {
            field: "suspend.compression",
            value: text.clone(),
            reason,
        };
        text.parse::<Compression>()
            .map_err(|error| wrong(error.to_string()))
    }

    /// Who opens the image besides this host.
    ///
    /// # Errors
    /// If one is no public key.
    pub fn recipients(&self) -> Result<Vec<Recipient>, DefinitionError> {
        let parse = |text: &String| {
            Recipient::parse(text).map_err(|error| DefinitionError::Value {
                field: "suspend.recipients",
                value: text.clone(),
                reason: error.to_string(),
            })
        };
        self.suspend.recipients.iter().map(parse).collect()
    }

    /// The image of a machine of this name.
    #[must_use]
    pub fn image(&self, name: &str) -> Option<PathBuf> {
        let path = self.suspend.path.as_ref()?;
        Some(path.replace("%{name}", name).into())
    }

    /// The options of `brisk run` that make this machine.
    ///
    /// # Errors
    /// As [`Definition::memory_mib`].
    pub fn options(&self) -> Result<Options, DefinitionError> {
        Ok(Options {
            kernel: self.kernel.clone(),
            root: match self.root.as_str() {
                "none" => RootOption::None,
                path => RootOption::Path(path.to_owned()),
            },
            writable: self.rw,
            cpus: self.cpus,
            memory_mib: self.memory_mib()?,
            net: match self.net {
                Network::None => Net::None,
                Network::User => Net::User,
            },
            append: self.append.clone(),
            ram: Ram::Shared,
            accel: crate::run::Accel::Auto,
            // So that there are terminals for whoever is executed later.
            terminal: Some((24, 80)),
            ..Options::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let definition = Definition {
            kernel: Some("6.12".into()),
            root: "/images/db1.img".into(),
            rw: true,
            init: Some("/sbin/init".into()),
            append: vec!["a=1".into()],
            ..Definition::default()
        };
        let text = definition.text().unwrap();
        assert_eq!(Definition::parse(&text).unwrap(), definition);
        assert_eq!(Definition::parse("").unwrap(), Definition::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, parts) in [
            ("memroy = \"1G\"", ["memroy", "expected one of"]),
            ("memory = \"1\"", ["memory = \"1\"", "512M"]),
            ("memory = \"32M\"", ["memory = \"32M\"", "64M"]),
            ("root = \"host\"", ["root = \"host\"", "none"]),
            ("root = \"disk\"", ["root = \"disk\"", "absolute"]),
            ("init = \"init\"", ["init = \"init\"", "absolute"]),
            (
                "[suspend]\npath = \"here\"",
                ["suspend.path = \"here\"", "absolute"],
            ),
            ("cpus = 0", ["cpus = \"0\"", "one"]),
            (
                "[suspend]\ncompression = \"gzip\"",
                ["suspend.compression", "zstd"],
            ),
            (
                "[suspend]\nrecipients = [\"me\"]",
                ["suspend.recipients", "age1"],
            ),
            ("net = \"bridge\"", ["bridge", "user"]),
        ] {
            let error = Definition::parse(text).unwrap_err().to_string();
            assert!(
                parts.iter().all(|part| error.contains(part)),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn the_images_path_is_a_template() {
        let text = "[suspend]\npath = \"/x/%{name}.brisk\"";
        let definition = Definition::parse(text).unwrap();
        assert_eq!(definition.image("db1"), Some("/x/db1.brisk".into()));
    }
}
