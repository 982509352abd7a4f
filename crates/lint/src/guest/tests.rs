//! What the rules say of guests.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use brisk_vm::hardware::{Class, Form, GuestHardware, Place};
use brisk_vm::qemu::cmdline::CommandLine;

use super::*;
use crate::{Fix, Severity};

fn domain(name: &str) -> GuestHardware {
    let text = match name {
        "desktop" => include_str!("fixtures/desktop.xml"),
        _ => include_str!("fixtures/lean.xml"),
    };
    GuestHardware::of_xml(text).unwrap()
}

fn guest(hardware: GuestHardware, kvm: Kvm) -> Guest {
    Guest {
        hardware,
        kvm,
        has_qboot: false,
    }
}

fn of_words(text: &str) -> GuestHardware {
    let words: Vec<_> = text.split_whitespace().collect();
    GuestHardware::of_arguments(&CommandLine::with_program(&words))
}

fn text(list: &[Finding]) -> String {
    let lines = list.iter().map(|finding| {
        let severity = finding.severity.name();
        format!(
            "{severity}: {} [{}]\n  so:  {}\n  fix: {}\n",
            finding.what, finding.rule, finding.effect, finding.fix
        )
    });
    lines.collect()
}

/// The rules that find something.
fn ids(guest: &Guest) -> Vec<&'static str> {
    let mut ids: Vec<_> = findings(guest).iter().map(|finding| finding.rule).collect();
    ids.dedup();
    ids
}

/// Both as libvirt 11.3 printed them when they were defined; the files in them do not exist.
#[test]
fn a_desktop_has_much_that_a_server_does_not_need() {
    let guest = guest(domain("desktop"), Kvm::Works);
    insta::assert_snapshot!(text(&findings(&guest)));
}

#[test]
fn a_lean_domain_has_nothing_to_mend() {
    let guest = guest(domain("lean"), Kvm::Useless("slow".into()));
    assert_eq!(text(&findings(&guest)), "");
}

#[test]
fn a_domain_for_kvm_needs_it() {
    let list = findings(&guest(domain("desktop"), Kvm::Absent));
    assert_eq!(list[0].severity, Severity::Impossible);
}

#[test]
fn a_serial_console_needs_a_port() {
    let mut lean = domain("lean");
    lean.boot.append = "console=ttyS0 quiet i8042.nokbd".into();
    let found = |hardware: &GuestHardware| text(&findings(&guest(hardware.clone(), Kvm::Absent)));
    assert!(found(&lean).contains("does not have"));
    let with_port = of_words("q -nodefaults -serial stdio");
    lean.devices
        .extend(with_port.devices(Class::Serial).cloned());
    assert_eq!(found(&lean), "");
}

/// Printed by virsh of libvirt 9.0, and the root in which the domain runs as process 4711.
const WORKSTATION: &str = include_str!("../../../vm/src/hardware/fixtures/workstation.xml");
const PROCESS: &[u8] = include_bytes!("../../../vm/src/hardware/fixtures/root/proc/4711/cmdline");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vm/src/hardware/fixtures/root")
}

#[test]
fn the_same_rules_fire_for_a_guest_in_each_form() {
    let words: Vec<_> = PROCESS
        .split(|byte| *byte == 0)
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect();
    let words = &words[..words.len() - 1];
    let forms = [
        GuestHardware::of_xml(WORKSTATION).unwrap(),
        GuestHardware::of_arguments(&CommandLine::with_program(words)),
        GuestHardware::of_process(&root(), 4711).unwrap(),
    ];
    for hardware in forms {
        let form = hardware.form;
        let guest = Guest {
            has_qboot: true,
            ..guest(hardware, Kvm::Works)
        };
        let expected = [
            "accel-kvm-unused",
            "memory-prealloc",
            "firmware-seabios-kernel",
            "firmware-boot-menu",
            "kernel-compressed",
            "console-serial-verbose",
            "ps2-probe",
            "disk-emulated",
            "disk-removable",
            "net-emulated",
            "graphics",
            "usb-input",
            "sound",
            "balloon",
        ];
        assert_eq!(ids(&guest), expected, "{form:?}");
        for finding in findings(&guest) {
            let is_in_xml = matches!(finding.place, Some(Place::Element { .. }));
            let is_implied = finding.place == Some(Place::Implied);
            // Firmware is what nobody named.
            assert!(is_implied == (finding.rule == "firmware-seabios-kernel" && form != Form::Xml));
            assert!(
                is_implied || is_in_xml == (form == Form::Xml),
                "{finding:?}"
            );
        }
    }
}

