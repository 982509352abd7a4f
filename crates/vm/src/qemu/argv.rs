//! From a plan to QEMU's command line; pure.

use serde::Serialize;

use crate::pretranslation::EVENT;

use super::blockdev::block_node;
use super::cmdline::escape;
use super::machine::{
    Accelerator, Channels, Disk, Fds, Filesystem, Firmware, Machine, Network, Ram, Transport,
    VmConfig,
};

/// Begins the names of channels to what serves directories.
pub const FILESYSTEM: &str = "fs";

/// Some words of the command line that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The words.
    pub words: Vec<String>,
    /// Why they are there.
    pub why: String,
}

/// QEMU's command line without the program's name.
#[must_use]
pub fn argv(plan: &VmConfig) -> Vec<Part> {
    let mut parts = Parts {
        parts: Vec::new(),
        slots: Slots::of(plan),
    };
    parts.machine(plan);
    parts.kernel(plan);
    parts.channels(plan);
    parts.devices(plan);
    if !plan.extra.is_empty() {
        parts.parts.push(Part {
            words: plan.extra.clone(),
            why: "asked for with --qemu-arg".into(),
        });
    }
    parts.parts
}

struct Parts {
    parts: Vec<Part>,
    slots: Slots,
}

impl Parts {
    fn add<const N: usize>(&mut self, words: [&str; N], why: &str) {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        self.parts.push(Part {
            words,
            why: why.to_owned(),
        });
    }

    fn machine(&mut self, plan: &VmConfig) {
        self.add(
            ["-nodefaults", "-no-user-config"],
            "only the devices that are named here",
        );
        self.add(["-display", "none"], "no window");
        if plan.sandbox {
            self.add(
                [
                    "-sandbox",
                    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
                ],
                "the guest is not trusted: QEMU may neither start programs nor change its rights",
            );
        }
        if plan.stopped {
            self.add(["-S"], "the processors wait to be told to run");
        }
        if plan.exit_on_reset {
            self.add(
                ["-no-reboot"],
                "a reset ends QEMU: for a guest that runs once it is the end",
            );
        }
        let backend = match plan.ram {
            Ram::Private => "",
            Ram::Shared | Ram::File(_) | Ram::Template(_) | Ram::Copy(_) => ",memory-backend=ram",
        };
        let (options, why) = match plan.machine {
            Machine::Microvm { pcie: true } => (
                ",acpi=on,pcie=on,x-option-roms=off,auto-kernel-cmdline=off",
                "few devices to emulate and probe; PCI Express because this kernel has virtio-pci \
                 built in and needs no module",
            ),
            Machine::Microvm { pcie: false } => (
                ",acpi=on,pcie=off,x-option-roms=off,auto-kernel-cmdline=off",
                "few devices to emulate and probe; virtio over memory-mapped registers because \
                 virtio-pci is a module in this kernel too, and a larger one",
            ),
            Machine::Q35 => (",usb=off,smbus=off,sata=off", "PCI Express chipset"),
            Machine::Pc { acpi: true } => (",usb=off", "i440FX chipset"),
            Machine::Pc { acpi: false } => (
                ",usb=off,acpi=off,smm=off,hpet=off,smbus=off,i8042=off,vmport=off",
                "i440FX chipset and nothing but it: no ACPI tables to interpret, no local APIC's \
                 timer to calibrate",
            ),
        };
        // What the guest has in memory stays out of a core dump of QEMU.
        let core = ",dump-guest-core=off";
        let machine = format!("{}{options}{core}{backend}", plan.machine.name());
        self.add(["-M", &machine], why);
        if plan.machine.transport() == Transport::Mmio {
            self.add(
                ["-global", "virtio-mmio.force-legacy=off"],
                "virtio 1.0, which is what virtiofsd serves",
            );
        }
        if let Firmware::Qboot(path) = &plan.firmware {
            self.add(
                ["-bios", &path.to_string_lossy()],
                "qboot does only what starting a kernel needs",
            );
        }
        let why = match plan.accelerator {
            Accelerator::Kvm => "a trial run showed that KVM works here",
            Accelerator::Tcg => "emulation",
        };
        self.add(["-accel", plan.accelerator.name()], why);
        if plan.instructions {
            self.add(
                ["-icount", "shift=0,sleep=off"],
                "a nanosecond of guest time is one instruction, and waiting takes no time",
            );
            self.add(
                ["-rtc", "base=2000-01-01T00:00:00,clock=vm"],
                "the same date at every boot",
            );
            self.add(
                ["-seed", "1"],
                "what QEMU tells the guest at random is pinned",
            );
        }
        self.add(["-cpu", &plan.cpu], "CPU model");
        let (more, why) = match plan.pretranslator {
            Some(_) => (
                1,
                "virtual CPUs: the last one is unknown to the kernel, whose code it has QEMU \
                 translate ahead",
            ),
            None => (0, "virtual CPUs; each further one costs boot time"),
        };
        let cpus = (plan.cpus + more).to_string();
        self.add(["-smp", &cpus], why);
        let memory = format!("{}M", plan.memory_mib);
        self.add(["-m", &memory], "memory");
        if plan.lock_memory {
            self.add(
                ["-overcommit", "mem-lock=on"],
                "nothing of the guest's memory gets to this host's swap",
            );
        }
        let (sharing, why) = match plan.ram {
            Ram::Private => return,
            Ram::Shared | Ram::File(_) | Ram::Copy(_) => (
                "align=2M,share=on",
                "memory in a file: allocated while QEMU starts; virtiofsd maps it, snapshots leave it out",
            ),
            Ram::Template(_) => (
                "share=off,readonly=on,rom=off",
                "memory of a guest that booted before; what this one writes is its own",
            ),
        };
        let object = format!(
            "memory-backend-file,id=ram,size={memory},mem-path=/proc/self/fd/{},{sharing}",
            Fds::RAM
        );
        self.add(["-object", &object], why);
    }

