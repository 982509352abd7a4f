//! Hardware from the XML of a libvirt domain (<https://libvirt.org/formatdomain.html>).

mod devices;
pub(crate) mod element;
mod features;

use roxmltree::Node;

use element::{Lines, XmlError, attribute, child, children, elements, find, parse, switch, text};

use super::cpu::{CpuMode, Topology};
use super::device::Backend;
use super::memory;
use super::model::GuestHardware;
use super::place::{Form, Part, Place};
use super::timers::{TickPolicy, Timers};

pub(super) fn read(xml: &str) -> Result<GuestHardware, XmlError> {
    let document = parse(xml)?;
    let domain = document.root_element();
    let lines = Lines::of(xml);
    let mut guest = GuestHardware::empty(Form::Xml);
    guest.name = child(domain, "name").and_then(text);
    guest.os = domain
        .descendants()
        .find(|node| node.tag_name().name() == "os" && node.attribute("id").is_some())
        .and_then(|node| attribute(Some(node), "id"));
    guest.emulator = find(domain, &["devices", "emulator"])
        .and_then(text)
        .map(Into::into);
    let hypervisor = domain.attribute("type").unwrap_or_default();
    if !matches!(hypervisor, "" | "kvm" | "qemu" | "hvf") {
        return Err(XmlError::NotQemu(hypervisor.to_owned()));
    }
    let accelerator = if hypervisor == "qemu" {
        "tcg"
    } else {
        hypervisor
    };
    guest.accelerators = vec![accelerator.to_owned()];
    // The element of the type is the whole domain.
    let place = match lines.place(domain) {
        Place::Element {
            line,
            column,
            bytes,
        } => Place::Element {
            line,
            column,
            bytes: bytes.start..bytes.start,
        },
        place => place,
    };
    guest.places.insert(Part::Accelerator, place);
    boot(&mut guest, domain, &lines);
    if let Some(kind) = attribute(child(domain, "launchSecurity"), "type") {
        let options = &mut guest.machine.options;
        options.insert("confidential-guest-support".to_owned(), kind);
    }
    if let Some(node) = child(domain, "features") {
        guest.places.insert(Part::Features, lines.place(node));
        if let Some(hyperv) = child(node, "hyperv") {
            guest.places.insert(Part::Hyperv, lines.place(hyperv));
        }
        features::read(&mut guest, node);
    }
    cpu(&mut guest, domain, &lines);
    timers(&mut guest, domain, &lines);
    memory(&mut guest, domain, &lines);
    iothreads(&mut guest, domain, &lines);
    if let Some(node) = child(domain, "devices") {
        devices::read(&mut guest, node, &lines);
    }
    devices::defaults(&mut guest, domain);
    for node in elements(domain) {
        let name = node.tag_name().name();
        if matches!(name, "commandline" | "override") && node.tag_name().namespace().is_some() {
            let why = format!("what <qemu:{name}> adds to QEMU's command line is not read");
            guest.unread.push((why, lines.place(node)));
        }
    }
    Ok(guest)
}

fn boot(guest: &mut GuestHardware, domain: Node<'_, '_>, lines: &Lines) {
    let Some(os) = child(domain, "os") else {
        return;
    };
    let mut of = |name: &str, part: Part| {
        let node = child(os, name)?;
        guest.places.insert(part, lines.place(node));
        text(node)
    };
    let kernel = of("kernel", Part::Kernel);
    let append = of("cmdline", Part::Append).unwrap_or_default();
    let loader = of("loader", Part::Firmware).filter(|path| !path.is_empty());
    let menu = child(os, "bootmenu");
    if let Some(menu) = menu {
        guest.places.insert(Part::BootMenu, lines.place(menu));
    }
    guest
        .places
        .entry(Part::Firmware)
        .or_insert(lines.place(os));
    let kind = child(os, "type");
    guest.machine.kind = attribute(kind, "machine").unwrap_or_default();
    guest.machine.arch = attribute(kind, "arch").unwrap_or_default();
    if let Some(kind) = kind {
        guest.places.insert(Part::Machine, lines.place(kind));
    }
    guest.boot.kernel = kernel;
    guest.boot.initrd = child(os, "initrd").and_then(text);
    guest.boot.append = append;
    guest.boot.firmware = loader.or_else(|| attribute(Some(os), "firmware"));
    guest.boot.menu = menu.and_then(|menu| switch(menu, "enable")) == Some(true);
}

