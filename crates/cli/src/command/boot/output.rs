//! The end of commands that boot.

use std::path::Path;

use anyhow::bail;
use brisk_measure::Report;
use brisk_tools::boot::bench::BenchError;

use crate::exit;
use crate::output::explain;
use crate::ui::Ui;

pub(super) use crate::command::report::{NO_STATE, OutputArgs, write};

/// The exit status of boots that came to no end, and the message; `left` is what there is
/// then.
pub(super) fn stopped(error: BenchError, left: &str, ui: &Ui) -> anyhow::Result<u8> {
    match error {
        BenchError::Interrupted(signal) => {
            ui.note(&format!("interrupted; {left}"));
            Ok(exit::by_signal(signal))
        }
        BenchError::Start(error) => Err(explain(error)),
        error => Err(error.into()),
    }
}

/// Checks that each of these series of a report has the time of a boot.
///
/// # Errors
/// If one has none: every boot of it has failed.
pub(super) fn some_boot_ended(
    report: &Report,
    names: &[String],
    file: &Path,
) -> anyhow::Result<()> {
    for name in names {
        if report
            .series(name)
            .is_some_and(|series| series.values().is_empty())
        {
            let whose = match names.len() {
                1 => String::new(),
                _ => format!(" of {name}"),
            };
            bail!(
                "no boot{whose} came to its end; the reasons are in {}",
                file.display()
            );
        }
    }
    Ok(())
}
