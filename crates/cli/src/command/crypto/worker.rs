//! `brisk crypto worker`.

use std::io;

use brisk_host::interrupt::Interrupt;
use brisk_tools::crypto::{NotMeasured, serve};

use super::machine::this_machine;
use crate::exit;

/// Measures what standard input asks for until it ends.
///
/// # Errors
/// If a question is not understood, or the output cannot be written.
pub(super) fn run() -> anyhow::Result<u8> {
    let mut machine = this_machine(Interrupt::by_signals()?)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    match serve(&mut machine, &mut input, &mut output) {
        Ok(()) => Ok(exit::OK),
        Err(NotMeasured::Interrupted(signal)) => Ok(exit::by_signal(signal)),
        Err(error) => Err(error.into()),
    }
}
