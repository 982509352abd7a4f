//! Workloads run in several targets, and what differs is found.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use brisk_host::cgroup::Group;
use brisk_testkit::{Brisk, Signal, brisk_of, trial, trials, until};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 8] = [
        (
            "a_measurement_goes_on_where_it_was_interrupted",
            a_measurement_goes_on_where_it_was_interrupted,
        ),
        (
            "a_known_difference_is_found_with_its_size",
            a_known_difference_is_found_with_its_size,
        ),
        ("changes_reach_their_target", changes_reach_their_target),
        (
            "a_target_that_dies_has_failed_and_the_others_go_on",
            a_target_that_dies_has_failed_and_the_others_go_on,
        ),
        (
            "an_interrupt_keeps_the_report_and_leaves_nothing",
            an_interrupt_keeps_the_report_and_leaves_nothing,
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
    let mut all = trials(None, plain);
    all.push(trial(
        "neighbours_are_found",
        without_groups(),
        neighbours_are_found,
    ));
    all.push(trial(
        "rounds_with_neighbours_are_dropped",
        without_groups(),
        rounds_with_neighbours_are_dropped,
    ));
    all.push(trial(
        "half_of_the_processor_takes_twice_as_long",
        QuotaGroup::forbidden(),
        half_of_the_processor_takes_twice_as_long,
    ));
    let needs_root = (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned());
    all.push(trial(
        "a_target_that_swaps_is_found",
        needs_root,
        a_target_that_swaps_is_found,
    ));
    all.extend(trials(
        None,
        [("unequal_cpus_are_found", unequal_cpus_are_found as fn())],
    ));
    all.push(trial(
        "an_interrupt_of_preprocessing_leaves_nothing",
        without_kit(),
        an_interrupt_of_preprocessing_leaves_nothing,
    ));
    let without_kit = without_kit();
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
            same_objects("runc:", 0.7..1.4);
        }),
        compiled("gvisor_makes_the_same_objects", "runsc", || {
            same_objects("gvisor:", 0.7..5.0);
        }),
        compiled(
            "user_mode_linux_makes_the_same_objects",
            "linux.uml",
            || {
                same_objects("uml:", 2.0..8.0);
            },
        ),
        compiled(
            "faults_are_most_of_the_loss_of_user_mode_linux",
            "linux.uml",
            faults_are_most_of_the_loss_of_user_mode_linux,
        ),
        compiled("a_guest_of_brisk_makes_the_same_objects", "gcc", || {
            same_objects("brisk:--accel tcg", 7.0..40.0);
        }),
    ]);
    // One after another: each measures on one processor, and a kernel that moves processes of one
    // trial between control groups makes those of another wait for it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// The reason not to run what needs a program.
fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).exists());
    (!found).then(|| format!("without {program}"))
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

/// The reason not to look for time that was waited: it is counted of control groups.
fn without_groups() -> Option<String> {
    let group = Group::below_own("brisk-test-groups");
    let made = group.is_some_and(|group| {
        group.make().is_ok_and(|()| {
            let counts = group.all_waiting().is_some();
            group.remove().unwrap();
            counts
        })
    });
    (!made).then(|| "without control groups of version 2 that count pressure".to_owned())
}

/// `brisk overhead run` with a report, also of runs that other programs disturb: tests are not
/// alone on a machine.
fn overhead(report: &Path, rounds: u32, words: &[&str]) -> Brisk {
    brisk_of!["overhead", "run", "--keep-disturbed", "--output"]
        .arg(report)
        .arg(format!("--rounds={rounds}"))
        .args(words)
}

