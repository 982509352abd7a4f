//! `brisk crypto bench`.

use std::path::PathBuf;

use anyhow::ensure;
use brisk_experiment::Saved;
use brisk_experiment::environment;
use brisk_host::interrupt::Interrupt;
use brisk_measure::Report;
use brisk_tools::crypto::{self, BenchError, Step, Worker, metric, rows};

use super::options::MeasureArgs;
use super::{bars, bench_table};
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now, printable};
use crate::ui::{Bar, Ui};

/// Kind of the report.
pub(super) const KIND: &str = "crypto";

/// Measure implementations of an algorithm at several sizes: time and CPU time of an operation.
///
/// Each round measures every implementation at every size, in random order, and the idle system
/// twice. CPU time of the whole system is that in which no processor was idle, less what an idle
/// system takes; beside it stands who spent it: the threads that ask, threads of the kernel,
/// interrupts, and the guest's QEMU where it can be seen.
///
/// Each implementation first has to give the results of published test vectors. For a driver of the
/// kernel it is checked that it was in use, and that its device, if it has one, raised interrupts.
///
/// libcrypto is measured by openssl speed, the kernel through sockets of the family AF_ALG: a message
/// and a read for each operation, with one key.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Options of the measurement.
    #[command(flatten)]
    measure: MeasureArgs,

    /// Threads, each pinned to a processor of its own.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = threads)]
    threads: usize,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("a number from 1 to 1024 is wanted".to_owned()),
    }
}

/// Measures.
///
/// # Errors
/// If nothing can be measured, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let measured = measure(&args.measure, args.threads, &args.output, ui)?;
    let (report, file) = match measured {
        Ended::Whole(report, file) => (report, file),
        Ended::BySignal(signal) => return Ok(exit::by_signal(signal)),
    };
    let rows = rows(&report);
    match args.output.format {
        Format::Table => ui.data(&bench_table::text(&report, &rows))?,
        _ => args.output.print(&report, ui)?,
    }
    args.output
        .files_with_bars(&report, &bars::of_bench(&rows), &file, ui)?;
    ensure!(
        rows.iter().any(|row| row.get(metric::TIME).is_some()),
        "no run succeeded; the reasons are in the report"
    );
    Ok(exit::OK)
}

/// How a measurement ended.
pub(super) enum Ended {
    /// All rounds were made, or the time is used up; the report, and the file that has it.
    Whole(Box<Report>, PathBuf),
    /// The user interrupted. What was measured is saved, which was said.
    BySignal(i32),
}

/// Measures all that was asked for, with progress, and saves it.
///
/// # Errors
/// If nothing can be measured, the machine is lost, or a report cannot be written.
pub(super) fn measure(
    args: &MeasureArgs,
    threads: usize,
    output: &OutputArgs,
    ui: &Ui,
) -> anyhow::Result<Ended> {
    measure_with(args, args.options(threads)?, output, ui)
}

/// Likewise, with options that are not all of the command line.
///
/// # Errors
/// Those of [`measure`].
pub(super) fn measure_with(
    args: &MeasureArgs,
    options: crypto::Options,
    output: &OutputArgs,
    ui: &Ui,
) -> anyhow::Result<Ended> {
    let ended = carry_out(args, KIND, output, ui, |run| {
        crypto::bench(run.worker, &options, run.saved, run.interrupt, run.progress).map(drop)
    })?;
    if let Ended::Whole(mut report, file) = ended {
        report.warn();
        report.save(&file)?;
        return Ok(Ended::Whole(report, file));
    }
    Ok(ended)
}

/// Worker, report and progress of an experiment.
pub(super) struct Run<'a, 'b> {
    pub(super) worker: &'a mut dyn Worker,
    pub(super) saved: &'a mut Saved<'b>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a mut dyn FnMut(Step<'_>),
}

/// Carries out an experiment on the machine of the command line, with progress. The report is saved
/// as the experiment does it.
///
/// # Errors
/// If the machine cannot be reached, or the experiment fails. The user has been told of a report that
/// has samples.
pub(super) fn carry_out(
    args: &MeasureArgs,
    kind: &str,
    output: &OutputArgs,
    ui: &Ui,
    experiment: impl FnOnce(Run<'_, '_>) -> Result<(), BenchError>,
) -> anyhow::Result<Ended> {
    let interrupt = Interrupt::by_signals()?;
    let file = output.file(kind)?;
    let mut report = Report::new(kind, now(), environment::here());
    let mut worker = args.machine(&interrupt, ui)?;
    let bar = ui.bar(u64::from(args.rounds) + 1, "asking the machine");
    let ended = experiment(Run {
        worker: &mut *worker,
        saved: &mut Saved::new(&mut report, &file),
        interrupt: &interrupt,
        progress: &mut |step| progress(&bar, &step),
    });
    drop(bar);
    drop(worker);
    let kept = brisk_host::program::quote(file.as_os_str());
    match ended {
        Ok(()) => Ok(Ended::Whole(Box::new(report), file)),
        Err(BenchError::Interrupted(signal)) => {
            ui.note(&format!("interrupted; what was measured is in {kept}"));
            Ok(Ended::BySignal(signal))
        }
        Err(error) => {
            if matches!(error, BenchError::Machine(_)) && !report.series.is_empty() {
                ui.note(&format!("what was measured is in {kept}"));
            }
            Err(error.into())
        }
    }
}

fn progress(bar: &Bar, step: &Step<'_>) {
    match step {
        // Its notes stand below the table.
        Step::About(_) => {}
        Step::Check(implementation) => {
            bar.say(&format!(
                "checking {}",
                printable(&implementation.to_string())
            ));
        }
        Step::Run(side) => bar.say(&printable(side)),
        Step::Round(progress) => {
            bar.at(u64::from(progress.done));
            bar.say("rounds");
        }
    }
}
