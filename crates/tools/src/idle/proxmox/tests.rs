//! Configurations of Proxmox VE as guests, and commands for what is found.

use std::path::Path;

use super::*;
use crate::idle::fix::Context;
use crate::idle::text::Text;

const LINUX: &str = "# TEST: a comment\nboot: order=scsi0;ide2;net0\ncores: 4\nide2: none,media=cdrom\n\
                     memory: 4096\nname: shop\nnet0: virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1\n\
                     ostype: l26\nscsi0: local-lvm:vm-100-disk-0,iothread=1,size=32G\n\
                     scsihw: virtio-scsi-single\nsmbios1: uuid=7b10d7af-b932-4c66-b2c3-3996152ec465\n";

fn words(text: &str) -> Vec<String> {
    let config = Config::parse(text).unwrap_or_else(|| panic!("{text}"));
    let words = config.words(Some(100)).into_iter();
    words.map(|word| word.into_string().unwrap()).collect()
}

fn with(more: &str) -> String {
    words(&format!("{more}\n{LINUX}")).join(" ")
}

/// The rules that find something, with the commands for it.
fn found(text: &str) -> Vec<(&'static str, Option<String>)> {
    let text = Text::of_file(text.as_bytes(), Path::new("100.conf")).unwrap();
    let Text::Arguments(words) = &text else {
        panic!("{text:?}");
    };
    let list = Context::default().findings(&text).unwrap();
    let list = list.iter().filter(|one| one.severity.name() != "note");
    list.map(|one| (one.rule, command(words, one))).collect()
}

#[test]
fn a_configuration_is_the_command_line_of_version_9() {
    assert_eq!(
        words(LINUX),
        [
            "/usr/bin/kvm",
            "-id",
            "100",
            "-name",
            "shop",
            "-smbios",
            "type=1,uuid=7b10d7af-b932-4c66-b2c3-3996152ec465",
            "-nodefaults",
            "-machine",
            "type=pc,hpet=off",
            "-accel",
            "kvm",
            "-cpu",
            "kvm64",
            "-device",
            "piix3-usb-uhci,id=uhci,bus=pci.0,addr=0x1.0x2",
            "-device",
            "usb-tablet,id=tablet,bus=uhci.0,port=1",
            "-device",
            "VGA,id=vga",
            "-vnc",
            "unix:/run/qemu-server/vnc,password=on",
            "-device",
            "ide-cd,id=ide2",
            "-netdev",
            "type=tap,id=net0,ifname=tap0,vhost=on",
            "-device",
            "virtio-net-pci,netdev=net0,id=net0",
            "-drive",
            "file=/dev/null,if=none,id=scsi0",
            "-device",
            "scsi-hd,id=scsi0,drive=scsi0",
            "-device",
            "virtio-balloon-pci,id=balloon0"
        ]
    );
    // As version 9.2 makes them of its own tests' configurations.
    for (more, expected, has) in [
        ("machine: pc-i440fx-9.0", "type=pc-i440fx-9.0 ", true),
        (
            "machine: pc-q35-10.1+pve1",
            "type=pc-q35-10.1+pve1,hpet=off",
            true,
        ),
        ("machine: q35,viommu=virtio", "type=q35,hpet=off", true),
        ("machine: q35", "usb-tablet,id=tablet,bus=ehci.0", true),
        ("vga: qxl2", "usb-tablet", false),
        ("vga: qxl\ntablet: 1", "usb-tablet", true),
        ("vga: serial0", "-vnc", false),
        ("tablet: 0", "usb-tablet", false),
        ("kvm: 0", "-accel tcg", true),
        ("balloon: 0", "virtio-balloon", false),
        ("args: -machine hpet=on", "-machine hpet=on", true),
        ("sata0: a:b\nsata1: a:c", "ahci,id=ahci0", true),
    ] {
        let line = with(more);
        assert_eq!(line.contains(expected), has, "{more}: {line}");
    }
    let windows = LINUX.replace("l26", "win10");
    let line = words(&windows).join(" ");
    assert!(
        line.contains("hv_stimer,hv_ipi") && line.contains("base=localtime"),
        "{line}"
    );
    for other in ["other", "l24"] {
        let line = words(&LINUX.replace("l26", other)).join(" ");
        assert!(line.contains("-machine type=pc -accel"), "{line}");
    }
}

#[test]
fn what_is_found_has_the_command_of_proxmox() {
    let tablet = ("usb-uhci", Some("qm set 100 --tablet 0".to_owned()));
    let drive = ("cdrom", Some("qm set 100 --delete ide2".to_owned()));
    assert_eq!(found(LINUX), [tablet.clone(), drive.clone()]);
    let old = format!("machine: pc-i440fx-9.2\n{LINUX}");
    let hpet = "qm set 100 --args \"$(qm config 100 | sed -n 's/^args: //p') -machine hpet=off\"";
    assert_eq!(
        found(&old),
        [("hpet", Some(hpet.to_owned())), tablet, drive.clone()]
    );
    let spice = format!("vga: qxl\n{LINUX}");
    let screen = ("display-client", Some("qm set 100 --vga std".to_owned()));
    assert_eq!(found(&spice), [screen, drive]);
    let off = LINUX.replace("ide2: none,media=cdrom\n", "tablet: 0\n");
    assert_eq!(found(&off), []);
    // A number that a file of another name does not say.
    let text = Text::of_file(LINUX.as_bytes(), Path::new("shop.conf")).unwrap();
    let Text::Arguments(words) = &text else {
        panic!("{text:?}");
    };
    let list = Context::default().findings(&text).unwrap();
    let tablet = list.iter().find(|one| one.rule == "usb-uhci").unwrap();
    assert_eq!(command(words, tablet).unwrap(), "qm set VMID --tablet 0");
    // Nobody else's guest has such a number, nor may a line of a script run what it likes.
    for id in ["", "-id a;b"] {
        let line = format!(
            "kvm {id} -device piix3-usb-uhci,id=uhci -device usb-tablet,id=tablet,bus=uhci.0"
        );
        let text = Text::of_file(line.as_bytes(), Path::new("a")).unwrap();
        let Text::Arguments(words) = &text else {
            panic!("{text:?}");
        };
        assert_eq!(command(words, tablet), None, "{id}");
    }
}

#[test]
fn other_texts_are_no_configurations() {
    for text in [
        "",
        "memory: 512\ncores: 1\nname: a\n",
        "ostype: l26\n",
        "ostype: l26\nimage: a\n",
        "boot: order=scsi0\nmemory: 512\nservices:\n  - ostype: l26\n",
        "kvm -m 512\nmemory: 512\nostype: l26\nname: a\n",
        "Boot: x\nmemory: 512\nostype: l26\nname: a\n",
    ] {
        assert!(Config::parse(text).is_none(), "{text}");
    }
    // Snapshots have keys of their own, and may be broken.
    let with_snapshot = format!("{LINUX}\n[before]\n#x\ntablet: 0\nmachine: q35\n?\n");
    assert_eq!(words(&with_snapshot), words(LINUX));
    let container = "hostname: a\nmemory: 512\nnet0: name=eth0\nostype: debian\nrootfs: a:b\n";
    assert!(Config::parse(container).unwrap().is_of_container());
}
