//! `cargo xtask bench-reboot`: restarts of the machine of `setup/reboot-machine`, warm and cold by
//! turns.
//!
//! Times are taken on this host, by the machine's console. The machine is the same one all the time.
//! In each round it restarts in both ways, in a random order.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Naming, Plan, Readings, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Phase, Report, Sample, Unit};
use brisk_testkit::{Computer, STOPPED, STOPPING, UP, package_disk};
use tempfile::TempDir;

use crate::bench::{compare, ended, leave, say_round};

/// Options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Debian package of the brisk to measure.
    #[arg(long)]
    package: PathBuf,
    /// Pairs of restarts that count.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Pairs before them.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Rehearsals of a restart, in the machine.
    #[arg(long, default_value_t = 3)]
    rehearsals: u32,
    /// Directory in which the machine's disk is written.
    #[arg(long)]
    place: PathBuf,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

/// Ways to restart.
const SIDES: [Side; 2] = [
    Side {
        name: "cold",
        option: "--cold",
    },
    Side {
        name: "warm",
        option: "--warm-only",
    },
];

struct Side {
    name: &'static str,
    /// Of brisk reboot.
    option: &'static str,
}

/// From the end of all services to the root's init: in a cold restart firmware, boot loader, kernel
/// and initrd.
const BETWEEN: &str = "from the end of services to init";
/// From the beginning of the end of services to the end of the boot.
const DOWN: &str = "down";
/// From the request to the end of the boot.
const ALL: &str = "request to end of boot";
/// `brisk reboot check`, with the trial load of the kernel, before the restart.
const CHECK: &str = "check";
/// `brisk reboot rehearse`, which boots the kernel in a VM in the machine.
const REHEARSAL: &str = "rehearsal";
/// Of the running kernel.
const REHEARSE: &str = "brisk reboot rehearse --same";
const METRICS: [&str; 4] = [DOWN, BETWEEN, ALL, CHECK];

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    // It is removed, and QEMU ends, as this returns.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let dir = TempDir::with_prefix_in("bench-reboot-", &args.place)?;
    let mut machine = installed(&args.package, dir.path())?;
    machine.tells_how_far_it_is();
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment::here());
    let file = args.out.join("reboot.json");
    let plan = Plan::new(SIDES.map(|side| side.name), args.runs)
        .warmups(args.warmup)
        .naming(Naming::MetricFirst);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            restart(&mut machine, &SIDES[turn.side], readings)
        })
        .map_err(ended)?;
    for iteration in 0..args.rehearsals {
        let begun = machine.elapsed();
        machine.ok(REHEARSE);
        let took = machine.elapsed() - begun;
        let series = report.series_mut(REHEARSAL, Unit::Seconds);
        series.push(Sample {
            iteration,
            phase: Phase::Measured,
            outcome: took.as_secs_f64().into(),
        });
    }
    compare(&mut report, &plan, METRICS);
    report.warn();
    leave(&report, &file)
}

/// The machine of `setup/reboot-machine` with a Debian package of brisk, on a disk in a directory.
pub(crate) fn installed(package: &Path, dir: &Path) -> anyhow::Result<Computer> {
    let base = Computer::files().map_err(|reason| anyhow!(reason))?;
    let dir = fs::canonicalize(dir)?;
    let copy = dir.join("copy.deb");
    fs::copy(package, &copy).with_context(|| format!("cannot read {}", package.display()))?;
    let package = dir.join("package.ext4");
    package_disk(&copy, &package);
    let disk = dir.join("disk.qcow2");
    Computer::disk(&disk, &base.join("disk.qcow2"));
    let drive = format!(
        "file={},format=raw,if=virtio,readonly=on",
        package.display()
    );
    let mut machine = Computer::start(&disk, &dir, &["-drive", &drive]);
    machine.booted();
    machine.install();
    Ok(machine)
}

/// Restarts the machine once.
fn restart(machine: &mut Computer, side: &Side, readings: &mut Readings) -> anyhow::Result<()> {
    let Side { name, option } = side;
    let begun = machine.elapsed();
    machine.ok("brisk reboot check --same");
    let checked = machine.elapsed();
    let (asked, firmware) = (machine.elapsed(), machine.firmware_runs());
    machine.begin(&format!("brisk reboot --same {option}"));
    machine.booted();
    let up = machine.elapsed();
    ensure!(
        machine.firmware_runs() - firmware == usize::from(*name == "cold"),
        "this was not a {name} restart"
    );
    let console = machine.console();
    let at = |text: &str| {
        let mut lines = console.iter().rev().take_while(|line| line.at > asked);
        let line = lines.find(|line| line.text.contains(text));
        line.map(|line| line.at)
            .with_context(|| format!("the console does not say: {text}"))
    };
    let mut put = |metric: &str, from: Duration, to: Duration| {
        readings.put(metric, Unit::Seconds, (to - from).as_secs_f64());
    };
    put(DOWN, at(STOPPING)?, up);
    put(BETWEEN, at(STOPPED)?, at(UP)?);
    put(ALL, asked, up);
    put(CHECK, begun, checked);
    Ok(())
}
