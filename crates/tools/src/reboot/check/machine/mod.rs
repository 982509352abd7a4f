//! Facts of the machine that is to be restarted. Only files below a root are read; nothing is
//! started, loaded or changed.

mod activity;
mod devices;
mod firmware;
pub(super) mod history;
mod kexec;
mod platform;
mod storage;
mod systemd;

use std::path::Path;

use brisk_host::units;

pub use activity::{Activity, Inhibitor};
pub use devices::{Card, Device, Devices};
pub use firmware::Firmware;
pub use history::History;
pub use kexec::Kexec;
pub use platform::{Platform, Xen};
pub use storage::{Mount, Resume, Storage};
pub use systemd::Watchdog;

/// A machine, as far as it matters for a warm reboot.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Whether and how it can load a kernel.
    pub kexec: Kexec,
    /// The machine itself, its running kernel, and what it runs on.
    pub platform: Platform,
    /// Devices, their drivers, and modules.
    pub devices: Devices,
    /// EFI variables and files for the firmware.
    pub firmware: Firmware,
    /// File systems and encrypted devices.
    pub storage: Storage,
    /// Whether it has units of systemd.
    pub has_units: bool,
    /// Watchdogs as systemd is configured for them.
    pub watchdog: Watchdog,
    /// What runs that a reboot would disturb.
    pub activity: Activity,
    /// What has run on it.
    pub history: History,
    /// Facts that could not be read, each with the reason.
    pub unread: Vec<String>,
}

impl Machine {
    /// Reads the machine whose tree is below `root`: `/`, or a captured one.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut unread = Vec::new();
        Self {
            kexec: Kexec::read(root, &mut unread),
            platform: Platform::read(root, &mut unread),
            devices: Devices::read(root),
            firmware: Firmware::read(root, &mut unread),
            storage: Storage::read(root, &mut unread),
            has_units: units::are_there(root),
            watchdog: Watchdog::read(root),
            activity: Activity::read(root),
            history: History::read(root),
            unread,
        }
    }
}
