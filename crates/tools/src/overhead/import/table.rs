//! Tables that people write: a target in each line, and its seconds or its share of the first.
//!
//! Cells are apart by `|`, a tab, `;`, or by two blanks or more; in a file without these by commas.
//! Cells with `%` are shares; a target without seconds has them from its share of the first.

use super::{Entry, ImportError, Imported, number};

/// How far a share may be from that of the seconds beside it, in points of percent.
const ROUNDED: f64 = 0.6;

/// A line of the table.
struct Line {
    number: usize,
    name: String,
    seconds: Vec<f64>,
    share: Option<f64>,
}

pub(super) fn parse(text: &str) -> Result<Imported, ImportError> {
    let has = |mark: &str| text.contains(mark);
    // A comma behind a number is one in it, unless others stand behind names.
    let is_behind_a_name = |line: &str| {
        line.split_once(',').is_some_and(|(name, _)| {
            let name = name.trim_end_matches('"');
            let last = name.rsplit(' ').next().unwrap_or_default();
            last.parse::<f64>().is_err()
        })
    };
    let has_others = has("|") || has("\t") || has(";") || has("  ");
    let by_commas = !has_others && text.lines().any(is_behind_a_name);
    let mut lines = Vec::new();
    for (place, text) in text.lines().enumerate() {
        lines.extend(line(place + 1, text, by_commas)?);
    }
    let Some(first) = lines.first() else {
        return Err(ImportError::Nothing(
            "a table has a name and seconds in each line, for example host;12.5",
        ));
    };
    let base = median(&first.seconds).ok_or_else(|| ImportError::Line {
        line: first.number,
        reason: format!(
            "{} is the first, and has no seconds, of which others could have a share",
            first.name
        ),
    })?;
    let entries = lines.iter().map(|line| entry(line, base));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(Imported {
        key: Some("table".to_owned()),
        title: String::new(),
        unit: "s".to_owned(),
        lower_is_better: true,
        entries,
    })
}

fn median(values: &[f64]) -> Option<f64> {
    brisk_measure::Statistic::Median.of(values)
}

fn entry(line: &Line, base: f64) -> Result<Entry, ImportError> {
    let seconds = median(&line.seconds);
    if let (Some(seconds), Some(share)) = (seconds, line.share) {
        let computed = base / seconds * 100.0;
        if (computed - share).abs() > ROUNDED {
            return Err(ImportError::Line {
                line: line.number,
                reason: format!(
                    "{} has {share} %, and its seconds are {computed:.1} % of the first's speed",
                    line.name
                ),
            });
        }
    }
    let derived = line.share.map(|share| vec![base / share * 100.0]);
    Ok(Entry {
        name: line.name.clone(),
        is_derived: line.seconds.is_empty(),
        values: match seconds {
            Some(_) => line.seconds.clone(),
            None => derived.unwrap_or_default(),
        },
    })
}

/// A line with a name and a number; None of others, such as a heading.
///
/// # Errors
/// If something stands in place of a number.
fn line(number: usize, text: &str, by_commas: bool) -> Result<Option<Line>, ImportError> {
    let cells = cells(text, by_commas);
    let Some((name, cells)) = cells.split_first() else {
        return Ok(None);
    };
    let mut line = Line {
        number,
        name: name.clone(),
        seconds: Vec::new(),
        share: None,
    };
    for cell in cells {
        match value(cell) {
            Some((value, true)) => line.share = line.share.or(Some(value)),
            Some((value, false)) => line.seconds.push(value),
            None => {
                // Otherwise it is a remark.
                if let Some(reason) = mistake(cell) {
                    let reason = format!("{}: {reason}", line.name);
                    return Err(ImportError::Line {
                        line: number,
                        reason,
                    });
                }
            }
        }
    }
    let is_empty = line.seconds.is_empty() && line.share.is_none();
    Ok((!is_empty && !line.name.is_empty()).then_some(line))
}

/// The mistake in a cell that stands in place of a number; none of a remark.
fn mistake(cell: &str) -> Option<String> {
    let plain = UNITS.iter().rev().fold(cell.trim(), |cell, unit| {
        cell.strip_suffix(unit).map_or(cell, str::trim)
    });
    let begins = |one: char| one.is_ascii_digit() || matches!(one, '-' | '.');
    if ABSENT.contains(&&*plain.to_lowercase()) {
        Some(format!("{plain} is no number: leave the line out"))
    } else if plain.starts_with(begins) && plain.parse::<f64>().is_ok() {
        Some(format!("{plain} is not above 0"))
    } else if !plain.is_empty()
        && plain.starts_with(|one: char| one.is_ascii_digit())
        && plain.chars().all(|one| one.is_ascii_digit() || one == ',')
    {
        Some(format!(
            "{plain} is no number: write 12.5 with a point, and a comma before three digits only"
        ))
    } else {
        None
    }
}

/// Words for a number that there is not.
const ABSENT: [&str; 2] = ["n/a", "nan"];

fn cells(text: &str, by_commas: bool) -> Vec<String> {
    let text = text.trim().trim_matches('|');
    let owned = |cells: Vec<&str>| -> Vec<String> {
        let tidy = |cell: &str| cell.trim().trim_matches('"').to_owned();
        cells.into_iter().map(tidy).collect()
    };
    for mark in ["|", "\t"] {
        if text.contains(mark) {
            return owned(text.split(mark).collect());
        }
    }
    if text.contains(';') {
        return by_delimiter(text, b';');
    }
    if by_commas {
        return by_delimiter(text, b',');
    }
    if text.contains("  ") {
        let cells = text.split("  ").filter(|cell| !cell.trim().is_empty());
        return owned(cells.collect());
    }
    by_words(text)
}

/// The cells of a line of RFC 4180, in which quotes keep a delimiter.
fn by_delimiter(text: &str, delimiter: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let record = reader.records().next().and_then(Result::ok);
    let tidy = |cell: &str| cell.trim_matches('"').to_owned();
    record.map_or_else(Vec::new, |record| record.iter().map(tidy).collect())
}

/// The cells of a line whose words are one blank apart. A name may end with a number, as `Player 5`
/// does: numbers behind it have their units, or there is one number.
fn by_words(text: &str) -> Vec<String> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let mut cells = Vec::new();
    while words.len() > 1 {
        let last = words[words.len() - 1];
        let before = words[words.len() - 2];
        let is_number = || number(before).is_some() || mistake(before).is_some();
        if UNITS.contains(&last) && words.len() > 2 && is_number() {
            cells.push(format!("{before} {last}"));
            words.truncate(words.len() - 2);
        } else if cells.is_empty() && value(last).is_none() && mistake(last).is_some() {
            cells.push(last.to_owned());
            words.pop();
            break;
        } else if value(last).is_some() && (number(last).is_none() || cells.is_empty()) {
            cells.push(last.to_owned());
            words.pop();
            if number(last).is_some() {
                break;
            }
        } else {
            break;
        }
    }
    cells.push(words.join(" "));
    cells.reverse();
    cells
}

/// Units that may stand behind a number.
const UNITS: [&str; 6] = ["s", "sec", "secs", "second", "seconds", "%"];

/// A number, and whether it is a share.
fn value(cell: &str) -> Option<(f64, bool)> {
    let cell = cell.trim();
    if let Some(share) = cell.strip_suffix('%') {
        return Some((number(share.trim())?, true));
    }
    let unit = UNITS
        .iter()
        .rev()
        .filter_map(|unit| cell.strip_suffix(unit));
    let plain = unit.map(str::trim).find(|rest| number(rest).is_some());
    Some((number(plain.unwrap_or(cell))?, false))
}