fn read(report: &Path) -> Value {
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

/// Samples of a target in a metric.
fn samples(report: &Value, target: &str, metric: &str) -> Vec<Value> {
    let name = format!("{target}: {metric}");
    let series = report["series"].as_array().unwrap().iter();
    let found = series.filter(|series| series["name"] == *name);
    let samples = found.flat_map(|series| series["samples"].as_array().unwrap());
    samples.cloned().collect()
}

/// Values of the runs that count.
fn values(report: &Value, target: &str, metric: &str) -> Vec<f64> {
    let samples = samples(report, target, metric);
    let measured = samples
        .iter()
        .filter(|sample| sample["phase"] == "measured");
    measured
        .filter_map(|sample| sample["value"].as_f64())
        .collect()
}

/// Reasons of the runs that failed.
fn reasons(report: &Value, target: &str) -> Vec<String> {
    let samples = samples(report, target, "time");
    let reasons = samples
        .iter()
        .filter_map(|sample| sample["reason"].as_str());
    reasons.map(str::to_owned).collect()
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
    let report = read(&path);
    let cost = |side: &str| values(&report, side, "fault-anonymous").iter().sum::<f64>();
    assert!(cost("x") > 5.0 * cost("host") && cost("host") > 0.0);
    let table = text.split("where the loss comes from").nth(1).unwrap();
    let line = table.lines().find(|line| line.starts_with("x ")).unwrap();
    // The loss, then each part with its unit, what is left over, and its share.
    let words: Vec<_> = line.split_whitespace().collect();
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

/// Two units are compiled in a target, and its time is accounted for. Its CPU time is within these
/// times the host's, which are twice as far apart as what was measured.
fn same_objects(kind: &str, ratios: std::ops::Range<f64>) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let target = format!("x={kind}");
    overhead(&path, 2, &["--units=2", "--target", &target]).exits(0);
    let report = read(&path);
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
    assert!(ratios.contains(&ratio), "{ratio}");
    let facts = &report["environment"]["extra"];
    assert!(facts["units of"].as_str().unwrap().contains("linux-source"));
    assert_eq!(facts["x: cc1"], facts["host: cc1"], "{facts}");
    assert_eq!(facts["x: cc1"].as_str().unwrap().len(), 64, "{facts}");
    assert_eq!(facts["x: cpus"], "1", "{facts}");
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
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
    let ended = overhead(&path, 1, &words).exits(0);
    let expected = "not comparable: it differs from the host's object lib-rbtree.o";
    assert!(ended.text().contains(expected), "{}", ended.text());
    assert!(ended.text().contains("[other-objects]"), "{}", ended.text());
    let report = read(&path);
    assert_eq!(reasons(&report, "other"), [expected; 2]);
    assert!(values(&report, "other", "time").is_empty());
    assert_eq!(values(&report, "host again", "time").len(), 1);
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
        .exits(0);
    let picture = fs::read_to_string(picture).unwrap();
    for text in [
        "Seconds",
        "percent of the host's",
        "time of the processors went",
    ] {
        assert!(picture.contains(text), "{text}");
    }
    // The target that died, in each of the three; work that takes no time has no account either.
    assert!(picture.matches("not known").count() >= 3);
    let report = read(&path);
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
    let command = format!(
        "pwd >>{log}; [ $(wc -l <{log}) -lt 6 ] || exec sleep 4321",
        log = log.display()
    );
    let words = [
        "--workload=command",
        "--command",
        &*command,
        "--target",
        "x=command:env",
    ];
    let running = overhead(&path, 2, &words).spawn();
    until("the sixth run has begun", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() == 6).then_some(())
    });
    running.signal(Signal::INT);
    // This looks for processes and files that were left.
    let ended = running.wait().exited(130);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    let report = read(&path);
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
    overhead(&path, 2, &[&words[..], &check].concat()).exits(0);
    let report = read(&path);
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

/// A process that wants all of a processor. It ends when this is dropped.
struct Busy(Child);

impl Busy {
    fn on(processor: &str) -> Self {
        let mut command = Command::new("taskset");
        let command = command.args(["-c", processor, "sh", "-c", "while :; do :; done"]);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Counts for a while, on a processor that something else wants, too.
fn beside_a_neighbour(words: &[&str]) -> (String, Value) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let busy = Busy::on("0");
    let ended = brisk_of!["overhead", "run", "--workload=command", "--target=x=host"]
        .args(["--rounds=2", "--cpus=0", "--command", count, "--output"])
        .arg(&path)
        .args(words)
        .exits(0);
    drop(busy);
    let text = ended.text();
    let line = text.lines().find(|line| line.starts_with("x "));
    assert!(line.unwrap().ends_with("not comparable"), "{text}");
    assert!(text.contains("[neighbours]"), "{text}");
    (text, read(&path))
}

fn neighbours_are_found() {
    let (text, report) = beside_a_neighbour(&["--keep-disturbed"]);
    let expected = "x: not comparable: other programs had the processors in";
    assert!(text.contains(expected), "{text}");
    assert!(report["notes"].to_string().contains(expected));
    assert_eq!(values(&report, "x", "time").len(), 2);
}

fn rounds_with_neighbours_are_dropped() {
    let (text, report) = beside_a_neighbour(&[]);
    let expected = "x: not comparable: 2 of 2 rounds were dropped";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("x: 2 runs dropped"), "{text}");
    assert!(values(&report, "x", "time").is_empty());
    // Nothing that was measured is lost.
    assert_eq!(values(&report, "x", "time of dropped runs").len(), 2);
    for reason in reasons(&report, "x") {
        assert!(reason.starts_with("dropped: other programs"), "{reason}");
    }
}

