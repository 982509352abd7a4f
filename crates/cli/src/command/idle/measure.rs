//! `brisk idle measure`.

use std::path::PathBuf;
use std::time::Duration;

use brisk_experiment::environment;
use brisk_lint::Finding;
use brisk_measure::Environment;
use brisk_tools::idle::measure::{Guest, Measurement, Options, picture, report};

use super::causes::{Causes, paragraph};
use super::table;
use super::target::TargetArgs;
use super::watch::watch;
use crate::exit;
use crate::output::{Format, now, write_whole};
use crate::parse;
use crate::ui::Ui;

/// Measure host CPU time and wakeups of guests by thread and role.
///
/// Waits until the guest has settled, measures for --time, and prints CPU time, in percent of one
/// host CPU, and wakeups a second of each thread of QEMU: virtual CPUs, main loop, iothreads,
/// vhost and others. Rules of brisk idle lint that these rates speak for are shown as likely causes.
/// Without an option it is the only guest that runs. The guest is not touched; the files of /proc
/// that are read are readable by every user. On a terminal each window is shown as it ends; Ctrl-C
/// ends the measurement and prints what was measured so far.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit status: 0, or 130 if it was interrupted before --time was over.")]
pub struct Args {
    /// Guest to measure.
    #[command(flatten)]
    pub target: TargetArgs,

    /// How long to measure, in windows of about 5 s, for example 30, 30s or 5m.
    #[arg(
        long,
        value_parser = parse::duration, value_name = "DURATION",
        default_value = "30s",
        conflicts_with = "live"
    )]
    pub time: Duration,

    /// Longest wait until the guest has settled; 0 measures at once.
    ///
    /// A guest has settled when three windows of 5 s agree: CPU time to 0.2 points or 20 %, wakeups
    /// to 5 a second or 20 %. A limit below 15 s makes the windows shorter. If the guest does not
    /// settle, it is measured nevertheless, with a warning.
    #[arg(long, value_parser = parse::duration_or_zero, value_name = "LIMIT", default_value = "60s")]
    pub settle: Duration,

    /// Measure until Ctrl-C, like top.
    #[arg(long)]
    pub live: bool,

    /// Format of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Write a picture of CPU time and wakeups over time to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write a report with the raw samples, as JSON, to this file.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Measures; the result is the exit status.
///
/// # Errors
/// If there is no such guest, it cannot be measured, or a file cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let options = Options {
        settle: (!args.settle.is_zero()).then_some(args.settle),
        time: match args.live {
            true => None,
            false => Some(args.time),
        },
        connect: args.target.connect.clone(),
    };
    let guests = args.target.guests(ui)?;
    let causes = Causes::of(&guests);
    let (created, environment) = (now(), of(&guests));
    let watched = watch(&guests, &options, &causes, ui)?;
    let measurement = match (watched.measurement, watched.signal) {
        (Ok(measurement), _) => measurement,
        (Err(error), Some(signal)) => {
            ui.note(&error.to_string());
            return Ok(exit::by_signal(signal));
        }
        (Err(error), None) => return Err(error.into()),
    };
    let likely = causes.likely(&measurement);
    write(args, &measurement, &likely, &created, environment, ui)?;
    match watched.signal {
        Some(signal) if !args.live => {
            ui.note(&format!("interrupted after {:.0} s", measurement.seconds));
            Ok(exit::by_signal(signal))
        }
        _ => Ok(exit::OK),
    }
}

/// Environment of a measurement of guests.
fn of(guests: &[Guest]) -> Environment {
    let mut environment = environment::here();
    let mut accelerators: Vec<_> = guests.iter().map(|guest| &*guest.accelerator).collect();
    accelerators.dedup();
    environment.accelerator = Some(accelerators.join(", "));
    environment
}

fn write(
    args: &Args,
    measurement: &Measurement,
    likely: &[Vec<Finding>],
    created: &str,
    environment: Environment,
    ui: &Ui,
) -> anyhow::Result<()> {
    let connect = args.target.connect.as_deref();
    let causes = measurement.guests.iter().zip(likely);
    let causes: Vec<_> = causes
        .map(|(measured, likely)| paragraph(measured, likely, connect))
        .collect();
    let text = match args.format {
        Format::Table => {
            let first = causes.first().map_or("", String::as_str);
            table::table(measurement, likely, first, environment.logical_cpus)
        }
        Format::Json => table::json(measurement, likely, created)?,
        Format::Csv => table::csv(measurement),
    };
    ui.data(&text)?;
    if let Some(path) = &args.svg {
        let picture = picture(measurement, created, environment.clone());
        write_whole(path, picture.as_bytes())?;
    }
    if let Some(path) = &args.output {
        let mut report = report(measurement, created, environment);
        for (measured, text) in measurement.guests.iter().zip(&causes) {
            let guest = measured.guest.label();
            let lines = text.lines().map(|line| format!("{guest}: {}", line.trim()));
            report.notes.extend(lines);
        }
        report.save(path)?;
    }
    Ok(())
}
