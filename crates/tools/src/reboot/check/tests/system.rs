//! Cases of rules about the system.

use std::fs::File;

use brisk_sys::{Sharing, try_lock};

use super::cases::{Case, case};
use super::of;
use super::scene::Scene;
use crate::reboot::check::Consequence::{Cold, Note, Refuse, Warn};
use crate::reboot::check::machine::history::record;
use crate::reboot::restart::{Barred, Phase, Store, combination};

/// A LUKS2 device below a mapping, with these tokens.
fn luks(scene: &Scene, tokens: &str) {
    scene.file("sys/class/block/dm-0/dm/uuid", "CRYPT-LUKS2-5f3c-root\n");
    scene.file("sys/class/block/dm-0/slaves/sda2/dev", "8:2\n");
    let mut header = vec![0; 16 << 10];
    header[..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
    header[8..16].copy_from_slice(&(16_u64 << 10).to_be_bytes());
    let text = format!("{{\"keyslots\":{{}},\"tokens\":{tokens}}}");
    header[4096..4096 + text.len()].copy_from_slice(text.as_bytes());
    scene.bytes("dev/sda2", &header);
}

/// Bars what the target is now.
fn bar(scene: &Scene) {
    let barred = Barred {
        combination: combination(scene.root(), &scene.target).unwrap(),
        release: "6.1.0-9-amd64".to_owned(),
        phase: Phase::Kernel,
        at: 0.0,
    };
    Store::below(scene.root()).bar(barred).unwrap();
}

/// The first pages of a swap area.
fn swap_pages(signature: &[u8; 10]) -> [u8; 8192] {
    let mut pages = [0; 8192];
    pages[4086..4096].copy_from_slice(signature);
    pages
}

fn swap(scene: &Scene, signature: &[u8; 10]) {
    scene.bytes("dev/disk/by-uuid/51ab", &swap_pages(signature));
}

fn inhibit(scene: &Scene, what: &str, mode: &str) {
    let text = format!(
        "# This is private data. Do not parse.\nWHAT={what}\nMODE={mode}\nUID=0\nPID=7\n\
         WHO=Backup\nWHY=A backup runs\nFIFO=/run/systemd/inhibit/3.ref\n"
    );
    scene.file("run/systemd/inhibit/3", &text);
}

fn watchdog(scene: &Scene, drop_in: &str) {
    scene.file("sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n");
    scene.file(
        "etc/systemd/system.conf",
        "[Manager]\n#RuntimeWatchdogSec=off\nKExecWatchdogSec=5min\n",
    );
    scene.file("usr/lib/systemd/system.conf.d/10-vendor.conf", drop_in);
}

/// A watchdog that outlives the kernel, and brisk's services as `make install` leaves them; enabled or not.
fn watched(scene: &Scene, are_enabled: bool) {
    scene.file("sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n");
    units(scene, are_enabled);
}

/// Brisk's services with systemd's targets.
fn units(scene: &Scene, are_enabled: bool) {
    let directory = "usr/lib/systemd/system";
    for (target, requires) in [
        ("default.target", "multi-user.target"),
        ("multi-user.target", "sysinit.target"),
        ("sysinit.target", ""),
    ] {
        let text = format!("[Unit]\nRequires={requires}\n");
        scene.file(&format!("{directory}/{target}"), &text);
    }
    scene.program("usr/bin/brisk");
    for (name, target, text) in [
        (
            "brisk-reboot.service",
            "multi-user.target",
            include_str!("../../../../../../packaging/brisk-reboot.service.in"),
        ),
        (
            "brisk-reboot-early.service",
            "sysinit.target",
            include_str!("../../../../../../packaging/brisk-reboot-early.service.in"),
        ),
    ] {
        let text = text.replace("@BINDIR@", "/usr/bin");
        scene.file(&format!("{directory}/{name}"), &text);
        if are_enabled {
            let link = format!("etc/systemd/system/{target}.wants/{name}");
            scene.link(&link, &format!("/{directory}/{name}"));
        }
    }
}

pub(super) const CASES: &[Case] = &[
    case(
        "watchdog-not-armed",
        "brisk-reboot-early.service is not enabled",
        Warn,
        |scene| watched(scene, false),
        |scene| watched(scene, true),
    ),
    case(
        "watchdog-not-armed",
        "brisk-reboot.service is masked",
        Warn,
        |scene| {
            watched(scene, true);
            scene.link("etc/systemd/system/brisk-reboot.service", "/dev/null");
        },
        |scene| watched(scene, true),
    ),
    case(
        "watchdog-not-armed",
        "rootflags=subvol=@old",
        Warn,
        |scene| {
            watched(scene, true);
            scene.cmdline("root=UUID=5f3c ro rootflags=subvol=@old");
        },
        |scene| {
            watched(scene, true);
            scene.cmdline("ro root=UUID=5f3c single systemd.unit=multi-user.target");
        },
    ),
    case(
        "watchdog-not-armed",
        "the kernel 6.1.0-10-amd64 is not known to have the driver of the watchdog, iTCO_wdt",
        Warn,
        |scene| {
            watched(scene, true);
            let link = "sys/class/watchdog/watchdog0/device/driver/module";
            scene.link(link, "../../../module/iTCO_wdt");
            "6.1.0-10-amd64".clone_into(&mut scene.target.release);
        },
        |scene| {
            watched(scene, true);
            let link = "sys/class/watchdog/watchdog0/device/driver/module";
            scene.link(link, "../../../module/iTCO_wdt");
            let list = "kernel/drivers/watchdog/iTCO_wdt.ko:\n";
            scene.file("lib/modules/6.1.0-10-amd64/modules.dep", list);
            "6.1.0-10-amd64".clone_into(&mut scene.target.release);
        },
    ),
    // Without a device to arm, a restart that fails is still not noted.
    case(
        "watchdog-not-armed",
        "brisk-reboot-early.service is not enabled",
        Note,
        |scene| units(scene, false),
        |scene| units(scene, true),
    ),
    case(
        "tpm-sealed",
        "root (tpm2-device in /etc/crypttab)",
        Warn,
        |scene| {
            let line = "root UUID=5f3c none luks,discard,tpm2-device=auto,tpm2-pcrs=7\n";
            scene.file("etc/crypttab", line);
        },
        |scene| {
            scene.file(
                "etc/crypttab",
                "root UUID=5f3c none luks\n#x y z tpm2-device=auto\n",
            )
        },
    ),
    case(
        "tpm-sealed",
        "/dev/sda2 (LUKS2 token systemd-tpm2)",
        Warn,
        |scene| luks(scene, r#"{"0":{"type":"systemd-tpm2","keyslots":["1"]}}"#),
        |scene| {
            luks(
                scene,
                r#"{"0":{"type":"systemd-recovery","keyslots":["1"]}}"#,
            )
        },
    ),
    case(
        "barred",
        "failed before, between the jump and the root's init",
        Cold,
        |scene| bar(scene),
        |scene| {
            bar(scene);
            scene.cmdline("root=UUID=5f3c another");
        },
    ),
    case(
        "barred",
        "whether this kernel failed before cannot be known",
        Cold,
        |scene| scene.file("var/lib/brisk/reboot/barred.json", "[{\"combination\":"),
        |scene| scene.file("var/lib/brisk/reboot/barred.json", "[]\n"),
    ),
    case(
        "network-root",
        "10.0.0.2:/srv/root (nfs4)",
        Warn,
        |scene| scene.file("proc/mounts", "10.0.0.2:/srv/root / nfs4 rw 0 0\n"),
        |scene| {
            let text = "/dev/sda2 / ext4 rw 0 0\n10.0.0.2:/home /home nfs4 rw 0 0\n";
            scene.file("proc/mounts", text);
        },
    ),
    case(
        "network-root",
        "/dev/nbd0",
        Warn,
        |scene| scene.file("proc/mounts", "/dev/nbd0p1 / ext4 rw 0 0\n"),
        |scene| scene.file("proc/mounts", "/dev/nvme0n1p1 / ext4 rw 0 0\n"),
    ),
    case(
        "hibernation-image",
        "UUID=51ab has the image",
        Refuse,
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.cmdline("root=UUID=5f3c resume=UUID=51ab");
        },
        |scene| {
            swap(scene, b"SWAPSPACE2");
            scene.cmdline("root=UUID=5f3c resume=UUID=51ab");
        },
    ),
    // Initial RAM disks and systemd find it without a word on the command line.
    case(
        "hibernation-image",
        "UUID=51ab has the image",
        Refuse,
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.file("etc/initramfs-tools/conf.d/resume", "RESUME=UUID=51ab\n");
        },
        |scene| {
            swap(scene, b"SWAPSPACE2");
            scene.file("etc/initramfs-tools/conf.d/resume", "RESUME=UUID=51ab\n");
        },
    ),
    case(
        "hibernation-image",
        "UUID=51ab has the image",
        Refuse,
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.file(
                "etc/fstab",
                "UUID=5f3c / ext4\nUUID=51ab none swap sw 0 0\n",
            );
        },
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.file("etc/fstab", "#UUID=51ab none swap sw 0 0\n");
        },
    ),
    // A file for swapping begins at a page of its device, which has another first page.
    case(
        "hibernation-image",
        "UUID=51ab has the image",
        Refuse,
        |scene| {
            let pages = [[0; 8192], swap_pages(b"S1SUSPEND\0")].concat();
            scene.bytes("dev/disk/by-uuid/51ab", &pages);
            scene.cmdline("root=UUID=5f3c resume=UUID=51ab resume_offset=2");
        },
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.cmdline("root=UUID=5f3c resume=UUID=51ab noresume");
        },
    ),
    case(
        "hibernation-image",
        "cannot be looked at",
        Note,
        |scene| {
            swap(scene, b"S1SUSPEND\0");
            scene.cmdline("root=UUID=5f3c resume=UUID=51ab resume_offset=99999999999999999999");
        },
        |_| {},
    ),
    case(
        "hibernation-image",
        "cannot be looked at",
        Note,
        |scene| scene.cmdline("root=UUID=5f3c resume=/dev/../etc/passwd"),
        |scene| swap(scene, b"S1SUSPEND\0"),
    ),
    case(
        "inhibitor",
        "Backup holds shutdowns back: A backup runs",
        Warn,
        |scene| inhibit(scene, "sleep:shutdown", "block"),
        |scene| inhibit(scene, "shutdown", "delay"),
    ),
    case(
        "inhibitor",
        "Backup",
        Warn,
        |scene| inhibit(scene, "shutdown", "block-weak"),
        |scene| inhibit(scene, "sleep:idle", "block"),
    ),
    case(
        "package-manager",
        "pacman is at work",
        Warn,
        |scene| scene.file("var/lib/pacman/db.lck", ""),
        // dpkg's is there all the time.
        |scene| scene.file("var/lib/dpkg/lock-frontend", ""),
    ),
    case(
        "watchdog",
        "KExecWatchdogSec is 5min, and RuntimeWatchdogSec is off",
        Warn,
        |scene| watchdog(scene, "[Manager]\nRuntimeWatchdogSec=0\n"),
        |scene| watchdog(scene, "[Manager]\nRuntimeWatchdogSec=20s\n"),
    ),
    case(
        "watchdog",
        "KExecWatchdogSec is 5min",
        Warn,
        // Of drop-ins with one name, the one in /etc is read; and no other section is meant.
        |scene| {
            watchdog(scene, "[Manager]\nRuntimeWatchdogSec=20s\n");
            let text = "[Other]\nRuntimeWatchdogSec=20s\n";
            scene.file("etc/systemd/system.conf.d/10-vendor.conf", text);
        },
        // Without a watchdog.
        |scene| {
            let text = "[Manager]\nKExecWatchdogSec=5min\n";
            scene.file("etc/systemd/system.conf", text);
        },
    ),
    case(
        "never-ran",
        "6.12.0-1-amd64 is not known to have run",
        Note,
        |scene| {
            scene.target.release = "6.12.0-1-amd64".to_owned();
            scene.bytes("var/log/wtmp", &record(2, "reboot", "6.12.0-2-amd64"));
        },
        |scene| {
            scene.target.release = "6.12.0-1-amd64".to_owned();
            scene.bytes("var/log/wtmp", &record(2, "reboot", "6.12.0-1-amd64"));
        },
    ),
    case(
        "never-ran",
        "6.12.0-1-amd64",
        Note,
        |scene| scene.target.release = "6.12.0-1-amd64".to_owned(),
        |scene| {
            scene.target.release = "6.12.0-1-amd64".to_owned();
            let line = r#"{"from":{"release":"6.1"},"to":{"release":"6.12.0-1-amd64"}}"#;
            scene.file("var/lib/brisk/reboot/history.jsonl", line);
        },
    ),
    // An image may not say what it is.
    case(
        "never-ran",
        "6.12.0-1-amd64",
        Note,
        |scene| scene.target.release = "6.12.0-1-amd64".to_owned(),
        |scene| scene.target.release.clear(),
    ),
];

