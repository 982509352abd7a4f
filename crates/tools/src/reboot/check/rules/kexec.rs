//! What the running kernel allows.

use super::rule::{Findings, Rule, advice, command, firmware_restart};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::preflight::Preflight;
use crate::reboot::check::trial::Trial;
use brisk_lint::Applies;

/// Source of what the kernel's settings do.
const SYSCTL: &str = "Linux: Documentation/admin-guide/sysctl/kernel.rst";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "container",
        applies: Applies::Host,
        why: "there is no kexec in a container: the kernel is its host's",
        source: "Linux: kexec_load_permitted in kernel/kexec_core.c asks for CAP_SYS_BOOT on the host",
        check: container,
    },
    Rule {
        id: "kexec-missing",
        applies: Applies::Host,
        why: "this kernel cannot start another",
        source: "Linux: kernel/Kconfig.kexec, KEXEC_FILE",
        check: missing,
    },
    Rule {
        id: "kexec-disabled",
        applies: Applies::Host,
        why: "no kernel can be loaded until the machine has gone through its firmware",
        source: SYSCTL,
        check: disabled,
    },
    Rule {
        id: "kexec-limit",
        applies: Applies::Host,
        why: "no kernel can be loaded until the machine has gone through its firmware",
        source: SYSCTL,
        check: limit,
    },
    Rule {
        id: "privilege",
        applies: Applies::Host,
        why: "only root may load a kernel, and restart the machine",
        source: "capabilities(7), CAP_SYS_BOOT",
        check: privilege,
    },
    Rule {
        id: "image-loaded",
        applies: Applies::Host,
        why: "a kernel that another program has loaded is started instead, with its options",
        source: "systemd/systemd#41667",
        check: image_loaded,
    },
    Rule {
        id: "kexec-tools",
        applies: Applies::Host,
        why: "restarts that are not brisk's do not go through the firmware either, and jump while \
              services still stop",
        source: "kexec-tools before 2.0.27: /etc/init.d/kexec-load and /etc/init.d/kexec",
        check: kexec_tools,
    },
    Rule {
        id: "xen",
        applies: Applies::Host,
        why: "below Xen, kexec_load would go to Xen itself: only kexec_file_load is used",
        source: "kexec-tools: kexec/kexec.c, xen_present; Linux: arch/x86/xen/enlighten_pv.c",
        check: xen,
    },
    Rule {
        id: "unsigned-lockdown",
        applies: Applies::Host,
        why: "a kernel that is locked down loads only what is signed",
        source: "kernel_lockdown(7); Linux: kimage_validate_signature in kernel/kexec_file.c",
        check: unsigned,
    },
    Rule {
        id: "uki-lockdown",
        applies: Applies::Host,
        why: "of a unified kernel image, only the envelope is signed, and the kernel takes what is in it",
        source: "systemd/systemd#28538",
        check: uki,
    },
    Rule {
        id: "was-kexec",
        applies: Applies::Host,
        why: "the firmware has not set devices up since the last cold boot",
        source: "Linux: Documentation/arch/x86/boot.rst, type_of_loader 0xD",
        check: was_kexec,
    },
];

fn container(on: &Preflight, findings: &mut Findings) {
    if let Some(name) = &on.machine.kexec.container {
        findings.add(
            Consequence::Refuse,
            format!("this is a container ({name})"),
            advice("run it on the host"),
        );
    }
}

fn missing(on: &Preflight, findings: &mut Findings) {
    if !on.machine.kexec.is_supported {
        let release = &on.machine.platform.release;
        findings.add(
            Consequence::Refuse,
            format!("the running kernel {release} is built without kexec (CONFIG_KEXEC_CORE)"),
            advice("boot a kernel with CONFIG_KEXEC_FILE once, through the firmware"),
        );
        return;
    }
    // What the kernel itself says is more.
    let is_tried = !matches!(
        on.trial,
        Trial::NotYet | Trial::NotAsked | Trial::LeftOut(_)
    );
    if is_tried || !on.machine.kexec.lacks_file_call {
        return;
    }
    let release = &on.machine.platform.release;
    let has_older = !on.machine.kexec.lacks_older_call && on.may_use_older_call();
    let (consequence, what) = match has_older {
        true => (
            Consequence::Warn,
            "kexec of kexec-tools loads the files by the older call",
        ),
        false => (
            Consequence::Refuse,
            "the older call is not there, or may not be used here",
        ),
    };
    findings.add(
        consequence,
        format!("the running kernel {release} is built without CONFIG_KEXEC_FILE: {what}"),
        advice("boot a kernel with CONFIG_KEXEC_FILE once, through the firmware"),
    );
}

