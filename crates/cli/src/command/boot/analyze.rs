//! `brisk boot analyze`.

use std::path::PathBuf;

use anyhow::{Context, bail};
use brisk_measure::{Report, render};
use brisk_tools::boot::analyze::{LogPatterns, report};
use brisk_tools::boot::bench::series_name;
use brisk_tools::boot::passes::{Pair, passes};
use brisk_tools::run::Terminal;

use super::output::stopped;
use super::output::{OutputArgs, write};
use super::target::SubjectArgs;
use crate::exit;
use crate::output::Format;
use crate::output::now;
use crate::ui::Ui;

/// Explain where the time of a boot goes.
///
/// The guest is booted several times with its kernel and init logging what they do, and as often
/// without, to measure what the logging costs. The picture shows the traced boot with the median
/// time; times and shares are of all traced boots.
///
/// With --clock instructions, times are counted in the guest's instructions, and firmware and
/// kernel are one phase until the guest's clock starts. Of a QEMU command line brisk reads the
/// console, which says most with console=ttyS0, initcall_debug and ignore_loglevel.
#[derive(Debug, clap::Args)]
#[command(mut_arg("until", |until| until.default_value("exit")))]
pub struct Args {
    /// Boot target.
    #[command(flatten)]
    pub subject: SubjectArgs,

    /// Number of boots with the trace, and as many without.
    #[arg(long, short = 'n', default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000), alias = "passes")]
    pub runs: u32,

    /// File with more log patterns: what lines of firmware and kernel mean, in the form that the
    /// book describes.
    #[arg(long, value_name = "FILE")]
    pub markers: Vec<PathBuf>,

    /// Write a trace for ui.perfetto.dev and chrome://tracing to this file.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,

    /// Columns of the picture on standard output. Default: the terminal's, or 100.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,

    /// Output of the report.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Boots the guest and explains its boot; the result is the exit status.
///
/// # Errors
/// If a boot fails, too few boots are left, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let mut markers = LogPatterns::own()?;
    for path in &args.markers {
        let text = brisk_host::files::read_regular_text(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        markers.add(&path.display().to_string(), &text)?;
    }
    let timeout = args.subject.timeout;
    let (plain, traced) = args.subject.with_trace(ui)?;
    // Watching a QEMU of the user's adds nothing to it.
    let (traced, plain) = match traced {
        Some(traced) => (traced, Some(plain)),
        None => (plain, None),
    };
    let pair = Pair {
        traced: &traced,
        plain: plain.as_ref(),
    };
    let file = args.output.file("boot-analysis")?;
    let bar = ui.bar(u64::from(args.runs), "booting");
    let until = args.subject.until();
    let result = passes(
        &pair,
        &markers,
        until,
        timeout,
        args.runs,
        &mut |progress| {
            bar.at(u64::from(progress.done));
        },
    );
    drop(bar);
    let passes = match result {
        Ok(passes) => passes,
        Err(error) => return stopped(error, "there is no report", ui),
    };
    if passes.analyses.is_empty() {
        let reason = passes.failures.first().map_or("", String::as_str);
        bail!("no boot came to its end: {reason}");
    }
    let (mut report, summary) = report(
        &passes.analyses,
        now(),
        traced.environment(),
        &series_name(&traced, args.subject.until()),
    );
    report.notes.extend(passes.overhead());
    for failure in &passes.failures {
        report.notes.push(format!("a boot failed: {failure}"));
    }
    report.save(&file)?;
    if args.output.format == Format::Table {
        ui.data(&picture(&report, args.width))?;
        ui.data(&format!("\n{}\n", summary.text()))?;
        for note in &report.notes {
            ui.data(&format!("Note: {note}\n"))?;
        }
        args.output.files(&report, &file, ui)?;
    } else {
        args.output.show(&report, &file, ui)?;
    }
    if let Some(path) = &args.perfetto {
        write(path, &render::perfetto(&report))?;
    }
    Ok(exit::OK)
}

fn picture(report: &Report, width: Option<u16>) -> String {
    let width =
        width.unwrap_or_else(|| Terminal::window().map_or(100, |(_, columns)| columns.max(40)));
    report
        .timeline
        .as_ref()
        .map_or_else(String::new, |timeline| {
            render::timeline_text(timeline, usize::from(width))
        })
}
