//! Standard output, standard error and exit status of the main path and the main errors of every
//! command, as a user sees them. What differs between hosts and runs is replaced: paths, versions,
//! numbers that are measured.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Machines, Transcript, brisk_of, busybox, capture, qemu_is_before, tool, trials,
};
use libtest_mimic::Arguments;

fn main() {
    let plain: [(_, fn()); 7] = [
        ("run", run),
        ("boot", boot),
        ("doctor", doctor),
        ("kernel", kernel),
        ("initramfs", initramfs),
        ("image", image),
        ("vm_refusals", vm_refusals),
    ];
    let suspended: [(_, fn()); 1] = [("vm", vm)];
    let mut all = trials(None, plain);
    all.extend(trials(qemu_is_before(8, 2), suspended));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn transcript() -> Transcript {
    Transcript::new(|| brisk_of![])
}

/// `brisk run` of a guest without a root.
fn none<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--accel", "tcg", "--root", "none"], more].concat()
}

fn run() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = transcript().hiding(dir.path(), "[DIR]");
    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no file system and no kernel\n".repeat(1000)).unwrap();
    let text = text.to_str().unwrap();
    shell
        .brisk(&none(&["--", "sh", "-c", "echo out; echo err >&2; exit 7"]))
        .brisk(&none(&["--", "nosuch"]))
        .brisk(&none(&["--", "/bin"]))
        .brisk(&none(&["--user", "nosuch", "--", "true"]))
        .brisk(&none(&["--module", "nosuch", "--", "true"]))
        .brisk(&none(&["--memory", "64M"]))
        .brisk(&none(&["--memory", "much"]))
        .brisk(&none(&["--timeout", "5d"]))
        .brisk(&none(&["--kernel", "9.9"]))
        .brisk(&none(&["--qemu", "/nonexistent/qemu"]))
        .brisk(&none(&["--share", "/nonexistent:/mnt"]))
        .brisk(&none(&["--share", "/:mnt"]))
        .brisk(&none(&["--hostname", "a b"]))
        .brisk(&none(&["--disk", "/nonexistent/disk"]))
        .brisk(&["run", "--root", "/nonexistent", "--", "true"])
        .brisk(&["run", "--root", empty, "--", "true"])
        .brisk(&["run", "--root", text, "--", "true"])
        .brisk(&none(&["--kernel", text]))
        .brisk(&none(&["--kernel", "/nonexistent/kernel"]))
        .brisk(&none(&["--qemu", "/bin/false"]))
        .brisk(&none(&["--share", "/etc/passwd:/mnt"]))
        .brisk(&none(&["--share", "/etc"]))
        .brisk(&none(&["--machine", "microvm", "--firmware", "seabios"]))
        .brisk(&none(&["--machine", "pc-no-acpi", "--cpus", "2"]))
        .brisk(&none(&["--tty", "yes"]))
        .brisk(&["run", "ls"])
        .brisk(&["run", "--rw", "--", "true"]);
    insta::assert_snapshot!("run", shell.text());
}

fn boot() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let nothing = dir.path().join("nothing.json");
    fs::write(&nothing, "{}").unwrap();
    let mut shell = transcript().hiding(dir.path(), "[DIR]");
    let report = report.to_str().unwrap();
    let nothing = nothing.to_str().unwrap();
    let ended = brisk_of![]
        .args([
            "boot", "bench", "--accel", "tcg", "--root", "none", "-n", "1", "-o", report,
        ])
        .exits(0);
    assert!(ended.text().contains("exec to init"), "{}", ended.text());
    shell
        .brisk(&["boot", "bench", "--runs", "0"])
        .brisk(&[
            "boot", "bench", "--accel", "tcg", "--root", "none", "--kernel", "9.9",
        ])
        .brisk(&["boot", "analyze", "--markers", "/nonexistent"])
        .brisk(&[
            "boot",
            "analyze",
            "--accel",
            "tcg",
            "--clock",
            "instructions",
            "--until",
            "kernel",
        ])
        .brisk(&["boot", "compare"])
        .brisk(&["boot", "compare", "--a", "--machine nonsense", "--b", ""])
        .brisk(&["boot", "compare", report, nothing])
        .brisk(&["boot", "compare", report, "/nonexistent"])
        .brisk(&["boot", "range", "/nonexistent", "a..b"])
        .brisk(&["boot", "tune", "--memory", "much"])
        .brisk(&[
            "boot",
            "bench",
            "--domain",
            "nosuch",
            "--",
            "qemu-system-x86_64",
        ]);
    insta::assert_snapshot!("boot", shell.text());
}

