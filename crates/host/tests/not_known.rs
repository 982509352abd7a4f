//! What cannot be known is said, and nothing is guessed in its place.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use brisk_host::boot_entries::{BootEntries, Kind, Loader, Problem, read};
use brisk_testkit::BootTree;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Entries as they are read without the right to read everything, where nobody may look at a path.
fn read_without(tree: &BootTree, path: &str) -> BootEntries {
    let locked = tree.at(path);
    fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
    let root = tree.root().to_owned();
    // Capabilities are those of a thread.
    let reader = std::thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective
            .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, sets).unwrap();
        read(&root)
    });
    let boot = reader.join().unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o755)).unwrap();
    boot
}

#[test]
fn what_may_not_be_read_may_have_the_next_entry() {
    for (name, path) in [
        ("debian-12", "/boot/grub/grubenv"),
        ("fedora-41", "/boot/loader"),
        ("fedora-41", "/boot/loader/entries"),
        ("arch-systemd-boot", "/boot"),
        ("arch-systemd-boot", "/boot/loader/entries"),
        ("uki-firmware", "/efi"),
    ] {
        let tree = BootTree::named(name);
        if name == "debian-12" {
            tree.grubenv(path, &["next_entry=1>2"]);
        }
        let boot = read_without(&tree, path);
        assert_eq!((&boot.default, &boot.next), (&None, &None), "{name} {path}");
        let is_told = boot
            .notes
            .iter()
            .any(|it| it.contains("cannot be read: ") && it.ends_with("; try it as root"));
        assert!(is_told, "{name} {path} {:?}", boot.notes);
        let boot = read(tree.root());
        assert!(boot.next.is_some() && boot.notes.is_empty(), "{boot:?}");
    }
}

#[test]
fn what_is_not_mounted_may_have_a_boot_loader() {
    let kernel = "-- /usr/lib/modules/6.1/vmlinuz --\n-- /usr/lib/modules/6.1/initrd --\n";
    let fstab = "-- /etc/fstab --\nUUID=aaaa / ext4\nUUID=bbbb /boot ext4\n";
    let root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
    let boot = "23 22 8:2 / /boot rw - ext4 /dev/sda2 rw\n";
    for (mounts, expected) in [
        (root.to_owned(), None),
        (format!("{root}{boot}"), Some(0)),
        (String::new(), Some(0)),
    ] {
        let tree = format!("{kernel}{fstab}-- /proc/self/mountinfo --\n{mounts}");
        let boot = read(BootTree::of(&tree).root());
        assert_eq!(boot.loader, Loader::None);
        assert_eq!(boot.next.map(|it| it.entry), expected, "{mounts}");
        let note = "/boot of /etc/fstab is not mounted; try mount /boot";
        assert_eq!(boot.notes.contains(&note.to_owned()), expected.is_none());
    }
}

/// The entries of a script of GRUB, on a system with two kernels.
fn grub(script: &str) -> BootEntries {
    let system = concat!(
        "-- /proc/self/mountinfo --\n",
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        "-- /dev/disk/by-uuid/aaaa: link ../../sda1 --\n",
        "-- /boot/one: kernel 1.0 --\n",
        "-- /boot/two: kernel 2.0 --\n",
        "-- /boot/grub/other.cfg --\n",
        "menuentry ours { linux /boot/two }\n",
    );
    read(BootTree::of(&format!("{system}-- /boot/grub/grub.cfg --\n{script}")).root())
}

const ONE: &str = "menuentry one {\n linux /boot/one\n}\n";

#[test]
fn sectors_that_are_started_are_an_entry() {
    for arguments in ["+1", "--force +1", "(hd1)+1"] {
        let boot = grub(&format!(
            "set fallback=1\nmenuentry Windows {{\n set root=(hd0,1)\n chainloader {arguments}\n}}\n{ONE}"
        ));
        let next = boot.next.unwrap();
        let entry = &boot.entries[next.entry];
        assert_eq!((&*entry.title, entry.kind), ("Windows", Kind::Other));
        assert_eq!((&*entry.kernel, &*entry.problems), (Path::new(""), &[][..]));
    }
}

