//! Standard output, standard error and exit status of the main path and the main errors of every
//! command, as a user sees them. What differs between hosts and runs is replaced: paths, versions,
//! numbers that are measured.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use brisk_testkit::{Brisk, Finished, Machines, brisk_of, qemu_is_before, trials};
use libtest_mimic::Arguments;
use regex::Regex;

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

/// Commands and what became of them.
struct Transcript {
    text: String,
    replaced: Vec<(Regex, &'static str)>,
}

impl Transcript {
    fn new() -> Self {
        let replaced = [
            (r"\d+\.\d+\.\d+[-+~.\w]*-(cloud-)?amd64", "[KERNEL]"),
            (
                r"QEMU( emulator version)? \d+\.\d+(\.\d+)?( \([^)]*\))?",
                "QEMU [VERSION]",
            ),
            (r"\d{4}-\d\d-\d\dT\d\d:?\d\d:?\d\d(\.\d+)?Z", "[TIME]"),
            (r"process \d+", "process [PID]"),
            (
                r"\d+(\.\d+)?( ?(ms|s|sec|µs|MB/s|MB|MiB|KiB|GiB|%)\b)",
                "[N]$2",
            ),
            (r"(?m) +$", ""),
        ];
        Self {
            text: String::new(),
            replaced: replaced
                .map(|(pattern, to)| (Regex::new(pattern).unwrap(), to))
                .into(),
        }
    }

    /// Has a path shown as something else.
    fn hiding(mut self, path: &Path, name: &'static str) -> Self {
        let pattern = regex::escape(path.to_str().unwrap());
        self.replaced
            .insert(0, (Regex::new(&pattern).unwrap(), name));
        self
    }

    fn add(&mut self, words: &[&str], ended: &Finished) {
        let status = match ended.status.code() {
            Some(0) => String::new(),
            Some(status) => format!("[exit status {status}]\n"),
            None => format!("[{}]\n", ended.status),
        };
        let shown = shlex::try_join(words.iter().copied()).unwrap();
        let streams = [("", ended.text()), ("2> ", ended.stderr.clone())];
        writeln!(self.text, "$ brisk {shown}").unwrap();
        for (mark, stream) in streams {
            for line in stream.lines() {
                writeln!(self.text, "{mark}{line}").unwrap();
            }
        }
        self.text.push_str(&status);
        self.text.push('\n');
    }

    /// Runs brisk with these words.
    fn brisk(&mut self, words: &[&str]) -> &mut Self {
        self.given(brisk_of![].args(words), words)
    }

    fn given(&mut self, brisk: Brisk, words: &[&str]) -> &mut Self {
        let ended = brisk.output();
        self.add(words, &ended);
        self
    }

    fn text(&self) -> String {
        let mut text = self.text.clone();
        for (pattern, to) in &self.replaced {
            text = pattern.replace_all(&text, *to).into_owned();
        }
        text
    }
}

fn run() {
    let dir = tempfile::tempdir().unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    let empty = dir.path().join("empty");
    fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let none = |more: &[&'static str]| -> Vec<&'static str> {
        [&["run", "--accel", "tcg", "--root", "none"], more].concat()
    };
    transcript
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
        .brisk(&["run", "ls"])
        .brisk(&["run", "--rw", "--", "true"]);
    insta::assert_snapshot!("run", transcript.text());
}

fn boot() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let nothing = dir.path().join("nothing.json");
    fs::write(&nothing, "{}").unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    let report = report.to_str().unwrap();
    let nothing = nothing.to_str().unwrap();
    let ended = brisk_of![]
        .args([
            "boot", "bench", "--accel", "tcg", "--root", "none", "-n", "1", "-o", report,
        ])
        .exits(0);
    assert!(ended.text().contains("exec to init"), "{}", ended.text());
    transcript
        .brisk(&["boot", "bench", "--runs", "0"])
        .brisk(&[
            "boot", "bench", "--accel", "tcg", "--root", "none", "--kernel", "9.9",
        ])
        .brisk(&["boot", "analyze", "--markers", "/nonexistent"])
        .brisk(&["boot", "compare"])
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
    insta::assert_snapshot!("boot", transcript.text());
}

fn doctor() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong.xml");
    fs::write(&wrong, "<network/>").unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    transcript
        .brisk(&["doctor", "/nonexistent.xml"])
        .brisk(&["doctor", wrong.to_str().unwrap()])
        .brisk(&["doctor", "--format", "xml"]);
    insta::assert_snapshot!("doctor", transcript.text());
}