/// A target in whose kernel pages are swapped while it works, as far as its counters say: the work
/// itself raises them.
fn a_target_that_swaps_is_found() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let counters = dir.path().join("vmstat");
    fs::write(&counters, "pswpin 1\npswpout 1\n").unwrap();
    let prefix = dir.path().join("swaps");
    let mount = format!("mount --bind {} /proc/vmstat", counters.display());
    let enter = format!("#!/bin/sh\nexec unshare -m sh -c '{mount}; exec \"$@\"' sh \"$@\"\n");
    script(&prefix, &enter);
    let work = format!(
        "read -r name count </proc/vmstat; [ \"$name\" != pswpin ] || \
         echo \"pswpin $((count + 7))\" >{}",
        counters.display()
    );
    let target = format!("x=command:{}", prefix.display());
    let words = [
        "--workload=command",
        "--command",
        &work,
        "--target",
        &target,
    ];
    let text = overhead(&path, 2, &words).exits(0).text();
    let expected = "Note: x: not comparable: 14 pages were swapped while it was measured";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("[swap]"), "{text}");
    assert_eq!(values(&read(&path), "host", "pages swapped"), [0.0, 0.0]);
}

/// Half of a processor's time, by the quota of a control group of either version.
fn half_of_the_processor_takes_twice_as_long() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let group = QuotaGroup::new();
    let prefix = dir.path().join("half");
    let enter = format!(
        "#!/bin/sh\necho $$ >{}/cgroup.procs\nexec \"$@\"\n",
        group.0.display()
    );
    script(&prefix, &enter);
    let count = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let target = format!("half=command:{}", prefix.display());
    let words = [
        "--workload=command",
        "--command",
        count,
        "--target",
        &target,
    ];
    overhead(&path, 4, &words).exits(0);
    let report = read(&path);
    let times = |side: &str| values(&report, side, "time").iter().sum::<f64>();
    let ratio = times("half") / times("host again");
    // Others on the processor make the host's time longer, and a quota that is not reached.
    assert!((1.3..2.6).contains(&ratio), "{ratio}");
    let cpu = cpu_ratio(&report, "half");
    assert!((0.8..1.25).contains(&cpu), "the same work: {cpu}");
}

/// A control group that has a processor for 10 of each 20 ms.
struct QuotaGroup(PathBuf);

impl QuotaGroup {
    /// The directory of the controller, if this process may make groups there.
    fn place() -> Option<(PathBuf, &'static str, &'static str)> {
        let unified = Path::new("/sys/fs/cgroup/cgroup.subtree_control");
        let has_cpu = fs::read_to_string(unified).is_ok_and(|text| text.contains("cpu"));
        match has_cpu {
            true => Some(("/sys/fs/cgroup".into(), "cpu.max", "10000 20000")),
            false => ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
                .into_iter()
                .find(|place| {
                    Path::new(place).join("cpu.cfs_quota_us").exists()
                        || Path::new(place).join("cpu.shares").exists()
                })
                .map(|place| (place.into(), "cpu.cfs_quota_us", "10000")),
        }
    }

