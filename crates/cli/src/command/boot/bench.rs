//! `brisk boot bench`.

use brisk_experiment::Saved;
use brisk_measure::Report;
use brisk_tools::boot::bench::{Settings, bench, series_name};

use super::output::{OutputArgs, some_boot_ended, stopped};
use super::target::SubjectArgs;
use crate::exit;
use crate::output::now;
use crate::ui::Ui;

/// Boot repeatedly and measure how long it takes.
///
/// Each boot is timed from the execution of QEMU to --until. Warm-up boots are kept in the report
/// and left out of every statistic. The report is saved after every boot.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Boot target.
    #[command(flatten)]
    pub subject: SubjectArgs,

    /// Number of boots that count.
    #[arg(long, short = 'n', default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,

    /// Warm-up boots, to fill caches. Default: 3, and none with --clock instructions.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: Option<u32>,

    /// Output of the report.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Measures boots; the result is the exit status.
///
/// # Errors
/// If a boot fails, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let subject = args.subject.subject(ui)?;
    let exact = subject.clock() == brisk_measure::Clock::Instructions;
    let settings = Settings {
        runs: args.runs,
        warmups: args.warmup.unwrap_or(if exact { 0 } else { 3 }),
        until: args.subject.until(),
        timeout: args.subject.timeout,
    };
    let file = args.output.file("boot-bench")?;
    let mut report = Report::new("boot-bench", now(), subject.environment());
    let bar = ui.bar(u64::from(settings.runs + settings.warmups), "booting");
    let saved = Saved::new(&mut report, &file);
    let result = bench(&subject, settings, saved, &mut |progress| {
        bar.at(u64::from(progress.done));
    });
    drop(bar);
    if let Err(error) = result {
        let left = format!("what there is is in {}", file.display());
        return stopped(error, &left, ui);
    }
    report.save(&file)?;
    args.output.show(&report, &file, ui)?;
    let name = series_name(&subject, settings.until);
    some_boot_ended(&report, &[name], &file)?;
    Ok(exit::OK)
}
