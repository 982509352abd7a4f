//! Enlightenments for Windows guests. The dependencies are those of `kvm_hyperv_properties` in
//! QEMU's `target/i386/kvm/kvm.c`.

use brisk_vm::hardware::Part;
use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};

use super::subject::{GuestOs, Subject};
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

const DOCUMENT: &str = "QEMU: docs/system/i386/hyperv.rst";

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "hv-stimer",
        applies: Applies::Guest,
        why: "Windows keeps time with the RTC or the HPET, each tick of which wakes QEMU: up to \
              30 % of a CPU",
        source: "QEMU: docs/system/i386/hyperv.rst; with KVM 30 to 40 % of a CPU instead of 1 to 3: \
                 github.com/OpenNebula/addon-storpool/issues/79",
        check: stimer,
    },
    Rule {
        id: "hv-deps",
        applies: Applies::Guest,
        why: "QEMU refuses to start with KVM, or the enlightenment has no effect",
        source: "QEMU: target/i386/kvm/kvm.c, kvm_hyperv_properties",
        check: dependencies,
    },
    Rule {
        id: "hv-hidden",
        applies: Applies::Guest,
        why: "Windows looks for enlightenments only where the CPU says that there is a hypervisor \
              (CPUID 1, ECX 31)",
        source: "Microsoft: Hypervisor Top Level Functional Specification, feature discovery",
        check: hidden,
    },
    Rule {
        id: "hv-time",
        applies: Applies::Guest,
        why: "Windows reads the ACPI PM timer, and each read is an exit to QEMU",
        source: DOCUMENT,
        check: time,
    },
    Rule {
        id: "hv-usual",
        applies: Applies::Guest,
        why: "the guest causes more exits than it must",
        source: DOCUMENT,
        check: usual,
    },
    Rule {
        id: "hv-tcg",
        applies: Applies::Guest,
        why: "emulated guests (TCG) do not get them",
        source: "QEMU: target/i386/cpu.c, x86_cpu_realizefn",
        check: without_kvm,
    },
    Rule {
        id: "hv-evmcs",
        applies: Applies::Guest,
        why: "it is for Intel's VMX; on AMD's CPUs QEMU refuses it",
        source: DOCUMENT,
        check: evmcs,
    },
    Rule {
        id: "hv-avic",
        applies: Applies::Guest,
        why: "with the synthetic interrupt controller, interrupts reach the guest without exits \
              (APICv, AVIC) only if hv-avic is on; on a host that has neither, it makes them slower",
        source: DOCUMENT,
        check: avic,
    },
    Rule {
        id: "hv-passthrough",
        applies: Applies::Guest,
        why: "the guest gets what this host happens to have, and cannot be migrated",
        source: DOCUMENT,
        check: passthrough,
    },
    Rule {
        id: "hv-debug",
        applies: Applies::Guest,
        why: "it is for debugging, is not needed, or keeps Windows from writing crash dumps",
        source: DOCUMENT,
        check: debugging,
    },
    Rule {
        id: "win-11",
        applies: Applies::Guest,
        why: "Windows 11 24H2 and later may be busy when idle, whatever the enlightenments are",
        source: "QEMU issue 3256",
        check: windows_11,
    },
];

/// What an enlightenment needs.
const NEEDS: &[(&str, &[&str])] = &[
    ("synic", &["vpindex"]),
    ("stimer", &["synic", "time"]),
    ("stimer-direct", &["stimer"]),
    ("tlbflush", &["vpindex"]),
    ("tlbflush-ext", &["tlbflush"]),
    ("tlbflush-direct", &["vapic"]),
    ("ipi", &["vpindex"]),
    ("evmcs", &["vapic"]),
    ("syndbg", &["synic", "relaxed"]),
];

/// The rest of what QEMU's document recommends to set.
const USUAL: &[&str] = &[
    "relaxed",
    "vapic",
    "spinlocks",
    "runtime",
    "frequencies",
    "stimer-direct",
    "tlbflush",
    "ipi",
];

