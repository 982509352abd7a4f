//! Devices that keep QEMU awake.

use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};
use brisk_vm::hardware::{Backend, Class, Device, Form, GuestHardware, Place};

use super::subject::Subject;
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "usb-uhci",
        applies: Applies::Guest,
        why: "a UHCI controller with a device in use has QEMU look at it in each frame, 1000 times \
              a second, unless the guest suspends the device",
        source: "QEMU: hw/usb/hcd-uhci.c; measured: 970 wakeups a second; with KVM 13 % of a CPU \
                 instead of 1: github.com/karmab/kcli/issues/489",
        check: uhci,
    },
    Rule {
        id: "balloon-stats",
        applies: Applies::Guest,
        why: "QEMU asks the guest for statistics of its memory, which wakes both",
        source: "QEMU: hw/virtio/virtio-balloon.c; measured: 53 wakeups a second instead of 33",
        check: balloon,
    },
    Rule {
        id: "iothread-poll",
        applies: Applies::Guest,
        why: "an I/O thread polls for as long after each request: with 10 ms, a whole CPU at 200 \
              requests a second",
        source: "QEMU: util/aio-posix.c; measured: 112 to 122 % of a CPU at 10 ms, 17 to 22 at 0",
        check: iothreads,
    },
    Rule {
        id: "vhost-poll",
        applies: Applies::Guest,
        why: "the kernel's thread of the network card polls after each packet",
        source: "QEMU: qemu-options.hx, poll-us",
        check: vhost,
    },
    Rule {
        id: "display-client",
        applies: Applies::Guest,
        why: "QEMU looks for changes of the screen up to 30 times a second: for VNC while a client is \
              connected, for SPICE always",
        source: "QEMU: ui/console.c, ui/spice-display.c; measured: 97 wakeups a second, with a client \
                 of VNC 156; 47 with SPICE and no client, 18 without SPICE",
        check: display,
    },
    Rule {
        id: "cdrom",
        applies: Applies::Guest,
        why: "many guests look every two seconds whether there is a medium",
        source: "Linux: block/disk-events.c; measured: 52 wakeups a second instead of 33",
        check: cdrom,
    },
    Rule {
        id: "thread-names",
        applies: Applies::Guest,
        why: "nobody can tell which of QEMU's threads is awake",
        source: "QEMU: qemu-options.hx, -name debug-threads",
        check: names,
    },
];

/// Element of the XML, or words of the command line, that go.
fn without(edit: Edit, element: &str, place: &Place) -> Edit {
    match (place.start(), place.words()) {
        (Some(start), _) => edit.exact_xml(XmlChange::Remove(Path::at(element, start))),
        (_, Some(words)) => edit.exact(ArgumentChange::Remove(words)),
        _ => edit,
    }
}

/// Word of a device's or back end's argument.
pub(super) fn argument(place: &Place) -> Option<usize> {
    place.words().map(|words| words.end - 1)
}

/// Whether a USB controller is one that works by frames (UHCI, OHCI). What is left to a default is a
/// UHCI on i440FX.
fn has_frames(subject: &Subject, controller: &Device) -> bool {
    let model = &*controller.model;
    let by_default = matches!(model, "" | "usb=on") && !subject.hardware.machine.is_q35();
    by_default && subject.hardware.machine.is_pc() || model.contains("uhci") || model == "pci-ohci"
}

/// Whether a device is in one of these controllers. Where nothing says so it is in the first.
fn is_in(form: Form, device: &Device, controller: &Device) -> bool {
    let get = |of: &Device, key: &str| of.properties.get(key).cloned();
    if let Some(bus) = get(device, "address.bus") {
        return get(controller, "index").unwrap_or("0".into()) == bus;
    }
    // In XML the attribute is the kind of the bus, and not which one.
    let Some(bus) = get(device, "bus").filter(|_| form != Form::Xml) else {
        return true;
    };
    let named = bus.split('.').next().unwrap_or_default();
    match controller.model.as_str() {
        "usb=on" => named == "usb-bus",
        _ => controller.name.as_deref() == Some(named),
    }
}

