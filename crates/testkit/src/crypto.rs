//! Crypto devices and libraries for tests.

use std::path::PathBuf;

use crate::general_kernel::GeneralKernel;
use crate::program::unpacked;

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

/// Options of `brisk run` for a processor with AES-NI under TCG.
#[must_use]
pub fn with_aes_ni() -> [String; 2] {
    [
        "--accel=tcg",
        "--cpu=qemu64,+pdpe1gb,+rdrand,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+lahf-lm,+rdseed,\
         +aes,+pclmulqdq",
    ]
    .map(str::to_owned)
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

/// Module of a driver that leaves requests to software, as `setup/fallback-module` compiles it.
///
/// # Errors
/// Why there is none for this kernel.
pub fn fallback_module(kernel: &GeneralKernel) -> Result<PathBuf, String> {
    let file = format!("{}/brisk_fallback.ko", kernel.release);
    unpacked("fallback-module", &file)
        .map(|dir| dir.join(&file))
        .ok_or_else(|| format!("setup/fallback-module compiled none for {}", kernel.release))
}
