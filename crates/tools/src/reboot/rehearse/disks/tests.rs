use std::fs;
use std::os::unix::fs::symlink;

use super::super::attachment::Bus;
use super::*;

/// A tree of sysfs, after those of real machines.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(mounts: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.file("proc/self/mountinfo", mounts);
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A device at a path below `/sys/devices`.
    fn device(&self, path: &str, number: &str) {
        let name = path.rsplit('/').next().unwrap();
        self.file(&format!("sys/devices/{path}/dev"), number);
        let target = format!("../../devices/{path}");
        self.link(&format!("sys/class/block/{name}"), &target);
        self.link(&format!("sys/dev/block/{number}"), &target);
    }

    fn partition(&self, path: &str, number: &str) {
        self.device(path, number);
        self.file(&format!("sys/devices/{path}/partition"), "1\n");
    }

    fn below(&self, upper: &str, lower: &str) {
        self.file(
            &format!("sys/devices/virtual/block/{upper}/slaves/{lower}/x"),
            "",
        );
    }

    fn driver(&self, path: &str, driver: &str) {
        let link = format!("sys/devices/{path}/driver");
        self.link(&link, &format!("../../bus/pci/drivers/{driver}"));
    }

    fn disks(&self) -> Vec<(String, Bus, Option<String>)> {
        let disks = of_system(self.0.path(), false).unwrap();
        let shown = disks
            .into_iter()
            .map(|disk| (disk.name, disk.attachment.bus, disk.attachment.unlike));
        shown.collect()
    }
}

fn like(name: &str, bus: Bus) -> (String, Bus, Option<String>) {
    (name.to_owned(), bus, None)
}

const SATA: &str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";

#[test]
fn a_partition_is_on_a_disk_that_is_attached_somehow() {
    let mount = "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n";
    let tree = Tree::new(mount);
    tree.device(SATA, "8:0");
    tree.partition(&format!("{SATA}/sda2"), "8:2");
    tree.driver("pci0000:00/0000:00:1f.2", "ahci");
    tree.driver(
        "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0",
        "sd",
    );
    assert_eq!(tree.disks(), [like("sda", Bus::Ahci)]);
}

#[test]
fn each_bus_is_known() {
    let cases = [
        (
            "pci0000:00/0000:00:04.0/virtio1/block/vda",
            "virtio-pci",
            Bus::VirtioBlk,
        ),
        (
            "pci0000:00/0000:00:04.0/virtio1/host0/target0:0:0/0:0:0:0/block/sda",
            "virtio-pci",
            Bus::VirtioScsi,
        ),
        (
            "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1",
            "nvme",
            Bus::Nvme,
        ),
        (
            "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb",
            "xhci_hcd",
            Bus::Usb,
        ),
        (
            "pci0000:00/0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda",
            "megaraid_sas",
            Bus::MegaRaid,
        ),
        (
            "pci0000:00/0000:03:00.0/host0/target0:0:0/0:0:0:0/block/sda",
            "vmw_pvscsi",
            Bus::Pvscsi,
        ),
    ];
    for (path, driver, bus) in cases {
        let tree = Tree::new("22 1 8:0 / / rw - ext4 /dev/root rw\n");
        tree.device(path, "8:0");
        let device: Vec<_> = path.split('/').take(2).collect();
        tree.driver(&device.join("/"), driver);
        let name = path.rsplit('/').next().unwrap();
        assert_eq!(tree.disks(), [like(name, bus)], "{path}");
    }
}

#[test]
fn a_controller_that_no_vm_has_is_named() {
    let tree = Tree::new("22 1 8:0 / / rw - xfs /dev/sda rw\n");
    let path = "pci0000:00/0000:03:00.0/host0/target0:0:0/0:0:0:0/block/sda";
    tree.device(path, "8:0");
    tree.driver("pci0000:00/0000:03:00.0", "mpt3sas");
    let unlike = Some("mpt3sas".to_owned());
    assert_eq!(tree.disks(), [("sda".to_owned(), Bus::Ahci, unlike)]);
}

#[test]
fn what_is_mapped_or_joined_leads_to_its_disks() {
    let mounts = "22 1 254:1 / / rw - ext4 /dev/mapper/vg-root rw\n\
                  30 22 259:9 / /boot rw - ext4 /dev/nvme2n1p1 rw\n\
                  31 22 259:8 / /home rw - ext4 /dev/nvme3n1 rw\n";
    let tree = Tree::new(mounts);
    // LVM on dm-crypt on RAID 1.
    for (name, number) in [("dm-1", "254:1"), ("dm-0", "254:0"), ("md0", "9:0")] {
        tree.device(&format!("virtual/block/{name}"), number);
    }
    tree.below("dm-1", "dm-0");
    tree.below("dm-0", "md0");
    for (index, part) in [
        ("0", "259:2"),
        ("1", "259:4"),
        ("2", "259:9"),
        ("10", "259:10"),
    ] {
        let disk = format!(
            "pci0000:00/0000:0{}:00.0/nvme/nvme{index}/nvme{index}n1",
            &index[..1]
        );
        tree.device(&disk, &format!("259:2{index}"));
        tree.partition(&format!("{disk}/nvme{index}n1p1"), part);
    }
    tree.device("pci0000:00/0000:07:00.0/nvme/nvme3/nvme3n1", "259:8");
    for part in ["nvme0n1p1", "nvme1n1p1", "nvme10n1p1"] {
        tree.below("md0", part);
    }
    let names = ["nvme0n1", "nvme1n1", "nvme2n1", "nvme10n1"];
    assert_eq!(tree.disks(), names.map(|name| like(name, Bus::Nvme)));
    let all = of_system(tree.0.path(), true).unwrap();
    assert_eq!(all.len(), 5);
}