fn uhci(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let controllers: Vec<_> = hardware.devices(Class::UsbController).collect();
    let plugged = hardware
        .devices
        .iter()
        .filter(|one| one.bus == "usb" && one.model != "usb-hub");
    let slow: Vec<_> = plugged
        .filter(|device| {
            let mut of_it = controllers
                .iter()
                .filter(|one| is_in(hardware.form, device, one))
                .peekable();
            of_it.peek().is_some() && of_it.all(|one| has_frames(subject, one))
        })
        .collect();
    // One that is there only while a client hands it over counts least.
    let Some(device) = slow.iter().min_by_key(|device| is_redirected(device)) else {
        // -usbdevice has a controller made where there is none.
        return;
    };
    let mut of_it = controllers
        .iter()
        .filter(|one| is_in(hardware.form, device, one));
    let Some(first) = of_it.next() else {
        return;
    };
    let of_it: Vec<_> = of_it.collect();
    let edit = match hardware.form {
        Form::Xml => xhci_in_xml(subject, first, of_it.into_iter()),
        Form::Arguments | Form::Process => xhci_in_words(subject, first),
    };
    let (severity, name) = named(device);
    let note = match device.class {
        Class::Input => "; or a virtio tablet, where the guest has a driver for it",
        _ => "",
    };
    findings.at(
        device.place.clone(),
        severity,
        format!("a USB {name} is in a UHCI controller"),
        if subject.is_before_windows_8() {
            Fix::Advice(
                "plug it into an EHCI controller (ich9-ehci1 in XML, ich9-usb-ehci1 on a command \
                 line); Windows before 8 has no driver for an xHCI controller"
                    .into(),
            )
        } else if is_plain(hardware.form, first, controllers.len()) {
            Fix::Edit(edit.note(note))
        } else {
            Fix::Advice("plug it into a qemu-xhci; this controller shares its slot, or has settings that a qemu-xhci does not have".into())
        },
    );
}

/// Whether a device is plugged in only while a client redirects one of its own.
fn is_redirected(device: &Device) -> bool {
    device.model == "usb-redir" || device.model == "spicevmc"
}

/// How bad a device in a UHCI controller is, and its name behind "a USB".
fn named(device: &Device) -> (Severity, &str) {
    match (device.class, &*device.model) {
        _ if is_redirected(device) => (Severity::Low, "device that a client may redirect"),
        (Class::HostDevice, _) => (Severity::High, "device of the host"),
        (Class::Disk | Class::Cdrom, _) => (Severity::High, "drive"),
        (_, "") => (Severity::High, "device"),
        (_, model) => (Severity::High, model.trim_start_matches("usb-")),
    }
}

/// Whether a controller can become one of another kind: it has no settings of its kind, and is not
/// function 0 of a slot that others are in.
fn is_plain(form: Form, controller: &Device, controllers: usize) -> bool {
    match form {
        Form::Xml => {
            controllers == 1 || !controller.properties.contains_key("address.multifunction")
        }
        Form::Arguments | Form::Process => {
            let known = ["driver", "id", "bus", "addr"];
            let mut keys = controller.properties.keys();
            keys.all(|key| known.contains(&&**key))
        }
    }
}

/// The first controller becomes an xHCI; its companions go.
fn xhci_in_xml<'a>(
    subject: &Subject,
    first: &Device,
    companions: impl Iterator<Item = &'a &'a Device>,
) -> Edit {
    let edit = Edit::of(&subject.hardware);
    let Some(start) = first.place.start() else {
        return edit.set(
            "devices/controller[type=usb](index=0)",
            "model",
            "qemu-xhci",
        );
    };
    let path = || Path::at("controller", start);
    let mut edit = edit.exact_xml(XmlChange::Set {
        path: path(),
        attribute: "model",
        value: "qemu-xhci".into(),
    });
    // UHCI has an address that is no good for another.
    for child in ["address", "master"] {
        let start = format!("{child}.");
        if first.properties.keys().any(|key| key.starts_with(&start)) {
            edit = edit.exact_xml(XmlChange::Remove(path().below(child)));
        }
    }
    companions.fold(edit, |edit, one| without(edit, "controller", &one.place))
}

