//! Trees whose makers mean harm: what they ask for is not done, and each list comes to an end.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use brisk_host::boot_entries::{read, text};
use brisk_host::kernel::installed;
use brisk_testkit::BootTree;
use rustix::fs::{CWD, FileType, Mode, mknodat};

#[test]
fn kernels_outside_of_the_root_are_none_of_its() {
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("6.9.9-outside")).unwrap();
    fs::write(outside.path().join("6.9.9-outside/vmlinuz"), "x").unwrap();
    fs::write(outside.path().join("vmlinuz-6.9.8"), "x").unwrap();
    fs::write(outside.path().join("cmdline"), "secret\n").unwrap();
    let tree = BootTree::of("-- /usr/lib/x --\n-- /proc/x --\n-- /boot/vmlinuz-6.1.0 --\n");
    symlink(outside.path(), tree.at("/usr/lib/modules")).unwrap();
    symlink(
        outside.path().join("vmlinuz-6.9.8"),
        tree.at("/boot/vmlinuz-6.9.8"),
    )
    .unwrap();
    symlink(outside.path().join("cmdline"), tree.at("/proc/cmdline")).unwrap();
    let versions = |kernels: Vec<brisk_host::kernel::Installed>| {
        let versions = kernels.into_iter().map(|it| it.version);
        versions.collect::<Vec<_>>()
    };
    assert_eq!(versions(installed(tree.root())), ["6.1.0"]);
    let releases: Vec<_> = read(tree.root()).entries;
    assert_eq!(releases.len(), 1);
    assert_eq!(text(tree.root(), Path::new("/proc/cmdline")), None);
    assert_eq!(
        text(tree.root(), Path::new("/boot/vmlinuz-6.1.0")).as_deref(),
        Some("")
    );
}

#[test]
fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
    let tree = BootTree::of("-- /boot/vmlinuz-linux --\n-- /usr/lib/modules/6.1/x --\n");
    let pipe = tree.at("/usr/lib/modules/6.1/pkgbase");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    assert!(installed(tree.root()).is_empty());
}

#[test]
fn entries_of_great_size_are_not_all_read() {
    let mut large = String::from("title t\nlinux /vmlinuz\n");
    large.push_str(&format!("a {}\n", "1".repeat(4000)).repeat(240));
    large.push_str("linux /beyond\n");
    for tree in [
        "-- /boot/grub2/grub.cfg --\nblscfg\n-- /boot/loader/entries/x --\n",
        "-- /boot/EFI/systemd/systemd-bootx64.efi --\n-- /boot/loader/entries/x --\n",
    ] {
        let tree = BootTree::of(tree);
        tree.write("/boot/loader/entries/0.conf", &large);
        for number in 1..700 {
            let path = tree.at(&format!("/boot/loader/entries/{number}.conf"));
            symlink("0.conf", path).unwrap();
        }
        let boot = read(tree.root());
        let beyond = boot.entries.iter().any(|it| it.kernel.ends_with("beyond"));
        assert!(!beyond);
    }
}

#[test]
fn paths_of_great_length_lead_nowhere() {
    let path = "/a".repeat(100_000);
    let script = format!("-- /boot/grub/grub.cfg --\nmenuentry x {{\n linux {path}\n}}\n");
    let boot = read(BootTree::of(&script).root());
    assert!(boot.entries.is_empty(), "{}", boot.entries.len());
}

#[test]
fn variables_of_many_entries_are_work() {
    let mut script = String::from("-- /boot/grub/grub.cfg --\n");
    for start in (0..120_000).step_by(900) {
        script.push_str("export");
        for number in start..start + 900 {
            write!(script, " a{number}").unwrap();
        }
        script.push('\n');
    }
    let words = " x".repeat(999);
    let entry = "menuentry a {\n linux /v\n}";
    writeln!(script, "for i in{words}; do {entry}\ndone").unwrap();
    let boot = read(BootTree::of(&script).root());
    assert!(boot.entries.len() < 100, "{}", boot.entries.len());
    assert_eq!((boot.default, boot.next), (None, None));
    assert!(
        boot.notes[0].ends_with("was not run to its end"),
        "{:?}",
        boot.notes
    );
}
