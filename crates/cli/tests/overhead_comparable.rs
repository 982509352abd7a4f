//! What makes a target incomparable is found, and so is a difference of known size.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use brisk_host::cgroup::Group;
use brisk_testkit::{
    Brisk, brisk_of, not_root, read_report, reasons, script, trial, trials, values,
};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 3] = [
        (
            "a_known_difference_is_found_with_its_size",
            a_known_difference_is_found_with_its_size,
        ),
        ("changes_reach_their_target", changes_reach_their_target),
        ("unequal_cpus_are_found", unequal_cpus_are_found),
    ];
    let mut all = trials(None, plain);
    for (name, test) in [
        ("neighbours_are_found", neighbours_are_found as fn()),
        (
            "rounds_with_neighbours_are_dropped",
            rounds_with_neighbours_are_dropped,
        ),
    ] {
        all.push(trial(name, without_groups(), test));
    }
    all.push(trial(
        "half_of_the_processor_takes_twice_as_long",
        QuotaGroup::forbidden(),
        half_of_the_processor_takes_twice_as_long,
    ));
    all.push(trial(
        "a_target_that_swaps_is_found",
        not_root(),
        a_target_that_swaps_is_found,
    ));
    // One after another: each measures on one processor, and a kernel that moves processes of one
    // trial between control groups makes those of another wait for it.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
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

/// CPU time of a target over that of the host: other programs are in neither.
fn cpu_ratio(report: &Value, target: &str) -> f64 {
    let time = |side: &str| values(report, side, "CPU of the host").iter().sum::<f64>();
    time(target) / time("host")
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
    (text, read_report(&path))
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
    // There is an answer by CPU time all the same, which two rounds do not decide.
    let answer = text.lines().next().unwrap();
    assert!(
        answer.contains("times the host's CPU time in fewer than 6 rounds"),
        "{text}"
    );
    assert!(answer.contains("It is by CPU time"), "{text}");
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
    assert_eq!(
        values(&read_report(&path), "host", "pages swapped"),
        [0.0, 0.0]
    );
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
    let text = overhead(&path, 4, &words).exits(0).text();
    let report = read_report(&path);
    let total = |metric: &str| values(&report, "half", metric).iter().sum::<f64>();
    // The quota keeps this from below on any machine. How much longer it takes depends on what else
    // runs: benchmarks/overhead has the size of the difference.
    let held_back = total("time") / total("CPU of the host");
    assert!(held_back > 1.5, "{held_back}");
    let cpu = cpu_ratio(&report, "half");
    assert!((0.6..1.7).contains(&cpu), "the same work: {cpu}");
    // Nobody else had the processor meanwhile: it is the group that had it no longer.
    assert!(
        text.contains("half: not comparable: its control group may use 0.50"),
        "{text}"
    );
    let waiting = values(&report, "half", "waiting");
    if !waiting.is_empty() {
        let share = waiting.iter().sum::<f64>() / total("time");
        assert!(share < 0.3, "{share}");
    }
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

/// Work that waits, 20 % longer on one side: a busy or a slower host changes it by milliseconds only.
/// How well a difference of CPU time is found is measured in `benchmarks/overhead known`.
fn a_known_difference_is_found_with_its_size() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let words = ["--workload=command", "--command", "sleep ${TIME:-1}"];
    let words = [&words[..], &["--target", "more=command:env TIME=1.2"]].concat();
    let text = overhead(&path, 6, &words).exits(0).text();
    let line = text.lines().find(|line| line.starts_with("more  "));
    let interval = line
        .unwrap()
        .split_whitespace()
        .find(|word| word.contains('–'));
    let (low, high) = interval.unwrap().split_once('–').unwrap();
    let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
    // Starting a shell takes its time on both sides.
    assert!(1.0 < low && low < 1.25 && 1.15 < high, "{text}");
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
        assert_eq!(values(&read_report(&path), name, "time").len(), 1, "{name}");
    }
    let words = ["--workload=command", "--command=true", "--target=x=host"];
    let refused = overhead(&path, 1, &[&words[..], &["--ablate=kernel"]].concat()).exits(125);
    refused.explains(&["x: not measured with the host's kernel: only a guest of brisk's"]);
}
