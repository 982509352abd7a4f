//! Proof that a driver works: how often it is in use, and interrupts of its devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::kernel::{Driver, module_of_devices};

/// Interrupts of some devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lines {
    numbers: BTreeSet<String>,
    /// Names of devices that the actions of interrupts begin with.
    names: BTreeSet<String>,
}

/// A line of `/proc/interrupts`.
struct Row<'t> {
    /// How often it came.
    total: u64,
    /// Names of other devices' actions.
    others: Vec<&'t str>,
}

/// Directories between a device and the root of all that are looked at for interrupts: those of a
/// virtio device are its PCI device's.
const ABOVE: usize = 2;

impl Lines {
    /// Those of the devices that a module drives on the system below `root`; none if it drives
    /// none.
    pub(super) fn of_module(root: &Path, module: &str) -> Option<Self> {
        if module.is_empty() || module.contains('/') {
            return None;
        }
        let mut lines = Self {
            numbers: BTreeSet::new(),
            names: BTreeSet::new(),
        };
        for device in devices(root, module) {
            lines.add(&device);
        }
        (!lines.names.is_empty()).then_some(lines)
    }

    /// Those of the devices that do a driver's work, by the name of its module: of this module; or of
    /// those that depend on it, as `qat_4xxx` on `intel_qat`; or of the one that has its devices.
    pub(super) fn of_algorithms(root: &Path, module: &str) -> Option<Self> {
        if module.is_empty() || module.contains('/') {
            return None;
        }
        let holders = fs::read_dir(root.join("sys/module").join(module).join("holders"));
        let holders = holders.into_iter().flatten().flatten();
        let holders = holders.filter_map(|entry| entry.file_name().into_string().ok());
        let of_holders = || {
            let lines = holders.filter_map(|holder| Self::of_module(root, &holder));
            lines.reduce(Self::and)
        };
        Self::of_module(root, module)
            .or_else(of_holders)
            .or_else(|| Self::of_module(root, module_of_devices(module)?))
    }

    /// Those of both.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.numbers.extend(other.numbers);
        self.names.extend(other.names);
        self
    }

    fn add(&mut self, device: &Path) {
        let Ok(device) = device.canonicalize() else {
            return;
        };
        let name = device.file_name().map(|name| name.to_string_lossy());
        self.names.extend(name.map(|name| name.into_owned()));
        for directory in device.ancestors().take(ABOVE) {
            let vectors = fs::read_dir(directory.join("msi_irqs"));
            let vectors = vectors.into_iter().flatten().flatten();
            let vectors: Vec<_> = vectors.map(|entry| entry.file_name()).collect();
            let is_shared = vectors.is_empty();
            let vectors = vectors
                .into_iter()
                .map(|name| name.to_string_lossy().into_owned());
            self.numbers.extend(vectors);
            // An interrupt line may be another device's, too; its action's name tells then.
            if !is_shared {
                break;
            }
        }
    }

    /// How often they came, on all processors together, by the text of `/proc/interrupts`. Lines
    /// that other devices share do not count.
    pub(super) fn count(&self, text: &str) -> u64 {
        let own = self.rows(text).filter(|row| row.others.is_empty());
        own.map(|row| row.total).fold(0, u64::saturating_add)
    }

    /// Whether the devices have an interrupt that a driver takes.
    pub(super) fn is_taken(&self, text: &str) -> bool {
        self.rows(text).next().is_some()
    }

    /// Others on a line of these devices, of whose interrupts it is not known which device raised
    /// them; none if there is no such line.
    pub(super) fn shared_with(&self, text: &str) -> Option<String> {
        let others = self.rows(text).flat_map(|row| row.others);
        let others: BTreeSet<&str> = others.collect();
        let names: Vec<_> = others.into_iter().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Their lines. Behind the counts a line has the chip, the kind, and the actions with `, `
    /// between them.
    fn rows<'t>(&self, text: &'t str) -> impl Iterator<Item = Row<'t>> {
        text.lines().skip(1).filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let words = rest.split_whitespace();
            let counts = words.clone().map_while(|word| word.parse::<u64>().ok());
            let is_own = |word: &str| {
                let mut names = self.names.iter();
                names.any(|name| {
                    let rest = word.strip_prefix(&**name);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ',']))
                })
            };
            // A vector of its own is not shared.
            let is_vector = self.numbers.contains(number.trim());
            if !is_vector && !words.clone().any(is_own) {
                return None;
            }
            let actions = rest
                .split(", ")
                .filter_map(|one| one.split_whitespace().last());
            let others = match is_vector {
                true => Vec::new(),
                false => actions.filter(|action| !is_own(action)).collect(),
            };
            Some(Row {
                total: counts.fold(0, u64::saturating_add),
                // The action of a line that is not shared may have blanks in its name.
                others: if rest.contains(", ") {
                    others
                } else {
                    Vec::new()
                },
            })
        })
    }
}

/// Directories of the devices that a module drives.
fn devices(root: &Path, module: &str) -> Vec<PathBuf> {
    let drivers = root.join("sys/module").join(module).join("drivers");
    let drivers = fs::read_dir(drivers).into_iter().flatten().flatten();
    let entries = drivers.filter_map(|driver| fs::read_dir(driver.path()).ok());
    let entries = entries.flatten().flatten().map(|entry| entry.path());
    // Besides devices a driver's directory has files, and a link to its module.
    let is_device = |path: &PathBuf| path.is_symlink() && !path.ends_with("module");
    entries.filter(is_device).collect()
}

