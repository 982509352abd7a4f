//! KVM.

use crate::doctor::facts::Facts;
use brisk_lint::{Applies, Findings, Fix, Kvm, Rule, Severity};

/// Why it matters that there is no KVM.
const EMULATED: &str = "guests are emulated (TCG), which takes five to twenty times as long";

/// What a host that is virtual itself needs.
const NESTED: &str = "have the machine below give nested virtualisation: CPU model host, and \
                      kvm_intel.nested=1 or kvm_amd.nested=1 there";

pub(super) const RULES: &[Rule<Facts>] = &[
    Rule {
        id: "kvm-absent",
        applies: Applies::Host,
        why: EMULATED,
        source: "Linux: Documentation/virt/kvm/api.rst",
        check: absent,
    },
    Rule {
        id: "kvm-forbidden",
        applies: Applies::Host,
        why: EMULATED,
        source: "systemd: rules.d/50-udev-default.rules, group kvm",
        check: forbidden,
    },
    Rule {
        id: "kvm-useless",
        applies: Applies::Host,
        why: EMULATED,
        source: "brisk: a guest is booted to find out",
        check: useless,
    },
    Rule {
        id: "kvm-untried",
        applies: Applies::Host,
        why: "it is not known whether guests are fast",
        source: "brisk: a guest is booted to find out",
        check: untried,
    },
];

fn absent(facts: &Facts, findings: &mut Findings) {
    if facts.kvm != Kvm::Absent {
        return;
    }
    if facts.vmx {
        findings.add(
            Severity::Slow,
            "there is no /dev/kvm, though the processor has virtualisation",
            Fix::Command("modprobe kvm_intel or kvm_amd".into()),
        );
    } else if facts.virtualised {
        findings.add(
            Severity::Slow,
            "there is no KVM in this virtual machine: it is not given virtualisation",
            Fix::Advice(NESTED.into()),
        );
    } else {
        findings.add(
            Severity::Slow,
            "there is no KVM: the processor shows no virtualisation",
            Fix::Advice("switch it on in the firmware's set-up (VT-x, AMD-V, SVM)".into()),
        );
    }
}

fn forbidden(facts: &Facts, findings: &mut Findings) {
    if facts.kvm == Kvm::Forbidden {
        findings.add(
            Severity::Slow,
            "/dev/kvm may not be opened",
            Fix::Command("usermod -aG kvm USER, and log in anew".into()),
        );
    }
}

fn useless(facts: &Facts, findings: &mut Findings) {
    match &facts.kvm {
        Kvm::Useless(why) if facts.virtualised => findings.add(
            Severity::Slow,
            format!("KVM does not work in this virtual machine ({why})"),
            Fix::Advice(NESTED.into()),
        ),
        Kvm::Useless(why) => findings.add(
            Severity::Slow,
            format!("KVM does not work ({why})"),
            Fix::Advice("look for kvm in the kernel's log (dmesg)".into()),
        ),
        _ => {}
    }
}

fn untried(facts: &Facts, findings: &mut Findings) {
    if let Kvm::Untried(why) = &facts.kvm {
        findings.add(
            Severity::Note,
            format!("KVM could not be tried: {why}"),
            Fix::Advice("mend that first".into()),
        );
    }
}
