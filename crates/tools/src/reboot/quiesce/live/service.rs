//! Units, by systemctl(1).

use std::time::Duration;

use brisk_host::program::Program;

use crate::interrupt::Interrupt;
use crate::program_output::{NoOutput, output_within};
use crate::reboot::quiesce::state::{PROPERTIES, systemd_is_active};

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
        Err(NoOutput::Failed(error)) => Err(crate::chain(&error)),
    }
}

/// What `systemctl show` says of units.
pub(super) fn show(units: &[String], interrupt: &Interrupt) -> Result<String, String> {
    let properties = format!("--property={PROPERTIES}");
    let words = ["show", &*properties, "--"];
    let units = units.iter().map(String::as_str);
    systemctl(words.into_iter().chain(units), ASKING, interrupt)
}

/// Stops a unit, and waits until it has stopped.
pub(super) fn stop(unit: &str, limit: Duration, interrupt: &Interrupt) -> Result<(), String> {
    systemctl(["stop", "--", unit], limit, interrupt).map(drop)
}

/// Starts a unit, and waits until it has started.
pub(super) fn start(unit: &str, limit: Duration, interrupt: &Interrupt) -> Result<(), String> {
    systemctl(["start", "--", unit], limit, interrupt).map(drop)
}

/// Whether a unit is active.
pub(super) fn is_active(unit: &str, interrupt: &Interrupt) -> Result<bool, String> {
    let words = ["show", "--property=ActiveState", "--", unit];
    let text = systemctl(words, ASKING, interrupt)?;
    let state = text.trim().strip_prefix("ActiveState=").unwrap_or_default();
    match state {
        "" => Err(format!("systemd does not know {unit}")),
        state => Ok(systemd_is_active(state)),
    }
}
