//! Where files of boot loaders are: a loader knows file systems, the system knows mounts.

use std::path::{Path, PathBuf};

use crate::tree::Tree;

/// Where snapper has its snapshots.
pub(super) const SNAPSHOTS: &str = "/.snapshots";
/// Mount points that boot loaders read files of.
const POINTS: [&str; 6] = [
    "/boot",
    "/",
    "/boot/efi",
    "/efi",
    "/boot/firmware",
    SNAPSHOTS,
];

/// A file system, as a boot loader names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Device<'a> {
    /// The one with this UUID.
    Uuid(&'a str),
    /// One that cannot be told from here, such as `hd0,gpt2`.
    Unknown,
    /// One that is no file system of this system, such as an image.
    Elsewhere,
}

/// A file that a boot loader names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Located {
    /// Path on the system; the likeliest one of a file that is not there.
    pub(super) path: PathBuf,
    /// Whether it is on a file system that this system has not mounted, as far as is known.
    pub(super) is_foreign: bool,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    point: &'static str,
    /// Directory of the file system that is mounted, such as a subvolume of Btrfs.
    from: PathBuf,
    uuid: Option<String>,
    is_btrfs: bool,
}

/// Mounts that boot loaders read files of.
#[derive(Debug, Clone)]
pub(super) struct Mounts {
    tree: Tree,
    mounts: Vec<Mount>,
    /// Whether it is known which directories of file systems are mounted.
    is_running: bool,
    /// Mount points that are configured, and not mounted in the system that runs.
    absent: Vec<&'static str>,
}

impl Mounts {
    /// Those in `proc/self/mountinfo` and `etc/fstab`.
    pub(super) fn read(tree: &Tree) -> Self {
        let text = |path: &str| tree.text(Path::new(path)).unwrap_or_default();
        let uuids = Uuids::read(tree);
        let mut mounts = mounted(&text("/proc/self/mountinfo"), &uuids);
        let configured = configured(&text("/etc/fstab"));
        let is_absent = |point: &&str| {
            let mut mounts = mounts.iter();
            mounts.len() > 0 && *point != SNAPSHOTS && !mounts.any(|it| it.point == *point)
        };
        let absent = configured.iter().map(|it| it.point).filter(is_absent);
        let absent = absent.collect();
        let is_running = mounts.iter().any(|it| it.point == "/");
        merge(&mut mounts, configured);
        mounts.sort_by_key(|mount| POINTS.iter().position(|it| *it == mount.point));
        Self {
            tree: tree.clone(),
            mounts,
            is_running,
            absent,
        }
    }

    /// Notes of mounts that `etc/fstab` has and that are missing, each a sentence without its end.
    pub(super) fn absent(&self) -> impl Iterator<Item = String> {
        let points = self.absent.iter();
        points.map(|point| format!("{point} of /etc/fstab is not mounted; try mount {point}"))
    }

    /// The file at a path of a file system, or the directory.
    pub(super) fn locate(&self, device: Device, path: &str) -> Located {
        let path = Path::new(path);
        let (mut is_known, mut is_exact) = (false, false);
        let mut is_foreign = device == Device::Elsewhere;
        let mut candidates = Vec::new();
        if let Device::Uuid(uuid) = device {
            let same: Vec<_> = self.of(uuid).collect();
            candidates.extend(same.iter().filter_map(|it| it.place(path)));
            is_known = !same.is_empty();
            is_foreign = !is_known && self.knows_uuids();
            is_exact = is_known && !same.iter().any(|it| it.is_btrfs);
            if !is_exact {
                // A path may also be one in the default subvolume, which is mounted.
                candidates.extend(same.iter().map(|it| at(it.point, path)));
            }
        }
        if !is_foreign && !is_exact {
            candidates.extend(self.mounts.iter().filter_map(|it| it.place(path)));
            candidates.extend(guesses(path, !self.is_running));
        }
        let there = candidates.iter().find(|path| self.is_there(path));
        let in_boot = candidates.iter().find(|it| it.starts_with("/boot"));
        let likeliest = match is_known {
            true => candidates.first(),
            false => in_boot.or(candidates.first()),
        };
        Located {
            is_foreign,
            path: there
                .or(likeliest)
                .cloned()
                .unwrap_or_else(|| at("/", path)),
        }
    }

