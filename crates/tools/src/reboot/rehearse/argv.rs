//! QEMU's command line for a rehearsal. Pure.

use brisk_vm::qemu::{Accelerator, Disk, DiskFormat, Fds, SANDBOX};
use serde_json::{Value, json};

use super::attachment::Bus;

/// First layer; the others follow. Disks and their backing files have the numbers of [`Fds`].
pub(super) const LAYERS: i32 = 32;

/// A disk of the VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VmDisk {
    /// The image or device, which is not written to.
    pub(super) disk: Disk,
    /// What it is attached to.
    pub(super) bus: Bus,
    /// Serial number.
    pub(super) serial: Option<String>,
}

/// A VM for a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Vm {
    pub(super) accelerator: Accelerator,
    pub(super) memory_mib: u64,
    pub(super) cpus: u32,
    /// Kernel command line.
    pub(super) cmdline: String,
    pub(super) has_initrd: bool,
    pub(super) disks: Vec<VmDisk>,
}

/// QEMU's command line without the program's name.
pub(super) fn argv(vm: &Vm) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
    add(&["-nodefaults", "-no-user-config", "-display", "none"]);
    add(&["-sandbox", SANDBOX]);
    // A reset is the end of a rehearsal: panic= would have it begin again.
    add(&["-no-reboot"]);
    add(&["-M", "q35,usb=off,hpet=off,dump-guest-core=off"]);
    add(&["-accel", vm.accelerator.name()]);
    add(&[
        "-cpu",
        match vm.accelerator {
            Accelerator::Kvm => "host",
            Accelerator::Tcg => "max",
        },
    ]);
    add(&["-smp", &vm.cpus.to_string()]);
    add(&["-m", &format!("{}M", vm.memory_mib)]);
    add(&["-chardev", &format!("socket,id=qmp,fd={}", Fds::QMP)]);
    add(&["-mon", "chardev=qmp,mode=control"]);
    add(&[
        "-chardev",
        &format!("socket,id=console,fd={}", Fds::CONSOLE),
    ]);
    add(&["-serial", "chardev:console"]);
    add(&["-kernel", &Fds::path(Fds::KERNEL)]);
    if vm.has_initrd {
        add(&["-initrd", &Fds::path(Fds::INITRAMFS)]);
    }
    add(&["-append", &vm.cmdline]);
    let mut backing = Fds::BACKING..;
    for (index, disk) in vm.disks.iter().enumerate() {
        let numbers: Vec<_> = disk.disk.backing.iter().zip(&mut backing).collect();
        let numbers: Vec<_> = numbers.into_iter().map(|(_, number)| number).collect();
        let all = [Fds::DISKS + index as i32, LAYERS + index as i32];
        for number in all.iter().chain(&numbers) {
            add(&["-add-fd", &format!("fd={number},set={number}")]);
        }
        for node in nodes(index, &disk.disk, &numbers) {
            add(&["-blockdev", &node.to_string()]);
        }
    }
    for device in devices(&vm.disks) {
        add(&["-device", &device]);
    }
    words
}

fn file(number: i32, is_device: bool) -> Value {
    let driver = if is_device { "host_device" } else { "file" };
    let mut file = json!({ "driver": driver, "filename": format!("/dev/fdset/{number}") });
    if is_device {
        // Around the host's cache of the device, which may have other than what is on it: a file
        // system that is mounted has a cache of its own.
        file["cache"] = json!({ "direct": true });
    }
    file
}

/// The nodes of a disk: what is there, read only, and the layer above it, which is the disk. QEMU
/// gets the format of each file that it reads from, so that it opens no file that an image names.
fn nodes(index: usize, disk: &Disk, backing: &[i32]) -> [Value; 2] {
    let chain = disk.backing.iter().zip(backing).rev();
    let chain = chain.fold(Value::Null, |behind, (one, number)| {
        let mut node = json!({
            "driver": one.format.driver(),
            "read-only": true,
            "file": file(*number, false),
        });
        if one.format == DiskFormat::Qcow2 {
            node["backing"] = behind;
        }
        node
    });
    let mut base = json!({
        "driver": disk.format.driver(),
        "node-name": format!("base{index}"),
        "read-only": true,
        "file": file(Fds::DISKS + index as i32, disk.device),
    });
    if disk.format == DiskFormat::Qcow2 {
        base["backing"] = chain;
    }
    let layer = json!({
        "driver": "qcow2",
        "node-name": format!("disk{index}"),
        "file": file(LAYERS + index as i32, false),
        "backing": format!("base{index}"),
    });
    [base, layer]
}