    fn kernel(&mut self, plan: &VmConfig) {
        if plan.state.is_some() {
            self.add(
                ["-incoming", "defer"],
                "the guest goes on from where it was, instead of booting",
            );
        }
        if plan.pretranslates {
            self.add(
                ["-boot", "menu=on"],
                "for the second processor, which asks the machine for it, to work",
            );
        }
        let kernel = plan.kernel.to_string_lossy();
        let why = "the kernel, decompressed once on the host instead of at every boot in the guest";
        if let Some(pretranslator) = &plan.pretranslator {
            // Memory that is there already has it.
            if plan.state.is_none() {
                let device = format!("loader,file={}", escape(&kernel));
                self.add(["-device", &device], why);
            }
            self.add(
                ["-kernel", &pretranslator.to_string_lossy()],
                "what is to be translated ahead: sets the second processor to work, and jumps to \
                 the kernel",
            );
        } else {
            self.add(["-kernel", &kernel], why);
        }
        if plan.traced {
            self.add(
                [
                    "-trace",
                    EVENT,
                    "-D",
                    &format!("/proc/self/fd/{}", Fds::TRACE),
                ],
                "which code of the kernel is executed when, for the next run to have it \
                 translated ahead",
            );
        }
        self.add(
            ["-initrd", &plan.initramfs.to_string_lossy()],
            "our init and the modules it needs, uncompressed",
        );
        let line: Vec<_> = plan
            .parameters
            .iter()
            .map(|parameter| &*parameter.text)
            .collect();
        let why: Vec<_> = plan
            .parameters
            .iter()
            .map(|parameter| format!("{}: {}", parameter.text, parameter.why))
            .collect();
        self.add(["-append", &line.join(" ")], &why.join("\n"));
    }

    fn channels(&mut self, plan: &VmConfig) {
        let suffix = plan.machine.transport().suffix();
        // Notified through an eventfd, QEMU's main loop would serve the channel when it gets to it.
        let at_once = match plan.machine.transport() {
            Transport::Pci if plan.instructions => ",ioeventfd=off",
            _ => "",
        };
        self.add(
            [
                "-chardev",
                &plan.socket("qmp", Fds::QMP),
                "-mon",
                "chardev=qmp,mode=control",
            ],
            "control channel",
        );
        if plan.postcopy {
            self.add(
                [
                    "-chardev",
                    &socket("urgent", Fds::OOB),
                    "-mon",
                    "chardev=urgent,mode=control",
                ],
                "control channel for when all others wait for the guest's memory",
            );
        }
        let why = "the kernel's console: its last words are shown when it fails";
        match plan.channels {
            Channels::Connected => self.add(
                [
                    "-chardev",
                    &socket("console", Fds::CONSOLE),
                    "-serial",
                    "chardev:console",
                ],
                why,
            ),
            Channels::Listening { .. } => self.add(
                [
                    "-add-fd",
                    &format!("fd={0},set={0}", Fds::CONSOLE),
                    "-chardev",
                    &format!("file,id=console,path=/dev/fdset/{},append=on", Fds::CONSOLE),
                    "-serial",
                    "chardev:console",
                ],
                why,
            ),
        }
        if plan.firmware_log {
            self.add(
                [
                    "-chardev",
                    &socket("firmware", Fds::FIRMWARE),
                    "-device",
                    "isa-debugcon,iobase=0x402,chardev=firmware",
                ],
                "SeaBIOS says here what it does",
            );
        }
        if plan.debugger {
            self.add(
                [
                    "-chardev",
                    &socket("debugger", Fds::DEBUGGER),
                    "-gdb",
                    "chardev:debugger",
                ],
                "a breakpoint tells when the kernel is entered",
            );
        }
        let slot = self.slots.next();
        let ports = match plan.channels {
            Channels::Connected => 0,
            Channels::Listening { ports } => ports,
        };
        self.add(
            [
                "-chardev",
                &plan.socket("guest", Fds::GUEST),
                "-device",
                &format!(
                    "virtio-serial-{suffix},max_ports={}{at_once}{slot}",
                    2 + ports
                ),
                "-device",
                "virtserialport,chardev=guest,name=brisk.0,nr=1",
            ],
            "the channel of our init: the command's input and output, signals, exit status",
        );
        for port in 1..=ports {
            self.add(
                [
                    "-chardev",
                    &plan.socket(&format!("port{port}"), Fds::PORTS + port as i32 - 1),
                    "-device",
                    &format!(
                        "virtserialport,chardev=port{port},name=brisk.{port},nr={}",
                        port + 1
                    ),
                ],
                "one command at a time is asked for here",
            );
        }
    }