    /// The file at a path of a subvolume of Btrfs, and of no other one.
    pub(super) fn locate_in_subvolume(
        &self,
        device: Device,
        subvolume: &str,
        path: &str,
    ) -> Located {
        let mounts: Vec<_> = match device {
            Device::Uuid(uuid) => self.of(uuid).collect(),
            Device::Unknown | Device::Elsewhere => self.mounts.iter().collect(),
        };
        if !mounts.is_empty() && !mounts.iter().any(|it| it.is_btrfs) {
            return self.locate(device, path);
        }
        let whole = at("/", Path::new(subvolume));
        let whole = whole.join(path.trim_start_matches('/'));
        let places = mounts.iter().filter(|it| it.is_btrfs);
        let candidates: Vec<_> = places.filter_map(|it| it.place(&whole)).collect();
        let there = candidates.iter().find(|path| self.is_there(path));
        Located {
            is_foreign: device == Device::Elsewhere || (mounts.is_empty() && self.knows_uuids()),
            path: there.or(candidates.first()).cloned().unwrap_or(whole),
        }
    }

    /// UUID of the file system with this label, if the system has it.
    pub(super) fn uuid_of_label(&self, label: &str) -> Option<String> {
        let link = Path::new("/dev/disk/by-label").join(label);
        (!label.contains('/')).then(|| Uuids::read(&self.tree).of(link.to_str()?))?
    }

    /// Whether the file system with this UUID is mounted where boot loaders have files.
    pub(super) fn has(&self, uuid: &str) -> bool {
        self.of(uuid).next().is_some()
    }

    /// Mounts of the file system with this UUID.
    fn of(&self, uuid: &str) -> impl Iterator<Item = &Mount> {
        let is_same = move |it: &&Mount| {
            let known = it.uuid.as_deref();
            known.is_some_and(|it| it.eq_ignore_ascii_case(uuid))
        };
        self.mounts.iter().filter(is_same)
    }

    /// UUID of the file system that has `/boot`, if it is known.
    pub(super) fn boot_uuid(&self) -> Option<String> {
        let at = |point: &str| self.mounts.iter().find(|it| it.point == point);
        at("/boot").or_else(|| at("/"))?.uuid.clone()
    }

    fn is_there(&self, path: &Path) -> bool {
        self.tree.is_file(path) || self.tree.is_dir(path)
    }

    /// Whether all of the mounts that are known have a UUID, among them the root.
    fn knows_uuids(&self) -> bool {
        self.mounts.iter().any(|it| it.point == "/")
            && self.mounts.iter().all(|it| it.uuid.is_some())
    }
}

impl Mount {
    /// Where a path of the file system is on the system.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let from = self.from.strip_prefix("/").unwrap_or(&self.from);
        let path = path.strip_prefix("/").unwrap_or(path);
        let rest = path.strip_prefix(from).ok()?;
        Some(Path::new(self.point).join(rest))
    }
}

/// A path below a mount point.
fn at(point: &str, path: &Path) -> PathBuf {
    Path::new(point).join(path.strip_prefix("/").unwrap_or(path))
}

/// Places that distributions use. The root of a Btrfs file system has subvolumes such as `@`, `root`
/// or `@/.snapshots/1/snapshot`, in which the system has its `/boot`. Where mounts are known, that is
/// one of the system's or that of a snapshot, which is another one.
fn guesses(path: &Path, may_be_subvolume: bool) -> Vec<PathBuf> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let points = ["/", "/boot", "/boot/efi", "/efi"];
    let mut places: Vec<_> = points.iter().map(|point| at(point, path)).collect();
    if !may_be_subvolume {
        return places;
    }
    let mut names: Vec<_> = path.iter().collect();
    while names.len() > 1 && names[0] != "boot" {
        names.remove(0);
    }
    if names.first().is_some_and(|name| *name == "boot") {
        places.push(Path::new("/").join(names.iter().collect::<PathBuf>()));
    }
    places
}

/// UUIDs of devices, by the name of the device.
struct Uuids<'a> {
    tree: &'a Tree,
    found: Vec<(String, String)>,
}

