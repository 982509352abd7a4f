//! The hardware of a guest, from whatever describes it: the XML of a libvirt domain, a command line
//! of QEMU, or a QEMU that runs. Pure, but for [`process`].
//!
//! Names are QEMU's: libvirt's `<timer name='rtc' tickpolicy='catchup'/>` and QEMU's
//! `-rtc driftfix=slew` are one thing here. What a description leaves to a default is None, or a
//! device whose [`Place`] is [`Place::Implied`].

mod arguments;
mod cpu;
mod device;
pub mod edit;
mod memory;
mod model;
pub mod parameters;
mod place;
pub mod process;
#[cfg(test)]
mod tests;
mod timers;
mod xml;

pub use cpu::{Cpu, CpuMode, Topology};
pub use device::{Backend, Class, Device};
pub use memory::Memory;
pub use model::{Boot, GuestHardware, Machine};
pub use place::{Form, Part, Place};
pub use timers::{TickPolicy, Timers, Tsc};
pub(crate) use xml::element;
pub use xml::element::{XmlError, document};

use crate::qemu::cmdline::CommandLine;

impl GuestHardware {
    /// Reads the XML of a libvirt domain.
    ///
    /// # Errors
    /// If the text is not XML, or not that of a domain.
    pub fn of_xml(xml: &str) -> Result<Self, XmlError> {
        xml::read(xml)
    }

    /// Reads a command line of QEMU.
    #[must_use]
    pub fn of_arguments(line: &CommandLine) -> Self {
        arguments::read(line, Form::Arguments)
    }
}
