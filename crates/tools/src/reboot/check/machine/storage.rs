//! File systems, encrypted devices, and the image of a hibernation.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use brisk_host::{files, sysfs};
use serde_json::Value;

use crate::reboot::device::device_path;

/// Begins the header of a LUKS2 device, whose text follows after 4096 bytes ("LUKS2 On-Disk Format
/// Specification").
const LUKS: &[u8; 6] = b"LUKS\xba\xbe";
const BINARY_HEADER: usize = 4096;
/// The largest header that the specification allows, bytes.
const LARGEST_HEADER: u64 = 4 << 20;
/// Types of tokens whose key a TPM gives, if its registers are as they were.
const SEALED: [&str; 3] = ["systemd-tpm2", "clevis", "tpm2"];
/// Signature of a swap area that has the image of a hibernation, 10 bytes before the end of its
/// first page (`SWSUSP_SIG` of `kernel/power/swap.c`).
const HIBERNATED: &[u8; 9] = b"S1SUSPEND";
const SIGNATURE: u64 = PAGE - 10;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Lines of a table and devices that are looked at.
const MANY: usize = 1024;

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device or share.
    pub source: String,
    /// Kind of file system.
    pub kind: String,
}

/// File systems and encrypted devices of a machine.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    /// The root.
    pub root: Option<Mount>,
    /// Devices whose key the TPM gives, and where that is written.
    pub sealed: Vec<String>,
    /// Whether a device has to be unlocked at boot.
    pub is_encrypted: bool,
}

/// Device that a kernel resumes from, by `resume=` on its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// As it is written there.
    pub device: String,
    /// Whether it has the image of a hibernation; none if that cannot be read.
    pub has_image: Option<bool>,
}

impl Storage {
    pub(super) fn read(root: &Path, unread: &mut Vec<String>) -> Self {
        let table = files::text(&root.join("etc/crypttab")).unwrap_or_default();
        let lines = table.lines().map(str::trim).take(MANY);
        let entries: Vec<Vec<&str>> = lines
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().collect())
            .filter(|fields: &Vec<&str>| fields.len() >= 2)
            .collect();
        let by_table = entries.iter().filter(|fields| {
            let mut options = fields.get(3).unwrap_or(&"").split(',');
            options.any(|option| option.starts_with("tpm2-device="))
        });
        let mut sealed: Vec<_> = by_table
            .map(|fields| format!("{} (tpm2-device in /etc/crypttab)", fields[0]))
            .collect();
        let open = opened(root);
        for device in &open {
            match tokens(&root.join("dev").join(device)) {
                Ok(kinds) => {
                    let mut kinds = kinds.into_iter();
                    if let Some(kind) = kinds.find(|kind| SEALED.contains(&&**kind)) {
                        sealed.push(format!("/dev/{device} (LUKS2 token {kind})"));
                    }
                }
                Err(error) => unread.push(format!("the LUKS header of /dev/{device}: {error}")),
            }
        }
        Self {
            root: root_mount(&files::text(&root.join("proc/mounts")).unwrap_or_default()),
            is_encrypted: !open.is_empty() || !entries.is_empty(),
            sealed,
        }
    }
}

impl Resume {
    /// Device of the last `resume=` of a command line, looked at below `root`, in the page that
    /// `resume_offset=` names (`Documentation/power/swsusp-and-swap-files.rst`), or another one that has
    /// an image and that an initial RAM disk or systemd may find; none with `noresume`.
    #[must_use]
    pub fn read(root: &Path, cmdline: &str) -> Option<Self> {
        let words = || cmdline.split_whitespace();
        if words().any(|word| word == "noresume") {
            return None;
        }
        let last = |name| {
            words()
                .filter_map(|word| word.strip_prefix(name))
                .next_back()
        };
        let number = last("resume_offset=").map_or(Some(0), |number| number.parse().ok());
        let look = |device: &str, number: Option<u64>| {
            let path = device_path(device).zip(number);
            path.and_then(|(path, number)| is_hibernated(&root.join(path), number))
        };
        let named = last("resume=").map(|device| Self {
            device: device.to_owned(),
            has_image: look(device, number),
        });
        if named.as_ref().is_some_and(|it| it.has_image == Some(true)) {
            return named;
        }
        // Initial RAM disks and systemd find others by themselves.
        let others = of_initramfs_tools(root).into_iter().chain(swaps(root));
        let mut others = others.filter(|device| look(device, Some(0)) == Some(true));
        let found = others.next().map(|device| Self {
            device,
            has_image: Some(true),
        });
        found.or(named)
    }
}

