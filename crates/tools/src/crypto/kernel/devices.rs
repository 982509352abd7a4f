//! Devices that do cryptography.

use std::path::Path;

use serde::Serialize;

use super::modules::Modules;
use super::text;

/// Buses whose devices are looked at.
const BUSES: [&str; 3] = ["virtio", "pci", "platform"];

/// A device that may do cryptography.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// `virtio`, `pci` or `platform`.
    pub bus: &'static str,
    /// Its name on the bus, such as `0000:6b:00.0`.
    pub name: String,
    /// What it is.
    pub what: &'static str,
    /// Driver that it is bound to.
    pub driver: Option<String>,
    /// Module of that driver.
    pub module: Option<String>,
    /// Modules of this kernel that have a driver for it.
    pub modules: Vec<String>,
}

/// A class of devices by the beginning or a part of `modalias`.
struct Class {
    bus: &'static str,
    part: &'static str,
    what: &'static str,
}

/// Classes that are known without the modules: the virtio specification, 5.9, and the PCI Code and
/// ID Assignment Specification.
const CLASSES: &[Class] = &[
    Class {
        bus: "virtio",
        part: "virtio:d00000014",
        what: "virtio crypto device",
    },
    Class {
        bus: "pci",
        part: "bc10",
        what: "PCI encryption controller",
    },
    Class {
        bus: "pci",
        part: "bc0Bsc40",
        what: "PCI co-processor",
    },
];

/// Modules with the algorithms of a device whose own driver has none: `ccp` is bound to AMD's secure
/// processor, and `ccp-crypto`, which nothing loads, has its ciphers (`drivers/crypto/ccp/Kconfig`).
const SEPARATE: &[(&str, &str)] = &[("ccp", "ccp_crypto")];

/// Module that drives the devices of a module of algorithms, where that is another one.
pub(crate) fn module_of_devices(algorithms: &str) -> Option<&'static str> {
    let mut pairs = SEPARATE.iter();
    let found = pairs.find(|(_, separate)| *separate == algorithms);
    found.map(|(devices, _)| *devices)
}

impl Device {
    /// Whether it is certain to have ciphers. Most of AMD's secure processors have none, and only
    /// their driver knows.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        let is_separate = |module: &String| SEPARATE.iter().any(|(_, it)| it == module);
        !self.modules.iter().any(is_separate)
    }
}

/// Devices that are of a class for cryptography, match a module of one, or are bound to one.
pub(super) fn below(root: &Path, modules: &Modules) -> Vec<Device> {
    let on_bus = |bus: &'static str| {
        let names = text::names(root, &format!("sys/bus/{bus}/devices"));
        names
            .into_iter()
            .filter_map(move |name| device(root, modules, bus, name))
    };
    BUSES.into_iter().flat_map(on_bus).collect()
}

fn device(root: &Path, modules: &Modules, bus: &'static str, name: String) -> Option<Device> {
    let path = format!("sys/bus/{bus}/devices/{name}");
    let modalias = text::of(root, &format!("{path}/modalias"))?;
    let modalias = modalias.trim();
    let driver = text::link_name(root, &format!("{path}/driver"));
    let module = text::link_name(root, &format!("{path}/driver/module"));
    let mut candidates = modules.for_device(modalias);
    let class = CLASSES
        .iter()
        .find(|class| class.bus == bus && modalias.contains(class.part));
    let is_bound = module
        .as_deref()
        .is_some_and(|module| modules.is_of_device(module));
    if class.is_none() && candidates.is_empty() && !is_bound {
        return None;
    }
    for (own, separate) in SEPARATE {
        if candidates.iter().any(|it| it == own) || driver.as_deref() == Some(own) {
            candidates = vec![(*separate).to_owned()];
        }
    }
    Some(Device {
        bus,
        name,
        what: class.map_or("device with a crypto driver", |class| class.what),
        driver,
        module,
        modules: candidates,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::crypto::kernel::Kernel;

    /// A tree with files, and with links of drivers and of their modules.
    fn tree(files: &[(&str, &str)], links: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let place = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (path, text) in files {
            fs::write(place(path), text).unwrap();
        }
        for (path, target) in links {
            symlink(target, place(path)).unwrap();
        }
        root
    }

    fn found(root: &Path) -> Vec<Device> {
        Kernel::below(root).devices
    }

    #[test]
    fn a_class_is_known_without_modules() {
        let root = tree(
            &[
                (
                    "sys/bus/virtio/devices/virtio0/modalias",
                    "virtio:d00000001v00001AF4\n",
                ),
                (
                    "sys/bus/virtio/devices/virtio3/modalias",
                    "virtio:d00000014v00001AF4\n",
                ),
                (
                    "sys/bus/pci/devices/0000:6b:00.0/modalias",
                    "pci:v00008086d00004940sv00008086sd00000000bc0Bsc40i00\n",
                ),
                (
                    "sys/bus/pci/devices/0000:00:03.0/modalias",
                    "pci:v00001AF4d00001041sv00001AF4sd00001041bc02sc00i00\n",
                ),
            ],
            &[],
        );
        let shown: Vec<_> = found(root.path())
            .iter()
            .map(|device| format!("{} {}: {}", device.bus, device.name, device.what))
            .collect();
        assert_eq!(
            shown,
            [
                "virtio virtio3: virtio crypto device",
                "pci 0000:6b:00.0: PCI co-processor"
            ]
        );
    }

    #[test]
    fn a_device_is_known_by_its_driver_or_by_an_alias() {
        let version = ("proc/version", "Linux version 6.1 (x)\n");
        let dep = (
            "lib/modules/6.1/modules.dep",
            "kernel/drivers/crypto/ccp/ccp.ko:\nkernel/drivers/crypto/ccp/ccp-crypto.ko:\n\
             kernel/drivers/crypto/inside-secure/crypto_safexcel.ko:\n",
        );
        let alias = (
            "lib/modules/6.1/modules.alias",
            "alias pci:v00001022d00001456sv*sd*bc*sc*i* ccp\n",
        );
        let root = tree(
            &[
                version,
                dep,
                alias,
                (
                    "sys/bus/pci/devices/0000:02:00.2/modalias",
                    "pci:v00001022d00001456sv1sd1bc10sc80i00\n",
                ),
                (
                    "sys/bus/platform/devices/f2800000.crypto/modalias",
                    "of:NcryptoT(null)Cinside-secure,safexcel-eip197b\n",
                ),
            ],
            &[
                (
                    "sys/bus/platform/devices/f2800000.crypto/driver",
                    "../../drivers/crypto-safexcel",
                ),
                (
                    "sys/bus/platform/drivers/crypto-safexcel/module",
                    "../../../../module/crypto_safexcel",
                ),
            ],
        );
        let all = found(root.path());
        let ciphers = ["ccp_crypto".to_owned()];
        assert_eq!(all[0].modules, ciphers, "ccp itself has no ciphers");
        assert!(!all[0].is_certain() && all[1].is_certain());
        assert_eq!(all[1].driver.as_deref(), Some("crypto-safexcel"));
        assert_eq!(all[1].module.as_deref(), Some("crypto_safexcel"));
        assert_eq!(all.len(), 2);
    }
}
