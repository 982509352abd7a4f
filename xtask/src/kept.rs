//! `cargo xtask bench-kept`: VMs in the machine of `setup/reboot-machine` are suspended and resumed, with
//! their memory in an image and in RAM by turns.
//!
//! Times are taken on this host, by the machine's shell. The VMs have written to their memory.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Naming, Plan, Readings, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Report, Unit};
use brisk_testkit::{Computer, make_area};
use tempfile::TempDir;

use crate::bench::{compare, ended, leave, say_round};
use crate::restarts::installed;

/// Options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Debian package of the brisk to measure.
    #[arg(long)]
    package: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Directory in which the machine's disk is written.
    #[arg(long)]
    place: PathBuf,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

struct Side {
    name: &'static str,
    vm: &'static str,
    /// Of brisk vm suspend.
    suspend: &'static str,
}

/// The first is what the others are compared with. The first VM is resumed while its memory is read,
/// which cannot be where memory is to be kept.
const SIDES: [Side; 4] = [
    Side {
        name: "image",
        vm: "usual",
        suspend: "",
    },
    Side {
        name: "image, where memory can be kept",
        vm: "keeps",
        suspend: "",
    },
    Side {
        name: "kept, with image",
        vm: "keeps",
        suspend: "--keep-memory",
    },
    Side {
        name: "kept alone",
        vm: "keeps",
        suspend: "--keep-memory=alone",
    },
];

/// The VMs, with options of brisk vm create.
const VMS: [(&str, &str); 2] = [("usual", ""), ("keeps", "--keep-memory")];

const SUSPEND: &str = "suspend";
const RESUME: &str = "until it runs";
const MEMORY: &str = "until all of its memory is there";
const METRICS: [&str; 3] = [SUSPEND, RESUME, MEMORY];

/// Place of the area: the machine has 2 GiB.
const AREA: &str = "512M!1G";
/// Memory of each VM, MiB.
const SIZE: u32 = 192;
/// How much of it has been written to.
const WRITTEN: u32 = 96;

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    // It is removed, and QEMU ends, as this returns.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let dir = TempDir::with_prefix_in("bench-kept-", &args.place)?;
    let mut machine = installed(&args.package, dir.path())?;
    make_area(&mut machine, AREA);
    let [usual, keeps] = VMS.map(|(vm, options)| set_up(vm, options));
    // Each has a processor of the machine's two.
    machine.ok(&format!("{{ {usual}; }} & {{ {keeps}; }} && wait %1"));
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment::here());
    for (name, size) in [("memory of each VM", SIZE), ("written", WRITTEN)] {
        let extra = &mut report.environment.extra;
        extra.insert(name.to_owned(), format!("{size} MiB"));
    }
    let file = args.out.join("reboot-kept.json");
    let plan = Plan::new(SIDES.map(|side| side.name), args.runs)
        .warmups(args.warmup)
        .naming(Naming::MetricFirst);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            once(&mut machine, &SIDES[turn.side], readings);
            anyhow::Ok(())
        })
        .map_err(ended)?;
    compare(&mut report, &plan, METRICS);
    report.warn();
    leave(&report, &file)
}

/// Makes a VM that has written to its memory, and then waits.
fn set_up(vm: &str, options: &str) -> String {
    // Each image has all of the memory, whatever was written before it.
    format!(
        "brisk vm create {vm} --memory {SIZE}M --root none --incremental=false {options} \
         --kernel $(ls /boot/vmlinuz-*-cloud-amd64) && brisk vm start {vm} --timeout 30m && \
         brisk vm exec {vm} -- sh -c 'mkdir /m && mount -t tmpfs -o size=90% none /m && \
         dd if=/dev/urandom of=/m/file bs=1M count={WRITTEN}'"
    )
}

/// Has a VM, which runs, suspended and resumed.
fn once(machine: &mut Computer, side: &Side, readings: &mut Readings) {
    let Side { vm, suspend, .. } = side;
    let begun = machine.elapsed();
    machine.ok(&format!("brisk vm suspend {vm} {suspend}"));
    let suspended = machine.elapsed();
    machine.ok(&format!("brisk vm resume {vm}"));
    let runs = machine.elapsed();
    // An image whose memory is still being read has this name.
    machine.ok(&format!(
        "while test -e /var/lib/brisk/vm/{vm}/{vm}.brisk.resumed; do sleep 0.1; done"
    ));
    let complete = machine.elapsed();
    let times = [
        (SUSPEND, suspended - begun),
        (RESUME, runs - suspended),
        (MEMORY, complete - suspended),
    ];
    for (metric, time) in times {
        readings.put(metric, Unit::Seconds, time.as_secs_f64());
    }
}
