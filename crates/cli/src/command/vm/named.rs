//! The VM that a command names, and how a command on it ends.

use brisk_tools::vm::{Error, StateDirs, VmPaths};

use crate::exit;
use crate::hint::with_hint;
use crate::ui::Ui;

/// Files of the VM of that name.
pub(crate) fn paths(name: &str) -> anyhow::Result<VmPaths> {
    StateDirs::here()
        .and_then(|dirs| dirs.vm(name))
        .map_err(explain)
}

/// With what to try as part of the message.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    let hint = error.hint();
    with_hint(error, hint)
}

/// The status of a command that a signal ended in good order; other errors go on.
pub(super) fn concluded(result: Result<(), Error>, left: &str, ui: &Ui) -> anyhow::Result<u8> {
    match result {
        Ok(()) => Ok(exit::OK),
        Err(Error::Interrupted) => {
            ui.note(&format!("interrupted; {left}"));
            Ok(exit::INTERRUPTED)
        }
        Err(error) => Err(explain(error)),
    }
}
