//! Devices that have a driver, consoles on framebuffers, and device nodes.

use std::collections::HashMap;
use std::path::Path;

use brisk_host::sysfs;
use serde::Serialize;

/// Buses that are looked at. Devices on others are the firmware's, have no hardware, or are reset
/// by their bus.
const BUSES: [&str; 3] = ["pci", "virtio", "vmbus"];
/// Entries of a directory that are looked at.
const ENTRIES: usize = 4096;
/// Drivers of devices with the class of a graphics card that are not graphics drivers: the card is a
/// guest's, or a virtio device is behind it.
const NO_GRAPHICS: [&str; 4] = ["virtio-pci", "vfio-pci", "pci-stub", "pciback"];
/// Drivers of virtio and of Hyper-V's bus for graphics cards.
const GRAPHICS: [&str; 3] = ["virtio_gpu", "hyperv_drm", "hyperv_fb"];
/// Drivers that a sound device on the card, or beside it, keeps in use by the component framework
/// (`sound/hda/hdac_component.c`: the master pins the module of its audio component).
const WITH_SOUND: [&str; 5] = ["i915", "xe", "amdgpu", "radeon", "nouveau"];
const INTEL: &str = "0x8086";

/// Kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Graphics card.
    Gpu,
    /// Sound of a graphics card, which keeps the driver of that in use.
    Sound,
    /// Any other.
    Other,
}

/// A device with a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Bus: `pci`, `virtio` or `vmbus`.
    pub bus: &'static str,
    /// Address on the bus, such as `0000:01:00.0`.
    pub address: String,
    /// Name of the driver.
    pub driver: String,
    /// Module of the driver; none if it is built in.
    pub module: Option<String>,
    /// Whether the driver lets go of it when it is told to.
    pub can_unbind: bool,
    /// Kind of device.
    pub kind: Kind,
}

/// Framebuffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Framebuffer {
    /// Name of the node, such as `fb0`.
    pub node: String,
    /// Address of its device.
    pub device: String,
}

/// Device nodes, and what they belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    /// Name of a node of DRM or of a framebuffer, and the device.
    graphics: HashMap<String, String>,
    /// Number of a sound card, and the device.
    sound: HashMap<u32, String>,
}

/// What a device node belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// A device, by address.
    Device(String),
    /// A module, whichever device it is.
    Module(&'static str),
}

/// Devices, by bus and address.
pub(super) fn devices(root: &Path) -> Vec<Device> {
    let mut all: Vec<_> = BUSES
        .into_iter()
        .flat_map(|bus| on_bus(root, bus))
        .collect();
    let gpus: Vec<_> = all
        .iter()
        .filter(|one| one.kind == Kind::Gpu)
        .cloned()
        .collect();
    for device in &mut all {
        let keeps = |gpu: &Device| is_sound_of(root, device, gpu);
        if device.kind == Kind::Other && gpus.iter().any(keeps) {
            device.kind = Kind::Sound;
        }
    }
    all
}

fn on_bus(root: &Path, bus: &'static str) -> Vec<Device> {
    let directory = format!("bus/{bus}/devices");
    let device = |address: String| {
        let driver = sysfs::link_name(root, &format!("{directory}/{address}/driver"))?;
        let of_driver = format!("bus/{bus}/drivers/{driver}");
        let is_gpu = match bus {
            "pci" => class(root, &address).starts_with("0x03") && !NO_GRAPHICS.contains(&&*driver),
            _ => GRAPHICS.contains(&&*driver),
        };
        Some(Device {
            bus,
            module: sysfs::link_name(root, &format!("{of_driver}/module")),
            can_unbind: root.join("sys").join(&of_driver).join("unbind").exists(),
            kind: if is_gpu { Kind::Gpu } else { Kind::Other },
            address,
            driver,
        })
    };
    let names = names(root, &directory);
    names.into_iter().filter_map(device).collect()
}

fn class(root: &Path, address: &str) -> String {
    sysfs::line(root, &format!("bus/pci/devices/{address}/class")).unwrap_or_default()
}

/// Whether a device is the sound of a graphics card whose driver it keeps in use: another function
/// of the card, or the controller of an Intel processor whose graphics are in the processor.
fn is_sound_of(root: &Path, device: &Device, gpu: &Device) -> bool {
    let class = class(root, &device.address);
    let is_sound = class.starts_with("0x0401") || class.starts_with("0x0403");
    if device.bus != "pci" || !is_sound || NO_GRAPHICS.contains(&&*device.driver) {
        return false;
    }
    let slot = |address: &str| address.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    let is_beside = slot(&device.address) == slot(&gpu.address);
    let vendor = sysfs::line(root, &format!("bus/pci/devices/{}/vendor", device.address));
    let is_inside = |address: &str| address.starts_with("0000:00:");
    let is_intel = ["i915", "xe"].contains(&&*gpu.driver)
        && vendor.as_deref() == Some(INTEL)
        && is_inside(&device.address)
        && is_inside(&gpu.address);
    WITH_SOUND.contains(&&*gpu.driver) && (is_beside || is_intel)
}

