//! The system that runs on the machine.

use super::rule::{Findings, Rule, advice, command};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::preflight::Preflight;
use crate::reboot::restart::Unattended;
use brisk_lint::Applies;

/// File systems of other machines.
const NETWORK: [&str; 10] = [
    "9p",
    "afs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.sshfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
];
/// Beginnings of block devices of other machines.
const NETWORK_DEVICES: [&str; 3] = ["/dev/nbd", "/dev/rbd", "/dev/drbd"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "barred",
        applies: Applies::Host,
        why: "it would leave a machine that does not run once more, until the watchdog or somebody \
              resets it",
        source: "brisk's own notes, /var/lib/brisk/reboot/barred.json",
        check: barred,
    },
    Rule {
        id: "tpm-sealed",
        applies: Applies::Host,
        why: "registers of the TPM go on from the last boot and may not match, and then the disk asks \
              for its passphrase",
        source: "siderolabs/talos#7260; systemd-cryptenroll(1)",
        check: sealed,
    },
    Rule {
        id: "network-root",
        applies: Applies::Host,
        why: "the root goes away with the network that a shutdown stops, and comes back with the new \
              kernel's driver alone",
        source: "systemd: NETWORK_FILESYSTEMS, bootup(7)",
        check: network_root,
    },
    Rule {
        id: "hibernation-image",
        applies: Applies::Host,
        why: "the new kernel would resume that image, whose file systems have changed since",
        source: "Linux: Documentation/power/swsusp.rst",
        check: hibernation,
    },
    Rule {
        id: "inhibitor",
        applies: Applies::Host,
        why: "a program asks that the machine is not restarted now",
        source: "systemd-inhibit(1)",
        check: inhibitor,
    },
    Rule {
        id: "package-manager",
        applies: Applies::Host,
        why: "an installation that is interrupted leaves packages, kernels and initial RAM disks half \
              written",
        source: "locks of dpkg, rpm, zypper and pacman",
        check: package_manager,
    },
    Rule {
        id: "watchdog",
        applies: Applies::Host,
        why: "the watchdog stays on over the kexec, and nobody in the new system pings it: it resets \
              the machine",
        source: "systemd-system.conf(5), KExecWatchdogSec=",
        check: watchdog,
    },
    Rule {
        id: "watchdog-not-armed",
        applies: Applies::Host,
        why: "nothing would stop the watchdog after the restart, so that it would reset a machine that is \
              up: brisk does not arm it, and a kernel that hangs has to be reset by hand",
        source: "brisk-reboot.service, brisk-reboot-early.service: systemctl is-enabled",
        check: not_armed,
    },
    Rule {
        id: "never-ran",
        applies: Applies::Host,
        why: "a kernel or an initial RAM disk that is new here may not find its root, and after a warm \
              reboot there is no menu to choose another one from",
        source: "wtmp(5); what brisk has noted of restarts",
        check: never_ran,
    },
];

fn barred(on: &Preflight, findings: &mut Findings) {
    let barred = match &on.barred {
        Ok(None) => return,
        Ok(Some(barred)) => barred,
        Err(reason) => {
            findings.add(
                Consequence::Cold,
                format!(
                    "whether this kernel failed before cannot be known: \
                     /var/lib/brisk/reboot/barred.json cannot be read: {reason}"
                ),
                command("brisk reboot allow --all".to_owned()),
            );
            return;
        }
    };
    findings.add(
        Consequence::Cold,
        format!(
            "this kernel with its initrd and command line failed before, {}",
            barred.phase.text()
        ),
        command(format!("brisk reboot allow {}", barred.short())),
    );
}

fn sealed(on: &Preflight, findings: &mut Findings) {
    for device in &on.machine.storage.sealed {
        findings.add(
            Consequence::Warn,
            format!("the key of {device} is sealed to the TPM"),
            advice("have the passphrase or recovery key at hand, and a console to type it"),
        );
    }
}

fn network_root(on: &Preflight, findings: &mut Findings) {
    let Some(root) = &on.machine.storage.root else {
        return;
    };
    let mut devices = NETWORK_DEVICES.iter();
    let is_device = devices.any(|start| root.source.starts_with(start));
    if NETWORK.contains(&&*root.kind) || is_device {
        findings.add(
            Consequence::Warn,
            format!("the root is {} ({})", root.source, root.kind),
            advice("see that the initial RAM disk sets up the network as the firmware did (ip=)"),
        );
    }
}

fn hibernation(on: &Preflight, findings: &mut Findings) {
    let Some(resume) = &on.resume else {
        return;
    };
    let device = &resume.device;
    match resume.has_image {
        Some(false) => {}
        Some(true) => findings.add(
            Consequence::Refuse,
            format!("{device} has the image of a hibernation"),
            advice("remove it (mkswap), or add noresume to the command line"),
        ),
        None => findings.add(
            Consequence::Note,
            format!("resume={device} cannot be looked at"),
            advice("look at it as root: blkid shows swsuspend if it has an image"),
        ),
    }
}

fn inhibitor(on: &Preflight, findings: &mut Findings) {
    for inhibitor in &on.machine.activity.inhibitors {
        findings.add(
            Consequence::Warn,
            format!("{} holds shutdowns back: {}", inhibitor.who, inhibitor.why),
            command("systemd-inhibit --list, and let it end"),
        );
    }
}

fn package_manager(on: &Preflight, findings: &mut Findings) {
    for name in &on.machine.activity.packages {
        findings.add(
            Consequence::Warn,
            format!("{name} is at work"),
            advice("wait for its end, and check again"),
        );
    }
}

fn watchdog(on: &Preflight, findings: &mut Findings) {
    let watchdog = &on.machine.watchdog;
    let (Some(kexec), None) = (&watchdog.kexec, &watchdog.runtime) else {
        return;
    };
    if on.machine.devices.has_watchdog {
        findings.add(
            Consequence::Warn,
            format!("KExecWatchdogSec is {kexec}, and RuntimeWatchdogSec is off"),
            advice("set both in /etc/systemd/system.conf, or neither"),
        );
    }
}

fn not_armed(on: &Preflight, findings: &mut Findings) {
    let Some(unattended) = &on.unattended else {
        return;
    };
    // Without a device there is nothing to arm, and a restart that failed is still not noted.
    let consequence = match (&on.dog, unattended) {
        (Some(_), _) => Consequence::Warn,
        (None, Unattended::Service(_)) if on.machine.has_units => Consequence::Note,
        (None, _) => return,
    };
    let fix = match unattended.remedy() {
        text if text.starts_with("sudo ") => command(text),
        text => advice(text),
    };
    findings.add(consequence, unattended.text(), fix);
}

fn never_ran(on: &Preflight, findings: &mut Findings) {
    let (release, running) = (&on.target.release, &on.machine.platform.release);
    let has_run = release == running || on.machine.history.releases.contains(release);
    if !release.is_empty() && !running.is_empty() && !has_run {
        findings.add(
            Consequence::Note,
            format!("{release} is not known to have run on this machine"),
            command("sudo brisk reboot rehearse, with the options of this check"),
        );
    }
}
