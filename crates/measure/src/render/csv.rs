//! Raw samples as CSV, for spreadsheets and other programs.

use std::borrow::Cow;

use super::text::clean;
use crate::{Outcome, Phase, Report, Series};

/// Every sample of every series as CSV (RFC 4180): `series,unit,phase,iteration,outcome,value,
/// reason`. A run that did not succeed has an empty value.
///
/// Text that a spreadsheet would take for a formula is preceded by an apostrophe.
pub fn csv(report: &Report) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let infallible = "writing to memory does not fail";
    writer
        .write_record([
            "series",
            "unit",
            "phase",
            "iteration",
            "outcome",
            "value",
            "reason",
        ])
        .expect(infallible);
    for series in &report.series {
        for record in records(series) {
            writer.write_record(record.iter()).expect(infallible);
        }
    }
    let bytes = writer.into_inner().expect(infallible);
    String::from_utf8(bytes).expect("every field is a string")
}

fn records(series: &Series) -> impl Iterator<Item = [String; 7]> {
    series.samples.iter().map(|sample| {
        let phase = match sample.phase {
            Phase::Warmup => "warmup",
            Phase::Measured => "measured",
        };
        let (outcome, value, reason) = match &sample.outcome {
            // The shortest form that reads back as the same number.
            Outcome::Ok { value } => ("ok", value.get().to_string(), ""),
            Outcome::Failed { reason } => ("failed", String::new(), reason.as_str()),
            Outcome::TimedOut => ("timed-out", String::new(), ""),
        };
        [
            harmless(&series.name).into_owned(),
            series.unit.symbol().to_owned(),
            phase.to_owned(),
            sample.iteration.to_string(),
            outcome.to_owned(),
            value,
            harmless(reason).into_owned(),
        ]
    })
}

/// Prefixes text that a spreadsheet would compute: OWASP, "CSV Injection".
fn harmless(text: &str) -> Cow<'_, str> {
    let text = clean(text);
    // Spreadsheets look past leading spaces, and take full-width signs for their ASCII forms.
    let first = text.trim_start().chars().next();
    if matches!(
        first,
        Some('=' | '+' | '-' | '@' | '|' | '%' | '＝' | '＋' | '－' | '＠')
    ) {
        Cow::Owned(format!("'{text}"))
    } else {
        text
    }
}
