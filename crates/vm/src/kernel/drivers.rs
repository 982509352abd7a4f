//! Drivers that a kernel has built in, where no list of them is at hand.

use std::fs;
use std::path::Path;

use memchr::memmem;

use super::Error;

/// The first of some virtio drivers that a kernel has not built in. `vmlinux` is one that
/// [`vmlinux()`](super::vmlinux()) has extracted.
///
/// Each driver has its name, as sysfs shows it, in the kernel: `virtio-pci` in
/// `drivers/virtio/virtio_pci_common.c`, `virtio-mmio` in `drivers/virtio/virtio_mmio.c`, the name of
/// the module (`KBUILD_MODNAME`) in all others. So one whose name is not there is not there either;
/// the reverse is not certain.
///
/// # Errors
/// If the file cannot be read.
pub fn missing_driver<'a>(
    vmlinux: &Path,
    drivers: impl IntoIterator<Item = &'a str>,
) -> Result<Option<&'a str>, Error> {
    let mut drivers = drivers.into_iter().peekable();
    if drivers.peek().is_none() {
        return Ok(None);
    }
    let bytes = fs::read(vmlinux).map_err(|source| Error::Read {
        path: vmlinux.to_owned(),
        source,
    })?;
    let has = |name: &str| memmem::find(&bytes, name.as_bytes()).is_some();
    Ok(drivers.find(|driver| !has(driver) && !has(&driver.replace('_', "-"))))
}

/// Option of the kernel's configuration that a virtio driver has.
#[must_use]
pub fn option_of(driver: &str) -> String {
    let name = driver.trim_start_matches("virtio").trim_start_matches('_');
    format!("CONFIG_VIRTIO_{}", name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_built_in_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinux");
        fs::write(&path, b"\0virtio-pci\0virtio_console\0").unwrap();
        let missing = |drivers: [&'static str; 2]| missing_driver(&path, drivers).unwrap();
        assert_eq!(missing(["virtio_pci", "virtio_console"]), None);
        assert_eq!(missing(["virtio_pci", "virtio_blk"]), Some("virtio_blk"));
        assert_eq!(option_of("virtio_blk"), "CONFIG_VIRTIO_BLK");
        assert_eq!(option_of("virtiofs"), "CONFIG_VIRTIO_FS");
    }
}
