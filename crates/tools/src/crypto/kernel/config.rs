//! Configuration of the kernel that runs, as far as it is about cryptography.

use std::collections::BTreeMap;
use std::path::Path;

use brisk_host::kernel_config::KernelConfig;

/// Options that are kept begin so.
const KEPT: [&str; 6] = [
    "CONFIG_CRYPTO",
    "CONFIG_TLS",
    "CONFIG_DM_CRYPT",
    "CONFIG_FS_ENCRYPTION",
    "CONFIG_XFRM",
    "CONFIG_INET",
];

/// How an option is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Built in.
    Yes,
    /// A module.
    Module,
    /// Not built.
    No,
}

/// A kernel's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config(BTreeMap<String, Setting>);

impl Config {
    /// Reads that of the kernel `release`, which runs.
    pub(super) fn below(root: &Path, release: &str) -> Option<Self> {
        let config = KernelConfig::running(root, release)?;
        // A file that is empty or garbled excludes nothing.
        let has_options = config.text.lines().any(|line| line.starts_with("CONFIG_"));
        has_options.then(|| Self::parse(&config.text))
    }

    /// Parses lines `CONFIG_X=y`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let set = text.lines().filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let setting = match value.trim() {
                "y" => Setting::Yes,
                "m" => Setting::Module,
                _ => return None,
            };
            let is_kept = KEPT.iter().any(|prefix| key.starts_with(prefix));
            is_kept.then(|| (key.to_owned(), setting))
        });
        Self(set.collect())
    }

    /// How an option is set, by its name with `CONFIG_`.
    #[must_use]
    pub fn get(&self, option: &str) -> Setting {
        self.0.get(option).copied().unwrap_or(Setting::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_yes_module_or_no() {
        let config = Config::parse(
            "CONFIG_CRYPTO_USER=m\nCONFIG_TLS=y\n# CONFIG_DM_CRYPT is not set\nCONFIG_HZ=250\n=\nx\n",
        );
        let settings = [
            ("CONFIG_CRYPTO_USER", Setting::Module),
            ("CONFIG_TLS", Setting::Yes),
            ("CONFIG_DM_CRYPT", Setting::No),
        ];
        for (option, setting) in settings {
            assert_eq!(config.get(option), setting, "{option}");
        }
    }
}
