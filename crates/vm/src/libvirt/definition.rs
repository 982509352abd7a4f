//! What the XML of a domain says (<https://libvirt.org/formatdomain.html>). Pure.

use std::path::PathBuf;

use roxmltree::{Document, Node};

/// XML that is no domain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Not XML at all.
    #[error("it is not XML: {0}")]
    Xml(String),
    /// XML of something else.
    #[error("it is the XML of a <{0}>, and not of a <domain>; virsh dumpxml prints those")]
    Other(String),
}

/// A device: what it is, as which model the guest sees it, and on which bus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Name of the element, such as `disk`.
    pub element: String,
    /// Attribute `type`, such as `pty`; of a disk `device`.
    pub kind: String,
    /// Model, if one is named.
    pub model: String,
    /// Bus or type of its target.
    pub bus: String,
    /// Name of its target, such as `vda` or `org.qemu.guest_agent.0`.
    pub target: String,
}

/// A domain, as far as booting it and judging it need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// `kvm` or `qemu`.
    pub hypervisor: String,
    /// Machine type, such as `pc-q35-10.0`.
    pub machine: String,
    /// QEMU.
    pub emulator: Option<PathBuf>,
    /// Firmware that is named, or `efi` where libvirt chooses one.
    pub firmware: Option<String>,
    /// Kernel that is given from outside.
    pub kernel: Option<String>,
    /// Its initramfs.
    pub initrd: Option<String>,
    /// Its command line.
    pub cmdline: String,
    /// Whether a boot menu waits for a key.
    pub boot_menu: bool,
    /// Mode of the processor, such as `host-passthrough`.
    pub cpu_mode: Option<String>,
    /// Its model.
    pub cpu_model: Option<String>,
    /// Processors.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Whether memory is allocated before the start.
    pub preallocated: bool,
    /// Whether the PS/2 controller is switched off.
    pub no_ps2: bool,
    /// The devices, in order.
    pub devices: Vec<Device>,
}

impl Definition {
    /// Reads it.
    ///
    /// # Errors
    /// If the text is no XML, or not that of a domain.
    pub fn parse(xml: &str) -> Result<Self, DefinitionError> {
        let document = parse(xml)?;
        let domain = document.root_element();
        let text = |path: &[&str]| find(domain, path).and_then(|node| node.text()).map(trimmed);
        let os = |name: &str| text(&["os", name]);
        let attribute = |path: &[&str], name: &str| {
            find(domain, path)
                .and_then(|node| node.attribute(name))
                .map(trimmed)
        };
        let efi = attribute(&["os"], "firmware");
        let devices = child(domain, "devices").map(devices).unwrap_or_default();
        Ok(Self {
            name: text(&["name"]).unwrap_or_default(),
            hypervisor: domain.attribute("type").unwrap_or_default().to_owned(),
            machine: attribute(&["os", "type"], "machine").unwrap_or_default(),
            emulator: text(&["devices", "emulator"]).map(PathBuf::from),
            firmware: os("loader").filter(|path| !path.is_empty()).or(efi),
            kernel: os("kernel"),
            initrd: os("initrd"),
            cmdline: os("cmdline").unwrap_or_default(),
            boot_menu: attribute(&["os", "bootmenu"], "enable").as_deref() == Some("yes"),
            cpu_mode: attribute(&["cpu"], "mode"),
            cpu_model: text(&["cpu", "model"]),
            cpus: text(&["vcpu"]).and_then(|text| text.parse().ok()),
            memory_mib: child(domain, "memory").and_then(mebibytes),
            preallocated: attribute(&["memoryBacking", "allocation"], "mode").as_deref()
                == Some("immediate"),
            no_ps2: attribute(&["features", "ps2"], "state").as_deref() == Some("off"),
            devices,
        })
    }

    /// The devices of an element's name.
    pub fn devices(&self, element: &str) -> impl Iterator<Item = &Device> {
        self.devices
            .iter()
            .filter(move |device| device.element == element)
    }

