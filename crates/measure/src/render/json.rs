//! A report as JSON, as it is saved.

use crate::Report;

/// The report as indented JSON, in the schema [`SCHEMA`](crate::SCHEMA).
pub fn json(report: &Report) -> String {
    report.to_json()
}