fn xhci_in_words(subject: &Subject, first: &Device) -> Edit {
    let hardware = &subject.hardware;
    let edit = Edit::of(hardware);
    if first.model != "usb=on" {
        let Some(word) = argument(&first.place) else {
            return edit;
        };
        // It takes the slot of the other, so that no other device gets another one.
        return edit.exact(ArgumentChange::Set {
            word,
            key: "driver",
            value: "qemu-xhci".into(),
        });
    }
    let Some(words) = first.place.words() else {
        return edit;
    };
    let mut plugged = hardware.devices.iter().filter(|one| one.bus == "usb");
    let earliest = plugged.clone().filter_map(|one| one.place.words());
    let earliest = earliest.map(|words| words.start).min();
    let Some(slot) = free_slot(hardware) else {
        return edit;
    };
    let controller = || vec!["-device".to_owned(), format!("qemu-xhci,addr={slot:#x}")];
    // -usbdevice brings a controller along.
    let by_device = plugged.clone().find(|one| one.place == first.place);
    if let Some(device) = by_device {
        let mut with = controller();
        with.extend(["-device".to_owned(), device.model.clone()]);
        return edit.exact(ArgumentChange::Replace { words, with });
    }
    let edit = match words.len() {
        1 => edit.exact(ArgumentChange::Remove(words)),
        _ => edit.exact(ArgumentChange::SetMachine {
            key: "usb",
            value: "off".into(),
        }),
    };
    let edit = match earliest {
        Some(before) => edit.exact(ArgumentChange::Insert {
            before,
            words: controller(),
        }),
        None => edit.exact(ArgumentChange::Add(controller())),
    };
    // Its bus has another name.
    plugged
        .try_fold(edit, |edit, one| {
            let named = ["bus", "port"]
                .into_iter()
                .filter(|key| one.properties.contains_key(*key));
            let word = argument(&one.place)?;
            Some(named.fold(edit, |edit, key| {
                edit.exact(ArgumentChange::Unset { word, key })
            }))
        })
        .unwrap_or_else(|| Edit::of(hardware))
}

/// A slot that no device takes: QEMU gives those without an address the lowest that are free, and
/// the devices of a Q35 are in the last five.
fn free_slot(hardware: &GuestHardware) -> Option<u32> {
    let taken: Vec<_> = hardware
        .devices
        .iter()
        .filter_map(|device| device.properties.get("addr"))
        .filter_map(|addr| {
            let slot = addr.split('.').next().unwrap_or_default();
            u32::from_str_radix(slot.trim_start_matches("0x"), 16).ok()
        })
        .collect();
    (0x10..=0x1a).rev().find(|slot| !taken.contains(slot))
}

/// Shortest period of statistics, in seconds, that costs nothing worth a word.
const PERIOD: u32 = 10;

fn balloon(subject: &Subject, findings: &mut Findings) {
    for balloon in subject.hardware.devices(Class::Balloon) {
        let get = |key: &str| balloon.properties.get(key)?.parse::<u32>().ok();
        let period = get("stats.period").or(get("guest-stats-polling-interval"));
        let Some(period) = period.filter(|period| (1..PERIOD).contains(period)) else {
            continue;
        };
        let edit = Edit::of(&subject.hardware);
        let edit = match (balloon.place.start(), argument(&balloon.place)) {
            (Some(start), _) => edit.exact_xml(XmlChange::Set {
                path: Path::at("memballoon", start).below("stats"),
                attribute: "period",
                value: PERIOD.to_string(),
            }),
            (_, Some(word)) => edit.exact(ArgumentChange::Set {
                word,
                key: "guest-stats-polling-interval",
                value: PERIOD.to_string(),
            }),
            _ => continue,
        };
        findings.at(
            balloon.place.clone(),
            Severity::Low,
            format!("QEMU asks for statistics of memory every {period} s"),
            edit,
        );
    }
}

/// QEMU's default of `poll-max-ns` (`IOTHREAD_POLL_MAX_NS_DEFAULT`).
const POLL: u64 = 32_768;
/// From so many nanoseconds on, the 20 requests a second that an idle guest may have cost 2 % of a
/// CPU.
const LONG: u64 = 1_000_000;

