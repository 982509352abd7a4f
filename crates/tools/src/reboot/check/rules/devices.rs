//! Devices and their drivers.

use super::rule::{Findings, Rule, advice, command, known};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::hardware;
use crate::reboot::check::preflight::Preflight;
use brisk_lint::Applies;

/// Framebuffers that the firmware has set up, and that the new kernel can go on with.
const OF_FIRMWARE: [&str; 6] = [
    "EFI VGA",
    "VESA VGA",
    "simple",
    "simpledrmdrmfb",
    "efidrmdrmfb",
    "vesadrmdrmfb",
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gpu-loaded",
        applies: Applies::Host,
        why: "the firmware does not reset the GPU, and its driver in the new kernel may fail",
        source: "siderolabs/talos#9041",
        check: gpu_loaded,
    },
    Rule {
        id: "gpu-no-display",
        applies: Applies::Host,
        why: "GPUs of amdgpu without a display are reported not to start again",
        source: "reports of users; not seen by brisk's developers",
        check: gpu_no_display,
    },
    Rule {
        id: "console-dark",
        applies: Applies::Host,
        why: "the screen is dark until the new kernel has loaded the driver of its graphics card",
        source: "linuxboot/heads#1436; dri-devel, December 2021: Reuse framebuffer after a kexec",
        check: console_dark,
    },
    Rule {
        id: "network-card-dead",
        applies: Applies::Host,
        why: "the card may not answer after a kexec",
        source: "ipxe/ipxe#916",
        check: known,
    },
    Rule {
        id: "network-card-slow",
        applies: Applies::Host,
        why: "the link is a hundredth as fast",
        source: "nix-community/nixos-anywhere#346",
        check: known,
    },
    Rule {
        id: "old-driver",
        applies: Applies::Host,
        why: "the machine panics or hangs with drivers of old kernels",
        source: "open-power/op-build#537, #538; kexec mailing list, December 2009",
        check: known,
    },
    Rule {
        id: "virtio-console",
        applies: Applies::Host,
        why: "the guest hangs in the kexec",
        source: "CVE-2025-38064",
        check: virtio_console,
    },
    Rule {
        id: "vfio-guest",
        applies: Applies::Host,
        why: "the device goes on with a guest's work, in memory that is the new kernel's",
        source: "Linux: Documentation/driver-api/vfio.rst",
        check: vfio,
    },
    Rule {
        id: "iommu",
        applies: Applies::Host,
        why: "the new kernel turns the IOMMU off and on again, and devices that still work get faults",
        source: "Linux: drivers/iommu/intel/iommu.c, translation_pre_enabled; CVE-2025-38064",
        check: iommu,
    },
];

fn virtio_console(on: &Preflight, findings: &mut Findings) {
    if on.machine.platform.is_virtual {
        known(on, findings);
    }
}

fn gpu_loaded(on: &Preflight, findings: &mut Findings) {
    for found in hardware::matches(findings.rule().id, &on.machine) {
        let module = found.known.module.as_deref().unwrap_or_default();
        let order = on.machine.devices.unloading(module);
        // Uses that no module explains are open files, and the console.
        let busy = order.iter().filter(|one| one.uses > one.users.len() as u64);
        let busy: Vec<_> = busy.map(|one| &*one.name).collect();
        let names: Vec<_> = order.iter().map(|one| &*one.name).collect();
        let mut what = found.what();
        if !busy.is_empty() {
            what.push_str("; programs use ");
            what.push_str(&busy.join(", "));
        }
        let fix = format!("{}: modprobe -r {}", found.fix(), names.join(" "));
        findings.add(found.known.consequence, what, advice(fix));
    }
}

fn gpu_no_display(on: &Preflight, findings: &mut Findings) {
    let cards = on.machine.devices.cards.iter();
    let cards = cards.filter(|card| card.driver.as_deref() == Some("amdgpu") && !card.has_display);
    for card in cards {
        findings.add(
            Consequence::Warn,
            format!(
                "{} is a GPU of amdgpu to which nothing is connected",
                card.name
            ),
            advice("connect a display or a dummy plug, or unload the driver: modprobe -r amdgpu"),
        );
    }
}

fn console_dark(on: &Preflight, findings: &mut Findings) {
    let Some(name) = &on.machine.devices.framebuffer else {
        return;
    };
    if OF_FIRMWARE.contains(&&**name) {
        return;
    }
    let blind = match on.machine.storage.is_encrypted {
        true => "; a passphrase has to be typed blind meanwhile",
        false => "",
    };
    findings.add(
        Consequence::Warn,
        format!("the console is {name}, and not one that the firmware has set up{blind}"),
        advice("have the initial RAM disk load the graphics driver, or use a serial console"),
    );
}

fn vfio(on: &Preflight, findings: &mut Findings) {
    for device in on.machine.devices.with_driver("vfio-pci") {
        findings.add(
            Consequence::Warn,
            format!("{} is bound to vfio-pci, for a guest", device.address),
            command("brisk vm suspend NAME, or virsh shutdown NAME, before"),
        );
    }
}

fn iommu(on: &Preflight, findings: &mut Findings) {
    let devices = &on.machine.devices;
    let bound = devices.list.iter();
    let bound = bound.filter(|device| device.has_iommu && device.driver.is_some());
    let count = bound.count();
    if !devices.iommus.is_empty() && count > 0 {
        findings.add(
            Consequence::Note,
            format!(
                "{} is on, and {count} device(s) behind it have a driver",
                devices.iommus.join(", ")
            ),
            advice("nothing, if faults (DMAR, AMD-Vi) in the next kernel's log end soon"),
        );
    }
}
