//! Whether a machine can be restarted without its firmware, as guests of an installed kernel say.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use brisk_host::kernel;
use brisk_testkit::{Brisk, Files, brisk, brisk_of};
use brisk_vm::initramfs::cpio::{DIR, FILE, Writer};
use serde_json::Value;

const BRISK: &str = env!("CARGO_BIN_EXE_brisk");
/// Shows whether a kernel is loaded.
const LOADED: &str = "echo \"=== loaded $(cat /sys/kernel/kexec/loaded /sys/kernel/kexec_loaded \
                      2>/dev/null | head -n 1)\"";
/// Loads or unloads a kernel as another program does: kexec_file_load(2) has number 320.
const OTHER: &str = r#"other() { perl -e 'open(K, "<", $ARGV[0]) and open(I, "<", $ARGV[1]) or die $!;
    my $line = "x=1\0"; syscall(320, fileno(K), fileno(I), 4, $line, $ARGV[2] + 0) == 0 or die $!' "$@"; }"#;

/// The kernel that brisk boots, which is what the guest runs.
fn image() -> String {
    let root = std::path::Path::new("/");
    let found = kernel::resolve(root, None, &kernel::running()).unwrap();
    found.image.to_str().unwrap().to_owned()
}

/// An initial RAM disk with a file of so many zeros.
fn initrd(zeros: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.add("dev", DIR | 0o755, (0, 0), &[]).unwrap();
    let zeros = vec![0; zeros];
    writer.add("zeros", FILE | 0o644, (0, 0), &zeros).unwrap();
    writer.finish().unwrap()
}

/// Something that has all of a kernel's headers and would not run.
fn small_kernel() -> Vec<u8> {
    let mut elf = vec![0; 0x200];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
    for (at, value) in [(20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, 1)] {
        elf[at] = value;
    }
    let segment = [
        0x100,
        0xffff_ffff_8100_0000,
        0x100_0000,
        0x100,
        0x100,
        0x20_0000_u64,
    ];
    for (number, value) in segment.iter().enumerate() {
        elf[72 + 8 * number..80 + 8 * number].copy_from_slice(&value.to_le_bytes());
    }
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
    image[0x211] = 1;
    image[0x236] = 0x7f;
    image[0x238..0x23a].copy_from_slice(&2047_u16.to_le_bytes());
    image[0x24c..0x24e].copy_from_slice(&(elf.len() as u16).to_le_bytes());
    image.extend(elf);
    image
}

/// A unified kernel image: a PE file with these sections.
fn uki(sections: &[(&[u8; 8], &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    let put = |bytes: &mut Vec<u8>, at: usize, value: u32| {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    bytes[..2].copy_from_slice(b"MZ");
    put(&mut bytes, 0x3c, 0x40);
    bytes[0x40..0x44].copy_from_slice(b"PE\0\0");
    // x86-64, with an optional header of 16 directories.
    put(&mut bytes, 0x44, 0x8664 | (sections.len() as u32) << 16);
    put(&mut bytes, 0x54, 240);
    put(&mut bytes, 0x58, 0x20b);
    put(&mut bytes, 0x58 + 60, 0x400);
    put(&mut bytes, 0x58 + 108, 16);
    for (number, (name, content)) in sections.iter().enumerate() {
        let at = 0x58 + 240 + 40 * number;
        bytes[at..at + 8].copy_from_slice(*name);
        let (start, size) = (bytes.len() as u32, content.len() as u32);
        for (place, value) in [(8, size), (12, start), (16, size), (20, start)] {
            put(&mut bytes, at + place, value);
        }
        bytes.extend(*content);
    }
    bytes
}

fn write(files: &Files, name: &str, bytes: &[u8]) -> String {
    let path = files.at(name);
    File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

/// A line of a script that checks, and shows its exit status behind.
fn check(words: &str) -> String {
    format!("{BRISK} reboot check --format json {words}; echo \"=== status $?\"\n")
}

/// What a script showed: documents, each with what the line behind it says.
fn parts(text: &str) -> Vec<(Value, String)> {
    let mut parts = Vec::new();
    let mut document = String::new();
    for line in text.lines() {
        if let Some(end) = line.strip_prefix("=== ") {
            let value = match document.trim() {
                "" => Value::Null,
                text => serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")),
            };
            parts.push((value, end.to_owned()));
            document.clear();
        } else {
            document.push_str(line);
            document.push('\n');
        }
    }
    assert_eq!(document.trim(), "", "{text}");
    parts
}

#[track_caller]
fn parts_of(guest: Brisk, script: &str) -> Vec<(Value, String)> {
    let ended = guest.script(script).exits(0);
    parts(&ended.text())
}

/// Result of a rule.
fn result<'a>(value: &'a Value, rule: &str) -> &'a str {
    let rules = value["rules"].as_array().unwrap();
    let found = rules.iter().find(|one| one["rule"] == rule);
    found.unwrap()["result"].as_str().unwrap()
}

/// What a rule found.
fn what<'a>(value: &'a Value, rule: &str) -> &'a str {
    let findings = value["findings"].as_array().unwrap();
    let found = findings.iter().find(|one| one["rule"] == rule);
    found.unwrap_or_else(|| panic!("{rule}: {value:#}"))["what"]
        .as_str()
        .unwrap()
}

