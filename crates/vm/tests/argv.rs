//! QEMU's command line for representative machines, word for word.

use std::path::PathBuf;

use brisk_vm::qemu::cmdline::CommandLine;
use brisk_vm::qemu::{
    Accelerator, Backing, BootPayload, Channels, Debugging, Devices, Disk, DiskFormat, Filesystem,
    Firmware, GuestMemory, Machine, Network, Parameter, Processors, Ram, State, VmConfig, argv,
    loading,
};
use brisk_vm::virtiofs::Access;

/// A machine without a root.
fn plain(machine: Machine) -> VmConfig {
    let firmware = match machine {
        Machine::Microvm { .. } => Firmware::Qboot("/usr/share/qemu/qboot.rom".into()),
        Machine::Q35 | Machine::Pc { .. } => Firmware::Default,
    };
    VmConfig {
        program: "/usr/bin/qemu-system-x86_64".into(),
        version: (10, 0),
        machine,
        machine_version: None,
        firmware,
        accelerator: Accelerator::Tcg,
        processors: Processors {
            model: "max".into(),
            count: 1,
            pretranslator: None,
            pretranslates: false,
            traced: false,
            instructions: false,
        },
        memory: GuestMemory {
            mib: 512,
            ram: Ram::Private,
            postcopy: false,
            reports_free: false,
            locked: false,
        },
        boot: BootPayload {
            kernel: "/cache/vmlinux".into(),
            initramfs: "/cache/initramfs".into(),
            parameters: vec![
                Parameter::new("quiet", "no words"),
                Parameter::new("panic=-1", "the end"),
            ],
        },
        state: None,
        devices: Devices {
            disks: Vec::new(),
            filesystems: Vec::new(),
            network: Network::None,
            mac: None,
            generation: None,
        },
        channels: Channels::Connected,
        debugging: Debugging {
            firmware_log: false,
            debugger: false,
        },
        sandbox: true,
        stopped: false,
        exit_on_reset: true,
        extra: Vec::new(),
    }
}

/// The machine whose kernel may have its code translated ahead.
fn ahead(pretranslator: Option<&str>, traced: bool) -> VmConfig {
    let mut plan = plain(Machine::Pc { acpi: false });
    plan.memory.ram = Ram::Shared;
    plan.processors.pretranslator = pretranslator.map(PathBuf::from);
    plan.processors.traced = traced;
    plan
}

/// With a directory of the host as root.
fn shared(machine: Machine) -> VmConfig {
    let mut plan = plain(machine);
    plan.memory.ram = Ram::Shared;
    plan.devices.filesystems = vec![
        Filesystem::Virtiofs { tag: "root".into() },
        Filesystem::Virtiofs {
            tag: "share0".into(),
        },
    ];
    plan
}

/// With images as disks and a network card.
fn disks(machine: Machine) -> VmConfig {
    let disk = |path: &str, format, writable, sector_size| Disk {
        path: PathBuf::from(path),
        format,
        backing: Vec::new(),
        device: path.starts_with("/dev/"),
        writable,
        sector_size,
    };
    let mut plan = plain(machine);
    plan.devices.network = Network::User;
    plan.devices.disks = vec![
        disk("/images/root,raw", DiskFormat::Raw, false, 512),
        Disk {
            backing: vec![
                Backing {
                    path: "/images/middle.qcow2".into(),
                    format: DiskFormat::Qcow2,
                },
                Backing {
                    path: "/images/base".into(),
                    format: DiskFormat::Raw,
                },
            ],
            ..disk("/images/other,qcow2", DiskFormat::Qcow2, true, 4096)
        },
        disk("/dev/mapper/data", DiskFormat::Raw, true, 512),
    ];
    plan
}

/// A machine that goes on from a template, with a processor more.
fn goes_on() -> VmConfig {
    let mut plan = ahead(Some("/cache/ahead"), true);
    plan.memory.ram = Ram::Template("/templates/one".into());
    plan.processors.pretranslates = true;
    plan.state = Some(State {
        path: "/templates/one".into(),
        offset: 512 << 20,
    });
    plan
}

/// A part a line.
fn lines(plan: &VmConfig) -> String {
    let parts = argv(plan);
    for part in &parts {
        assert!(!part.why.is_empty(), "no reason for {:?}", part.words);
    }
    let words: Vec<_> = parts.iter().flat_map(|part| &part.words).collect();
    assert_eq!(CommandLine::options(&words).errors(), []);
    parts
        .iter()
        .map(|part| part.words.join(" ") + "\n")
        .collect()
}

macro_rules! golden {
    ($($name:ident: $plan:expr;)*) => {
        $(
            #[test]
            fn $name() {
                insta::assert_snapshot!(lines(&$plan));
            }
        )*
    };
}

golden! {
    microvm_with_pcie: plain(Machine::Microvm { pcie: true });
    microvm_with_pcie_and_directories: shared(Machine::Microvm { pcie: true });
    microvm_with_pcie_and_disks: disks(Machine::Microvm { pcie: true });
    microvm_with_mmio: plain(Machine::Microvm { pcie: false });
    microvm_with_mmio_and_directories: shared(Machine::Microvm { pcie: false });
    microvm_with_mmio_and_disks: disks(Machine::Microvm { pcie: false });
    q35: plain(Machine::Q35);
    q35_with_directories: shared(Machine::Q35);
    q35_with_disks: disks(Machine::Q35);
    pc: plain(Machine::Pc { acpi: true });
    pc_with_directories: shared(Machine::Pc { acpi: true });
    pc_with_disks: disks(Machine::Pc { acpi: true });
    pc_without_acpi: plain(Machine::Pc { acpi: false });
    pc_that_is_traced: ahead(None, true);
    pc_with_a_processor_more: ahead(Some("/cache/ahead"), false);
    pc_that_goes_on_with_a_processor_more: goes_on();
}

