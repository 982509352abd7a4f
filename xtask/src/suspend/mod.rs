//! `cargo xtask bench-suspend`: VMs suspended and resumed by brisk and, interleaved, by QEMU's own
//! migration.
//!
//! There are parts, each with a VM that it needs, which are interleaved in every round. Rates are
//! bytes of memory that are not zero in a second, without the final fsync; QEMU's are until `zstd
//! -1`, with one thread and with `-T0`, has written its last byte. benchmarks/README.md describes
//! each series. The report is saved after every round.

mod cache;
mod chain;
mod late;
mod machine;
mod memory;
mod order;
mod peer;
mod place;
mod put;
mod rates;
mod root;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_experiment::{Experiment, Order, Plan, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Report, render};
use clap::ValueEnum;

use crate::bench::{ended, environment, say};
use crate::goals::{Bound, Goal, absolute, judge, ratio};

use cache::{Cached, FOLIOS, PAGES};
use late::Late;
use machine::{Bench, Machine};
use put::Put;

/// Options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    brisk: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Only this part; can be given several times. Default: all.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Directories that images are written to, each measured by itself.
    #[arg(long, required = true)]
    place: Vec<PathBuf>,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Rates of suspend and of loading, and sizes, beside QEMU's.
    Rates,
    /// Guests that are half page cache, which is left out.
    Cache,
    /// A task after a resume, with and without the working set of the last resume.
    Order,
    /// Postcopy resumes of 1 and 8 GiB.
    Late,
    /// Suspend to an image of what has changed.
    Chain,
    /// Peak memory of brisk.
    Memory,
}

impl Part {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What "at once" is: seconds.
const AT_ONCE: Bound = Bound::AtMost(0.15);
/// What suspending may take: bytes.
const SMALL: Bound = Bound::AtMost(64e6);

const GOALS: [Goal; 19] = [
    ratio(rates::ZSTD, rates::QEMU, Bound::AtLeast(2.0)),
    ratio(rates::LZ4, rates::QEMU, Bound::AtLeast(2.4)),
    ratio(rates::FAST, rates::QEMU, Bound::AtLeast(2.4)),
    ratio(rates::ZSTD, rates::ONE, Bound::AtLeast(1.8)),
    ratio(rates::SIZE, rates::SIZE_QEMU, Bound::AtMost(1.02)),
    absolute(rates::LOADED, Bound::AtLeast(1.8e9)),
    absolute(rates::RUNS, AT_ONCE),
    ratio(PAGES.dropped, PAGES.qemu, Bound::AtLeast(5.0)),
    ratio(PAGES.dropped_lz4, PAGES.qemu, Bound::AtLeast(5.0)),
    ratio(PAGES.dropped_fast, PAGES.qemu, Bound::AtLeast(5.0)),
    ratio(FOLIOS.dropped, FOLIOS.qemu, Bound::AtLeast(5.0)),
    ratio(FOLIOS.dropped_lz4, FOLIOS.qemu, Bound::AtLeast(5.0)),
    ratio(FOLIOS.dropped_fast, FOLIOS.qemu, Bound::AtLeast(5.0)),
    ratio(
        order::WITH_WORKING_SET,
        order::WITHOUT_WORKING_SET,
        Bound::AtMost(0.5),
    ),
    absolute(late::SMALL.runs, AT_ONCE),
    absolute(late::LARGE.runs, AT_ONCE),
    absolute(memory::PLAIN, SMALL),
    absolute(memory::PASSPHRASE, SMALL),
    absolute(late::LARGE.peak, SMALL),
];

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.place
        .iter()
        .try_for_each(|place| place::check(place))?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let brisk = fs::canonicalize(&args.brisk)
        .with_context(|| format!("{} is not built", args.brisk.display()))?;
    // An interruption leaves no machine behind: they are killed as this returns.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    step("makes the disks of the machines");
    let bench = Bench {
        brisk,
        dir: scratch.path().to_owned(),
        roots: root::roots(scratch.path())?,
        interrupt: interrupt.clone(),
    };
    let parts = match args.only.as_slice() {
        [] => Part::value_variants(),
        only => only,
    };
    let machines = Machines::boot(&bench, parts)?;
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment());
    let path = args.out.join("suspend.json");
    let places = args.place.iter().map(|place| place.display().to_string());
    // A part needs the images and settings that the one before has left.
    let plan = Plan::new(places, args.runs)
        .warmups(args.warmup)
        .order(Order::Fixed);
    Experiment::new(&plan, &interrupt)
        .run(&mut Saved::new(&mut report, &path), |turn, readings| {
            let (place, round) = (&args.place[turn.side], turn.round + 1);
            let mut put = |name: &str, unit, value: f64| readings.put(name, unit, value);
            for part in parts {
                let (rounds, name) = (plan.most_rounds(), part.name());
                step(&at(place, &format!("round {round} of {rounds}: {name}")));
                machines.measure(*part, place, &mut put)?;
            }
            Ok(())
        })
        .map_err(ended)?;
    let verdicts: String = args
        .place
        .iter()
        .map(|place| judge(&mut report, &GOALS, |name| at(place, name)))
        .collect();
    report.warn();
    report.save(&path)?;
    let text = format!("{}\n{verdicts}", render::table(&report));
    fs::write(args.out.join("suspend.txt"), &text)?;
    say(&text);
    Ok(())
}

/// The name of a series at a place.
fn at(place: &Path, name: &str) -> String {
    format!("{}: {name}", place.display())
}

#[expect(clippy::print_stderr, reason = "progress of a task")]
fn step(text: &str) {
    eprintln!("{text}");
}

/// Those that the parts need.
struct Machines<'a> {
    full: Option<Machine<'a>>,
    cached: Option<[Cached<'a>; 2]>,
    late: Option<[Late<'a>; 2]>,
}

impl<'a> Machines<'a> {
    fn boot(bench: &'a Bench, parts: &[Part]) -> anyhow::Result<Self> {
        let full = [Part::Rates, Part::Order, Part::Chain, Part::Memory];
        let mut machines = Self {
            full: None,
            cached: None,
            late: None,
        };
        if parts.iter().any(|part| full.contains(part)) {
            step("boots a machine of 2 GiB and fills it");
            machines.full = Some(order::full(bench)?);
        }
        if parts.contains(&Part::Cache) {
            step("boots two machines of 2 GiB with files to read");
            machines.cached = Some([Cached::boot(bench, &PAGES)?, Cached::boot(bench, &FOLIOS)?]);
        }
        if parts.contains(&Part::Late) {
            step("boots machines of 1 GiB and 8 GiB and fills them");
            let (small, large) = (&late::SMALL, &late::LARGE);
            machines.late = Some([Late::boot(bench, small)?, Late::boot(bench, large)?]);
        }
        Ok(machines)
    }

    fn measure(&self, part: Part, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
        let full = || self.full.as_ref().context("no machine was booted");
        match part {
            Part::Rates => rates::round(full()?, place, put),
            Part::Order => order::round(full()?, place, put),
            Part::Chain => chain::round(full()?, place, put),
            Part::Memory => memory::round(full()?, place, put),
            Part::Cache => {
                let machines = self.cached.as_ref().context("no machine was booted")?;
                machines
                    .iter()
                    .try_for_each(|cached| cached.round(place, put))
            }
            Part::Late => {
                let machines = self.late.as_ref().context("no machine was booted")?;
                machines.iter().try_for_each(|late| late.round(place, put))
            }
        }
    }
}
