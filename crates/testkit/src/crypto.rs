//! Debian's general kernels with modules of the crypto API and of virtio-crypto.

use std::fs;
use std::path::PathBuf;

use crate::program::unpacked;

/// A kernel as `setup/crypto-kernels` unpacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptoKernel {
    /// Its release, such as `6.12.107+deb12-amd64`.
    pub release: String,
    directory: PathBuf,
}

/// An AES device of QEMU's for the guest, as options of `brisk run`. `throttle` limits it, such as
/// `,throttle-ops=1000`.
#[must_use]
pub fn virtio_crypto(throttle: &str) -> [String; 4] {
    [
        "--qemu-arg=-object".to_owned(),
        format!("--qemu-arg=cryptodev-backend-builtin,id=brisk-crypto{throttle}"),
        "--qemu-arg=-device".to_owned(),
        "--qemu-arg=virtio-crypto-pci,cryptodev=brisk-crypto".to_owned(),
    ]
}

impl CryptoKernel {
    /// All of them, the oldest first.
    ///
    /// # Errors
    /// Why there is none.
    pub fn all() -> Result<Vec<Self>, String> {
        let Some(dir) = unpacked("crypto-kernels", "complete") else {
            return Err("setup/crypto-kernels could not unpack a kernel with virtio-crypto".into());
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

    /// Options of `brisk run` for a guest of this kernel, under TCG with a processor that has AES-NI.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let path = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        [
            "--accel=tcg",
            "--cpu=qemu64,+pdpe1gb,+rdrand,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+lahf-lm,+rdseed,\
             +aes,+pclmulqdq,-apic",
            "--kernel",
            &path("vmlinuz"),
            "--modules",
            &path("modules"),
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// The directory of an `openssl` that `setup/newer-openssl` unpacks, to be the first in `PATH`.
///
/// # Errors
/// Why there is none.
pub fn newer_openssl() -> Result<PathBuf, String> {
    let dir = unpacked("newer-openssl", "bin/openssl");
    dir.map(|dir| dir.join("bin"))
        .ok_or_else(|| "setup/newer-openssl unpacked none; Debian 13's own is tested there".into())
}
