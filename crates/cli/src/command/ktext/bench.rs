//! `brisk ktext bench`.

use std::path::Path;

use anyhow::{bail, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Progress, Saved};
use brisk_host::cpu::Cpu;
use brisk_host::interrupt::Interrupt;
use brisk_measure::Report;
use brisk_tools::ktext::Operation;
use brisk_tools::ktext::bench::{self, BenchError, Emulated, Settings};
use brisk_vm::cache::Cache;

use super::emulation::MachineArgs;
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now};
use crate::ui::Ui;

/// Kind of the report.
const KIND: &str = "ktext";

/// Measure single operations of the kernel with replication of its text and without it, by turns.
///
/// The operations are those of RedHawk's table: fork and exit, a signal to the process itself, mmap,
/// reads and munmap of 1024 pages of /dev/zero, open and close of /dev/null. A CPU of a node that does
/// not have the kernel does them, while CPUs of the other nodes copy memory. In each round replication
/// is off, on, and off once more, in random order; the two that are off show the noise. Afterwards
/// replication is as it was.
///
/// With the module ktext_cold, which make kernel builds, each operation is measured once more with
/// caches that are flushed whenever the process enters a system call.
///
/// --emulated measures in a machine in QEMU, as brisk ktext locality does, and needs no such machine and
/// no root: there the figures are instructions of all CPUs. They say what replication costs. What it
/// gains only a machine of several nodes can say: an emulated one has no caches, and its time means
/// nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure instructions in an emulated machine.
    #[arg(long)]
    emulated: bool,

    #[command(flatten)]
    machine: MachineArgs,

    /// Have this CPU do the operations. Default: the first one of the last node that has a copy.
    #[arg(long, value_name = "CPU", conflicts_with = "emulated")]
    cpu: Option<u32>,

    /// Leave the memory of the other nodes alone.
    #[arg(long, conflicts_with = "emulated")]
    no_load: bool,

    /// Operations to measure.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = operation, default_value = "fork,kill,mmap,open")]
    operations: Vec<Operation>,

    /// Rounds that count.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// Seed of the order in each round.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    #[command(flatten)]
    output: OutputArgs,
}

fn operation(name: &str) -> Result<Operation, String> {
    let mut all = Operation::ALL.into_iter();
    all.find(|one| one.name() == name).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name).join(", ");
        format!("there are {names}")
    })
}

/// Measures.
///
/// # Errors
/// If the kernel does not replicate, nothing can be measured, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    if let Some(option) = args.machine.described().filter(|_| !args.emulated) {
        bail!(
            "{option} describes an emulated machine, and without --emulated this machine is measured: \
             add --emulated, or leave {option} out"
        );
    }
    let mut operations = Vec::new();
    for operation in &args.operations {
        if !operations.contains(operation) {
            operations.push(*operation);
        }
    }
    let settings = Settings {
        operations,
        rounds: args.rounds,
        seed: args.seed,
        limit: args.machine.timeout,
    };
    let subject = Subject::of(args)?;
    let file = args.output.file(KIND)?;
    let mut report = Report::new(KIND, now(), environment::here());
    let interrupt = Interrupt::by_signals()?;
    let bar = ui.bar(u64::from(args.rounds) + 1, "starting");
    let mut progress = |progress: &Progress| {
        bar.at(u64::from(progress.done));
        bar.say("rounds");
    };
    let saved = &mut Saved::new(&mut report, &file);
    let measured = subject.measure(&settings, saved, &interrupt, &mut progress);
    drop(bar);
    let kept = brisk_host::program::quote(file.as_os_str());
    match measured {
        Err(BenchError::Interrupted(signal)) => {
            match report.series.is_empty() {
                true => ui.note("interrupted before anything was measured"),
                false => {
                    report.save(&file)?;
                    ui.note(&format!("interrupted; what was measured is in {kept}"));
                }
            }
            return Ok(exit::by_signal(signal));
        }
        measured => measured?,
    }
    report.warn();
    report.save(&file)?;
    let rows = bench::rows(&report);
    match args.output.format {
        Format::Table => ui.data(&bench::text(&rows))?,
        _ => args.output.print(&report, ui)?,
    }
    args.output
        .files_with_bars(&report, &bench::bars(&report, &rows), &file, ui)?;
    notes(args, &report, ui);
    ensure!(
        !rows.is_empty(),
        "no run succeeded; the reasons are in the report"
    );
    Ok(exit::OK)
}

/// Machine that is measured.
enum Subject {
    Live { cpu: Option<u32>, is_loaded: bool },
    Emulated(Emulated),
}

impl Subject {
    fn of(args: &Args) -> anyhow::Result<Self> {
        if args.emulated {
            return Ok(Self::Emulated(Emulated {
                kernel: args.machine.kernel()?,
                plan: args.machine.plan()?,
                cache: Cache::open()?,
            }));
        }
        // Before a report is begun.
        bench::has_copies(Path::new("/"))?;
        Ok(Self::Live {
            cpu: args.cpu,
            is_loaded: !args.no_load,
        })
    }

    fn measure(
        &self,
        settings: &Settings,
        saved: &mut Saved<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), BenchError> {
        match self {
            Self::Live { cpu, is_loaded } => {
                bench::live(settings, *cpu, *is_loaded, saved, interrupt, progress)
            }
            Self::Emulated(machine) => {
                bench::emulated(settings, machine, saved, interrupt, progress)
            }
        }
    }
}

fn notes(args: &Args, report: &Report, ui: &Ui) {
    if args.emulated {
        ui.note(
            "instructions of all CPUs of an emulated machine: they say what replication costs, and \
             nothing of what it gains",
        );
        return;
    }
    let is_cold = report
        .series
        .iter()
        .any(|series| series.name.ends_with(" cold"));
    if !is_cold {
        ui.note(
            "caches were hot: load ktext_cold.ko, which make kernel builds, to have them flushed as well",
        );
    }
    if Cpu::below(Path::new("/")).flags().contains("hypervisor") {
        ui.note(
            "this is a virtual machine: where its memory is, and whether its time means something, is \
             for its host to say",
        );
    }
}