/// Retries of a spinlock after which the guest tells the hypervisor.
const RETRIES: &str = "8191";

/// An enlightenment, with all that it needs, those first.
fn closure(name: &'static str, into: &mut Vec<&'static str>) {
    let needs = NEEDS.iter().find(|(one, _)| *one == name);
    for need in needs.map_or(&[][..], |(_, needs)| needs) {
        closure(need, into);
    }
    if !into.contains(&name) {
        into.push(name);
    }
}

/// Where an enlightenment is in the XML, and its attribute.
fn path(name: &str) -> (String, &'static str) {
    match name {
        "time" => (
            "clock(offset=localtime)/timer[name=hypervclock]".into(),
            "present",
        ),
        "stimer-direct" => ("features/hyperv/stimer/direct".into(), "state"),
        "tlbflush-ext" => ("features/hyperv/tlbflush/extended".into(), "state"),
        "tlbflush-direct" => ("features/hyperv/tlbflush/direct".into(), "state"),
        name => (
            format!("features/hyperv/{}", name.replace('-', "_")),
            "state",
        ),
    }
}

/// Turns an enlightenment on or off.
fn switch(edit: Edit, name: &str, is_on: bool) -> Edit {
    let (path, attribute) = path(name);
    let word = match (attribute, is_on) {
        ("present", true) => "yes",
        ("present", false) => "no",
        (_, true) => "on",
        (_, false) => "off",
    };
    let retries = name == "spinlocks" && is_on;
    let edit = edit.set(&path, attribute, word);
    let edit = if retries {
        edit.set(&path, "retries", RETRIES)
    } else {
        edit
    };
    edit.exact(ArgumentChange::SetCpu {
        key: format!("hv-{name}"),
        value: match (retries, is_on) {
            (true, _) => RETRIES,
            (false, true) => "on",
            (false, false) => "off",
        }
        .to_owned(),
    })
}

/// A fix that turns on what is missing of a list. Advice if the host does not know one of them.
fn turn_on(subject: &Subject, names: &[&'static str]) -> Fix {
    let is_missing = |name: &&&str| !subject.is_enlightened(name);
    let missing: Vec<_> = names.iter().filter(is_missing).copied().collect();
    let is_unknown = |name: &&&str| {
        let known = subject.host.hyperv.as_ref();
        // libvirt lists hypervclock as a timer.
        **name != "time" && known.is_some_and(|known| !known.contains(**name))
    };
    if let Some(unknown) = missing.iter().find(is_unknown) {
        return Fix::Advice(format!(
            "the QEMU or kernel of this host does not know hv-{unknown}: update them"
        ));
    }
    let cpu = &subject.hardware.cpu;
    let is_off = |name: &&str| cpu.is_on(&format!("hv-{name}")) == Some(false);
    let edit = missing
        .iter()
        .fold(Edit::of(&subject.hardware), |edit, name| {
            switch(edit, name, true)
        });
    match missing.iter().any(is_off) {
        true => edit
            .on_request()
            .note(", which somebody switched off")
            .into(),
        false => edit.into(),
    }
}

pub(super) fn closed(subject: &Subject, name: &'static str) -> Fix {
    let mut names = Vec::new();
    closure(name, &mut names);
    if is_old(subject) && name != "vpindex" {
        names.retain(|name| *name != "vpindex" || subject.is_enlightened("vpindex"));
    }
    turn_on(subject, &names)
}

/// Whether the machine type is one in which synic does not need vpindex (pc up to 3.0).
fn is_old(subject: &Subject) -> bool {
    let kind = &subject.hardware.machine.kind;
    let version = kind.rsplit('-').next().unwrap_or_default();
    let Some((major, minor)) = version.split_once('.') else {
        return false;
    };
    let number = |text: &str| text.parse::<u32>().ok();
    number(major)
        .zip(number(minor))
        .is_some_and(|version| version <= (3, 0))
}

fn is_windows(subject: &Subject) -> bool {
    subject.os.is_windows() && subject.has_kvm() && subject.hardware.machine.is_x86()
}

fn hidden(subject: &Subject, findings: &mut Findings) {
    if is_windows(subject) && subject.is_hidden() {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::High,
            "the hypervisor is hidden, and Windows uses no enlightenments",
            Fix::Advice("let the guest see it, unless a program in it must not".into()),
        );
    }
}

