//! Devices on the bus of the machine type.

use super::part::{Parts, socket};
use crate::qemu::blockdev::block_node;
use crate::qemu::cmdline::escape;
use crate::qemu::config::VmConfig;
use crate::qemu::machine::{Disk, Fds, Filesystem, Network};

/// Begins the names of channels to what serves directories.
pub const FILESYSTEM: &str = "fs";

pub(super) fn add(parts: &mut Parts, plan: &VmConfig) {
    add_disks(parts, plan);
    add_filesystems(parts, plan);
    add_others(parts, plan);
}

fn add_disks(parts: &mut Parts, plan: &VmConfig) {
    let suffix = plan.machine.transport().suffix();
    let mut backing_fds = Fds::BACKING..;
    for (index, disk) in plan.devices.disks.iter().enumerate() {
        let slot = parts.slots.next();
        let path = disk.path.to_string_lossy();
        let fd = Fds::DISKS + index as i32;
        parts.add_fd(fd, "the disk's image");
        let backing: Vec<_> = disk.backing.iter().zip(&mut backing_fds).collect();
        for (file, fd) in &backing {
            let why = format!("what the disk reads from, {}", file.path.display());
            parts.add_fd(*fd, &why);
        }
        parts.add(
            [
                "-blockdev",
                &block_node(index, disk, fd, &backing),
                "-device",
                &format!(
                    "virtio-blk-{suffix},drive=disk{index},logical_block_size={0},\
                         physical_block_size={0}{slot}",
                    disk.sector_size
                ),
            ],
            &format!("disk {path}, {} in the guest", Disk::node(index)),
        );
    }
}

fn add_filesystems(parts: &mut Parts, plan: &VmConfig) {
    let suffix = plan.machine.transport().suffix();
    for (index, filesystem) in plan.devices.filesystems.iter().enumerate() {
        let slot = parts.slots.next();
        match filesystem {
            Filesystem::Virtiofs { tag } => parts.add(
                [
                    "-chardev",
                    &socket(
                        &format!("{FILESYSTEM}{index}"),
                        Fds::FILESYSTEMS + index as i32,
                    ),
                    "-device",
                    &format!("vhost-user-fs-{suffix},chardev={FILESYSTEM}{index},tag={tag}{slot}"),
                ],
                "a directory of the host, served by virtiofsd",
            ),
            Filesystem::NineP { tag, path, access } => parts.add(
                [
                    "-fsdev",
                    &format!(
                        "local,id=fs{index},path={},security_model=none,readonly={}",
                        escape(&path.to_string_lossy()),
                        if access.is_writable() { "off" } else { "on" }
                    ),
                    "-device",
                    &format!("virtio-9p-{suffix},fsdev=fs{index},mount_tag={tag}{slot}"),
                ],
                "a directory of the host, served by QEMU because there is no virtiofsd",
            ),
        }
    }
}

/// Network card, memory balloon and generation.
fn add_others(parts: &mut Parts, plan: &VmConfig) {
    let suffix = plan.machine.transport().suffix();
    let rom = if suffix == "pci" { ",romfile=" } else { "" };
    if plan.devices.network == Network::User {
        let slot = parts.slots.next();
        let mac = plan
            .devices
            .mac
            .map(|mac| format!(",mac={}", in_hex(&mac, ":")));
        let mac = mac.unwrap_or_default();
        parts.add(
            [
                "-netdev",
                "user,id=net0",
                "-device",
                &format!("virtio-net-{suffix},netdev=net0{mac}{rom}{slot}"),
            ],
            "QEMU's user network: outgoing connections only",
        );
    }
    if plan.memory.reports_free {
        let slot = parts.slots.next();
        parts.add(
            [
                "-device",
                &format!("virtio-balloon-{suffix},free-page-reporting=on{slot}"),
            ],
            "memory that the guest does not use goes back to the host, and into no image",
        );
    }
    if let Some(generation) = plan.devices.generation {
        let digits = in_hex(&generation, "");
        let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        let guid = groups.join("-");
        parts.add(
            ["-device", &format!("vmgenid,guid={guid}")],
            "a clone's kernel is notified that it is one, and draws other random numbers",
        );
    }
}

fn in_hex(bytes: &[u8], between: &str) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(between)
}
