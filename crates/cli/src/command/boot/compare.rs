//! `brisk boot compare`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use brisk_experiment::{Saved, compare_reports};
use brisk_measure::{Environment, Report};
use brisk_tools::boot::analyze::LogPatterns;
use brisk_tools::boot::compare::{Settings, Side, compare};
use brisk_tools::boot::difference::Difference;
use brisk_tools::boot::target::BootTarget;
use clap::Parser;

use super::output::{OutputArgs, some_boot_ended, stopped};
use super::target::{Clock, SubjectArgs, Until};
use crate::exit;
use crate::output::now;
use crate::parse::duration;
use crate::ui::Ui;

/// Compare two reports, or two configurations booted alternately.
///
/// A configuration is the options of `brisk boot bench` in one word: --a '--machine q35' --b
/// '--machine microvm'. The result is the ratio of the times with its confidence interval and a
/// permutation test. Traced boots of both configurations show where the difference is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Two reports that brisk boot saved.
    #[arg(value_name = "REPORT", num_args = 2, conflicts_with_all = ["a", "b"])]
    pub reports: Vec<PathBuf>,

    /// Options of the first configuration, in one word.
    #[arg(
        long,
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        requires = "b"
    )]
    pub a: Option<String>,

    /// Options of the second configuration, in one word.
    #[arg(
        long,
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        requires = "a"
    )]
    pub b: Option<String>,

    /// Number of pairs of boots that count.
    #[arg(long, short = 'n', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,

    /// Warm-up pairs of boots, to fill caches.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: u32,

    /// Traced boots of each configuration, to explain the difference; 0: no explanation.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub traces: u32,

    /// Milestone at which the measured time ends.
    #[arg(long, value_enum, default_value_t = Until::Exit)]
    pub until: Until,

    /// Time limit of one boot, for example 90, 90s or 5m.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "60s")]
    pub timeout: Duration,

    /// Compare reports of hosts that differ, too; the comparison is marked then.
    #[arg(long)]
    pub force: bool,

    /// Output of the report.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of one configuration.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Configuration {
    #[command(flatten)]
    subject: SubjectArgs,
}

/// Compares; the result is the exit status.
///
/// # Errors
/// If a report cannot be read, a boot fails, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    match (&*args.reports, &args.a, &args.b) {
        ([a, b], ..) => reports(args, a, b, ui),
        (_, Some(a), Some(b)) => configurations(args, [a, b], ui),
        _ => bail!(
            "nothing to compare; give two reports, or --a OPTIONS and --b OPTIONS, for example \
             --a '--machine q35' --b '--machine microvm'"
        ),
    }
}

fn reports(args: &Args, a: &Path, b: &Path, ui: &Ui) -> anyhow::Result<u8> {
    let (first, second) = (Report::load(a)?, Report::load(b)?);
    let differences = Environment::comparable(&first.environment, &second.environment);
    let mut notes = Vec::new();
    if let Err(differences) = differences {
        let list: Vec<_> = differences.iter().map(ToString::to_string).collect();
        let list = list.join("; ");
        if !args.force {
            bail!("these reports cannot be compared ({list}); --force does it all the same");
        }
        notes.push(format!("the hosts are not comparable: {list}"));
    }
    let Some(mut report) = compare_reports("boot-comparison", now(), &first, &second) else {
        bail!("{} or {} has no series", a.display(), b.display());
    };
    report.notes = notes;
    if let (Some(before), Some(after)) = (&first.timeline, &second.timeline) {
        explain_into(&mut report, Difference::of(before, after).ok());
    }
    report.warn();
    let file = args.output.file("boot-comparison")?;
    report.save(&file)?;
    args.output.show(&report, &file, ui)?;
    Ok(exit::OK)
}

fn configurations(args: &Args, words: [&String; 2], ui: &Ui) -> anyhow::Result<u8> {
    let mut subjects = Vec::new();
    for (name, text) in ["--a", "--b"].into_iter().zip(words) {
        subjects.push(subject(name, text, args.traces > 0, ui)?);
    }
    let names = [format!("A: {}", words[0]), format!("B: {}", words[1])];
    let [(a, a_traced), (b, b_traced)] = &*subjects else {
        unreachable!("two configurations were read");
    };
    if a.clock() != b.clock() {
        bail!("--a and --b have different clocks");
    }
    let sides = [
        Side {
            name: &names[0],
            plain: a,
            traced: a_traced.as_ref(),
        },
        Side {
            name: &names[1],
            plain: b,
            traced: b_traced.as_ref(),
        },
    ];
    let settings = Settings {
        runs: args.runs,
        warmups: args.warmup,
        traces: args.traces,
        until: args.until.tool(),
        timeout: args.timeout,
    };
    let file = args.output.file("boot-comparison")?;
    let environment = b.environment().common(&a.environment());
    let mut report = Report::new("boot-comparison", now(), environment);
    let steps = u64::from(settings.runs + settings.warmups + settings.traces);
    let bar = ui.bar(steps, "booting pairs");
    let markers = LogPatterns::own()?;
    let saved = Saved::new(&mut report, &file);
    let result = compare(&sides, settings, &markers, saved, &mut |done| {
        bar.at(u64::from(done));
    });
    drop(bar);
    let difference = match result {
        Ok(difference) => difference,
        Err(error) => {
            let left = format!("what there is is in {}", file.display());
            return stopped(error, &left, ui);
        }
    };
    explain_into(&mut report, difference);
    report.save(&file)?;
    args.output.show(&report, &file, ui)?;
    some_boot_ended(&report, &names, &file)?;
    Ok(exit::OK)
}

fn subject(
    name: &str,
    text: &str,
    trace: bool,
    ui: &Ui,
) -> anyhow::Result<(BootTarget, Option<BootTarget>)> {
    let words = shlex::split(text)
        .with_context(|| format!("{name} {text}: a quotation mark has no end"))?;
    let parsed = Configuration::try_parse_from(words)
        .map_err(|error| anyhow::anyhow!("{name} {text}: {}", first_line(&error)))?;
    let args = parsed.subject;
    if trace && args.clock == Clock::Wall {
        return args.with_trace(ui);
    }
    Ok((args.subject(ui)?, None))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

/// Most lines of an explanation.
const LINES: usize = 12;

fn explain_into(report: &mut Report, difference: Option<Difference>) {
    let Some(difference) = difference else { return };
    let lines = difference.lines(difference.noise());
    let more = lines.len().saturating_sub(LINES);
    report.notes.extend(lines.into_iter().take(LINES));
    if more > 0 {
        report.notes.push(format!("and {more} smaller differences"));
    }
}