fn kernel() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(&text, "no kernel at all\n").unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    let text = text.to_str().unwrap();
    transcript
        .brisk(&["kernel"])
        .brisk(&["kernel", "info", "9.9"])
        .brisk(&["kernel", "info", text])
        .brisk(&[
            "kernel",
            "extract",
            "--output",
            "/nonexistent/out",
            "/nonexistent",
        ]);
    insta::assert_snapshot!("kernel", transcript.text());
}

fn initramfs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("initramfs");
    let text = dir.path().join("text");
    fs::write(&text, "no archive\n").unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    transcript
        .brisk(&[
            "initramfs",
            "build",
            "--root",
            "none",
            "--output",
            out.to_str().unwrap(),
        ])
        .brisk(&["initramfs", "list", text.to_str().unwrap()])
        .brisk(&["initramfs", "build", "--root", "none", "--module", "nosuch"]);
    assert!(fs::metadata(out).unwrap().len() > 1000);
    insta::assert_snapshot!("initramfs", transcript.text());
}

fn image() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    fs::write(
        &text,
        "no image at all, and longer than a header\n".repeat(100),
    )
    .unwrap();
    let mut transcript = Transcript::new().hiding(dir.path(), "[DIR]");
    let text = text.to_str().unwrap();
    for command in [&["info"][..], &["verify"], &["rekey", "--for-host"]] {
        transcript
            .brisk(&[&["image"], command, &[text]].concat())
            .brisk(&[&["image"], command, &["/nonexistent"]].concat());
    }
    transcript.brisk(&["image", "extract", text]).brisk(&[
        "image",
        "extract",
        "--raw",
        "/nonexistent/out",
        text,
    ]);
    insta::assert_snapshot!("image", transcript.text());
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

/// Runs `brisk vm` with these words.
fn on(transcript: &mut Transcript, all: &Machines, words: &[&str]) {
    let shown = [&["vm"], words].concat();
    transcript.given(all.vm(words), &shown);
}

fn vm_refusals() {
    let all = machines();
    let mut transcript = Transcript::new()
        .hiding(all.dir(), "[DIR]")
        .hiding(all.memory(), "[MEMORY]");
    for command in [
        "start", "stop", "kill", "discard", "suspend", "resume", "exec", "info", "log", "console",
        "rm",
    ] {
        on(&mut transcript, &all, &[command, "nosuch"]);
    }
    on(&mut transcript, &all, &["create", "../x"]);
    on(&mut transcript, &all, &["create", "a", "--memory", "64M"]);
    on(
        &mut transcript,
        &all,
        &["create", "a", "--root", "host", "--rw"],
    );
    on(&mut transcript, &all, &["create", "a", "--memory", "128M"]);
    on(&mut transcript, &all, &["create", "a"]);
    for command in ["stop", "kill", "discard", "suspend", "resume", "exec"] {
        on(&mut transcript, &all, &[command, "a"]);
    }
    on(
        &mut transcript,
        &all,
        &["set", "a", "--compression", "gzip"],
    );
    on(&mut transcript, &all, &["set", "a", "--bandwidth", "much"]);
    on(&mut transcript, &all, &["list"]);
    on(&mut transcript, &all, &["rm", "a"]);
    on(&mut transcript, &all, &["list"]);
    insta::assert_snapshot!("vm_refusals", transcript.text());
}

fn vm() {
    let all = machines();
    let mut transcript = Transcript::new()
        .hiding(all.dir(), "[DIR]")
        .hiding(all.memory(), "[MEMORY]");
    on(&mut transcript, &all, &["create", "a", "--memory", "128M"]);
    on(&mut transcript, &all, &["start", "a"]);
    on(&mut transcript, &all, &["start", "a"]);
    on(&mut transcript, &all, &["list"]);
    on(
        &mut transcript,
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
    on(&mut transcript, &all, &["discard", "a"]);
    on(&mut transcript, &all, &["rm", "a"]);
    on(&mut transcript, &all, &["suspend", "a"]);
    on(&mut transcript, &all, &["list"]);
    for command in ["start", "stop", "kill", "suspend", "exec", "rm"] {
        on(&mut transcript, &all, &[command, "a"]);
    }
    on(&mut transcript, &all, &["resume", "--eager", "a"]);
    on(&mut transcript, &all, &["resume", "a"]);
    on(&mut transcript, &all, &["suspend", "a"]);
    on(&mut transcript, &all, &["discard", "a"]);
    on(&mut transcript, &all, &["list"]);
    on(&mut transcript, &all, &["start", "a"]);
    on(&mut transcript, &all, &["kill", "a"]);
    on(&mut transcript, &all, &["rm", "a"]);
    insta::assert_snapshot!("vm", transcript.text());
}
