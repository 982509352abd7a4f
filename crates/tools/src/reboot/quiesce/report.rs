//! Plans as text and as JSON. Pure.

use std::fmt::Write;

use brisk_measure::render::{columns, one_line};
use serde_json::{Value, json as value};

use super::plan::{Plan, describe};

/// Schema of [`json`].
pub const SCHEMA: &str = "brisk.reboot.quiesce/1";

/// For a terminal.
#[must_use]
pub fn text(plan: &Plan) -> String {
    let mut text = String::new();
    if !plan.devices.is_empty() {
        let rows = plan.devices.iter().map(|device| {
            let module = device.module.as_deref().unwrap_or("built in");
            let cells = [&*device.address, &*device.driver, module];
            cells.map(str::to_owned).into()
        });
        text.push_str(&columns(&["device", "driver", "module"], rows));
        text.push('\n');
    }
    for holder in &plan.holders {
        let _ = writeln!(text, "In use: {}", one_line(&describe(holder)));
    }
    if !plan.holders.is_empty() {
        text.push('\n');
    }
    if plan.steps.is_empty() {
        text.push_str(
            "Nothing to do: no graphics card has a driver, and the configuration names \
                       nothing that is there.\n",
        );
    } else {
        let rows = plan.steps.iter().zip(1..).map(|(step, number)| {
            let (word, what) = step.action.words();
            [
                number.to_string(),
                one_line(&format!("{word} {what}")),
                one_line(&step.reason),
            ]
            .into()
        });
        text.push_str(&columns(&["", "step", "because"], rows));
    }
    for note in &plan.notes {
        let _ = writeln!(text, "Note: {}", one_line(note));
    }
    for obstacle in &plan.obstacles {
        let _ = writeln!(text, "refuse: {}", one_line(&obstacle.what));
        let _ = writeln!(text, "    fix: {}", one_line(&obstacle.fix));
    }
    text
}

/// For programs.
#[must_use]
pub fn json(plan: &Plan) -> Value {
    let mut all = value!(plan);
    all["schema"] = SCHEMA.into();
    all
}
