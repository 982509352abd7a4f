//! Timers, clocks and what the host does when a vCPU halts.

use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};
use brisk_vm::hardware::{Class, Part};

use super::subject::Subject;
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "hpet",
        applies: Applies::Guest,
        why: "the guest's kernel uses it at boot and leaves it running: QEMU's main thread, from \
              version 9.1 on, wakes about as often as the guest's HZ",
        source: "QEMU: hw/timer/hpet.c; measured: 33 to 46 wakeups a second without, 265 with \
                 QEMU 10.0, 37 to 52 with 7.2; with KVM 9 % of a CPU instead of 0.6: \
                 github.com/systemd/mkosi/pull/3811",
        check: hpet,
    },
    Rule {
        id: "no-lapic",
        applies: Applies::Guest,
        why: "the guest ticks with the PIT, which has no mode in which an idle kernel sleeps long",
        source: "Linux: arch/x86/kernel/apic/apic.c; measured: 177 wakeups a second",
        check: lapic,
    },
    Rule {
        id: "no-arat",
        applies: Applies::Guest,
        why: "the guest's kernel does not trust the timer of a sleeping CPU and has no other to wake \
              it: an idle vCPU ticks on",
        source: "Linux: arch/x86/kernel/apic/apic.c; measured: 535 wakeups a second, 60 with arat",
        check: arat,
    },
    Rule {
        id: "kvmclock",
        applies: Applies::Guest,
        why: "the guest reads a clock that QEMU emulates",
        source: "Linux: Documentation/virt/kvm/x86/timekeeping.rst",
        check: kvmclock,
    },
    Rule {
        id: "haltpoll",
        applies: Applies::Guest,
        why: "the guest polls before it halts, as if the host's CPU were its own",
        source: "Linux: Documentation/virt/guest-halt-polling.rst",
        check: dedicated,
    },
    Rule {
        id: "poll-control",
        applies: Applies::Guest,
        why: "the guest tells the host not to poll, and polls itself",
        source: "libvirt: formatdomain.html, poll-control",
        check: poll_control,
    },
    Rule {
        id: "cpu-pm",
        applies: Applies::Guest,
        why: "a halted vCPU keeps its CPU of the host, which looks busy and is not given to others",
        source: "QEMU: qemu-options.hx, -overcommit",
        check: cpu_pm,
    },
    Rule {
        id: "halt-poll",
        applies: Applies::Guest,
        why: "KVM polls before it lets a halted vCPU sleep",
        source: "Linux: Documentation/virt/kvm/halt-polling.rst",
        check: halt_poll,
    },
    Rule {
        id: "irqchip",
        applies: Applies::Guest,
        why: "interrupts of the I/O APIC go through QEMU, and with kernel-irqchip=off all do",
        source: "QEMU: hw/intc/apic.c; libvirt: formatdomain.html, ioapic",
        check: irqchip,
    },
];

/// First version of QEMU in which an HPET that the guest has masked goes on.
const HPET_RUNS_ON: (u32, u32) = (9, 1);

fn hpet(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    if !hardware.machine.is_pc() || hardware.timers.hpet == Some(false) || subject.lacks_lapic() {
        return;
    }
    // Guests know of it from ACPI's tables.
    if !subject.has_acpi() {
        return;
    }
    // Windows without a synthetic timer falls back to the RTC, which is no better.
    let is_needed =
        subject.os.is_windows() && !(subject.has_kvm() && subject.is_enlightened("stimer"));
    // Where it is known that the HPET rests when the guest does.
    let is_old = subject
        .host
        .qemu
        .is_some_and(|version| version < HPET_RUNS_ON);
    let rests = is_old && !subject.os.is_windows();
    let fix = if is_needed {
        let text = match subject.has_kvm() {
            true if subject.is_before_windows_8() => {
                "measure with and without it (brisk idle measure): Windows before 8 has no synthetic \
                 timer, and falls back to the RTC"
            }
            true if subject.is_hidden() => {
                "let Windows see the hypervisor first (hv-hidden), and give it a synthetic timer"
            }
            true => "give Windows a synthetic timer first (hv-stimer)",
            false => "leave it: Windows without KVM has no better timer",
        };
        Fix::Advice(text.into())
    } else {
        let edit = Edit::of(hardware)
            .set("clock(offset=utc)/timer[name=hpet]", "present", "no")
            .exact(ArgumentChange::SetMachine {
                key: "hpet",
                value: "off".into(),
            });
        match rests {
            true => edit.on_request().into(),
            false => edit.into(),
        }
    };
    let severity = match rests || is_needed && !subject.has_kvm() {
        true => Severity::Note,
        false => Severity::High,
    };
    let what = match (rests, hardware.timers.hpet) {
        (true, _) => "there is an HPET, which QEMU from 9.1 on would not let rest",
        (false, Some(_)) => "there is an HPET",
        (false, None) => "there is an HPET, by default",
    };
    findings.at(hardware.place(Part::Hpet), severity, what, fix);
}

