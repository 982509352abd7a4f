//! Accelerator, model of the processor, and where it runs.

use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};
use brisk_vm::hardware::{CpuMode, Form, Part};

use crate::idle::rules::Subject;
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

pub(super) const PINNING: &str = "guest-pinning";

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "guest-tcg",
        applies: Applies::Guest,
        why: "each instruction of the guest is translated; five to twenty-five times the host's \
              time was measured",
        source: "QEMU: docs/devel/tcg.rst; measured: brisk overhead run",
        check: tcg,
    },
    Rule {
        id: "guest-cpu-model",
        applies: Applies::Guest,
        why: "programs in the guest do without instructions that the processor has, and its kernel \
              may choose slower mitigations",
        source: "QEMU: docs/system/cpu-models-x86.rst.inc",
        check: model,
    },
    Rule {
        id: PINNING,
        applies: Applies::Guest,
        why: "the host's scheduler moves virtual CPUs, and two of them may share a processor",
        source: "libvirt: formatdomain.html, cputune",
        check: pinning,
    },
];

fn tcg(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    if !hardware.asks_for_kvm() {
        let fix = Fix::Advice("use KVM where it works; brisk doctor says whether it does".into());
        let place = hardware.place(Part::Accelerator);
        findings.at(
            place,
            Severity::High,
            "its processor is emulated (TCG)",
            fix,
        );
    }
}

fn model(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let cpu = &hardware.cpu;
    if !subject.has_kvm() || hardware.has_cpu_of_host() {
        return;
    }
    let place = hardware.place(Part::Cpu);
    let model = cpu.model.as_deref().unwrap_or("QEMU's default");
    let arguments = match place.words() {
        Some(words) => ArgumentChange::Replace {
            words,
            with: vec!["-cpu".into(), "host".into()],
        },
        None => ArgumentChange::Add(vec!["-cpu".into(), "host".into()]),
    };
    let mut edit = Edit::of(hardware);
    if cpu.model.is_some() {
        edit = edit.exact_xml(XmlChange::Remove(Path::domain("cpu/model")));
    }
    let edit = edit
        .set("cpu", "mode", "host-model")
        .exact(arguments)
        .note(match hardware.form {
            Form::Xml => "; host-passthrough, where it never migrates",
            _ => ", if it need not migrate to hosts with other processors",
        });
    // A model that somebody chose may be one to migrate with.
    let edit = match cpu.mode {
        CpuMode::Named if !cpu.is_generic() => edit.on_request(),
        _ => edit,
    };
    let what = format!("its processor is {model}, and not the host's");
    findings.at(place, Severity::Medium, what, edit);
}

fn pinning(subject: &Subject, findings: &mut Findings) {
    let cpu = &subject.hardware.cpu;
    if cpu.is_pinned || subject.hardware.form != Form::Xml {
        return;
    }
    // Which virtual CPU belongs where is known only for as many processors as there are.
    let count = cpu.topology.cpus.unwrap_or(1);
    let known = subject.host.cpus.as_deref().unwrap_or_default();
    let what = format!("its {count} virtual CPUs run on any processor of the host");
    let enough = usize::try_from(count).is_ok_and(|count| count <= known.len());
    if !enough {
        let fix =
            Fix::Advice("pin each with vcpupin, where the host has as many processors".into());
        findings.add(Severity::Note, what, fix);
        return;
    }
    // The first processors have most of the interrupts.
    let places = known.iter().rev().take(count as usize).rev();
    let edit = (0..count)
        .zip(places)
        .fold(Edit::of(&subject.hardware), |edit, (vcpu, place)| {
            let path = format!("cputune/vcpupin[vcpu={vcpu}]");
            edit.set(&path, "cpuset", place.to_string())
        });
    findings.add(Severity::Low, what, edit.on_request());
}