impl<'a> Uuids<'a> {
    fn read(tree: &'a Tree) -> Self {
        let directory = Path::new("/dev/disk/by-uuid");
        let names = tree.names(directory).unwrap_or_default();
        let device = |uuid: String| {
            let target = tree.link(&directory.join(&uuid))?;
            Some((target.file_name()?.to_str()?.to_owned(), uuid))
        };
        Self {
            tree,
            found: names.into_iter().filter_map(device).collect(),
        }
    }

    /// The UUID of what is mounted from a path such as `/dev/sda2` or `/dev/mapper/vg-root`.
    fn of(&self, source: &str) -> Option<String> {
        let source = Path::new(source);
        let target = self.tree.link(source);
        let name = target.as_deref().unwrap_or(source).file_name()?.to_str()?;
        let found = self.found.iter().find(|(device, _)| device == name);
        found.map(|(_, uuid)| uuid.clone())
    }
}

/// Mounts of proc(5), `/proc/PID/mountinfo`.
fn mounted(text: &str, uuids: &Uuids) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for line in text.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = left.split(' ').skip(3);
        let (Some(from), Some(point)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mut fields = right.split(' ');
        let (kind, source) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        if let Some(point) = known(point).filter(|_| kind != "autofs") {
            let source = unescape(source);
            // GRUB's paths have the dataset of a pool, and a snapshot behind the at sign.
            let dataset = source.split_once('/').map_or("", |(_, it)| it);
            let from = match kind {
                "zfs" => format!("/{dataset}@"),
                _ => unescape(from),
            };
            let mount = Mount {
                point,
                from: from.into(),
                uuid: uuids.of(&source),
                is_btrfs: kind == "btrfs",
            };
            // The last one covers what was mounted there before.
            mounts.retain(|it: &Mount| it.point != point);
            mounts.push(mount);
        }
    }
    mounts
}