/// Names of virtual consoles on the framebuffer, and whether each is bound to it
/// (`Documentation/driver-api/console.rst`).
pub(super) fn consoles(root: &Path) -> Vec<(String, bool)> {
    let is_framebuffer = |name: &String| {
        let text = sysfs::line(root, &format!("class/vtconsole/{name}/name"));
        text.is_some_and(|text| text.ends_with("frame buffer device"))
    };
    let consoles = names(root, "class/vtconsole").into_iter();
    let consoles = consoles.filter(is_framebuffer).map(|name| {
        let bind = sysfs::line(root, &format!("class/vtconsole/{name}/bind"));
        (name, bind.as_deref() == Some("1"))
    });
    consoles.collect()
}

pub(super) fn framebuffers(root: &Path) -> Vec<Framebuffer> {
    let nodes = names(root, "class/graphics").into_iter();
    let nodes = nodes.filter(|name| is_numbered(name, "fb"));
    let framebuffer = |node: String| {
        let device = device_of(root, &format!("class/graphics/{node}/device"))?;
        Some(Framebuffer { node, device })
    };
    nodes.filter_map(framebuffer).collect()
}

impl Nodes {
    pub(super) fn read(root: &Path) -> Self {
        let mut graphics = HashMap::new();
        for (class, prefixes) in [
            ("drm", &["card", "renderD", "controlD"][..]),
            ("graphics", &["fb"]),
        ] {
            for name in names(root, &format!("class/{class}")) {
                let is_node = prefixes.iter().any(|prefix| is_numbered(&name, prefix));
                let device = device_of(root, &format!("class/{class}/{name}/device"));
                if let Some(device) = device.filter(|_| is_node) {
                    graphics.insert(name, device);
                }
            }
        }
        let cards = names(root, "class/sound").into_iter().filter_map(|name| {
            let number = name.strip_prefix("card")?.parse().ok()?;
            let device = device_of(root, &format!("class/sound/{name}/device"))?;
            Some((number, device))
        });
        Self {
            graphics,
            sound: cards.collect(),
        }
    }

    /// What a node belongs to, by its path as a process has it.
    pub(super) fn owner(&self, path: &str) -> Option<Owner> {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let name = path.strip_prefix("/dev/")?;
        if let Some(name) = name.strip_prefix("snd/") {
            // Such as `controlC0` and `pcmC0D3p`.
            let digits = name.split_once('C')?.1;
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let number: u32 = digits[..end.unwrap_or(digits.len())].parse().ok()?;
            return self.sound.get(&number).cloned().map(Owner::Device);
        }
        let node = name.strip_prefix("dri/").unwrap_or(name);
        if let Some(device) = self.graphics.get(node) {
            return Some(Owner::Device(device.clone()));
        }
        let rest = name.strip_prefix("nvidia");
        Some(Owner::Module(match rest {
            _ if name == "kfd" => "amdgpu",
            Some(rest) if rest.starts_with("-uvm") => "nvidia_uvm",
            Some("-modeset") => "nvidia_modeset",
            Some(rest) if rest.starts_with("-fs") => "nvidia_fs",
            Some(_) => "nvidia",
            None => return None,
        }))
    }
}

/// Address of a device that a link refers to. DRM has the PCI device as the device of a virtio one
/// that is behind it.
fn device_of(root: &Path, link: &str) -> Option<String> {
    let address = sysfs::link_name(root, link)?;
    let driver = sysfs::link_name(root, &format!("bus/pci/devices/{address}/driver"));
    if driver.as_deref() != Some("virtio-pci") {
        return Some(address);
    }
    let behind = names(root, &format!("bus/pci/devices/{address}"));
    let mut behind = behind
        .into_iter()
        .filter(|name| is_numbered(name, "virtio"));
    Some(behind.next().unwrap_or(address))
}

/// Whether a name is a word and a number.
fn is_numbered(name: &str, word: &str) -> bool {
    let number = name.strip_prefix(word);
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}

fn names(root: &Path, path: &str) -> Vec<String> {
    sysfs::first_names(root, path, ENTRIES)
}
