//! What of a machine should be there again after a restart.

use std::collections::BTreeSet;
use std::path::Path;

use brisk_host::sysfs;
use serde::{Deserialize, Serialize};

/// Entries of a directory that are read at most.
const MOST: usize = 4096;

/// A count of what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// Units of systemd that have failed; none if systemd did not say.
    #[serde(default)]
    pub failed: Option<Vec<String>>,
    /// Display controllers.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Network interfaces of devices.
    #[serde(default)]
    pub links: Vec<Link>,
    /// VMs of brisk's that run, and domains of libvirt that are carried across.
    #[serde(default)]
    pub vms: Vec<String>,
}

/// A display controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Address on the PCI bus.
    pub address: String,
    /// Name of the driver that is bound; none if none is.
    pub driver: Option<String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Speed, Mbit/s; none where the driver does not say or the link is down.
    pub speed: Option<u32>,
}

impl Census {
    /// Counts devices of the system below `root`. Units and VMs are added by a caller.
    #[must_use]
    pub fn of_devices(root: &Path) -> Self {
        Self {
            gpus: gpus(root),
            links: links(root),
            ..Self::default()
        }
    }

    /// Sentences about all that is not as it was before. A card of an emulated display, whose driver is
    /// built in or never bound, is as before.
    #[must_use]
    pub fn lost(&self, after: &Self) -> Vec<String> {
        let mut lost = Vec::new();
        if let (Some(before), Some(after)) = (&self.failed, &after.failed) {
            let before: BTreeSet<_> = before.iter().collect();
            let new = after.iter().filter(|unit| !before.contains(unit));
            lost.extend(new.map(|unit| format!("{unit} failed")));
        }
        for gpu in &self.gpus {
            let now = after.gpus.iter().find(|now| now.address == gpu.address);
            match (&gpu.driver, now) {
                (_, None) => lost.push(format!("GPU {} is gone", gpu.address)),
                (Some(driver), Some(now)) if now.driver.is_none() => {
                    lost.push(format!(
                        "GPU {} has no driver; it had {driver}",
                        gpu.address
                    ));
                }
                _ => {}
            }
        }
        for link in &self.links {
            let now = after.links.iter().find(|now| now.name == link.name);
            match (link.speed, now) {
                (_, None) => lost.push(format!("network interface {} is gone", link.name)),
                (Some(speed), Some(now)) if now.speed.is_none_or(|now| now < speed) => {
                    let text = match now.speed {
                        Some(now) => format!("has {now} Mbit/s"),
                        None => "has no link".to_owned(),
                    };
                    lost.push(format!("{} {text}; it had {speed} Mbit/s", link.name));
                }
                _ => {}
            }
        }
        let missing = self.vms.iter().filter(|name| !after.vms.contains(name));
        lost.extend(missing.map(|name| format!("VM {name} does not run")));
        lost
    }
}

fn gpus(root: &Path) -> Vec<Gpu> {
    let dir = "bus/pci/devices";
    let is_display = |address: &String| {
        // Class 03: display controllers (PCI Code and ID Assignment Specification).
        let class = sysfs::line(root, &format!("{dir}/{address}/class"));
        class.is_some_and(|class| class.starts_with("0x03"))
    };
    let addresses = sysfs::first_names(root, dir, MOST).into_iter();
    let addresses = addresses.filter(is_display);
    let gpus = addresses.map(|address| {
        let driver = sysfs::link_name(root, &format!("{dir}/{address}/driver"));
        Gpu { address, driver }
    });
    gpus.collect()
}

fn links(root: &Path) -> Vec<Link> {
    let dir = "class/net";
    // Bridges, tunnels and the like have no device.
    let with_device = sysfs::first_names(root, dir, MOST).into_iter();
    let with_device =
        with_device.filter(|name| root.join(format!("sys/{dir}/{name}/device")).exists());
    let links = with_device.map(|name| {
        let speed = sysfs::line(root, &format!("{dir}/{name}/speed"));
        // -1 of a link that is down.
        let speed = speed.and_then(|text| text.parse().ok());
        Link { name, speed }
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn machine() -> Census {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join("sys").join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        write("bus/pci/devices/0000:00:02.0/class", "0x030000\n");
        symlink(
            "../../drivers/bochs-drm",
            at("bus/pci/devices/0000:00:02.0/driver"),
        )
        .unwrap();
        write("bus/pci/devices/0000:00:03.0/class", "0x038000\n");
        write("bus/pci/devices/0000:00:04.0/class", "0x020000\n");
        write("class/net/eth0/speed", "1000\n");
        write("class/net/eth0/device/vendor", "0x8086\n");
        write("class/net/eth1/speed", "-1\n");
        write("class/net/eth1/device/vendor", "0x8086\n");
        write("class/net/br0/speed", "1000\n");
        Census::of_devices(root.path())
    }

    #[test]
    fn devices_are_counted() {
        let gpu = |address: &str, driver: Option<&str>| Gpu {
            address: address.to_owned(),
            driver: driver.map(str::to_owned),
        };
        let link = |name: &str, speed| Link {
            name: name.to_owned(),
            speed,
        };
        let census = machine();
        let gpus = [
            gpu("0000:00:02.0", Some("bochs-drm")),
            gpu("0000:00:03.0", None),
        ];
        assert_eq!(census.gpus, gpus);
        assert_eq!(census.links, [link("eth0", Some(1000)), link("eth1", None)]);
    }

    #[test]
    fn what_is_not_as_before_is_said() {
        let mut before = machine();
        before.failed = Some(vec!["old.service".to_owned()]);
        before.vms = vec!["web".to_owned(), "db".to_owned()];
        assert_eq!(before.lost(&before), [""; 0]);
        let mut after = before.clone();
        after.failed = Some(vec!["old.service".to_owned(), "new.service".to_owned()]);
        after.gpus[0].driver = None;
        after.gpus.pop();
        after.links[0].speed = Some(10);
        after.links.pop();
        after.vms = vec!["db".to_owned()];
        let expected = [
            "new.service failed",
            "GPU 0000:00:02.0 has no driver; it had bochs-drm",
            "GPU 0000:00:03.0 is gone",
            "eth0 has 10 Mbit/s; it had 1000 Mbit/s",
            "network interface eth1 is gone",
            "VM web does not run",
        ];
        assert_eq!(before.lost(&after), expected);
        // More than before is no loss.
        assert_eq!(Census::default().lost(&before), [""; 0]);
    }
}