/// XML and words in which a rule finds something; `K` stands for what makes a kernel's guest.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("accel-kvm-unused", "", "-accel tcg"),
    ("accel-kvm-impossible", "", "-accel kvm"),
    ("accel-kvm-useless", "", "-M pc,accel=kvm:tcg"),
    ("cpu-not-host", "", "-enable-kvm -cpu qemu64"),
    (
        "memory-prealloc",
        "<memoryBacking><allocation mode='immediate'/></memoryBacking>",
        r#"-object {"qom-type":"memory-backend-ram","id":"m","size":1,"prealloc":true}"#,
    ),
    (
        "firmware-uefi-kernel",
        "<os firmware='efi'><kernel>k</kernel></os>",
        "-kernel k -bios /usr/share/OVMF/OVMF_CODE.fd",
    ),
    (
        "firmware-uefi",
        "<os><loader>/usr/share/edk2/x64.fd</loader></os>",
        "-drive if=pflash,file=/usr/share/edk2/x64.fd",
    ),
    (
        "firmware-seabios-kernel",
        "<os><kernel>k</kernel></os>",
        "-kernel k",
    ),
    (
        "firmware-boot-menu",
        "<os><bootmenu enable='yes'/></os>",
        "-boot menu=on",
    ),
    (
        "kernel-compressed",
        "<os><kernel>/boot/vmlinuz</kernel></os>",
        "-M kernel=/boot/vmlinuz",
    ),
    (
        "console-no-port",
        "<os><kernel>k</kernel><cmdline>console=ttyS0</cmdline></os>",
        "-nodefaults -kernel k -append console=ttyS0",
    ),
    (
        "console-serial-verbose",
        "<os><kernel>k</kernel><cmdline>console=ttyS0</cmdline></os><devices><console \
         type='pty'/></devices>",
        "-kernel k -append console=ttyS0",
    ),
    ("ps2-probe", "<os><kernel>k</kernel></os>", "-kernel k"),
    (
        "disk-emulated",
        "<devices><disk device='disk'><target dev='hda' bus='ide'/></disk></devices>",
        "-hda x",
    ),
    (
        "disk-removable",
        "<devices><disk device='floppy'><target dev='fda' bus='fdc'/></disk></devices>",
        "-fda x",
    ),
    (
        "net-emulated",
        "<devices><interface type='user'><model type='rtl8139'/></interface></devices>",
        "-nic user,model=rtl8139",
    ),
    (
        "graphics",
        "<devices><video><model type='vga'/></video></devices>",
        "-device VGA",
    ),
    (
        "usb-unused",
        "<devices><controller type='usb' model='qemu-xhci'/></devices>",
        "-usb",
    ),
    (
        "usb-input",
        "<devices><input type='tablet' bus='usb'/></devices>",
        "-usbdevice tablet",
    ),
    (
        "sound",
        "<devices><sound model='ac97'/></devices>",
        "-device AC97",
    ),
    (
        "tpm",
        "<devices><tpm model='tpm-crb'/></devices>",
        "-device tpm-crb",
    ),
    (
        "balloon",
        "<devices><memballoon model='virtio'/></devices>",
        "-device virtio-balloon",
    ),
    (
        "description-unread",
        "<x:override xmlns:x='http://libvirt.org/schemas/domain/qemu/1.0'/>",
        "-readconfig x",
    ),
];

fn example(id: &str, hardware: GuestHardware) -> Guest {
    let kvm = match id {
        "accel-kvm-impossible" => Kvm::Absent,
        "accel-kvm-useless" => Kvm::Useless("slow".into()),
        _ => Kvm::Works,
    };
    Guest {
        has_qboot: true,
        ..guest(hardware, kvm)
    }
}

#[test]
fn each_rule_has_an_example_in_both_forms() {
    for (id, xml, words) in EXAMPLES {
        let kind = if *id == "accel-kvm-unused" {
            "qemu"
        } else {
            "kvm"
        };
        let xml = format!("<domain type='{kind}'>{xml}</domain>");
        let domain = example(id, GuestHardware::of_xml(&xml).unwrap());
        let line = example(id, of_words(&format!("q {words}")));
        for guest in [&domain, &line] {
            let list = findings(guest);
            let form = guest.hardware.form;
            let found = list.iter().find(|finding| finding.rule == *id);
            let found = found.unwrap_or_else(|| panic!("{id} in {form:?}: {:?}", ids(guest)));
            if let Fix::Edit(edit) = &found.fix {
                assert!(
                    !edit.as_xml().is_empty() && !edit.as_arguments().is_empty(),
                    "{id}"
                );
            }
            assert!(!found.fix.to_string().is_empty(), "{id}");
        }
    }
    // libvirt never has QEMU add devices.
    let mut all: Vec<_> = RULES
        .iter()
        .copied()
        .flatten()
        .map(|rule| rule.id)
        .collect();
    all.retain(|id| *id != "devices-default");
    let examples: Vec<_> = EXAMPLES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(all, examples);
}

#[test]
fn a_command_line_is_mended_by_words() {
    let words = "q -M q35,accel=kvm -m 1G -mem-prealloc -kernel /boot/vmlinuz -append \
                 console=ttyS0 -boot menu=on -drive file=a.img -cdrom b.iso -nic user -vga std \
                 -usb -device usb-tablet -device AC97 -device tpm-tis -device virtio-balloon-pci \
                 -bios OVMF.fd -readconfig c.cfg";
    let guest = guest(of_words(words), Kvm::Works);
    insta::assert_snapshot!(text(&findings(&guest)));
}

