//! Debian's general kernels, with modules that its cloud kernel is built without.

use std::fs;
use std::path::PathBuf;

use crate::program::unpacked;

/// A kernel as `setup/general-kernels` unpacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneralKernel {
    /// Its release, such as `6.12.107+deb12-amd64`.
    pub release: String,
    directory: PathBuf,
}

impl GeneralKernel {
    /// All of them, the oldest first.
    ///
    /// # Errors
    /// Why there is none.
    pub fn all() -> Result<Vec<Self>, String> {
        let Some(dir) = unpacked("general-kernels", "complete") else {
            return Err("setup/general-kernels could not unpack a kernel".into());
        };
        let entries = fs::read_dir(dir).unwrap();
        let directories = entries.map(|entry| entry.unwrap().path());
        let kernel = |directory: PathBuf| {
            let release = directory.file_name()?.to_str()?.to_owned();
            directory.is_dir().then_some(Self { release, directory })
        };
        let mut kernels: Vec<_> = directories.filter_map(kernel).collect();
        let number = |kernel: &Self| -> Vec<u32> {
            let words = kernel.release.split(['.', '-', '+']);
            words.map_while(|word| word.parse().ok()).collect()
        };
        kernels.sort_by_key(number);
        Ok(kernels)
    }

    /// The distribution's own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn own() -> Result<Self, String> {
        // Others that are unpacked are newer.
        Ok(Self::all()?.swap_remove(0))
    }

    /// Path of the image.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// Directory of the modules.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.directory.join("modules")
    }

    /// Options of `brisk run` for a guest of this kernel.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let (image, modules) = (path(self.image()), path(self.modules()));
        vec![
            "--kernel".to_owned(),
            image,
            "--modules".to_owned(),
            modules,
        ]
    }
}

/// Options of `brisk run` for devices of QEMU's.
#[must_use]
pub fn qemu_devices(devices: &[&str]) -> Vec<String> {
    let words = devices.iter().flat_map(|device| ["-device", *device]);
    words.map(|word| format!("--qemu-arg={word}")).collect()
}
