//! Comparisons of mmtests (`compare-kernels.sh`): a heading of one or two lines with the names of
//! the kernels, and a line for each metric, such as
//! `Amean elsp-2 489.41 ( 0.00%) 542.92 * -10.93%*`.

use super::{Entry, ImportError, Imported, number};

/// Statistics that are read: means of the runs, arithmetic or harmonic.
const MEANS: [&str; 2] = ["Amean", "Hmean"];

/// The metric of a line and its numbers; None of other lines.
fn metric(line: &str) -> Option<(&str, Vec<f64>)> {
    let line = line.trim_start_matches(['>', ' ', '\t']);
    let (mean, rest) = line.split_once(char::is_whitespace)?;
    let (name, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    // Brackets and stars enclose the difference from the first.
    let mut depth = false;
    let plain: String = rest
        .chars()
        .map(|one| {
            let edge = matches!(one, '(' | ')' | '*');
            if edge {
                depth = !depth;
            }
            if depth || edge { ' ' } else { one }
        })
        .collect();
    let numbers = plain.split_whitespace().map(number);
    let numbers = numbers.collect::<Option<Vec<_>>>()?;
    (MEANS.contains(&mean) && numbers.len() > 1).then_some((name, numbers))
}

pub(super) fn is_it(text: &str) -> bool {
    text.lines().any(|line| metric(line).is_some())
}

pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut names: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let Some((name, numbers)) = metric(line) else {
            // Another comparison, with a heading of its own.
            names.clear();
            continue;
        };
        if names.len() != numbers.len() {
            names = heading(&lines[..place], numbers.len());
        }
        let entries = names.iter().zip(numbers).map(|(name, value)| Entry {
            name: name.clone(),
            values: vec![value],
            is_derived: false,
        });
        let is_time = ["elsp", "user", "syst"]
            .iter()
            .any(|time| name.starts_with(time));
        found.push(Imported {
            // Its title says nothing about the benchmark.
            key: None,
            title: name.to_owned(),
            unit: if is_time { "s".into() } else { String::new() },
            lower_is_better: line.contains("Amean"),
            entries: entries.collect(),
        });
    }
    // Elapsed time is what users wait for; the others are read where there is none.
    if found.iter().any(|one| one.title.starts_with("elsp")) {
        found.retain(|one| one.title.starts_with("elsp"));
    }
    Ok(found)
}

/// Names of so many columns, from the lines above the first metric, between which there may be an empty
/// one: two lines are one name each where both have as many words.
fn heading(above: &[&str], columns: usize) -> Vec<String> {
    let words = |line: &&str| -> Vec<String> {
        let line = line.trim_start_matches(['>', ' ', '\t']);
        line.split_whitespace().map(str::to_owned).collect()
    };
    let lines = above.iter().rev().map(words);
    let mut lines = lines
        .enumerate()
        .filter(|(place, words)| *place > 0 || !words.is_empty())
        .map(|(_, words)| words);
    let last = lines.next().filter(|words| words.len() == columns);
    let before = lines.next().filter(|words| words.len() == columns);
    match (before, last) {
        (Some(before), Some(last)) => {
            let pairs = before.into_iter().zip(last);
            pairs.map(|(a, b)| format!("{a} {b}")).collect()
        }
        (None, Some(last)) => last,
        _ => (1..=columns)
            .map(|place| format!("column {place}"))
            .collect(),
    }
}