/// Device that the initial RAM disks of initramfs-tools resume from.
fn of_initramfs_tools(root: &Path) -> Option<String> {
    let directory = root.join("etc/initramfs-tools");
    let beside = fs::read_dir(directory.join("conf.d"))
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<_> = beside.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, directory.join("initramfs.conf"));
    let lines = paths.iter().filter_map(|path| files::text(path));
    let value = |text: String| {
        let values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("RESUME="));
        values
            .map(|value| value.trim_matches('"').to_owned())
            .next_back()
    };
    lines.filter_map(value).next_back()
}

/// Swap devices of fstab(5).
fn swaps(root: &Path) -> Vec<String> {
    let text = files::text(&root.join("etc/fstab")).unwrap_or_default();
    let device = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let device = words.next().filter(|it| !it.starts_with('#'))?;
        (words.nth(1) == Some("swap")).then(|| device.to_owned())
    };
    text.lines().filter_map(device).collect()
}

/// Whether a page of a device has the signature of a hibernation; none if it cannot be read.
fn is_hibernated(device: &Path, page: u64) -> Option<bool> {
    let at = page.checked_mul(PAGE)?.checked_add(SIGNATURE)?;
    let mut signature = [0; HIBERNATED.len()];
    let file = files::open(device).ok()?;
    file.read_exact_at(&mut signature, at).ok()?;
    Some(signature == *HIBERNATED)
}

/// Devices below open LUKS2 ones, such as `sda2`. `dm/uuid` is cryptsetup's
/// `CRYPT-LUKS2-UUID-NAME`.
fn opened(root: &Path) -> Vec<String> {
    let mut names = sysfs::names(root, "class/block");
    names.sort();
    let mappings = names.iter().filter(|name| {
        let id = sysfs::line(root, &format!("class/block/{name}/dm/uuid"));
        id.is_some_and(|id| id.starts_with("CRYPT-LUKS2-"))
    });
    let below = mappings
        .take(MANY)
        .flat_map(|name| sysfs::names(root, &format!("class/block/{name}/slaves")));
    let mut below: Vec<_> = below.collect();
    below.sort();
    below.dedup();
    below
}

/// Types of the tokens in the header of a LUKS2 device.
fn tokens(device: &Path) -> std::io::Result<Vec<String>> {
    let header = files::start(device, LARGEST_HEADER)?;
    let text = || {
        header.strip_prefix(LUKS)?.strip_prefix(&[0, 2])?;
        let size = u64::from_be_bytes(header.get(8..16)?.try_into().ok()?);
        let size = usize::try_from(size.min(LARGEST_HEADER)).ok()?;
        let text = header.get(BINARY_HEADER..size.min(header.len()))?;
        let end = text.iter().position(|byte| *byte == 0);
        serde_json::from_slice::<Value>(&text[..end.unwrap_or(text.len())]).ok()
    };
    let Some(text) = text() else {
        return Err(std::io::Error::other("it is no LUKS2 header"));
    };
    let tokens = text["tokens"].as_object();
    let kinds = tokens.into_iter().flat_map(|tokens| tokens.values());
    Ok(kinds
        .filter_map(|token| Some(token["type"].as_str()?.to_owned()))
        .collect())
}

/// The file system at `/`, the last of which is on top (proc_mounts(5)).
fn root_mount(text: &str) -> Option<Mount> {
    let mounts = text.lines().take(1 << 16).filter_map(|line| {
        let mut fields = line.split(' ');
        let source = fields.next()?.to_owned();
        let is_root = fields.next()? == "/";
        let kind = fields.next()?.to_owned();
        is_root.then_some(Mount { source, kind })
    });
    mounts.last()
}
