//! Debian's general kernel with drivers of QEMU's graphics cards.

use std::path::PathBuf;

use crate::program::unpacked;

/// A kernel as `setup/gpu-kernel` unpacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuKernel {
    directory: PathBuf,
}

impl GpuKernel {
    /// The kernel.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find() -> Result<Self, String> {
        let found = unpacked("gpu-kernel", "vmlinuz");
        found
            .map(|directory| Self { directory })
            .ok_or_else(|| "setup/gpu-kernel could not unpack a kernel with DRM".into())
    }

    /// Directory of its modules.
    #[must_use]
    pub fn modules(&self) -> String {
        self.path("modules")
    }

    /// Options of `brisk run` for a guest of this kernel with these devices of QEMU's.
    #[must_use]
    pub fn options(&self, devices: &[&str]) -> Vec<String> {
        let own = [
            "--kernel",
            &self.path("vmlinuz"),
            "--modules",
            &self.modules(),
        ];
        let own = own.map(str::to_owned);
        let devices = devices
            .iter()
            .flat_map(|device| ["-device", device].map(|word| format!("--qemu-arg={word}")));
        own.into_iter().chain(devices).collect()
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }
}
