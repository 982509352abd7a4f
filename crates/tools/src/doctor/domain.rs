//! What the definition of a domain of libvirt's says about the boot it makes. Pure.

use brisk_vm::libvirt::{Definition, Device};

use super::facts::{Facts, Kvm};
use super::findings::{Finding, Severity};

/// Judges a definition. Fixes are for `virt-xml` (of virtinst) where it has a word for them, else
/// for `virsh edit`.
pub(super) fn findings(domain: &Definition, facts: &Facts) -> Vec<Finding> {
    let mut judge = Judge {
        name: &domain.name,
        list: Vec::new(),
    };
    judge.accelerator(domain, facts);
    judge.firmware(domain);
    judge.kernel(domain);
    judge.disks(domain);
    judge.networks(domain);
    judge.unused(domain);
    judge.list
}

struct Judge<'a> {
    name: &'a str,
    list: Vec<Finding>,
}

impl Judge<'_> {
    fn add(&mut self, severity: Severity, what: impl Into<String>, effect: &str, fix: String) {
        self.list.push(Finding {
            severity,
            what: what.into(),
            effect: effect.to_owned(),
            fix,
        });
    }

    fn slow(&mut self, what: impl Into<String>, effect: &str, fix: String) {
        self.add(Severity::Slow, what, effect, fix);
    }

    fn edit(&self, xml: &str) -> String {
        format!("virsh edit {}: {xml}", self.name)
    }

    fn virt_xml(&self, words: &str) -> String {
        format!("virt-xml {} {words}", self.name)
    }

    fn accelerator(&mut self, domain: &Definition, facts: &Facts) {
        let kvm = domain.hypervisor == "kvm";
        match &facts.kvm {
            Kvm::Works if !kvm => self.slow(
                "the domain does not ask for KVM, which works here",
                "the guest is emulated (TCG), which takes five to twenty times as long",
                self.edit("<domain type='kvm'>"),
            ),
            Kvm::Absent | Kvm::Forbidden if kvm => self.add(
                Severity::Impossible,
                "the domain asks for KVM, which cannot be used here",
                "it does not start",
                self.edit("<domain type='qemu'>, or see what is said of KVM"),
            ),
            Kvm::Useless(_) if kvm => self.slow(
                "the domain asks for KVM, with which guests do not boot in time here",
                "it takes minutes, or does not boot",
                self.edit("<domain type='qemu'>, or see what is said of KVM"),
            ),
            _ => {}
        }
        let host = matches!(
            domain.cpu_mode.as_deref(),
            Some("host-passthrough" | "host-model" | "maximum")
        );
        if kvm && !host {
            let model = domain.cpu_model.as_deref().unwrap_or("QEMU's default");
            self.slow(
                format!("the processor is {model}, not the host's"),
                "the guest does without instructions that this machine has",
                self.virt_xml("--edit --cpu host-passthrough"),
            );
        }
        if domain.preallocated {
            self.slow(
                "guest memory is allocated before the start",
                "all of it is cleared first: about a second for 4 GiB",
                self.edit("remove <allocation mode='immediate'/>, where memory need not be locked"),
            );
        }
    }

    fn firmware(&mut self, domain: &Definition) {
        let efi = domain.firmware.as_deref().is_some_and(|firmware| {
            let name = firmware.to_lowercase();
            ["efi", "ovmf", "edk2"]
                .iter()
                .any(|part| name.contains(part))
        });
        if efi && domain.kernel.is_some() {
            self.slow(
                "the kernel starts through UEFI firmware, though it is given from outside",
                "UEFI sets up all devices before the kernel does so again",
                self.edit("remove firmware='efi', <loader> and <nvram> from <os>"),
            );
        } else if efi {
            self.add(
                Severity::Note,
                "the firmware is UEFI",
                "it takes longer than SeaBIOS; brisk boot analyze tells how long",
                "an installed system that starts by UEFI needs it; install the next on SeaBIOS"
                    .into(),
            );
        }
        if domain.boot_menu {
            self.slow(
                "the firmware shows a boot menu",
                "each boot waits until nobody has pressed a key",
                self.virt_xml("--edit --boot bootmenu.enable=no"),
            );
        }
    }

    fn kernel(&mut self, domain: &Definition) {
        let Some(kernel) = &domain.kernel else {
            return;
        };
        if kernel.contains("vmlinuz") || kernel.contains("bzImage") {
            self.slow(
                "the kernel is compressed",
                "it is decompressed in the guest at every boot: 0.7 s when emulated",
                format!(
                    "brisk kernel extract {kernel} writes a vmlinux, which QEMU starts through \
                     PVH: {}",
                    self.virt_xml("--edit --boot kernel=VMLINUX")
                ),
            );
        }
        let word = |start: &str| {
            let mut words = domain.cmdline.split_whitespace();
            words.any(|word| word.starts_with(start))
        };
        let serial = domain.devices("serial").next().is_some()
            || domain
                .devices("console")
                .any(|console| matches!(&*console.bus, "" | "serial"));
        if word("console=ttyS0") && !serial {
            self.slow(
                "the console is a serial port that the machine does not have",
                "every character waits for a transmitter that never answers: up to 15 s",
                self.virt_xml("--add-device --serial pty"),
            );
        } else if word("console=ttyS") && !word("quiet") {
            self.slow(
                "the kernel prints all its messages to a serial port",
                "each character is an exit to QEMU",
                self.edit("add quiet to <cmdline>, or use a virtio console (console=hvc0)"),
            );
        }
        if !domain.no_ps2 && !word("i8042.") {
            self.slow(
                "the kernel probes for a PS/2 keyboard and mouse",
                "up to half a second of waiting for answers",
                self.edit(
                    "<ps2 state='off'/> in <features> where libvirt knows it, or add i8042.noaux \
                     i8042.nokbd to <cmdline>",
                ),
            );
        }
    }

    fn disks(&mut self, domain: &Definition) {
        for disk in domain.devices("disk") {
            let slow = matches!(&*disk.bus, "ide" | "sata" | "fdc" | "usb" | "sd");
            match &*disk.kind {
                "cdrom" | "floppy" => self.add(
                    Severity::Note,
                    format!("there is a {} drive, {}", disk.kind, disk.target),
                    "firmware and kernel look for a medium in it",
                    self.virt_xml(&format!(
                        "--remove-device --disk target.dev={}, if nobody uses it",
                        disk.target
                    )),
                ),
                _ if slow => self.slow(
                    format!("disk {} is emulated hardware ({})", disk.target, disk.bus),
                    "it is probed slowly, and each access costs several exits to QEMU",
                    self.virt_xml(&format!(
                        "--edit target.dev={} --disk target.bus=virtio,target.dev=vda; the guest \
                         needs virtio_blk in its initramfs",
                        disk.target
                    )),
                ),
                _ => {}
            }
        }
    }

    fn networks(&mut self, domain: &Definition) {
        for network in domain.devices("interface") {
            if network.kind == "hostdev" || network.model.starts_with("virtio") {
                continue;
            }
            let model = if network.model.is_empty() {
                "QEMU's default"
            } else {
                &network.model
            };
            self.slow(
                format!("a network card is emulated hardware ({model})"),
                "it is probed slowly, and each packet costs several exits to QEMU",
                self.virt_xml("--edit all --network model.type=virtio"),
            );
        }
    }

    /// Devices that cost time at every boot, and that not every guest needs.
    fn unused(&mut self, domain: &Definition) {
        let has = |element: &str, is: fn(&Device) -> bool| domain.devices(element).any(is);
        if has("video", |video| video.model != "none") {
            self.slow(
                "there is a graphics card",
                "the firmware starts its BIOS, and the kernel its driver",
                format!(
                    "{}; {}; on a guest that is used by its console or network",
                    self.virt_xml("--remove-device --graphics all"),
                    self.virt_xml("--edit --video model.type=none")
                ),
            );
        }
        let usb = |bus: &str| bus == "usb";
        let used = domain
            .devices
            .iter()
            .any(|device| usb(&device.bus) && device.element != "input")
            || domain.devices.iter().any(|device| {
                matches!(&*device.element, "hostdev" | "redirdev") && device.kind == "usb"
            });
        let off = |device: &Device| device.kind == "usb" && device.model == "none";
        if !used && !domain.devices("controller").any(off) {
            self.slow(
                "there is a USB controller without a need for it",
                "firmware and kernel start it and look for devices; libvirt adds one unless told \
                 not to",
                self.edit(
                    "<controller type='usb' model='none'/>, and no <input bus='usb'> or \
                     <redirdev>",
                ),
            );
        }
        if has("input", usb_input) {
            self.add(
                Severity::Note,
                "there is a USB tablet or keyboard",
                "the kernel waits for USB, and QEMU polls it while the guest runs",
                self.virt_xml("--remove-device --input bus=usb, on a guest without a display"),
            );
        }
        if has("sound", |_| true) {
            self.slow(
                "there is a sound card",
                "the kernel probes its codecs",
                self.virt_xml("--remove-device --sound all"),
            );
        }
        if has("tpm", |_| true) {
            self.add(
                Severity::Note,
                "there is a TPM",
                "the firmware measures what it starts, and swtpm is started before QEMU",
                self.virt_xml("--remove-device --tpm all, if the guest needs none"),
            );
        }
        if !domain
            .devices("memballoon")
            .any(|balloon| balloon.model == "none")
        {
            self.add(
                Severity::Note,
                "there is a memory balloon",
                "the kernel loads a driver for it",
                self.virt_xml("--edit --memballoon model=none, if memory is never taken back"),
            );
        }
    }
}

