//! GRUB itself starts the entry that is said to be next: it boots each configuration in a QEMU, with
//! kernels that say how they were started.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_host::boot_entries::{read, without_loader_words};
use brisk_testkit::{BootTree, capture, tool, trial};
use libtest_mimic::Arguments;

/// UUID of the file system in the trees.
const UUID: &str = "1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10";
/// Modules of GRUB that configurations use; others are asked for in vain, which GRUB survives.
const MODULES: [&str; 32] = [
    "all_video",
    "biosdisk",
    "boot",
    "btrfs",
    "configfile",
    "echo",
    "ext2",
    "font",
    "gfxterm",
    "gzio",
    "halt",
    "linux",
    "linux16",
    "loadenv",
    "minicmd",
    "normal",
    "part_gpt",
    "part_msdos",
    "search",
    "search_fs_file",
    "search_fs_uuid",
    "search_label",
    "sleep",
    "terminal",
    "test",
    "true",
    "vbe",
    "vga",
    "video",
    "xzio",
    "lzopio",
    "eval",
];
/// Where Debian's package has them.
const DIRECTORY: &str = "/usr/lib/grub/i386-pc";

/// Seconds after which GRUB has started nothing, also on a busy machine.
const SECONDS: &str = "100";

/// A configuration, and what is saved in its environment block.
struct Case {
    tree: &'static str,
    /// Lines of the environment block.
    environment: &'static [&'static str],
}

