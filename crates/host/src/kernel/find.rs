//! Search for installed kernels by the conventions of the distributions.

use std::path::{Path, PathBuf};

use super::version::{compare, name_version, version_in};
use super::{Convention, Installed};
use crate::files;
use crate::tree::Tree;

/// Where an EFI system or boot loader partition may be mounted (Boot Loader Specification).
const BOOT_DIRS: [&str; 3] = ["/boot", "/efi", "/boot/efi"];
const MODULE_DIRS: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];
/// Endings of files beside kernels that are not offered as kernels.
const BESIDE: [&str; 6] = [".old", ".bak", ".sig", ".hmac", ".dpkg-tmp", ".dpkg-bak"];

/// The kernels installed under `root`, newest first, one for each release.
///
/// Of several images of one release a readable one wins over one that only root may read, then
/// the order of [`Convention`]. Rescue images and backups are left out, and so are links that lead
/// out of the root.
#[must_use]
pub fn installed(root: &Path) -> Vec<Installed> {
    let tree = Tree::new(root);
    let mut found = boot(root, &tree);
    found.extend(kernel_install(root, &tree));
    found.extend(ukis(root, &tree));
    found.extend(in_modules(root, &tree));
    let is_unreadable = |kernel: &Installed| {
        let path = kernel.image.strip_prefix(root).unwrap_or(&kernel.image);
        tree.bytes(&Path::new("/").join(path), 1).is_err()
    };
    found.sort_by_cached_key(is_unreadable);
    found.sort_by(|a, b| compare(&b.version, &a.version));
    found.dedup_by(|a, b| a.version == b.version);
    found
}

/// The modules directory of a release under `root`.
pub(super) fn modules_dir(root: &Path, version: &str) -> Option<PathBuf> {
    if version.is_empty() || version.contains('/') || version.starts_with('.') {
        return None;
    }
    MODULE_DIRS
        .iter()
        .map(|dir| root.join(dir.trim_start_matches('/')).join(version))
        .find(|dir| dir.is_dir())
}

pub(super) fn describe(
    root: &Path,
    version: String,
    image: PathBuf,
    source: Convention,
) -> Installed {
    let modules = modules_dir(root, &version);
    let beside = modules.as_ref().map(|dir| dir.join("config"));
    let config = [
        Some(root.join("boot").join(format!("config-{version}"))),
        beside,
    ]
    .into_iter()
    .flatten()
    .find(|path| !version.is_empty() && path.is_file());
    Installed {
        version,
        image,
        modules,
        config,
        source,
    }
}

/// A kernel at a path of the system.
fn kernel(root: &Path, version: String, path: &Path, source: Convention) -> Installed {
    describe(root, version, files::below(root, path), source)
}

fn boot(root: &Path, tree: &Tree) -> Vec<Installed> {
    let mut found = Vec::new();
    for (name, path) in entries(tree, Path::new("/boot")) {
        if BESIDE.iter().any(|end| name.ends_with(end)) || !tree.is_file(&path) {
            continue;
        }
        if let Some(version) = name_version(&name) {
            // Fedora: vmlinuz-0-rescue-<machine id>, a copy of some other kernel.
            if !version.starts_with("0-rescue") {
                found.push(kernel(root, version, &path, Convention::Boot));
            }
        } else if let Some(base) = name.strip_prefix("vmlinuz-") {
            if let Some(version) = pkgbase_version(tree, base, &path) {
                found.push(kernel(root, version, &path, Convention::Pkgbase));
            }
        }
    }
    found
}

fn pkgbase_version(tree: &Tree, base: &str, image: &Path) -> Option<String> {
    let is_base = |dir: &Path| {
        let text = tree.text(&dir.join("pkgbase"));
        text.is_ok_and(|text| text.trim() == base)
    };
    let mut modules = MODULE_DIRS
        .iter()
        .flat_map(|dir| entries(tree, Path::new(dir)));
    let found = modules.find(|(_, dir)| is_base(dir));
    found
        .map(|(version, _)| version)
        .or_else(|| version_in(tree, image).ok().flatten())
}

fn kernel_install(root: &Path, tree: &Tree) -> Vec<Installed> {
    let mut found = Vec::new();
    for (_, token) in BOOT_DIRS
        .iter()
        .flat_map(|dir| entries(tree, Path::new(dir)))
    {
        for (version, dir) in entries(tree, &token) {
            let image = dir.join("linux");
            if tree.is_file(&image) {
                found.push(kernel(root, version, &image, Convention::KernelInstall));
            }
        }
    }
    found
}

fn ukis(root: &Path, tree: &Tree) -> Vec<Installed> {
    let directories = BOOT_DIRS.iter().map(|dir| Path::new(dir).join("EFI/Linux"));
    directories
        .flat_map(|dir| entries(tree, &dir))
        .filter(|(name, _)| name.to_ascii_lowercase().ends_with(".efi"))
        .filter_map(|(_, image)| {
            let version = version_in(tree, &image).ok().flatten()?;
            Some(kernel(root, version, &image, Convention::Uki))
        })
        .collect()
}

fn in_modules(root: &Path, tree: &Tree) -> Vec<Installed> {
    let mut found = Vec::new();
    for (version, dir) in MODULE_DIRS
        .iter()
        .flat_map(|dir| entries(tree, Path::new(dir)))
    {
        let image = dir.join("vmlinuz");
        if tree.is_file(&image) {
            found.push(kernel(root, version, &image, Convention::Modules));
        }
    }
    found
}