/// Controllers, each before its first disk, and disks.
fn devices(disks: &[VmDisk]) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut numbers: Vec<(Bus, usize)> = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let bus = disk.bus;
        let known = numbers.iter_mut().find(|(known, _)| *known == bus);
        let number = match known {
            Some((_, number)) => {
                *number += 1;
                *number
            }
            None => {
                let controller = match bus {
                    Bus::VirtioScsi | Bus::MegaRaid | Bus::MptSas | Bus::Pvscsi => {
                        Some(format!("{},id={}", bus.device(), controller(bus)))
                    }
                    Bus::Usb => Some("qemu-xhci,id=usb".to_owned()),
                    Bus::VirtioBlk | Bus::Ahci | Bus::Nvme => None,
                };
                list.extend(controller);
                numbers.push((bus, 0));
                0
            }
        };
        list.push(device(index, disk, number));
    }
    list
}

/// Name of a controller in QEMU.
const fn controller(bus: Bus) -> &'static str {
    match bus {
        Bus::MegaRaid => "megaraid",
        Bus::MptSas => "mptsas",
        Bus::Pvscsi => "pvscsi",
        _ => "scsi",
    }
}

/// The device of the disk at `index`, which is the one of this number on its bus.
fn device(index: usize, disk: &VmDisk, number: usize) -> String {
    let drive = format!("drive=disk{index}");
    let sectors = format!(
        "logical_block_size={0},physical_block_size={0}",
        disk.disk.sector_size
    );
    let serial = match &disk.serial {
        Some(serial) => format!(",serial={serial}"),
        None => String::new(),
    };
    match disk.bus {
        Bus::VirtioBlk => format!("virtio-blk-pci,{drive},{sectors}{serial}"),
        // It has no other sectors than those of 512 bytes.
        Bus::Ahci => format!("ide-hd,{drive},bus=ide.{number}{serial}"),
        // It does not start without a serial number.
        Bus::Nvme => {
            let serial = disk.serial.clone().unwrap_or(format!("brisk{number}"));
            format!("nvme,{drive},serial={serial},{sectors}")
        }
        Bus::Usb => format!("usb-storage,{drive},bus=usb.0{serial}"),
        bus @ (Bus::VirtioScsi | Bus::MegaRaid | Bus::MptSas | Bus::Pvscsi) => format!(
            "scsi-hd,{drive},bus={}.0,scsi-id={number},{sectors}{serial}",
            controller(bus)
        ),
    }
}

#[cfg(test)]
mod tests {
    use brisk_vm::qemu::Backing;

    use super::*;

    fn disk(path: &str, bus: Bus) -> VmDisk {
        VmDisk {
            disk: Disk {
                path: path.into(),
                format: DiskFormat::Raw,
                backing: Vec::new(),
                device: path.starts_with("/dev"),
                writable: false,
                sector_size: 512,
            },
            bus,
            serial: None,
        }
    }

    fn vm(disks: Vec<VmDisk>) -> Vm {
        Vm {
            accelerator: Accelerator::Tcg,
            memory_mib: 1024,
            cpus: 1,
            cmdline: "root=/dev/vda ro".to_owned(),
            has_initrd: true,
            disks,
        }
    }