#[test]
fn a_guest_loads_on_trial_and_says_what_is_in_the_way() {
    let files = Files::new();
    let good = image();
    let small = write(&files, "small", &small_kernel());
    let (first, second) = (initrd(10), initrd(4096));
    let first = write(&files, "first", &first[..first.len() - 2]);
    let second = write(&files, "second", &second);
    let mut bytes = fs::read(&good).unwrap();
    let ram = fs::read(&second).unwrap();
    let sections: [(&[u8; 8], &[u8]); 3] = [
        (b".linux\0\0", &bytes),
        (b".initrd\0", &ram),
        (b".cmdline", b"x=1\0"),
    ];
    let unified = write(&files, "unified.efi", &uki(&sections));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    let corrupt = write(&files, "corrupt", &bytes);
    let cut = write(&files, "cut", &bytes[..middle]);
    let missing = files.at("missing");

    let checks = [
        check(&format!(
            "--kernel {good} --initrd {first} --initrd {second} --cmdline x=1"
        )),
        LOADED.to_owned() + "\n",
        check(&format!("--kernel {unified}")),
        check(&format!(
            "--kernel {corrupt} --initrd {second} --cmdline x=1"
        )),
        check(&format!("--kernel {cut} --initrd {second} --cmdline x=1")),
        check(&format!(
            "--kernel {small} --initrd {missing} --cmdline x=1"
        )),
        format!("{OTHER}\nother {good} {second} 0 || exit 9\n"),
        check(&format!("--kernel {small} --initrd {second} --cmdline x=1")),
        LOADED.to_owned() + "\n",
        format!("other {good} {second} 1 || exit 9\n"),
        "echo 1 > /proc/sys/kernel/kexec_load_disabled\n".to_owned(),
        check(&format!("--kernel {small} --initrd {second} --cmdline x=1")),
    ];
    let parts = parts_of(brisk!["--memory", "512M"], &checks.concat());
    let [
        trial,
        after,
        unified,
        corrupt,
        cut,
        missing,
        occupied,
        kept,
        disabled,
    ] = &parts[..]
    else {
        panic!("{parts:#?}");
    };
    assert_eq!(trial.1, "status 0", "{:#}", trial.0);
    assert_eq!(trial.0["verdict"], "warm");
    assert_eq!(trial.0["trial_load"]["result"], "passed");
    assert_eq!(result(&trial.0, "trial-load"), "pass");
    assert_eq!(after.1, "loaded 0");
    assert_eq!(unified.1, "status 0", "{:#}", unified.0);
    assert_eq!(unified.0["target"]["is_uki"], true);
    assert_eq!(unified.0["target"]["cmdline"], "x=1");
    assert_eq!(unified.0["trial_load"]["result"], "passed");

    for (value, status) in [corrupt, cut, missing, occupied, disabled] {
        assert_eq!(
            (status.as_str(), &value["verdict"]),
            ("status 11", &"refused".into())
        );
        assert_eq!(value["trial_load"]["result"], "left-out");
    }
    assert!(
        what(&corrupt.0, "kernel-unusable").contains("corrupt"),
        "{:#}",
        corrupt.0
    );
    assert!(
        what(&cut.0, "kernel-unusable").contains("truncated"),
        "{:#}",
        cut.0
    );
    assert!(what(&missing.0, "initrd-missing").contains("missing"));
    assert!(what(&occupied.0, "image-loaded").contains("loaded"));
    // It is somebody else's.
    assert_eq!(kept.1, "loaded 1");
    assert!(what(&disabled.0, "kexec-disabled").contains("kexec_load_disabled is 1"));
}