/// Mounts of fstab(5).
fn configured(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let source = fields.next().filter(|it| !it.starts_with('#'))?;
        let point = known(fields.next()?)?;
        let is_btrfs = fields.next() == Some("btrfs");
        let options = fields.next().unwrap_or("");
        let subvolume = options.split(',').find_map(|it| it.strip_prefix("subvol="));
        let uuid = source
            .strip_prefix("UUID=")
            .or_else(|| source.strip_prefix("/dev/disk/by-uuid/"));
        Some(Mount {
            point,
            from: Path::new("/").join(unescape(subvolume.unwrap_or("/"))),
            uuid: uuid.map(|it| it.trim_matches('"').to_owned()),
            is_btrfs,
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Adds what only the configuration knows.
fn merge(mounts: &mut Vec<Mount>, configured: Vec<Mount>) {
    let is_running = !mounts.is_empty();
    for mount in configured {
        match mounts.iter_mut().find(|it| it.point == mount.point) {
            Some(known) => {
                if known.uuid.is_none() {
                    known.uuid = mount.uuid;
                }
            }
            None if is_running => {}
            None => mounts.push(mount),
        }
    }
}

fn known(point: &str) -> Option<&'static str> {
    POINTS.into_iter().find(|it| *it == point)
}

/// Text with the octal escapes of mountinfo and fstab, such as `\040`, replaced.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut found = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|it| u8::from_str_radix(it, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                found.push(code.into());
                found.push_str(&part[3..]);
            }
            None => {
                found.push('\\');
                found.push_str(part);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn system(files: &[&str], mountinfo: &str, fstab: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for file in files {
            write(file, "");
        }
        write("proc/self/mountinfo", mountinfo);
        write("etc/fstab", fstab);
        let by_uuid = root.path().join("dev/disk/by-uuid");
        fs::create_dir_all(&by_uuid).unwrap();
        symlink("../../sda1", by_uuid.join("1111-root")).unwrap();
        symlink("../../dm-0", by_uuid.join("2222-boot")).unwrap();
        symlink("../../sdb1", by_uuid.join("3333-other")).unwrap();
        fs::create_dir_all(root.path().join("dev/mapper")).unwrap();
        symlink("../dm-0", root.path().join("dev/mapper/vg-boot")).unwrap();
        root
    }

    const SEPARATE: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 253:0 / /boot rw - ext4 /dev/mapper/vg-boot rw\n";
    const SUBVOLUME: &str = "22 1 0:30 /@ / rw - btrfs /dev/sda1 rw,subvol=/@\n";
    const ZFS: &str =
        "22 1 0:30 / / rw - zfs rpool/ROOT/u_1 rw\n30 22 0:31 / /boot rw - zfs bpool/BOOT/u_1 rw\n";
    const SNAPSHOT: &str = "22 1 0:30 /@/.snapshots/1/snapshot / rw - btrfs /dev/sda1 rw\n";

    /// Of a system with one file: the device, the path on it, and where that is.
    struct Case(
        &'static str,
        &'static str,
        Device<'static>,
        &'static str,
        &'static str,
    );

    #[test]
    fn files_are_found_where_they_are_mounted() {
        let kernel = "boot/vmlinuz-6";
        let (root, boot) = (Device::Uuid("1111-ROOT"), Device::Uuid("2222-boot"));
        let other = Device::Uuid("3333-other");
        let unknown = Device::Unknown;
        for Case(mountinfo, file, device, path, expected) in [
            Case(SEPARATE, kernel, boot, "/vmlinuz-6", "/boot/vmlinuz-6"),
            Case(SEPARATE, "no", boot, "/vmlinuz-6", "/boot/vmlinuz-6"),
            Case(SNAPSHOT, kernel, root, "/boot/vmlinuz-6", "/boot/vmlinuz-6"),
            Case(SEPARATE, "usr/k", root, "/usr/k", "/usr/k"),
            Case(SEPARATE, kernel, other, "/boot/vmlinuz-6", "elsewhere"),
            Case(SEPARATE, kernel, unknown, "/vmlinuz-6", "/boot/vmlinuz-6"),
            Case(
                SUBVOLUME,
                kernel,
                root,
                "/@/boot/vmlinuz-6",
                "/boot/vmlinuz-6",
            ),
            Case(
                SUBVOLUME,
                kernel,
                unknown,
                "/@/boot/vmlinuz-6",
                "/boot/vmlinuz-6",
            ),
            Case(
                SNAPSHOT,
                "boot/v",
                root,
                "/@/.snapshots/1/snapshot/boot/v",
                "/boot/v",
            ),
            Case("", "boot/v", root, "/@rootfs/boot/v", "/boot/v"),
            // A snapshot has another kernel of that name.
            Case(
                SUBVOLUME,
                "boot/v",
                root,
                "/@snapshots/5/snapshot/boot/v",
                "/@snapshots/5/snapshot/boot/v",
            ),
            Case(ZFS, "boot/v", unknown, "/BOOT/u_1@/v", "/boot/v"),
            Case(ZFS, "usr/v", unknown, "/ROOT/u_1@/usr/v", "/usr/v"),
            Case(
                ZFS,
                "boot/v",
                unknown,
                "/BOOT/u_1@old/v",
                "/boot/BOOT/u_1@old/v",
            ),
            Case("", "boot/efi/EFI/l", unknown, "/EFI/l", "/boot/efi/EFI/l"),
            Case("", "x", unknown, "/vmlinuz-6", "/boot/vmlinuz-6"),
        ] {
            let system = system(&[file], mountinfo, "");
            let mounts = Mounts::read(&Tree::new(system.path()));
            let located = mounts.locate(device, path);
            assert_eq!(
                located.is_foreign,
                expected == "elsewhere",
                "{device:?} {path}"
            );
            if !located.is_foreign {
                assert_eq!(located.path, Path::new(expected), "{device:?} {path}");
            }
        }
    }

    #[test]
    fn fstab_knows_the_mounts_of_a_tree_that_does_not_run() {
        let fstab = "# comment\nUUID=aaaa / btrfs subvol=@root,noatime 0 0\nUUID=bbbb /boot\\040x ext4 defaults\nUUID=cccc /boot ext4\n";
        let root = system(&["boot/vmlinuz-6"], "", fstab);
        let mounts = Mounts::read(&Tree::new(root.path()));
        let path = |device, path| mounts.locate(device, path).path;
        assert_eq!(
            path(Device::Uuid("cccc"), "/vmlinuz-6"),
            Path::new("/boot/vmlinuz-6")
        );
        assert_eq!(path(Device::Uuid("aaaa"), "/@root/usr"), Path::new("/usr"));
        assert!(mounts.locate(Device::Uuid("dddd"), "/vmlinuz-6").is_foreign);
    }

    #[test]
    fn escapes_are_octal() {
        assert_eq!(unescape(r"a\040b\134c\9"), r"a b\c\9");
    }
}
