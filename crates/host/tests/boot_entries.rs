//! Entries of captured trees: each distribution as its boot loader sees it.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fmt::Write;

use brisk_host::boot_entries::{BootEntries, Choice, read};
use brisk_testkit::BootTree;
use insta::assert_snapshot;

/// What a system's boot loader offers, for people.
fn shown(boot: &BootEntries) -> String {
    let mut text = format!("{}: {}\n", boot.loader.name(), boot.reason);
    for note in &boot.notes {
        writeln!(text, "note: {note}").unwrap();
    }
    let mut choice = |name: &str, choice: &Option<Choice>| match choice {
        Some(choice) => {
            let once = if choice.is_once { ", once" } else { "" };
            writeln!(text, "{name}: {}{once}: {}", choice.entry, choice.reason).unwrap();
        }
        None => writeln!(text, "{name}: none").unwrap(),
    };
    choice("default", &boot.default);
    choice("next", &boot.next);
    for (index, entry) in boot.entries.iter().enumerate() {
        let number = entry.number.as_deref().unwrap_or("-");
        writeln!(
            text,
            "[{index}] {number} {} | {}",
            entry.id,
            entry.full_title()
        )
        .unwrap();
        let kernel = entry.kernel.display().to_string();
        let words = [format!("{:?}", entry.kind), entry.release.clone(), kernel];
        let words: Vec<_> = words.into_iter().filter(|it| !it.is_empty()).collect();
        write!(text, "    {}", words.join(" ")).unwrap();
        for initrd in &entry.initrds {
            write!(text, " + {}", initrd.display()).unwrap();
        }
        text.push('\n');
        if !entry.options.is_empty() {
            writeln!(text, "    {}", entry.options).unwrap();
        }
        if let Some(tries) = entry.tries {
            writeln!(text, "    {} tries left, {} done", tries.left, tries.done).unwrap();
        }
        for problem in &entry.problems {
            writeln!(text, "    ! {problem}").unwrap();
        }
    }
    text
}

fn tree(name: &str) -> String {
    shown(&read(BootTree::named(name).root()))
}