fn iothreads(subject: &Subject, findings: &mut Findings) {
    let is_iothread = |backend: &&Backend| {
        let kind = backend.properties.get("qom-type");
        kind.is_some_and(|kind| kind == "iothread")
    };
    for thread in subject.hardware.backends.iter().filter(is_iothread) {
        let longest = thread.properties.get("poll-max-ns");
        let longest = longest.and_then(|text| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        });
        let Some(longest) = longest.filter(|time| *time > POLL) else {
            continue;
        };
        let edit = Edit::of(&subject.hardware);
        let edit = match (thread.place.start(), argument(&thread.place)) {
            (Some(start), _) => edit.exact_xml(XmlChange::Unset {
                path: Path::at("iothread", start).below("poll"),
                attribute: "max",
            }),
            (_, Some(word)) => edit.exact(ArgumentChange::Unset {
                word,
                key: "poll-max-ns",
            }),
            _ => continue,
        };
        let severity = match longest >= LONG {
            true => Severity::High,
            false => Severity::Low,
        };
        findings.at(
            thread.place.clone(),
            severity,
            format!("{} polls for up to {} µs", thread.id, longest / 1000),
            edit,
        );
    }
}

fn vhost(subject: &Subject, findings: &mut Findings) {
    for backend in &subject.hardware.backends {
        let time = backend.properties.get("poll-us");
        let time = time.and_then(|text| text.parse::<u64>().ok());
        let Some((time, word)) = time.filter(|time| *time > 0).zip(argument(&backend.place)) else {
            continue;
        };
        findings.at(
            backend.place.clone(),
            Severity::Medium,
            format!("the network back end {} polls for {time} µs", backend.id),
            Edit::of(&subject.hardware).exact(ArgumentChange::Unset {
                word,
                key: "poll-us",
            }),
        );
    }
}

fn display(subject: &Subject, findings: &mut Findings) {
    let has = |server: &str| {
        let mut backends = subject.hardware.backends.iter();
        backends.any(|backend| backend.option == server)
    };
    let Some(card) = subject.hardware.devices(Class::Video).next() else {
        return;
    };
    let live = subject.live.as_ref();
    let is_seen = live.is_some_and(|live| live.main_wakeups >= 90.0);
    let (severity, what, advice) = match (has("spice"), has("vnc")) {
        (true, _) => (
            Severity::Low,
            "there is a screen that SPICE looks at, with or without a client",
            "on a server, VNC or no graphics; a desktop needs it",
        ),
        (false, true) if is_seen => (Severity::Low, SCREEN, CLOSE),
        (false, true) => (Severity::Note, SCREEN, CLOSE),
        (false, false) => return,
    };
    let fix = Fix::Advice(advice.into());
    findings.at(card.place.clone(), severity, what, fix);
}

const SCREEN: &str = "there is a screen that clients can look at";
const CLOSE: &str = "close clients that nobody looks at; on a server, no graphics";

fn cdrom(subject: &Subject, findings: &mut Findings) {
    for drive in subject.hardware.devices(Class::Cdrom) {
        let is_empty = !drive.properties.keys().any(|key| {
            key.starts_with("source.")
                || matches!(&**key, "file" | "drive")
                || key.contains("filename")
        });
        let fix = if is_empty && drive.is_asked_for() {
            let edit = without(Edit::of(&subject.hardware), "disk", &drive.place);
            Fix::Edit(edit.on_request().note(", if no medium comes later"))
        } else {
            Fix::Advice("remove it when the guest does not need it any more".into())
        };
        let what = format!("there is a CD-ROM drive, {}", drive.label());
        findings.at(drive.place.clone(), Severity::Low, what, fix);
    }
}

/// First version of QEMU that names its threads without being asked to.
const NAMED: (u32, u32) = (11, 0);

fn names(subject: &Subject, findings: &mut Findings) {
    let is_new = subject.host.qemu.is_some_and(|version| version >= NAMED);
    if !subject.hardware.names_threads && !is_new {
        findings.at(
            Place::Implied,
            Severity::Note,
            "QEMU's threads have no names",
            Edit::of(&subject.hardware).exact(ArgumentChange::SetOption {
                option: "name",
                key: "debug-threads",
                value: "on".into(),
            }),
        );
    }
}
