//! Units of a kernel are compiled in several targets, to the same objects.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{
    Brisk, Signal, brisk_of, missing, read_report, reasons, script, trial, until, values,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let without_kit = without_kit();
    let mut all = vec![trial(
        "an_interrupt_of_preprocessing_leaves_nothing",
        without_kit.clone(),
        an_interrupt_of_preprocessing_leaves_nothing,
    )];
    let compiled = |name: &str, program: &str, test: fn()| -> Trial {
        let missing = without_kit.clone().or_else(|| missing(program));
        trial(name, missing, test)
    };
    all.extend([
        compiled(
            "another_compiler_is_found",
            "gcc",
            another_compiler_is_found,
        ),
        compiled("runc_makes_the_same_objects", "runc", || {
            same_objects("runc:");
        }),
        compiled("gvisor_makes_the_same_objects", "runsc", || {
            same_objects("gvisor:");
        }),
        compiled(
            "user_mode_linux_makes_the_same_objects",
            "linux.uml",
            || {
                same_objects("uml:");
            },
        ),
        compiled(
            "faults_are_most_of_the_loss_of_user_mode_linux",
            "linux.uml",
            faults_are_most_of_the_loss_of_user_mode_linux,
        ),
        compiled("a_guest_of_brisk_makes_the_same_objects", "gcc", || {
            same_objects("brisk:--accel tcg");
        }),
    ]);
    // One after another: each measures on one processor, and a kernel that moves processes of one
    // trial between control groups makes those of another wait for it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// The reason not to compile: units cannot be made.
fn without_kit() -> Option<String> {
    let sources = fs::read_dir("/usr/src").into_iter().flatten().flatten();
    let is_source = |name: &str| name.starts_with("linux-source-") && name.ends_with(".tar.xz");
    let mut names = sources.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let missing = ["gcc", "make", "flex", "bison", "bc"]
        .into_iter()
        .find_map(missing);
    match names.any(|name| is_source(&name)) {
        true => missing,
        false => Some("without linux-source".to_owned()),
    }
}

/// `brisk overhead run` with a report, also of runs that other programs disturb: tests are not
/// alone on a machine.
fn overhead(report: &Path, rounds: u32, words: &[&str]) -> Brisk {
    brisk_of!["overhead", "run", "--keep-disturbed", "--output"]
        .arg(report)
        .arg(format!("--rounds={rounds}"))
        .args(words)
}

/// CPU time of a target over that of the host: other programs are in neither.
fn cpu_ratio(report: &Value, target: &str) -> f64 {
    let time = |side: &str| values(report, side, "CPU of the host").iter().sum::<f64>();
    time(target) / time("host")
}

fn faults_are_most_of_the_loss_of_user_mode_linux() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = ["--units=2", "--explain", "--target=x=uml:"];
    let text = overhead(&path, 2, &words).exits(0).text();
    let report = read_report(&path);
    let cost = |side: &str| values(&report, side, "fault-anonymous").iter().sum::<f64>();
    assert!(cost("x") > cost("host") && cost("host") > 0.0);
    let table = text.split("where the loss comes from").nth(1).unwrap();
    let line = table.lines().find(|line| line.starts_with("x ")).unwrap();
    // The loss, then each part with its unit, what is left over, and its share.
    // A part by the host's counts is marked.
    let words = line.split_whitespace().filter(|word| *word != "*");
    let words: Vec<_> = words.collect();
    let seconds = |place: usize| {
        let number: f64 = words[place].parse().unwrap();
        number
            * match words[place + 1] {
                "s" => 1.0,
                "ms" => 1e-3,
                "µs" => 1e-6,
                "ns" => 1e-9,
                unit => panic!("{unit}: {line}"),
            }
    };
    let [loss, user, faults, calls, processes, rest] = [1, 3, 5, 7, 9, 11].map(seconds);
    assert!(faults > user.max(calls).max(processes), "{line}");
    let sum = user + faults + calls + processes + rest;
    assert!((sum - loss).abs() < 0.01 * loss, "{line}");
    let share: f64 = words[13].parse().unwrap();
    let verdict = match (80.0..=120.0).contains(&share) {
        true => "explained",
        false => "not explained",
    };
    assert_eq!(words[15..].join(" "), verdict, "{line}");
}

