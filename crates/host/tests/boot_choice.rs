//! What a boot loader's own state chooses of its entries, and what is told of files that it cannot read.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use brisk_host::boot_entries::{Loader, Problem, read};
use brisk_testkit::BootTree;

/// Index of the next entry with its reason.
fn next(tree: &BootTree) -> (String, String) {
    let boot = read(tree.root());
    let next = boot.next.unwrap();
    (boot.entries[next.entry].id.clone(), next.reason)
}

#[test]
fn grub_reboot_changes_the_next_entry_alone() {
    let tree = BootTree::named("debian-12");
    tree.grubenv("/boot/grub/grubenv", &["next_entry=1>2"]);
    let boot = read(tree.root());
    let (default, next) = (boot.default.unwrap(), boot.next.unwrap());
    assert_eq!((default.entry, default.is_once), (0, false));
    assert_eq!((next.entry, next.is_once), (3, true));
}

/// Takes back what is for the next run of the boot loader alone: what is next and what is the default,
/// before and then.
#[track_caller]
fn consumed(tree: &BootTree) -> [(usize, usize); 2] {
    let both = || {
        let boot = read(tree.root());
        (boot.next.unwrap().entry, boot.default.unwrap().entry)
    };
    let before = both();
    let once = read(tree.root()).once.unwrap();
    once.consume(tree.root()).unwrap();
    let after = both();
    assert_eq!(read(tree.root()).once, None);
    assert!(!read(tree.root()).next.unwrap().is_once);
    once.restore(tree.root()).unwrap();
    assert_eq!(both(), before);
    [before, after]
}

#[test]
fn what_is_for_one_boot_is_taken_back_as_the_boot_loader_does() {
    let grub = |name: &str, path: &str, lines: &[&str]| {
        let tree = BootTree::named(name);
        tree.grubenv(path, lines);
        consumed(&tree)
    };
    let (debian, fedora) = ("/boot/grub/grubenv", "/boot/grub2/grubenv");
    let once = grub("debian-12", debian, &["next_entry=1>2"]);
    assert_eq!(once, [(3, 0), (0, 0)]);
    // It makes no difference now, and would after an upgrade.
    let once = grub("debian-12", debian, &["next_entry=0"]);
    assert_eq!(once, [(0, 0), (0, 0)]);
    // An entry that is gone: GRUB takes the first one, once.
    let once = grub("debian-12", debian, &["next_entry=gone"]);
    assert_eq!(once, [(0, 0), (0, 0)]);
    // What grub-reboot noted before GRUB 2.00.
    let lines = ["saved_entry=1", "prev_saved_entry=0"];
    let once = grub("fedora-41", fedora, &lines);
    assert_eq!(once, [(1, 0), (0, 0)]);
    let rescue = "next_entry=5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-0-rescue";
    let once = grub("fedora-41", fedora, &["saved_entry=1", rescue]);
    assert_ne!(once[0].0, once[0].1);
    assert_eq!(once[1], (once[0].1, once[0].1));
    let tree = BootTree::named("arch-systemd-boot");
    let path = "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let value = "ARCH-fallback.conf\0"
        .encode_utf16()
        .flat_map(u16::to_le_bytes);
    let content: Vec<u8> = [7, 0, 0, 0].into_iter().chain(value).collect();
    std::fs::write(tree.at(path), content).unwrap();
    std::fs::write(tree.at("/boot/initramfs-linux-fallback.img"), "x").unwrap();
    let once = consumed(&tree);
    assert_ne!(once[0].0, once[0].1);
    assert_eq!(once[1], (once[0].1, once[0].1));
}

#[test]
fn nothing_is_taken_back_where_nothing_is_for_one_boot() {
    for (name, path, lines) in [
        ("debian-12", "/boot/grub/grubenv", &[][..]),
        (
            "debian-12",
            "/boot/grub/grubenv",
            &["next_entry=", "prev_saved_entry="],
        ),
        ("debian-13", "/boot/grub/grubenv", &["saved_entry=1>0"]),
        // GRUB counts these, and they choose nothing yet.
        (
            "fedora-41",
            "/boot/grub2/grubenv",
            &["saved_entry=1", "boot_counter=2", "boot_success=0"],
        ),
    ] {
        let tree = BootTree::named(name);
        tree.grubenv(path, lines);
        assert_eq!(read(tree.root()).once, None, "{name} {lines:?}");
    }
}