#[test]
fn a_guest_under_lockdown_refuses_what_it_does_not_trust() {
    let files = Files::new();
    let good = image();
    let small = write(&files, "small", &small_kernel());
    let second = write(&files, "second", &initrd(10));
    let script = [
        // Before, brisk's own modules would not load: they have no signatures any more.
        "mount -t securityfs none /sys/kernel/security || exit 9\n".to_owned(),
        "echo integrity > /sys/kernel/security/lockdown || exit 9\n".to_owned(),
        check(&format!("--kernel {small} --initrd {second} --cmdline x=1")),
        check(&format!("--kernel {good} --initrd {second} --cmdline x=1")),
        LOADED.to_owned(),
    ];
    let parts = parts_of(brisk!["--memory", "512M"], &script.concat());
    let [unsigned, signed, after] = &parts[..] else {
        panic!("{parts:#?}");
    };
    assert_eq!(
        (unsigned.1.as_str(), &unsigned.0["verdict"]),
        ("status 10", &"cold".into())
    );
    assert!(what(&unsigned.0, "unsigned-lockdown").contains("lockdown is integrity"));
    // Its signature is right, and the guest's kernel has no key: brisk leaves certificates out.
    assert_eq!(
        (signed.1.as_str(), &signed.0["verdict"]),
        ("status 11", &"refused".into())
    );
    assert_eq!(signed.0["trial_load"]["result"], "refused");
    assert!(
        what(&signed.0, "trial-load").contains("EPERM"),
        "{:#}",
        signed.0
    );
    assert_eq!(after.1, "loaded 0");
}

#[test]
fn a_guest_with_little_memory_refuses_a_large_initial_ram_disk() {
    let files = Files::new();
    let small = write(&files, "small", &small_kernel());
    let large = write(&files, "large", &initrd(80 << 20));
    let middle = write(&files, "middle", &initrd(50 << 20));
    let script = [
        check(&format!("--kernel {small} --initrd {large} --cmdline x=1")),
        check(&format!("--kernel {small} --initrd {middle} --cmdline x=1")),
        LOADED.to_owned(),
    ];
    let parts = parts_of(brisk!["--memory", "160M"], &script.concat());
    let [refused, warned, after] = &parts[..] else {
        panic!("{parts:#?}");
    };
    assert_eq!(
        (refused.1.as_str(), &refused.0["verdict"]),
        ("status 11", &"refused".into())
    );
    assert!(
        what(&refused.0, "memory").contains("kexec allows half of the machine's"),
        "{:#}",
        refused.0
    );
    // It may fit when services have stopped; the trial load would take from programs that run.
    assert_eq!(
        (warned.1.as_str(), &warned.0["verdict"]),
        ("status 0", &"warm".into())
    );
    assert!(
        what(&warned.0, "memory").contains("are available"),
        "{:#}",
        warned.0
    );
    assert_eq!(warned.0["trial_load"]["result"], "left-out");
    assert_eq!(after.1, "loaded 0");
}

