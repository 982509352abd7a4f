//! Guests that idle, for measurements of what that costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_host::kernel;

use crate::general_kernel::GeneralKernel;
use crate::initramfs::initramfs;

/// A kernel, and modules of it, in the order in which they are loaded.
#[derive(Debug)]
pub struct IdleKernel {
    /// The image.
    pub image: PathBuf,
    modules: Vec<PathBuf>,
}

/// Modules that a guest with a virtio disk loads; what is built in has none.
const DISK: [&str; 6] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];

/// Modules that a guest with USB 1 devices loads.
const USB: [&str; 9] = [
    "usb_common",
    "usbcore",
    "uhci_hcd",
    "xhci_hcd",
    "xhci_pci",
    "hid",
    "hid_generic",
    "usbhid",
    "evdev",
];

impl IdleKernel {
    /// The kernel that brisk chooses, with modules for a virtio disk.
    ///
    /// # Panics
    /// If there is no kernel.
    #[must_use]
    pub fn installed() -> Self {
        let root = Path::new("/");
        let chosen = kernel::resolve(root, None, &kernel::running()).unwrap();
        let modules = Path::new("/lib/modules").join(&chosen.version);
        let named = DISK.iter().filter_map(|name| find(&modules, name));
        Self {
            image: chosen.image,
            modules: named.collect(),
        }
    }

    /// Debian's general kernel with modules for USB 1 and input devices; a newer kernel may have some
    /// built in.
    ///
    /// # Errors
    /// Why there is none.
    pub fn with_usb() -> Result<Self, String> {
        let kernel = GeneralKernel::own()?;
        let modules = kernel.modules();
        let named = USB.iter().filter_map(|name| find(&modules, name));
        Ok(Self {
            image: kernel.image(),
            modules: named.collect(),
        })
    }

    /// An initramfs in `directory` whose init loads the modules and then runs this script of
    /// busybox, whose programs are in its path.
    ///
    /// # Panics
    /// If busybox or xz is missing.
    #[must_use]
    pub fn initramfs(&self, directory: &Path, script: &str) -> PathBuf {
        let tree = directory.join("tree");
        let modules = tree.join("modules");
        fs::create_dir_all(&modules).unwrap();
        for (number, path) in (10..).zip(&self.modules) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let to = modules.join(format!("{number}-{}", name.trim_end_matches(".xz")));
            if name.ends_with(".xz") {
                let output = Command::new("xz").arg("-dc").arg(path).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                fs::write(to, output.stdout).unwrap();
            } else {
                fs::copy(path, to).unwrap();
            }
        }
        let load = "for module in /modules/*; do insmod $module; done";
        initramfs(directory, &format!("{load}\n{script}"))
    }
}

/// A module by its name, with `-` or `_`.
fn find(modules: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(modules).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
            continue;
        }
        let file = entry.file_name().to_string_lossy().replace('-', "_");
        let is_it = file
            .strip_prefix(name)
            .is_some_and(|rest| rest == ".ko" || rest == ".ko.xz");
        if is_it {
            return Some(path);
        }
    }
    None
}
