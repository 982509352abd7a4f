//! Configurations of Proxmox VE as guests, and commands for what is found.

use std::ffi::OsString;
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
fn found(given: &str) -> Vec<(&'static str, Option<String>)> {
    let text = Text::of_file(given.as_bytes(), Path::new("100.conf")).unwrap();
    let Text::Arguments(words) = &text else {
        panic!("{text:?}");
    };
    let context = Context {
        os: Text::os_of_file(given.as_bytes()),
        ..Context::default()
    };
    let list = context.findings(&text).unwrap();
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
            "shop,debug-threads=on",
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
        ("vga: qxl2", "-spice", true),
        (
            "vga: virtio,memory=64",
            "virtio-vga,id=vga -vnc unix:/run/qemu-server/vnc,password=on -spice",
            true,
        ),
        ("vga: std", "-spice", false),
        ("vga: memory=32", "VGA,id=vga", true),
        ("vga: vmware", "vmware-svga", true),
        ("hostpci0: 01:00,x-vga=1", "-vnc", false),
        ("hostpci0: 01:00,x-vga=1\nvga: std", "VGA", true),
        ("localtime: 1", "-rtc base=localtime", true),
        ("startdate: 2020-01-01", "-rtc base=2020-01-01", true),
        ("tdf: 1", "-rtc driftfix=slew -", false),
        (
            "ide0: a:vm-1-cloudinit,media=cdrom",
            "file=/dev/null/cloudinit,if=none,id=ide0",
            true,
        ),
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
        [
            ("hpet", Some(hpet.to_owned())),
            tablet.clone(),
            drive.clone()
        ]
    );
    let spice = format!("vga: qxl\n{LINUX}");
    let screen = |command: &str| ("display-client", Some(command.to_owned()));
    // Another screen than QXL brings the tablet with it, on a PC.
    assert_eq!(
        found(&spice),
        [screen("qm set 100 --vga std --tablet 0"), drive.clone()]
    );
    let q35 = format!("machine: q35\n{spice}");
    assert_eq!(found(&q35), [screen("qm set 100 --vga std"), drive.clone()]);
    // Sound and USB of SPICE do not start without its server.
    for more in ["audio0: device=AC97", "usb1: spice,usb3=1"] {
        let list = found(&format!("{more}\n{spice}"));
        assert!(list.contains(&("display-client", None)), "{more}: {list:?}");
    }
    let made = LINUX.replace("none,media", "local:vm-100-cloudinit,media");
    assert_eq!(found(&made), [tablet.clone(), ("cdrom", None)]);
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
fn the_kind_of_the_guest_decides_about_windows() {
    let windows = |more: &str, kind: &str| {
        let text = format!(
            "{more}\nmachine: pc-i440fx-10.1\ntablet: 0\n{}",
            LINUX.replace("l26", kind)
        );
        let text = text.replace("ide2: none,media=cdrom\n", "");
        found(&text)
    };
    // Linux and macOS with the host's time, and a name that only begins so.
    assert_eq!(windows("localtime: 1", "l26"), []);
    assert_eq!(windows("name: win-exporter", "l26"), []);
    // Windows XP has no timer that would take the HPET's place.
    let list = windows("", "wxp");
    assert!(
        list.iter()
            .all(|(rule, command)| *rule != "hv-stimer" && command.is_none()),
        "{list:?}"
    );
    // Its own flags are what a Windows lacks whose kind is another one.
    let command = Some("qm set 100 --ostype win10".to_owned());
    let renamed = windows("", "w2k8").into_iter();
    assert_eq!(
        renamed.filter(|(rule, _)| rule.starts_with("hv-")).count(),
        0
    );
    let text = LINUX
        .replace("l26", "w2k8")
        .replace("name: shop", "name: Win10");
    assert!(
        found(&text).contains(&("hv-stimer", command)),
        "{:?}",
        found(&text)
    );
    let text = text.replace("w2k8", "win10");
    assert!(
        found(&text)
            .iter()
            .all(|(rule, _)| !rule.starts_with("hv-s"))
    );
    let own = format!("args: -cpu host\n{text}");
    assert!(
        found(&own).contains(&("hv-stimer", None)),
        "{:?}",
        found(&own)
    );
}

#[test]
fn arguments_of_the_user_name_no_other_guest_and_no_other_disk() {
    let text = format!("args: -id 102 -device ide-cd,id=scsi0 -device ide-cd,id=ide2\n{LINUX}");
    let list = found(&text);
    assert!(
        list.contains(&("usb-uhci", Some("qm set 100 --tablet 0".into()))),
        "{list:?}"
    );
    let drives = list.iter().filter(|(rule, _)| *rule == "cdrom");
    assert!(drives.clone().count() > 1, "{list:?}");
    assert!(
        drives.into_iter().all(|(_, command)| command.is_none()),
        "{list:?}"
    );
    let words = |id: &str| ["kvm", "-id", id].map(OsString::from);
    for other in ["+7", "", "-1", "7;x", "٧"] {
        assert_eq!(id(&words(other)), None, "{other}");
    }
    assert_eq!(id(&words("7")).as_deref(), Some("7"));
}

#[test]
fn values_that_cannot_be_are_named() {
    let read = |text: &str| Text::of_file(text.as_bytes(), Path::new("1.conf"));
    for (line, with) in [
        ("ostype: l26", "ostype: win12"),
        ("name: shop", "vga: voodoo"),
    ] {
        let error = read(&LINUX.replace(line, with)).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("does not know: {with}")),
            "{error}"
        );
    }
    // As people explain their own.
    let explained = LINUX
        .replace("l26", "l26   # a server")
        .replace("cdrom", "cdrom # empty");
    assert_eq!(words(&explained), words(LINUX));
}

#[test]
fn what_is_pending_and_who_printed_it_counts() {
    let pending =
        format!("{LINUX}\n[PENDING]\ntablet: 0\ndelete: ide2,!name\n\n[old]\ntablet: 1\n");
    let line = words(&pending).join(" ");
    assert!(
        !line.contains("usb-tablet") && !line.contains("ide-cd"),
        "{line}"
    );
    assert!(line.contains("-name vm,"), "{line}");
    let printed = format!("root@pve:~# qm config 107\n{LINUX}");
    let config = Config::parse(&printed).unwrap();
    assert_eq!(config.words(None)[2], "107");
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
    let with_limits = "hostname: a\nmemory: 512\nlxc.cgroup2.x: a\nostype: debian\nrootfs: a:b\n";
    assert!(Config::parse(with_limits).unwrap().is_of_container());
    let container = "hostname: a\nmemory: 512\nnet0: name=eth0\nostype: debian\nrootfs: a:b\n";
    assert!(Config::parse(container).unwrap().is_of_container());
}