#[test]
fn red_hats_grub_chooses_by_identifier_title_and_number() {
    let id = |rest: &str| format!("5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-{rest}");
    let (newer, older, rescue) = (
        id("6.11.10-300.fc41.x86_64"),
        id("6.11.4-301.fc41.x86_64"),
        id("0-rescue"),
    );
    let title = "saved_entry=Fedora Linux (6.11.10-300.fc41.x86_64) 41 (Server Edition)";
    let saved = format!("saved_entry={older}");
    let once = format!("next_entry={rescue}");
    for (lines, expected) in [
        (&[&*saved][..], &older),
        (&[title], &newer),
        (&["saved_entry=1"], &older),
        // Not the number 5, though it begins with that.
        (
            &["saved_entry=5a1e0c7d9b3f4e2a8c6d0f1e2b3a4c5d-gone"],
            &newer,
        ),
        (&[&saved, &once], &rescue),
        // After as many failures the second entry is the default.
        (
            &["saved_entry=2", "boot_counter=0", "boot_success=0"],
            &older,
        ),
        (
            &["saved_entry=2", "boot_counter=1", "boot_success=0"],
            &rescue,
        ),
    ] {
        let tree = BootTree::named("fedora-41");
        tree.grubenv("/boot/grub2/grubenv", lines);
        assert_eq!(&next(&tree).0, expected, "{lines:?}");
    }
}

#[test]
fn systemd_boot_heeds_its_variables() {
    let variable = |name: &str| {
        format!("/sys/firmware/efi/efivars/{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")
    };
    for (name, value, expected, reason) in [
        (
            "LoaderEntryDefault",
            "arch-f*",
            "arch-fallback.conf",
            "bootctl set-default chose \"arch-f*\" (LoaderEntryDefault)",
        ),
        (
            "LoaderEntryOneShot",
            "arch-fallback.conf",
            "arch-fallback.conf",
            "bootctl set-oneshot chose \"arch-fallback.conf\" (LoaderEntryOneShot)",
        ),
        (
            "LoaderEntryOneShot",
            "gone.conf",
            "arch.conf",
            "default in /boot/loader/loader.conf is \"arch.conf\"",
        ),
    ] {
        let mut text = format!("-- {}: efi --\n{value}\n", variable(name));
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../testkit/boot-trees/arch-systemd-boot.txt"
        );
        text.insert_str(0, &std::fs::read_to_string(path).unwrap());
        let tree = BootTree::of(&text);
        std::fs::write(tree.at("/boot/initramfs-linux-fallback.img"), "x").unwrap();
        assert_eq!(next(&tree), (expected.to_owned(), reason.to_owned()));
    }
}

#[test]
fn a_configuration_that_is_not_readable_is_told() {
    let tree = BootTree::of("-- /boot/grub/grub.cfg: link grub.cfg --\n");
    assert_eq!(read(tree.root()).loader, Loader::None);
    let tree = BootTree::of("-- /boot/grub/grub.cfg --\nset x=1\n");
    let boot = read(tree.root());
    assert_eq!((boot.loader, boot.next), (Loader::None, None));
    assert!(
        boot.reason.ends_with("but no entry of it was found"),
        "{}",
        boot.reason
    );
}

#[test]
fn lines_that_grub_does_not_understand_are_told() {
    let tree = BootTree::named("grub-script");
    tree.grubenv("/boot/grub/grubenv", &["wrong=1"]);
    let boot = read(tree.root());
    let expected = [
        "/boot/grub/grub.cfg has a line that GRUB does not understand",
        "/boot/grub/grub.cfg has commands that are not known: no_such_command",
    ];
    assert_eq!(boot.notes, expected);
    let options = &boot.entries[0].options;
    assert!(
        options.contains("state=no-went-on-after-files"),
        "{options}"
    );
}

#[test]
fn kernels_without_entries_come_last() {
    let tree = BootTree::named("arch-systemd-boot");
    for path in [
        "/boot/vmlinuz-6.1.0-9-amd64",
        "/boot/initrd.img-6.1.0-9-amd64",
        "/boot/vmlinuz-6.0.0",
    ] {
        tree.write(path, "");
    }
    let boot = read(tree.root());
    let [.., first, second] = &boot.entries[..] else {
        panic!("{boot:?}");
    };
    assert_eq!((&*first.release, &first.number), ("6.1.0-9-amd64", &None));
    assert_eq!(
        first.initrds,
        [std::path::Path::new("/boot/initrd.img-6.1.0-9-amd64")]
    );
    assert_eq!(second.problems, [Problem::InitrdUnknown]);
}
