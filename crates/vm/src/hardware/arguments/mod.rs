//! Hardware from a command line of QEMU.

mod defaults;
mod devices;
mod drives;

use std::collections::BTreeMap;

use super::cpu::{Cpu, Topology};
use super::device::Backend;
use super::memory;
use super::model::GuestHardware;
use super::place::{Form, Part, Place};
use crate::qemu::cmdline::{CommandLine, Field, Fields, Item, boolean};

pub(super) fn read(line: &CommandLine, form: Form) -> GuestHardware {
    let mut guest = GuestHardware::empty(form);
    let machine = line.machine();
    let names = line.settings("name");
    guest.name = names.get("guest").map(str::to_owned);
    // Proxmox VE, whose option -id is, asks for names below QEMU 11, which gives them always.
    let is_named = names.is_on("debug-threads") == Some(true);
    guest.names_threads = is_named || line.value("id").is_some();
    guest.emulator = line.program().map(Into::into);
    guest.machine.arch = arch(line).unwrap_or_default();
    guest.adds_defaults = !line.has("nodefaults");
    guest.accelerators = line.accelerators();
    let mut accelerators = line.all("accel").filter_map(|item| item.fields().ok());
    guest.emulates_xen = accelerators.any(|fields| fields.get("xen-version").is_some());
    guest.globals = line.globals();
    // Proxmox writes pc+pve0 for a pc with a revision of its own.
    let kind = machine.get("type").unwrap_or("pc");
    guest.machine.kind = kind.split("+pve").next().unwrap_or(kind).to_owned();
    guest.machine.options = map(machine.iter().filter(|field| field.key != "type"));
    guest.backends = backends(line);
    cpu(&mut guest, line, &machine);
    timers(&mut guest, line, &machine);
    memory(&mut guest, line, &machine);
    drives::add(&mut guest, line);
    boot(&mut guest, &machine);
    places(&mut guest, line, &machine);
    devices::add(&mut guest, line);
    defaults::add(&mut guest, line);
    unread(&mut guest, line);
    guest
}

fn map<'a>(fields: impl Iterator<Item = &'a Field>) -> BTreeMap<String, String> {
    fields
        .map(|field| (field.key.clone(), field.value.clone()))
        .collect()
}

/// The architecture, from the program's name.
fn arch(line: &CommandLine) -> Option<String> {
    let name = line.program()?.file_name()?.to_str()?;
    let (_, arch) = name.split_once("qemu-system-")?;
    Some(arch.to_owned())
}

/// The words of an option.
fn place(item: &Item) -> Place {
    let last = item.argument.as_ref().map_or(item.word, |last| last.word);
    Place::Words(item.word..last + 1)
}

/// The words of the option that a word belongs to.
fn place_of_word(line: &CommandLine, word: usize) -> Place {
    let mut places = line.items().iter().map(place);
    let found = places.find(|place| matches!(place, Place::Words(words) if words.contains(&word)));
    found.unwrap_or_default()
}

fn cpu(guest: &mut GuestHardware, line: &CommandLine, machine: &Fields) {
    guest.cpu = Cpu::of_fields(&line.settings("cpu"));
    let number = |key: &str| machine.get(key).and_then(|text| text.parse().ok());
    let mut topology = Topology {
        cpus: number("smp.cpus"),
        max: number("smp.maxcpus"),
        sockets: number("smp.sockets"),
        dies: number("smp.dies"),
        cores: number("smp.cores"),
        threads: number("smp.threads"),
    };
    // QEMU multiplies what is given, if it is not told how many there are.
    let parts = [
        topology.sockets,
        topology.dies,
        topology.cores,
        topology.threads,
    ];
    if topology.cpus.is_none() && parts.iter().any(Option::is_some) {
        let product = parts
            .iter()
            .flatten()
            .try_fold(1_u32, |all, part| all.checked_mul(*part));
        topology.cpus = topology.max.or(product);
    }
    guest.cpu.topology = topology;
    guest.cpu.power_management = line.settings("overcommit").is_on("cpu-pm");
}

fn timers(guest: &mut GuestHardware, line: &CommandLine, machine: &Fields) {
    let cpu = &guest.cpu;
    let timers = &mut guest.timers;
    timers.kvmclock = cpu.is_on("kvmclock");
    timers.hypervclock = cpu.is_on("hv-time");
    timers.hpet = machine.is_on("hpet");
    timers.pit = machine.is_on("pit");
    timers.tsc.frequency = cpu
        .features
        .get("tsc-frequency")
        .and_then(|text| text.parse().ok());
    timers.rtc(&line.settings("rtc"));
    timers.globals(&guest.globals);
}