/// Whether it is a Windows that has synthetic timers: 8 and Server 2012, and later.
pub(super) fn has_timers(subject: &Subject) -> bool {
    can_be_enlightened(subject) && !subject.is_before_windows_8()
}

/// Whether it is a Windows that looks for enlightenments.
fn can_be_enlightened(subject: &Subject) -> bool {
    is_windows(subject) && !subject.is_hidden()
}

fn stimer(subject: &Subject, findings: &mut Findings) {
    if has_timers(subject) && !subject.is_enlightened("stimer") {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::High,
            "Windows has no synthetic timer (hv-stimer)",
            closed(subject, "stimer"),
        );
    }
}

fn dependencies(subject: &Subject, findings: &mut Findings) {
    for (name, needs) in NEEDS {
        let is_missing = |need: &&&str| {
            let is_needed = **need != "vpindex" || !is_old(subject);
            is_needed && !subject.is_enlightened(need)
        };
        if !subject.is_enlightened(name) || subject.is_enlightened("passthrough") {
            continue;
        }
        let missing: Vec<_> = needs.iter().filter(is_missing).copied().collect();
        if missing.is_empty() {
            continue;
        }
        let severity = match subject.has_kvm() {
            true => Severity::High,
            false => Severity::Low,
        };
        findings.at(
            subject.hardware.place(Part::Hyperv),
            severity,
            format!("hv-{name} needs hv-{}", missing.join(" and hv-")),
            closed(subject, name),
        );
    }
}

fn time(subject: &Subject, findings: &mut Findings) {
    // Before Windows 7 none reads it.
    let may_be_older = subject.os == GuestOs::Windows7;
    if can_be_enlightened(subject) && !may_be_older && !subject.is_enlightened("time") {
        findings.at(
            subject.hardware.place(Part::Clock),
            Severity::Medium,
            "Windows has no reference time (hv-time, hypervclock)",
            closed(subject, "time"),
        );
    }
}

fn usual(subject: &Subject, findings: &mut Findings) {
    let known = subject.host.hyperv.as_ref();
    // Newer ones only where the host is known to have them.
    let is_known = |name: &&&'static str| match known {
        Some(known) => known.contains(**name),
        None => matches!(**name, "relaxed" | "vapic" | "spinlocks" | "runtime"),
    };
    let cpu = &subject.hardware.cpu;
    let is_left =
        |name: &&&str| cpu.is_on(&format!("hv-{name}")).is_none() && !subject.is_enlightened(name);
    let missing = USUAL.iter().filter(is_known).filter(is_left).copied();
    let missing: Vec<_> = missing.collect();
    if is_windows(subject) && subject.is_enlightened("stimer") && !missing.is_empty() {
        let mut names = Vec::new();
        for name in &missing {
            closure(name, &mut names);
        }
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::Low,
            format!(
                "Windows lacks usual enlightenments: hv-{}",
                missing.join(", hv-")
            ),
            turn_on(subject, &names),
        );
    }
}

fn without_kvm(subject: &Subject, findings: &mut Findings) {
    let is_on = |value: &String| value != "off";
    if !subject.has_kvm() && subject.hardware.cpu.hyperv.values().any(is_on) {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::Note,
            "enlightenments have no effect without KVM",
            Fix::Advice("nothing to change, until the guest runs with KVM".into()),
        );
    }
}

