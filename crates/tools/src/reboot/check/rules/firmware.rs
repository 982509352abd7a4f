//! Work for the firmware, and platforms that do not come back without it.

use super::rule::{Findings, Rule, advice, command, firmware_restart, known};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::preflight::Preflight;
use crate::reboot::check::trial::Trial;
use crate::reboot::load::Refusal;
use brisk_lint::Applies;

/// What the kernel writes on such a processor (`arch/x86/kernel/machine_kexec_64.c`).
const TDX_REFUSED: &str = "Not allowed on platform with tdx_pw_mce bug";
/// What the kernel writes if tboot measured it (`arch/x86/kernel/tboot.c`).
const TBOOT: &str = "tboot: found shared page";

/// Bits of `OsIndications` ("Exchanging information between the OS and Firmware" of the UEFI
/// specification).
const INDICATIONS: [(u64, &str); 7] = [
    (1 << 0, "its set-up is to be shown"),
    (1 << 1, "signatures are to be revoked by time"),
    (1 << 2, "a capsule on a disk is to be installed"),
    (
        1 << 3,
        "a capsule of the firmware management protocol is to be handled",
    ),
    (
        1 << 5,
        "the recovery of the operating system is to be started",
    ),
    (1 << 6, "the recovery of the platform is to be started"),
    (1 << 7, "its configuration is to be collected"),
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "firmware-work",
        applies: Applies::Host,
        why: "what waits for the firmware does not happen in a warm reboot",
        source: "UEFI specification, OsIndications; EFI/UpdateCapsule; fwupd-efi",
        check: work,
    },
    Rule {
        id: "firmware-boot-next",
        applies: Applies::Host,
        why: "somebody asked the firmware to start another system next, which a warm reboot does not",
        source: "UEFI specification, BootNext; efibootmgr(8)",
        check: boot_next,
    },
    Rule {
        id: "one-shot-choice",
        applies: Applies::Host,
        why: "a warm reboot leaves the boot loader out, which would take the choice back: brisk does that \
              before the jump, or a kernel that hangs would be started again after a reset",
        source: "GRUB: save_env of next_entry; systemd-boot(7): LoaderEntryOneShot",
        check: one_shot,
    },
    Rule {
        id: "boot-counting",
        applies: Applies::Host,
        why: "systemd-bless-boot.service fails after a warm reboot, for no loader has counted: that is \
              expected",
        source: "systemd/systemd#43738",
        check: boot_counting,
    },
    Rule {
        id: "measured-launch",
        applies: Applies::Host,
        why: "the measured environment of Intel TXT has to be left through the firmware",
        source: "Linux: Documentation/arch/x86/intel_txt.rst, arch/x86/kernel/tboot.c",
        check: measured_launch,
    },
    Rule {
        id: "tdx-erratum",
        applies: Applies::Host,
        why: "writes of the old kernel to memory of TDX would be machine checks in the new one",
        source: "Linux: X86_BUG_TDX_PW_MCE, arch/x86/kernel/machine_kexec_64.c",
        check: tdx,
    },
    Rule {
        id: "cloud-guest",
        applies: Applies::Host,
        why: "some hypervisors do not bring a guest back from a kexec, and a guest's firmware is fast",
        source: "siderolabs/talos#8838, systemd/systemd#20072",
        check: known,
    },
    Rule {
        id: "processor-dark",
        applies: Applies::Host,
        why: "the machine shows nothing after a kexec",
        source: "coreos/fedora-coreos-tracker#2071",
        check: known,
    },
    Rule {
        id: "board-processors",
        applies: Applies::Host,
        why: "the new kernel runs on one processor, or not at all",
        source: "siderolabs/talos#5670",
        check: known,
    },
    Rule {
        id: "board-network",
        applies: Applies::Host,
        why: "the machine is not reached by network after a kexec",
        source: "siderolabs/talos#8751",
        check: known,
    },
];

fn work(on: &Preflight, findings: &mut Findings) {
    let firmware = &on.machine.firmware;
    let bits = firmware.os_indications;
    if bits != 0 {
        let named = INDICATIONS.iter().filter(|(bit, _)| bits & bit != 0);
        let named: Vec<_> = named.map(|(_, what)| *what).collect();
        let what = format!(
            "OsIndications is {bits:#x}: {}",
            match named.is_empty() {
                true => "something waits for the firmware".to_owned(),
                false => named.join(", and "),
            }
        );
        findings.add(Consequence::Cold, what, firmware_restart());
    }
    for capsule in &firmware.capsules {
        let what = format!("a capsule waits for the firmware: {capsule}");
        findings.add(Consequence::Cold, what, firmware_restart());
    }
    for update in &firmware.updates {
        let what = format!("fwupd has prepared an update: {update}");
        findings.add(Consequence::Cold, what, firmware_restart());
    }
}

fn boot_next(on: &Preflight, findings: &mut Findings) {
    if let Some(number) = on.machine.firmware.boot_next {
        findings.add(
            Consequence::Cold,
            format!("BootNext names the entry {number:04X}"),
            command("systemctl reboot, or efibootmgr --delete-bootnext"),
        );
    }
}

fn one_shot(on: &Preflight, findings: &mut Findings) {
    match &on.once {
        None => {}
        Some((once, None)) => findings.add(
            Consequence::Note,
            format!("{} is for the next boot alone", once.describe()),
            advice("none needed: brisk takes it back, and restores it if nothing is restarted"),
        ),
        Some((once, Some(reason))) => findings.add(
            Consequence::Cold,
            format!(
                "{} is for the next boot alone, and {reason}",
                once.describe()
            ),
            firmware_restart(),
        ),
    }
}

fn boot_counting(on: &Preflight, findings: &mut Findings) {
    if on.machine.firmware.counts_boots {
        findings.add(
            Consequence::Note,
            "the boot loader counts boots (LoaderBootCountPath)",
            advice("nothing: a failed systemd-bless-boot.service is expected after it"),
        );
    }
}

fn measured_launch(on: &Preflight, findings: &mut Findings) {
    if on.machine.platform.log.contains(TBOOT) {
        findings.add(
            Consequence::Cold,
            "tboot has started this kernel (Intel TXT)",
            firmware_restart(),
        );
    }
}

fn tdx(on: &Preflight, findings: &mut Findings) {
    let platform = &on.machine.platform;
    let refused = Trial::Refused(Refusal::new(rustix::io::Errno::NOTSUP));
    if platform.log.contains(TDX_REFUSED) || platform.has_tdx_erratum() && on.trial == refused {
        findings.add(
            Consequence::Cold,
            "the kernel allows no kexec on a processor with tdx_pw_mce",
            firmware_restart(),
        );
    }
}