    fn new() -> Self {
        let (place, file, quota) = Self::place().unwrap();
        let directory = place.join(format!("brisk-quota-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let group = Self(directory);
        if file != "cpu.max" {
            fs::write(group.0.join("cpu.cfs_period_us"), "20000").unwrap();
        }
        fs::write(group.0.join(file), quota).unwrap();
        group
    }

    /// The reason why there is no such group.
    fn forbidden() -> Option<String> {
        let place = Self::place().map(|(place, ..)| place);
        let probe = |place: PathBuf| {
            let directory = place.join(format!("brisk-quota-probe-{}", std::process::id()));
            let made = fs::create_dir(&directory).is_ok();
            let has =
                directory.join("cpu.max").exists() || directory.join("cpu.cfs_quota_us").exists();
            let _ = fs::remove_dir(&directory);
            made && has
        };
        (!place.is_some_and(probe)).then(|| "without the controller of CPU time".to_owned())
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
    }
}

fn unequal_cpus_are_found() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = ["--workload=command", "--command=true", "--target"];
    let words = [&words[..], &["two=brisk:--accel tcg --cpus 2"]].concat();
    let text = overhead(&path, 1, &words).exits(0).text();
    let expected = "Note: two: not comparable: the target sees 2 CPUs, and runs on 1";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("[unequal-cpus]"), "{text}");
    assert!(text.contains("QEMU emulates the processor (TCG)"), "{text}");
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
    let before = read(&path);
    again(2, &words)
        .exits(125)
        .explains(&["has 2 rounds already", "--rounds"]);
    let other = ["--workload=command", "--command=false", "--target=x=host"];
    again(3, &other)
        .exits(125)
        .explains(&["its workload is true, and now false"]);
    assert_eq!(read(&path), before);
    again(3, &words).exits(0);
    let report = read(&path);
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

/// A loop of so many steps as the target's variable says: 20 % more on one side.
fn a_known_difference_is_found_with_its_size() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let count = "i=0; while [ $i -lt ${N:-200}000 ]; do i=$((i+1)); done";
    let words = ["--workload=command", "--command", count];
    let words = [&words[..], &["--target", "more=command:env N=240"]].concat();
    let text = overhead(&path, 10, &words).exits(0).text();
    let line = text.lines().find(|line| line.starts_with("more "));
    let interval = line
        .unwrap()
        .split_whitespace()
        .find(|word| word.contains('–'));
    let (low, high) = interval.unwrap().split_once('–').unwrap();
    let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
    assert!(low <= 1.2 && 1.2 <= high, "{text}");
    // What others do on the machine is not in the CPU time.
    let report = read(&path);
    let times = |side: &str| values(&report, side, "CPU of the host").iter().sum::<f64>();
    let ratio = times("more") / times("host");
    assert!((1.1..1.3).contains(&ratio), "{ratio}: {text}");
}

fn changes_reach_their_target() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    // Where it is, what it may run on, and whether it gets huge pages.
    let log = dir.path().join("log");
    let command = format!(
        "echo $(stat -f -c %T .) $(nproc) $(grep THP_enabled /proc/self/status) >>{}",
        log.display()
    );
    let words = [
        "--workload=command",
        "--command",
        &command,
        "--target=x=host",
    ];
    let words = [&words[..], &["--ablate=thp,tmpfs,pinning", "--cpus=0"]].concat();
    let text = overhead(&path, 1, &words).exits(0).text();
    let lines = fs::read_to_string(&log).unwrap();
    let count = |line: &str| lines.lines().filter(|found| *found == line).count();
    let processors = std::thread::available_parallelism().unwrap();
    // The host and x run four times in a round with its warm-up and once before.
    let disk = String::from_utf8(
        Command::new("stat")
            .args(["-f", "-c", "%T", "/var/tmp"])
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    assert_eq!(count("tmpfs 1 THP_enabled: 0"), 2, "{lines}");
    assert_eq!(
        count(&format!("{} 1 THP_enabled: 1", disk.trim())),
        2,
        "{lines}"
    );
    assert_eq!(
        count(&format!("tmpfs {processors} THP_enabled: 1")),
        2,
        "{lines}"
    );
    for name in [
        "x without huge pages",
        "x without tmpfs",
        "x without pinning",
    ] {
        assert!(text.contains(name), "{text}");
        assert_eq!(values(&read(&path), name, "time").len(), 1, "{name}");
    }
    let words = ["--workload=command", "--command=true", "--target=x=host"];
    let refused = overhead(&path, 1, &[&words[..], &["--ablate=kernel"]].concat()).exits(125);
    refused.explains(&["x: not measured with the host's kernel: only a guest of brisk's"]);
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
    overhead(&path, 2, &words).exits(0);
    let report = read(&path);
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
