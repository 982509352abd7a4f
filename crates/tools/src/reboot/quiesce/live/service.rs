//! Units, by systemctl(1).

use std::time::Duration;

use brisk_host::program::Program;

use super::in_one_line;
use crate::reboot::quiesce::state::PROPERTIES;
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::{NoOutput, output_within};

/// Longest time for a question.
const ASKING: Duration = Duration::from_secs(30);

fn systemctl<'a>(
    words: impl IntoIterator<Item = &'a str>,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, String> {
    let program = Program::find("systemctl").map_err(|error| error.to_string())?;
    let output = output_within(&program.args(words), Some(limit), interrupt);
    match output {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(NoOutput::Interrupted(_)) => Err("interrupted".to_owned()),
        Err(NoOutput::Failed(error)) => Err(in_one_line(&error)),
    }
}

/// What `systemctl show` says of units.
pub(super) fn show(units: &[String], interrupt: &Interrupt) -> Result<String, String> {
    let properties = format!("--property={PROPERTIES}");
    let words = ["show", &*properties, "--"];
    let units = units.iter().map(String::as_str);
    systemctl(words.into_iter().chain(units), ASKING, interrupt)
}

/// Stops units, and waits until they have stopped.
pub(super) fn stop(units: &[String], limit: Duration, interrupt: &Interrupt) -> Result<(), String> {
    change("stop", units, limit, interrupt)
}

/// Starts units, and waits until they have started.
pub(super) fn start(
    units: &[String],
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<(), String> {
    change("start", units, limit, interrupt)
}

fn change(
    verb: &str,
    units: &[String],
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<(), String> {
    let units = units.iter().map(String::as_str);
    systemctl([verb, "--"].into_iter().chain(units), limit, interrupt).map(drop)
}
