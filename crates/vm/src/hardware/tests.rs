//! One guest in several forms, and what each form leaves to defaults.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Printed by virsh of libvirt 9.0.
const XML: &str = include_str!("fixtures/workstation.xml");

/// A root with the process that libvirt started for that domain, and others.
fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hardware/fixtures/root")
}

fn running() -> GuestHardware {
    GuestHardware::of_process(&root(), 4711).unwrap()
}

fn of_words(text: &str) -> GuestHardware {
    let words: Vec<_> = text.split_whitespace().collect();
    GuestHardware::of_arguments(&CommandLine::with_program(&words))
}

fn of_domain(inner: &str) -> GuestHardware {
    GuestHardware::of_xml(&format!("<domain type='kvm'>{inner}</domain>")).unwrap()
}

/// Classes and buses of the devices, in no order.
fn devices(guest: &GuestHardware) -> Vec<String> {
    // libvirt's XML has controllers and PS/2 devices that the machine type brings along, and a
    // sound card's codec is a device of QEMU's only.
    let own = guest.devices.iter().filter(|device| {
        !matches!(device.class, Class::Controller | Class::Other) && device.bus != "ps2"
    });
    let mut list: Vec<_> = own
        .map(|device| format!("{:?} {}", device.class, device.bus))
        .collect();
    list.sort();
    list
}

#[test]
fn a_domain_and_its_process_have_the_same_hardware() {
    let (domain, process) = (GuestHardware::of_xml(XML).unwrap(), running());
    assert_eq!((domain.form, process.form), (Form::Xml, Form::Process));
    assert_eq!(process.name, domain.name);
    assert_eq!(process.emulator, domain.emulator);
    assert_eq!(process.accelerators, domain.accelerators);
    assert_eq!(process.machine.kind, domain.machine.kind);
    assert_eq!(process.boot, domain.boot);
    assert_eq!(process.timers, domain.timers);
    assert_eq!(process.cpu.mode, domain.cpu.mode);
    assert_eq!(process.cpu.model, domain.cpu.model);
    assert_eq!(process.cpu.features, domain.cpu.features);
    assert_eq!(process.cpu.topology.cores, domain.cpu.topology.cores);
    assert_eq!(process.cpu.topology.cpus, Some(2));
    assert_eq!(process.memory, domain.memory);
    assert_eq!(devices(&process), devices(&domain));
    assert!(process.has_agent() && domain.has_agent());
    assert!(!process.adds_defaults && !domain.adds_defaults);
    let serial = |guest: &GuestHardware| {
        let port = guest.devices(Class::Serial).next();
        port.map(|port| port.backend.clone())
    };
    assert_eq!(serial(&process), Some("pty".to_owned()));
    assert_eq!(serial(&process), serial(&domain));
    assert_eq!((&process.unread, &domain.unread), (&vec![], &vec![]));
}

#[test]
fn enlightenments_have_the_names_of_qemu() {
    let domain = GuestHardware::of_xml(XML).unwrap();
    for guest in [&domain, &running()] {
        let set: Vec<_> = guest.cpu.hyperv.keys().map(String::as_str).collect();
        assert_eq!(set, ["relaxed", "spinlocks", "time", "vapic"]);
        assert_eq!(guest.cpu.hyperv["spinlocks"], "8191");
        assert_eq!(guest.cpu.is_on("hv-spinlocks"), Some(true));
        assert_eq!(guest.cpu.is_on("hv-stimer"), None);
    }
    let all = of_domain(
        "<features><hyperv mode='passthrough'><stimer state='on'><direct state='off'/></stimer>\
         <vendor_id state='on' value='x'/><emsr_bitmap state='on'/><tlbflush state='on'>\
         <extended state='on'/></tlbflush><evmcs state='off'/></hyperv></features><devices>\
         <panic model='hyperv'/></devices>",
    );
    let set: Vec<_> = all
        .cpu
        .hyperv
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .collect();
    let expected = [
        ("crash", "on"),
        ("emsr-bitmap", "on"),
        ("evmcs", "off"),
        ("passthrough", "on"),
        ("stimer", "on"),
        ("stimer-direct", "off"),
        ("tlbflush", "on"),
        ("tlbflush-ext", "on"),
        ("vendor-id", "x"),
    ];
    assert_eq!(set, expected);
    let line = of_words("q -cpu host,hv_relaxed,hv-vendor-id=x,-hv-evmcs,+invtsc");
    assert_eq!(line.cpu.hyperv.get("vendor-id").unwrap(), "x");
    assert_eq!(line.cpu.is_on("hv-evmcs"), Some(false));
    assert_eq!(line.cpu.is_on("invtsc"), Some(true));
}

