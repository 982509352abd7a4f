//! Files of real machines, for tests.
//!
//! A capture has parts: `=== PATH` and the text of that file, or `=== link PATH -> TARGET`. Guests
//! were started with QEMU's TCG; entries of `/proc/crypto` and lines of other files that tests do not
//! look at are left out.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::kernel::Kernel;

/// A Firecracker guest without modules and without a crypto device.
pub(super) const NO_DEVICE: &str = include_str!("firecracker-6.18.txt");
/// Debian's 6.1 for clouds, with virtio-crypto, for which it has no module.
pub(super) const CLOUD: &str = include_str!("debian-6.1-cloud.txt");
/// Debian's 6.1 with virtio-crypto, whose module is not loaded.
pub(super) const NOT_LOADED: &str = include_str!("debian-6.1-not-loaded.txt");
/// Debian's 6.12 with virtio-crypto, its module and `crypto_user`, on a CPU without AES-NI.
pub(super) const VIRTIO: &str = include_str!("debian-6.12-virtio.txt");
/// As [`VIRTIO`] on a CPU with AES-NI, with `aesni_intel` and without `crypto_user`.
pub(super) const VIRTIO_AND_AESNI: &str = include_str!("debian-6.12-virtio-aesni.txt");

/// Messages of `NETLINK_CRYPTO` from the guest of [`VIRTIO`], in hexadecimal.
pub(super) const FLAGS: &str = include_str!("netlink-6.12.txt");

/// Bytes of a hexadecimal text.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    pairs.map(byte).collect()
}

/// A directory with the files of a capture.
pub(super) fn tree(capture: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for part in capture.split("=== ").skip(1) {
        let (head, text) = part.split_once('\n').unwrap();
        let link = head.strip_prefix("link ");
        let (name, target) = match link.map(|link| link.split_once(" -> ").unwrap()) {
            Some((name, target)) => (name, Some(target)),
            None => (head, None),
        };
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match target {
            Some(target) => symlink(target, &path).unwrap(),
            None => fs::write(&path, text).unwrap(),
        }
    }
    root
}

/// A capture with texts replaced; each has to be there.
pub(super) fn edited(capture: &str, edits: &[(&str, &str)]) -> String {
    let mut text = capture.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    text
}

/// The kernel of a capture.
pub(super) fn kernel(capture: &str) -> Kernel {
    Kernel::below(tree(capture).path())
}
