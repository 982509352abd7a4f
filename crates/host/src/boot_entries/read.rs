//! Which boot loader a system has, and what it offers.

use std::path::Path;

use super::efi::firmware;
use super::efi::stub::Stub;
use super::efi::unified::unified;
use super::efi::variables::Variables;
use super::entry::{BootEntries, Choice, Entry, Loader, Offer};
use super::image::Images;
use super::mounts::Mounts;
use super::others;
use super::{conventions, extlinux, grub, proxmox, systemd_boot};
use crate::tree::Tree;

/// What the boot loader of the system below `root` offers.
#[must_use]
pub fn read(root: &Path) -> BootEntries {
    let tree = Tree::new(root);
    let mounts = Mounts::read(&tree);
    let (mut loader, mut reason) = loader(&tree);
    let other = other(&tree).or_else(|| proxmox::unmounted(&tree, &mounts));
    if let Some(other) = &other {
        (loader, reason) = (Loader::None, other.clone());
    }
    let mut offer = match &other {
        Some(other) => Offer {
            notes: vec![other.clone()],
            ..Offer::default()
        },
        None => offer(loader, &tree, &mounts),
    };
    if loader == Loader::None && !offer.entries.is_empty() {
        reason = "no boot loader was found, but profiles of NixOS".to_owned();
    } else if offer.entries.is_empty() && offer.notes.is_empty() && loader != Loader::None {
        // Whatever it does, it starts none of the kernels that are found otherwise.
        offer
            .notes
            .push(format!("what {} starts is not known here", loader.name()));
        reason = format!("{reason}, but no entry of it was found");
        loader = Loader::None;
    }
    let mut entries = std::mem::take(&mut offer.entries);
    for kernel in conventions::kernels(&tree, root) {
        let is_known = entries
            .iter()
            .any(|it| it.kernel == kernel.kernel || it.release == kernel.release);
        if !is_known {
            entries.push(kernel);
        }
    }
    if loader == Loader::None {
        // A boot loader may be there all the same.
        offer.notes.extend(systemd_boot::denied(&tree));
        offer.notes.extend(mounts.absent());
        if other.is_none() && offer.next.is_none() {
            offer.notes.extend(others::configured(&tree));
        }
    }
    if loader == Loader::None && offer.next.is_none() && offer.notes.is_empty() {
        let newest = entries.iter().position(Entry::is_bootable);
        offer.next = newest.map(|entry| Choice {
            entry,
            reason:
                "no boot loader says which is next, and it is the newest kernel that is installed"
                    .to_owned(),
            is_once: false,
        });
        offer.default = offer.next.clone();
    }
    BootEntries {
        loader,
        reason,
        entries,
        default: offer.default,
        next: offer.next,
        once: offer.once,
        notes: offer.notes,
    }
}

/// What the kernel image at a path of the system below `root` says, as an entry of no boot loader.
#[must_use]
pub fn kernel(root: &Path, path: &Path) -> Entry {
    let tree = Tree::new(root);
    let entry = Images::new(&tree).entry(path);
    let title = match &*entry.release {
        "" => path.display().to_string(),
        release => format!("Linux {release}"),
    };
    Entry {
        id: path.display().to_string(),
        title,
        source: path.to_owned(),
        ..entry
    }
}

/// Size of a file of the system below `root`, in bytes; none if there is no such file.
#[must_use]
pub fn size(root: &Path, path: &Path) -> Option<u64> {
    Tree::new(root).size(path)
}

/// Text of a file of the system below `root`, at most 1 MiB of it; none if it cannot be read. Links do
/// not lead out of the root.
#[must_use]
pub fn text(root: &Path, path: &Path) -> Option<String> {
    Tree::new(root).text(path).ok()
}

fn offer(loader: Loader, tree: &Tree, mounts: &Mounts) -> Offer {
    let nothing = Offer::default();
    match loader {
        Loader::Grub => {
            grub::configuration(tree).map_or(nothing, |path| grub::read(tree, mounts, &path))
        }
        Loader::SystemdBoot => systemd_boot::read(tree),
        Loader::Extlinux => extlinux::configuration(tree)
            .map_or(nothing, |path| extlinux::read(tree, mounts, &path)),
        Loader::Firmware => firmware::read(tree),
        Loader::None => conventions::generations(tree),
    }
}

/// Reason why it is a boot loader that is not known here, such as rEFInd or Limine.
fn other(tree: &Tree) -> Option<String> {
    let info = Variables::new(tree).loader("LoaderInfo")?;
    let is_known = ["systemd-", "GRUB"].iter().any(|it| info.starts_with(it));
    (!is_known).then(|| {
        format!("the EFI variable LoaderInfo is \"{info}\", a boot loader whose configuration is not known here")
    })
}

/// The boot loader, and why it is taken to be that one.
fn loader(tree: &Tree) -> (Loader, String) {
    let variables = Variables::new(tree);
    let info = variables.loader("LoaderInfo");
    let configuration = grub::configuration(tree);
    if let Some(info) = &info {
        let said = |loader| (loader, format!("the EFI variable LoaderInfo is \"{info}\""));
        if info.starts_with("systemd-boot") {
            return said(Loader::SystemdBoot);
        }
        if info.starts_with("GRUB") && configuration.is_some() {
            return said(Loader::Grub);
        }
    }
    if let Some(option) = variables.current() {
        let path = option.path.unwrap_or_default();
        let name = path.to_string_lossy().to_lowercase();
        let said = |loader| (loader, format!("the firmware started {}", path.display()));
        if name.contains("systemd-boot") {
            return said(Loader::SystemdBoot);
        }
        if name.starts_with("/efi/linux/") {
            return said(Loader::Firmware);
        }
    }
    if let Some(path) = configuration {
        return (Loader::Grub, format!("{} is there", path.display()));
    }
    if systemd_boot::is_installed(tree) {
        return (
            Loader::SystemdBoot,
            "it is installed, and GRUB is not".to_owned(),
        );
    }
    if let Some(path) = extlinux::configuration(tree) {
        return (Loader::Extlinux, format!("{} is there", path.display()));
    }
    if !unified(tree, &Stub::new(tree)).is_empty() {
        return (
            Loader::Firmware,
            "there are unified kernel images, and no boot loader".to_owned(),
        );
    }
    (
        Loader::None,
        "no configuration of a boot loader was found".to_owned(),
    )
}
