//! Setting up: what `setup/install` and `setup/newer-qemu` say and do, without network and without
//! changing the host. Where apt is called, a script stands for it.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use brisk_testkit::{capture, script, tool};
use tempfile::TempDir;

const PINNED: &str = "1:10.0.2+ds-2~bpo12+1";

/// Scripts instead of the programs that know about packages, and a copy of `setup`.
struct System {
    dir: TempDir,
}

impl System {
    fn new(codename: &str) -> Self {
        let system = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let id = format!("ID=debian\nVERSION_CODENAME={codename}\nPRETTY_NAME=Debian\n");
        fs::write(system.path("os-release"), id).unwrap();
        fs::create_dir(system.path("bin")).unwrap();
        fs::create_dir(system.path("setup")).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup");
        for name in [
            "install",
            "newer-qemu",
            "general-kernels",
            "newer-openssl",
            "fallback-module",
            "reboot-machine",
        ] {
            let text = fs::read_to_string(here.join(name)).unwrap();
            script(&system.path("setup").join(name), &text);
        }
        // The programs of the host but QEMU.
        for name in [
            "sh", "sed", "grep", "sort", "head", "tail", "cat", "mkdir", "mktemp",
        ]
        .into_iter()
        .chain([
            "chmod", "chown", "id", "dirname", "readlink", "rm", "mv", "ln", "tr", "su",
        ])
        .chain([
            "sha256sum",
            "tar",
            "cut",
            "dpkg-deb",
            "printf",
            "env",
            "touch",
            "ldd",
            "find",
            "cp",
        ]) {
            std::os::unix::fs::symlink(tool(name), system.path("bin").join(name)).unwrap();
        }
        system.script("dpkg", "echo amd64");
        system.script("dpkg-query", "exit 1");
        system.script("apt-config", "");
        system
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        script(
            &self.path("bin").join(name),
            &format!("#!/bin/sh\n{text}\n"),
        );
    }

    /// A package of QEMU, which is a script, and its place in the list with a checksum.
    fn package(&self, version: &str) -> PathBuf {
        let tree = self.path("package");
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        let control = format!(
            "Package: qemu-system-x86\nVersion: {version}\nArchitecture: amd64\n\
             Maintainer: nobody <nobody@example.org>\nDescription: a script\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        let text = format!("#!/bin/sh\necho QEMU emulator version {version}\n");
        script(&tree.join("usr/bin/qemu-system-x86_64"), &text);
        let deb = self.path("archive.deb");
        let words = ["--build", tree.to_str().unwrap(), deb.to_str().unwrap()];
        let _ = capture(&tool("dpkg-deb"), &words);
        // The archive has this version and no other one.
        self.script(
            "apt-get",
            &format!(
                "for word; do last=$word; done\ncase \"$*\" in *download*) ;; *) exit 0 ;; esac\n\
                 case $last in *={version} | */*) cp {} . ;; *) exit 100 ;; esac",
                deb.display()
            ),
        );
        deb
    }

    fn pin(&self, version: &str, sum: &str) {
        let line = format!("# a list\nqemu-system-x86 {version} {sum}\n");
        fs::write(self.path("setup/newer-qemu.packages"), line).unwrap();
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        Command::new(self.path("setup").join(program))
            .args(words)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("BRISK_SETUP_OS_RELEASE", self.path("os-release"))
            .env("BRISK_TOOLS_DIR", self.path("tools"))
            .output()
            .unwrap()
    }

    fn newer_qemu(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run("newer-qemu", words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Names in the directory for newer programs.
    fn there(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("tools")) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

fn sum(path: &Path) -> String {
    let text = capture(&tool("sha256sum"), &[path.to_str().unwrap()]);
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_dry_run_names_each_package_once() {
    let system = System::new("trixie");
    system.script(
        "apt-cache",
        "echo '  Candidate: 1:10.0.8+ds-0+deb13u1'; echo '  Depends: linux-image-6.12.1-amd64'",
    );
    system.pin(PINNED, "0");
    let output = system.run("install", &["--dry-run", "test"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for package in ["gcc:", "qemu-utils:"] {
        assert_eq!(text.matches(package).count(), 1, "{text}");
    }
    // Debian 13 has one that can do all, though it is not installed yet.
    assert!(text.contains("QEMU: 10.0.8\n"), "{text}");
    assert!(!text.contains("left out"), "{text}");
    let kernel = "would unpack parts of linux-image-6.12.1-amd64";
    assert!(text.contains(kernel), "{text}");
    assert_eq!(system.there(), [""; 0]);
}

#[test]
fn a_newer_qemu_is_unpacked_once() {
    let system = System::new("bookworm");
    system.pin(PINNED, &sum(&system.package(PINNED)));
    let (status, text) = system.newer_qemu(&["--dry-run"]);
    assert_eq!((status, system.there().len()), (Some(0), 0), "{text}");
    assert!(
        text.contains(&format!("qemu-system-x86 {PINNED}")),
        "{text}"
    );
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(system.there(), ["bin", "qemu-10.0.2+ds-2"]);
    let program = system.path("tools/bin/qemu-system-x86_64");
    let output = Command::new(program).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("version 1:10.0.2"));
    // A second time nothing is asked of apt.
    system.script("apt-get", "exit 1");
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("already"), "{text}");
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_not_unpacked() {
    let system = System::new("bookworm");
    let _ = system.package(PINNED);
    system.pin(PINNED, &"0".repeat(64));
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!((status, system.there()), (Some(3), Vec::new()), "{text}");
    assert!(text.contains("is not the file that it was"), "{text}");
}

#[test]
fn what_the_archive_has_of_the_same_series_will_do() {
    let system = System::new("bookworm");
    system.pin(PINNED, "0");
    let _ = system.package("1:10.1.0+ds-1~bpo12+1");
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!((status, system.there()), (Some(3), Vec::new()), "{text}");
    assert!(text.contains("not QEMU 10.0 any more"), "{text}");
    let _ = system.package("1:10.0.5+ds-1~bpo12+1");
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("is not in the archive any more: taking"),
        "{text}"
    );
    assert_eq!(system.there(), ["bin", "qemu-10.0.5+ds-1"]);
}

#[test]
fn a_later_revision_of_debians_replaces_the_earlier_one() {
    let system = System::new("bookworm");
    system.pin(PINNED, &sum(&system.package(PINNED)));
    assert_eq!(system.newer_qemu(&[]).0, Some(0));
    let later = "1:10.0.2+ds-2+deb13u1~bpo12+1";
    system.pin(later, &sum(&system.package(later)));
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!(status, Some(0), "{text}");
    let program = system.path("tools/bin/qemu-system-x86_64");
    let output = Command::new(program).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(later));
}

#[test]
fn without_the_archive_nothing_is_left_behind() {
    let system = System::new("bookworm");
    system.pin(PINNED, "0");
    system.script("apt-get", "echo 'E: no route' >&2; exit 100");
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!((status, system.there()), (Some(3), Vec::new()), "{text}");
    assert!(
        text.contains("no route") && text.contains("cannot be read"),
        "{text}"
    );
    let system = System::new("trixie");
    system.pin(PINNED, "0");
    let (status, text) = system.newer_qemu(&[]);
    assert_eq!(status, Some(3));
    assert!(text.contains("this is for Debian 12"), "{text}");
}
