//! `brisk overhead run`.

use anyhow::{Context, bail};
use brisk_host::cpu;
use brisk_measure::Report;
use brisk_tools::environment;
use brisk_tools::experiment::Saved;
use brisk_tools::overhead::{
    self, FLAGS, KitError, Options, OverheadError, PROCESSORS, Step, Target, UNITS, Workload,
    check, judge, rows,
};
use brisk_vm::cache::Cache;
use clap::ValueEnum;
use rustix::thread::sched_getaffinity;

use super::{picture, table};
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now};
use crate::parse::duration;
use crate::ui::{Bar, Ui};

/// Kind of the report.
const KIND: &str = "overhead";

/// Run a workload on the host and in other targets in turn, and compare the times.
///
/// Each round runs every target once, in random order, after a first round that does not count. The
/// host takes part twice: by what the two differ is noise. All targets are started before, and run
/// on the same processor. Times are taken by the host's clock, CPU time by the host's counters, so
/// that it does not matter what a guest says.
///
/// The workload `compile` compiles units of a kernel that gcc preprocessed once on this host, from
/// Debian's package linux-source; the objects have to be the same everywhere, byte for byte.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure a target: host, command:PREFIX, runc:, podman:IMAGE, docker:IMAGE, uml:[OPTIONS] or
    /// brisk:[OPTIONS of brisk run]. The host takes part by itself.
    ///
    /// A shell is started in it by the prefix and `sh`, and gets commands and files on its standard
    /// input. It needs tar, and for the workload compile gcc and sha256sum.
    #[arg(
        long = "target",
        short,
        value_name = "NAME=KIND:ARGUMENTS",
        required = true
    )]
    targets: Vec<Target>,

    /// Workload.
    #[arg(long, value_enum, default_value_t = Kind::Compile)]
    workload: Kind,

    /// Number of units that the workload compile compiles.
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    units: usize,

    /// Command of the workload command, for a shell.
    #[arg(long, value_name = "COMMAND", required_if_eq("workload", "command"))]
    command: Option<String>,

    /// Command that succeeds if the workload command did what it should; it is not timed.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    check: Option<String>,

    /// Rounds that count. An interval of 95 % needs six.
    #[arg(long, short = 'n', default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Processors of the host that every target runs on, such as 1 or 2-3. Default: the last one
    /// that brisk may use.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,

    /// Time limit of one run, and of the start of a target.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    timeout: String,

    /// Seed of the order of the targets.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

/// Values of [`Args::workload`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Kind {
    /// Units of a kernel, compiled one after another.
    Compile,
    /// A command of yours.
    Command,
}

/// Measures.
///
/// # Errors
/// If a target lacks what it needs, the workload fails on the host, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    check(&args.targets)?;
    let options = Options {
        rounds: args.rounds,
        cpus: processors(args.cpus.as_deref())?,
        timeout: duration("--timeout", &args.timeout)?,
        seed: args.seed,
    };
    let workload = match workload(args, ui) {
        Ok(workload) => workload,
        Err(error) => return interrupted(error, ui),
    };
    let file = args.output.file(KIND)?;
    let mut report = Report::new(KIND, now(), environment::here());
    describe(&mut report, args, &workload, &options);
    let steps = u64::from(args.rounds) + 1;
    let bar = ui.bar(steps, "starting the targets");
    let mut saved = Saved::new(&mut report, &file);
    let measured = overhead::run(
        &args.targets,
        &workload,
        &options,
        &mut saved,
        &mut |step| progress(&bar, &step),
    );
    drop(bar);
    report.save(&file)?;
    match measured {
        Ok(()) => {}
        Err(OverheadError::Interrupted(signal)) => {
            let left = format!("interrupted; what was measured is in {}", file.display());
            ui.note(&left);
            return Ok(exit::by_signal(signal));
        }
        Err(error) => return Err(error.into()),
    }
    let names = overhead::names(&args.targets);
    let rows = rows(&report, &names);
    match args.output.format {
        Format::Table => ui.data(&table::text(&report, &rows, &judge(&report, &names)))?,
        _ => args.output.print(&report, ui)?,
    }
    let panels = picture::of_run(&rows);
    args.output.files_with_bars(&report, &panels, &file, ui)?;
    Ok(exit::OK)
}

/// Exit status of a workload that was not made.
fn interrupted(error: anyhow::Error, ui: &Ui) -> anyhow::Result<u8> {
    match error.downcast_ref() {
        Some(KitError::Interrupted(signal)) => {
            ui.note("interrupted");
            Ok(exit::by_signal(*signal))
        }
        _ => Err(error),
    }
}

fn progress(bar: &Bar, step: &Step<'_>) {
    match step {
        Step::Starts(name) => bar.say(&format!("starting {name}")),
        Step::Round(progress) => {
            bar.at(u64::from(progress.done));
            bar.say(&format!(
                "rounds, about {} s left",
                progress.rest().as_secs()
            ));
        }
    }
}

/// The processors that were named; else the last one that this process may use: the first one
/// has most of the interrupts.
fn processors(named: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("cannot ask which processors brisk may use")?;
    let allowed: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let Some(text) = named else {
        return Ok(allowed.last().copied().into_iter().collect());
    };
    let list = cpu::parse_list(text)
        .with_context(|| format!("--cpus {text}: not a list of processors, such as 1 or 2-3"))?;
    if let Some(cpu) = list.iter().find(|cpu| !allowed.contains(cpu)) {
        let allowed = cpu::list(&allowed);
        bail!("--cpus {text}: brisk may not use processor {cpu}, but {allowed}");
    }
    Ok(list)
}

fn workload(args: &Args, ui: &Ui) -> anyhow::Result<Workload> {
    match (args.workload, &args.command) {
        (Kind::Command, Some(command)) => Ok(Workload::Command {
            command: command.clone(),
            check: args.check.clone(),
        }),
        (Kind::Command, None) => bail!("--workload command needs --command"),
        (Kind::Compile, Some(_)) => bail!("--command is for --workload command"),
        (Kind::Compile, None) => {
            if !(1..=UNITS.len()).contains(&args.units) {
                bail!("--units {}: there are 1 to {}", args.units, UNITS.len());
            }
            let spinner = ui.spinner("looking for the units to compile");
            let mut progress = |text: &str| ui.note(text);
            let kit = overhead::kit(&Cache::open()?, args.units, &mut progress)?;
            drop(spinner);
            Ok(Workload::Compile(kit))
        }
    }
}

/// Facts of the report about what is measured.
fn describe(report: &mut Report, args: &Args, workload: &Workload, options: &Options) {
    let facts = &mut report.environment.extra;
    facts.insert(PROCESSORS.into(), cpu::list(&options.cpus));
    for target in &args.targets {
        let name = format!("target {}", target.name);
        facts.insert(name, target.kind.to_string());
    }
    match workload {
        Workload::Compile(kit) => {
            facts.insert(
                "workload".into(),
                format!("compile {} units", kit.units.len()),
            );
            facts.insert("units of".into(), kit.source.clone());
            facts.insert("compiler options".into(), FLAGS.into());
        }
        Workload::Command { command, check } => {
            facts.insert("workload".into(), command.clone());
            if let Some(check) = check {
                facts.insert("check".into(), check.clone());
            }
        }
    }
}
