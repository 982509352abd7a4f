//! Configurations of boot loaders that are written by hand, or for more than one system.

use brisk_host::boot_entries::{Kind, Problem, read};
use brisk_testkit::BootTree;

/// Kernels that all trees have.
const KERNELS: &str = "\
-- /boot/vmlinuz-1: kernel 1.0 --
-- /boot/vmlinuz-2: kernel 2.0 --
-- /boot/initrd-1: initrd --
-- /boot/initrd-2: initrd --
";

/// Asserts which entry is next, by its identifier; none if that is not known. `told` is in the reason,
/// else in a note.
#[track_caller]
fn comes_to(text: &str, expected: Option<&str>, told: &str) {
    let tree = BootTree::of(&format!("{text}\n{KERNELS}"));
    let boot = read(tree.root());
    let next = boot.next.as_ref();
    let id = next.map(|next| boot.entries[next.entry].id.as_str());
    assert_eq!(id, expected, "{text}\n{boot:#?}");
    let reason = next.map(|next| &next.reason);
    let is_told = boot.notes.iter().chain(reason).any(|it| it.contains(told));
    assert!(
        is_told,
        "{text}\nno {told:?} in {reason:?} {:?}",
        boot.notes
    );
}

const EXTLINUX: &str = "-- /boot/extlinux/extlinux.conf --\n";
/// Labels a and b.
const LABELS: &str = "\
LABEL a
 KERNEL /boot/vmlinuz-1
 APPEND root=/dev/a
LABEL b
 KERNEL /boot/vmlinuz-2
 APPEND root=/dev/b
";

#[test]
fn extlinux_starts_what_it_names() {
    for (before, after, expected, told) in [
        ("DEFAULT b", "", Some("b"), "DEFAULT in"),
        ("", "", Some("a"), "names no default"),
        ("DEFAULT menu.c32", "", Some("a"), "names no default"),
        (
            "DEFAULT menu.c32",
            " MENU DEFAULT",
            Some("b"),
            "MENU DEFAULT",
        ),
        // Something else than Linux.
        (
            "DEFAULT hd",
            "LABEL hd\n LOCALBOOT 0",
            Some("hd"),
            "DEFAULT in",
        ),
        (
            "DEFAULT win",
            "LABEL win\n COM32 chain.c32\n APPEND hd1",
            Some("win"),
            "DEFAULT in",
        ),
        (
            "DEFAULT test",
            "LABEL test\n KERNEL hdt.c32",
            Some("test"),
            "DEFAULT in",
        ),
        ("DEFAULT a single", "", None, "no label with a kernel"),
        ("DEFAULT gone", "", None, "\"gone\""),
        (
            "DEFAULT a\nTIMEOUT 30\nONTIMEOUT b",
            "",
            Some("b"),
            "ONTIMEOUT in",
        ),
        ("ONTIMEOUT b\nDEFAULT a", "", None, "U-Boot the other"),
    ] {
        comes_to(
            &format!("{EXTLINUX}{before}\n{LABELS}{after}"),
            expected,
            told,
        );
    }
    let tree = BootTree::of(&format!(
        "{EXTLINUX}{LABELS}LABEL hd\n LOCALBOOT 0\n{KERNELS}"
    ));
    let kinds: Vec<_> = read(tree.root()).entries.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Linux, Kind::Linux, Kind::Other]);
}

#[test]
fn files_that_extlinux_includes_are_read() {
    let includes = |line: &str, more: &str| {
        format!("{EXTLINUX}DEFAULT b\n{line}\nLABEL a\n KERNEL /boot/vmlinuz-1\n{more}")
    };
    let other = "-- /boot/extlinux/more.conf --\nLABEL b\n KERNEL /boot/vmlinuz-2\n";
    for line in ["INCLUDE more.conf", "menu include more.conf Others"] {
        comes_to(&includes(line, other), Some("b"), "DEFAULT in");
    }
    comes_to(
        &includes("INCLUDE gone.conf", ""),
        None,
        "gone.conf cannot be read",
    );
    // Each includes the next one twice.
    let mut many = String::new();
    for number in 1..15 {
        let (path, next) = (format!("/boot/extlinux/{number}"), number + 1);
        many += &format!("-- {path} --\nINCLUDE {next}\nINCLUDE {next}\n");
    }
    many += "-- /boot/extlinux/15 --\nLABEL b\n KERNEL /boot/vmlinuz-2\n";
    comes_to(&includes("INCLUDE 1", &many), None, "too many files");
    let itself = "-- /boot/extlinux/more.conf --\nINCLUDE more.conf\nINCLUDE more.conf\n";
    comes_to(
        &includes("INCLUDE more.conf", itself),
        None,
        "includes itself",
    );
}

