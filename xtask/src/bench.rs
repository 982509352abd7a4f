//! `cargo xtask bench`: brisk beside its peers, interleaved in one run.
//!
//! Every round starts each command once, so that a machine that slows down slows all of them.
//! The report is saved after every round. A peer that is not installed is left out with a note.

mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Order, Plan, Progress, Readings, Saved, Stopped};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{CompareOptions, Environment, Report, Unit, render};

use crate::clones::memory_of_each;
use crate::goals::{Bound, Goal, absolute, judge, ratio};

use cases::cases;

/// Options of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    brisk: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 12)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 2)]
    warmup: u32,
    /// Kernel of the guests without a root.
    #[arg(long, default_value = "cloud-amd64")]
    kernel: String,
    /// Kernel of the guests with the host's root; virtme-ng needs 9p in it.
    #[arg(long)]
    generic: Option<String>,
    /// Directory of the reports.
    #[arg(long)]
    out: PathBuf,
    /// Measure nothing: hold the samples of this report, run.json, against what is to be reached.
    #[arg(long, value_name = "FILE")]
    again: Option<PathBuf>,
}

/// A command that is timed.
struct Case {
    name: &'static str,
    words: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// Where brisk leaves its own timing.
    timing: Option<PathBuf>,
    /// Where it leaves a guest for its next run, which is waited for: what comes next is not to be
    /// disturbed.
    readies: Option<PathBuf>,
}

macro_rules! none {
    () => {
        "brisk run --root none -- true"
    };
}
macro_rules! host {
    () => {
        "brisk run --root host -- uname -r"
    };
}
/// What else of a command is measured.
macro_rules! outside {
    () => {
        "outside QEMU's life"
    };
}
macro_rules! peak {
    () => {
        "peak memory of brisk"
    };
}

const NONE: &str = none!();
/// On one processor of the machine, as before there was another way.
const ALONE: &str = "brisk run --translate-ahead no --root none -- true";
/// What a user starts with.
const PLAIN: &str = "brisk run -- uname -a";
const WARM: &str = "brisk run --warm --root none -- true";
/// Restore with the host's root.
const WARM_PLAIN: &str = "brisk run --warm -- true";
const READY: &str = "brisk run --warm=ready --root none -- true";
const READY_HOST: &str = "brisk run --warm=ready -- uname -r";
const WARM_HOST: &str = "brisk run --warm -- uname -r";
const PC: &str = "qemu -M pc, bzImage, busybox initramfs";
const GUESTFISH: &str = "guestfish -a /dev/null run";
const HOST: &str = host!();
const VNG: &str = "vng --disable-kvm -- uname -r";
/// What a clone adds, with the root of each kind.
const CLONE: &str = "20 at once of brisk run --warm --root none -- cat: memory of each";
const CLONE_PLAIN: &str = "20 at once of brisk run --warm -- cat: memory of each";
const GOALS: [Goal; 18] = [
    absolute(NONE, Bound::AtMost(1.0)),
    absolute(PLAIN, Bound::AtMost(1.0)),
    // What the book says of it.
    ratio(NONE, ALONE, Bound::AtMost(0.8)),
    ratio(NONE, PC, Bound::AtMost(0.35)),
    ratio(NONE, GUESTFISH, Bound::AtMost(1.0 / 7.0)),
    ratio(HOST, VNG, Bound::AtMost(1.0 / 8.0)),
    absolute(concat!(none!(), ": ", outside!()), Bound::AtMost(0.015)),
    absolute(concat!(host!(), ": ", outside!()), Bound::AtMost(0.015)),
    absolute(concat!(host!(), ": ", peak!()), Bound::AtMost(30e6)),
    absolute(WARM, Bound::AtMost(0.15)),
    absolute(WARM_PLAIN, Bound::AtMost(0.15)),
    absolute(CLONE, Bound::AtMost(20e6)),
    absolute(CLONE_PLAIN, Bound::AtMost(20e6)),
    absolute(READY, Bound::AtMost(0.15)),
    // 150 ms where a boot takes a second.
    ratio(WARM, NONE, Bound::AtMost(0.15)),
    ratio(READY, NONE, Bound::AtMost(0.15)),
    // The same of the boot for which that was set.
    ratio(WARM, ALONE, Bound::AtMost(0.15)),
    ratio(READY, ALONE, Bound::AtMost(0.15)),
];
/// No command here takes longer, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let path = args.out.join("run.json");
    let mut report = match &args.again {
        Some(file) => {
            let mut report = Report::load(file)?;
            report.comparisons.clear();
            report.warnings.clear();
            report
        }
        None => measured(args, &path)?,
    };
    let verdicts = judge(&mut report, &GOALS, str::to_owned);
    report.warn();
    report.save(&path)?;
    let text = format!("{}\n{verdicts}", render::table(&report));
    fs::write(args.out.join("run.txt"), &text)?;
    say(&text);
    Ok(())
}

/// A report that is saved after each round.
fn measured(args: &Args, path: &Path) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    // Only its owner can enter it.
    let memory = tempfile::tempdir_in("/dev/shm").context("cannot make a directory in memory")?;
    let (cases, missing) = cases(args, scratch.path(), memory.path())?;
    let mut report = Report::new("bench", jiff::Timestamp::now().to_string(), environment());
    for name in missing {
        report
            .environment
            .extra
            .insert(format!("left out: {name}"), "not installed".into());
    }
    let clones = [
        (CLONE, clone(args, "none")?),
        (CLONE_PLAIN, clone(args, "host")?),
    ];
    let names = cases.iter().map(|case| case.name);
    let names = names.chain(clones.iter().map(|(name, _)| *name));
    // As they are listed: what ran before a case is part of what it measures.
    let plan = Plan::new(names, args.runs)
        .warmups(args.warmup)
        .order(Order::Fixed);
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(
            &mut Saved::new(&mut report, path),
            |turn, readings| match cases.get(turn.side) {
                Some(case) => case.measure(readings),
                None => {
                    let (_, words) = &clones[turn.side - cases.len()];
                    let bytes = memory_of_each(words).map_err(|error| format!("{error:#}"));
                    readings.put("", Unit::Bytes, bytes);
                    Ok(())
                }
            },
        )
        .map_err(ended)?;
    Ok(report)
}

