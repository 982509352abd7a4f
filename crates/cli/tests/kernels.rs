//! Every installed kernel and every kind of VM runs commands; KVM where it works.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;

use brisk_host::kernel::{Installed, installed};
use brisk_testkit::{Brisk, brisk, brisk_of, ext4, tree, trial};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use tempfile::tempdir;

/// Environment, streams and status in one.
const SCRIPT: &str = "uname -r; read line; echo \"$line\" >&2; exit 7";

fn main() {
    let arguments = Arguments::from_args();
    let kernels = installed("/".as_ref());
    let mut trials = Vec::new();
    if kernels.is_empty() {
        trials.push(Trial::test("a_kernel_is_installed", || {
            Err(Failed::from("none is: run `make test`"))
        }));
    }
    for kernel in kernels {
        trials.extend(of_kernel(&kernel));
    }
    for words in [
        ["--machine", "microvm"],
        ["--machine", "q35"],
        ["--machine", "pc"],
        ["--firmware", "seabios"],
    ] {
        let name = format!("runs_with_{}", words[1]);
        trials.push(trial(name, None::<String>, move || {
            runs(brisk!().args(words), None);
        }));
    }
    trials.push(trial(
        "a_kernel_without_drivers",
        None::<String>,
        no_drivers,
    ));
    trials.extend(kvm());
    libtest_mimic::run(&arguments, trials).exit();
}

fn of_kernel(kernel: &Installed) -> Vec<Trial> {
    let of = |what: &str, test: fn(&str)| {
        let release = kernel.version.clone();
        let name = format!("{release}::{what}");
        trial(name, None::<String>, move || test(&release))
    };
    vec![
        of("runs_without_a_root", no_root),
        of("runs_on_the_hosts_root", host_root),
        of("runs_on_an_image_with_a_network", disk_root),
    ]
}

/// A kernel whose modules are not on this machine, as one from elsewhere, is refused at once if it
/// needs them.
fn no_drivers() {
    let kernels = installed("/".as_ref());
    let dir = tempdir().unwrap();
    let mut tried = 0;
    for kernel in kernels {
        let builtin = kernel
            .modules
            .as_ref()
            .map(|dir| dir.join("modules.builtin"));
        let builtin = builtin
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap();
        if builtin.contains("/virtio_pci.ko") {
            continue;
        }
        tried += 1;
        let other = kernel.version.replacen('.', "0", 1);
        let mut image = fs::read(&kernel.image).unwrap();
        let version = kernel.version.as_bytes();
        let places: Vec<_> = image
            .windows(version.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == version)
            .map(|(at, _)| at)
            .collect();
        for at in places {
            image[at..at + version.len()].copy_from_slice(other.as_bytes());
        }
        let path = dir.path().join("vmlinuz");
        fs::write(&path, image).unwrap();
        let run = brisk!["--root", "none", "--kernel"]
            .arg(&path)
            .command(["true"]);
        let _ = run
            .exits(125)
            .explains(&[&other, "has no virtio_pci", "--modules"]);
        let doctor = brisk_of!["doctor", "--kernel", &path].exits(1);
        assert!(
            doctor.text().contains("has no virtio_pci"),
            "{}",
            doctor.text()
        );
    }
    assert_ne!(tried, 0, "Debian's kernels have it as a module");
}

fn no_root(release: &str) {
    runs(brisk!["--kernel", release], Some(release));
}

fn runs(run: Brisk, release: Option<&str>) {
    let run = run.args(["--root", "none"]).stdin("a line\n");
    let run = run.script(SCRIPT).exits(7);
    assert_eq!(run.stderr, "a line\n");
    match release {
        Some(release) => assert_eq!(run.text(), format!("{release}\n")),
        None => assert!(!run.text().is_empty()),
    }
}

fn host_root(release: &str) {
    let home = tempdir().unwrap();
    std::fs::write(home.path().join("mark"), "of the host\n").unwrap();
    let script = "uname -r; cat mark; echo guest > mark; ls /lib/modules >/dev/null";
    let run = brisk!["--kernel", release, "--root", "host"]
        .current_dir(home.path())
        .script(script)
        .exits(0);
    assert_eq!(run.text(), format!("{release}\nof the host\n"));
    let mark = std::fs::read_to_string(home.path().join("mark")).unwrap();
    assert_eq!(mark, "of the host\n");
}

fn disk_root(release: &str) {
    let home = tempdir().unwrap();
    tree(&home.path().join("tree"));
    let image = home.path().join("image");
    ext4(&home.path().join("tree"), &image);
    let script = "uname -r; cat /etc/origin; ls /sys/class/net; touch /srv/new";
    let run = brisk!["--kernel", release, "--net", "user", "--root"].arg(&image);
    let run = run.script(script).exits(0);
    assert_eq!(
        run.text(),
        format!("{release}\nthe test's tree\neth0\nlo\n")
    );
}

/// The reason why KVM is not used is in the place of the explanation of a trial.
fn kvm() -> Vec<Trial> {
    let brisk = || Brisk::new(env!("CARGO_BIN_EXE_brisk"), env!("CARGO_TARGET_TMPDIR"));
    let dry = brisk().args([
        "run",
        "--root",
        "none",
        "--dry-run",
        "--format",
        "json",
        "--",
        "true",
    ]);
    let dry = dry.exits(0);
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    let works = dry["parts"].to_string().contains("\"-accel\",\"kvm\"");
    let why = dry["accelerator_why"].as_str().unwrap().to_owned();
    let run = move || runs(brisk().args(["run", "--accel", "kvm"]), None);
    let ignored = (!works).then_some(why);
    vec![trial("kvm::runs_without_a_root", ignored, run)]
}