#[test]
fn options_of_extlinux() {
    let text = format!(
        "{EXTLINUX}APPEND quiet\nLABEL a\n KERNEL /boot/vmlinuz-1\nLABEL b\n \
         KERNEL /boot/vmlinuz-2\n APPEND -\n"
    );
    let tree = BootTree::of(&format!("{text}{KERNELS}"));
    let boot = read(tree.root());
    let options: Vec<_> = boot.entries.iter().map(|it| it.options.as_str()).collect();
    assert_eq!(options, ["quiet", ""]);
    let text =
        format!("{EXTLINUX}LABEL a\n KERNEL /boot/vmlinuz-1\n APPEND ${{cbootargs}} quiet\n");
    comes_to(&text, Some("a"), "${cbootargs} quiet");
}

const GRUB: &str = "-- /boot/grub/grub.cfg --\n";
/// Entries a and b.
const ENTRIES: &str = "\
menuentry a { linux /boot/vmlinuz-1 root=/dev/a ; }
menuentry b { linux /boot/vmlinuz-2 root=/dev/b ; }
";

#[test]
fn a_configuration_without_entries_is_no_reason_to_guess() {
    for script in [
        "source /boot/grub/gone.cfg",
        "menuentry x { linux vmlinuz-1 ; }",
        "menuentry x { halt ; }",
    ] {
        comes_to(
            &format!("{GRUB}{script}"),
            None,
            "what GRUB starts is not known here",
        );
    }
    comes_to(
        &format!("{GRUB}menuentry title {{ true ; }}\n{ENTRIES}"),
        None,
        "starts nothing",
    );
}

#[test]
fn patterns_are_told() {
    for path in ["/boot/vmlinuz-*", "/boot/vmlinuz-?"] {
        comes_to(
            &format!("{GRUB}{ENTRIES}menuentry c {{ linux {path} ; }}"),
            Some("a"),
            "patterns of file names",
        );
    }
}

#[test]
fn a_fallback_that_starts_nothing_is_told() {
    let script = "set default=0\nset fallback=1\nmenuentry a { linux /boot/gone ; }\n\
                  menuentry b { reboot ; }\n";
    comes_to(
        &format!("{GRUB}{script}"),
        None,
        "a fallback that starts nothing",
    );
}

#[test]
fn upstreams_blscfg_has_options() {
    let entries = |at: &str| format!("-- {at}/a.conf --\ntitle a\nlinux /boot/vmlinuz-1\n");
    let script = |options: &str| format!("{GRUB}blscfg {options}\n");
    for (options, expected, told) in [
        (
            "--path /boot/own --enable-fallback",
            Some("a"),
            "sets no default",
        ),
        ("--path=/boot/own", Some("a"), "sets no default"),
        ("--path /boot/own --new", None, "options of blscfg"),
    ] {
        comes_to(
            &format!("{}{}", script(options), entries("/boot/own")),
            expected,
            told,
        );
    }
}

#[test]
fn devices_that_the_system_does_not_have_are_not_there() {
    let script = "if [ -d (md/md-boot)/grub ]; then\n set boot=md/md-boot\nelse\n \
                  search --label boot --set boot\nfi\nset root=$boot\n\
                  menuentry a { linux /vmlinuz-1 ; }\n";
    let mounts = "-- /proc/self/mountinfo --\n22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  23 22 8:2 / /boot rw - ext4 /dev/sda2 rw\n\
                  -- /dev/disk/by-uuid/1111: link ../../sda1 --\n\
                  -- /dev/disk/by-uuid/2222: link ../../sda2 --\n";
    let label = "-- /dev/disk/by-label/boot: link ../../sda2 --\n";
    let array = "-- /dev/md/md-boot: link ../md127 --\n";
    for (links, told) in [
        (label, None),
        ("", Some("what is searched by its label or a file")),
        (array, Some("md/md-boot")),
    ] {
        let tree = BootTree::of(&format!("{GRUB}{script}{mounts}{links}{KERNELS}"));
        let boot = read(tree.root());
        assert_eq!(
            boot.entries[0].kernel,
            std::path::Path::new("/boot/vmlinuz-1")
        );
        let is_told = |told: &str| boot.notes.iter().any(|it| it.contains(told));
        assert!(
            told.map_or(boot.notes.is_empty(), is_told),
            "{links} {:?}",
            boot.notes
        );
    }
    // A file system that is known has its own files alone.
    let script = "search --fs-uuid --set=root 1111\nmenuentry a { linux /vmlinuz-1 ; }\n";
    let tree = BootTree::of(&format!("{GRUB}{script}{mounts}{KERNELS}"));
    let boot = read(tree.root());
    let gone = Problem::NoKernel("/vmlinuz-1".into());
    assert_eq!(boot.entries[0].problems, [gone]);
}