fn lapic(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    if subject.has_parameter("nolapic") {
        findings.at(
            hardware.place(Part::Append),
            Severity::Medium,
            "the kernel does without the local APIC (nolapic)",
            cut(subject, "nolapic"),
        );
    }
    for word in ["nolapic_timer", "noapictimer"] {
        if subject.has_parameter(word) {
            findings.at(
                hardware.place(Part::Append),
                Severity::Medium,
                format!("the kernel does without the timer of the local APIC ({word})"),
                cut(subject, word),
            );
        }
    }
    if hardware.cpu.is_on("apic") == Some(false) {
        findings.at(
            hardware.place(Part::Cpu),
            Severity::Medium,
            "the CPU has no local APIC",
            Edit::of(hardware)
                .exact_xml(XmlChange::Remove(Path::domain("cpu/feature[name=apic]")))
                .exact(ArgumentChange::UnsetCpu("apic".into())),
        );
    }
}

/// Only a microvm can have neither PIT nor HPET and be idle without ACPI.
fn arat(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let has_pit = hardware.timers.pit != Some(false);
    let cpu = &hardware.cpu;
    let is_lacking = match cpu.is_on("arat") {
        Some(is_on) => !is_on,
        // The newer models have it, and what the host or the accelerator gives.
        None => cpu.is_generic(),
    };
    if hardware.machine.is_microvm() && !has_pit && !subject.lacks_lapic() && is_lacking {
        findings.at(
            hardware.place(Part::Cpu),
            Severity::High,
            "the CPU has no timer that runs while it sleeps (arat), and the machine has no PIT",
            Edit::of(hardware)
                .write("<feature policy='require' name='arat'/> in <cpu>")
                .exact(ArgumentChange::SetCpu {
                    key: "arat".into(),
                    value: "on".into(),
                }),
        );
    }
}

/// A parameter that goes from the kernel's command line.
pub(super) fn cut(subject: &Subject, word: &str) -> Edit {
    Edit::of(&subject.hardware)
        .exact_xml(XmlChange::Cut {
            path: Path::domain("os/cmdline"),
            word: word.to_owned(),
        })
        .exact(ArgumentChange::CutAppend(word.to_owned()))
}

fn kvmclock(subject: &Subject, findings: &mut Findings) {
    let is_off = subject.hardware.timers.kvmclock == Some(false);
    // A TSC that never stops is as good.
    let has_tsc = subject.hardware.cpu.is_on("invtsc") == Some(true);
    if !subject.has_kvm() || has_tsc || subject.os.is_windows() {
        return;
    }
    if subject.has_parameter("no-kvmclock") {
        findings.at(
            subject.hardware.place(Part::Append),
            Severity::Low,
            "the kernel does without KVM's clock (no-kvmclock)",
            cut(subject, "no-kvmclock")
                .on_request()
                .note(", if nobody wants it so"),
        );
    }
    if is_off {
        findings.at(
            subject.hardware.place(Part::Clock),
            Severity::Low,
            "KVM's clock is switched off",
            Edit::of(&subject.hardware)
                .set("clock(offset=utc)/timer[name=kvmclock]", "present", "yes")
                .exact(ArgumentChange::UnsetCpu("kvmclock".into()))
                .on_request()
                .note(", if nobody wants it so"),
        );
    }
}