/// Two units are compiled in a target, and its time is accounted for. The CPU time of all its
/// processes is counted: it is no less than most of the host's for the same work, and no more than
/// one processor has. How much more it is depends on the machine, and is for `benchmarks/`.
fn same_objects(kind: &str) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let target = format!("x={kind}");
    overhead(&path, 2, &["--units=2", "--target", &target]).exits(0);
    let report = read_report(&path);
    for target in ["host", "host again", "x"] {
        // A run whose objects differ would have failed.
        assert_eq!(reasons(&report, target), [""; 0], "{target}");
        let times = values(&report, target, "time");
        assert_eq!(times.len(), 2, "{target}");
        let part = |name: &str| values(&report, target, name);
        let cpu = part("CPU of the host");
        let own = part("own clock");
        assert_eq!(own.len(), 2, "{target} has a clock");
        for (run, time) in times.iter().enumerate() {
            let parts = [
                "guest mode",
                "user",
                "system",
                "waiting",
                "idle",
                "steal",
                "rest",
            ];
            let parts = parts.map(|name| part(name).get(run).copied().unwrap_or(0.0));
            // Idle time and steal are counted in ticks of 10 ms, at both ends.
            let (total, rest): (f64, f64) = (parts.iter().sum(), parts[6].abs());
            let most = total * 0.02 + 0.04;
            assert!(
                rest <= most,
                "{target}: {parts:?} of {total}; {time} {own:?}"
            );
            assert!(
                cpu[run] > 0.0 && cpu[run] <= time + 0.02,
                "{target}: {cpu:?}"
            );
        }
    }
    let ratio = cpu_ratio(&report, "x");
    assert!(ratio > 0.7, "{ratio}");
    let facts = &report["environment"]["extra"];
    assert!(facts["units of"].as_str().unwrap().contains("linux-source"));
    assert_eq!(facts["x: cc1"], facts["host: cc1"], "{facts}");
    assert_eq!(facts["x: cc1"].as_str().unwrap().len(), 64, "{facts}");
    assert_eq!(facts["x: cpus"], "1", "{facts}");
}

fn another_compiler_is_found() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    // The last -O counts.
    script(
        &dir.path().join("gcc"),
        "#!/bin/sh\nexec /usr/bin/gcc \"$@\" -O1\n",
    );
    let target = format!(
        "other=command:env PATH={}:/usr/bin:/bin",
        dir.path().display()
    );
    let words = ["--units=1", "--target", &target];
    let expected = "not comparable: it differs from the host's object lib-rbtree.o";
    let ended = overhead(&path, 1, &words)
        .exits(125)
        .explains(&["no target was measured", expected]);
    assert!(ended.text().contains(expected), "{}", ended.text());
    assert!(ended.text().contains("[other-objects]"), "{}", ended.text());
    let report = read_report(&path);
    assert_eq!(reasons(&report, "other"), [expected; 2]);
    assert!(values(&report, "other", "time").is_empty());
    assert_eq!(values(&report, "host again", "time").len(), 1);
}

fn an_interrupt_of_preprocessing_leaves_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let begun = dir.path().join("begun");
    // In the place of tar, so that it is at work when the signal comes.
    let text = format!("#!/bin/sh\n: >{}\nsleep 4321\n", begun.display());
    script(&dir.path().join("tar"), &text);
    let search = std::env::var_os("PATH").unwrap();
    let first = std::iter::once(dir.path().to_owned());
    let search = std::env::join_paths(first.chain(std::env::split_paths(&search))).unwrap();
    let running = overhead(&path, 1, &["--target=x=host"])
        .env("PATH", search)
        .env("BRISK_CACHE_DIR", dir.path().join("cache"))
        .spawn();
    until("the source is being unpacked", || {
        begun.exists().then_some(())
    });
    running.signal(Signal::INT);
    // This looks for processes and files that were left.
    let ended = running.wait().exited(130);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    assert!(!path.exists());
}