    /// A set of descriptors with this one, which QEMU opens as a file.
    fn add_fd(&mut self, fd: i32, why: &str) {
        self.add(["-add-fd", &format!("fd={fd},set={fd}")], why);
    }

    fn devices(&mut self, plan: &VmConfig) {
        let suffix = plan.machine.transport().suffix();
        let rom = if suffix == "pci" { ",romfile=" } else { "" };
        let mut backing_fds = Fds::BACKING..;
        for (index, disk) in plan.disks.iter().enumerate() {
            let slot = self.slots.next();
            let path = disk.path.to_string_lossy();
            let fd = Fds::DISKS + index as i32;
            self.add_fd(fd, "the disk's image");
            let backing: Vec<_> = disk.backing.iter().zip(&mut backing_fds).collect();
            for (file, fd) in &backing {
                let why = format!("what the disk reads from, {}", file.path.display());
                self.add_fd(*fd, &why);
            }
            self.add(
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
        for (index, filesystem) in plan.filesystems.iter().enumerate() {
            let slot = self.slots.next();
            match filesystem {
                Filesystem::Virtiofs { tag } => self.add(
                    [
                        "-chardev",
                        &socket(
                            &format!("{FILESYSTEM}{index}"),
                            Fds::FILESYSTEMS + index as i32,
                        ),
                        "-device",
                        &format!(
                            "vhost-user-fs-{suffix},chardev={FILESYSTEM}{index},tag={tag}{slot}"
                        ),
                    ],
                    "a directory of the host, served by virtiofsd",
                ),
                Filesystem::NineP {
                    tag,
                    path,
                    writable,
                } => self.add(
                    [
                        "-fsdev",
                        &format!(
                            "local,id=fs{index},path={},security_model=none,readonly={}",
                            escape(&path.to_string_lossy()),
                            if *writable { "off" } else { "on" }
                        ),
                        "-device",
                        &format!("virtio-9p-{suffix},fsdev=fs{index},mount_tag={tag}{slot}"),
                    ],
                    "a directory of the host, served by QEMU because there is no virtiofsd",
                ),
            }
        }
        if plan.network == Network::User {
            let slot = self.slots.next();
            let mac = plan.mac.map(|mac| format!(",mac={}", in_hex(&mac, ":")));
            let mac = mac.unwrap_or_default();
            self.add(
                [
                    "-netdev",
                    "user,id=net0",
                    "-device",
                    &format!("virtio-net-{suffix},netdev=net0{mac}{rom}{slot}"),
                ],
                "QEMU's user network: outgoing connections only",
            );
        }
        if plan.reports_free_memory {
            let slot = self.slots.next();
            self.add(
                [
                    "-device",
                    &format!("virtio-balloon-{suffix},free-page-reporting=on{slot}"),
                ],
                "memory that the guest does not use goes back to the host, and into no image",
            );
        }
        if let Some(generation) = plan.generation {
            let digits = in_hex(&generation, "");
            let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
            let guid = parts.join("-");
            self.add(
                ["-device", &format!("vmgenid,guid={guid}")],
                "a clone's kernel is told that it is one, and draws other random numbers",
            );
        }
    }
}

/// Where the devices are on the PCI bus.
enum Slots {
    /// Where QEMU puts them.
    Any,
    /// In the next odd slot.
    ///
    /// On i440FX qboot (main.c, pci.c of its source) tells the system an interrupt that is right
    /// only there: it counts pins from 1 and QEMU's `pci_slot_get_pirq` from 0. With ACPI that
    /// does not matter, because nobody reads it.
    Odd(u32),
}

impl Slots {
    /// Slot 1 is the chipset's.
    const FIRST: u32 = 3;

    fn of(plan: &VmConfig) -> Self {
        match (&plan.firmware, plan.machine) {
            (Firmware::Qboot(_), Machine::Pc { acpi: false }) => Self::Odd(Self::FIRST),
            _ => Self::Any,
        }
    }

    fn next(&mut self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Odd(next) => {
                let slot = format!(",addr={next:#x}");
                *next += 2;
                slot
            }
        }
    }
}

/// How many devices the odd slots of a PCI bus take, apart from the chipset.
pub const ODD_SLOTS: usize = 15;

fn in_hex(bytes: &[u8], between: &str) -> String {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(between)
}

fn socket(id: &str, fd: i32) -> String {
    format!("socket,id={id},fd={fd}")
}

impl VmConfig {
    /// A channel that a brisk is connected to, or will be.
    fn socket(&self, id: &str, fd: i32) -> String {
        match self.channels {
            Channels::Connected => socket(id, fd),
            Channels::Listening { .. } => format!("{},server=on,wait=off", socket(id, fd)),
        }
    }
}
