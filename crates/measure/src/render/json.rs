//! The report itself, as it is saved.

use crate::Report;

/// The report as indented JSON, in the schema [`SCHEMA`](crate::SCHEMA).
pub fn json(report: &Report) -> String {
    report.to_json()
}