fn doctor() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong.xml");
    fs::write(&wrong, "<network/>").unwrap();
    let mut shell = transcript().hiding(dir.path(), "[DIR]");
    shell
        .brisk(&["doctor", "/nonexistent.xml"])
        .brisk(&["doctor", wrong.to_str().unwrap()])
        .brisk(&["doctor", "/dev/null"])
        .brisk(&["doctor", "--pid", "4294967295"])
        .brisk(&["doctor", "--pid", "1", "--", "qemu-system-x86_64"])
        .brisk(&["doctor", "--format", "xml"]);
    insta::assert_snapshot!("doctor", shell.text());
}

fn kernel() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no kernel at all\n").unwrap();
    let mut shell = transcript()
        .hiding(dir.path(), "[DIR]")
        .replacing(r"(?m)^((size|vmlinux)\t)\d+", "$1[N]")
        // Of each distribution's release.
        .replacing(
            r"(?m)^compression\t(lz4|xz|zstd|gzip)$",
            "compression\t[HOW]",
        );
    let text = text.to_str().unwrap();
    let installed = brisk_host::kernel::installed("/".as_ref());
    let kernel = installed.first().unwrap().image.to_str().unwrap();
    let vmlinux = dir.path().join("vmlinux");
    let vmlinux = vmlinux.to_str().unwrap();
    shell
        .brisk(&["kernel", "info", kernel])
        .brisk(&["kernel", "extract", "--output", vmlinux, kernel])
        .brisk(&["kernel", "info", vmlinux])
        .brisk(&["kernel"])
        .brisk(&["kernel", "list", "--format", "xml"])
        .brisk(&["kernel", "info", "9.9"])
        .brisk(&["kernel", "info", text])
        .brisk(&[
            "kernel",
            "extract",
            "--output",
            "/nonexistent/out",
            "/nonexistent",
        ]);
    insta::assert_snapshot!("kernel", shell.text());
}

/// A newc archive of a directory and two files.
fn archive(dir: &Path) -> PathBuf {
    let tree = dir.join("tree");
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/hostname"), "brisk\n").unwrap();
    symlink("etc/hostname", tree.join("name")).unwrap();
    for (path, mode) in [("etc", 0o755), ("etc/hostname", 0o644)] {
        fs::set_permissions(tree.join(path), Permissions::from_mode(mode)).unwrap();
    }
    let script = "cd \"$1\" && printf 'etc\\netc/hostname\\nname\\n' | \
                  \"$2\" cpio -o -H newc > \"$3\" 2> /dev/null";
    let archive = dir.join("archive");
    let busybox = busybox();
    let words = [&tree, &busybox, &archive].map(|path| path.to_str().unwrap());
    capture(&tool("sh"), &[&["-c", script, "sh"][..], &words].concat());
    archive
}

fn initramfs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("initramfs");
    let text = dir.path().join("text");
    fs::write(&text, "no archive\n").unwrap();
    let archive = archive(dir.path());
    let mut shell = transcript().hiding(dir.path(), "[DIR]");
    shell
        .brisk(&["initramfs", "list", archive.to_str().unwrap()])
        .brisk(&[
            "initramfs",
            "build",
            "--root",
            "none",
            "--output",
            out.to_str().unwrap(),
        ])
        .brisk(&["initramfs", "list", text.to_str().unwrap()])
        .brisk(&[
            "initramfs",
            "explain",
            "--root",
            "none",
            "--module",
            "nosuch",
        ])
        .brisk(&["initramfs", "build", "--root", "none", "--module", "nosuch"]);
    assert!(fs::metadata(out).unwrap().len() > 1000);
    // Which modules there are differs between kernels.
    let explained = brisk_of!["initramfs", "explain", "--root", "none"].exits(0);
    let text = explained.text();
    for reason in ["for the command", "the first program"] {
        assert!(text.contains(reason), "{text}");
    }
    insta::assert_snapshot!("initramfs", shell.text());
}

