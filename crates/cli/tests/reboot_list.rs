//! brisk reboot list and the plan of a restart, on captured trees.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use brisk_testkit::{BootTree, brisk_of};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// Debian 12 with two kernels, of which the older one runs with another option.
fn debian() -> BootTree {
    let tree = BootTree::named("debian-12");
    tree.write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    let cmdline = "BOOT_IMAGE=/boot/vmlinuz-6.1.0-18-amd64 root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro nosmt\n";
    tree.write("/proc/cmdline", cmdline);
    tree
}

/// What `brisk reboot` prints with these options.
fn printed(tree: &BootTree, words: &[&str]) -> String {
    let run = brisk_of!["reboot"]
        .args(words)
        .arg("--root")
        .arg(tree.root());
    run.exits(0).text()
}

fn parsed(tree: &BootTree, words: &[&str]) -> Value {
    serde_json::from_str(&printed(tree, words)).unwrap()
}

#[test]
fn the_list_marks_what_is_next_and_what_is_broken() {
    let tree = debian();
    tree.grubenv("/boot/grub/grubenv", &["next_entry=1>2"]);
    std::fs::remove_file(tree.at("/boot/initrd.img-6.1.0-21-amd64")).unwrap();
    assert_snapshot!(printed(&tree, &["list"]), @r#"
    Boot loader: GRUB: /boot/grub/grub.cfg is there
    Next: Debian GNU/Linux, with Linux 6.1.0-18-amd64: grub-reboot chose "1>2" for the next boot alone
    Default: Debian GNU/Linux: default in /boot/grub/grub.cfg is "0"

        number  title                                                                                                release         kernel
    *!  0       Debian GNU/Linux                                                                                     6.1.0-21-amd64  /boot/vmlinuz-6.1.0-21-amd64
    !   1>0     Advanced options for Debian GNU/Linux > Debian GNU/Linux, with Linux 6.1.0-21-amd64                  6.1.0-21-amd64  /boot/vmlinuz-6.1.0-21-amd64
    !   1>1     Advanced options for Debian GNU/Linux > Debian GNU/Linux, with Linux 6.1.0-21-amd64 (recovery mode)  6.1.0-21-amd64  /boot/vmlinuz-6.1.0-21-amd64
    >   1>2     Advanced options for Debian GNU/Linux > Debian GNU/Linux, with Linux 6.1.0-18-amd64                  6.1.0-18-amd64  /boot/vmlinuz-6.1.0-18-amd64
    ! 0: the initial RAM disk /boot/initrd.img-6.1.0-21-amd64 is not there
    ! 1>0: the initial RAM disk /boot/initrd.img-6.1.0-21-amd64 is not there
    ! 1>1: the initial RAM disk /boot/initrd.img-6.1.0-21-amd64 is not there
    "#);
}

#[test]
fn a_list_in_json_has_everything() {
    let list = parsed(
        &BootTree::named("uki-systemd-boot"),
        &["list", "--format", "json"],
    );
    assert_eq!(list["schema"], "brisk.reboot.list/1");
    assert_eq!(list["loader"], "systemd-boot");
    assert_eq!(
        list["next"],
        json!({
            "entry": 0,
            "reason": "no default is configured, and it is the first entry",
            "is_once": false,
        })
    );
    assert_eq!(
        list["entries"][0],
        json!({
            "id": "fedora-6.11.4.efi",
            "title": "Fedora Linux 41",
            "menus": [],
            "number": "0",
            "kind": "uki",
            "release": "6.11.4-301.fc41.x86_64",
            "kernel": "/efi/EFI/Linux/fedora-6.11.4+3.efi",
            "initrds": [],
            "options": "root=UUID=d15c0000-0000-4000-8000-000000000001 rw quiet",
            "source": "/efi/EFI/Linux/fedora-6.11.4+3.efi",
            "tries": { "left": 3, "done": 0 },
            "problems": [],
        })
    );
}

#[test]
fn a_plan_says_what_and_why() {
    assert_snapshot!(printed(&debian(), &["--dry-run"]), @r#"
    Entry:            Debian GNU/Linux
    Why:              GRUB starts it next: default in /boot/grub/grub.cfg is "0"
    Kernel:           6.1.0-21-amd64: /boot/vmlinuz-6.1.0-21-amd64, 1.500 KiB
    Initial RAM disk: /boot/initrd.img-6.1.0-21-amd64, 32 B
    Command line:     of the entry: root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet
    Against now:      with quiet; without nosmt
    "#);
    let tree = debian();
    let plan = parsed(
        &tree,
        &[
            "--dry-run",
            "--same",
            "--cmdline",
            "running",
            "--format",
            "json",
        ],
    );
    assert_eq!(
        plan,
        json!({
            "schema": "brisk.reboot.plan/1",
            "target": {
                "release": "6.1.0-18-amd64",
                "kernel": "/boot/vmlinuz-6.1.0-18-amd64",
                "initrds": ["/boot/initrd.img-6.1.0-18-amd64"],
                "cmdline": "root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro nosmt",
                "is_uki": false,
            },
            "entry": {
                "id": "gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.1.0-18-amd64-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10",
                "title": "Debian GNU/Linux, with Linux 6.1.0-18-amd64",
            },
            "reason": "--same asks for the running kernel 6.1.0-18-amd64",
            "cmdline_from": "running",
            "difference": { "added": [], "removed": [] },
        })
    );
    let plan = parsed(&tree, &["--dry-run", "--entry", "1>1", "--format", "json"]);
    assert_eq!(
        plan["difference"],
        json!({ "added": ["single"], "removed": ["nosmt"] })
    );
}

#[test]
fn another_system_is_not_restarted() {
    let tree = BootTree::named("arch-systemd-boot");
    brisk_of!["reboot", "--root", tree.root()]
        .exits(125)
        .explains(&["only this machine can be restarted"]);
}

#[test]
fn errors_name_what_is_wrong() {
    let tree = BootTree::named("arch-systemd-boot");
    let root = tree.root().to_str().unwrap().to_owned();
    for (words, text) in [
        (
            &["--entry", "windows.conf"][..],
            "the entry \"Windows\" starts no Linux kernel",
        ),
        (
            &["--entry", "arch-fallback"],
            "/boot/initramfs-linux-fallback.img is not there",
        ),
        (
            &["--kernel", "5.4"],
            "no kernel 5.4 is installed; there are 6.9.3-arch1-1",
        ),
        (
            &["--kernel", "/boot/none"],
            "the kernel /boot/none is not there",
        ),
        (
            &["--initrd", "/boot/none"],
            "the initial RAM disk /boot/none is not there",
        ),
        (&["--same"], "this tree has no /proc/sys/kernel/osrelease"),
    ] {
        let run = brisk_of!["reboot", "--dry-run", "--root", &root].args(words);
        run.exits(125).explains(&[text]);
    }
    let run = brisk_of!["reboot", "list", "--root", "/nonexistent"].exits(125);
    run.explains(&["--root /nonexistent: there is no such directory"]);
    brisk_of!["reboot", "--dry-run", "--same", "--kernel", "6.1"].exits(2);
}

/// What brisk says of a tree, whatever it comes to.
fn said(tree: &std::path::Path, words: &[&str]) -> String {
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_brisk"))
        .arg("reboot")
        .args(words)
        .arg("--root")
        .arg(tree)
        .output()
        .unwrap();
    let text = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    format!("{:?} {text}", ended.status.code())
}

#[test]
fn the_archive_of_the_book_says_of_a_machine_what_the_machine_says() {
    let book = include_str!("../../../docs/src/reboot/check.md");
    let section = &book[book.find("## Another machine").unwrap()..];
    let start = section.find("```sh\n").unwrap() + 6;
    let script = &section[start..start + section[start..].find("```").unwrap()];
    let mut tried = 0;
    for name in BootTree::names() {
        // Its kernels are in /nix, with all else.
        if name.starts_with("nixos") {
            continue;
        }
        let tree = BootTree::named(&name);
        for (path, text) in [
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("/proc/sys/kernel/kexec_load_disabled", "0\n"),
            ("/proc/cmdline", "root=/dev/sda1 quiet\n"),
            (
                "/proc/meminfo",
                "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\n",
            ),
            ("/sys/kernel/kexec_loaded", "0\n"),
            ("/sys/class/watchdog/watchdog0/identity", "iTCO_wdt\n"),
            ("/usr/lib/systemd/system/multi-user.target", "[Unit]\n"),
            (
                "/etc/systemd/system.conf",
                "[Manager]\nKExecWatchdogSec=5min\n",
            ),
        ] {
            tree.write(path, text);
        }
        let here = script.replace("cd / ", &format!("cd {} ", tree.root().display()));
        assert_ne!(here, script);
        let made = std::process::Command::new("bash")
            .args(["-c", &here])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let archive = String::from_utf8(made.stdout).unwrap();
        let copy = tempfile::tempdir().unwrap();
        let mut unpack = std::process::Command::new("tar");
        unpack
            .arg("-C")
            .arg(copy.path())
            .args(["-xzf", archive.trim()]);
        assert!(unpack.status().unwrap().success(), "{archive}");
        std::fs::remove_file(archive.trim()).unwrap();
        for words in [&["list"][..], &["check"], &["--dry-run"]] {
            assert_eq!(
                said(copy.path(), words),
                said(tree.root(), words),
                "{name} {words:?}"
            );
        }
        tried += 1;
    }
    assert!(tried > 10);
}