/// Drivers of `/proc/crypto`, and how often each is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct References(BTreeMap<String, Driver>);

impl References {
    /// Those of the system below `root`.
    pub(super) fn read(root: &Path) -> Self {
        Self::of(Driver::below(root))
    }

    fn of(drivers: Vec<Driver>) -> Self {
        let named = drivers.into_iter();
        Self(
            named
                .map(|driver| (driver.driver.clone(), driver))
                .collect(),
        )
    }

    /// Drivers that are in use more often than `before`.
    pub(super) fn risen(&self, before: &Self) -> Vec<String> {
        let old = |name: &String| before.0.get(name).map_or(0, |driver| driver.references);
        // A driver that is not in use has one reference.
        let is_risen = |(name, now): &(&String, &Driver)| now.references > old(name).max(1);
        let risen = self.0.iter().filter(is_risen);
        risen.map(|(name, _)| name.clone()).collect()
    }

    /// Module of a driver.
    pub(super) fn module(&self, driver: &str) -> Option<&str> {
        self.0.get(driver).map(|driver| &*driver.module)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU1\n\
         \x20 1:          9          0   IO-APIC   1-edge      i8042\n\
         \x2024:         10         20   PCI-MSIX-0000:00:04.0   0-edge      virtio2-config\n\
         \x2025:        100          3   PCI-MSIX-0000:00:04.0   1-edge      virtio2-dataq.0\n\
         \x2026:          7          7   PCI-MSIX-0000:00:05.0   0-edge      virtio20-input\n\
         ERR:          1\n";

    #[test]
    fn interrupts_of_a_modules_devices_are_summed_up() {
        let root = tempfile::tempdir().unwrap();
        let pci = root.path().join("sys/devices/pci0000:00/0000:00:04.0");
        let device = pci.join("virtio2");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(pci.join("msi_irqs")).unwrap();
        fs::write(pci.join("msi_irqs/25"), "msix\n").unwrap();
        let driver = root
            .path()
            .join("sys/module/virtio_crypto/drivers/virtio:virtio_crypto");
        fs::create_dir_all(&driver).unwrap();
        symlink(&device, driver.join("virtio2")).unwrap();
        symlink(root.path(), driver.join("module")).unwrap();
        fs::write(driver.join("uevent"), "").unwrap();
        let lines = Lines::of_module(root.path(), "virtio_crypto").unwrap();
        assert_eq!(lines.count(INTERRUPTS), 133);
        assert!(lines.is_taken(INTERRUPTS));
        assert!(!lines.is_taken("CPU0\n 1: 9 IO-APIC 1-edge i8042\n"));
        assert_eq!(
            Lines::of_algorithms(root.path(), "virtio_crypto"),
            Some(lines.clone())
        );
        // A module of algorithms, and the one of devices that depends on it.
        let holders = root.path().join("sys/module/common/holders");
        fs::create_dir_all(&holders).unwrap();
        assert_eq!(Lines::of_algorithms(root.path(), "common"), None);
        symlink("../../virtio_crypto", holders.join("virtio_crypto")).unwrap();
        assert_eq!(Lines::of_algorithms(root.path(), "common"), Some(lines));
        assert_eq!(Lines::of_module(root.path(), "aesni_intel"), None);
        assert_eq!(Lines::of_module(root.path(), "../x"), None);
    }

    #[test]
    fn a_shared_line_counts_for_nobody() {
        let of = |names: &[&str], numbers: &[&str]| Lines {
            numbers: numbers.iter().map(|it| (*it).to_owned()).collect(),
            names: names.iter().map(|it| (*it).to_owned()).collect(),
        };
        let text = "           CPU0       CPU1\n\
             \x20 10:         5          0   IO-APIC  10-fasteoi   virtio1, uhci_hcd:usb1, virtio2\n\
             \x20 11:         3          4   IO-APIC  11-fasteoi   virtio1, virtio2\n\
             \x20 12:        20          0   PCI-MSI 12-edge      virtio2-dataq.0\n";
        let shared = |lines: &Lines| (lines.count(text), lines.shared_with(text));
        let usb = Some("uhci_hcd:usb1, virtio1".to_owned());
        assert_eq!(shared(&of(&["virtio2"], &[])), (20, usb));
        let both = of(&["virtio1", "virtio2"], &[]);
        assert_eq!(shared(&both), (27, Some("uhci_hcd:usb1".to_owned())));
        assert_eq!(shared(&of(&["x"], &["10"])), (5, None));
        assert_eq!(shared(&of(&["x"], &[])), (0, None));
        assert!(of(&["virtio1"], &[]).is_taken(text));
    }

    #[test]
    fn a_driver_in_use_has_more_references() {
        let text = |count| {
            format!(
                "name         : cbc(aes)\ndriver       : cbc-aes-aesni\nmodule       : aesni_intel\n\
                 refcnt       : {count}\n\nname: x\ndriver: y\nrefcnt: huge\n"
            )
        };
        let of = |count| References::of(Driver::parse(&text(count)));
        let (before, after) = (of(1), of(2));
        assert_eq!(after.risen(&before), ["cbc-aes-aesni"]);
        assert_eq!(before.risen(&after), [""; 0]);
        assert_eq!(before.risen(&References::default()), [""; 0]);
        assert_eq!(after.module("cbc-aes-aesni"), Some("aesni_intel"));
    }
}