fn image() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(
        &text,
        "no image at all, and longer than a header\n".repeat(100),
    )
    .unwrap();
    let mut shell = transcript().hiding(dir.path(), "[DIR]");
    let text = text.to_str().unwrap();
    for command in [&["info"][..], &["verify"], &["rekey", "--for-host"]] {
        shell
            .brisk(&[&["image"], command, &[text]].concat())
            .brisk(&[&["image"], command, &["/nonexistent"]].concat());
    }
    shell.brisk(&["image", "extract", text]).brisk(&[
        "image",
        "extract",
        "--raw",
        "/nonexistent/out",
        text,
    ]);
    insta::assert_snapshot!("image", shell.text());
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

/// Runs `brisk vm` with these words.
fn on(shell: &mut Transcript, all: &Machines, words: &[&str]) {
    let shown = [&["vm"], words].concat();
    shell.given(all.vm(words), &shown);
}

fn vm_refusals() {
    let all = machines();
    let mut shell = transcript()
        .hiding(all.dir(), "[DIR]")
        .hiding(all.memory(), "[MEMORY]")
        .replacing("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[UUID]");
    for command in [
        "set", "start", "stop", "kill", "discard", "suspend", "resume", "exec", "info", "log",
        "console", "rm",
    ] {
        on(&mut shell, &all, &[command, "nosuch"]);
    }
    on(&mut shell, &all, &["create", "../x"]);
    on(&mut shell, &all, &["create", "a", "--memory", "64M"]);
    on(&mut shell, &all, &["create", "a", "--cpus", "0"]);
    on(&mut shell, &all, &["create", "a", "--root", "host", "--rw"]);
    on(&mut shell, &all, &["create", "a", "--memory", "128M"]);
    on(&mut shell, &all, &["create", "a"]);
    for command in ["stop", "kill", "discard", "suspend", "resume", "exec"] {
        on(&mut shell, &all, &[command, "a"]);
    }
    on(&mut shell, &all, &["set", "a", "--compression", "gzip"]);
    on(&mut shell, &all, &["set", "a", "--bandwidth", "much"]);
    on(&mut shell, &all, &["set", "a", "--cpus", "2"]);
    on(&mut shell, &all, &["list"]);
    on(&mut shell, &all, &["info", "a"]);
    on(&mut shell, &all, &["log", "a"]);
    on(&mut shell, &all, &["console", "a"]);
    on(&mut shell, &all, &["autostart"]);
    on(&mut shell, &all, &["autostop"]);
    on(&mut shell, &all, &["autostart", "--jobs", "0"]);
    on(&mut shell, &all, &["autostop", "--jobs", "0"]);
    on(&mut shell, &all, &["rm", "a"]);
    on(&mut shell, &all, &["list"]);
    insta::assert_snapshot!("vm_refusals", shell.text());
}

fn vm() {
    let all = machines();
    let mut shell = transcript()
        .hiding(all.dir(), "[DIR]")
        .hiding(all.memory(), "[MEMORY]");
    on(&mut shell, &all, &["create", "a", "--memory", "128M"]);
    on(&mut shell, &all, &["start", "a"]);
    on(&mut shell, &all, &["start", "a"]);
    on(&mut shell, &all, &["list"]);
    on(
        &mut shell,
        &all,
        &[
            "exec",
            "a",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; exit 7",
        ],
    );
    on(&mut shell, &all, &["discard", "a"]);
    on(&mut shell, &all, &["rm", "a"]);
    on(&mut shell, &all, &["suspend", "a"]);
    on(&mut shell, &all, &["list"]);
    for command in ["start", "stop", "kill", "suspend", "exec", "rm"] {
        on(&mut shell, &all, &[command, "a"]);
    }
    on(&mut shell, &all, &["resume", "--eager", "a"]);
    on(&mut shell, &all, &["resume", "a"]);
    on(&mut shell, &all, &["suspend", "a"]);
    on(&mut shell, &all, &["discard", "a"]);
    on(&mut shell, &all, &["list"]);
    on(&mut shell, &all, &["start", "a"]);
    on(&mut shell, &all, &["kill", "a"]);
    on(&mut shell, &all, &["rm", "a"]);
    insta::assert_snapshot!("vm", shell.text());
}