impl Case {
    /// Runs it once.
    fn measure(&self, readings: &mut Readings) -> anyhow::Result<()> {
        let (seconds, failed) = time(self)?;
        let unless_failed = |value: f64| failed.clone().map_or(Ok(value), Err);
        readings.put("", Unit::Seconds, unless_failed(seconds));
        if let Some(place) = &self.readies {
            let after = until_ready(place)?;
            let metric = "until the next guest is ready";
            readings.put(metric, Unit::Seconds, unless_failed(after));
        }
        if let Some(file) = self.timing.as_deref().filter(|_| failed.is_none()) {
            let (outside, peak) = own_cost(file, seconds)?;
            readings.put(outside!(), Unit::Seconds, outside);
            readings.put(peak!(), Unit::Bytes, peak);
        }
        Ok(())
    }
}

/// Why an experiment came to no end, with all causes.
pub(crate) fn ended(stopped: Stopped<anyhow::Error>) -> anyhow::Error {
    match stopped {
        Stopped::Run(error) => error,
        other => other.into(),
    }
}

/// Adds the comparisons of all sides with the first, by these metrics.
pub(crate) fn compare<'a>(
    report: &mut Report,
    plan: &Plan,
    metrics: impl IntoIterator<Item = &'a str>,
) {
    for metric in metrics {
        let options = CompareOptions::default();
        let compared = plan.comparisons(&report.series, metric, 0, &options);
        report.comparisons.extend(compared);
    }
}

/// Saves a report, with its table beside it, and shows the table.
pub(crate) fn leave(report: &Report, file: &Path) -> anyhow::Result<()> {
    report.save(file)?;
    let text = render::table(report);
    fs::write(file.with_extension("txt"), &text)?;
    say(&text);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the task")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "progress of a task")]
pub(crate) fn say_round(progress: &Progress) {
    eprintln!("round {} of {}", progress.done, progress.rounds);
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|&word| word.to_owned()).collect()
}

fn brisk(args: &Args) -> anyhow::Result<String> {
    let brisk = fs::canonicalize(&args.brisk)
        .with_context(|| format!("{} is not built", args.brisk.display()))?;
    Ok(brisk.to_string_lossy().into_owned())
}

/// A guest that waits for its standard input to end.
fn clone(args: &Args, root: &str) -> anyhow::Result<Vec<String>> {
    let (brisk, kernel) = (brisk(args)?, &args.kernel);
    Ok(words(&[
        &brisk, "run", "--accel", "tcg", "--warm", "--kernel", kernel, "--root", root, "--", "cat",
    ]))
}

/// Seconds from exec to exit, and why it failed if it did.
fn time(case: &Case) -> anyhow::Result<(f64, Option<String>)> {
    let started = Instant::now();
    let mut child = Command::new(&case.words[0])
        .args(&case.words[1..])
        .envs(case.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", case.words[0]))?;
    let status = child.wait()?;
    let took = started.elapsed();
    let failed = if !status.success() {
        Some(format!("{status}"))
    } else if took > LIMIT {
        Some(format!("took more than {} s", LIMIT.as_secs()))
    } else {
        None
    };
    Ok((took.as_secs_f64(), failed))
}

/// Seconds until a guest waits.
fn until_ready(place: &Path) -> anyhow::Result<f64> {
    let began = Instant::now();
    while fs::read_dir(place).map_or(0, Iterator::count) == 0 {
        if began.elapsed() > LIMIT {
            bail!("no guest became ready in {}", place.display());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Seconds that brisk itself took before and after QEMU's life, and its peak memory in bytes.
fn own_cost(timing: &Path, total: f64) -> anyhow::Result<(f64, f64)> {
    let report = Report::load(timing)?;
    let timeline = report.timeline.context("a timing report has a timeline")?;
    let at = |name: &str| {
        let event = timeline.events.iter().find(|event| event.name == name);
        event
            .map(|event| event.at as f64 / 1e9)
            .with_context(|| format!("no event {name}"))
    };
    let begin = at("QEMU executed").or_else(|_| at("ready guest taken"))?;
    let life = at("QEMU ended")? - begin;
    let peak = report.environment.extra.get("brisk peak memory");
    let Some(peak) = peak.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()) else {
        bail!("the timing report does not have brisk's peak memory");
    };
    Ok((total - life, peak))
}

pub(crate) fn environment() -> Environment {
    let version = |program: &str, word: &str| {
        let output = Command::new(program).arg(word).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().next()?.to_owned())
    };
    let mut extra = BTreeMap::new();
    for (name, program) in [("guestfish", "guestfish"), ("virtme-ng", "vng")] {
        extra.extend(version(program, "--version").map(|text| (name.to_owned(), text)));
    }
    Environment {
        qemu_version: version("qemu-system-x86_64", "--version"),
        accelerator: Some("tcg".into()),
        revision: Command::new("git")
            .args(["rev-parse", "--short=12", "HEAD"])
            .output()
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        extra,
        ..environment::here()
    }
}
