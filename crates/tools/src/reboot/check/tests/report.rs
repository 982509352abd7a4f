//! Texts and JSON of findings.

use super::scene::{Scene, initrd};
use crate::reboot::check::{Trial, json, text};

fn bad() -> Scene {
    let mut scene = Scene::new();
    scene.trial = Trial::LeftOut("what was found decides without it".to_owned());
    scene.file("proc/sys/kernel/kexec_load_disabled", "1\n");
    scene.device("pci", "0000:00:1f.6", "e1000e");
    scene.bytes("boot/second", &initrd());
    scene.target.initrds.push("/boot/second".into());
    scene.remove("boot/initrd.img-6.1.0-9-amd64");
    scene.remove("dev/kmsg");
    scene.cmdline("root=UUID=5f3c \u{1b}[31m");
    scene
}

#[test]
fn findings_are_shown_with_what_to_do_the_worst_first() {
    let preflight = bad().read();
    insta::assert_snapshot!(text(&preflight, &preflight.findings()), @r"
    Kernel        /boot/vmlinuz-6.1.0-9-amd64 (6.1.0-9-amd64)
    Initrd        /boot/initrd.img-6.1.0-9-amd64 (missing)
    Initrd        /boot/second (1 KiB)
    Command line  root=UUID=5f3c �[31m
    refuse: kernel.kexec_load_disabled is 1, and nothing sets it back [kexec-disabled]
        so:  no kernel can be loaded until the machine has gone through its firmware
        fix: grep -r kexec_load_disabled /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d, remove it, and systemctl reboot
    refuse: the initial RAM disk /boot/initrd.img-6.1.0-9-amd64 is missing [initrd-missing]
        so:  the kernel would not find its root
        fix: update-initramfs -u -k 6.1.0-9-amd64, dracut --force --kver 6.1.0-9-amd64, or mkinitcpio -P
    warn: 0000:00:1f.6: after a kexec, some cards of e1000e have a link of 10 Mb/s (nix-community/nixos-anywhere#346) [network-card-slow]
        so:  the link is a hundredth as fast
        fix: look at the speed afterwards (ethtool), and have it negotiated again: ethtool -r INTERFACE
    note: it was left out: what was found decides without it [trial-load]
        so:  the kernel itself says whether it takes these files
        fix: nothing, if the other findings are what was to be known
    Not read: the kernel log (/dev/kmsg): No such file or directory (os error 2)
    Refused: no warm reboot before something has changed (2 findings).
    ");
}

#[test]
fn what_passes_is_shown_in_a_line() {
    let preflight = Scene::new().read();
    insta::assert_snapshot!(text(&preflight, &preflight.findings()), @r"
    Kernel        /boot/vmlinuz-6.1.0-9-amd64 (6.1.0-9-amd64)
    Initrd        /boot/initrd.img-6.1.0-9-amd64 (1 KiB)
    Command line  root=UUID=5f3c ro quiet
    Trial load: passed: the kernel took the files, and they are unloaded again.
    Warm: the machine can be restarted without its firmware.
    ");
}

#[test]
fn programs_get_the_verdict_and_each_rule() {
    let preflight = bad().read();
    let mut value = json(&preflight, &preflight.findings());
    let rules = value["rules"].as_array_mut().unwrap();
    assert_eq!(rules.len(), super::descriptions().len());
    rules.retain(|rule| rule["result"] != "pass");
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap(), @r#"
    {
      "findings": [
        {
          "consequence": "refuse",
          "effect": "no kernel can be loaded until the machine has gone through its firmware",
          "fix": "grep -r kexec_load_disabled /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d, remove it, and systemctl reboot",
          "rule": "kexec-disabled",
          "what": "kernel.kexec_load_disabled is 1, and nothing sets it back",
          "where": null
        },
        {
          "consequence": "refuse",
          "effect": "the kernel would not find its root",
          "fix": "update-initramfs -u -k 6.1.0-9-amd64, dracut --force --kver 6.1.0-9-amd64, or mkinitcpio -P",
          "rule": "initrd-missing",
          "what": "the initial RAM disk /boot/initrd.img-6.1.0-9-amd64 is missing",
          "where": null
        },
        {
          "consequence": "warn",
          "effect": "the link is a hundredth as fast",
          "fix": "look at the speed afterwards (ethtool), and have it negotiated again: ethtool -r INTERFACE",
          "rule": "network-card-slow",
          "what": "0000:00:1f.6: after a kexec, some cards of e1000e have a link of 10 Mb/s (nix-community/nixos-anywhere#346)",
          "where": null
        },
        {
          "consequence": "note",
          "effect": "the kernel itself says whether it takes these files",
          "fix": "nothing, if the other findings are what was to be known",
          "rule": "trial-load",
          "what": "it was left out: what was found decides without it",
          "where": null
        }
      ],
      "initrds": [
        {
          "defect": {
            "kind": "missing"
          },
          "path": "/boot/initrd.img-6.1.0-9-amd64"
        },
        {
          "path": "/boot/second",
          "size": 240,
          "unpacked": 240
        }
      ],
      "rules": [
        {
          "result": "refuse",
          "rule": "kexec-disabled",
          "source": "Linux: Documentation/admin-guide/sysctl/kernel.rst"
        },
        {
          "result": "refuse",
          "rule": "initrd-missing",
          "source": "brisk: the file is opened"
        },
        {
          "result": "warn",
          "rule": "network-card-slow",
          "source": "nix-community/nixos-anywhere#346"
        },
        {
          "result": "note",
          "rule": "trial-load",
          "source": "kexec_file_load(2)"
        }
      ],
      "running": "6.1.0-9-amd64",
      "schema": "brisk.reboot.check/1",
      "target": {
        "cmdline": "root=UUID=5f3c \u001b[31m",
        "initrds": [
          "/boot/initrd.img-6.1.0-9-amd64",
          "/boot/second"
        ],
        "is_uki": false,
        "kernel": "/boot/vmlinuz-6.1.0-9-amd64",
        "release": "6.1.0-9-amd64"
      },
      "trial_load": {
        "result": "left-out",
        "text": "left out: what was found decides without it"
      },
      "unread": [
        "the kernel log (/dev/kmsg): No such file or directory (os error 2)"
      ],
      "verdict": "refused"
    }
    "#);
}

#[test]
fn names_of_files_may_be_any_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let mut scene = bad();
    scene.target.kernel = std::ffi::OsStr::from_bytes(b"/boot/k\xff").into();
    let name = std::ffi::OsStr::from_bytes(b"/boot/i\xfe");
    scene.target.initrds.push(name.into());
    let preflight = scene.read();
    let value = json(&preflight, &preflight.findings());
    assert_eq!(value["target"]["kernel"], "/boot/k\u{fffd}");
    assert_eq!(value["target"]["initrds"][2], "/boot/i\u{fffd}");
    assert_eq!(value["initrds"][2]["path"], "/boot/i\u{fffd}");
}
