//! Persistent VMs: a guest under load is suspended and resumed many times.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use brisk_testkit::{Machines, brisk_of, capture, ext4, qemu_is_before, times, tool, tree, trial};
use libtest_mimic::Arguments;

/// What it has to do.
const LOAD: &str = include_str!("vm_load.sh");

/// Prints how far each part is, then what should not be.
const PROGRESS: &str = "cd /m; for part in memory disk timer lo outside; do \
     echo $part $(cat $part); done; if test -e bad; then cat bad; fi; \
     busybox dmesg | grep -iE 'ext4-fs (error|warning)|i/o error|oops:|corrupt|segfault'; :";

fn main() {
    let trials = vec![trial(
        "a_guest_under_load_goes_to_an_image_and_back",
        qemu_is_before(8, 2),
        load,
    )];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Somebody at a port of the host that echoes what it receives.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = |mut stream: TcpStream| {
        let mut line = String::new();
        // A guest that is suspended leaves without a word.
        if BufReader::new(&stream).read_line(&mut line).is_ok() {
            let _ = stream.write_all(line.as_bytes());
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    port
}

/// Progress of the guest, and nothing else.
#[track_caller]
fn progress(all: &Machines) -> BTreeMap<String, u64> {
    let output = all.output("a", PROGRESS);
    let line = |line: &str| {
        let (part, count) = line.split_once(' ')?;
        Some((part.to_owned(), count.parse().ok()?))
    };
    let lines = output.lines().map(|text| line(text).ok_or(text));
    lines
        .collect::<Result<_, _>>()
        .unwrap_or_else(|_| panic!("{output}"))
}

/// All of its parts go on.
#[track_caller]
fn is_well(all: &Machines) {
    assert_eq!((all.doing("a").as_str(), all.count()), ("running", 1));
    let before = progress(all);
    assert_eq!(before.len(), 5);
    for (part, count) in &before {
        let script =
            format!("until test $(cat /m/{part}) -gt {count}; do busybox usleep 10000; done");
        let _ = all.output("a", &script);
    }
    let after = progress(all);
    assert!(before.iter().all(|(part, count)| after[part] > *count));
}

fn load() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let (dir, root) = (all.dir().join("tree"), all.dir().join("image"));
    tree(&dir);
    std::fs::write(dir.join("srv/load"), LOAD).unwrap();
    ext4(&dir, &root);
    let root = root.to_str().unwrap();
    let words = ["--root", root, "--rw", "--net", "user", "--cpus", "2"];
    all.boot("a", &words);
    let script = format!(
        "busybox setsid sh /srv/load {} < /dev/null > /dev/null 2>&1 & \
         until test -e /m/outside; do busybox usleep 10000; done; \
         cat /proc/sys/kernel/random/boot_id",
        echo()
    );
    let boot = all.output("a", &script);
    is_well(&all);
    for cycle in 0..times(5, 100) {
        let compression = ["zstd", "lz4", "none"][cycle % 3];
        let incremental = format!("--incremental={}", cycle % 4 != 3);
        let words = ["set", "a", "--compression", compression, &incremental];
        let _ = all.does(&words);
        let drop_cache: &[&str] = if cycle % 10 == 4 {
            &["--drop-cache"]
        } else {
            &[]
        };
        let _ = all.does(&[&["suspend", "a"], drop_cache].concat());
        let eager: &[&str] = if cycle % 2 == 1 { &["--eager"] } else { &[] };
        let _ = all.does(&[&["resume", "a"], eager].concat());
        is_well(&all);
    }
    assert_eq!(all.output("a", "cat /proc/sys/kernel/random/boot_id"), boot);
    let _ = all.does(&["stop", "a"]);
    let _ = capture(&tool("e2fsck"), &["-f", "-n", root]);
}