/// Turns a feature of KVM off.
fn kvm_off(subject: &Subject, name: &str) -> Edit {
    Edit::of(&subject.hardware)
        .set(&format!("features/kvm/{name}"), "state", "off")
        .exact(ArgumentChange::SetCpu {
            key: format!("kvm-{name}"),
            value: "off".into(),
        })
}

fn dedicated(subject: &Subject, findings: &mut Findings) {
    let cpu = &subject.hardware.cpu;
    if cpu.is_on("kvm-hint-dedicated") == Some(true) && !cpu.is_pinned {
        findings.at(
            subject.hardware.place(Part::Cpu),
            Severity::Medium,
            "the guest takes its vCPUs for CPUs of its own (kvm-hint-dedicated), and they are not \
             pinned",
            kvm_off(subject, "hint-dedicated").notes("", ", unless the vCPUs are pinned later"),
        );
    }
}

fn poll_control(subject: &Subject, findings: &mut Findings) {
    let cpu = &subject.hardware.cpu;
    // The driver that polls (drivers/cpuidle/cpuidle-haltpoll.c) loads with one of these alone.
    let forced = ["1", "y", "Y", "on"].map(|value| format!("cpuidle_haltpoll.force={value}"));
    let polls = cpu.is_on("kvm-hint-dedicated") == Some(true)
        || forced.iter().any(|word| subject.has_parameter(word));
    if polls && cpu.is_on("kvm-poll-control") == Some(true) {
        findings.at(
            subject.hardware.place(Part::Cpu),
            Severity::Low,
            "the guest polls before it halts (kvm-poll-control)",
            kvm_off(subject, "poll-control"),
        );
    }
}

fn cpu_pm(subject: &Subject, findings: &mut Findings) {
    if subject.hardware.cpu.power_management == Some(true) {
        findings.at(
            subject.hardware.place(Part::Overcommit),
            Severity::High,
            "the guest puts CPUs of the host to sleep itself (cpu-pm)",
            Edit::of(&subject.hardware).exact(ArgumentChange::SetOption {
                option: "overcommit",
                key: "cpu-pm",
                value: "off".into(),
            }),
        );
    }
}

/// Default of the kernel's parameter on x86, in nanoseconds (`KVM_HALT_POLL_NS_DEFAULT`).
const HALT_POLL: u64 = 200_000;

fn halt_poll(subject: &Subject, findings: &mut Findings) {
    let polled = subject.host.halt_poll_ns.filter(|time| *time > HALT_POLL);
    if let Some(time) = polled.filter(|_| subject.has_kvm()) {
        findings.add(
            Severity::Medium,
            format!("KVM polls for up to {} µs after a vCPU halts", time / 1000),
            Fix::Command(format!(
                "echo {HALT_POLL} > /sys/module/kvm/parameters/halt_poll_ns; so that it stays: echo \
                 options kvm halt_poll_ns={HALT_POLL} > /etc/modprobe.d/kvm-halt-poll.conf, or \
                 kvm.halt_poll_ns={HALT_POLL} where KVM is no module"
            )),
        );
    }
}

fn irqchip(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let option = |key: &str| hardware.machine.options.get(key);
    let chip = option("kernel-irqchip").or(option("kernel_irqchip"));
    let is_outside = chip.is_some_and(|chip| matches!(&**chip, "off" | "split"));
    // Interrupt remapping needs the I/O APIC in QEMU.
    let is_remapped = hardware
        .devices(Class::Other)
        .any(|one| one.model.contains("iommu"));
    // KVM has no I/O APIC for TDX, and none that is measured for SEV.
    let is_confidential = option("confidential-guest-support").is_some();
    // Xen's event channels reach the guest through QEMU (docs/system/i386/xen.rst).
    let may_be_inside = !is_remapped && !is_confidential && !hardware.emulates_xen;
    if is_outside && subject.has_kvm() && may_be_inside {
        findings.at(
            hardware.place(Part::Machine),
            Severity::Medium,
            match chip.map(String::as_str) {
                Some("off") => "all interrupt controllers are emulated by QEMU",
                _ => "the I/O APIC is emulated by QEMU",
            },
            Edit::of(hardware)
                .set("features/ioapic", "driver", "kvm")
                .exact(ArgumentChange::SetMachine {
                    key: "kernel-irqchip",
                    value: "on".into(),
                }),
        );
    }
}
