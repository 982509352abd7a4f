//! `cargo xtask bench-host`: VMs that are suspended and resumed with their host, one after another
//! and at once.
//!
//! There are groups of VMs, each with directories of its own. All of them are suspended, and in each
//! round each group takes its turns in a random order: its VMs are resumed lazily, suspended,
//! resumed eagerly and suspended again, by `brisk vm autostart` and `autostop`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Naming, Plan, Readings, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{CompareOptions, Report, Unit, render};
use brisk_sys::Sharing;
use tempfile::TempDir;

use crate::bench::{ended, say, say_round};

/// Options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    brisk: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Memory of each VM, MiB.
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// Directory in which images are written.
    #[arg(long)]
    place: PathBuf,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

/// Numbers of VMs.
const GROUPS: [usize; 3] = [1, 2, 4];

/// Sides: a group, and how many of its VMs at once.
const SIDES: [Side; 6] = [
    Side::new("1 VM", 0, 1),
    Side::new("2 VMs, one after another", 1, 1),
    Side::new("2 VMs at once", 1, 2),
    Side::new("4 VMs, one after another", 2, 1),
    Side::new("4 VMs, 2 at once", 2, 2),
    Side::new("4 VMs at once", 2, 4),
];

/// Pairs of sides that are compared.
const PAIRS: [(usize, &[usize]); 2] = [(1, &[2]), (3, &[4, 5])];

struct Side {
    name: &'static str,
    group: usize,
    jobs: usize,
}

impl Side {
    const fn new(name: &'static str, group: usize, jobs: usize) -> Self {
        Self { name, group, jobs }
    }
}

const LAZY: &str = "all run, lazily";
const MEMORY: &str = "all have all of their memory, lazily";
const EAGER: &str = "all run, eagerly";
const SUSPEND: &str = "suspend";
const METRICS: [&str; 4] = [SUSPEND, LAZY, MEMORY, EAGER];

/// VMs with directories of their own.
struct Group {
    brisk: PathBuf,
    files: TempDir,
    memory: TempDir,
    names: Vec<String>,
}

impl Group {
    fn boot(args: &Args, brisk: &Path, count: usize) -> anyhow::Result<Self> {
        let group = Self {
            brisk: brisk.to_owned(),
            files: TempDir::with_prefix_in("bench-host-", &args.place)?,
            memory: TempDir::with_prefix_in("bench-host-", "/dev/shm")?,
            names: (1..=count).map(|number| format!("vm{number}")).collect(),
        };
        let memory = format!("{}M", args.memory);
        // Half of what is filled cannot be compressed.
        let script = format!(
            "busybox dd if=/dev/urandom of=/noise bs=1M count={0} 2>/dev/null; \
             while [ \"$(busybox stat -c %s /text 2>/dev/null || echo 0)\" -lt {0}000000 ]; do \
             busybox cat /bin/busybox >> /text || exit; done",
            args.memory / 5
        );
        for name in &group.names {
            let words = ["create", name, "--memory", &memory, "--incremental=false"];
            group.does(&[&words[..], &["--autoshutdown", "suspend"]].concat())?;
            group.does(&["start", name])?;
            group.does(&["exec", name, "--", "sh", "-c", &script])?;
        }
        group.does(&["autostop"])?;
        Ok(group)
    }

    /// A command of brisk, which must succeed; seconds.
    fn does(&self, words: &[&str]) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let output = self.command(words).output().context("cannot start brisk")?;
        let seconds = begun.elapsed().as_secs_f64();
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "brisk vm {words:?}: {stderr}");
        Ok(seconds)
    }

    fn command(&self, words: &[&str]) -> Command {
        let dir = self.files.path();
        let mut command = Command::new(&self.brisk);
        command.arg("vm").args(words);
        command
            .env("BRISK_STATE_DIR", dir.join("state"))
            .env("BRISK_CONFIG_DIR", dir.join("config"))
            .env("BRISK_RUNTIME_DIR", self.memory.path().join("run"))
            .env("BRISK_WARM_DIR", self.memory.path())
            .stdin(Stdio::null());
        command
    }

    /// Until nobody reads an image any more.
    fn wait_for_memory(&self) -> anyhow::Result<()> {
        for name in &self.names {
            let image = format!("state/vm/{name}/{name}.brisk.resumed");
            if let Ok(file) = File::open(self.files.path().join(image)) {
                // The page server holds the lock until it is done.
                brisk_sys::lock(&file, Sharing::Shared)?;
            }
        }
        Ok(())
    }

    fn round(&self, jobs: usize, readings: &mut Readings) -> anyhow::Result<()> {
        let jobs = jobs.to_string();
        let mut put = |name: &str, seconds: f64| readings.put(name, Unit::Seconds, seconds);
        let begun = Instant::now();
        put(LAZY, self.does(&["autostart", "--jobs", &jobs])?);
        self.wait_for_memory()?;
        put(MEMORY, begun.elapsed().as_secs_f64());
        put(SUSPEND, self.does(&["autostop", "--jobs", &jobs])?);
        put(
            EAGER,
            self.does(&["autostart", "--eager", "--jobs", &jobs])?,
        );
        self.does(&["autostop"])?;
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for name in &self.names {
            // It may be off.
            let _ = self.command(&["kill", name]).output();
        }
    }
}

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let brisk = fs::canonicalize(&args.brisk)
        .with_context(|| format!("{} is not built", args.brisk.display()))?;
    // An interruption leaves no guest behind: they are killed as this returns.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let groups = GROUPS.map(|count| Group::boot(args, &brisk, count));
    let groups = groups.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment::here());
    let file = args.out.join("reboot-vms.json");
    let plan = Plan::new(SIDES.map(|side| side.name), args.runs)
        .warmups(args.warmup)
        .naming(Naming::MetricFirst);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            let side = &SIDES[turn.side];
            groups[side.group].round(side.jobs, readings)
        })
        .map_err(ended)?;
    let sides: Vec<_> = SIDES.iter().map(|side| side.name).collect();
    for metric in METRICS {
        for (base, others) in PAIRS {
            let options = CompareOptions::default();
            let all = plan.comparisons(&report.series, metric, base, &options);
            let wanted = others
                .iter()
                .map(|other| format!("{metric}: {}", sides[*other]));
            let wanted: Vec<_> = wanted.collect();
            let found = all.into_iter().filter(|found| wanted.contains(&found.b));
            report.comparisons.extend(found);
        }
    }
    report.warn();
    report.save(&file)?;
    let text = render::table(&report);
    fs::write(args.out.join("reboot-vms.txt"), &text)?;
    say(&text);
    Ok(())
}