#[test]
fn a_package_manager_is_at_work_while_it_holds_its_lock() {
    let scene = Scene::new();
    for path in ["var/lib/dpkg/lock-frontend", "var/lib/rpm/.rpm.lock"] {
        scene.file(path, "");
        let file = File::options()
            .write(true)
            .open(scene.root().join(path))
            .unwrap();
        assert!(of("package-manager", &scene.read().findings()).is_empty());
        assert!(try_lock(&file, Sharing::Exclusive).unwrap());
        let findings = scene.read().findings();
        let found = of("package-manager", &findings);
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        drop(file);
    }
}

#[test]
fn headers_that_cannot_be_read_are_said() {
    let scene = Scene::new();
    luks(&scene, "{}");
    assert_eq!(scene.read().machine.unread, [""; 0]);
    scene.bytes("dev/sda2", b"LUKS\xba\xbe\0\x02");
    let unread = scene.read().machine.unread;
    assert_eq!(
        unread,
        ["the LUKS header of /dev/sda2: it is no LUKS2 header"]
    );
    scene.remove("dev/sda2");
    assert!(scene.read().machine.unread[0].contains("No such file"));
}

#[test]
fn lockdown_is_known_or_said_not_to_be() {
    let scene = Scene::new();
    scene.remove("sys/kernel/security/lockdown");
    let unread = scene.read().machine.unread;
    assert!(unread[0].starts_with("lockdown: securityfs is not mounted"));
    // A kernel without it.
    scene.file("sys/kernel/security/lsm", "capability,yama");
    assert_eq!(scene.read().machine.unread, [""; 0]);
}

#[test]
fn a_watchdog_is_off_in_several_spellings() {
    for (value, is_on) in [
        ("off", false),
        ("0", false),
        ("0s", false),
        ("0min", false),
        ("0 ms", false),
        ("", false),
        ("infinity", false),
        ("10", true),
        ("5min", true),
        ("default", true),
    ] {
        let scene = Scene::new();
        let text = format!("[Manager]\nKExecWatchdogSec = {value}\n");
        scene.file("etc/systemd/system.conf", &text);
        let found = scene.read().machine.watchdog.kexec;
        assert_eq!(found.is_some(), is_on, "{value}");
    }
}
