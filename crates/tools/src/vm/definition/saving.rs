//! `[suspend]` of a definition: options of the image.

use brisk_host::quantity::rate;
use brisk_image::{Compression, Options, Recipient};
use serde::{Deserialize, Serialize};

use super::DefinitionError;

/// Placeholder for the VM's name in the image's path.
pub(super) const NAME: &str = "%{name}";
/// Placeholder for the VM's UUID.
pub(super) const UUID: &str = "%{uuid}";
/// Value for no limit of the bandwidth.
const NO_LIMIT: &str = "none";
/// Most threads.
const THREADS: usize = 256;

/// Options of a suspend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Suspend {
    /// Path of the image; `%{name}` stands for the VM's name, `%{uuid}` for its UUID. `None`: in
    /// the VM's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `zstd`, `zstd:LEVEL`, `lz4`, `lz4:ACCELERATION` or `none`.
    pub compression: String,
    /// Whether the image is encrypted to this host's key.
    pub host_key: bool,
    /// Public keys of age (`age1…`) that the image is encrypted to, too.
    pub recipients: Vec<String>,
    /// Whether it is encrypted to a passphrase, too, which is asked for at the suspend.
    pub passphrase: bool,
    /// Number of threads; 0: one for each processor.
    pub threads: usize,
    /// Most bytes a second that are written, such as `200M`; `none`: no limit.
    pub bandwidth: String,
    /// Whether an image has only what changed since the last one, which is kept as its base image.
    pub incremental: bool,
    /// Whether the guest drops the page cache that it can read from its disks again.
    pub drop_cache: bool,
}

impl Default for Suspend {
    fn default() -> Self {
        Self {
            path: None,
            compression: Compression::default().to_string(),
            host_key: true,
            recipients: Vec::new(),
            passphrase: false,
            threads: 0,
            bandwidth: NO_LIMIT.into(),
            incremental: true,
            drop_cache: false,
        }
    }
}

impl Suspend {
    pub(super) fn check(&self) -> Result<(), DefinitionError> {
        self.options()?;
        let recipients = self.recipients()?;
        if let Some(path) = &self.path {
            check_path(path)?;
        }
        if !self.host_key && !self.passphrase && recipients.is_empty() {
            let reason = "nobody could open the image; name recipients, or have a passphrase";
            return Err(DefinitionError::wrong("suspend.host-key", "false", reason));
        }
        Ok(())
    }

    /// Options of writing the image.
    ///
    /// # Errors
    /// If there is no such compression, number of threads or rate.
    pub fn options(&self) -> Result<Options, DefinitionError> {
        let wrong = DefinitionError::wrong;
        let usual = Options::default();
        let compression = self.compression.parse::<Compression>();
        let compression =
            compression.map_err(|error| wrong("suspend.compression", &self.compression, error))?;
        let limit = match self.bandwidth.as_str() {
            NO_LIMIT => None,
            text => Some(rate(text).ok_or_else(|| {
                let reason = "write bytes a second, for example 200M or 1.5G, or none";
                wrong("suspend.bandwidth", text, reason.to_owned())
            })?),
        };
        if self.threads > THREADS {
            let reason = format!("{THREADS} at most; 0 is as many as there are processors");
            return Err(wrong("suspend.threads", &self.threads.to_string(), reason));
        }
        Ok(Options {
            compression,
            limit,
            threads: match self.threads {
                0 => usual.threads,
                threads => threads,
            },
            ..usual
        })
    }

    /// Identifies the set of recipients, to compare it with that of another image.
    #[must_use]
    pub fn locks(&self) -> String {
        let mut recipients = self.recipients.clone();
        recipients.sort();
        recipients.dedup();
        let (host_key, passphrase) = (self.host_key, self.passphrase);
        format!("host-key {host_key}, passphrase {passphrase}, recipients {recipients:?}")
    }

    /// Public keys that the image is encrypted to.
    ///
    /// # Errors
    /// If one is no public key.
    pub fn recipients(&self) -> Result<Vec<Recipient>, DefinitionError> {
        let parse = |text: &String| {
            let parsed = Recipient::parse(text);
            parsed.map_err(|error| {
                DefinitionError::wrong("suspend.recipients", text, error.to_string())
            })
        };
        self.recipients.iter().map(parse).collect()
    }
}

fn check_path(path: &str) -> Result<(), DefinitionError> {
    let wrong = |reason: &str| Err(DefinitionError::wrong("suspend.path", path, reason));
    if !path.starts_with('/') {
        return wrong("write an absolute path");
    }
    if path.replace(NAME, "").replace(UUID, "").contains("%{") {
        return wrong("only %{name} and %{uuid} stand for something");
    }
    Ok(())
}
