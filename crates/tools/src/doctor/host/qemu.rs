//! QEMU: what a binary cannot do, and which of several is used.

use brisk_vm::qemu::Capabilities;

use crate::doctor::facts::Facts;
use brisk_lint::{Applies, Findings, Fix, Kvm, Rule, Severity};

/// How to get a QEMU that can do all.
const NEWER: &str = "on Debian 12, setup/newer-qemu in brisk's sources (lib/brisk/newer-qemu where \
                     brisk is installed) unpacks Debian's newer QEMU beside it";

pub(super) const RULES: &[Rule<Facts>] = &[
    Rule {
        id: "qemu-missing",
        applies: Applies::Host,
        why: "nothing boots",
        source: "brisk: QEMU is asked what it can do",
        check: missing,
    },
    Rule {
        id: "qemu-beside",
        applies: Applies::Host,
        why: "machines and guests run in it; the system's QEMU is as it was",
        source: "brisk: chapter Install",
        check: beside,
    },
    Rule {
        id: "qemu-untrusted",
        applies: Applies::Host,
        why: "an older QEMU is used",
        source: "brisk: chapter Security model",
        check: untrusted,
    },
    Rule {
        id: "qemu-unlike-image",
        applies: Applies::Host,
        why: "brisk vm resume and autostart refuse that VM, whose image stays",
        source: "QEMU: docs/devel/migration/main.rst, Backwards compatibility",
        check: stranded,
    },
    Rule {
        id: "qemu-no-suspend",
        applies: Applies::Host,
        why: "no machine can be suspended, and --warm keeps no guest",
        source: "QEMU 8.2: qapi/qom.json, rom of memory-backend-file",
        check: no_suspend,
    },
    Rule {
        id: "qemu-no-postcopy",
        applies: Applies::Host,
        why: "a machine is resumed with all of its memory loaded first",
        source: "QEMU 10.0: migration/postcopy-ram.c",
        check: no_postcopy,
    },
    Rule {
        id: "qemu-cmpxchg16b",
        applies: Applies::Host,
        why: "emulated guests with newer kernels (6.12 is one) crash or hang sooner or later; brisk \
              tells the kernels that it boots to do without",
        source: "brisk: vm::qemu::Capabilities::cmpxchg16b_is_wrong",
        check: cmpxchg16b,
    },
    Rule {
        id: "qemu-no-qboot",
        applies: Applies::Host,
        why: "microvm cannot be used, and guests with KVM or several processors start through \
              SeaBIOS",
        source: "QEMU: docs/system/i386/microvm.rst",
        check: no_qboot,
    },
    Rule {
        id: "qemu-no-microvm",
        applies: Applies::Host,
        why: "guests probe devices that nobody uses",
        source: "QEMU: docs/system/i386/microvm.rst",
        check: no_microvm,
    },
];

fn missing(facts: &Facts, findings: &mut Findings) {
    if let Err(why) = &facts.qemu {
        findings.add(
            Severity::Impossible,
            format!("QEMU cannot be used: {why}"),
            Fix::Command("apt install qemu-system-x86".into()),
        );
    }
}

fn beside(facts: &Facts, findings: &mut Findings) {
    if let (Ok(capabilities), Some((path, older))) = (&facts.qemu, &facts.others.beside) {
        findings.add(
            Severity::Note,
            format!(
                "QEMU {} in {} is used, because {older}",
                capabilities.package,
                path.display()
            ),
            Fix::Advice("nothing is to be done; --qemu or BRISK_QEMU names another one".into()),
        );
    }
}

fn untrusted(facts: &Facts, findings: &mut Findings) {
    if facts.qemu.is_err() {
        return;
    }
    for path in &facts.others.untrusted {
        findings.add(
            Severity::Note,
            format!(
                "{} is not used: others than root and you can change it, or a directory above it",
                path.display()
            ),
            Fix::Advice("chmod go-w, or remove it and run setup/newer-qemu again".into()),
        );
    }
}

fn stranded(facts: &Facts, findings: &mut Findings) {
    for (name, reason) in &facts.others.stranded {
        findings.add(
            Severity::Impossible,
            format!("the image of VM {name} is not resumed: {reason}"),
            Fix::Advice(
                "install the QEMU that made the image, or name it to apt with its version".into(),
            ),
        );
    }
}

fn older(capabilities: &Capabilities, findings: &mut Findings) {
    let what = format!("QEMU {} is older than 10.0", capabilities.package);
    findings.add(Severity::Note, what, Fix::Advice(NEWER.into()));
}

fn no_suspend(facts: &Facts, findings: &mut Findings) {
    if let Ok(capabilities) = &facts.qemu {
        if capabilities.version < (8, 2) {
            older(capabilities, findings);
        }
    }
}

fn no_postcopy(facts: &Facts, findings: &mut Findings) {
    if let Ok(capabilities) = &facts.qemu {
        if ((8, 2)..(10, 0)).contains(&capabilities.version) {
            older(capabilities, findings);
        }
    }
}

fn cmpxchg16b(facts: &Facts, findings: &mut Findings) {
    let Ok(capabilities) = &facts.qemu else {
        return;
    };
    if capabilities.cmpxchg16b_is_wrong() && facts.kvm != Kvm::Works {
        findings.add(
            Severity::Faulty,
            format!(
                "QEMU {} gets the flags of cmpxchg16b wrong",
                capabilities.package
            ),
            Fix::Advice(
                "use QEMU 8.0 or newer (Debian 12 has 10.0 in backports); else clearcpuid=cx16 on \
                 the kernel's command line, or -cpu MODEL,-cx16"
                    .into(),
            ),
        );
    }
}

fn no_qboot(facts: &Facts, findings: &mut Findings) {
    if facts.qemu.as_ref().is_ok_and(|qemu| qemu.qboot.is_none()) {
        findings.add(
            Severity::Slow,
            "there is no qboot.rom",
            Fix::Command("apt install qemu-system-data".into()),
        );
    }
}

fn no_microvm(facts: &Facts, findings: &mut Findings) {
    if let Ok(capabilities) = &facts.qemu {
        if !capabilities.machines.contains("microvm") {
            findings.add(
                Severity::Slow,
                format!("QEMU {} has no machine type microvm", capabilities.package),
                Fix::Advice("use a QEMU of 4.2 or later with microvm".into()),
            );
        }
    }
}
