//! A workload runs in several targets; some of them fail.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Brisk, Signal, brisk_of, read_report, reasons, samples, script, trials, until, values,
};
use libtest_mimic::Arguments;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 8] = [
        (
            "lines_that_are_read_at_once_make_no_time_of_0",
            lines_that_are_read_at_once_make_no_time_of_0,
        ),
        (
            "a_measurement_goes_on_where_it_was_interrupted",
            a_measurement_goes_on_where_it_was_interrupted,
        ),
        (
            "a_target_that_dies_has_failed_and_the_others_go_on",
            a_target_that_dies_has_failed_and_the_others_go_on,
        ),
        (
            "an_interrupt_keeps_the_report_and_leaves_nothing",
            an_interrupt_keeps_the_report_and_leaves_nothing,
        ),
        (
            "reports_in_other_forms_have_the_verdict",
            reports_in_other_forms_have_the_verdict,
        ),
        (
            "work_that_fails_its_check_gives_no_time",
            work_that_fails_its_check_gives_no_time,
        ),
        (
            "what_a_prefix_loses_is_an_error",
            what_a_prefix_loses_is_an_error,
        ),
        ("a_target_says_what_it_lacks", a_target_says_what_it_lacks),
    ];
    let all = trials(None, plain);
    // One after another: each measures on one processor, and a kernel that moves processes of one
    // trial between control groups makes those of another wait for it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// `brisk overhead run` with a report, also of runs that other programs disturb: tests are not
/// alone on a machine.
fn overhead(report: &Path, rounds: u32, words: &[&str]) -> Brisk {
    brisk_of!["overhead", "run", "--keep-disturbed", "--output"]
        .arg(report)
        .arg(format!("--rounds={rounds}"))
        .args(words)
}

fn a_measurement_goes_on_where_it_was_interrupted() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = ["--workload=command", "--command=true", "--target=x=host"];
    overhead(&path, 2, &words).exits(0);
    let again = |rounds: u32, words: &[&str]| {
        brisk_of!["overhead", "run", "--keep-disturbed", "--continue"]
            .arg(&path)
            .arg(format!("--rounds={rounds}"))
            .args(words)
    };
    let before = read_report(&path);
    again(2, &words)
        .exits(125)
        .explains(&["has 2 rounds already", "--rounds"]);
    let other = ["--workload=command", "--command=false", "--target=x=host"];
    again(3, &other)
        .exits(125)
        .explains(&["its workload is true, and now false"]);
    assert_eq!(read_report(&path), before);
    again(3, &words).exits(0);
    let report = read_report(&path);
    for side in ["host", "host again", "x"] {
        let numbers: Vec<_> = samples(&report, side, "time")
            .iter()
            .filter(|sample| sample["phase"] == "measured")
            .map(|sample| sample["iteration"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, [0, 1, 2], "{side}");
        let first = &samples(&report, side, "time")[..3];
        assert_eq!(first, &samples(&before, side, "time")[..], "{side}");
    }
}

/// Holds the line of the begin back until that of the end, as a busy host reads them.
const AT_ONCE: &str = r#"#!/bin/sh
"$@" | while IFS= read -r l; do case $l in *' begin') b=$l;; *' end '*) printf '%s\n%s\n' "$b" "$l";;
*' fact boot '*) [ -z "$SAME" ] || printf '%s\n' "$l";; *) printf '%s\n' "$l";; esac; done
"#;

fn lines_that_are_read_at_once_make_no_time_of_0() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let late = dir.path().join("late");
    script(&late, AT_ONCE);
    let late = late.display();
    let words = [
        "--workload=command",
        "--command=true",
        &format!("--target=here=command:env SAME=1 {late}"),
        &format!("--target=there=command:{late}"),
    ];
    let ended = overhead(&path, 2, &words).exits(0);
    let report = read_report(&path);
    // On the host's kernel the shell takes the time itself.
    let facts = &report["environment"]["extra"];
    for side in ["host", "host again", "here"] {
        let times = values(&report, side, "time");
        assert!(
            times.len() == 2 && times.iter().all(|time| *time > 0.0),
            "{side}: {times:?}"
        );
        let fact = facts[&*format!("{side}: times")].as_str().unwrap();
        assert!(fact.ends_with("where they happen"), "{fact}");
    }
    // Counters that were read at once are of no run.
    assert!(values(&report, "here", "CPU of the host").is_empty());
    // Elsewhere nothing says how long it took.
    assert!(values(&report, "there", "time").is_empty());
    for reason in reasons(&report, "there") {
        assert!(reason.starts_with("not timed: "), "{reason}");
    }
    let text = ended.text();
    for says in ["there: 2 runs without a time", "[too-short]"] {
        assert!(text.contains(says), "{text}");
    }
    assert!(
        !text.contains("0.000 s") && !text.contains("[no-run]"),
        "{text}"
    );
}