#[test]
fn entries_without_systemd_boot_say_what_is_missing() {
    let text = "-- /boot/loader/entries/a.conf --\nlinux /vmlinuz-1\n";
    let tree = BootTree::of(&format!("{text}{KERNELS}"));
    let boot = read(tree.root());
    let note = "/boot/loader/entries has entries, and neither systemd-boot";
    assert!(boot.notes[0].starts_with(note), "{boot:#?}");
    assert_eq!(boot.next, None);
    let tree = BootTree::of(&format!(
        "{text}-- /boot/EFI/systemd/systemd-bootx64.efi --\n{KERNELS}"
    ));
    assert_eq!(read(tree.root()).entries[0].id, "a.conf");
}

/// As SUSE's GRUB has it on Btrfs: an entry of a snapshot starts the snapshot's kernel, and no other
/// one of that name.
#[test]
fn subvolumes_have_their_own_kernels() {
    let mounts = |boot: &str| {
        format!(
            "-- /proc/self/mountinfo --\n\
             22 1 0:30 /@/.snapshots/1/snapshot / rw - btrfs /dev/sda2 rw\n\
             23 22 0:30 /@/.snapshots /.snapshots rw - btrfs /dev/sda2 rw\n{boot}\
             -- /dev/disk/by-uuid/1111: link ../../sda2 --\n\
             -- /dev/disk/by-uuid/2222: link ../../sda1 --\n\
             -- /.snapshots/5/snapshot/boot/vmlinuz-1: kernel 0.9 --\n"
        )
    };
    let separate = "24 22 8:1 / /boot rw - ext4 /dev/sda1 rw\n";
    for (boot, uuid, relative, set, path, expected) in [
        // In the default subvolume, which is mounted.
        ("", 1111, "y", "", "/boot/vmlinuz-1", "/boot/vmlinuz-1"),
        (
            "",
            1111,
            "y",
            "set btrfs_subvol=@/.snapshots/5/snapshot",
            "/boot/vmlinuz-1",
            "/.snapshots/5/snapshot/boot/vmlinuz-1",
        ),
        (
            "",
            1111,
            "1",
            "set btrfs_subvol=/@/.snapshots/5/snapshot",
            "/boot/vmlinuz-2",
            "/.snapshots/5/snapshot/boot/vmlinuz-2",
        ),
        (
            "",
            1111,
            "y",
            "set btrfs_subvol=@/.snapshots/1/snapshot",
            "/boot/vmlinuz-1",
            "/boot/vmlinuz-1",
        ),
        // Not mounted anywhere.
        (
            "",
            1111,
            "y",
            "set btrfs_subvol=@other",
            "/boot/vmlinuz-1",
            "/@other/boot/vmlinuz-1",
        ),
        // A directory that is another subvolume.
        (
            "",
            1111,
            "y",
            "set btrfs_subvol=@other ; btrfs-mount-subvol (boot) /boot @boot",
            "/boot/vmlinuz-1",
            "/boot/vmlinuz-1",
        ),
        // Paths are of the whole file system.
        (
            "",
            1111,
            "n",
            "set btrfs_subvol=@/.snapshots/5/snapshot",
            "/@/.snapshots/1/snapshot/boot/vmlinuz-1",
            "/boot/vmlinuz-1",
        ),
        // No Btrfs.
        (
            separate,
            2222,
            "y",
            "set btrfs_subvol=@other",
            "/vmlinuz-1",
            "/boot/vmlinuz-1",
        ),
    ] {
        let script = format!(
            "set btrfs_relative_path={relative}\n{set}\nsubmenu m {{\n menuentry s {{\n  \
             search --fs-uuid --set=root {uuid}\n  linux {path}\n }}\n}}\n"
        );
        let tree = BootTree::of(&format!("{GRUB}{script}{}{KERNELS}", mounts(boot)));
        let boot = read(tree.root());
        assert_eq!(
            boot.entries[0].kernel,
            std::path::Path::new(expected),
            "{script}{boot:#?}"
        );
        assert_eq!(boot.notes, [""; 0], "{script}");
    }
}

