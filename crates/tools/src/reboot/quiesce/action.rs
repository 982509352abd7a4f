//! Steps on the way to released devices. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A device that is bound to a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Bus, such as `pci`.
    pub bus: String,
    /// Address on the bus.
    pub address: String,
    /// Name of the driver.
    pub driver: String,
}

/// Something that is done, and put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Stops units by one command, so that none starts another again; put back, they are started so,
    /// in the order of the list.
    Stop {
        /// Their names.
        units: Vec<String>,
    },
    /// Ends a process by SIGTERM, then by SIGKILL, which cannot be put back.
    End {
        /// Number.
        pid: u32,
        /// Start, in clock ticks since the boot.
        start_ticks: u64,
        /// Name.
        name: String,
    },
    /// Waits until no process holds anything of this; there is nothing to put back.
    Release {
        /// Modules.
        modules: Vec<String>,
        /// Addresses of devices.
        devices: Vec<String>,
    },
    /// Takes virtual consoles off the framebuffer.
    LeaveFramebuffer,
    /// Unbinds a device from its driver.
    Unbind {
        /// The device.
        device: Bound,
    },
    /// Unloads a module; put back, it is loaded and has its devices again.
    Unload {
        /// Name.
        module: String,
        /// Devices that are bound to its drivers.
        devices: Vec<Bound>,
    },
}

impl Action {
    /// Word for what is done, and what it is done to.
    #[must_use]
    pub fn words(&self) -> (&'static str, String) {
        match self {
            Self::Stop { units } => ("stop", units.join(", ")),
            Self::End { pid, name, .. } => ("end", format!("{name} (PID {pid})")),
            Self::Release { .. } => ("wait for", "processes to let go".to_owned()),
            Self::LeaveFramebuffer => ("leave", "the framebuffer console".to_owned()),
            Self::Unbind { device } => ("unbind", device.to_string()),
            Self::Unload { module, .. } => ("unload", module.clone()),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, what) = self.words();
        write!(to, "{word} {what}")
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} from {}", self.address, self.driver)
    }
}
