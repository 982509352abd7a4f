//! Comparisons of mmtests (`compare-kernels.sh`): a heading of one or two lines with the names of
//! the kernels above the columns, and a line for each metric, such as
//! `Amean elsp-2 489.41 ( 0.00%) 542.92 * -10.93%*`. A comparison without a heading of its own has that
//! of the one before, as in mails. Pure.

use super::grid::is_rule;
use super::{Entry, ImportError, Imported, Origin, number, refused};

/// Statistics that say how much a metric varies, and not what it is.
const SPREAD: [&str; 6] = [
    "Stddev",
    "CoeffVar",
    "Max",
    "Range",
    "1st-qrtle",
    "3rd-qrtle",
];
/// Means of the runs.
const MEANS: [&str; 3] = ["Amean", "Hmean", "Gmean"];

/// A line with a metric.
struct Metric<'a> {
    statistic: &'a str,
    name: &'a str,
    /// Each with its difference from the first in percent, of which more is better.
    columns: Vec<(f64, f64)>,
}

/// The metric of a line; none of other lines.
fn metric(line: &str) -> Option<Metric<'_>> {
    let (statistic, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let (name, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let (columns, rest) = columns(rest)?;
    let is_metric = columns.len() > 1 && rest.is_empty() && columns[0].1 == 0.0;
    is_metric.then_some(Metric {
        statistic,
        name,
        columns,
    })
}

/// Numbers, each with its difference behind it in brackets or stars, and what is not one.
fn columns(mut rest: &str) -> Option<(Vec<(f64, f64)>, &str)> {
    let mut columns = Vec::new();
    loop {
        rest = rest.trim_start();
        if !rest.starts_with(|one: char| one.is_ascii_digit()) {
            return Some((columns, rest));
        }
        let (value, behind) = rest.split_once(char::is_whitespace)?;
        // A metric may be 0, as system time is.
        let value: f64 = value.replace(',', "").parse().ok()?;
        let behind = behind.trim_start();
        let close = match behind.as_bytes().first()? {
            b'(' => ')',
            b'*' => '*',
            _ => return None,
        };
        let (difference, behind) = behind[1..].split_once(close)?;
        let difference = difference.trim_matches([' ', '*']).strip_suffix('%')?;
        columns.push((value, difference.parse().ok()?));
        rest = behind;
    }
}

pub(super) fn is_it(text: &str) -> bool {
    text.lines().any(|line| metric(line).is_some())
}

pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut reader = Reader::default();
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut above: Vec<&str> = Vec::new();
    let mut is_in_block = false;
    for (place, line) in text.lines().enumerate() {
        let Some(metric) = metric(line) else {
            let is_rest = columns(line).is_some_and(|(columns, _)| !columns.is_empty());
            let is_rest =
                is_rest || line.trim_start().starts_with(['(', '*']) && line.contains('%');
            if is_in_block && is_rest {
                return Err(refused(
                    place + 1,
                    line,
                    "it is the rest of a line that was wrapped: join the two",
                ));
            }
            if is_in_block && !line.trim().is_empty() {
                above.clear();
            }
            is_in_block = is_in_block && line.trim().is_empty();
            above.push(line);
            continue;
        };
        if !is_in_block {
            reader.read_heading(&above, metric.columns.len());
            above.clear();
        }
        is_in_block = true;
        let is_spread = SPREAD.iter().any(|name| metric.statistic.starts_with(name));
        // A metric that is 0 everywhere says nothing about a difference.
        let is_zero = metric.columns.iter().all(|(value, _)| *value == 0.0);
        if !is_spread && !is_zero {
            found.push(Found {
                line: place + 1,
                text: line,
                is_mean: MEANS.contains(&metric.statistic),
                result: reader.result(&metric, place + 1, line)?,
            });
        }
    }
    chosen(found)
}

/// A result and its line.
struct Found<'a> {
    line: usize,
    text: &'a str,
    is_mean: bool,
    result: Imported,
}