#[test]
fn what_is_on_another_file_system_starts() {
    for body in [
        "search --fs-uuid --set=root bbbb\n linux /boot/one",
        "loopback loop /boot/two\n linux (loop)/boot/one",
        "loopback iso /boot/two\n set root=(iso)\n linux /boot/one",
        "search --fs-uuid --set=root bbbb\n configfile /boot/grub/other.cfg",
    ] {
        let boot = grub(&format!(
            "set fallback=1\nmenuentry other {{\n {body}\n}}\n{ONE}"
        ));
        let next = boot.next.unwrap();
        let entry = &boot.entries[next.entry];
        assert_eq!(entry.title, "other", "{body}");
        assert_eq!(entry.problems, [Problem::Elsewhere], "{body}");
    }
}

#[test]
fn files_of_other_file_systems_are_not_ours() {
    let boot = grub(&format!(
        "search --fs-uuid --set=root bbbb\nif [ -f /boot/two ]; then\n set default=1\nfi\nsource /boot/grub/other.cfg\nset root=boot\n{ONE}"
    ));
    let titles: Vec<_> = boot.entries.iter().map(|it| &*it.title).collect();
    assert_eq!(titles[0], "one");
    assert!(!titles.contains(&"ours"), "{titles:?}");
}

#[test]
fn what_is_not_run_as_grub_would_is_told() {
    for (script, what) in [
        ("if regexp a b; then true; fi\n", "regexp"),
        (
            "for i in /boot/*.iso; do true; done\n",
            "patterns of file names",
        ),
        (
            "blscfg\n",
            "blscfg, whose directory of entries was not found",
        ),
    ] {
        let boot = grub(&format!("{script}{ONE}"));
        let note = format!("/boot/grub/grub.cfg uses what is not known here: {what}");
        assert_eq!(boot.notes, [note]);
    }
    let boot = grub(&format!(
        "if hwmatch /x 3; then\n if [ $match = 0 ]; then set default=1; fi\nfi\n{ONE}{}",
        ONE.replace("one", "two")
    ));
    assert_eq!((boot.next.unwrap().entry, &*boot.notes), (1, &[][..]));
}

#[test]
fn systemd_boot_leaves_out_what_is_not_there() {
    let system = concat!(
        "-- /boot/EFI/systemd/systemd-bootx64.efi --\n",
        "-- /boot/k: kernel 1.0 --\n",
        "-- /boot/loader/entries/a.conf --\nlinux /k\n",
        "-- /boot/loader/entries/b.conf --\ntitle first\ntitle \"last\"\nlinux /gone\nlinux /k\noptions \"x y\"\n",
        "-- /boot/loader/entries/c.conf --\nlinux /gone\n",
        "-- /boot/loader/entries/d.conf --\nlinux /gone\n",
    );
    for (defaults, expected) in [
        ("", "b.conf"),
        ("default c.conf\n", "b.conf"),
        ("default c\n", "b.conf"),
        ("default *\n", "b.conf"),
        ("default b.conf\ndefault a.conf\n", "a.conf"),
        ("default \"a.conf\"\n", "a.conf"),
    ] {
        let tree = BootTree::of(&format!(
            "{system}-- /boot/loader/loader.conf --\n{defaults}"
        ));
        let boot = read(tree.root());
        assert_eq!(
            boot.entries[boot.next.unwrap().entry].id,
            expected,
            "{defaults}"
        );
        let last = boot.entries.iter().find(|it| it.id == "b.conf").unwrap();
        assert_eq!((&*last.title, &*last.options), ("last", "x y"));
    }
}

#[test]
fn other_boot_loaders_are_not_guessed() {
    let tree = BootTree::named("debian-12");
    assert!(read(tree.root()).next.is_some());
    let path = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let wide: Vec<u8> = "rEFInd 0.14"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    fs::create_dir_all(tree.at(path).parent().unwrap()).unwrap();
    fs::write(tree.at(path), [&[6, 0, 0, 0][..], &wide].concat()).unwrap();
    let boot = read(tree.root());
    assert_eq!(
        (boot.loader, boot.default, boot.next),
        (Loader::None, None, None)
    );
    let note = "the EFI variable LoaderInfo is \"rEFInd 0.14\", a boot loader whose configuration is not known here";
    assert_eq!(boot.notes, [note]);
}

