//! Kernels and programs.

use crate::doctor::facts::Facts;
use brisk_lint::{Applies, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Facts>] = &[
    Rule {
        id: "kernel-missing",
        applies: Applies::Host,
        why: "nothing boots",
        source: "brisk: chapter Kernels",
        check: missing,
    },
    Rule {
        id: "kernel-no-pvh",
        applies: Applies::Host,
        why: "it is decompressed in the guest at every boot",
        source: "Linux: arch/x86/Kconfig, PVH",
        check: no_pvh,
    },
    Rule {
        id: "kernel-no-modules",
        applies: Applies::Host,
        why: "guests of it have only what is built in: perhaps no disks, no shared directories",
        source: "brisk: chapter Kernels",
        check: no_modules,
    },
    Rule {
        id: "kernel-outdated",
        applies: Applies::Host,
        why: "guests boot the running one unless told otherwise",
        source: "brisk: chapter Kernels",
        check: outdated,
    },
    Rule {
        id: "virtiofsd-missing",
        applies: Applies::Host,
        why: "directories are shared by 9p, which is slower, or not at all where the kernel has no \
              9p (Debian's cloud kernels)",
        source: "Linux: Documentation/filesystems/virtiofs.rst; Debian's linux-image-cloud-amd64",
        check: virtiofsd,
    },
    Rule {
        id: "busybox-missing",
        applies: Applies::Host,
        why: "--root none has no program to run",
        source: "brisk: chapter Running commands",
        check: busybox,
    },
    Rule {
        id: "shmem-small-pages",
        applies: Applies::Host,
        why: "guests with shared directories take a tenth of a second longer",
        source: "Linux: Documentation/admin-guide/mm/transhuge.rst, shmem_enabled",
        check: small_pages,
    },
    Rule {
        id: "qemu-one-user",
        applies: Applies::Host,
        why: "a guest that breaks out of its QEMU reaches those of other guests",
        source: "brisk: chapter Security model",
        check: one_user,
    },
];

fn missing(facts: &Facts, findings: &mut Findings) {
    if let Err(why) = &facts.kernel {
        findings.add(
            Severity::Impossible,
            format!("no kernel can be booted: {why}"),
            Fix::Command("apt install linux-image-cloud-amd64, or name one with --kernel".into()),
        );
    }
}

fn no_pvh(facts: &Facts, findings: &mut Findings) {
    if let Ok((version, false)) = &facts.kernel {
        findings.add(
            Severity::Slow,
            format!("kernel {version} has no PVH entry (CONFIG_PVH)"),
            Fix::Advice("use a distribution's kernel, or build with CONFIG_PVH=y".into()),
        );
    }
}

fn no_modules(facts: &Facts, findings: &mut Findings) {
    for version in &facts.without_modules {
        findings.add(
            Severity::Note,
            format!("kernel {version} has no /lib/modules/{version}"),
            Fix::Advice("install its modules, or give them with --modules".into()),
        );
    }
}

fn outdated(facts: &Facts, findings: &mut Findings) {
    let running = &facts.running;
    let newest = facts.kernels.first().filter(|newest| *newest != running);
    if let Some(newest) = newest.filter(|_| facts.kernels.contains(running)) {
        findings.add(
            Severity::Note,
            format!("the running kernel {running} is older than {newest}"),
            Fix::Advice(format!("reboot, or use --kernel {newest}")),
        );
    }
}

fn virtiofsd(facts: &Facts, findings: &mut Findings) {
    if !facts.virtiofsd {
        findings.add(
            Severity::Slow,
            "there is no virtiofsd",
            Fix::Command("apt install virtiofsd (Debian 13), or cargo install virtiofsd".into()),
        );
    }
}

fn busybox(facts: &Facts, findings: &mut Findings) {
    if !facts.busybox {
        findings.add(
            Severity::Impossible,
            "there is no static busybox",
            Fix::Command("apt install busybox-static".into()),
        );
    }
}

fn small_pages(facts: &Facts, findings: &mut Findings) {
    let is_small = matches!(facts.shmem_huge.as_deref(), Some("never" | "deny"));
    if !facts.privileged && is_small {
        findings.add(
            Severity::Slow,
            "shared memory comes in small pages",
            Fix::Command(
                "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, as root".into(),
            ),
        );
    }
}

fn one_user(facts: &Facts, findings: &mut Findings) {
    if let Some(reason) = &facts.one_user {
        findings.add(
            Severity::Note,
            format!("QEMUs that root starts have no users of their own: {reason}"),
            Fix::Advice("see Security model in the book".into()),
        );
    }
}