fn cpu(guest: &mut GuestHardware, domain: Node<'_, '_>, lines: &Lines) {
    let cpu = &mut guest.cpu;
    let vcpu = child(domain, "vcpu");
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let max: Option<u32> = number(vcpu.and_then(text));
    cpu.topology.max = max;
    cpu.topology.cpus = number(attribute(vcpu, "current")).or(max);
    let tuning = child(domain, "cputune");
    cpu.is_pinned = vcpu.is_some_and(|vcpu| vcpu.attribute("cpuset").is_some())
        || tuning.is_some_and(|node| child(node, "vcpupin").is_some());
    let Some(node) = child(domain, "cpu") else {
        return;
    };
    guest.places.insert(Part::Cpu, lines.place(node));
    cpu.model = child(node, "model")
        .and_then(text)
        .filter(|name| !name.is_empty());
    cpu.mode = match node.attribute("mode") {
        Some("host-passthrough") => CpuMode::Host,
        Some("host-model") => CpuMode::HostModel,
        Some("maximum") => CpuMode::Maximum,
        _ if cpu.model.is_some() => CpuMode::Named,
        _ => CpuMode::Default,
    };
    let topology = child(node, "topology");
    let of = |name| number(attribute(topology, name));
    cpu.topology = Topology {
        sockets: of("sockets"),
        dies: of("dies"),
        cores: of("cores"),
        threads: of("threads"),
        ..cpu.topology
    };
    for feature in children(node, "feature") {
        let value = match feature.attribute("policy") {
            Some("disable" | "forbid") => "off",
            _ => "on",
        };
        if let Some(name) = feature.attribute("name") {
            cpu.features
                .insert(name.replace('_', "-"), value.to_owned());
        }
    }
}

fn timers(guest: &mut GuestHardware, domain: Node<'_, '_>, lines: &Lines) {
    let Some(clock) = child(domain, "clock") else {
        return;
    };
    guest.places.insert(Part::Clock, lines.place(clock));
    for timer in children(clock, "timer") {
        let part = match timer.attribute("name") {
            Some("hpet") => Part::Hpet,
            Some("pit") => Part::Pit,
            Some("rtc") => Part::Rtc,
            _ => continue,
        };
        guest.places.insert(part, lines.place(timer));
    }
    let timers: &mut Timers = &mut guest.timers;
    timers.rtc_base = attribute(Some(clock), "offset");
    for timer in children(clock, "timer") {
        let present = switch(timer, "present");
        let policy = timer.attribute("tickpolicy").and_then(TickPolicy::parse);
        match timer.attribute("name") {
            Some("kvmclock") => timers.kvmclock = present,
            Some("hypervclock") => timers.hypervclock = present,
            Some("hpet") => timers.hpet = present,
            Some("pit") => (timers.pit, timers.pit_policy) = (present, policy),
            Some("rtc") => {
                timers.rtc_policy = policy;
                timers.rtc_clock = attribute(Some(timer), "track");
            }
            Some("tsc") => {
                timers.tsc.mode = attribute(Some(timer), "mode");
                let frequency = attribute(Some(timer), "frequency");
                timers.tsc.frequency = frequency.and_then(|text| text.parse().ok());
                timers.tsc.policy = policy;
            }
            _ => {}
        }
    }
    // QEMU has both as features of the CPU.
    let word = |is_on| if is_on { "on" } else { "off" }.to_owned();
    if let Some(is_on) = timers.hypervclock {
        guest.cpu.hyperv.insert("time".to_owned(), word(is_on));
    }
    if let Some(is_on) = timers.kvmclock {
        guest
            .cpu
            .features
            .insert("kvmclock".to_owned(), word(is_on));
    }
}

fn memory(guest: &mut GuestHardware, domain: Node<'_, '_>, lines: &Lines) {
    let memory = &mut guest.memory;
    memory.bytes = child(domain, "memory")
        .and_then(|node| memory::size_with_unit(node.text()?, node.attribute("unit")));
    let Some(backing) = child(domain, "memoryBacking") else {
        return;
    };
    let has = |name: &str| child(backing, name).is_some();
    memory.locked = has("locked");
    memory.huge_pages = has("hugepages");
    memory.merged = has("nosharepages").then_some(false);
    memory.shared = attribute(child(backing, "access"), "mode").as_deref() == Some("shared");
    let allocation = child(backing, "allocation");
    // libvirt has QEMU preallocate huge pages, so that a guest without enough of them fails early.
    memory.preallocated =
        memory.huge_pages || attribute(allocation, "mode").as_deref() == Some("immediate");
    if let Some(node) = allocation {
        guest.places.insert(Part::Preallocation, lines.place(node));
    }
}

/// I/O threads are objects of QEMU.
fn iothreads(guest: &mut GuestHardware, domain: Node<'_, '_>, lines: &Lines) {
    let Some(list) = child(domain, "iothreadids") else {
        return;
    };
    for thread in children(list, "iothread") {
        let mut properties = element::properties(thread);
        properties.insert("qom-type".to_owned(), "iothread".to_owned());
        if let Some(most) = properties.remove("poll.max") {
            properties.insert("poll-max-ns".to_owned(), most);
        }
        guest.backends.push(Backend {
            option: "object".to_owned(),
            id: format!("iothread{}", thread.attribute("id").unwrap_or_default()),
            properties,
            place: lines.place(thread),
        });
    }
}