fn usb_input(input: &Device) -> bool {
    input.bus == "usb" || (input.bus.is_empty() && input.kind == "tablet")
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::good;
    use super::*;

    fn domain(name: &str) -> Definition {
        let text = match name {
            "desktop" => include_str!("fixtures/desktop.xml"),
            _ => include_str!("fixtures/lean.xml"),
        };
        Definition::parse(text).unwrap()
    }

    fn text(list: &[Finding]) -> String {
        let lines = list.iter().map(|finding| {
            let severity = finding.severity.name();
            format!(
                "{severity}: {}\n  so:  {}\n  fix: {}\n",
                finding.what, finding.effect, finding.fix
            )
        });
        lines.collect()
    }

    /// Both as libvirt 11.3 printed them when they were defined; the files in them do not exist.
    #[test]
    fn a_desktop_has_much_that_a_server_does_not_need() {
        insta::assert_snapshot!(text(&findings(&domain("desktop"), &good())));
    }

    #[test]
    fn a_lean_domain_has_nothing_to_mend() {
        let facts = Facts {
            kvm: Kvm::Useless("slow".into()),
            ..good()
        };
        assert_eq!(text(&findings(&domain("lean"), &facts)), "");
    }

    #[test]
    fn a_domain_for_kvm_needs_it() {
        let facts = Facts {
            kvm: Kvm::Absent,
            ..good()
        };
        let list = findings(&domain("desktop"), &facts);
        assert_eq!(list[0].severity, Severity::Impossible);
    }

    #[test]
    fn a_serial_console_needs_a_port() {
        let mut lean = domain("lean");
        lean.cmdline = "console=ttyS0 quiet i8042.nokbd".into();
        let found = |domain: &Definition| {
            let facts = Facts {
                kvm: Kvm::Absent,
                ..good()
            };
            text(&findings(domain, &facts))
        };
        assert!(found(&lean).contains("does not have"));
        lean.devices.push(Device {
            element: "serial".into(),
            ..Device::default()
        });
        assert_eq!(found(&lean), "");
    }
}