const fn case(tree: &'static str, environment: &'static [&'static str]) -> Case {
    Case { tree, environment }
}

const CASES: [Case; 35] = [
    case("debian-12", &[]),
    case("debian-12", &["next_entry=1>2"]),
    case("debian-12", &["next_entry=1"]),
    case(
        "debian-12",
        &[
            "next_entry=Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-18-amd64",
        ],
    ),
    case(
        "debian-12",
        &[
            "next_entry=gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.1.0-21-amd64-recovery-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10",
        ],
    ),
    case(
        "debian-12",
        &["next_entry=gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>2"],
    ),
    case(
        "debian-12",
        &["next_entry=1>gnulinux-6.1.0-18-amd64-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10"],
    ),
    case("debian-12", &["next_entry=6.1.0-18-amd64"]),
    case(
        "debian-12",
        &["next_entry=Advanced options for Debian GNU/Linux"],
    ),
    case("debian-13", &[]),
    case(
        "debian-13",
        &["saved_entry=gnulinux-advanced-44d0f2c8>1", "next_entry="],
    ),
    case(
        "debian-13",
        &["saved_entry=gnulinux-simple-44d0f2c8", "next_entry=1>0x1"],
    ),
    case(
        "ubuntu-24.04",
        &[
            "saved_entry=gnulinux-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10>gnulinux-6.8.0-31-generic-advanced-1f4e2c1a-7b5d-4c0e-9a51-3d2f6b8c9e10",
        ],
    ),
    case("ubuntu-24.04", &["recordfail=1"]),
    case("ubuntu-btrfs", &[]),
    case("arch-grub", &[]),
    case(
        "arch-grub",
        &["next_entry=Advanced options for Arch Linux>Arch Linux, with Linux linux-lts"],
    ),
    case("opensuse", &["saved_entry=openSUSE Tumbleweed"]),
    case(
        "opensuse",
        &[
            "saved_entry=Advanced options for openSUSE Tumbleweed>openSUSE Tumbleweed, with Linux 6.8.9-1-default",
            "extra_cmdline=debug",
        ],
    ),
    case("nixos-grub", &[]),
    case(
        "nixos-grub",
        &["next_entry=NixOS - All configurations>NixOS - Configuration 1 (2024-05-20 - 24.05.0)"],
    ),
    case("grub-script", &[]),
    case("grub-script", &["saved_entry=last one"]),
    // GRUB waits ten seconds for a key after it has told of errors.
    case("grub-script", &["wrong=1"]),
    case("grub-script", &["saved_entry=more>in>>ner"]),
    case("grub-script", &["saved_entry=more>>menus>it's $5"]),
    case("grub-script", &["saved_entry=more>deeper>deep"]),
    case("grub-script", &["saved_entry=2>deeper>7"]),
    case("grub-script", &["saved_entry=2>1>1"]),
    case("grub-script", &["saved_entry=more"]),
    case("grub-script", &["saved_entry=2>010"]),
    case("grub-script", &["saved_entry=more>digits are no title"]),
    case("grub-script", &["saved_entry=gone", "fallback_entry=4 2 0"]),
    case("grub-script", &["saved_entry=empty", "fallback_entry=3 4"]),
    case("grub-script", &["saved_entry=99999999999999999999"]),
];

fn main() {
    let arguments = Arguments::from_args();
    let missing = [
        (!Path::new(DIRECTORY).is_dir()).then_some("grub-pc-bin is not installed"),
        (!Path::new("/usr/bin/grub-mkimage").is_file()).then_some("grub-common is not installed"),
    ];
    let missing = missing.into_iter().flatten().next();
    let trials = CASES.into_iter().map(|case| {
        let name = format!("{} {}", case.tree, case.environment.join(" "));
        trial(name, missing, move || same_as_grub(&case))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// How a kernel was started.
#[derive(Debug, PartialEq, Eq)]
struct Started {
    kernel: String,
    options: String,
    initrds: Vec<String>,
}

fn same_as_grub(case: &Case) {
    let tree = BootTree::named(case.tree);
    let directory = ["/boot/grub", "/boot/grub2"]
        .into_iter()
        .find(|it| tree.at(it).is_dir())
        .unwrap();
    if !case.environment.is_empty() {
        tree.grubenv(&format!("{directory}/grubenv"), case.environment);
    }
    let entries = read(tree.root());
    let next = entries.next.expect("an entry is next");
    let entry = &entries.entries[next.entry];
    let said = Started {
        kernel: entry.kernel.display().to_string(),
        options: entry.options.clone(),
        initrds: entry
            .initrds
            .iter()
            .map(|it| it.display().to_string())
            .collect(),
    };
    assert_eq!(said, started(&tree, directory), "{}", next.reason);
}

/// What GRUB starts, with the configuration in this directory of the system.
fn started(tree: &BootTree, directory: &str) -> Started {
    let text = fs::read_to_string(tree.at("/etc/fstab")).unwrap_or_default();
    let has_own_boot =
        text.contains(" /boot ") || !text.contains(" / ") && directory == "/boot/grub";
    // The root of GRUB's file system.
    let (source, prefix) = match has_own_boot {
        true => (
            tree.at("/boot"),
            directory.trim_start_matches("/boot").to_owned(),
        ),
        false if text.contains("subvol=@") => {
            let outer = tree.at("/outer");
            fs::create_dir(&outer).unwrap();
            let moved = outer.join("@");
            fs::create_dir(&moved).unwrap();
            fs::rename(tree.at("/boot"), moved.join("boot")).unwrap();
            (outer, format!("/@{directory}"))
        }
        false => (tree.root().to_owned(), directory.to_owned()),
    };
    without_timeouts(&source.join(prefix.trim_start_matches('/')));
    let work = tempfile::tempdir().unwrap();
    let disk = work.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(8 << 20).unwrap();
    let words = [
        "-q",
        "-t",
        "ext2",
        "-U",
        UUID,
        "-d",
        source.to_str().unwrap(),
        disk.to_str().unwrap(),
    ];
    capture(&tool("mke2fs"), &words);
    let core = core(work.path(), &prefix);
    let output = work.path().join("output");
    // A menu that waits for somebody is a failure.
    let status = Command::new(tool("timeout"))
        .arg(SECONDS)
        .arg(tool("qemu-system-x86_64"))
        .args([
            "-machine",
            "pc,accel=tcg",
            "-m",
            "128",
            "-nodefaults",
            "-display",
            "none",
            "-vga",
            "std",
            "-no-reboot",
        ])
        .args(["-device", "isa-debug-exit,iobase=0xf4"])
        .arg("-kernel")
        .arg(core)
        .arg("-drive")
        .arg(format!("file={},format=raw,if=ide", disk.display()))
        .arg("-debugcon")
        .arg(format!("file:{}", output.display()))
        .stdin(Stdio::null())
        .status()
        .unwrap();
    // The kernel's last breath: 2 * EAX + 1, of which only the lowest bit is known.
    assert_eq!(status.code().map(|code| code & 1), Some(1), "{status}");
    let output = String::from_utf8(fs::read(output).unwrap()).unwrap();
    // SeaBIOS writes to the port before.
    let output = &output[output.rfind("@kernel ").unwrap() + "@kernel ".len()..];
    let mut parts = output.splitn(3, '\0');
    let mut part = || parts.next().unwrap();
    let kernel = part().to_owned();
    let options = without_loader_words(part());
    // GRUB fills up each to four bytes.
    let initrds = part()
        .split('\n')
        .map(|name| name.trim_matches('\0').to_owned());
    Started {
        kernel,
        options,
        initrds: initrds.filter(|name| !name.is_empty()).collect(),
    }
}

/// Has menus not wait.
fn without_timeouts(directory: &Path) {
    for name in ["grub.cfg", "menu.cfg"] {
        let Ok(text) = fs::read_to_string(directory.join(name)) else {
            continue;
        };
        let line = |line: &str| match line.trim_start().starts_with("set timeout=") {
            true => "set timeout=0\n".to_owned(),
            false => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        fs::write(directory.join(name), format!("set timeout=0\n{text}")).unwrap();
    }
}

/// GRUB as an image that QEMU starts by its `-kernel`.
fn core(work: &Path, prefix: &str) -> PathBuf {
    let (core, image) = (work.join("core"), work.join("grub"));
    let mut words = vec!["-O", "i386-pc", "-o", core.to_str().unwrap()];
    let prefix = format!("(hd0){prefix}");
    words.extend(["-p", &prefix]);
    words.extend(MODULES);
    capture(&tool("grub-mkimage"), &words);
    let mut bytes = fs::read(format!("{DIRECTORY}/lnxboot.img")).unwrap();
    bytes.extend(fs::read(core).unwrap());
    fs::write(&image, bytes).unwrap();
    image
}
