//! Kernels by where distributions install them, where no boot loader says what belongs together.

use std::path::{Path, PathBuf};

use super::entry::{Choice, Entry, Kind, Offer, Problem};
use super::image::Images;
use super::options::without_loader_words;
use crate::kernel::{Convention, Installed, installed};
use crate::tree::Tree;

/// Profiles of NixOS; `system` is the one that is used.
const PROFILES: &str = "/nix/var/nix/profiles";
/// Images of microcode, which come before the initial RAM disk (Arch).
const MICROCODE: [&str; 2] = ["/boot/intel-ucode.img", "/boot/amd-ucode.img"];
/// Generations of NixOS that are listed at most.
const MOST_GENERATIONS: usize = 100;

/// Kernels that are installed, the newest first, without options.
pub(super) fn kernels(tree: &Tree, root: &Path) -> Vec<Entry> {
    installed(root)
        .into_iter()
        .filter_map(|kernel| entry(tree, root, &kernel))
        .collect()
}

fn entry(tree: &Tree, root: &Path, kernel: &Installed) -> Option<Entry> {
    let path = Path::new("/").join(kernel.image.strip_prefix(root).ok()?);
    let images = Images::new(tree);
    let mut entry = images.entry(&path);
    kernel.version.clone_into(&mut entry.release);
    entry.id = path.display().to_string();
    entry.title = format!("Linux {}", kernel.version);
    entry.source = path;
    if entry.kind == Kind::Linux {
        match initrds(tree, kernel, &entry.kernel) {
            files if files.is_empty() => {
                entry.problems.push(Problem::InitrdUnknown);
            }
            files => images.add_initrds(&mut entry, files),
        }
    }
    Some(entry)
}

/// Initial RAM disks of a kernel.
fn initrds(tree: &Tree, kernel: &Installed, image: &Path) -> Vec<PathBuf> {
    let version = &kernel.version;
    let beside = |name: String| image.with_file_name(name);
    let mut candidates = match kernel.source {
        Convention::KernelInstall => vec![beside("initrd".into())],
        Convention::Modules => vec![
            beside("initramfs.img".into()),
            beside("initramfs".into()),
            beside("initrd".into()),
        ],
        Convention::Pkgbase => {
            let name = image
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            let base = name.strip_prefix("vmlinuz-").unwrap_or(name);
            vec![beside(format!("initramfs-{base}.img"))]
        }
        _ => Vec::new(),
    };
    for name in [
        format!("initrd.img-{version}"),
        format!("initramfs-{version}.img"),
        format!("initrd-{version}"),
    ] {
        candidates.push(Path::new("/boot").join(name));
    }
    let Some(found) = candidates.into_iter().find(|path| tree.is_file(path)) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    if kernel.source == Convention::Pkgbase {
        files.extend(
            MICROCODE
                .into_iter()
                .map(PathBuf::from)
                .filter(|path| tree.is_file(path)),
        );
    }
    files.push(found);
    files
}

/// Generations of NixOS, the one that is used first, and then the newest.
pub(super) fn generations(tree: &Tree) -> Offer {
    let directory = Path::new(PROFILES);
    let number = |name: &str| -> Option<u32> {
        name.strip_prefix("system-")?
            .strip_suffix("-link")?
            .parse()
            .ok()
    };
    let names = tree.names(directory).unwrap_or_default();
    let mut numbers: Vec<_> = names.iter().filter_map(|name| number(name)).collect();
    numbers.sort_by(|a, b| b.cmp(a));
    numbers.truncate(MOST_GENERATIONS);
    let used = tree.link(&directory.join("system"));
    let used = used
        .as_deref()
        .and_then(|it| number(it.file_name()?.to_str()?));
    let entries: Vec<_> = numbers
        .iter()
        .map(|number| generation(tree, *number))
        .collect();
    let entry = numbers.iter().position(|number| Some(*number) == used);
    let default = entry.map(|entry| Choice {
        entry,
        reason: format!("{PROFILES}/system is generation {}", numbers[entry]),
        is_once: false,
    });
    Offer {
        entries,
        next: default.clone(),
        once: None,
        default,
        notes: Vec::new(),
    }
}

fn generation(tree: &Tree, number: u32) -> Entry {
    let profile = Path::new(PROFILES).join(format!("system-{number}-link"));
    let images = Images::new(tree);
    let path = |name: &str| {
        let path = profile.join(name);
        tree.resolved(&path).unwrap_or(path)
    };
    let mut entry = images.entry(&path("kernel"));
    images.add_initrds(&mut entry, vec![path("initrd")]);
    let parameters = tree
        .text(&profile.join("kernel-params"))
        .unwrap_or_default();
    // Not resolved further: init is what systemd is started by, in the generation.
    let system = tree.resolved(&profile).unwrap_or_else(|| profile.clone());
    entry.options = without_loader_words(&format!("init={}/init {parameters}", system.display()));
    entry.id = format!("system-{number}-link");
    entry.title = format!("NixOS, generation {number}");
    entry.number = Some(number.to_string());
    entry.source = profile;
    entry
}