#[test]
fn timers_are_one_thing_in_both_forms() {
    let domain = of_domain(
        "<clock offset='utc'><timer name='rtc' tickpolicy='catchup' track='guest'/>\
         <timer name='pit' tickpolicy='discard' present='yes'/>\
         <timer name='tsc' frequency='2000000000' mode='native'/>\
         <timer name='kvmclock' present='no'/></clock>",
    );
    assert_eq!(domain.timers.rtc_policy, Some(TickPolicy::Catchup));
    assert_eq!(domain.timers.pit_policy, Some(TickPolicy::Discard));
    assert_eq!(domain.timers.pit, Some(true));
    assert_eq!(domain.timers.tsc.mode.as_deref(), Some("native"));
    let line = of_words(
        "q -rtc base=utc,driftfix=slew -global kvm-pit.lost-tick-policy=discard -M pit=on -cpu \
         host,tsc-frequency=2000000000,-kvmclock",
    );
    for timers in [&line.timers, &domain.timers] {
        assert_eq!(timers.rtc_base.as_deref(), Some("utc"));
        assert_eq!(timers.rtc_policy, Some(TickPolicy::Catchup));
        assert_eq!(timers.pit_policy, Some(TickPolicy::Discard));
        assert_eq!(timers.tsc.frequency, Some(2_000_000_000));
        assert_eq!((timers.kvmclock, timers.hpet), (Some(false), None));
    }
}

#[test]
fn places_lead_to_what_is_written() {
    let domain = GuestHardware::of_xml(XML).unwrap();
    let Place::Element {
        line,
        column,
        bytes,
    } = domain.place(Part::Kernel)
    else {
        panic!("{:?}", domain.place(Part::Kernel));
    };
    assert!(XML[bytes.clone()].starts_with("<kernel>"));
    assert_eq!(XML[..bytes.start].matches('\n').count() + 1, line);
    let line_start = XML[..bytes.start].rfind('\n').unwrap() + 1;
    assert_eq!(column, bytes.start - line_start + 1);
    for device in domain.devices.iter().filter(|device| device.is_asked_for()) {
        let Place::Element { bytes, .. } = &device.place else {
            panic!("{device:?}");
        };
        assert!(XML[bytes.clone()].starts_with('<') && XML[bytes.clone()].ends_with('>'));
    }
    let bytes = fs::read(root().join("proc/4711/cmdline")).unwrap();
    let words: Vec<_> = bytes.split(|byte| *byte == 0).collect();
    let process = running();
    let Place::Words(at) = process.place(Part::Append) else {
        panic!("{:?}", process.place(Part::Append));
    };
    assert_eq!(
        words[at],
        [b"-append".as_slice(), b"root=/dev/sda1 console=ttyS0"]
    );
    assert!(process.devices.iter().all(Device::is_asked_for));
}

#[test]
fn qemu_adds_devices_that_nobody_asked_for() {
    let pc = of_words("q");
    assert!(pc.adds_defaults);
    let expected = ["Cdrom ide", "Floppy fdc", "Network ", "Serial ", "Video "];
    assert_eq!(devices(&pc), expected);
    assert!(!pc.devices.iter().any(Device::is_asked_for));
    assert_eq!(
        devices(&of_words("q -M q35")),
        ["Cdrom sata", "Network ", "Serial ", "Video "]
    );
    assert_eq!(devices(&of_words("q -M microvm")), ["Serial "]);
    assert_eq!(devices(&of_words("q -nodefaults")), [""; 0]);
    // In spite of its name -nographic is no port (qemu_create_default_devices).
    assert_eq!(devices(&of_words("q -nodefaults -nographic")), [""; 0]);
    let usb = of_words("q -nodefaults -S -M usb=on -vga virtio");
    assert_eq!(devices(&usb), ["UsbController ", "Video virtio"]);
    assert_eq!(
        usb.devices(Class::UsbController).next().unwrap().place,
        Place::Words(3..5)
    );
    let none = "q -M q35 -serial none -vga none -nic none -device ide-cd";
    assert_eq!(devices(&of_words(none)), ["Cdrom sata"]);
}

