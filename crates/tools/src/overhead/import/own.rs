//! brisk's own reports. Pure.

use std::path::Path;

use brisk_measure::{Better, Report, Series, Unit};

use super::{Entry, ImportError, Imported, Origin};
use crate::overhead::metrics::TIME;

/// Kinds of reports that have times of targets.
const MEASURED: &str = "overhead";
const IMPORTED: &str = "overhead-import";

/// Facts that make two measurements one of the same work.
const WORK: [&str; 5] = [
    "workload",
    "units of",
    "kernel",
    "configuration",
    "compiler options",
];

/// Whether JSON is a report.
pub(super) fn is_json(file: &serde_json::Value) -> bool {
    let schema = file.get("schema").and_then(serde_json::Value::as_str);
    schema.is_some_and(|schema| schema.starts_with("brisk.report/"))
}

pub(super) fn of_json(text: &str) -> Result<Vec<Imported>, ImportError> {
    let report = Report::parse(text.as_bytes(), Path::new("the file"));
    let report = report.map_err(|error| ImportError::Json(brisk_host::chain(&error)))?;
    match &*report.kind {
        MEASURED => Ok(measured(&report)),
        IMPORTED => Ok(imported(&report)),
        kind => Err(ImportError::Kind(kind.to_owned())),
    }
}

fn measured(report: &Report) -> Vec<Imported> {
    let work = WORK
        .iter()
        .filter_map(|name| report.environment.extra.get(*name));
    let work: Vec<_> = work.map(String::as_str).collect();
    let suffix = format!(": {TIME}");
    let entries = report.series.iter().filter_map(|series| {
        let name = series.name.strip_suffix(&suffix)?;
        let values = series.values();
        // Without a run that counts, there is nothing to draw.
        (!values.is_empty()).then(|| Entry {
            name: name.to_owned(),
            values,
            origin: Origin::Runs,
        })
    });
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        return Vec::new();
    }
    vec![Imported {
        key: Some(format!("brisk overhead\n{}", work.join("\n"))),
        title: work
            .first()
            .map(|work| (*work).to_owned())
            .unwrap_or_default(),
        unit: "s".to_owned(),
        lower_is_better: true,
        entries,
    }]
}

/// Series of a file that was imported before: `TITLE: TARGET`.
fn imported(report: &Report) -> Vec<Imported> {
    let mut found: Vec<Imported> = Vec::new();
    for series in &report.series {
        let (title, name) = series.name.rsplit_once(": ").unwrap_or(("", &series.name));
        let one = result(title, name, series);
        let last = found.iter_mut().find(|other| other.title == one.title);
        match last {
            Some(other) => other.entries.extend(one.entries),
            None => found.push(one),
        }
    }
    found
}

fn result(title: &str, name: &str, series: &Series) -> Imported {
    let mean = name.strip_suffix(super::MEAN);
    let values = series.values();
    Imported {
        key: Some("imported".to_owned()),
        title: title.to_owned(),
        unit: match series.unit {
            Unit::Seconds => "s".to_owned(),
            _ => String::new(),
        },
        lower_is_better: series.better == Better::Lower,
        entries: vec![Entry {
            name: mean.unwrap_or(name).to_owned(),
            origin: match (mean, values.len()) {
                (Some(_), _) => Origin::Mean,
                (None, 1) => Origin::Number,
                (None, _) => Origin::Runs,
            },
            values,
        }],
    }
}