fn memory(guest: &mut GuestHardware, line: &CommandLine, machine: &Fields) {
    let overcommit = line.settings("overcommit");
    // These options take an image that is a disk to the guest.
    let nvdimms = line.all("device").filter_map(|item| {
        let fields = item.fields().ok()?;
        let is_nvdimm = fields.get("driver") == Some("nvdimm");
        fields
            .get("memdev")
            .filter(|_| is_nvdimm)
            .map(str::to_owned)
    });
    let nvdimms: Vec<_> = nvdimms.collect();
    let objects = guest.backends.iter().filter(|backend| {
        let kind = backend.properties.get("qom-type");
        let is_memory = kind.is_some_and(|kind| kind.starts_with("memory-backend-"));
        backend.option == "object" && is_memory && !nvdimms.contains(&backend.id)
    });
    let memory = &mut guest.memory;
    memory.bytes = machine.get("memory.size").and_then(memory::size);
    memory.locked =
        matches!(overcommit.get("mem-lock"), Some(text) if boolean(text) != Some(false));
    memory.merged = machine.is_on("mem-merge");
    memory.path = line.last("mem-path").map(|item| item.text().into_owned());
    let mut preallocation = line.last("mem-prealloc").map(place);
    for object in objects {
        let is_on = |key| object.properties.get(key).and_then(|text| boolean(text)) == Some(true);
        if is_on("prealloc") {
            preallocation.get_or_insert(object.place.clone());
        }
        memory.shared |= is_on("share");
        memory.huge_pages |= is_on("hugetlb");
        memory.path = memory
            .path
            .take()
            .or_else(|| object.properties.get("mem-path").cloned());
    }
    memory.preallocated = preallocation.is_some();
    let path = memory.path.as_deref().unwrap_or_default();
    memory.huge_pages |= path.contains("huge");
    if let Some(place) = preallocation {
        guest.places.insert(Part::Preallocation, place);
    }
}

fn boot(guest: &mut GuestHardware, machine: &Fields) {
    let get = |key: &str| {
        let value = machine.get(key).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    };
    let boot = &mut guest.boot;
    boot.kernel = get("kernel");
    boot.initrd = get("initrd");
    boot.append = get("append").unwrap_or_default();
    boot.menu = machine.is_on("boot.menu") == Some(true);
    // A node of the block layer, of which the file is known by way of other nodes.
    let flash = get("pflash0").map(|node| drives::file(&guest.backends, &node).unwrap_or(node));
    boot.firmware = get("firmware").or(flash).or_else(|| boot.firmware.take());
}

fn places(guest: &mut GuestHardware, line: &CommandLine, machine: &Fields) {
    let of_option = [
        (Part::Accelerator, "accel"),
        (Part::Clock, "rtc"),
        (Part::Cpu, "cpu"),
        (Part::Hyperv, "cpu"),
        (Part::Machine, "machine"),
        (Part::Overcommit, "overcommit"),
        (Part::Rtc, "rtc"),
    ];
    let of_option = of_option
        .into_iter()
        .filter_map(|(part, name)| Some((part, place(line.last(name)?))));
    let of_property = [
        (Part::Accelerator, "accel"),
        (Part::Append, "append"),
        (Part::BootMenu, "boot.menu"),
        (Part::Firmware, "pflash0"),
        (Part::Firmware, "firmware"),
        (Part::Hpet, "hpet"),
        (Part::Kernel, "kernel"),
    ];
    let of_property = of_property.into_iter().filter_map(|(part, key)| {
        let word = machine.field(key)?.word;
        Some((part, place_of_word(line, word)))
    });
    guest.places.extend(of_option.chain(of_property));
}

/// Back ends of devices, and displays.
fn backends(line: &CommandLine) -> Vec<Backend> {
    const OPTIONS: &[&str] = &[
        "audiodev", "blockdev", "chardev", "display", "drive", "fsdev", "netdev", "object",
        "spice", "tpmdev", "vnc",
    ];
    let items = line
        .items()
        .iter()
        .filter(|item| OPTIONS.contains(&&*item.name));
    let set = line.set();
    let backends = items.filter_map(|item| {
        let fields = item.fields().ok()?;
        let id = fields.get("node-name").or(fields.get("id"));
        let id = id.unwrap_or_default().to_owned();
        let mut properties = map(fields.iter());
        let of_this = set
            .iter()
            .filter(|one| one.option == item.name && one.id == id);
        properties.extend(map(of_this.map(|one| &one.field)));
        Some(Backend {
            option: item.name.clone(),
            id,
            properties,
            place: place(item),
        })
    });
    backends.collect()
}

fn unread(guest: &mut GuestHardware, line: &CommandLine) {
    for item in line.unread() {
        let why = format!("what {} configures is not read", item.text());
        guest.unread.push((why, place(item)));
    }
    for error in line.errors() {
        let place = place_of_word(line, error.word());
        guest.unread.push((error.to_string(), place));
    }
}