#[test]
fn a_btrfs_is_on_all_its_devices() {
    let tree = Tree::new("22 1 0:27 /@ / rw - btrfs /dev/vdb1 rw,subvol=/@\n");
    for (name, number) in [("vda", "252:0"), ("vdb", "252:16"), ("vdc", "252:32")] {
        tree.device(
            &format!("pci0000:00/0000:00:04.0/virtio1/block/{name}"),
            number,
        );
    }
    tree.partition("pci0000:00/0000:00:04.0/virtio1/block/vdb/vdb1", "252:17");
    tree.file("sys/fs/btrfs/11-22/devices/vdb1/x", "");
    tree.file("sys/fs/btrfs/11-22/devices/vdc/x", "");
    tree.file("sys/fs/btrfs/33-44/devices/vda/x", "");
    tree.file("sys/fs/btrfs/features/x", "");
    let both = [like("vdb", Bus::VirtioBlk), like("vdc", Bus::VirtioBlk)];
    assert_eq!(tree.disks(), both);
}

#[test]
fn paths_to_one_disk_are_one() {
    let tree = Tree::new("22 1 254:0 / / rw - xfs /dev/mapper/mpatha rw\n");
    tree.device("virtual/block/dm-0", "254:0");
    tree.file(
        "sys/devices/virtual/block/dm-0/dm/uuid",
        "mpath-3600508b400105e210000900000490000\n",
    );
    for (host, name) in [("0", "sda"), ("1", "sdb")] {
        let path = format!("pci0000:00/0000:03:00.0/host{host}/target0:0:0/0:0:0:0/block/{name}");
        tree.device(&path, &format!("8:{host}6"));
        tree.below("dm-0", name);
    }
    let names: Vec<_> = tree.disks().into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["sda"]);
}

#[test]
fn a_root_on_no_disk_is_named() {
    let of = |mounts: &str| of_system(Tree::new(mounts).0.path(), false).unwrap_err();
    let error = of("22 1 0:40 / / rw - nfs4 10.0.0.2:/srv rw\n").to_string();
    assert!(
        error.contains("nfs4 on 10.0.0.2:/srv") && error.contains("--disk"),
        "{error}"
    );
    // The last mount is on top; and a path leads nowhere else.
    let mounts = "1 1 8:2 / / rw - ext4 /dev/sda2 rw\n22 1 0:40 / / rw - btrfs /dev/../x rw\n";
    assert!(matches!(of(mounts), DisksError::NoDisk { .. }));
    assert!(matches!(of("garbage\n"), DisksError::NoTable(_)));
}

#[test]
fn what_was_written_is_counted() {
    let tree = Tree::new("");
    tree.file(
        "sys/class/block/sda/stat",
        "  1 2 3 4 5 6 2048 8 0 10 11 0 0 0 0 0 0\n",
    );
    assert_eq!(HostDisk::written(tree.0.path(), "sda"), Some(1 << 20));
    assert_eq!(HostDisk::written(tree.0.path(), "sdb"), None);
}

#[test]
fn serial_numbers_that_are_words_are_taken() {
    for (text, is_it) in [
        ("S4EVNX0M1", true),
        ("a b", false),
        ("a,b", false),
        ("", false),
    ] {
        let tree = Tree::new("");
        tree.file("sys/class/block/vda/serial", text);
        let disk = HostDisk::of(tree.0.path(), "vda".to_owned());
        assert_eq!(disk.serial.is_some(), is_it, "{text}");
    }
}

#[test]
fn what_a_system_makes_itself_is_no_disk_of_it() {
    let mounts = "22 1 252:0 / / rw - ext4 /dev/vda rw\n\
                  23 22 7:3 / /snap/core/1 ro - squashfs /dev/loop3 ro\n\
                  24 22 252:16 / /srv rw - ext4 /dev/vdb rw\n";
    let tree = Tree::new(mounts);
    tree.device("pci0000:00/0000:00:04.0/virtio1/block/vda", "252:0");
    tree.device("pci0000:00/0000:00:05.0/virtio2/block/vdb", "252:16");
    tree.device("virtual/block/loop3", "7:3");
    let of = |all| of_system(tree.0.path(), all).unwrap();
    let names = |all| {
        of(all)
            .into_iter()
            .map(|disk| disk.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["vda"]);
    assert_eq!(names(true), ["vda", "vdb"]);
    // A system may be on one all the same.
    tree.file(
        "proc/self/mountinfo",
        "22 1 7:3 / / rw - ext4 /dev/loop3 rw\n",
    );
    assert_eq!(names(false), ["loop3"]);
    assert_eq!(of(false)[0].attachment.unlike, None);
}