fn disabled(on: &Preflight, findings: &mut Findings) {
    if on.machine.kexec.is_disabled {
        findings.add(
            Consequence::Refuse,
            "kernel.kexec_load_disabled is 1, and nothing sets it back",
            command(
                "grep -r kexec_load_disabled /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d, \
                 remove it, and systemctl reboot",
            ),
        );
    }
}

fn limit(on: &Preflight, findings: &mut Findings) {
    if on.machine.kexec.loads_left == Some(0) {
        findings.add(
            Consequence::Refuse,
            "kernel.kexec_load_limit_reboot is 0, and nothing raises it",
            command(
                "grep -r kexec_load_limit_reboot /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d, \
                 remove it, and systemctl reboot",
            ),
        );
    }
}

fn privilege(on: &Preflight, findings: &mut Findings) {
    if on.machine.kexec.may_load {
        return;
    }
    // Without a trial load, the other rules are worth their answers.
    let consequence = match on.trial {
        Trial::NotAsked => Consequence::Warn,
        _ => Consequence::Refuse,
    };
    findings.add(
        consequence,
        "this process lacks CAP_SYS_BOOT",
        command("sudo brisk reboot check, or --no-trial-load to look at the rest"),
    );
}

fn image_loaded(on: &Preflight, findings: &mut Findings) {
    if on.machine.kexec.is_loaded {
        findings.add(
            Consequence::Refuse,
            "a kernel is loaded for kexec already, and not by brisk",
            command("kexec --unload"),
        );
    }
}

fn kexec_tools(on: &Preflight, findings: &mut Findings) {
    if on.machine.kexec.by_kexec_tools {
        findings.add(
            Consequence::Note,
            "kexec-tools make a kexec of every restart (LOAD_KEXEC=true in /etc/default/kexec), also of \
             systemctl reboot; brisk keeps their services from that in its own",
            command("sudo dpkg-reconfigure kexec-tools"),
        );
    }
}

fn xen(on: &Preflight, findings: &mut Findings) {
    let Some(xen) = &on.machine.platform.xen else {
        return;
    };
    if xen.is_control || xen.kind == "PV" {
        let what = match xen.is_control {
            true => "this is the control domain of Xen: a kexec would have to replace Xen",
            false => "this is a paravirtualised guest of Xen, which has no kexec",
        };
        findings.add(Consequence::Cold, what, firmware_restart());
    } else {
        findings.add(
            Consequence::Note,
            "this is a guest of Xen",
            advice("nothing: brisk loads by kexec_file_load alone"),
        );
    }
}

fn unsigned(on: &Preflight, findings: &mut Findings) {
    let Ok(kernel) = &on.images.kernel else {
        return;
    };
    if kernel.is_signed || on.target.is_uki || !on.machine.kexec.is_locked_down() {
        return;
    }
    let mode = on.machine.kexec.lockdown.as_deref().unwrap_or_default();
    let path = on.target.kernel.display();
    let (consequence, fix) = match on.machine.firmware.has_secure_boot {
        true => (
            Consequence::Refuse,
            advice(
                "sign it (sbsign) with a key that is enrolled, or install one that is signed: \
                    with Secure Boot the firmware would not start it either",
            ),
        ),
        false => (Consequence::Cold, firmware_restart()),
    };
    let what = format!("lockdown is {mode}, and {path} is not signed");
    findings.add(consequence, what, fix);
}

fn uki(on: &Preflight, findings: &mut Findings) {
    if on.target.is_uki && on.machine.kexec.is_locked_down() {
        let mode = on.machine.kexec.lockdown.as_deref().unwrap_or_default();
        let path = on.target.kernel.display();
        findings.add(
            Consequence::Cold,
            format!("lockdown is {mode}, and {path} is a unified kernel image"),
            firmware_restart(),
        );
    }
}

fn was_kexec(on: &Preflight, findings: &mut Findings) {
    if on.machine.platform.was_kexec {
        findings.add(
            Consequence::Note,
            "the running kernel was started by kexec itself",
            advice("restart through the firmware now and then: systemctl reboot"),
        );
    }
}
