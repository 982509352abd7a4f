//! Cases of rules about the running kernel, the firmware and the trial load.

use brisk_host::boot_entries::{Change, Once};
use rustix::io::Errno;

use super::scene::{GLOBAL, Scene, kernel, uki};
use crate::reboot::check::{Consequence, Trial};
use crate::reboot::load::Refusal;

/// Of the Boot Loader Interface.
const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
/// Of fwupd.
const FWUPDATE: &str = "0abba7dc-e516-4167-bbf5-4d9d1c739416";

/// What a rule finds, and what it does not.
pub(super) struct Case {
    /// Name of the rule.
    pub(super) rule: &'static str,
    /// Part of what it finds.
    pub(super) words: &'static str,
    /// What follows.
    pub(super) consequence: Consequence,
    /// Makes it find something.
    pub(super) bad: fn(&mut Scene),
    /// Makes it nearly find something.
    pub(super) near: fn(&mut Scene),
}

pub(super) const fn case(
    rule: &'static str,
    words: &'static str,
    consequence: Consequence,
    bad: fn(&mut Scene),
    near: fn(&mut Scene),
) -> Case {
    Case {
        rule,
        words,
        consequence,
        bad,
        near,
    }
}

use Consequence::{Cold, Note, Refuse, Warn};

/// Locks the kernel down.
fn lock(scene: &mut Scene) {
    scene.file(
        "sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
}

/// A choice of grub-reboot, and what keeps brisk from taking it back.
fn choose_once(scene: &mut Scene, obstacle: Option<&str>) {
    let once = Once::Environment {
        file: "/boot/grub/grubenv".into(),
        changes: vec![Change {
            name: "next_entry".to_owned(),
            before: "2".to_owned(),
            after: String::new(),
        }],
    };
    scene.once = Some((once, obstacle.map(str::to_owned)));
}

/// Makes the target a unified kernel image.
fn unify(scene: &mut Scene) {
    let bytes = uki(&[(b".linux\0\0", &kernel())]);
    scene.bytes("boot/vmlinuz-6.1.0-9-amd64", &bytes);
    scene.target.is_uki = true;
}

fn xen(scene: &mut Scene, kind: &str) {
    scene.file("sys/hypervisor/type", "xen\n");
    scene.file("sys/hypervisor/guest_type", kind);
}

/// The configuration of the running kernel, and no trial load.
fn configure(scene: &mut Scene, text: &str) {
    let text = format!("CONFIG_RD_GZIP=y\n{text}");
    scene.file("boot/config-6.1.0-9-amd64", &text);
    scene.trial = Trial::NotAsked;
}

pub(super) const CASES: &[Case] = &[
    case(
        "kexec-missing",
        "built without CONFIG_KEXEC_FILE: kexec of kexec-tools loads the files by the older call",
        Warn,
        |scene| configure(scene, "CONFIG_KEXEC=y\n# CONFIG_KEXEC_FILE is not set\n"),
        |scene| configure(scene, "# CONFIG_KEXEC is not set\nCONFIG_KEXEC_FILE=y\n"),
    ),
    case(
        "kexec-missing",
        "built without CONFIG_KEXEC_FILE: the older call is not there, or may not be used here",
        Refuse,
        |scene| {
            configure(
                scene,
                "# CONFIG_KEXEC is not set\n# CONFIG_KEXEC_FILE is not set\n",
            )
        },
        |scene| {
            // The kernel itself was asked.
            configure(
                scene,
                "# CONFIG_KEXEC is not set\n# CONFIG_KEXEC_FILE is not set\n",
            );
            scene.trial = Trial::Passed;
        },
    ),
    case(
        "kexec-missing",
        "may not be used here",
        Refuse,
        |scene| {
            configure(scene, "CONFIG_KEXEC=y\n# CONFIG_KEXEC_FILE is not set\n");
            scene.variable("SecureBoot", GLOBAL, &[1]);
        },
        |scene| configure(scene, "CONFIG_KEXEC_FILE=y\n"),
    ),
    case(
        "one-shot-choice",
        "next_entry in /boot/grub/grubenv is for the next boot alone",
        Note,
        |scene| choose_once(scene, None),
        |_| {},
    ),
    case(
        "one-shot-choice",
        "alone, and /boot/grub/grubenv cannot be written: Read-only file system",
        Cold,
        |scene| {
            choose_once(
                scene,
                Some("/boot/grub/grubenv cannot be written: Read-only file system"),
            );
        },
        |_| {},
    ),
    case(
        "container",
        "lxc",
        Refuse,
        |scene| scene.file("run/systemd/container", "lxc\n"),
        |scene| scene.file("proc/1/environ", "PATH=/bin\0notcontainer=x\0"),
    ),
    case(
        "container",
        "docker",
        Refuse,
        |scene| {
            scene.file(".dockerenv", "");
            scene.link("proc/self/ns/pid", "pid:[4026532210]");
        },
        // An image of a virtual machine that was made from one of Docker's.
        |scene| {
            scene.file(".dockerenv", "");
            scene.link("proc/self/ns/pid", "pid:[4026531836]");
        },
    ),
    case(
        "container",
        "systemd-nspawn",
        Refuse,
        |scene| scene.file("proc/1/environ", "PATH=/bin\0container=systemd-nspawn\0"),
        |scene| scene.file("proc/1/environ", ""),
    ),
    case(
        "container",
        "user namespace",
        Refuse,
        |scene| scene.file("proc/self/uid_map", "0 1000 1\n"),
        |scene| scene.remove("proc/self/uid_map"),
    ),
    case(
        "kexec-missing",
        "6.1.0-9-amd64 is built without kexec",
        Refuse,
        |scene| {
            scene.remove("proc/sys/kernel/kexec_load_disabled");
            scene.remove("sys/kernel/kexec_loaded");
        },
        // The newer name.
        |scene| {
            scene.remove("proc/sys/kernel/kexec_load_disabled");
            scene.remove("sys/kernel/kexec_loaded");
            scene.file("sys/kernel/kexec/loaded", "0\n");
        },
    ),
    case(
        "kexec-disabled",
        "kexec_load_disabled is 1",
        Refuse,
        |scene| scene.file("proc/sys/kernel/kexec_load_disabled", "1\n"),
        |scene| scene.remove("proc/sys/kernel/kexec_load_disabled"),
    ),
    case(
        "kexec-limit",
        "kexec_load_limit_reboot is 0",
        Refuse,
        |scene| scene.file("proc/sys/kernel/kexec_load_limit_reboot", "0\n"),
        |scene| scene.remove("proc/sys/kernel/kexec_load_limit_reboot"),
    ),
    case(
        "privilege",
        "CAP_SYS_BOOT",
        Refuse,
        // All capabilities but that one.
        |scene| scene.file("proc/self/status", "CapEff:\t000001ffffbfffff\n"),
        |scene| scene.file("proc/self/status", "CapEff:\t0000000000400000\n"),
    ),
    case(
        "privilege",
        "CAP_SYS_BOOT",
        Warn,
        |scene| {
            scene.file("proc/self/status", "CapEff:\t0000000000000000\n");
            scene.trial = Trial::NotAsked;
        },
        // A captured tree may have none.
        |scene| scene.remove("proc/self/status"),
    ),
    case(
        "image-loaded",
        "a kernel is loaded",
        Refuse,
        |scene| scene.file("sys/kernel/kexec_loaded", "1\n"),
        |scene| scene.file("sys/kernel/kexec_crash_loaded", "1\n"),
    ),
    case(
        "image-loaded",
        "a kernel is loaded",
        Refuse,
        |scene| scene.file("sys/kernel/kexec/loaded", "1\n"),
        |scene| scene.file("sys/kernel/kexec/crash_loaded", "1\n"),
    ),
    case(
        "kexec-tools",
        "also of systemctl reboot",
        Note,
        |scene| {
            scene.file("etc/init.d/kexec-load", "#!/bin/sh\n");
            scene.file("sbin/kexec", "");
            scene.file("etc/default/kexec", "LOAD_KEXEC=false\n");
            scene.file("etc/default/kexec.d/local", " LOAD_KEXEC=\"true\"\n");
        },
        |scene| {
            scene.file("etc/init.d/kexec-load", "#!/bin/sh\n");
            scene.file("sbin/kexec", "");
            scene.file("etc/default/kexec", "LOAD_KEXEC=true\nLOAD_KEXEC=false\n");
        },
    ),
    case(
        "xen",
        "guest of Xen",
        Note,
        |scene| xen(scene, "HVM\n"),
        |scene| scene.file("sys/hypervisor/type", "other\n"),
    ),
    case(
        "xen",
        "control domain",
        Cold,
        |scene| {
            xen(scene, "PV\n");
            scene.file("proc/xen/capabilities", "control_d\n");
        },
        |scene| scene.file("proc/xen/capabilities", "control_d\n"),
    ),
    case(
        "xen",
        "paravirtualised",
        Cold,
        |scene| xen(scene, "PV\n"),
        |_| {},
    ),
    case("unsigned-lockdown", "not signed", Cold, lock, |_| {}),
    case(
        "unsigned-lockdown",
        "lockdown is integrity",
        Refuse,
        |scene| {
            lock(scene);
            scene.variable("SecureBoot", GLOBAL, &[1]);
        },
        // Secure Boot of a kernel without lockdown, such as Arch's.
        |scene| scene.variable("SecureBoot", GLOBAL, &[1]),
    ),
    case(
        "uki-lockdown",
        "unified kernel image",
        Cold,
        |scene| {
            lock(scene);
            unify(scene);
        },
        unify,
    ),
    case(
        "was-kexec",
        "started by kexec",
        Note,
        |scene| scene.file("proc/sys/kernel/bootloader_type", "208\n"),
        // QEMU.
        |scene| scene.file("proc/sys/kernel/bootloader_type", "176\n"),
    ),
    case(
        "firmware-work",
        "its set-up is to be shown",
        Cold,
        |scene| scene.variable("OsIndications", GLOBAL, &[1, 0, 0, 0, 0, 0, 0, 0]),
        |scene| scene.variable("OsIndications", GLOBAL, &[0; 8]),
    ),
    case(
        "firmware-work",
        "0x100: something waits",
        Cold,
        |scene| scene.variable("OsIndications", GLOBAL, &[0, 1, 0, 0, 0, 0, 0, 0]),
        |scene| scene.variable("OsIndicationsSupported", GLOBAL, &[0xff; 8]),
    ),
    case(
        "firmware-work",
        "/boot/efi/EFI/UpdateCapsule/bios.cap",
        Cold,
        |scene| scene.file("boot/efi/EFI/UpdateCapsule/bios.cap", ""),
        |scene| scene.file("boot/efi/EFI/debian/shimx64.efi", ""),
    ),
    case(
        "firmware-work",
        "fwupd has prepared an update: fwupd-1234-0-",
        Cold,
        |scene| {
            let mut value = [0; 52];
            value[48] = 1;
            scene.variable("fwupd-1234-0", FWUPDATE, &value);
        },
        // It was tried already.
        |scene| {
            let mut value = [0; 52];
            value[48] = 2;
            scene.variable("fwupd-1234-0", FWUPDATE, &value);
        },
    ),
    case(
        "firmware-boot-next",
        "entry 0003",
        Cold,
        |scene| scene.variable("BootNext", GLOBAL, &[3, 0]),
        |scene| scene.variable("BootCurrent", GLOBAL, &[3, 0]),
    ),
    case(
        "boot-counting",
        "LoaderBootCountPath",
        Note,
        |scene| scene.variable("LoaderBootCountPath", LOADER, b"\\\0l\0\0\0"),
        |scene| scene.variable("LoaderInfo", LOADER, b"s\0\0\0"),
    ),
    case(
        "measured-launch",
        "tboot",
        Cold,
        |scene| {
            let line = "6,9,0,-;tboot: found shared page at phys addr 0x7d000:\n";
            scene.file("dev/kmsg", line);
        },
        |scene| scene.file("dev/kmsg", "6,9,0,-;x86/tme: not enabled by BIOS\n"),
    ),
    case(
        "tdx-erratum",
        "tdx_pw_mce",
        Cold,
        |scene| {
            scene.file("proc/cpuinfo", "bugs\t: spectre_v1 tdx_pw_mce\n");
            scene.trial = Trial::Refused(Refusal::new(Errno::NOTSUP));
        },
        // Newer kernels allow it.
        |scene| scene.file("proc/cpuinfo", "bugs\t: spectre_v1 tdx_pw_mce\n"),
    ),
    case(
        "tdx-erratum",
        "tdx_pw_mce",
        Cold,
        |scene| {
            let line = "6,9,0,-;kexec: Not allowed on platform with tdx_pw_mce bug\n";
            scene.file("dev/kmsg", line);
        },
        |scene| scene.file("dev/kmsg", "6,9,0,-;virt/tdx: module initialized\n"),
    ),
    case(
        "trial-load",
        "left out",
        Note,
        |scene| scene.trial = Trial::NotAsked,
        |_| {},
    ),
    case(
        "trial-load",
        "another system's tree",
        Note,
        |scene| scene.trial = Trial::LeftOut("it is another system's tree".to_owned()),
        |scene| scene.trial = Trial::NotYet,
    ),
    case(
        "trial-load",
        "cannot be unloaded",
        Refuse,
        |scene| scene.trial = Trial::Failed("it cannot be unloaded".to_owned()),
        |_| {},
    ),
    case(
        "trial-load",
        "EKEYREJECTED",
        Refuse,
        |scene| scene.trial = Trial::Refused(Refusal::new(Errno::KEYREJECTED)),
        |_| {},
    ),
    case(
        "trial-load",
        "ENOMEM",
        Warn,
        |scene| scene.trial = Trial::Refused(Refusal::new(Errno::NOMEM)),
        |_| {},
    ),
    case(
        "trial-load",
        "loads them by the older one",
        Warn,
        |scene| scene.trial = Trial::PassedByOlderCall(Refusal::new(Errno::NOEXEC)),
        |_| {},
    ),
    case(
        "trial-load",
        "kexec, which makes it, is not installed",
        Refuse,
        |scene| scene.trial = Trial::NoProgram(Refusal::new(Errno::NOSYS)),
        // A rule of its own says so.
        |scene| {
            scene.file("proc/cpuinfo", "bugs\t: spectre_v1 tdx_pw_mce\n");
            scene.trial = Trial::Refused(Refusal::new(Errno::NOTSUP));
        },
    ),
    case(
        "trial-load",
        "ENOTSUP",
        Refuse,
        |scene| scene.trial = Trial::Refused(Refusal::new(Errno::NOTSUP)),
        |_| {},
    ),
];
