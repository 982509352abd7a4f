//! Unified kernel images, their addons, and what chooses among them.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use brisk_host::boot_entries::{BootEntries, Entry, Kind, read};
use brisk_testkit::BootTree;

/// systemd-boot of a version.
fn systemd_boot(version: &str) -> String {
    format!(
        "-- /efi/EFI/systemd/systemd-bootx64.efi --\n#### LoaderInfo: systemd-boot {version} ####\n"
    )
}

/// An EFI variable of boot loaders.
fn variable(name: &str, value: &str) -> String {
    let vendor = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    format!("-- /sys/firmware/efi/efivars/{name}-{vendor}: efi --\n{value}\n")
}

/// Whether Secure Boot is on.
fn secure(tree: &BootTree, is_on: bool) {
    let name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let path = tree.at(&format!("/sys/firmware/efi/efivars/{name}"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, [6, 0, 0, 0, u8::from(is_on)]).unwrap();
}

#[track_caller]
fn entry<'a>(boot: &'a BootEntries, id: &str) -> &'a Entry {
    let found = boot.entries.iter().find(|it| it.id == id);
    found.unwrap_or_else(|| panic!("no {id} in {boot:#?}"))
}

/// Identifier and reason of the next entry.
fn next(boot: &BootEntries) -> Option<(&str, &str)> {
    let next = boot.next.as_ref()?;
    Some((&boot.entries[next.entry].id, &next.reason))
}

/// Generations 1 to 3, of which all boots of the second one have failed.
const GENERATIONS: &str = "\
-- /efi/loader/loader.conf --
preferred g-2.conf
default g-1.conf
-- /efi/loader/entries/g-1.conf --
title NixOS
version Generation 1 of NixOS
linux /k1
-- /efi/loader/entries/g-2+0-3.conf --
title NixOS
linux /k1
-- /efi/loader/entries/g-3.conf --
title NixOS
version 6.9.1
linux /k2
-- /efi/k1 --
-- /efi/k2 --
";

#[test]
fn a_preferred_entry_is_one_whose_boots_did_not_fail() {
    let of_preferred = "preferred in /efi/loader/loader.conf is \"g-3.conf\"";
    let of_default = "default in /efi/loader/loader.conf is \"g-1.conf\"";
    let of_variable = "bootctl set-preferred chose \"g-3.conf\" (LoaderEntryPreferred)";
    let good = GENERATIONS.replace("preferred g-2", "preferred g-3");
    let preferred = variable("LoaderEntryPreferred", "g-3.conf");
    for (version, text, expected) in [
        ("260.1", GENERATIONS, Some(("g-1.conf", of_default))),
        ("260.1", &good, Some(("g-3.conf", of_preferred))),
        (
            "261",
            &good.replace("default", "#"),
            Some(("g-3.conf", of_preferred)),
        ),
        (
            "260.1",
            &format!("{GENERATIONS}{preferred}"),
            Some(("g-3.conf", of_variable)),
        ),
        ("259.2", &good, Some(("g-1.conf", of_default))),
        ("", &good, None),
        ("", GENERATIONS, Some(("g-1.conf", of_default))),
    ] {
        let tree = BootTree::of(&format!("{}{text}", systemd_boot(version)));
        let boot = read(tree.root());
        assert_eq!(next(&boot), expected, "{version} {boot:#?}");
        let is_told = boot
            .notes
            .iter()
            .any(|it| it.contains("counts from systemd-boot 260 on"));
        assert_eq!(is_told, expected.is_none(), "{boot:#?}");
    }
    // A sentence is no release.
    let tree = BootTree::of(&format!("{}{GENERATIONS}", systemd_boot("255")));
    let boot = read(tree.root());
    let releases = ["g-1.conf", "g-3.conf"].map(|id| &*entry(&boot, id).release);
    assert_eq!(releases, ["", "6.9.1"]);
}

#[test]
fn systemd_boot_may_have_another_name() {
    for (program, is_one) in [
        ("/efi/EFI/systemd/grub.efi", true),
        ("/efi/EFI/BOOT/BOOTX64.EFI", true),
        ("/efi/EFI/other/grub.efi", false),
    ] {
        let tree = BootTree::of(&format!(
            "{GENERATIONS}-- {program} --\nMZ #### LoaderInfo: systemd-boot 255.4 ####\n"
        ));
        assert_eq!(next(&read(tree.root())).is_some(), is_one, "{program}");
    }
}

