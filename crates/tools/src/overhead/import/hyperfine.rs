//! Results of hyperfine: the JSON of `--export-json`, which has every run.

use serde::Deserialize;

use super::{Entry, ImportError, Imported};

/// How the tables of hyperfine begin, without blanks and in lower case. Their columns are a mean,
/// its deviation, the shortest and the longest run, and are no runs.
const TABLES: [&str; 2] = ["command,mean,", "|command|mean["];

#[derive(Deserialize)]
struct File {
    results: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    command: String,
    /// Seconds; hyperfine leaves them out on request.
    #[serde(default)]
    times: Vec<f64>,
    median: f64,
}

/// Result of hyperfine, as a key.
const KEY: &str = "hyperfine";

/// A result of each command in a file, whose only target has the file's name; other results as they
/// are.
pub(super) fn by_command(result: Imported, file: &str) -> Vec<Imported> {
    if result.key.as_deref() != Some(KEY) {
        return vec![result];
    }
    let of_command = |entry: Entry| Imported {
        title: entry.name,
        entries: vec![Entry {
            name: file.to_owned(),
            values: entry.values,
            is_derived: false,
        }],
        key: result.key.clone(),
        unit: result.unit.clone(),
        lower_is_better: result.lower_is_better,
    };
    result.entries.into_iter().map(of_command).collect()
}

/// Whether a text is a table of hyperfine's.
pub(super) fn is_table(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let first: String = first.chars().filter(|one| *one != ' ').collect();
    let first = first.to_lowercase();
    TABLES.iter().any(|begin| first.starts_with(begin))
}

/// Reads the JSON.
pub(super) fn parse(text: &str) -> Result<Imported, ImportError> {
    let file: File =
        serde_json::from_str(text).map_err(|error| ImportError::Json(error.to_string()))?;
    let entries = file.results.into_iter().map(|run| Entry {
        name: run.command,
        values: match run.times.is_empty() {
            true => vec![run.median],
            false => run.times,
        },
        is_derived: false,
    });
    let entries: Vec<_> = entries.collect();
    let is_time = |value: &f64| value.is_finite() && *value > 0.0;
    if !entries.iter().flat_map(|entry| &entry.values).all(is_time) {
        return Err(ImportError::Nothing("a time is not above 0 s"));
    }
    if entries.is_empty() {
        return Err(ImportError::Nothing("it has no command"));
    }
    Ok(Imported {
        key: Some(KEY.to_owned()),
        title: String::new(),
        unit: "s".to_owned(),
        lower_is_better: true,
        entries,
    })
}