#[test]
fn debian_12() {
    assert_snapshot!(tree("debian-12"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: default in /boot/grub/grub.cfg is "0"
    next: 0: default in /boot/grub/grub.cfg is "0"
    [0] 0 gnulinux-simple-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Debian GNU/Linux
        Linux 6.1.0-21-amd64 /boot/vmlinuz-6.1.0-21-amd64 + /boot/initrd.img-6.1.0-21-amd64
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet
    [1] 1>0 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.1.0-21-amd64-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-21-amd64
        Linux 6.1.0-21-amd64 /boot/vmlinuz-6.1.0-21-amd64 + /boot/initrd.img-6.1.0-21-amd64
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet
    [2] 1>1 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.1.0-21-amd64-recovery-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-21-amd64 (recovery mode)
        Linux 6.1.0-21-amd64 /boot/vmlinuz-6.1.0-21-amd64 + /boot/initrd.img-6.1.0-21-amd64
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro single
    [3] 1>2 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.1.0-18-amd64-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-18-amd64
        Linux 6.1.0-18-amd64 /boot/vmlinuz-6.1.0-18-amd64 + /boot/initrd.img-6.1.0-18-amd64
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet
    "#);
}

#[test]
fn debian_13() {
    assert_snapshot!(tree("debian-13"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: /boot/grub/grub.cfg sets no default, so GRUB takes the first entry
    next: 0: /boot/grub/grub.cfg sets no default, so GRUB takes the first entry
    [0] 0 gnulinux-simple-44d0f2c8 | Debian GNU/Linux
        Linux 6.12.38+deb13-amd64 /boot/vmlinuz-6.12.38+deb13-amd64 + /boot/initrd.img-6.12.38+deb13-amd64
        root=/dev/mapper/vg-root ro quiet mitigations=auto,nosmt
    [1] 1>0 gnulinux-advanced-44d0f2c8>gnulinux-6.12.38+deb13-amd64-advanced-44d0f2c8 | Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.12.38+deb13-amd64
        Linux 6.12.38+deb13-amd64 /boot/vmlinuz-6.12.38+deb13-amd64 + /boot/initrd.img-6.12.38+deb13-amd64
        root=/dev/mapper/vg-root ro quiet mitigations=auto,nosmt
    [2] 1>1 gnulinux-advanced-44d0f2c8>gnulinux-6.12.31+deb13-amd64-advanced-44d0f2c8 | Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.12.31+deb13-amd64
        Linux 6.12.31+deb13-amd64 /boot/vmlinuz-6.12.31+deb13-amd64 + /boot/initrd.img-6.12.31+deb13-amd64
        root=/dev/mapper/vg-root ro quiet
    [3] 2 osprober-gnulinux-simple-9e9e9e9e | Debian GNU/Linux 11 (bullseye) (on /dev/sdb1)
        Linux /boot/vmlinuz-5.10.0-28-amd64 + /boot/initrd.img-5.10.0-28-amd64
        root=/dev/sdb1 ro quiet
        ! its files are on a file system that is not mounted here
    [4] 3 uefi-firmware | UEFI Firmware Settings
        Other
    "#);
}

#[test]
fn ubuntu_24_04() {
    assert_snapshot!(tree("ubuntu-24.04"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 3: saved_entry in /boot/grub/grubenv is "gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-31-generic-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10"
    next: 3: saved_entry in /boot/grub/grubenv is "gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-31-generic-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10"
    [0] 0 gnulinux-simple-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Ubuntu
        Linux 6.8.0-38-generic /boot/vmlinuz-6.8.0-38-generic + /boot/initrd.img-6.8.0-38-generic
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet splash vt.handoff=7
    [1] 1>0 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-38-generic-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-38-generic
        Linux 6.8.0-38-generic /boot/vmlinuz-6.8.0-38-generic + /boot/initrd.img-6.8.0-38-generic
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet splash vt.handoff=7
    [2] 1>1 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-38-generic-recovery-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-38-generic (recovery mode)
        Linux 6.8.0-38-generic /boot/vmlinuz-6.8.0-38-generic + /boot/initrd.img-6.8.0-38-generic
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro recovery nomodeset dis_ucode_ldr
    [3] 1>2 gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-31-generic-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 | Advanced options for Ubuntu>Ubuntu, with Linux 6.8.0-31-generic
        Linux 6.8.0-31-generic /boot/vmlinuz-6.8.0-31-generic + /boot/initrd.img-6.8.0-31-generic
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro quiet splash vt.handoff=7
    "#);
}

#[test]
fn ubuntu_on_btrfs() {
    assert_snapshot!(tree("ubuntu-btrfs"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: default in /boot/grub/grub.cfg is "0"
    next: 0: default in /boot/grub/grub.cfg is "0"
    [0] 0 gnulinux-simple | Ubuntu
        Linux 6.8.0-38-generic /boot/vmlinuz-6.8.0-38-generic + /boot/initrd.img-6.8.0-38-generic
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 ro rootflags=subvol=@ quiet
    "#);
}

#[test]
fn fedora_41() {
    assert_snapshot!(tree("fedora-41"), @r#"
    GRUB: /boot/grub2/grub.cfg is there
    default: 1: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-6.11.4-301.fc41.x86_64"
    next: 1: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-6.11.4-301.fc41.x86_64"
    [0] 0 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-6.11.10-300.fc41.x86_64 | Fedora Linux (6.11.10-300.fc41.x86_64) 41 (Server Edition)
        Linux 6.11.10-300.fc41.x86_64 /boot/vmlinuz-6.11.10-300.fc41.x86_64 + /boot/initramfs-6.11.10-300.fc41.x86_64.img
        root=UUID=d15c0000-0000-4000-8000-000000000001 ro rhgb quiet
    [1] 1 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-6.11.4-301.fc41.x86_64 | Fedora Linux (6.11.4-301.fc41.x86_64) 41 (Server Edition)
        Linux 6.11.4-301.fc41.x86_64 /boot/vmlinuz-6.11.4-301.fc41.x86_64 + /boot/initramfs-6.11.4-301.fc41.x86_64.img
        root=UUID=d15c0000-0000-4000-8000-000000000001 ro rhgb quiet
    [2] 2 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-0-rescue | Fedora Linux (0-rescue) (0-rescue-5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d)
        Linux 6.11.4-301.fc41.x86_64 /boot/vmlinuz-0-rescue-5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d + /boot/initramfs-0-rescue-5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d.img
        root=UUID=d15c0000-0000-4000-8000-000000000001 ro rescue
    [3] 3 uefi-firmware | UEFI Firmware Settings
        Other
    "#);
}

#[test]
fn rhel_8() {
    assert_snapshot!(tree("rhel-8"), @r#"
    GRUB: /boot/grub2/grub.cfg is there
    default: 0: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-4.18.0-553.el8_10.x86_64"
    next: 0: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-4.18.0-553.el8_10.x86_64"
    [0] 0 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-4.18.0-553.el8_10.x86_64 | Red Hat Enterprise Linux (4.18.0-553.el8_10.x86_64) 8.10 (Ootpa)
        Linux 4.18.0-553.el8_10.x86_64 /boot/vmlinuz-4.18.0-553.el8_10.x86_64 + /boot/initramfs-4.18.0-553.el8_10.x86_64.img + /boot/tuned-initrd.img
        root=/dev/mapper/rhel-root ro crashkernel=auto resume=/dev/mapper/rhel-swap rd.lvm.lv=rhel/root rhgb quiet isolcpus=2-3 nohz_full=2-3
    [1] 1 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-4.18.0-80.el8.x86_64 | Red Hat Enterprise Linux (4.18.0-80.el8.x86_64) 8.0 (Ootpa)
        Linux 4.18.0-80.el8.x86_64 /boot/vmlinuz-4.18.0-80.el8.x86_64 + /boot/initramfs-4.18.0-80.el8.x86_64.img + /boot/tuned-initrd.img
        root=/dev/mapper/rhel-root ro crashkernel=auto resume=/dev/mapper/rhel-swap rd.lvm.lv=rhel/root rhgb quiet isolcpus=2-3 nohz_full=2-3
    "#);
}

#[test]
fn rhel_9() {
    assert_snapshot!(tree("rhel-9"), @r#"
    GRUB: /boot/grub2/grub.cfg is there
    default: 1: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-5.14.0-362.8.1.el9_3.x86_64"
    next: 1: saved_entry in /boot/grub2/grubenv is "5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-5.14.0-362.8.1.el9_3.x86_64"
    [0] 0 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-5.14.0-427.13.1.el9_4.x86_64 | Red Hat Enterprise Linux (5.14.0-427.13.1.el9_4.x86_64) 9.4 (Plow)
        Linux 5.14.0-427.13.1.el9_4.x86_64 /boot/vmlinuz-5.14.0-427.13.1.el9_4.x86_64 + /boot/initramfs-5.14.0-427.13.1.el9_4.x86_64.img
        root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M
    [1] 1 5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-5.14.0-362.8.1.el9_3.x86_64 | Red Hat Enterprise Linux (5.14.0-362.8.1.el9_3.x86_64) 9.3 (Plow)
        Linux 5.14.0-362.8.1.el9_3.x86_64 /boot/vmlinuz-5.14.0-362.8.1.el9_3.x86_64 + /boot/initramfs-5.14.0-362.8.1.el9_3.x86_64.img
        root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M
    "#);
}

#[test]
fn fedora_coreos() {
    assert_snapshot!(tree("fedora-coreos"), @r#"
    GRUB: /boot/grub2/grub.cfg is there
    default: 0: /boot/grub2/grub.cfg sets no default, so GRUB takes the first entry
    next: 0: /boot/grub2/grub.cfg sets no default, so GRUB takes the first entry
    [0] 0 ostree-2 | Fedora CoreOS 40.20240616.3.0 (ostree:0)
        Linux 6.8.11-300.fc40.x86_64 /boot/boot/ostree/fedora-coreos-3f0c1d2e1/vmlinuz-6.8.11-300.fc40.x86_64 + /boot/boot/ostree/fedora-coreos-3f0c1d2e1/initramfs-6.8.11-300.fc40.x86_64.img
        ostree=/ostree/boot.1/fedora-coreos/3f0c1d2e1/0 ignition.platform.id=metal root=UUID=d15c0000-0000-4000-8000-000000000001 rw rootflags=prjquota
    [1] 1 ostree-1 | Fedora CoreOS 40.20240602.3.0 (ostree:1)
        Linux 6.8.10-300.fc40.x86_64 /boot/boot/ostree/fedora-coreos-3f0c1d2e0/vmlinuz-6.8.10-300.fc40.x86_64 + /boot/boot/ostree/fedora-coreos-3f0c1d2e0/initramfs-6.8.10-300.fc40.x86_64.img
        ostree=/ostree/boot.1/fedora-coreos/3f0c1d2e0/0 ignition.platform.id=metal root=UUID=d15c0000-0000-4000-8000-000000000001 rw rootflags=prjquota
    "#);
}

#[test]
fn arch_with_grub() {
    assert_snapshot!(tree("arch-grub"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: default in /boot/grub/grub.cfg is "0"
    next: 0: default in /boot/grub/grub.cfg is "0"
    [0] 0 gnulinux-simple-4b1c | Arch Linux
        Linux 6.9.3-arch1-1 /boot/vmlinuz-linux + /boot/intel-ucode.img + /boot/initramfs-linux.img
        root=UUID=4b1c0000-0000-4000-8000-000000000001 rw loglevel=3 quiet
    [1] 1>0 gnulinux-advanced-4b1c>gnulinux-linux-advanced-4b1c | Advanced options for Arch Linux>Arch Linux, with Linux linux
        Linux 6.9.3-arch1-1 /boot/vmlinuz-linux + /boot/intel-ucode.img + /boot/initramfs-linux.img
        root=UUID=4b1c0000-0000-4000-8000-000000000001 rw loglevel=3 quiet
    [2] 1>1 gnulinux-advanced-4b1c>gnulinux-linux-fallback-4b1c | Advanced options for Arch Linux>Arch Linux, with Linux linux (fallback initramfs)
        Linux 6.9.3-arch1-1 /boot/vmlinuz-linux + /boot/intel-ucode.img + /boot/initramfs-linux-fallback.img
        root=UUID=4b1c0000-0000-4000-8000-000000000001 rw loglevel=3 quiet
    [3] 1>2 gnulinux-advanced-4b1c>gnulinux-linux-lts-advanced-4b1c | Advanced options for Arch Linux>Arch Linux, with Linux linux-lts
        Linux 6.6.32-1-lts /boot/vmlinuz-linux-lts + /boot/intel-ucode.img + /boot/initramfs-linux-lts.img
        root=UUID=4b1c0000-0000-4000-8000-000000000001 rw loglevel=3 quiet
    "#);
}

#[test]
fn arch_with_systemd_boot() {
    assert_snapshot!(tree("arch-systemd-boot"), @r#"
    systemd-boot: the EFI variable LoaderInfo is "systemd-boot 256.2-1-arch"
    default: 1: default in /boot/loader/loader.conf is "arch.conf"
    next: 1: default in /boot/loader/loader.conf is "arch.conf"
    [0] 0 windows.conf | Windows
        Other /boot/EFI/Microsoft/Boot/bootmgfw.efi
    [1] 1 arch.conf | Arch Linux
        Linux 6.9.3-arch1-1 /boot/vmlinuz-linux + /boot/intel-ucode.img + /boot/initramfs-linux.img
        root=PARTUUID=14420948-2cea-4de7-b042-40f67c618660 rw quiet
    [2] 2 arch-fallback.conf | Arch Linux (fallback initramfs)
        Linux 6.9.3-arch1-1 /boot/vmlinuz-linux + /boot/intel-ucode.img + /boot/initramfs-linux-fallback.img
        root=PARTUUID=14420948-2cea-4de7-b042-40f67c618660 rw
        ! the initial RAM disk /boot/initramfs-linux-fallback.img is not there
    "#);
}

#[test]
fn opensuse() {
    assert_snapshot!(tree("opensuse"), @r#"
    GRUB: /boot/grub2/grub.cfg is there
    default: 0: saved_entry in /boot/grub2/grubenv is "openSUSE Tumbleweed"
    next: 0: saved_entry in /boot/grub2/grubenv is "openSUSE Tumbleweed"
    [0] 0 gnulinux-simple-1f4e | openSUSE Tumbleweed
        Linux 6.9.1-1-default /boot/vmlinuz-6.9.1-1-default + /boot/initrd-6.9.1-1-default
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 splash=silent quiet security=selinux selinux=1
    [1] 1>0 gnulinux-advanced-1f4e>gnulinux-6.9.1-1-default-advanced-1f4e | Advanced options for openSUSE Tumbleweed>openSUSE Tumbleweed, with Linux 6.9.1-1-default
        Linux 6.9.1-1-default /boot/vmlinuz-6.9.1-1-default + /boot/initrd-6.9.1-1-default
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 splash=silent quiet security=selinux selinux=1
    [2] 1>1 gnulinux-advanced-1f4e>gnulinux-6.8.9-1-default-advanced-1f4e | Advanced options for openSUSE Tumbleweed>openSUSE Tumbleweed, with Linux 6.8.9-1-default
        Linux 6.8.9-1-default /boot/vmlinuz-6.8.9-1-default + /boot/initrd-6.8.9-1-default
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 splash=silent quiet security=selinux selinux=1
    [3] 2>0>1 Start bootloader from a read-only snapshot> openSUSE Tumbleweed  (6.9.1-1,2024-06-02T10:11,pre,zypp(zypper))>gnulinux-simple-1f4e | Start bootloader from a read-only snapshot> openSUSE Tumbleweed  (6.9.1-1,2024-06-02T10:11,pre,zypp(zypper))>openSUSE Tumbleweed
        Linux 6.9.1-1-default /.snapshots/22/snapshot/boot/vmlinuz-6.9.1-1-default + /.snapshots/22/snapshot/boot/initrd-6.9.1-1-default
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 rootflags=subvol=@/.snapshots/22/snapshot splash=silent quiet
    [4] 2>1>0 Start bootloader from a read-only snapshot>*openSUSE Tumbleweed  (6.7.5-1,2024-03-02T10:11,post)>gnulinux-simple-1f4e | Start bootloader from a read-only snapshot>*openSUSE Tumbleweed  (6.7.5-1,2024-03-02T10:11,post)>openSUSE Tumbleweed
        Linux /.snapshots/9/snapshot/boot/vmlinuz-6.8.9-1-default + /.snapshots/9/snapshot/boot/initrd-6.8.9-1-default
        root=UUID=1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10 rootflags=subvol=@/.snapshots/9/snapshot splash=silent quiet
        ! the kernel /.snapshots/9/snapshot/boot/vmlinuz-6.8.9-1-default is not there
        ! the initial RAM disk /.snapshots/9/snapshot/boot/initrd-6.8.9-1-default is not there
    "#);
}

#[test]
fn nixos_with_grub() {
    assert_snapshot!(tree("nixos-grub"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: default in /boot/grub/grub.cfg is "0"
    next: 0: default in /boot/grub/grub.cfg is "0"
    [0] 0 NixOS | NixOS
        Linux 6.6.32 /nix/store/a1b2c3-linux-6.6.32/bzImage + /nix/store/0a9b8c-initrd-linux-6.6.32/initrd
        init=/nix/store/d4e5f6-nixos-system-host-24.05/init loglevel=4
    [1] 1>0 NixOS - All configurations>NixOS - Configuration 2 (2024-06-01 - 24.05.1) | NixOS - All configurations>NixOS - Configuration 2 (2024-06-01 - 24.05.1)
        Linux 6.6.32 /nix/store/a1b2c3-linux-6.6.32/bzImage + /nix/store/0a9b8c-initrd-linux-6.6.32/initrd
        init=/nix/store/d4e5f6-nixos-system-host-24.05/init loglevel=4
    [2] 1>1 NixOS - All configurations>NixOS - Configuration 1 (2024-05-20 - 24.05.0) | NixOS - All configurations>NixOS - Configuration 1 (2024-05-20 - 24.05.0)
        Linux 6.6.30 /nix/store/f0f0f0-linux-6.6.30/bzImage + /nix/store/c2c2c2-initrd-linux-6.6.30/initrd
        init=/nix/store/e1e1e1-nixos-system-host-24.05/init loglevel=4
    "#);
}

#[test]
fn nixos_with_systemd_boot() {
    assert_snapshot!(tree("nixos-systemd-boot"), @r#"
    systemd-boot: the EFI variable LoaderInfo is "systemd-boot 255.6"
    default: 0: default in /boot/loader/loader.conf is "nixos-generation-10.conf"
    next: 1, once: bootctl set-oneshot chose "nixos-generation-9.conf" (LoaderEntryOneShot)
    [0] 0 nixos-generation-10.conf | NixOS
        Linux 6.6.32 /boot/EFI/nixos/a1b2c3-linux-6.6.32-bzImage.efi + /boot/EFI/nixos/a1b2c3-initrd-linux-6.6.32-initrd.efi
        init=/nix/store/a1b2c3-nixos-system-host-24.05/init loglevel=4
    [1] 1 nixos-generation-9.conf | NixOS
        Linux 6.6.30 /boot/EFI/nixos/f0f0f0-linux-6.6.30-bzImage.efi + /boot/EFI/nixos/f0f0f0-initrd-linux-6.6.30-initrd.efi
        init=/nix/store/f0f0f0-nixos-system-host-24.05/init loglevel=4
    "#);
}

#[test]
fn nixos_without_a_boot_loader() {
    assert_snapshot!(tree("nixos"), @r#"
    no boot loader: no boot loader was found, but profiles of NixOS
    default: 0: /nix/var/nix/profiles/system is generation 2
    next: 0: /nix/var/nix/profiles/system is generation 2
    [0] 2 system-2-link | NixOS, generation 2
        Linux 6.6.32 /nix/store/a1b2c3-linux-6.6.32/bzImage + /nix/store/0a9b8c-initrd/initrd
        init=/nix/store/d4e5f6-nixos-system-host-24.05/init loglevel=4 net.ifnames=0
    [1] 1 system-1-link | NixOS, generation 1
        Linux /nix/store/gone/bzImage + /nix/store/0a9b8c-initrd/initrd
        init=/nix/store/e1e1e1-nixos-system-host-24.05/init
        ! the kernel /nix/store/gone/bzImage is not there
    "#);
}

#[test]
fn unified_kernel_images() {
    assert_snapshot!(tree("uki-systemd-boot"), @r#"
    systemd-boot: it is installed, and GRUB is not
    default: 0: no default is configured, and it is the first entry
    next: 0: no default is configured, and it is the first entry
    [0] 0 fedora-6.11.4.efi | Fedora Linux 41
        Uki 6.11.4-301.fc41.x86_64 /efi/EFI/Linux/fedora-6.11.4+3.efi
        root=UUID=d15c0000-0000-4000-8000-000000000001 rw quiet
        3 tries left, 0 done
    [1] 1 fedora-6.10.9.efi | Fedora Linux 41
        Uki 6.10.9-200.fc40.x86_64 /efi/EFI/Linux/fedora-6.10.9.efi
        root=UUID=d15c0000-0000-4000-8000-000000000001 rw quiet
    [2] 2 fedora-6.11.10.efi | Fedora Linux 41
        Uki 6.11.10-300.fc41.x86_64 /efi/EFI/Linux/fedora-6.11.10+0-3.efi
        root=UUID=d15c0000-0000-4000-8000-000000000001 rw quiet
        0 tries left, 3 done
    "#);
}

#[test]
fn unified_kernel_images_without_a_boot_loader() {
    assert_snapshot!(tree("uki-firmware"), @r#"
    the firmware: there are unified kernel images, and no boot loader
    default: 0: it is the first unified kernel image; the firmware's BootOrder has no kernel
    next: 0: it is the first unified kernel image; the firmware's BootOrder has no kernel
    [0] - arch-linux.efi | Fedora Linux 41
        Uki 6.9.3-arch1-1 /efi/EFI/Linux/arch-linux.efi
        root=UUID=d15c0000-0000-4000-8000-000000000001 rw quiet
    "#);
}

#[test]
fn extlinux() {
    assert_snapshot!(tree("extlinux"), @r#"
    extlinux: /boot/extlinux/extlinux.conf is there
    default: 0: DEFAULT in /boot/extlinux/extlinux.conf is "nixos-default"
    next: 0: DEFAULT in /boot/extlinux/extlinux.conf is "nixos-default"
    [0] 0 nixos-default | NixOS - Default
        Linux 6.6.32 /boot/nixos/a1b2c3-linux-6.6.32-Image + /boot/nixos/0a9b8c-initrd-linux-6.6.32-initrd
        init=/nix/store/d4e5f6-nixos-system/init console=ttyS0 loglevel=7
    [1] 1 nixos-1-default | NixOS - Configuration 1-default (2024-05-20 10:00 - 24.05)
        Linux 6.6.30 /boot/nixos/f0f0f0-linux-6.6.30-Image + /boot/nixos/none
        init=/nix/store/e1e1e1-nixos-system/init
        ! the initial RAM disk /boot/nixos/none is not there
    "#);
}

#[test]
fn scripts_of_grub() {
    assert_snapshot!(tree("grub-script"), @r#"
    GRUB: /boot/grub/grub.cfg is there
    default: 0: /boot/grub/grub.cfg sets no default, so GRUB takes the first entry
    next: 0: /boot/grub/grub.cfg sets no default, so GRUB takes the first entry
    [0] 0 one | first
        Linux 1.0-first /boot/vmlinuz-1 + /boot/initrd-1 + /boot/initrd-2
        count=xaxc!! "result=2 one" state=no-files-test-empty-prefix "args=3:a:b c" "setup=quoted \"value\" $not" path=C:\\x chosen=one
    [1] 1 gone | missing >> kernel
        Linux /boot/vmlinuz-none
        root=/dev/none
        ! the kernel /boot/vmlinuz-none is not there
    [2] 2>0 more>in>>ner | more>>menus>it's $5
        Linux 2.0-second /boot/vmlinuz-2 + /boot/initrd-2
        inner=set chosen=more>in>>ner default=
    [3] 2>1>0 more>deeper>deep | more>>menus>deeper>deepest
        Linux 2.0-second /boot/vmlinuz-2
        deepest inner= chosen=more>deeper>deep
    [4] 2>1>1 more>deeper>7 | more>>menus>deeper>7
        Linux 2.0-second /boot/vmlinuz-2
        seven
    [5] 2>2 more>8 | more>>menus>digits are no title
        Linux 1.0-first /boot/vmlinuz-1
        eight
    [6] 4 last one | last one
        Linux 1.0-first /boot/vmlinuz-1 + /boot/initrd-2
        last
    [7] 5 in real mode | in real mode
        Linux 1.0-first /boot/vmlinuz-1 + /boot/initrd-1
        real
    "#);
}