/// Elapsed time is what users wait for, and a mean says more than a minimum; others are read where
/// there is none.
fn chosen(mut found: Vec<Found<'_>>) -> Result<Vec<Imported>, ImportError> {
    if found.iter().any(|one| one.is_mean) {
        found.retain(|one| one.is_mean);
    }
    let is_elapsed = |one: &Found<'_>| {
        let mut words = one.result.title.split(' ');
        words.any(|word| word.starts_with("elsp"))
    };
    if found.iter().any(is_elapsed) {
        found.retain(is_elapsed);
    }
    for one in &found {
        let mut entries = one.result.entries.iter();
        if let Some(entry) = entries.find(|entry| entry.values.contains(&0.0)) {
            let reason = format!("{} has 0, which nothing can be compared with", entry.name);
            return Err(refused(one.line, one.text, reason));
        }
    }
    Ok(found.into_iter().map(|one| one.result).collect())
}

#[derive(Default)]
struct Reader {
    /// Of the columns.
    names: Vec<String>,
    /// Of the benchmark.
    title: String,
}

impl Reader {
    /// Reads the lines above a comparison: the last ones with names above the columns, and the title
    /// at the begin of a line, which belongs to no column.
    fn read_heading(&mut self, above: &[&str], columns: usize) {
        let mut lines = above
            .iter()
            .rev()
            .filter(|line| !line.trim().is_empty() && !is_rule(line))
            .peekable();
        let mut names: Vec<Vec<String>> = Vec::new();
        while let Some(line) = lines.peek().filter(|_| names.len() < 2) {
            let Some(words) = names_of(line, columns) else {
                break;
            };
            names.push(words);
            lines.next();
        }
        let title = lines.next().filter(|line| !line.starts_with([' ', '\t']));
        let title = title.map(|line| line.trim().trim_end_matches(':'));
        let is_title = |title: &&str| title.split(' ').count() <= 4 && !title.contains("  ");
        self.title = title.filter(is_title).unwrap_or_default().to_owned();
        let mut names = names.into_iter();
        match (names.next(), names.next()) {
            (Some(last), Some(before)) => {
                let pairs = before.into_iter().zip(last);
                self.names = pairs.map(|(a, b)| format!("{a} {b}")).collect();
            }
            (Some(last), None) => self.names = last,
            // They are those of the comparison before.
            _ => {}
        }
    }

    fn result(
        &self,
        metric: &Metric<'_>,
        line: usize,
        text: &str,
    ) -> Result<Imported, ImportError> {
        let count = metric.columns.len();
        let mut distinct = self.names.clone();
        distinct.sort();
        distinct.dedup();
        if distinct.len() != count {
            return Err(refused(
                line,
                text,
                format!("no line above has the names of its {count} columns"),
            ));
        }
        let entries = self.names.iter().zip(&metric.columns);
        let is_mean = MEANS.contains(&metric.statistic);
        let entries = entries.map(|(name, (value, _))| Entry {
            name: name.clone(),
            values: vec![*value],
            origin: if is_mean {
                Origin::Mean
            } else {
                Origin::Number
            },
        });
        let is_time = ["elsp", "user", "syst"]
            .iter()
            .any(|time| metric.name.starts_with(time));
        let mut words = vec![&*self.title, metric.name];
        let statistic = format!("({})", metric.statistic);
        if !is_mean {
            words.push(&statistic);
        }
        words.retain(|word| !word.is_empty());
        Ok(Imported {
            // Its title says nothing about the machine.
            key: None,
            title: words.join(" "),
            unit: if is_time { "s".into() } else { String::new() },
            lower_is_better: metric.lower_is_better(),
            entries: entries.collect(),
        })
    }
}

impl Metric<'_> {
    /// mmtests calls a difference positive if it is for the better.
    fn lower_is_better(&self) -> bool {
        let first = self.columns[0].0;
        let mut signs = self.columns.iter().filter_map(|(value, difference)| {
            let change = value - first;
            (change != 0.0 && *difference != 0.0).then(|| change * difference < 0.0)
        });
        signs.next().unwrap_or(self.statistic != "Hmean")
    }
}

/// So many names above the columns; none of a line that has others. What begins at the left edge is
/// no name of a column.
fn names_of(line: &str, columns: usize) -> Option<Vec<String>> {
    let is_at_edge = !line.starts_with([' ', '\t']);
    let inside = match is_at_edge {
        true => line.split_once("  ")?.1,
        false => line,
    };
    let words: Vec<_> = inside.split_whitespace().map(str::to_owned).collect();
    (words.len() == columns && number(&words[0]).is_none()).then_some(words)
}
