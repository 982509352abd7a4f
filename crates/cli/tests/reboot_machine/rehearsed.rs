//! Verdicts of rehearsals on this host, against what becomes of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use brisk_testkit::{Computer, UP, capture, tool};
use serde_json::Value;

use super::directory;
use super::kept::Kept;

/// What becomes of a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reality {
    /// The root's init runs.
    Up,
    /// The new kernel panics.
    Panic,
    /// The initial RAM disk does not find the root.
    Shell,
    /// Nothing is restarted.
    Refused,
}

use Reality::{Panic, Refused, Shell, Up};

impl Reality {
    /// Lines of the console that tell them.
    const LINES: [(Self, &str); 4] = [
        (Up, UP),
        (Panic, "Kernel panic"),
        // By panic=, which brisk adds, in place of its shell.
        (Shell, "Rebooting automatically"),
        (Refused, "the command ended: 11"),
    ];
}

/// A restart.
struct Case {
    name: &'static str,
    kernel: &'static str,
    initrd: &'static str,
    /// Command line without the console.
    cmdline: &'static str,
    /// Outcome that the rehearsal names.
    rehearsed: &'static str,
    reality: Reality,
}

const ROOT: &str = "root=UUID=6f0d7f5c-2a52-4a43-9d0b-8d5ab0a10b1e ro";

const fn good() -> Case {
    Case {
        name: "good",
        kernel: "kernel",
        initrd: "initrd",
        cmdline: ROOT,
        rehearsed: "reached",
        reality: Up,
    }
}

/// All of them.
fn cases() -> Vec<Case> {
    vec![
        good(),
        Case {
            name: "truncated initrd",
            initrd: "truncated",
            rehearsed: "panicked",
            reality: Refused,
            ..good()
        },
        Case {
            name: "initrd without ext4",
            initrd: "without-ext4",
            rehearsed: "shell",
            reality: Shell,
            ..good()
        },
        Case {
            name: "initrd without virtio_blk",
            initrd: "without-virtio",
            rehearsed: "shell",
            reality: Shell,
            ..good()
        },
        Case {
            name: "wrong UUID",
            cmdline: "root=UUID=00000000-2a52-4a43-9d0b-8d5ab0a10b1e ro",
            rehearsed: "shell",
            reality: Shell,
            ..good()
        },
        Case {
            name: "corrupt kernel",
            kernel: "corrupt",
            rehearsed: "corrupt",
            reality: Refused,
            ..good()
        },
        Case {
            name: "init= that is no init",
            cmdline: "root=/dev/vda1 ro init=/bin/false",
            rehearsed: "panicked",
            reality: Panic,
            ..good()
        },
        Case {
            // initramfs-tools takes another one.
            name: "init= that does not exist",
            cmdline: "root=/dev/vda1 ro init=/nonexistent",
            ..good()
        },
    ]
}

/// Directory of the kernels and initial RAM disks.
fn files() -> &'static Path {
    static FILES: OnceLock<PathBuf> = OnceLock::new();
    FILES.get_or_init(|| {
        let made = directory().join("cases");
        fs::create_dir(&made).unwrap();
        let machine = Computer::files().unwrap();
        let read = |start: &str| {
            let mut entries = fs::read_dir(&machine).unwrap();
            let is_it = |name: &str| name.starts_with(start) && !name.contains("cloud");
            let path = entries.find_map(|entry| {
                let entry = entry.unwrap();
                is_it(entry.file_name().to_str().unwrap()).then(|| entry.path())
            });
            fs::read(path.unwrap()).unwrap()
        };
        let (kernel, initrd) = (read("vmlinuz-"), read("initrd.img-"));
        let mut corrupt = kernel.clone();
        let middle = corrupt.len() / 2;
        corrupt[middle..middle + 64].fill(0x55);
        for (name, bytes) in [
            ("truncated", &initrd[..initrd.len() / 2]),
            ("without-ext4", &without(&initrd, b"/ext4.ko")),
            ("without-virtio", &without(&initrd, b"/virtio_blk.ko")),
            ("corrupt", &corrupt),
            ("kernel", &kernel),
            ("initrd", &initrd),
        ] {
            fs::write(made.join(name), bytes).unwrap();
        }
        made
    })
}

/// An initial RAM disk without a module: it has another name. The modules are compressed each, and
/// before what is compressed as a whole.
fn without(initrd: &[u8], module: &[u8]) -> Vec<u8> {
    let mut initrd = initrd.to_vec();
    let at = initrd.windows(module.len()).position(|it| it == module);
    initrd[at.unwrap() + 1] = b'_';
    initrd
}

/// Disk with them.
pub(super) fn disk() -> &'static Path {
    static DISK: OnceLock<PathBuf> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = directory().join("cases.ext4");
        let words = [
            "-q",
            "-t",
            "ext4",
            "-d",
            files().to_str().unwrap(),
            disk.to_str().unwrap(),
            "128M",
        ];
        capture(&tool("mke2fs"), &words);
        disk
    })
}

/// Rehearses on this host.
fn rehearse(case: &Case, disk: &Path) -> Value {
    let path = |name: &str| files().join(name).to_str().unwrap().to_owned();
    // It leaves the processors to others, and has to be waited for on a busy host.
    let finished = Command::new(env!("CARGO_BIN_EXE_brisk"))
        .args(["reboot", "rehearse", "--format", "json", "--timeout", "15m"])
        .args(["--kernel", &path(case.kernel)])
        .args(["--initrd", &path(case.initrd)])
        .args(["--cmdline", case.cmdline, "--disk"])
        .arg(disk)
        .output()
        .unwrap();
    let expected = if case.reality == Up { 0 } else { 10 };
    assert_eq!(
        finished.status.code(),
        Some(expected),
        "{}: {finished:?}",
        case.name
    );
    serde_json::from_slice(&finished.stdout).unwrap()
}

/// Restarts the machine.
fn restart(case: &Case) -> Reality {
    let mut machine = Kept::booted().go_on("rehearsed");
    machine.ok("mount -o ro /dev/vdb /mnt");
    let (kernel, initrd, cmdline) = (case.kernel, case.initrd, case.cmdline);
    machine.begin(&format!(
        "brisk reboot --kernel /mnt/{kernel} --initrd /mnt/{initrd} \
         --cmdline '{cmdline} console=ttyS0'; echo \"the command ended: $?\" >/dev/ttyS0"
    ));
    let lines = Reality::LINES.map(|(_, line)| line);
    let shown = machine.shows_one_of(&lines);
    Reality::LINES[shown].0
}

pub(super) fn agree_with_reality() {
    let disk = Computer::files().unwrap().join("disk.qcow2");
    for case in cases() {
        let verdict = rehearse(&case, &disk);
        assert_eq!(
            verdict["outcome"], case.rehearsed,
            "{}: {verdict:#}",
            case.name
        );
        assert_eq!(restart(&case), case.reality, "{}", case.name);
    }
}