#[test]
fn a_tablet_is_a_need_where_there_is_a_display() {
    let unused = |words: &str| {
        let guest = guest(of_words(words), Kvm::Works);
        ids(&guest).contains(&"usb-unused")
    };
    assert!(!unused("q -nodefaults -vga std -usb -device usb-tablet"));
    assert!(unused("q -nodefaults -usb -device usb-tablet"));
    assert!(unused("q -nodefaults -vga std -usb"));
}

#[test]
fn libvirt_adds_little_to_machines_without_usb() {
    let found = |arch: &str, machine: &str| {
        let xml = format!(
            "<domain type='kvm'><os><type arch='{arch}' machine='{machine}'>hvm</type></os>\
             <devices/></domain>"
        );
        let guest = guest(GuestHardware::of_xml(&xml).unwrap(), Kvm::Works);
        let has = |rule| ids(&guest).contains(&rule);
        (has("usb-unused"), has("balloon"))
    };
    assert_eq!(found("x86_64", "q35"), (true, true));
    assert_eq!(found("ppc64le", "pseries"), (true, true));
    assert_eq!(found("aarch64", "virt"), (false, false));
    assert_eq!(found("riscv64", "virt"), (false, true));
    assert_eq!(found("s390x", "s390-ccw-virtio"), (false, true));
}

#[test]
fn a_lean_command_line_has_nothing_to_mend() {
    let words = "q -M q35,i8042=off -nodefaults -accel kvm -cpu host -kernel vmlinux -append \
                 console=hvc0 -drive file=a,if=virtio -nic user,model=virtio -device \
                 virtio-serial-pci -chardev stdio,id=c -device virtconsole,chardev=c";
    assert_eq!(text(&findings(&guest(of_words(words), Kvm::Works))), "");
}

#[test]
fn a_qemu_that_runs_has_the_kvm_it_asked_for() {
    let mut hardware = of_words("q -accel kvm -cpu host -nodefaults");
    let impossible = |hardware: &GuestHardware| {
        let guest = guest(hardware.clone(), Kvm::Forbidden);
        ids(&guest).contains(&"accel-kvm-impossible")
    };
    assert!(impossible(&hardware));
    hardware.form = Form::Process;
    assert!(!impossible(&hardware));
    // It may go on without KVM.
    assert!(!impossible(&of_words("q -M accel=kvm:tcg -nodefaults")));
}

#[test]
fn devices_that_qemu_adds_are_one_finding() {
    let guest = guest(of_words("q -accel kvm -cpu host"), Kvm::Works);
    assert_eq!(ids(&guest), ["devices-default"]);
}

#[test]
fn a_console_that_is_not_there_is_not_verbose_as_well() {
    let words = "q -nodefaults -accel kvm -cpu host -append console=ttyS0";
    assert_eq!(
        ids(&guest(of_words(words), Kvm::Works)),
        ["console-no-port"]
    );
}

#[test]
fn huge_pages_may_be_preallocated() {
    let domain = |inner: &str| {
        let xml = format!("<domain type='kvm'><memoryBacking>{inner}</memoryBacking></domain>");
        ids(&guest(GuestHardware::of_xml(&xml).unwrap(), Kvm::Works))
    };
    let line = |path: &str| {
        let words = format!("q -accel kvm -mem-prealloc -mem-path {path}");
        ids(&guest(of_words(&words), Kvm::Works))
    };
    let immediate = "<allocation mode='immediate'/>";
    assert!(domain(immediate).contains(&"memory-prealloc"));
    assert!(!domain("<hugepages/>").contains(&"memory-prealloc"));
    assert!(line("/dev/shm").contains(&"memory-prealloc"));
    assert!(!line("/dev/hugepages").contains(&"memory-prealloc"));
}

#[test]
fn a_model_that_libvirt_chose_like_the_host_is_left_alone() {
    let of_cpu = |words: &str| {
        let guest = guest(
            of_words(&format!("q -nodefaults -accel kvm {words}")),
            Kvm::Works,
        );
        ids(&guest).contains(&"cpu-not-host")
    };
    assert!(of_cpu("") && of_cpu("-cpu kvm64,+x2apic") && of_cpu("-cpu host -cpu qemu64"));
    assert!(
        !of_cpu("-cpu Skylake-Client-IBRS,vmx=on") && !of_cpu("-cpu host") && !of_cpu("-cpu max")
    );
}

#[test]
fn findings_are_told_to_programs_with_rule_and_place() {
    let list = findings(&guest(of_words("q -nodefaults -device AC97"), Kvm::Absent));
    let value = serde_json::to_value(&list).unwrap();
    let expected = serde_json::json!([{
        "rule": "sound",
        "severity": "slow",
        "where": { "words": { "start": 2, "end": 4 } },
        "what": "there is a sound card",
        "effect": "the kernel probes its codecs",
        "fix": "without AC97",
    }]);
    assert_eq!(value, expected);
}
