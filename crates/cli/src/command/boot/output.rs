//! The end of commands that boot.

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