fn evmcs(subject: &Subject, findings: &mut Findings) {
    let model = subject.hardware.cpu.model.as_deref().unwrap_or_default();
    let amd = ["EPYC", "Opteron", "athlon", "phenom", "Dhyana"];
    let is_amd =
        subject.host.is_amd == Some(true) || amd.iter().any(|name| model.starts_with(name));
    if subject.is_enlightened("evmcs") && is_amd {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::High,
            "hv-evmcs is on, and the CPU is AMD's",
            switch(Edit::of(&subject.hardware), "evmcs", false),
        );
    }
}

/// First version of QEMU that knows hv-avic.
const AVIC: (u32, u32) = (6, 2);

fn avic(subject: &Subject, findings: &mut Findings) {
    let is_on = subject.is_enlightened("avic");
    let place = subject.hardware.place(Part::Hyperv);
    match subject.host.has_apicv {
        Some(false) if is_on => findings.at(
            place,
            Severity::Medium,
            "hv-avic is on, and the host has neither APICv nor AVIC",
            switch(Edit::of(&subject.hardware), "avic", false),
        ),
        Some(true) if !is_on => avic_off(subject, findings),
        _ => {}
    }
}

fn avic_off(subject: &Subject, findings: &mut Findings) {
    let is_left = subject.hardware.cpu.is_on("hv-avic").is_none();
    if !can_be_enlightened(subject) || !subject.is_enlightened("synic") || !is_left {
        return;
    }
    let fix = match (&subject.host.hyperv, subject.host.qemu) {
        (Some(known), _) if known.contains("avic") => turn_on(subject, &["avic"]),
        (None, Some(version)) if version >= AVIC => Fix::Advice(
            "hv-avic=on, with Linux 5.15 or later on the host: with an earlier one the guest does not \
             start"
                .into(),
        ),
        // A QEMU that does not know it would not start.
        _ => return,
    };
    findings.at(
        subject.hardware.place(Part::Hyperv),
        Severity::Low,
        "the host has APICv or AVIC, which the guest does not use without hv-avic",
        fix,
    );
}

fn passthrough(subject: &Subject, findings: &mut Findings) {
    if subject.hardware.cpu.is_on("hv-passthrough") == Some(true) {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::Note,
            "all enlightenments of this host are passed through",
            Fix::Advice("name those that the guest is to have".into()),
        );
    }
}

fn debugging(subject: &Subject, findings: &mut Findings) {
    for name in ["crash", "syndbg", "reset"] {
        if subject.hardware.cpu.is_on(&format!("hv-{name}")) != Some(true) {
            continue;
        }
        let edit = Edit::of(&subject.hardware);
        let edit = match name {
            // libvirt's panic device for Windows.
            "crash" => edit
                .exact_xml(XmlChange::Remove(Path::domain(
                    "devices/panic[model=hyperv]",
                )))
                .exact(ArgumentChange::UnsetCpu("hv-crash".into()))
                .on_request()
                .note(", unless somebody reads what QEMU says of crashes"),
            "syndbg" => switch(edit, name, false),
            name => switch(edit, name, false).on_request(),
        };
        // The others cost an idle guest nothing.
        let is_busy = name == "syndbg" && subject.has_kvm();
        findings.at(
            subject.hardware.place(Part::Hyperv),
            if is_busy {
                Severity::Medium
            } else {
                Severity::Note
            },
            format!("hv-{name} is on"),
            edit,
        );
    }
}

/// Share of a CPU, in percent, that an idle Windows with all enlightenments stays below.
const QUIET: f64 = 5.0;

fn windows_11(subject: &Subject, findings: &mut Findings) {
    let is_busy = subject.live.as_ref().is_some_and(|live| live.cpu > QUIET);
    if subject.os == GuestOs::Windows11 && subject.is_enlightened("stimer") && is_busy {
        findings.at(
            subject.hardware.place(Part::Hyperv),
            Severity::Note,
            "Windows 11 is busy although it has a synthetic timer",
            Fix::Advice(
                "look at the guest's own tasks first; on Intel, try hv-evmcs; measure before and \
                 after"
                    .into(),
            ),
        );
    }
}