#[test]
fn libvirt_adds_devices_that_nobody_asked_for() {
    let bare = of_domain("<devices/>");
    assert_eq!(devices(&bare), ["Balloon virtio", "UsbController "]);
    assert!(!bare.devices.iter().any(Device::is_asked_for));
    let shown = "<devices><graphics type='vnc'/><memballoon model='none'/><controller type='usb' \
                 model='none'/><interface type='vdpa'/></devices>";
    assert_eq!(devices(&of_domain(shown)), ["Network virtio", "Video "]);
    let none = "<devices><graphics type='vnc'/><video><model type='none'/></video></devices>";
    assert!(!of_domain(none).has(Class::Video));
}

#[test]
fn drives_are_devices_where_they_have_an_interface() {
    let line = of_words(
        "q -nodefaults a.img -cdrom b.iso -drive file=c,if=none,id=c -drive file=d,if=virtio \
         -drive file=e,media=cdrom -fda f -device virtio-blk-pci,drive=c",
    );
    let list: Vec<_> = line
        .devices
        .iter()
        .map(|device| (device.class, device.bus, device.label()))
        .collect();
    let expected = [
        (Class::Disk, "ide", "a.img"),
        (Class::Cdrom, "ide", "b.iso"),
        (Class::Disk, "virtio", "d"),
        (Class::Cdrom, "ide", "e"),
        (Class::Floppy, "fdc", "f"),
        (Class::Disk, "virtio", "c"),
    ];
    assert_eq!(list, expected);
    assert_eq!(
        devices(&of_words("q -M microvm -nodefaults -drive file=x")),
        [""; 0]
    );
}

#[test]
fn firmware_is_found_wherever_it_is_named() {
    let json = r#"-blockdev {"driver":"file","filename":"/OVMF.fd","node-name":"s"} -blockdev {"driver":"raw","file":"s","node-name":"f"}"#;
    for text in [
        "q -bios /OVMF.fd",
        "q -drive if=pflash,file=/OVMF.fd,readonly=on -drive if=pflash,file=/vars",
        "q -pflash /OVMF.fd",
        &format!("q -M q35,pflash0=f {json}"),
    ] {
        let guest = of_words(text);
        assert_eq!(guest.boot.firmware.as_deref(), Some("/OVMF.fd"), "{text}");
        assert!(guest.boot.is_efi());
        assert!(matches!(guest.place(Part::Firmware), Place::Words(_)));
    }
    let ring = r#"q -M pflash0=a -blockdev driver=raw,file=b,node-name=a -blockdev driver=raw,file=a,node-name=b"#;
    assert_eq!(of_words(ring).boot.firmware.as_deref(), Some("a"));
    let domain = of_domain("<os firmware='efi'><loader/></os>");
    assert!(domain.boot.is_efi());
}

#[test]
fn memory_and_what_is_behind_it() {
    let line = of_words(
        "q -m 1G -object memory-backend-file,id=m,size=1G,mem-path=/dev/hugepages,share=on,\
         prealloc=yes -M mem-merge=off -overcommit mem-lock=on,cpu-pm=on",
    );
    let expected = Memory {
        bytes: Some(1 << 30),
        preallocated: true,
        locked: true,
        huge_pages: true,
        shared: true,
        merged: Some(false),
        path: Some("/dev/hugepages".into()),
    };
    assert_eq!(line.memory, expected);
    assert_eq!(line.cpu.power_management, Some(true));
    assert!(of_words("q -mem-prealloc").memory.preallocated);
    let nvdimm = "q -object memory-backend-file,id=n,prealloc=on -device nvdimm,memdev=n";
    assert!(!of_words(nvdimm).memory.preallocated);
    let domain = of_domain(
        "<memory unit='GiB'>1</memory><memoryBacking><hugepages/><nosharepages/><locked/>\
         <access mode='shared'/><allocation mode='immediate'/></memoryBacking>",
    );
    assert_eq!(
        domain.memory,
        Memory {
            path: None,
            ..expected
        }
    );
}