#[test]
fn a_captured_tree_is_looked_at_and_nothing_is_loaded() {
    let files = Files::new();
    let tree = files.at("tree");
    let _ = files.write("tree/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
    let _ = files.write("tree/proc/sys/kernel/kexec_load_disabled", "0\n");
    let _ = files.write("tree/proc/self/status", "CapEff:\t000001ffffffffff\n");
    let _ = files.write(
        "tree/proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro initrd=/initrd.img\n",
    );
    let _ = files.write("tree/boot/initramfs-6.1.0-9-amd64.img", "");
    let _ = write(&files, "tree/boot/vmlinuz-6.1.0-9-amd64", &small_kernel());
    let _ = write(&files, "tree/boot/initramfs-6.1.0-9-amd64.img", &initrd(10));
    let run = |words: &[&str]| brisk_of!["reboot", "check", "--sysroot", &tree].args(words);
    let warm = run(&[]).exits(0).text();
    for part in [
        "Kernel        /boot/vmlinuz-6.1.0-9-amd64",
        "Initrd        /boot/initramfs-6.1.0-9-amd64.img",
        "Command line  root=/dev/sda2 ro\n",
        "note: it was left out: it is another system's tree [trial-load]",
        "Warm: ",
    ] {
        assert!(warm.contains(part), "{part}: {warm}");
    }
    let _ = files.write("tree/boot/efi/EFI/UpdateCapsule/bios.cap", "");
    let cold = run(&[]).exits(10).text();
    assert!(
        cold.contains("\nCold: restart it through its firmware (1 finding)."),
        "{cold}"
    );
    let refused = run(&["--cmdline", "quiet"]).exits(11).text();
    assert!(refused.contains("[command-line-root]"), "{refused}");
    assert!(refused.contains("\nRefused: "), "{refused}");
}

#[test]
fn a_kernel_that_is_a_pipe_or_a_device_is_not_waited_for() {
    let files = Files::new();
    let pipe = files.at("pipe");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    );
    made.unwrap();
    for (path, initrd) in [(&*pipe, "/dev/zero"), ("/dev/zero", &*pipe)] {
        let ended = brisk_of![
            "reboot",
            "check",
            "--no-trial-load",
            "--kernel",
            path,
            "--initrd",
            initrd
        ];
        let text = ended.exits(11).text();
        for part in [
            format!("Kernel        {path}\n"),
            format!("{path} cannot be used as a kernel: it is not a regular file"),
            format!("the initial RAM disk {initrd} is bad: it is not a regular file"),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
}

#[test]
fn names_that_are_no_text_are_shown_or_refused() {
    let check = |option: &str, name: &[u8]| {
        let words = ["reboot", "check", "--no-trial-load", "--format", "json"];
        let mut command = Command::new(BRISK);
        command.args(words).args(["--kernel", "/nonexistent/k"]);
        command
            .arg(option)
            .arg(OsStr::from_bytes(name))
            .output()
            .unwrap()
    };
    let ended = check("--initrd", b"/nonexistent/i\xff");
    assert_eq!(ended.status.code(), Some(11));
    let value: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(value["target"]["initrds"][0], "/nonexistent/i\u{fffd}");
    assert_eq!(value["target"]["release"], "");
    // A kernel is found by what it is called.
    let ended = check("--entry", b"6.1\xff");
    assert_eq!(ended.status.code(), Some(2));
}

#[test]
fn a_tree_without_a_running_kernel_needs_one_that_is_named() {
    let files = Files::new();
    let tree = files.at("tree");
    let _ = files.write("tree/boot/vmlinuz", "");
    let _ = write(&files, "tree/boot/vmlinuz", &small_kernel());
    let ended = brisk_of!["reboot", "check", "--sysroot", &tree].exits(125);
    let told = "/proc/sys/kernel/osrelease does not say which kernel runs; name one with --kernel";
    let ended = ended.explains(&[told]);
    assert!(!ended.stderr.contains(&tree), "{}", ended.stderr);
    // Paths are those of the tree, wherever this process is.
    for path in ["boot/gone", "/boot/gone"] {
        let ended = brisk_of![
            "reboot",
            "check",
            "--no-trial-load",
            "--sysroot",
            &tree,
            "--kernel",
            "/boot/vmlinuz",
            "--initrd",
            path
        ]
        .exits(11);
        let text = ended.text();
        let is_told = text.contains("the initial RAM disk /boot/gone is missing");
        assert!(is_told && !text.contains(&tree), "{text}");
    }
    let run = brisk_of![
        "reboot",
        "check",
        "--sysroot",
        &tree,
        "--kernel",
        "/boot/vmlinuz"
    ];
    let text = run.exits(0).text();
    assert!(
        text.contains("Not read: whether the kernel has kexec"),
        "{text}"
    );
}

#[test]
fn rules_are_listed_and_explained() {
    let rules = brisk_of!["reboot", "check", "--rules"].exits(0).text();
    assert!(rules.lines().count() > 40, "{rules}");
    let first = rules.lines().next().unwrap();
    let name = first.split_whitespace().next().unwrap();
    let text = brisk_of!["reboot", "check", "--explain", name]
        .exits(0)
        .text();
    assert!(
        text.starts_with(name) && text.contains("    source: "),
        "{text}"
    );
    let unknown = brisk_of!["reboot", "check", "--explain", "nosuch"].exits(125);
    let _ = unknown.explains(&["there is no rule nosuch; brisk reboot check --rules"]);
}

/// The kernel that runs is whole, and the next one lacks its initial RAM disk.
#[test]
fn the_entry_that_is_next_is_judged_and_not_the_kernel_that_runs() {
    let files = Files::new();
    let tree = files.at("tree");
    let _ = files.write("tree/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
    let _ = files.write("tree/proc/self/status", "CapEff:\t000001ffffffffff\n");
    let _ = files.write("tree/proc/cmdline", "root=/dev/sda2 ro\n");
    for name in ["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-10-amd64"] {
        let _ = files.write(&format!("tree/boot/{name}"), "");
        let _ = write(&files, &format!("tree/boot/{name}"), &small_kernel());
    }
    let _ = files.write("tree/boot/initrd.img-6.1.0-9-amd64", "");
    let _ = write(&files, "tree/boot/initrd.img-6.1.0-9-amd64", &initrd(10));
    let entry = |release: &str| {
        format!(
            "menuentry {release} {{\nlinux /boot/vmlinuz-{release} root=/dev/sda2 ro\n\
             initrd /boot/initrd.img-{release}\n}}\n"
        )
    };
    let menu = entry("6.1.0-10-amd64") + &entry("6.1.0-9-amd64");
    let _ = files.write("tree/boot/grub/grub.cfg", &menu);
    let text = brisk_of!["reboot", "check", "--root", &tree]
        .exits(11)
        .text();
    for part in [
        "Kernel        /boot/vmlinuz-6.1.0-10-amd64",
        "/boot/initrd.img-6.1.0-10-amd64",
        "[initrd-missing]",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
