//! Cases of rules about hardware and drivers.

use super::cases::{Case, case};
use super::scene::Scene;
use crate::reboot::check::Consequence::{Cold, Note, Warn};

fn dmi(scene: &Scene, fields: &[(&str, &str)]) {
    for (field, text) in fields {
        scene.file(&format!("sys/class/dmi/id/{field}"), &format!("{text}\n"));
    }
}

/// The modules of NVIDIA's, as lsmod has them.
const NVIDIA: &str = "nvidia_uvm 1540096 0 - Live 0x0 (POE)\n\
                      nvidia_drm 77824 4 - Live 0x0 (POE)\n\
                      nvidia_modeset 1306624 2 nvidia_drm, Live 0x0 (POE)\n\
                      nvidia 56811520 19 nvidia_uvm,nvidia_modeset, Live 0x0 (POE)\n\
                      drm 614400 5 nvidia_drm, Live 0x0\n";

fn virtual_machine(scene: &Scene, release: &str) {
    scene.file("proc/cpuinfo", "flags\t: fpu hypervisor\n");
    scene.file("proc/sys/kernel/osrelease", release);
    scene.device("virtio", "virtio1", "virtio_console");
}

pub(super) const CASES: &[Case] = &[
    case(
        "cloud-guest",
        "Google Cloud",
        Cold,
        |scene| {
            dmi(
                scene,
                &[
                    ("sys_vendor", "Google"),
                    ("product_name", "Google Compute Engine"),
                ],
            );
        },
        // A Chromebook.
        |scene| dmi(scene, &[("sys_vendor", "Google"), ("product_name", "Eve")]),
    ),
    case(
        "cloud-guest",
        "Azure",
        Cold,
        |scene| {
            dmi(
                scene,
                &[
                    ("sys_vendor", "Microsoft Corporation"),
                    ("product_name", "Virtual Machine"),
                    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
                ],
            );
        },
        // Hyper-V elsewhere.
        |scene| {
            dmi(
                scene,
                &[
                    ("sys_vendor", "Microsoft Corporation"),
                    ("product_name", "Virtual Machine"),
                    ("chassis_asset_tag", "1234-5678"),
                ],
            );
        },
    ),
    case(
        "processor-dark",
        "stay dark (coreos/fedora-coreos-tracker#2071)",
        Cold,
        |scene| {
            let text = "model name\t: Intel(R) Celeron(R) N5105 @ 2.00GHz\n";
            scene.file("proc/cpuinfo", text);
        },
        |scene| {
            let text = "model name\t: Intel(R) Celeron(R) N5095 @ 2.00GHz\n";
            scene.file("proc/cpuinfo", text);
        },
    ),
    case(
        "board-processors",
        "Raspberry Pi 4",
        Cold,
        |scene| {
            let model = "Raspberry Pi 4 Model B Rev 1.4\0";
            scene.file("sys/firmware/devicetree/base/model", model);
        },
        |scene| {
            let model = "Raspberry Pi 5 Model B Rev 1.0\0";
            scene.file("sys/firmware/devicetree/base/model", model);
        },
    ),
    case(
        "board-processors",
        "Rock Pi",
        Cold,
        |scene| scene.file("sys/firmware/devicetree/base/model", "Radxa ROCK Pi 4B\0"),
        |scene| scene.file("sys/firmware/devicetree/base/model", "Radxa ZERO\0"),
    ),
    case(
        "board-network",
        "HP Z2 G4",
        Warn,
        |scene| {
            dmi(
                scene,
                &[
                    ("sys_vendor", "HP"),
                    ("product_name", "HP Z2 Tower G4 Workstation"),
                ],
            );
        },
        |scene| {
            dmi(
                scene,
                &[
                    ("sys_vendor", "HP"),
                    ("product_name", "HP Z2 Tower G5 Workstation"),
                ],
            );
        },
    ),
    case(
        "gpu-loaded",
        "; programs use nvidia_drm, nvidia_modeset, nvidia",
        Warn,
        |scene| scene.file("proc/modules", NVIDIA),
        |scene| scene.file("proc/modules", "nvidiafb 65536 0 - Live 0x0\n"),
    ),
    case(
        "gpu-no-display",
        "card0 is a GPU of amdgpu to which nothing is connected",
        Warn,
        |scene| scene.card("amdgpu", "disconnected\n"),
        |scene| scene.card("amdgpu", "connected\n"),
    ),
    case(
        "gpu-no-display",
        "amdgpu",
        Warn,
        |scene| scene.link("sys/class/drm/card1/device/driver", "../drivers/amdgpu"),
        |scene| scene.card("ast", "disconnected\n"),
    ),
    case(
        "console-dark",
        "i915drmfb",
        Warn,
        |scene| scene.file("sys/class/graphics/fb0/name", "i915drmfb\n"),
        |scene| scene.file("sys/class/graphics/fb0/name", "VESA VGA\n"),
    ),
    case(
        "console-dark",
        "a passphrase has to be typed blind",
        Warn,
        |scene| {
            scene.file("sys/class/graphics/fb0/name", "i915drmfb\n");
            scene.file("etc/crypttab", "root UUID=1 none luks\n");
        },
        // Without a screen.
        |scene| {
            scene.remove("sys/class/graphics/fb0/name");
            scene.file("etc/crypttab", "root UUID=1 none luks\n");
        },
    ),
    case(
        "old-driver",
        "0000:3b:00.0: with cards of mlx5_core",
        Warn,
        |scene| {
            scene.device("pci", "0000:3b:00.0", "mlx5_core");
            scene.file("proc/sys/kernel/osrelease", "4.4.0-21-generic\n");
        },
        |scene| scene.device("pci", "0000:3b:00.0", "mlx5_core"),
    ),
    case(
        "network-card-dead",
        "mlx4_core",
        Note,
        |scene| scene.device("pci", "0000:3b:00.0", "mlx4_core"),
        |scene| scene.file("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n"),
    ),
    case(
        "network-card-slow",
        "0000:00:1f.6: after a kexec, some cards of e1000e",
        Warn,
        |scene| scene.device("pci", "0000:00:1f.6", "e1000e"),
        |scene| scene.device("pci", "0000:00:1f.6", "e1000"),
    ),
    case(
        "old-driver",
        "NVMe",
        Warn,
        |scene| {
            scene.file("proc/sys/kernel/osrelease", "4.4.0-210-generic\n");
            scene.device("pci", "0000:01:00.0", "nvme");
        },
        |scene| scene.device("pci", "0000:01:00.0", "nvme"),
    ),
    case(
        "old-driver",
        "ioatdma",
        Warn,
        |scene| {
            scene.file("proc/sys/kernel/osrelease", "2.6.32-5-amd64\n");
            scene.device("pci", "0000:00:04.0", "ioatdma");
        },
        |scene| scene.device("pci", "0000:00:04.0", "ioatdma"),
    ),
    case(
        "virtio-console",
        "virtio1: virtio-console writes",
        Warn,
        |scene| virtual_machine(scene, "6.14.8-1-amd64\n"),
        |scene| virtual_machine(scene, "6.14.9-1-amd64\n"),
    ),
    case(
        "vfio-guest",
        "0000:01:00.0 is bound to vfio-pci",
        Warn,
        |scene| scene.device("pci", "0000:01:00.0", "vfio-pci"),
        |scene| scene.device("pci", "0000:01:00.0", "nouveau"),
    ),
    case(
        "iommu",
        "dmar0 is on, and 1 device(s)",
        Note,
        |scene| {
            scene.file("sys/class/iommu/dmar0/intel-iommu/version", "1:0\n");
            scene.device("pci", "0000:00:1f.2", "ahci");
            scene.link("sys/bus/pci/devices/0000:00:1f.2/iommu_group", "../3");
        },
        |scene| {
            scene.file("sys/class/iommu/dmar0/intel-iommu/version", "1:0\n");
            scene.link("sys/bus/pci/devices/0000:00:1f.2/iommu_group", "../3");
        },
    ),
];

#[test]
fn modules_are_unloaded_after_those_that_use_them() {
    let scene = Scene::new();
    scene.file("proc/modules", NVIDIA);
    let machine = scene.read().machine;
    let order = machine.devices.unloading("nvidia");
    let order: Vec<_> = order.iter().map(|module| &*module.name).collect();
    assert_eq!(
        order,
        ["nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"]
    );
    let findings = scene.read().findings();
    let fix = findings[0].fix.to_string();
    let end = "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia";
    assert!(fix.ends_with(end), "{fix}");
    // A graph that the kernel would not have.
    scene.file("proc/modules", "a 1 1 b, Live 0x0\nb 1 1 a, Live 0x0\n");
    assert_eq!(scene.read().machine.devices.unloading("a").len(), 2);
}

#[test]
fn a_fix_names_the_device() {
    let scene = Scene::new();
    scene.file("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    scene.device("virtio", "virtio2", "virtio_console");
    let findings = scene.read().findings();
    let fix = findings[0].fix.to_string();
    assert_eq!(
        fix,
        "unbind it, if nothing needs it: echo virtio2 > \
         /sys/bus/virtio/drivers/virtio_console/unbind"
    );
}
