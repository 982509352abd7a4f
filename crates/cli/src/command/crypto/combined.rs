//! `brisk crypto combined`.

use std::fmt::Write;

use anyhow::ensure;
use brisk_measure::render::{self, sheet};
use brisk_measure::{Report, Unit};
use brisk_tools::crypto::{self, Combination, Implementation, Pair, best, combinations};

use super::bars;
use super::bench::{Ended, carry_out};
use super::options::MeasureArgs;
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::Format;
use crate::ui::Ui;

/// Kind of the report.
const KIND: &str = "crypto-combined";

/// Measure software and an offload at once, against each of them alone.
///
/// Both need the processor, memory and locks, so that what they do together is not the sum of what
/// they do alone. Every number of threads of each up to --threads is measured, alone and together,
/// in interleaved rounds. Threads are pinned, each to a processor of its own as far as there are
/// enough.
///
/// --impl is to be given twice: first software, then the offload. --sizes is to name one size.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Options of the measurement.
    #[command(flatten)]
    measure: MeasureArgs,

    /// Threads of each kind at most.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    threads: u16,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

/// Measures.
///
/// # Errors
/// If one of the two cannot be measured, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let pair = pair(args)?;
    let ended = carry_out(&args.measure, KIND, &args.output, ui, |run| {
        crypto::combined(run.worker, &pair, run.saved, run.interrupt, run.progress)
    })?;
    let (mut report, file) = match ended {
        Ended::Whole(report, file) => (report, file),
        Ended::BySignal(signal) => return Ok(exit::by_signal(signal)),
    };
    report.comparisons = best(&report)
        .map(|(_, compared)| compared)
        .into_iter()
        .collect();
    report.warn();
    report.save(&file)?;
    let all = combinations(&report);
    match args.output.format {
        Format::Table => ui.data(&text(&report, &pair, &all))?,
        _ => args.output.print(&report, ui)?,
    }
    args.output
        .files_with_bars(&report, &bars::of_combined(&all), &file, ui)?;
    Ok(exit::OK)
}

fn pair(args: &Args) -> anyhow::Result<Pair> {
    let options = args.measure.options(1)?;
    let [software, offload] =
        <[Implementation; 2]>::try_from(options.implementations).map_err(|_| {
            anyhow::anyhow!("name two implementations by --impl: software, then the offload")
        })?;
    ensure!(
        software != offload,
        "--impl: the two implementations are one"
    );
    ensure!(
        options.sizes.len() == 1,
        "--sizes: name one size, such as --sizes 64K"
    );
    Ok(Pair {
        algorithm: options.algorithm,
        direction: options.direction,
        software,
        offload,
        bytes: options.sizes[0],
        threads: usize::from(args.threads),
        seconds: options.seconds,
        rounds: options.rounds,
        budget: options.budget,
        seed: options.seed,
    })
}

fn text(report: &Report, pair: &Pair, all: &[Combination]) -> String {
    let rate = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |rate| Unit::BytesPerSecond.format(rate))
    };
    let lines = all.iter().map(|one| {
        [
            one.split.software.to_string(),
            one.split.offload.to_string(),
            rate(one.throughput),
            rate(one.software),
            rate(one.offload),
            one.of_sum
                .map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            one.cpus
                .map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}")),
        ]
    });
    let mut text = sheet(
        &[
            "threads: software",
            "offload",
            "throughput",
            "by software",
            "by the offload",
            "of the sum alone",
            "CPUs",
        ],
        lines,
    );
    let _ = writeln!(
        text,
        "Software is {}, the offload {}; {} of {} in each operation.",
        render::clean(&pair.software.to_string()),
        render::clean(&pair.offload.to_string()),
        Unit::Bytes.format(pair.bytes as f64),
        pair.algorithm.name
    );
    for one in all {
        if let Some(reason) = &one.failure {
            let _ = writeln!(
                text,
                "{} software + {} offload: failed: {}",
                one.split.software,
                one.split.offload,
                render::clean(reason)
            );
        }
    }
    if let Some((split, compared)) = best(report) {
        let ratio = compared.ratio.map_or_else(String::new, |ratio| {
            let interval = compared
                .ratio_interval
                .map_or_else(String::new, |interval| {
                    format!(" [{:.2}, {:.2}]", interval.low, interval.high)
                });
            format!(
                "; the best of both together has {ratio:.2}{interval} times the throughput of the \
                 best alone"
            )
        });
        let _ = writeln!(
            text,
            "Best: {} threads of software and {} of the offload{ratio}.",
            split.software, split.offload
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}", render::clean(note));
    }
    text
}
