//! What `time` prints: of bash, of POSIX (`-p`), of GNU and of zsh. Pure.

use super::cell::duration;
use super::{Entry, ImportError, Imported, Origin, number, refused};

/// Elapsed seconds of a line; none of another one, and an error text if it is one without a time.
fn elapsed(line: &str) -> Option<Result<f64, &'static str>> {
    let line = line.trim();
    let of = |text: &str| {
        let text = text.trim();
        let seconds = duration(text).or_else(|| number(text.trim_end_matches('s')));
        seconds.ok_or("it has no time above 0 s")
    };
    if let Some(time) = line
        .strip_prefix("real")
        .filter(|time| time.starts_with([' ', '\t']))
    {
        let is_time = time.trim().starts_with(|one: char| one.is_ascii_digit());
        return is_time.then(|| of(time));
    }
    if let Some(time) = line.strip_prefix("Elapsed (wall clock) time (h:mm:ss or m:ss):") {
        return Some(of(time));
    }
    // `1.00user 0.20system 0:01.25elapsed 96%CPU`, and `make  1.2s user 0.1s system 99% cpu 1.3 total`.
    let words: Vec<_> = line.split_whitespace().collect();
    let has = |end: &str| words.iter().any(|word| word.ends_with(end));
    if has("user") && has("system") && line.contains("elapsed") {
        let time = words.iter().find_map(|word| word.strip_suffix("elapsed"))?;
        return Some(of(time));
    }
    match &words[..] {
        [.., "user", _, "system", _, "cpu", time, "total"] => Some(of(time)),
        _ => None,
    }
}

pub(super) fn is_it(text: &str) -> bool {
    let begins = |name: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '\t']))
        })
    };
    let is_time = |line: &str| elapsed(line).is_some();
    let has_real = begins("real");
    text.lines().any(is_time) && (!has_real || (begins("user") && begins("sys")))
}

/// The targets are the lines before the times, if they end with a colon; otherwise the file is the
/// target, and has several runs if nothing but the same command stands between.
pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut between: Vec<(usize, &str)> = Vec::new();
    let mut command = None;
    for (place, line) in text.lines().enumerate() {
        let Some(seconds) = elapsed(line) else {
            let word = line.split_whitespace().next().unwrap_or_default();
            let is_counted = matches!(word, "user" | "sys") || is_detail(line);
            if !line.trim().is_empty() && !is_counted {
                between.push((place + 1, line));
            }
            continue;
        };
        let seconds = seconds.map_err(|reason| refused(place + 1, line, reason))?;
        let label = between
            .last()
            .and_then(|(_, line)| line.trim().strip_suffix(':'));
        let label = label.unwrap_or_default();
        let mut other = between
            .iter()
            .filter(|(_, line)| !line.trim().ends_with(':'));
        if let (Some((number, line)), false) =
            (other.next(), entries.is_empty() || !label.is_empty())
        {
            if command != Some(line.trim()) {
                return Err(refused(
                    *number,
                    line,
                    "it stands between two times: write the name of each target with a colon above its \
                     time, or a file for each target",
                ));
            }
        }
        command = command.or_else(|| between.first().map(|(_, line)| line.trim()));
        between.clear();
        match entries.iter_mut().find(|entry| entry.name == label) {
            Some(entry) => entry.values.push(seconds),
            None => entries.push(Entry {
                name: label.to_owned(),
                ..Entry::of_file(vec![seconds], Origin::Runs)
            }),
        }
    }
    let is_mixed = entries.len() > 1 && entries.iter().any(|entry| entry.name.is_empty());
    if is_mixed {
        return Err(ImportError::Nothing(
            "some of its times have the name of a target above them, and others have none",
        ));
    }
    Ok(vec![Imported {
        key: Some("time".to_owned()),
        title: String::new(),
        unit: "s".to_owned(),
        lower_is_better: true,
        entries,
    }])
}

/// Whether GNU time prints a line beside the elapsed time.
fn is_detail(line: &str) -> bool {
    let is_indented = line.starts_with('\t');
    is_indented
        || line.contains("pagefaults")
        || line.trim_start().starts_with("Command being timed")
}
