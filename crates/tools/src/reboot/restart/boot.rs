//! Identity of a boot.

use std::path::Path;

use brisk_host::files;
use serde::{Deserialize, Serialize};

/// Loader type of kexec-tools and of kexec_file_load(2)
/// (`Documentation/arch/x86/boot.rst`, `type_of_loader`).
const KEXEC: u32 = 0xD;

/// A boot of this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    /// `/proc/sys/kernel/random/boot_id`.
    pub id: String,
    /// Release of its kernel.
    pub release: String,
    /// Whether kexec started the kernel; none where the kernel does not say.
    #[serde(default)]
    pub is_kexec: Option<bool>,
}

impl Boot {
    /// Boot of the system below `root`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let line = |path: &str| {
            let text = files::text(&root.join("proc/sys/kernel").join(path));
            text.unwrap_or_default().trim().to_owned()
        };
        // Since 2.6.31 the lower 4 bits are the version.
        let loader = line("bootloader_type").parse().ok();
        Self {
            id: line("random/boot_id"),
            release: line("osrelease"),
            is_kexec: loader.map(|loader: u32| loader >> 4 == KEXEC),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kexec_is_told_by_the_type_of_the_loader() {
        for (text, is_kexec) in [
            (Some("208\n"), Some(true)),
            (Some("209\n"), Some(true)),
            (Some("114\n"), Some(false)),
            (Some("176\n"), Some(false)),
            (Some("what\n"), None),
            (None, None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("proc/sys/kernel/random");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("boot_id"), "abc\n").unwrap();
            std::fs::write(dir.join("../osrelease"), "6.12.1\n").unwrap();
            if let Some(text) = text {
                std::fs::write(dir.join("../bootloader_type"), text).unwrap();
            }
            let expected = Boot {
                id: "abc".to_owned(),
                release: "6.12.1".to_owned(),
                is_kexec,
            };
            assert_eq!(Boot::read(root.path()), expected, "{text:?}");
        }
    }
}