fn a_target_that_dies_has_failed_and_the_others_go_on() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    // The parent of the command's shell is the shell of the target.
    let command = "[ -z \"$DIES\" ] || kill -KILL $PPID";
    let words = ["--workload=command", "--command", command];
    let words = [&words[..], &["--target", "dies=command:env DIES=1"]].concat();
    let picture = dir.path().join("report.svg");
    let ended = overhead(&path, 2, &words)
        .arg("--svg")
        .arg(&picture)
        .exits(125)
        .explains(&["no target was measured: dies: the target ended: signal: 9"]);
    let picture = fs::read_to_string(picture).unwrap();
    for text in ["Seconds", "percent of the host's"] {
        assert!(picture.contains(text), "{text}");
    }
    // Of the target that died.
    assert!(picture.matches("not known").count() >= 2);
    let report = read_report(&path);
    let reasons = reasons(&report, "dies");
    // The warm-up, and two rounds.
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    for reason in &reasons {
        assert!(
            reason.starts_with("the target ended: signal: 9"),
            "{reason}"
        );
    }
    for text in ["dies: 2 runs failed", "[no-run]"] {
        assert!(ended.text().contains(text), "{}", ended.text());
    }
    // Once, when it happens.
    let told = "dies fails: the target ended: signal: 9";
    assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
    for target in ["host", "host again"] {
        assert_eq!(values(&report, target, "time").len(), 2, "{target}");
    }
}

fn an_interrupt_keeps_the_report_and_leaves_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let log = dir.path().join("log");
    // Once on the host, three times in the warm-up; the fifth run is the first that counts.
    let limit = dir.path().join("limit");
    fs::write(&limit, "6\n").unwrap();
    let command = format!(
        "pwd >>{log}; [ $(wc -l <{log}) -lt $(cat {limit}) ] || exec sleep 4321",
        log = log.display(),
        limit = limit.display()
    );
    let words = [
        "--workload=command",
        "--command",
        &*command,
        "--target",
        "x=command:env",
    ];
    let mut running = overhead(&path, 2, &words).spawn();
    running.read();
    until("the sixth run has begun", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() == 6).then_some(())
    });
    running.signal(Signal::INT);
    // This looks for processes and files that were left.
    let ended = running.wait().exited(130);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    // What there is of a table is shown.
    assert!(ended.text().contains("best of 3"), "{}", ended.text());
    let report = read_report(&path);
    let measured = ["host", "host again", "x"].map(|target| values(&report, target, "time").len());
    assert_eq!(measured.iter().sum::<usize>(), 1, "{measured:?}");
    for line in fs::read_to_string(&log).unwrap().lines() {
        assert!(!Path::new(line).exists(), "{line} was left");
        let id = Path::new(line).file_name().unwrap();
        for groups in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let group: PathBuf = Path::new(groups).join(id);
            assert!(!group.exists(), "{} was left", group.display());
        }
    }
    // The round that not all targets have is made again, and no other one is missing.
    fs::write(&limit, "1000\n").unwrap();
    let go_on = brisk_of![
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=2",
        "--continue"
    ];
    go_on.arg(&path).args(words).exits(0);
    let report = read_report(&path);
    for side in ["host", "host again", "x"] {
        let samples = samples(&report, side, "time");
        let measured = samples
            .iter()
            .filter(|sample| sample["phase"] == "measured");
        let rounds: Vec<_> = measured
            .map(|sample| sample["iteration"].as_u64())
            .collect();
        assert_eq!(rounds, [Some(0), Some(1)], "{side}");
    }
}

