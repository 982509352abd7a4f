//! Archives of others, as `brisk initramfs list` and `brisk reboot check` show them.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;

use brisk_testkit::{Brisk, brisk_of};
use brisk_vm::initramfs::cpio::{FILE, Writer};
use tempfile::tempdir;

const NAME: &str = "a\nbrisk: error: forged\r\u{1b}[2J\u{202e}";

fn archive() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.add(NAME, FILE | 0o644, (0, 0), b"x").unwrap();
    writer.finish().unwrap()
}

/// No line is one that the archive's names make up, and no character rules the terminal.
fn forges_nothing(brisk: Brisk) -> String {
    let output = brisk.output();
    let both = output.text() + &output.stderr;
    let is_bad = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
    assert!(!both.contains(is_bad), "{both:?}");
    let forged = both
        .lines()
        .any(|line| line.starts_with("brisk: error: forged"));
    assert!(!forged, "{both}");
    both
}

#[test]
fn names_of_an_archive_forge_no_lines() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let whole = archive();
    fs::write(at("whole"), &whole).unwrap();
    fs::write(at("cut"), &whole[..whole.len() - 140]).unwrap();
    fs::write(at("twice"), [&whole[..], &whole].concat()).unwrap();
    for name in ["whole", "cut", "twice"] {
        for format in ["table", "csv"] {
            let list = brisk_of!["initramfs", "list", at(name), "--format", format];
            let _ = forges_nothing(list);
        }
    }
    let shown = forges_nothing(brisk_of!["initramfs", "list", at("whole")]);
    assert!(
        shown.contains(r"a\nbrisk: error: forged\r\u{1b}[2J"),
        "{shown}"
    );
}

#[test]
fn an_archive_in_the_root_of_another_machine_forges_no_lines() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("boot/grub")).unwrap();
    let whole = archive();
    fs::write(at("boot/initrd"), &whole[..whole.len() - 140]).unwrap();
    fs::write(at("boot/vmlinuz"), "no kernel").unwrap();
    let entry =
        "menuentry 'x\u{1b}[2J' {\n linux /boot/vmlinuz a=\u{1b}[2J\n initrd /boot/initrd\n}\n";
    fs::write(at("boot/grub/grub.cfg"), entry).unwrap();
    for words in [
        &["reboot", "check", "--no-trial-load"][..],
        &["reboot", "list"],
    ] {
        let brisk = brisk_of!().args(words).arg("--root").arg(dir.path());
        let _ = forges_nothing(brisk);
    }
}

#[test]
fn every_archive_is_listed_as_the_kernel_unpacks_it() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("initrd");
    let list = |format: &str| brisk_of!["initramfs", "list", &path, "--format", format];
    let archive_of = |name: &str| {
        let mut writer = Writer::default();
        writer.add(name, FILE | 0o644, (0, 0), b"x").unwrap();
        writer.finish().unwrap()
    };
    // As distributions make them: microcode, and the rest compressed behind it.
    let zstd = zstd::encode_all(&archive_of("second,\"quoted\"")[..], 1).unwrap();
    let both = [&archive_of("first")[..], &zstd].concat();
    fs::write(&path, &both).unwrap();
    let shown = list("csv").exits(0).text();
    assert_eq!(
        shown,
        "mode,size,path\n100644,1,first\n100644,1,\"second,\\\"\"quoted\\\"\"\"\n"
    );
    let json: serde_json::Value = serde_json::from_str(&list("json").exits(0).text()).unwrap();
    let entries = json["entries"].as_array().unwrap();
    let compressions: Vec<_> = entries
        .iter()
        .map(|entry| entry["compression"].as_str())
        .collect();
    assert_eq!(compressions, [None, Some("zstd")]);
    // A defect is not passed over, and what was before it is shown.
    fs::write(&path, &both[..both.len() - 5]).unwrap();
    let cut = list("csv").exits(125);
    assert!(cut.text().contains("first"), "{}", cut.text());
    let _ = cut.explains(&["cannot list", "truncated"]);
    fs::write(&path, [&both[..], b"junk"].concat()).unwrap();
    let _ = list("csv").exits(125).explains(&["neither a cpio archive"]);
    fs::write(&path, [&archive_of("init")[..], b"junk"].concat()).unwrap();
    let _ = list("csv")
        .exits(0)
        .explains(&["is no archive", "ignores it"]);
}
