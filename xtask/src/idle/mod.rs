//! `cargo xtask bench-idle`: what brisk itself costs while it watches guests, and how long it takes
//! to look at many descriptions, beside other tools where they are installed.

mod cost;
mod files;
mod guests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Plan, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Report, Unit, render};

use crate::bench::{ended, say, say_round};
use crate::goals::{Bound, Goal, absolute, judge};
use cost::{Watcher, cost};
use guests::Guests;

/// Options of `cargo xtask bench-idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    brisk: PathBuf,
    /// Rounds in which guests are watched.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Rounds in which descriptions are looked at.
    #[arg(long, default_value_t = 20)]
    looks: u32,
    /// Guests that are watched at once.
    #[arg(long, default_value_t = 100)]
    guests: usize,
    /// How long guests are watched, seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    time: u64,
    /// Descriptions that are looked at.
    #[arg(long, default_value_t = 2000)]
    files: usize,
    /// Directory with the descriptions. Default: variations of brisk's own fixtures.
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// libvirt's schema, domain.rng, by which xmllint looks at the files.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

const ALL: &str = "brisk idle measure --all";
const ONE: &str = "brisk idle measure --pid";
const TOP: &str = "top -b -H -d 5";
const LINT: &str = "brisk idle lint";
const PARSE: &str = "xmllint --noout";
const VALIDATE: &str = "xmllint --noout --relaxng domain.rng";
/// Series of [`ALL`] and [`LINT`].
const GOALS: [Goal; 2] = [
    absolute(
        "brisk idle measure --all: while watching",
        Bound::AtMost(0.1),
    ),
    absolute("brisk idle lint: all files", Bound::AtMost(1.0)),
];

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let brisk = fs::canonicalize(&args.brisk)
        .with_context(|| format!("{} is not built", args.brisk.display()))?;
    let brisk = brisk.to_string_lossy().into_owned();
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let files = files::list(args.corpus.as_deref(), scratch.path(), args.files)?;
    let mut report = Report::new(
        "bench",
        jiff::Timestamp::now().to_string(),
        environment::here(),
    );
    let file = args.out.join("idle.json");
    let looks = looks(args, &brisk, &files);
    let plan = Plan::new(looks.iter().map(|(name, _)| *name), args.looks).warmups(1);
    Experiment::new(&plan, &interrupt)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            let seconds = seconds(&looks[turn.side].1)?;
            readings.put("all files", Unit::Seconds, seconds);
            Ok(())
        })
        .map_err(ended)?;
    // They take time of their own.
    let guests = Guests::start(args.guests)?;
    guests.settle(&brisk)?;
    let watchers = watchers(&brisk, &guests);
    let names = looks.iter().map(|(name, _)| *name);
    let names: Vec<_> = names
        .chain(watchers.iter().map(|(name, _)| *name))
        .collect();
    report.environment.qemu_version = guests.version.clone();
    report.environment.accelerator = Some("tcg".into());
    report.environment.extra = facts(args, &guests, &files, &names)?;
    let plan = Plan::new(watchers.iter().map(|(name, _)| *name), args.runs);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            let cost = cost(&watchers[turn.side].1, args.time)?;
            readings.put("whole command", Unit::Percent, cost.whole);
            readings.put("while watching", Unit::Percent, cost.watching);
            Ok(())
        })
        .map_err(ended)?;
    drop(guests);
    let verdicts = judge(&mut report, &GOALS, str::to_owned);
    report.warn();
    report.save(&file)?;
    let text = format!("{}\n{verdicts}", render::table(&report));
    fs::write(args.out.join("idle.txt"), &text)?;
    say(&text);
    Ok(())
}

fn watchers(brisk: &str, guests: &Guests) -> Vec<(&'static str, Watcher)> {
    let measure = |rest: &[&str]| {
        let words = [brisk, "idle", "measure", "--settle", "0"].into_iter();
        let words = words.chain(rest.iter().copied());
        Watcher::brisk(words.map(str::to_owned).collect())
    };
    let mut watchers = vec![
        (ALL, measure(&["--all"])),
        (ONE, measure(&["--pid", &guests.first().to_string()])),
    ];
    if is_installed("top", "-v") {
        watchers.push((TOP, Watcher::top()));
    }
    watchers
}

fn looks(args: &Args, brisk: &str, files: &[String]) -> Vec<(&'static str, Vec<String>)> {
    let look = |words: &[&str]| {
        let words = words.iter().map(|&word| word.to_owned());
        words.chain(files.iter().cloned()).collect()
    };
    let lint = look(&[brisk, "idle", "lint", "--fail-on", "never"]);
    let mut looks = vec![(LINT, lint)];
    if is_installed("xmllint", "--version") {
        looks.push((PARSE, look(&["xmllint", "--noout"])));
        if let Some(schema) = args.schema.as_deref().and_then(Path::to_str) {
            let words = ["xmllint", "--noout", "--relaxng", schema];
            looks.push((VALIDATE, look(&words)));
        }
    }
    looks
}

fn is_installed(program: &str, version: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

/// What was watched and looked at, and what could not be measured.
fn facts(
    args: &Args,
    guests: &Guests,
    files: &[String],
    sides: &[&str],
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut bytes = 0;
    for file in files {
        bytes += fs::metadata(file)
            .with_context(|| format!("no {file}"))?
            .len();
    }
    let source = match &args.corpus {
        Some(_) => "other files",
        None => "variations of brisk's own fixtures",
    };
    let watched = format!(
        "{} with firmware that idles, {} threads; watched {} s in windows of 5 s",
        guests.count(),
        guests.threads()?,
        args.time
    );
    let looked = format!("{} ({source}), {bytes} bytes", files.len());
    let mut facts = BTreeMap::from([("guests".into(), watched), ("files".into(), looked)]);
    for name in [TOP, PARSE, VALIDATE] {
        if !sides.contains(&name) {
            facts.insert(
                format!("left out: {name}"),
                "not installed, or no schema".into(),
            );
        }
    }
    Ok(facts)
}

/// Whole time of a command that may find faults in files.
fn seconds(words: &[String]) -> anyhow::Result<f64> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    for stream in [Command::stdout, Command::stderr] {
        stream(&mut command, Stdio::null());
    }
    let begun = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", words[0]))?;
    let took: Duration = begun.elapsed();
    ensure!(status.code().is_some(), "{} ended by a signal", words[0]);
    Ok(took.as_secs_f64())
}