/// Names and paths in a directory of the system, sorted; nothing if it cannot be read.
fn entries(tree: &Tree, dir: &Path) -> Vec<(String, PathBuf)> {
    let names = tree.names(dir).unwrap_or_default();
    let path = |name: String| {
        let path = dir.join(&name);
        (name, path)
    };
    names.into_iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes files under a new root; a directory where the path ends in `/`.
    pub(crate) fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        root
    }

    fn bzimage(version: &str) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x300 + version.len()].copy_from_slice(version.as_bytes());
        image
    }

    fn found(root: &tempfile::TempDir) -> Vec<(String, String, Convention)> {
        installed(root.path())
            .into_iter()
            .map(|k| {
                let image = k
                    .image
                    .strip_prefix(root.path())
                    .unwrap()
                    .display()
                    .to_string();
                (k.version, image, k.source)
            })
            .collect()
    }

    fn row(version: &str, image: &str, source: Convention) -> (String, String, Convention) {
        (version.to_owned(), image.to_owned(), source)
    }

    #[test]
    fn debian() {
        let root = tree(&[
            ("boot/vmlinuz-6.1.0-9-amd64", b""),
            ("boot/vmlinuz-6.12.1-amd64", b""),
            ("boot/vmlinuz-6.12.1-amd64.old", b""),
            ("boot/config-6.12.1-amd64", b""),
            ("boot/initrd.img-6.12.1-amd64", b""),
            ("lib/modules/6.12.1-amd64/modules.dep", b""),
        ]);
        assert_eq!(
            found(&root),
            [
                row(
                    "6.12.1-amd64",
                    "boot/vmlinuz-6.12.1-amd64",
                    Convention::Boot
                ),
                row(
                    "6.1.0-9-amd64",
                    "boot/vmlinuz-6.1.0-9-amd64",
                    Convention::Boot
                ),
            ]
        );
        let newest = &installed(root.path())[0];
        assert_eq!(
            newest.config,
            Some(root.path().join("boot/config-6.12.1-amd64"))
        );
        assert_eq!(
            newest.modules,
            Some(root.path().join("lib/modules/6.12.1-amd64"))
        );
    }

    #[test]
    fn fedora_has_one_entry_for_both_copies_and_no_rescue() {
        let root = tree(&[
            ("boot/vmlinuz-6.11.4-301.fc41.x86_64", b""),
            ("boot/vmlinuz-0-rescue-5dd3", b""),
            ("usr/lib/modules/6.11.4-301.fc41.x86_64/vmlinuz", b""),
            ("usr/lib/modules/6.11.4-301.fc41.x86_64/config", b""),
            ("usr/lib/modules/6.9.1-100.fc41.x86_64/vmlinuz", b""),
        ]);
        assert_eq!(
            found(&root),
            [
                row(
                    "6.11.4-301.fc41.x86_64",
                    "boot/vmlinuz-6.11.4-301.fc41.x86_64",
                    Convention::Boot
                ),
                row(
                    "6.9.1-100.fc41.x86_64",
                    "usr/lib/modules/6.9.1-100.fc41.x86_64/vmlinuz",
                    Convention::Modules
                ),
            ]
        );
        assert!(installed(root.path())[0].config.is_some());
    }

    #[test]
    fn arch_by_pkgbase_or_by_header() {
        let header = bzimage("6.6.60-1-lts");
        let root = tree(&[
            ("boot/vmlinuz-linux", b""),
            ("boot/vmlinuz-linux-lts", &header),
            ("usr/lib/modules/6.11.6-arch1-1/pkgbase", b"linux\n"),
        ]);
        assert_eq!(
            found(&root),
            [
                row("6.11.6-arch1-1", "boot/vmlinuz-linux", Convention::Pkgbase),
                row(
                    "6.6.60-1-lts",
                    "boot/vmlinuz-linux-lts",
                    Convention::Pkgbase
                ),
            ]
        );
    }

    #[test]
    fn suse_compressed_vmlinux() {
        let root = tree(&[("boot/vmlinux-6.4.0-1-default.xz", b"")]);
        assert_eq!(
            found(&root),
            [row(
                "6.4.0-1-default",
                "boot/vmlinux-6.4.0-1-default.xz",
                Convention::Boot
            )]
        );
    }

    #[test]
    fn kernel_install_layout() {
        let root = tree(&[
            ("efi/5dd3e2/6.11.6-arch1-1/linux", b""),
            ("efi/EFI/BOOT/BOOTX64.EFI", b""),
        ]);
        assert_eq!(
            found(&root),
            [row(
                "6.11.6-arch1-1",
                "efi/5dd3e2/6.11.6-arch1-1/linux",
                Convention::KernelInstall
            )]
        );
    }

    #[test]
    fn a_release_cannot_lead_out_of_the_modules_directory() {
        let root = tree(&[("lib/modules/6.1/modules.dep", b"")]);
        assert!(modules_dir(root.path(), "6.1").is_some());
        for version in ["..", "", "../modules/6.1", "."] {
            assert_eq!(modules_dir(root.path(), version), None, "{version}");
        }
    }
}
