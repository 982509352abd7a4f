//! Devices that QEMU serves itself: disks and network cards without virtio, virtio network cards
//! without vhost, and sound.

use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};
use brisk_vm::hardware::{Backend, Class, Device, Form};
use brisk_vm::qemu::cmdline::boolean;

use super::devices::argument;
use super::subject::Subject;
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "emulated-io",
        applies: Applies::Guest,
        why: "each request and each packet is several exits to QEMU, where virtio needs one or none; \
              the drivers of some cards also read counters every few seconds",
        source: "QEMU: hw/ide/ahci.c, hw/net/e1000.c; Linux: \
                 drivers/net/ethernet/intel/e1000/e1000_main.c, e1000_watchdog",
        check: emulated,
    },
    Rule {
        id: "vhost-off",
        applies: Applies::Guest,
        why: "each packet wakes QEMU's main thread, also the broadcasts that an idle guest gets; with \
              vhost the kernel delivers them",
        source: "QEMU: qemu-options.hx, -netdev tap, vhost; net/tap.c; libvirt: formatdomain.html, \
                 Setting NIC driver-specific options",
        check: vhost_off,
    },
    Rule {
        id: "audio",
        applies: Applies::Guest,
        why: "while the guest has a stream open, silent or not, timers of the sound card and of its \
              back end wake QEMU: every 10 ms by default, an HDA card every millisecond",
        source: "QEMU: audio/audio.c, audio_is_timer_needed; hw/audio/hda-codec.c, HDA_TIMER_TICKS",
        check: audio,
    },
];

fn emulated(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    if !hardware.machine.is_x86() {
        return;
    }
    let is_emulated = |device: &&Device| match device.class {
        Class::Disk => matches!(device.bus, "ide" | "sata"),
        Class::Network => device.bus != "virtio",
        _ => false,
    };
    let emulated: Vec<_> = hardware.devices.iter().filter(is_emulated).collect();
    let Some(first) = emulated.iter().find(|one| one.is_asked_for()) else {
        return;
    };
    let names: Vec<_> = emulated.iter().map(|device| name(device)).collect();
    let what = match &*names {
        [name] => format!("{name} is emulated hardware"),
        names => format!("{} are emulated hardware", names.join(", ")),
    };
    let advice = match subject.os.is_windows() {
        true => {
            "virtio, once Windows has its drivers: before the boot disk is changed, start once with a \
             second virtio disk, or Windows does not boot"
        }
        false => {
            "virtio, if the guest has its drivers in the initramfs; names change, such as sda to vda"
        }
    };
    let fix = Fix::Advice(advice.into());
    findings.at(first.place.clone(), Severity::Note, what, fix);
}

fn name(device: &Device) -> String {
    match (device.class, &*device.model) {
        (Class::Disk, _) => format!("disk {} ({})", device.label(), device.bus),
        (_, "") => "a network card of the default model".to_owned(),
        (_, model) => format!("network card {model}"),
    }
}

fn vhost_off(subject: &Subject, findings: &mut Findings) {
    if !subject.has_kvm() {
        return;
    }
    let cards = subject.hardware.devices(Class::Network);
    for card in cards.filter(|card| card.bus == "virtio") {
        match subject.hardware.form {
            Form::Xml => off_in_xml(subject, card, findings),
            Form::Arguments | Form::Process => off_in_words(subject, card, findings),
        }
    }
}

/// libvirt uses vhost where the host has it, unless it is told not to.
fn off_in_xml(subject: &Subject, card: &Device, findings: &mut Findings) {
    let is_tap = matches!(&*card.backend, "network" | "bridge" | "ethernet" | "direct");
    let driver = card.properties.get("driver.name");
    let is_off = driver.is_some_and(|name| name == "qemu");
    let Some(start) = card.place.start().filter(|_| is_tap && is_off) else {
        return;
    };
    let edit = Edit::of(&subject.hardware).exact_xml(XmlChange::Unset {
        path: Path::at("interface", start).below("driver"),
        attribute: "name",
    });
    findings.at(
        card.place.clone(),
        Severity::Low,
        "QEMU serves a network card itself (driver name='qemu')",
        edit.on_request(),
    );
}

/// A tap has vhost only if it is asked for, or given a descriptor of it.
fn off_in_words(subject: &Subject, card: &Device, findings: &mut Findings) {
    let mut backends = subject.hardware.backends.iter();
    let backend = card
        .properties
        .get("netdev")
        .and_then(|id| backends.find(|backend| backend.option == "netdev" && backend.id == *id));
    // -nic has both in one.
    let (properties, place) = match backend {
        Some(backend) => (&backend.properties, &backend.place),
        None => (&card.properties, &card.place),
    };
    let is_tap = properties.get("type").is_some_and(|kind| kind == "tap");
    let is_on = |key: &str| properties.get(key).and_then(|text| boolean(text));
    let has = |key: &str| properties.contains_key(key);
    // As net/tap.c decides.
    let by_default = has("vhostfd") || has("vhostfds") || is_on("vhostforce") == Some(true);
    let has_vhost = is_on("vhost").unwrap_or(by_default);
    if is_tap && !has_vhost {
        findings.at(
            place.clone(),
            Severity::Low,
            "QEMU serves a tap itself (vhost is off)",
            Fix::Advice("vhost=on, where QEMU may open /dev/vhost-net".into()),
        );
    }
}

/// QEMU's default of `timer-period`, in microseconds (`audio_validate_opts`).
const PERIOD: u32 = 10_000;

fn audio(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let Some(card) = hardware.devices(Class::Sound).next() else {
        return;
    };
    let backends = hardware.backends.iter();
    let backends: Vec<_> = backends.filter(|one| one.option == "audiodev").collect();
    for backend in &backends {
        short_period(subject, backend, findings);
    }
    let is_none = |backend: &&Backend| {
        let kind = backend.properties.get("type");
        let kind = kind.or(backend.properties.get("driver"));
        kind.is_some_and(|kind| kind == "none")
    };
    if !backends.is_empty() && backends.iter().all(is_none) && card.is_asked_for() {
        findings.at(
            card.place.clone(),
            Severity::Note,
            "there is a sound card that nobody hears: its back end is none",
            Fix::Advice("remove it, with what refers to it".into()),
        );
    }
}

fn short_period(subject: &Subject, backend: &Backend, findings: &mut Findings) {
    let get = |key: &str| backend.properties.get(key)?.parse::<u32>().ok();
    let period = get("timer-period").or(get("timerPeriod"));
    let Some(period) = period.filter(|period| *period < PERIOD) else {
        return;
    };
    let edit = Edit::of(&subject.hardware);
    let edit = match (backend.place.start(), argument(&backend.place)) {
        (Some(start), _) => edit.exact_xml(XmlChange::Unset {
            path: Path::at("audio", start),
            attribute: "timerPeriod",
        }),
        (_, Some(word)) => edit.exact(ArgumentChange::Unset {
            word,
            key: "timer-period",
        }),
        _ => return,
    };
    findings.at(
        backend.place.clone(),
        Severity::Low,
        format!("QEMU serves sound every {period} µs while a stream is open"),
        edit.on_request().note(", unless sound stutters without it"),
    );
}
