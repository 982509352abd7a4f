//! Results of hyperfine: the JSON of `--export-json`, which has every run, and the tables of
//! `--export-csv` and `--export-markdown`, which have means. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::cell::{Cell, plain};
use super::quantity::Quantity;
use super::{Entry, ImportError, Imported, Origin, number, refused};

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
        title: entry.name.clone(),
        entries: vec![Entry {
            name: file.to_owned(),
            ..entry
        }],
        key: result.key.clone(),
        unit: result.unit.clone(),
        lower_is_better: result.lower_is_better,
    };
    result.entries.into_iter().map(of_command).collect()
}

/// A heading of one of the tables: which column has the mean, and in what.
struct Heading {
    is_csv: bool,
    mean: usize,
    unit: Quantity,
}

/// The heading that a line is.
fn heading(line: &str) -> Option<Heading> {
    let line = line.trim();
    if line.starts_with("command,mean,stddev") {
        return Some(Heading {
            is_csv: true,
            mean: 1,
            unit: Quantity::seconds(),
        });
    }
    let cells: Vec<_> = cells(line)?.collect();
    let mean = cells.iter().position(|cell| cell.starts_with("Mean ["))?;
    let (_, unit) = Quantity::behind(cells[mean])?;
    (cells.first() == Some(&"Command")).then_some(Heading {
        is_csv: false,
        mean,
        unit,
    })
}

/// Cells of a line of Markdown; none of another line.
fn cells(line: &str) -> Option<impl Iterator<Item = &str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim))
}

/// Whether a text has a table of hyperfine's.
pub(super) fn is_table(text: &str) -> bool {
    text.lines().any(|line| heading(line).is_some())
}

/// Reads the tables.
pub(super) fn of_table(text: &str) -> Result<Imported, ImportError> {
    let mut now: Option<Heading> = None;
    let mut entries = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if let Some(found) = heading(line) {
            if now.is_some() {
                return Err(refused(
                    place + 1,
                    line,
                    "a second table begins here: put each into a file of its own",
                ));
            }
            now = Some(found);
            continue;
        }
        let Some(heading) = &now else {
            continue;
        };
        let (name, mean) = if heading.is_csv {
            if line.trim().is_empty() {
                continue;
            }
            let mut reader = csv::ReaderBuilder::new()
                .has_headers(false)
                .from_reader(line.as_bytes());
            let record = reader.records().next().and_then(Result::ok);
            let record = record.unwrap_or_default();
            let cell = |place: usize| record.get(place).unwrap_or_default().to_owned();
            (cell(0), number(&cell(heading.mean)))
        } else {
            let Some(cells) = cells(line) else {
                continue;
            };
            let escaped = line.contains("\\|");
            let cells: Vec<_> = cells.collect();
            if cells[0].starts_with([':', '-']) {
                continue;
            }
            let mean = cells.get(heading.mean).filter(|_| !escaped);
            let mean = mean.and_then(|cell| match Cell::read(cell) {
                Cell::Value(value) => Some(value.number * heading.unit.factor),
                _ => None,
            });
            (plain(cells[0]).to_owned(), mean)
        };
        let Some(mean) = mean else {
            return Err(refused(place + 1, line, "its mean is no number above 0"));
        };
        entries.push(Entry {
            name,
            values: vec![mean],
            origin: Origin::Mean,
        });
    }
    result(entries)
}

/// Whether JSON has commands.
pub(super) fn is_json(file: &Value) -> bool {
    file.get("results").is_some_and(Value::is_array)
}

/// Reads the JSON.
pub(super) fn of_json(file: &Value) -> Result<Imported, ImportError> {
    let file = File::deserialize(file).map_err(|error| ImportError::Json(error.to_string()))?;
    let entries = file.results.into_iter().map(|run| Entry {
        name: run.command,
        origin: match run.times.is_empty() {
            true => Origin::Mean,
            false => Origin::Runs,
        },
        values: match run.times.is_empty() {
            true => vec![run.median],
            false => run.times,
        },
    });
    let entries: Vec<_> = entries.collect();
    let is_time = |value: &f64| value.is_finite() && *value > 0.0;
    if !entries.iter().flat_map(|entry| &entry.values).all(is_time) {
        return Err(ImportError::Nothing("a time is not above 0 s"));
    }
    result(entries)
}

fn result(entries: Vec<Entry>) -> Result<Imported, ImportError> {
    match entries.is_empty() {
        true => Err(ImportError::Nothing("it has no command")),
        false => Ok(Imported {
            key: Some(KEY.to_owned()),
            title: String::new(),
            unit: "s".to_owned(),
            lower_is_better: true,
            entries,
        }),
    }
}