    #[test]
    fn a_device_is_read_around_the_cache_and_written_to_a_layer() {
        let words = argv(&vm(vec![disk("/dev/sda", Bus::Ahci)]));
        let text = words.join("\n");
        insta::assert_snapshot!(text, @r#"
        -nodefaults
        -no-user-config
        -display
        none
        -sandbox
        on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
        -no-reboot
        -M
        q35,usb=off,hpet=off,dump-guest-core=off
        -accel
        tcg
        -cpu
        max
        -smp
        1
        -m
        1024M
        -chardev
        socket,id=qmp,fd=3
        -mon
        chardev=qmp,mode=control
        -chardev
        socket,id=console,fd=4
        -serial
        chardev:console
        -kernel
        /proc/self/fd/7
        -initrd
        /proc/self/fd/8
        -append
        root=/dev/vda ro
        -add-fd
        fd=16,set=16
        -add-fd
        fd=32,set=32
        -blockdev
        {"driver":"raw","file":{"cache":{"direct":true},"driver":"host_device","filename":"/dev/fdset/16"},"node-name":"base0","read-only":true}
        -blockdev
        {"backing":"base0","driver":"qcow2","file":{"driver":"file","filename":"/dev/fdset/32"},"node-name":"disk0"}
        -device
        ide-hd,drive=disk0,bus=ide.0
        "#);
    }

    #[test]
    fn each_file_of_a_chain_has_its_format_and_is_read_only() {
        let mut image = disk("a.qcow2", Bus::VirtioBlk);
        image.disk.format = DiskFormat::Qcow2;
        for (path, format) in [("b.qcow2", DiskFormat::Qcow2), ("c.img", DiskFormat::Raw)] {
            let path = path.into();
            image.disk.backing.push(Backing { path, format });
        }
        let words = argv(&vm(vec![disk("d.img", Bus::VirtioBlk), image]));
        let node = words
            .iter()
            .find(|word| word.contains("base1\",\"read-only"))
            .unwrap();
        let node: Value = serde_json::from_str(node).unwrap();
        assert_eq!(node["backing"]["file"]["filename"], "/dev/fdset/128");
        assert_eq!(node["backing"]["driver"], "qcow2");
        assert_eq!(
            node["backing"]["backing"]["file"]["filename"],
            "/dev/fdset/129"
        );
        assert_eq!(node["backing"]["backing"]["driver"], "raw");
        assert_eq!(node["backing"]["backing"]["backing"], Value::Null);
        let is_locked = |node: &Value| node["read-only"] == true;
        assert!(is_locked(&node) && is_locked(&node["backing"]));
        let sets = words.iter().filter(|word| word.starts_with("fd=")).count();
        assert_eq!(sets, 6);
    }

    #[test]
    fn disks_are_on_their_controllers_in_their_order() {
        let mut nvme = disk("n", Bus::Nvme);
        nvme.serial = Some("S1".to_owned());
        nvme.disk.sector_size = 4096;
        let disks = [
            disk("a", Bus::VirtioScsi),
            disk("b", Bus::Ahci),
            disk("c", Bus::VirtioScsi),
            nvme,
            disk("d", Bus::Ahci),
            disk("e", Bus::Usb),
            disk("f", Bus::MegaRaid),
            disk("g", Bus::Nvme),
        ];
        insta::assert_snapshot!(devices(&disks).join("\n"), @r"
        virtio-scsi-pci,id=scsi
        scsi-hd,drive=disk0,bus=scsi.0,scsi-id=0,logical_block_size=512,physical_block_size=512
        ide-hd,drive=disk1,bus=ide.0
        scsi-hd,drive=disk2,bus=scsi.0,scsi-id=1,logical_block_size=512,physical_block_size=512
        nvme,drive=disk3,serial=S1,logical_block_size=4096,physical_block_size=4096
        ide-hd,drive=disk4,bus=ide.1
        qemu-xhci,id=usb
        usb-storage,drive=disk5,bus=usb.0
        megasas,id=megaraid
        scsi-hd,drive=disk6,bus=megaraid.0,scsi-id=0,logical_block_size=512,physical_block_size=512
        nvme,drive=disk7,serial=brisk1,logical_block_size=512,physical_block_size=512
        ");
    }

    #[test]
    fn a_kernel_without_initial_ram_disk_gets_none() {
        let mut vm = vm(Vec::new());
        vm.has_initrd = false;
        assert!(!argv(&vm).contains(&"-initrd".to_owned()));
    }
}
