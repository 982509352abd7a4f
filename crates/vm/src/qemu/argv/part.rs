//! The parts of a command line, as they are collected.

use serde::Serialize;

use crate::qemu::config::VmConfig;
use crate::qemu::machine::{Firmware, Machine};

/// Some words of the command line that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The words.
    pub words: Vec<String>,
    /// Why they are there.
    pub why: String,
}

/// The parts so far, and where the next device goes.
pub(super) struct Parts {
    pub(super) parts: Vec<Part>,
    pub(super) slots: Slots,
}

impl Parts {
    pub(super) fn of(plan: &VmConfig) -> Self {
        Self {
            parts: Vec::new(),
            slots: Slots::of(plan),
        }
    }

    pub(super) fn add<const N: usize>(&mut self, words: [&str; N], why: &str) {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        self.parts.push(Part {
            words,
            why: why.to_owned(),
        });
    }

    /// A set of descriptors with this one, which QEMU opens as a file.
    pub(super) fn add_fd(&mut self, fd: i32, why: &str) {
        self.add(["-add-fd", &format!("fd={fd},set={fd}")], why);
    }
}

/// Where the devices are on the PCI bus.
pub(super) enum Slots {
    /// Where QEMU puts them.
    Any,
    /// In the next odd slot.
    ///
    /// On i440FX qboot (main.c, pci.c of its source) gives the system an interrupt that is right
    /// only there: it counts pins from 1 and QEMU's `pci_slot_get_pirq` from 0. With ACPI that
    /// does not matter, because nobody reads it.
    Odd(u32),
}

impl Slots {
    /// Slot 1 is the chipset's.
    const FIRST: u32 = 3;

    fn of(plan: &VmConfig) -> Self {
        match (&plan.firmware, plan.machine) {
            (Firmware::Qboot(_), Machine::Pc { acpi: false }) => Self::Odd(Self::FIRST),
            _ => Self::Any,
        }
    }

    pub(super) fn next(&mut self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Odd(next) => {
                let slot = format!(",addr={next:#x}");
                *next += 2;
                slot
            }
        }
    }
}

/// How many devices the odd slots of a PCI bus take, apart from the chipset.
pub const ODD_SLOTS: usize = 15;

/// A channel that begins at a descriptor of ours.
pub(super) fn socket(id: &str, fd: i32) -> String {
    format!("socket,id={id},fd={fd}")
}
