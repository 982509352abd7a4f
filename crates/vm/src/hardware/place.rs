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
        /// Bytes of the text.
        bytes: Range<usize>,
    },
    /// Words of the command line; the program is number 0.
    Words(Range<usize>),
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
    /// CPU model.
    Cpu,
    /// Firmware.
    Firmware,
    /// Kernel.
    Kernel,
    /// Machine type and its options.
    Machine,
    /// What allocates memory before the start.
    Preallocation,
}