#[test]
fn commas_in_paths_are_doubled_and_the_users_words_are_last() {
    let mut plan = plain(Machine::Q35);
    plan.devices.filesystems = vec![Filesystem::NineP {
        tag: "root".into(),
        path: "/a,b".into(),
        access: Access::ReadOnly,
    }];
    plan.extra = vec!["-S".into()];
    let text = lines(&plan);
    assert!(
        text.contains("path=/a,,b,security_model=none,readonly=on"),
        "{text}"
    );
    assert!(text.ends_with("\n-S\n"), "{text}");
}

#[test]
fn what_is_written_is_read_again() {
    let parts = argv(&disks(Machine::Microvm { pcie: true }));
    let words: Vec<_> = parts.iter().flat_map(|part| &part.words).collect();
    let line = CommandLine::options(&words);
    let machine = line.machine();
    assert_eq!(machine.get("type"), Some("microvm"));
    assert_eq!(machine.get("kernel"), Some("/cache/vmlinux"));
    assert_eq!(machine.get("memory.size"), Some("512M"));
    assert_eq!(machine.get("smp.cpus"), Some("1"));
    assert_eq!(line.accelerators(), ["tcg"]);
    let disk = line.all("blockdev").nth(1).unwrap().fields().unwrap();
    assert_eq!(
        disk.get("backing.backing.file.filename"),
        Some("/dev/fdset/129")
    );
}

#[test]
fn kvm_is_named_only_where_it_was_chosen() {
    let mut kvm = plain(Machine::Q35);
    kvm.accelerator = Accelerator::Kvm;
    kvm.processors.model = "host".into();
    let text = lines(&kvm);
    assert!(text.contains("-accel kvm\n-cpu host\n"), "{text}");
    assert!(!lines(&plain(Machine::Q35)).contains("kvm"));
}

#[test]
fn without_acpi_qboot_gets_devices_in_odd_slots() {
    let machine = Machine::Pc { acpi: false };
    let mut plan = disks(machine);
    plan.firmware = Firmware::Qboot("/usr/share/qemu/qboot.rom".into());
    plan.devices.filesystems = vec![Filesystem::Virtiofs { tag: "root".into() }];
    let slots = |plan: &VmConfig| -> Vec<_> {
        let words = argv(plan).into_iter().flat_map(|part| part.words);
        let addresses = words.filter(|word| word.starts_with("virtio-") || word.contains("-fs-"));
        addresses
            .map(|word| word.rsplit_once(",addr=").map(|(_, slot)| slot.to_owned()))
            .collect()
    };
    let odd = ["0x3", "0x5", "0x7", "0x9", "0xb", "0xd"].map(|slot| Some(slot.to_owned()));
    assert_eq!(slots(&plan), odd);
    plan.firmware = Firmware::Default;
    assert_eq!(slots(&plan), vec![None; 6]);
}

#[test]
fn a_machine_has_a_card_and_a_generation_of_its_own() {
    let mut plan = plain(Machine::Q35);
    plan.devices.network = Network::User;
    assert!(!lines(&plan).contains("mac="));
    plan.devices.mac = Some([0x52, 0, 1, 2, 0xab, 0xff]);
    plan.devices.generation = Some(0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128.to_be_bytes());
    let text = lines(&plan);
    assert!(
        text.contains(",netdev=net0,mac=52:00:01:02:ab:ff,"),
        "{text}"
    );
    let device = "-device vmgenid,guid=01234567-89ab-cdef-0011-223344556677\n";
    assert!(text.contains(device), "{text}");
}

#[test]
fn memory_of_a_template_is_not_written() {
    let mut plan = plain(Machine::Q35);
    plan.memory.ram = Ram::Template("/dev/shm/template".into());
    plan.state = Some(State {
        path: "/dev/shm/template".into(),
        offset: 512 << 20,
    });
    let words: Vec<_> = argv(&plan)
        .into_iter()
        .flat_map(|part| part.words)
        .collect();
    let has = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
    assert!(has([
        "-object",
        "memory-backend-file,id=ram,size=512M,mem-path=/proc/self/fd/6,share=off,readonly=on,rom=off"
    ]));
    assert!(has(["-incoming", "defer"]));
    let commands = loading(plan.state.as_ref().unwrap());
    let [(_, capability), (_, place)] = commands.map(|(name, with)| (name, with.to_string()));
    assert!(capability.contains("x-ignore-shared"), "{capability}");
    let file = "file:/proc/self/fd/10,offset=0x20000000";
    assert!(place.contains(file), "{place}");
}

#[test]
fn a_debugger_has_a_port() {
    let mut plan = plain(Machine::Q35);
    let words = |plan: &VmConfig| -> Vec<String> {
        argv(plan).into_iter().flat_map(|part| part.words).collect()
    };
    assert!(!words(&plan).contains(&"-gdb".to_owned()));
    plan.debugging.debugger = true;
    let line = words(&plan).join(" ");
    let port = "-chardev socket,id=debugger,fd=14 -gdb chardev:debugger";
    assert!(line.contains(port), "{line}");
}
