//! The report itself, as it is saved.

use crate::Report;

/// The report as indented JSON, in the schema [`SCHEMA`](crate::SCHEMA).
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("a report has string keys and no failing parts");
    text.push('\n');
    text
}
