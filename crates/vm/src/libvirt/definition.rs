//! What the XML of a domain says (<https://libvirt.org/formatdomain.html>). Pure.

use std::path::PathBuf;

use crate::hardware::element::{child, children, parse};
use crate::hardware::{Class, GuestHardware, XmlError};

/// A domain of libvirt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its hardware.
    pub hardware: GuestHardware,
}

impl Definition {
    /// Reads the XML of a domain.
    ///
    /// # Errors
    /// If the text is no XML, or not that of a domain.
    pub fn parse(xml: &str) -> Result<Self, XmlError> {
        let hardware = GuestHardware::of_xml(xml)?;
        let name = hardware.name.clone().unwrap_or_default();
        Ok(Self { name, hardware })
    }

    /// Whether there is a port for the guest agent.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        self.hardware.has_agent()
    }

    /// Whether a console can be read: one on a pseudo-terminal.
    #[must_use]
    pub fn has_console(&self) -> bool {
        self.hardware.devices.iter().any(|device| {
            matches!(device.class, Class::Serial | Class::Console) && device.backend == "pty"
        })
    }
}

/// The pseudo-terminal of a running domain's first console.
///
/// # Errors
/// As [`Definition::parse`].
pub fn console_path(xml: &str) -> Result<Option<PathBuf>, XmlError> {
    let document = parse(xml)?;
    let devices = child(document.root_element(), "devices");
    let found = devices.and_then(|devices| {
        let consoles = ["console", "serial"];
        let mut all = consoles
            .into_iter()
            .flat_map(|name| children(devices, name));
        all.find_map(|node| {
            let path = child(node, "source").and_then(|source| source.attribute("path"));
            path.filter(|_| node.attribute("type") == Some("pty"))
        })
    });
    Ok(found.map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Printed by virsh 11.3 of a domain that was defined with little more than a kernel.
    const INACTIVE: &str = include_str!("fixtures/inactive.xml");
    const LIVE: &str = include_str!("fixtures/live.xml");

    #[test]
    fn what_libvirt_made_of_a_small_domain_is_read() {
        let domain = Definition::parse(INACTIVE).unwrap();
        assert_eq!(domain.name, "plain");
        let hardware = &domain.hardware;
        assert_eq!(hardware.accelerators, ["tcg"]);
        assert_eq!(hardware.machine.kind, "pc-q35-10.0");
        assert_eq!(hardware.boot.append, "console=ttyS0 panic=-1");
        assert_eq!(hardware.cpu.topology.cpus, Some(1));
        assert_eq!(hardware.memory.bytes, Some(512 << 20));
        assert_eq!(
            hardware.emulator,
            Some("/usr/bin/qemu-system-x86_64".into())
        );
        assert_eq!(hardware.boot.firmware, None);
        assert!(domain.has_agent() && domain.has_console() && !hardware.memory.preallocated);
        let inputs: Vec<_> = hardware
            .devices(Class::Input)
            .map(|input| input.bus)
            .collect();
        assert_eq!(inputs, ["ps2", "ps2"]);
        let watchdog = hardware.devices(Class::Watchdog).next().unwrap();
        assert_eq!(watchdog.model, "itco");
    }

    #[test]
    fn only_a_running_domain_has_a_terminal() {
        assert_eq!(console_path(LIVE).unwrap(), Some("/dev/pts/0".into()));
        assert_eq!(console_path(INACTIVE).unwrap(), None);
    }

    #[test]
    fn what_is_no_domain_is_named() {
        let error = |xml: &str| Definition::parse(xml).unwrap_err().to_string();
        assert!(error("hello").contains("not XML"));
        assert!(error("<network/>").contains("<network>"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(<domain>)?\\PC{0,60}(</domain>)?") {
            let _ = Definition::parse(&text);
            let _ = console_path(&text);
        }
    }
}
