//! Where parts of a guest's hardware are written.

use std::ops::Range;

use serde::Serialize;

/// The form of a description of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The XML of a libvirt domain.
    Xml,
    /// A command line of QEMU.
    Arguments,
    /// The command line of a QEMU that runs.
    Process,
}

/// Where something is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Nowhere: it is a default of QEMU or libvirt.
    #[default]
    Implied,
    /// An element of the XML.
    Element {
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1.
        column: usize,
        /// Bytes of the text.
        bytes: Range<usize>,
    },
    /// Words of the command line; the program is number 0.
    Words(Range<usize>),
}

impl Place {
    /// First byte of the element, if it is one.
    #[must_use]
    pub const fn start(&self) -> Option<usize> {
        match self {
            Self::Element { bytes, .. } => Some(bytes.start),
            Self::Implied | Self::Words(_) => None,
        }
    }

    /// The words, if it is some.
    #[must_use]
    pub fn words(&self) -> Option<Range<usize>> {
        match self {
            Self::Words(words) => Some(words.clone()),
            Self::Implied | Self::Element { .. } => None,
        }
    }
}

/// A part of the hardware that is written in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Accelerator.
    Accelerator,
    /// Kernel command line.
    Append,
    /// Boot menu of the firmware.
    BootMenu,
    /// Clock and its timers.
    Clock,
    /// CPU model and features.
    Cpu,
    /// Features of the machine.
    Features,
    /// Firmware.
    Firmware,
    /// HPET.
    Hpet,
    /// Enlightenments for Hyper-V guests.
    Hyperv,
    /// Kernel.
    Kernel,
    /// Machine type and its options.
    Machine,
    /// Limits of the host that may be exceeded, and sleep states (`-overcommit`).
    Overcommit,
    /// PIT.
    Pit,
    /// What allocates memory before the start.
    Preallocation,
    /// RTC.
    Rtc,
}
