//! `cargo xtask bench-ktext`: instructions of single operations on the kernel of `kernel/ktext`, with
//! replication and without, on the same one without its option, and on the kernel as Debian has it.
//!
//! Replication is chosen when a kernel boots, so that each figure is that of a boot: in each round all
//! kernels boot once, in random order. QEMU's clock counts instructions, and what is random in a boot
//! is fixed as far as QEMU gives it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Naming, Plan, Readings, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Report, Unit};
use brisk_testkit::{NumaKernel, NumaMachine};

use crate::bench::{compare, ended, leave, say_round};

/// Options of the benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Boots of each kernel.
    #[arg(long, default_value_t = 6)]
    runs: u32,
    /// Nodes of the machine.
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// Directory in which setup/ktext-kernel builds kernels.
    #[arg(long)]
    kernels: PathBuf,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

struct Side {
    name: &'static str,
    /// Directory of the kernel.
    kernel: &'static str,
    /// Words for `setup/ktext-kernel`, in which paths begin in `kernel/ktext`.
    words: &'static [&'static str],
    /// On the kernel's command line.
    append: &'static str,
}

/// What all of them have. With few live objects, tinyconfig's allocator takes more instructions in some
/// boots than in others: a slab is full or not.
const COUNTED: &str = "variants/counted.config";

/// The first is what the others are compared with.
const SIDES: [Side; 4] = [
    Side {
        name: "unpatched",
        kernel: "ktext-unpatched",
        words: &["--unpatched", "--config", COUNTED],
        append: "",
    },
    Side {
        name: "not configured",
        kernel: "ktext-without",
        words: &["--config", COUNTED, "--config", "variants/without.config"],
        append: "",
    },
    Side {
        name: "ktext_repl=off",
        kernel: "ktext-counted",
        words: &["--config", COUNTED],
        append: "ktext_repl=off",
    },
    Side {
        name: "on",
        kernel: "ktext-counted",
        words: &["--config", COUNTED],
        append: "",
    },
];

/// Operations of `kernel/ktext/operations.c`, and how often one is done for a figure: the ticks of the
/// clock fall into shorter ones unevenly.
const OPERATIONS: [(&str, u32); 4] = [
    ("fork", 400),
    ("kill", 20_000),
    ("mmap", 40),
    ("open", 20_000),
];
/// Another one, on the only CPU that is online: QEMU counts how long one waits for the others, of which
/// one runs at a time.
const TRACER: (&str, u32) = ("tracer", 1);
/// Figures of each operation in a boot, of which the median counts.
const FIGURES: usize = 3;
/// A boot takes half a minute.
const LIMIT: Duration = Duration::from_secs(600);
/// One instruction in a nanosecond of the guest's time, which no clock of the host is in, and the same
/// random numbers in each boot.
const OPTIONS: [&str; 6] = [
    "-icount",
    "shift=0,sleep=off",
    "-rtc",
    "base=2026-01-01T00:00:00,clock=vm",
    "-seed",
    "1",
];

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let mut kernels = Vec::new();
    for side in &SIDES {
        let kernel = NumaKernel::built(&args.kernels, side.kernel, side.words);
        kernels.push(kernel.map_err(|error| anyhow!(error))?);
    }
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment::here());
    let nodes = args.nodes.to_string();
    report.environment.extra.insert("nodes".to_owned(), nodes);
    report.environment.accelerator = Some("tcg icount".to_owned());
    let file = args.out.join(format!("ktext-kernels-{}.json", args.nodes));
    let plan = Plan::new(SIDES.map(|side| side.name), args.runs).naming(Naming::MetricFirst);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            boot(&kernels[turn.side], &SIDES[turn.side], args.nodes, readings)
        })
        .map_err(ended)?;
    compare(&mut report, &plan, operations());
    leave(&report, &file)
}

/// Names of all operations.
fn operations() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().chain([&TRACER]).map(|(name, _)| *name)
}

/// Boots a kernel once, and has it do all operations on a CPU that is alone, of the last node, and the
/// tracer on the first CPU.
fn boot(
    kernel: &NumaKernel,
    side: &Side,
    nodes: usize,
    readings: &mut Readings,
) -> anyhow::Result<()> {
    let append = format!("nokaslr norandmaps {}", side.append);
    let machine = NumaMachine {
        kernel,
        nodes,
        append: &append,
        is_parallel: false,
        programs: &[],
        is_reversed: false,
        files: &[],
        options: &OPTIONS,
        limit: LIMIT,
    };
    let last = nodes * brisk_testkit::CPUS_OF_NODE - 1;
    let (tracer, count) = TRACER;
    let mut script = String::new();
    let switch = |cpu: usize, online: u32| {
        format!("echo {online} >/sys/devices/system/cpu/cpu{cpu}/online\n")
    };
    for cpu in 1..=last {
        script += &switch(cpu, 0);
    }
    script += &format!(
        "echo function >tracing/current_tracer; echo 0 >/proc/sys/kernel/ftrace_enabled\n\
         section tracer\n\
         for i in $(seq {FIGURES}); do operations {tracer} {count} 0; done\n\
         echo nop >tracing/current_tracer; echo 1 >/proc/sys/kernel/ftrace_enabled\n"
    );
    script += &switch(last, 1);
    script += "section operations\n";
    for _ in 0..FIGURES {
        for (operation, count) in OPERATIONS {
            script += &format!("operations {operation} {count} {last}\n");
        }
    }
    let asked = machine.run_and_ask(&script, "");
    let console = asked
        .map_err(|error| anyhow!("{}: {error}", side.name))?
        .console;
    let text = console.section("tracer").to_owned() + "\n" + console.section("operations");
    for operation in operations() {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let figures = lines.filter(|(name, _)| *name == operation);
        let figures = figures.map(|(_, figure)| figure.trim().parse::<f64>());
        let mut figures = figures.collect::<Result<Vec<_>, _>>()?;
        ensure!(figures.len() == FIGURES, "{}: {text}", side.name);
        figures.sort_by(f64::total_cmp);
        readings.put(operation, Unit::Instructions, figures[FIGURES / 2]);
    }
    Ok(())
}