#[test]
fn grub_has_its_configuration_on_the_efi_system_partition() {
    let system = concat!(
        "-- /etc/os-release --\nID=rhel\n",
        "-- /boot/k: kernel 4.18 --\n",
        "-- /boot/loader/entries/a.conf --\ntitle a\nlinux /k\n",
        "-- /boot/loader/entries/b.conf --\ntitle b\nlinux /k\n",
        "-- /boot/efi/EFI/aaaa/grub.cfg --\nconfigfile /boot/grub2/grub.cfg\n",
    );
    let whole = "-- /boot/efi/EFI/redhat/grub.cfg --\nload_env\nset default=$saved_entry\nblscfg\n";
    let tree = BootTree::of(&format!("{system}{whole}"));
    tree.grubenv("/boot/efi/EFI/redhat/grubenv", &["saved_entry=a"]);
    let boot = read(tree.root());
    assert_eq!(boot.loader, Loader::Grub);
    assert_eq!(boot.entries[boot.next.unwrap().entry].id, "a");
    assert_eq!(read(BootTree::of(system).root()).loader, Loader::None);
}

#[test]
fn help_of_extlinux_is_no_option() {
    let script = concat!(
        "-- /extlinux/extlinux.conf --\nDEFAULT one\nAPPEND all\n",
        "LABEL one\n LINUX /boot/one\n TEXT HELP\n  default two\n  append x\n ENDTEXT\n",
        "LABEL two\n LINUX /boot/one\n APPEND own\n",
        "-- /boot/one: kernel 1.0 --\n",
    );
    let boot = read(BootTree::of(script).root());
    let options: Vec<_> = boot.entries.iter().map(|it| &*it.options).collect();
    assert_eq!(options, ["all", "own"]);
    assert_eq!(boot.next.unwrap().entry, 0);
}

#[test]
fn configurations_of_other_boot_loaders_are_no_reason_to_guess() {
    for (path, loader) in [
        ("/etc/lilo.conf", "LILO"),
        ("/boot/grub/menu.lst", "GRUB Legacy"),
        ("/boot/grub/grub.conf", "GRUB Legacy"),
        ("/efi/limine.conf", "Limine"),
        ("/boot/efi/EFI/refind/refind.conf", "rEFInd"),
        ("/boot/armbianEnv.txt", "U-Boot"),
        ("/boot/firmware/config.txt", "Raspberry"),
    ] {
        let kernels = "-- /boot/vmlinuz-6.1: kernel 6.1 --\n-- /boot/initrd.img-6.1: initrd --\n";
        let tree = BootTree::of(kernels);
        assert!(read(tree.root()).next.is_some());
        let tree = BootTree::of(&format!("{kernels}-- {path} --\n"));
        let boot = read(tree.root());
        assert_eq!(boot.next, None, "{path}");
        let is_told = |it: &String| it.contains(path) && it.contains(loader);
        assert!(boot.notes.iter().any(is_told), "{:?}", boot.notes);
    }
}

#[test]
fn partitions_of_proxmox_that_are_not_mounted_are_told() {
    let system = "-- /etc/fstab --\nUUID=1111 / ext4\nUUID=AAAA-0001 /boot/efi vfat\n\
                  -- /boot/grub/grub.cfg --\nmenuentry a { linux /boot/k ; }\n-- /boot/k: kernel 6.8 --\n\
                  -- /etc/kernel/proxmox-boot-uuids --\n";
    let boot = read(BootTree::of(&format!("{system}AAAA-0002\nBBBB-0002\n")).root());
    assert_eq!((boot.loader, &boot.next), (Loader::None, &None));
    assert!(
        boot.notes[0].contains("/dev/disk/by-uuid/AAAA-0002"),
        "{boot:#?}"
    );
    for uuids in ["AAAA-0002\naaaa-0001\n", "# none\n\n"] {
        let boot = read(BootTree::of(&format!("{system}{uuids}")).root());
        assert!(boot.next.is_some(), "{uuids}");
    }
    // Its own configuration, with copies of the kernels.
    let own = "-- /boot/efi/grub/grub.cfg --\nsearch --fs-uuid --set=root AAAA-0001\n\
               menuentry b { linux /k-6.5 ; }\n-- /boot/efi/k-6.5: kernel 6.5 --\n";
    let boot = read(BootTree::of(&format!("{system}AAAA-0001\n{own}")).root());
    assert_eq!(
        boot.entries[0].kernel,
        std::path::Path::new("/boot/efi/k-6.5")
    );
}