#[test]
fn what_decides_and_is_not_known_is_told() {
    for (script, expected, told) in [
        // The button is not pressed.
        (
            "if cmostest 84:3 ; then set default=1 ; else set default=0 ; fi",
            Some("a"),
            "cmostest",
        ),
        (
            "if sha256sum -c /x ; then set default=1 ; fi",
            None,
            "sha256sum",
        ),
        // None of GRUB's, which goes on as if it had succeeded.
        (
            "if nonsense ; then set default=1 ; fi",
            Some("b"),
            "nonsense",
        ),
        // Nothing of a line that is wrong is run.
        (
            "set default=1; true && set default=0",
            Some("a"),
            "does not understand",
        ),
        (
            "if true; then set default=1; fi; else set default=0",
            Some("a"),
            "does not understand",
        ),
        ("legacy_source /boot/grub/menu.lst", None, "legacy_source"),
        ("blscfg\nset default=b", None, "directory of entries"),
        (
            "set root=(hd0,5)",
            Some("a"),
            "hd0,5, which may be of another system",
        ),
        (
            "search --label --set=root OTHER",
            Some("a"),
            "searched by its label or a file, which may be of another system",
        ),
    ] {
        comes_to(&format!("{GRUB}{script}\n{ENTRIES}"), expected, told);
    }
}

#[test]
fn a_tree_of_efi_is_known_by_what_is_installed() {
    let script = "if [ \"$grub_platform\" = efi ] ; then set default=1 ; fi\n";
    let efi = "-- /boot/efi/EFI/arch/grubx64.efi --\n";
    let directory = "-- /boot/grub/x86_64-efi: directory --\n";
    let both = "-- /boot/grub/i386-pc: directory --\n";
    let runs = "-- /sys/firmware: directory --\n";
    for (files, expected) in [
        (String::new(), "a"),
        (efi.to_owned(), "b"),
        (directory.to_owned(), "b"),
        (format!("{directory}{both}"), "a"),
        (format!("{efi}{runs}"), "a"),
    ] {
        comes_to(
            &format!("{GRUB}{script}{ENTRIES}{files}"),
            Some(expected),
            "",
        );
    }
}

#[test]
fn grub_fills_in_the_uuid_of_its_own_file_system() {
    let probe = "probe --set=rootuuid -u $root\n\
                 menuentry a { linux /boot/vmlinuz-1 root=UUID=$rootuuid ; }\n";
    let fstab = "-- /etc/fstab --\nUUID=1f4e2c1a / ext4 defaults 0 1\n";
    let tree = BootTree::of(&format!("{GRUB}{probe}{fstab}{KERNELS}"));
    assert_eq!(read(tree.root()).entries[0].options, "root=UUID=1f4e2c1a");
    comes_to(&format!("{GRUB}{probe}"), Some("a"), "probe");
}

#[test]
fn an_initial_ram_disk_that_is_no_file_is_a_problem() {
    let entry = "menuentry a {\n linux /boot/vmlinuz-1\n initrd /boot/initrd-1 \
                 newc:etc/x:/boot/initrd-2\n}\n";
    let tree = BootTree::of(&format!("{GRUB}{entry}{KERNELS}"));
    let entry = &read(tree.root()).entries[0];
    let expected = Problem::NoInitrd("newc:etc/x:/boot/initrd-2".into());
    assert_eq!(entry.problems, [expected]);
}

#[test]
fn a_choice_for_once_that_the_script_does_not_use_is_none() {
    let text = format!("{GRUB}load_env\nset default=0\n{ENTRIES}{KERNELS}");
    let tree = BootTree::of(&text);
    tree.grubenv("/boot/grub/grubenv", &["next_entry=1"]);
    let next = read(tree.root()).next.unwrap();
    assert!(!next.is_once && next.entry == 0, "{next:?}");
}

#[test]
fn systemd_boot_has_entries_of_its_own() {
    let boot = |default: &str, version: &str| {
        format!(
            "-- /boot/EFI/systemd/systemd-bootx64.efi --\nMZ #### LoaderInfo: systemd-boot {version} ####\n\
             -- /boot/EFI/Microsoft/Boot/bootmgfw.efi --\n\
             -- /boot/loader/loader.conf --\ndefault {default}\n\
             -- /boot/loader/entries/arch.conf --\ntitle Arch\nlinux /vmlinuz-1\n\
             -- /boot/loader/entries/zen.conf --\ntitle Zen\nlinux /vmlinuz-2\n"
        )
    };
    for (default, version, expected, told) in [
        (
            "auto-windows",
            "255.4",
            Some("auto-windows"),
            "auto-windows",
        ),
        ("auto-osx", "255.4", None, "makes itself"),
        ("arch.conf", "255.4", Some("arch.conf"), "default in"),
        // Identifiers have their ending since 246.
        (
            "arch",
            "255.4",
            Some("zen.conf"),
            "like the default \"arch\"",
        ),
        ("arch", "245.6-2", Some("arch.conf"), "default in"),
        (
            "gone.conf",
            "255.4",
            Some("zen.conf"),
            "like the default \"gone.conf\"",
        ),
    ] {
        comes_to(&boot(default, version), expected, told);
    }
}