#[test]
fn a_device_may_get_properties_from_elsewhere() {
    let line = of_words("q -device e1000,id=n -set device.n.romfile=x -global e1000.a=b");
    let card = line.devices(Class::Network).next().unwrap();
    assert_eq!(card.properties.get("romfile").unwrap(), "x");
    assert_eq!(line.globals[0].driver, "e1000");
}

#[test]
fn topology_is_multiplied_where_the_count_is_missing() {
    let cpus = |text| of_words(text).cpu.topology.cpus;
    assert_eq!(cpus("q -smp 4"), Some(4));
    assert_eq!(cpus("q -smp sockets=2,cores=3"), Some(6));
    assert_eq!(cpus("q -smp sockets=99999,cores=99999"), None);
    assert_eq!(cpus("q"), None);
    let domain = of_domain("<vcpu current='2'>4</vcpu>");
    assert_eq!(
        (domain.cpu.topology.cpus, domain.cpu.topology.max),
        (Some(2), Some(4))
    );
}

#[test]
fn what_is_not_read_is_told() {
    let line = of_words("q -readconfig /a.cfg -nonsense");
    let told: Vec<_> = line.unread.iter().map(|(why, _)| &**why).collect();
    let expected = [
        "what /a.cfg configures is not read",
        "-nonsense is no option of QEMU",
    ];
    assert_eq!(told, expected);
    assert_eq!(line.unread[0].1, Place::Words(1..3));
    let domain = GuestHardware::of_xml(
        "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
         <qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>",
    );
    assert!(domain.unwrap().unread[0].0.contains("<qemu:commandline>"));
}

#[test]
fn processes_that_are_no_qemu_are_named() {
    let error = |pid| {
        GuestHardware::of_process(&root(), pid)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error(3), "there is no process 3");
    assert_eq!(error(1), "process 1 is /sbin/init, not a QEMU");
    assert!(error(2).contains("has no command line"));
    let other = tempfile::tempdir().unwrap();
    // What reading fails of, whoever reads.
    fs::create_dir_all(other.path().join("proc/5/cmdline")).unwrap();
    let error = GuestHardware::of_process(other.path(), 5).unwrap_err();
    assert!(error.to_string().ends_with("proc/5/cmdline"), "{error}");
}

#[test]
fn a_qemu_may_call_itself_anything() {
    let root = tempfile::tempdir().unwrap();
    let process = root.path().join("proc/7");
    fs::create_dir_all(&process).unwrap();
    fs::write(process.join("cmdline"), b"guest-of-mine\0-M\0q35\0").unwrap();
    assert!(GuestHardware::of_process(root.path(), 7).is_err());
    std::os::unix::fs::symlink("/usr/bin/qemu-system-x86_64", process.join("exe")).unwrap();
    assert!(
        GuestHardware::of_process(root.path(), 7)
            .unwrap()
            .machine
            .is_q35()
    );
}

proptest! {
    #[test]
    fn no_command_line_is_too_strange(words in proptest::collection::vec(
        "(-(M|device|cpu|global|set|object|m|drive|blockdev|smp|serial|nic|rtc|boot|net|S))|\
         ((type|driver|file|node-name|id|pflash0|size|cpus)=[a-c,]{0,4},?){0,3}|[-a,=.+{}\":0-9]{0,8}", 0..12)) {
        let _ = GuestHardware::of_arguments(&CommandLine::with_program(&words));
    }

    #[test]
    fn no_domain_is_too_strange(inner in "(</?(os|features|devices|cpu|clock|disk|memory|vcpu)( (type|dev|bus|mode)='[a-z0-9]{0,4}')?/?>|[a-z0-9]){0,12}") {
        let _ = GuestHardware::of_xml(&format!("<domain>{inner}</domain>"));
    }
}