fn reports_in_other_forms_have_the_verdict() {
    let dir = tempdir().unwrap();
    let (path, page) = (
        dir.path().join("report.json"),
        dir.path().join("report.html"),
    );
    let loops = ": '<b>x'; i=0; while [ $i -lt ${N:-1000} ]; do i=$((i+1)); done";
    let words = [
        "--workload=command",
        "--command",
        loops,
        "--target=x=command:env N=2000",
    ];
    let run = overhead(&path, 6, &words).arg("--html").arg(&page);
    let text = run.args(["--format", "csv"]).exits(0).text();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("series,"), "{head}");
    // 6 rounds of the time of three sides, at least.
    let times = lines.filter(|line| line.contains(": time,") && line.contains("measured"));
    assert!(times.count() >= 18, "{text}");
    let report = read_report(&path);
    let verdict = report["environment"]["extra"]["x: verdict"]
        .as_str()
        .unwrap();
    assert!(
        verdict.contains("compar") || verdict.contains("caveat"),
        "{verdict}"
    );
    let html = fs::read_to_string(&page).unwrap();
    for part in ["x: verdict", "x: kernel", "&lt;b&gt;x", "<svg", "measured"] {
        assert!(html.contains(part), "{part}");
    }
    // The page begins with the answer and its table; rows of zeros are left out.
    let (answer, table) = (html.find("class=\"lead\""), html.find("best of 3"));
    let picture = html.find("<svg");
    assert!(
        answer.unwrap() < table.unwrap() && table < picture,
        "{html}"
    );
    let answer = report["environment"]["extra"]["x: answer"]
        .as_str()
        .unwrap();
    assert!(html.contains(&format!("<p class=\"lead\">{}", &answer[..10])));
    assert!(!html.contains("<td>x: guest mode</td>"), "{html}");
    // A command is text, not part of the page.
    assert!(!html.contains("<b>x"), "{html}");
}

fn work_that_fails_its_check_gives_no_time() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = [
        "--workload=command",
        "--command",
        "echo ${X:-good} >result",
        "--check",
    ];
    let check = ["grep -q good result", "--target", "bad=command:env X=bad"];
    overhead(&path, 2, &[&words[..], &check].concat())
        .exits(125)
        .explains(&["no target was measured: bad: the check failed with status 1"]);
    let report = read_report(&path);
    assert_eq!(
        reasons(&report, "bad"),
        ["the check failed with status 1"; 3]
    );
    assert_eq!(values(&report, "host", "time").len(), 2);
    let words = [
        "--workload=command",
        "--command",
        "echo why >&2; exit 3",
        "--target=x=host",
    ];
    overhead(&path, 2, &words).exits(125).explains(&[
        "the workload fails on the host",
        "failed with status 3",
        "why",
    ]);
}

fn what_a_prefix_loses_is_an_error() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let silent = dir.path().join("silent");
    script(&silent, "#!/bin/sh\n\"$@\" >/dev/null\n");
    let target = format!("silent=command:{}", silent.display());
    let words = [
        "--workload=command",
        "--command=true",
        "--timeout=2s",
        "--target",
        &target,
    ];
    overhead(&path, 2, &words)
        .exits(125)
        .explains(&["no target was measured: silent: no answer within 2 s"]);
    let report = read_report(&path);
    assert_eq!(reasons(&report, "silent"), ["no answer within 2 s"; 3]);
    assert_eq!(values(&report, "host", "time").len(), 2);
}

fn a_target_says_what_it_lacks() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = ["--workload=command", "--command=true", "--target"];
    let run = |target: &str| overhead(&path, 2, &words).arg(target);
    run("x=xen:")
        .exits(2)
        .explains(&["xen: no such kind of target", "command:PREFIX"]);
    run("host=runc:")
        .exits(125)
        .explains(&["two targets are named host"]);
    let nowhere = dir.path().join("nowhere");
    for (target, package) in [("x=uml:", "user-mode-linux"), ("x=docker:gcc", "docker.io")] {
        let lacks = run(target).env("PATH", &nowhere).env("HOME", &nowhere);
        lacks.exits(125).explains(&[
            "target x: there is no",
            &format!("apt-get install {package}"),
        ]);
    }
}
