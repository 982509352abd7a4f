//! Accelerator, CPU and memory.

use brisk_vm::hardware::{Form, Part};

use super::subject::{Guest, Kvm};
use crate::{Applies, ArgumentChange, Edit, Findings, Rule, Severity};

pub(super) const RULES: &[Rule<Guest>] = &[
    Rule {
        id: "accel-kvm-unused",
        applies: Applies::Guest,
        why: "the guest is emulated (TCG), which takes five to twenty times as long",
        source: "QEMU: docs/system/introduction.rst, Virtualisation Accelerators; to measure: brisk boot compare",
        check: kvm_unused,
    },
    Rule {
        id: "accel-kvm-impossible",
        applies: Applies::Guest,
        why: "it does not start",
        source: "QEMU: accel/kvm/kvm-all.c, kvm_init",
        check: kvm_impossible,
    },
    Rule {
        id: "accel-kvm-useless",
        applies: Applies::Guest,
        why: "it takes minutes, or does not boot",
        source: "brisk: a guest is booted to find out",
        check: kvm_useless,
    },
    Rule {
        id: "cpu-not-host",
        applies: Applies::Guest,
        why: "the guest does without instructions that this machine has",
        source: "QEMU: docs/system/cpu-models-x86.rst.inc",
        check: cpu,
    },
    Rule {
        id: "memory-prealloc",
        applies: Applies::Guest,
        why: "all of it is cleared first: about a second for 4 GiB",
        source: "QEMU: util/oslib-posix.c, qemu_prealloc_mem",
        check: preallocation,
    },
];

fn kvm_unused(guest: &Guest, findings: &mut Findings) {
    if guest.kvm == Kvm::Works && !guest.hardware.asks_for_kvm() {
        findings.at(
            guest.hardware.place(Part::Accelerator),
            Severity::Slow,
            format!(
                "{} does not ask for KVM, which works here",
                guest.description()
            ),
            Edit::of(&guest.hardware)
                .write("<domain type='kvm'>")
                .argument(ArgumentChange::Add(&["-accel", "kvm"])),
        );
    }
}

/// What a guest for KVM could have instead.
fn emulated(guest: &Guest) -> Edit {
    Edit::of(&guest.hardware)
        .write("<domain type='qemu'>")
        .argument(ArgumentChange::Add(&["-accel", "tcg"]))
        .notes(
            ", or see what is said of KVM",
            " instead of KVM, or see what is said of KVM",
        )
}

fn kvm_impossible(guest: &Guest, findings: &mut Findings) {
    // A QEMU that runs has it, whoever may have it now.
    let is_only_kvm = guest.hardware.accelerators == ["kvm"];
    let runs = guest.hardware.form == Form::Process;
    if matches!(guest.kvm, Kvm::Absent | Kvm::Forbidden) && is_only_kvm && !runs {
        findings.at(
            guest.hardware.place(Part::Accelerator),
            Severity::Impossible,
            format!(
                "{} asks for KVM, which cannot be used here",
                guest.description()
            ),
            emulated(guest),
        );
    }
}

fn kvm_useless(guest: &Guest, findings: &mut Findings) {
    let is_first = guest
        .hardware
        .accelerators
        .first()
        .is_some_and(|name| name == "kvm");
    if matches!(guest.kvm, Kvm::Useless(_)) && is_first {
        findings.at(
            guest.hardware.place(Part::Accelerator),
            Severity::Slow,
            format!(
                "{} asks for KVM, with which guests do not boot in time here",
                guest.description()
            ),
            emulated(guest),
        );
    }
}

fn cpu(guest: &Guest, findings: &mut Findings) {
    if guest.hardware.asks_for_kvm() && !guest.hardware.has_cpu_of_host() {
        let model = guest
            .hardware
            .cpu
            .model
            .as_deref()
            .unwrap_or("QEMU's default");
        findings.at(
            guest.hardware.place(Part::Cpu),
            Severity::Slow,
            format!("the processor is {model}, not the host's"),
            Edit::of(&guest.hardware)
                .virt_xml("--edit --cpu host-model")
                .argument(ArgumentChange::Add(&["-cpu", "host"])),
        );
    }
}

fn preallocation(guest: &Guest, findings: &mut Findings) {
    let memory = &guest.hardware.memory;
    // Huge pages are set aside in any case, and who wants them wants them to be there.
    if memory.preallocated && !memory.huge_pages {
        let place = guest.hardware.place(Part::Preallocation);
        let edit = Edit::of(&guest.hardware)
            .remove("<allocation mode='immediate'/>")
            .argument(ArgumentChange::Remove {
                words: place.words(),
                what: "prealloc".to_owned(),
            })
            .note(", where memory need not be locked");
        findings.at(
            place,
            Severity::Slow,
            "guest memory is allocated before the start",
            edit,
        );
    }
}