#[test]
fn addons_add_to_command_lines() {
    let addon = |path: &str, more: &str| format!("-- {path}: pe --\n{more}\n");
    let text = [
        systemd_boot("257"),
        "-- /efi/loader/loader.conf --\n-- /efi/EFI/Linux/a+3.efi: uki 6.11.1 --\n\
         .cmdline root=/dev/a ro\n-- /efi/EFI/Linux/b.efi: uki 6.11.2 --\n.cmdline root=/dev/b\n"
            .to_owned(),
        addon("/efi/loader/addons/z.addon.efi", ".cmdline all=1"),
        addon(
            "/efi/EFI/Linux/a.efi.extra.d/b.addon.efi",
            ".cmdline fips=1\n.uname 6.11.1",
        ),
        addon(
            "/efi/EFI/Linux/a.efi.extra.d/a.addon.efi",
            ".cmdline first=1",
        ),
        addon(
            "/efi/EFI/Linux/a.efi.extra.d/c.addon.efi",
            ".cmdline other=1\n.uname 6.11.2",
        ),
        addon("/efi/EFI/Linux/a.efi.extra.d/no.efi", ".cmdline no=1"),
        "-- /efi/EFI/Linux/b.efi.extra.d/key.cred --\n".to_owned(),
    ];
    let tree = BootTree::of(&text.concat());
    let boot = read(tree.root());
    let options = ["a.efi", "b.efi"].map(|id| &*entry(&boot, id).options);
    let expected = ["root=/dev/a ro all=1 first=1 fips=1", "root=/dev/b all=1"];
    assert_eq!(options, expected);
    let note = "/efi/EFI/Linux/b.efi.extra.d/key.cred is handed to the system by the stub of a \
                unified kernel image, and not by kexec";
    assert_eq!(boot.notes, [note]);
    assert!(boot.next.is_some());
}

#[test]
fn words_of_a_boot_loader_replace_those_of_an_image_without_secure_boot() {
    let grub = "-- /boot/grub/grub.cfg --\n\
                menuentry own { chainloader /EFI/k.efi mode=run console=ttyS0 ; }\n\
                menuentry none { chainloader /EFI/n.efi mode=run ; }\n\
                -- /boot/efi/EFI/k.efi: uki 6.11.1 --\n.cmdline root=/dev/a\n\
                -- /boot/efi/EFI/n.efi: uki 6.11.1 --\n";
    for (is_secure, own, is_told) in [
        (Some(false), "mode=run console=ttyS0", false),
        (Some(true), "root=/dev/a", false),
        (None, "mode=run console=ttyS0", true),
    ] {
        let tree = BootTree::of(grub);
        if let Some(is_secure) = is_secure {
            secure(&tree, is_secure);
        }
        let boot = read(tree.root());
        let options = ["own", "none"].map(|id| &*entry(&boot, id).options);
        assert_eq!(options, [own, "mode=run"], "{is_secure:?}");
        let note = boot
            .notes
            .iter()
            .any(|it| it.contains("with Secure Boot it ignores"));
        assert_eq!(note, is_told, "{:?}", boot.notes);
    }
}

#[test]
fn stubs_that_name_their_files_are_followed() {
    let stub = |kernel: &str| {
        format!(
            "{}-- /efi/loader/loader.conf --\n-- /efi/EFI/Linux/nixos-1.efi: pe --\n.linux {kernel}\n\
             .linuxh 0123\n.initrd \\EFI\\nixos\\initrd.efi\n.initrdh 4567\n.cmdline init=/nix/1 quiet\n\
             .osrel PRETTY_NAME=NixOS\n-- /efi/EFI/nixos/kernel.efi: kernel 6.6.1 --\n\
             -- /efi/EFI/nixos/initrd.efi: initrd --\n",
            systemd_boot("256")
        )
    };
    let tree = BootTree::of(&stub("\\EFI\\nixos\\kernel.efi"));
    let boot = read(tree.root());
    let found = entry(&boot, "nixos-1.efi");
    assert_eq!((found.kind, &*found.release), (Kind::Linux, "6.6.1"));
    assert_eq!(
        found.kernel,
        std::path::Path::new("/efi/EFI/nixos/kernel.efi")
    );
    assert_eq!(
        found.initrds,
        [std::path::Path::new("/efi/EFI/nixos/initrd.efi")]
    );
    assert_eq!(found.options, "init=/nix/1 quiet");
    // So does an entry of the stub.
    let entry_of_stub = "-- /efi/loader/entries/x.conf --\nefi /EFI/Linux/nixos-1.efi\n";
    let tree = BootTree::of(&format!(
        "{}{entry_of_stub}",
        stub("\\EFI\\nixos\\kernel.efi")
    ));
    let boot = read(tree.root());
    assert_eq!(entry(&boot, "x.conf").options, "init=/nix/1 quiet");
    // One that names itself.
    let tree = BootTree::of(&stub("\\EFI\\Linux\\nixos-1.efi"));
    assert_eq!(entry(&read(tree.root()), "nixos-1.efi").kind, Kind::Other);
}

#[test]
fn profiles_of_an_image_are_told() {
    let text = |default: &str| {
        format!(
            "{}-- /efi/loader/loader.conf --\ndefault {default}\n-- /efi/EFI/Linux/a.efi: uki 6.11.1 --\n\
             .cmdline root=/dev/a\n.profile ID=main\n",
            systemd_boot("257")
        )
    };
    let boot = read(BootTree::of(&text("a.efi@reset")).root());
    assert_eq!(boot.next, None);
    assert!(
        boot.notes[0].contains("a profile of a unified kernel image"),
        "{boot:#?}"
    );
    let boot = read(BootTree::of(&text("a.efi")).root());
    assert_eq!(next(&boot).map(|it| it.0), Some("a.efi"));
}