    /// Whether there is a port for the guest agent.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        self.devices("channel")
            .any(|channel| channel.target == "org.qemu.guest_agent.0")
    }

    /// Whether a console can be read: one on a pseudo-terminal.
    #[must_use]
    pub fn has_console(&self) -> bool {
        self.devices
            .iter()
            .any(|device| matches!(&*device.element, "serial" | "console") && device.kind == "pty")
    }
}

/// The pseudo-terminal of a running domain's first console.
///
/// # Errors
/// As [`Definition::parse`].
pub fn console_path(xml: &str) -> Result<Option<PathBuf>, DefinitionError> {
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

fn parse(xml: &str) -> Result<Document<'_>, DefinitionError> {
    let document = Document::parse(xml).map_err(|error| DefinitionError::Xml(error.to_string()))?;
    match document.root_element().tag_name().name() {
        "domain" => Ok(document),
        other => Err(DefinitionError::Other(other.to_owned())),
    }
}

fn devices(node: Node<'_, '_>) -> Vec<Device> {
    let elements = node.children().filter(Node::is_element);
    elements
        .map(|node| {
            let element = node.tag_name().name().to_owned();
            let attribute = |of: Option<Node<'_, '_>>, name: &str| {
                of.and_then(|node| node.attribute(name))
                    .map(trimmed)
                    .unwrap_or_default()
            };
            let own = |name: &str| attribute(Some(node), name);
            let (target, model) = (child(node, "target"), child(node, "model"));
            let first = |a: String, b: String| if a.is_empty() { b } else { a };
            let kind = if element == "disk" {
                own("device")
            } else {
                own("type")
            };
            Device {
                kind,
                model: first(
                    own("model"),
                    first(attribute(model, "type"), attribute(model, "name")),
                ),
                bus: first(
                    own("bus"),
                    first(attribute(target, "bus"), attribute(target, "type")),
                ),
                target: first(attribute(target, "dev"), attribute(target, "name")),
                element,
            }
        })
        .collect()
}

fn mebibytes(memory: Node<'_, '_>) -> Option<u64> {
    let number: u64 = memory.text()?.trim().parse().ok()?;
    let bytes: u64 = match memory.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => 1 << 10,
    };
    Some(number.checked_mul(bytes)? >> 20)
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

fn children<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children()
        .find(|child| child.is_element() && child.tag_name().name() == name)
}

fn find<'a, 'input>(node: Node<'a, 'input>, path: &[&str]) -> Option<Node<'a, 'input>> {
    path.iter().try_fold(node, |node, name| child(node, name))
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
        assert_eq!(domain.hypervisor, "qemu");
        assert_eq!(domain.machine, "pc-q35-10.0");
        assert_eq!(domain.cmdline, "console=ttyS0 panic=-1");
        assert_eq!((domain.cpus, domain.memory_mib), (Some(1), Some(512)));
        assert_eq!(domain.emulator, Some("/usr/bin/qemu-system-x86_64".into()));
        assert_eq!(domain.firmware, None);
        assert!(domain.has_agent() && domain.has_console() && !domain.preallocated);
        let inputs: Vec<_> = domain.devices("input").map(|input| &*input.bus).collect();
        assert_eq!(inputs, ["ps2", "ps2"]);
        let watchdog = domain.devices("watchdog").next().unwrap();
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

    #[test]
    fn sizes_have_units() {
        let size = |memory: &str| {
            let xml = format!("<domain>{memory}</domain>");
            Definition::parse(&xml).unwrap().memory_mib
        };
        assert_eq!(size("<memory>2097152</memory>"), Some(2048));
        assert_eq!(size("<memory unit='GiB'> 3 </memory>"), Some(3072));
        assert_eq!(size("<memory unit='TiB'>99999999999999</memory>"), None);
        assert_eq!(size("<memory>much</memory>"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(<domain>)?\\PC{0,60}(</domain>)?") {
            let _ = Definition::parse(&text);
            let _ = console_path(&text);
        }
    }
}
