//! Files that only root can read or reach, for a QEMU that is not root.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use brisk_testkit::{brisk, brisk_of, capture, tool, trials};
use libtest_mimic::Arguments;
use tempfile::{TempDir, tempdir};

/// SeaBIOS, where Debian and Fedora have it.
const SEABIOS: [&str; 2] = [
    "/usr/share/seabios/bios-256k.bin",
    "/usr/share/qemu/bios-256k.bin",
];

fn main() {
    let is_root = rustix::process::geteuid().is_root();
    let ignored = (!is_root).then(|| "QEMU is another user only where root calls brisk".to_owned());
    let trials = trials(
        ignored,
        [
            ("firmware_is_read", firmware),
            ("option_roms_are_read", option_rom),
            ("a_kernel_is_read", kernel),
            ("a_qemu_is_started", qemu),
            ("what_builds_leave_is_booted", range),
        ],
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A directory that only root can enter.
struct Private(TempDir);

impl Private {
    fn new() -> Self {
        let home = tempdir().unwrap();
        let mut private = DirBuilder::new();
        private.mode(0o700).create(home.path().join("own")).unwrap();
        Self(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("own").join(name)
    }

    /// A copy that every user could read if they could enter, and one that only root may read.
    fn copies(&self, from: impl AsRef<Path>) -> [PathBuf; 2] {
        [0o644, 0o600].map(|mode| {
            let copy = self.path(&format!("{mode:o}"));
            fs::copy(&from, &copy).unwrap();
            fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
            copy
        })
    }
}

fn seabios() -> &'static str {
    let mut places = SEABIOS.into_iter();
    places.find(|path| Path::new(path).exists()).unwrap()
}

fn firmware() {
    let private = Private::new();
    for bios in private.copies(seabios()) {
        brisk!["--root", "none", "--machine", "pc"]
            .args(["--qemu-arg=-bios", "--qemu-arg"])
            .arg(bios)
            .command(["true"])
            .exits(0);
    }
}

/// Of 512 bytes, which return at once.
fn option_rom() {
    let private = Private::new();
    let mut rom = vec![0; 512];
    rom[..4].copy_from_slice(&[0x55, 0xaa, 1, 0xcb]);
    rom[511] = 0_u8.wrapping_sub(rom.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
    fs::write(private.path("rom"), rom).unwrap();
    for rom in private.copies(private.path("rom")) {
        let rom = rom.display();
        brisk!["--root", "none", "--machine", "pc"]
            .args(["--qemu-arg=-option-rom", "--qemu-arg"])
            .arg(format!("{rom},bootindex=9"))
            .args(["--qemu-arg=-device", "--qemu-arg"])
            .arg(format!("e1000,romfile={rom}"))
            .command(["true"])
            .exits(0);
    }
}

/// As it is, not decompressed to the cache.
fn kernel() {
    let dry = brisk!["--root", "none", "--optimisations", "none", "--dry-run"];
    let dry = dry.args(["--format", "json"]).command(["true"]).exits(0);
    let dry: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    let words = dry["parts"].as_array().unwrap().iter();
    let words: Vec<&str> = words
        .flat_map(|part| part["words"].as_array().unwrap())
        .map(|word| word.as_str().unwrap())
        .collect();
    let at = words.iter().position(|word| *word == "-kernel").unwrap();
    let private = Private::new();
    for kernel in private.copies(words[at + 1]) {
        brisk!["--root", "none", "--optimisations", "none", "--kernel"]
            .arg(kernel)
            .command(["true"])
            .exits(0);
    }
}

fn qemu() {
    let private = Private::new();
    let qemu = private.path("qemu");
    let real = tool("qemu-system-x86_64");
    brisk_testkit::script(
        &qemu,
        &format!("#!/bin/sh\nexec {} \"$@\"\n", real.display()),
    );
    brisk!["--root", "none", "--qemu"]
        .arg(qemu)
        .command(["true"])
        .exits(0);
}

/// A repository whose build leaves firmware that only root may read, and once does not build.
fn range() {
    let private = Private::new();
    let repository = private.path("repository");
    fs::create_dir(&repository).unwrap();
    let git = |words: &[&str]| {
        let repository = repository.to_str().unwrap();
        let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        capture(
            &tool("git"),
            &[&["-C", repository][..], &who, words].concat(),
        )
    };
    git(&["init", "--quiet"]);
    let commit = |text: String| {
        fs::write(repository.join("build"), text).unwrap();
        git(&["add", "build"]);
        git(&["commit", "--quiet", "--message=Change"]);
    };
    commit(format!(
        "umask 077; mkdir -p out; cat {} > out/bios.bin",
        seabios()
    ));
    commit("echo 'bios.c:3: error: no such thing'; exit 2".to_owned());
    commit(format!(
        "umask 077; mkdir -p out; cat {} > out/bios.bin #",
        seabios()
    ));
    let run = brisk_of!["boot", "range", &repository, "HEAD~2.."]
        .args(["--build", "sh ./build", "--clock", "instructions"])
        .args(["--artifact", "firmware=out/bios.bin"])
        .exits(0);
    let text = run.text();
    assert_eq!(text.matches(" instr").count(), 2, "{text}");
    let broken = "not built: exit status: 2: bios.c:3: error: no such thing";
    assert!(text.contains(broken), "{text}");
    let (_, log) = run.stderr.split_once("its log is ").unwrap();
    let log = fs::read_to_string(log.lines().next().unwrap()).unwrap();
    assert_eq!(log, "bios.c:3: error: no such thing\n");
}
