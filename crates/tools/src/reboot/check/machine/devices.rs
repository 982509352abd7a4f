//! Devices with their drivers, and modules.

use std::path::Path;

use brisk_host::modules::{self, Module};
use brisk_host::sysfs;

/// Entries of a directory that are looked at.
const ENTRIES: usize = 4096;

/// A device on the PCI bus or of virtio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Bus: `pci` or `virtio`.
    pub bus: &'static str,
    /// Address on the bus, such as `0000:00:1f.6`.
    pub address: String,
    /// Name of the driver that is bound to it.
    pub driver: Option<String>,
    /// Whether an IOMMU is between it and memory.
    pub has_iommu: bool,
}

/// A graphics card as DRM has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Name, such as `card0`.
    pub name: String,
    /// Name of its driver.
    pub driver: Option<String>,
    /// Whether something is connected to it.
    pub has_display: bool,
}

/// Devices and modules of a machine.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    /// By bus and address.
    pub list: Vec<Device>,
    /// Graphics cards.
    pub cards: Vec<Card>,
    /// Name of the first framebuffer.
    pub framebuffer: Option<String>,
    /// Names of IOMMUs that are on.
    pub iommus: Vec<String>,
    /// Whether there is a watchdog.
    pub has_watchdog: bool,
    /// Modules, as `/proc/modules` has them.
    pub modules: Vec<Module>,
}

impl Devices {
    pub(super) fn read(root: &Path) -> Self {
        let list = ["pci", "virtio"]
            .into_iter()
            .flat_map(|bus| on_bus(root, bus));
        Self {
            list: list.collect(),
            cards: cards(root),
            framebuffer: sysfs::line(root, "class/graphics/fb0/name"),
            iommus: names(root, "class/iommu"),
            has_watchdog: !names(root, "class/watchdog").is_empty(),
            modules: modules::loaded(root),
        }
    }

    /// A module that is loaded.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name == name)
    }

    /// Devices with a driver.
    pub fn with_driver<'a>(&'a self, driver: &'a str) -> impl Iterator<Item = &'a Device> {
        let is_bound = move |device: &&Device| device.driver.as_deref() == Some(driver);
        self.list.iter().filter(is_bound)
    }

    /// A module and all that use it, in an order in which they can be unloaded.
    #[must_use]
    pub fn unloading(&self, name: &str) -> Vec<&Module> {
        modules::unloading(&self.modules, &[name])
    }
}

fn names(root: &Path, path: &str) -> Vec<String> {
    sysfs::first_names(root, path, ENTRIES)
}

fn on_bus(root: &Path, bus: &'static str) -> Vec<Device> {
    let directory = format!("bus/{bus}/devices");
    let device = |address: String| {
        let link = |name: &str| sysfs::link_name(root, &format!("{directory}/{address}/{name}"));
        Device {
            bus,
            driver: link("driver"),
            has_iommu: link("iommu_group").is_some(),
            address,
        }
    };
    names(root, &directory).into_iter().map(device).collect()
}

fn cards(root: &Path) -> Vec<Card> {
    let all = names(root, "class/drm");
    let is_card = |name: &&String| {
        let number = name.strip_prefix("card");
        number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
    };
    let card = |name: &String| {
        let connectors = all.iter().filter(|other| {
            let rest = other.strip_prefix(&**name);
            rest.is_some_and(|rest| rest.starts_with('-'))
        });
        let mut status = connectors
            .filter_map(|connector| sysfs::line(root, &format!("class/drm/{connector}/status")));
        Card {
            driver: sysfs::link_name(root, &format!("class/drm/{name}/device/driver")),
            has_display: status.any(|status| status == "connected"),
            name: name.clone(),
        }
    };
    all.iter().filter(is_card).map(card).collect()
}
