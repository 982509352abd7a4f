//! Logs of kcbench: `Run 1 (-j 4): 250.03 seconds / 14.40 kernels/hour`. Pure.

use super::{Entry, ImportError, Imported, Origin, number, refused};

/// Jobs and seconds of a run; none of another line.
fn run(line: &str) -> Option<(&str, Option<f64>)> {
    let (place, rest) = line.trim_start().strip_prefix("Run ")?.split_once(" (")?;
    let (jobs, rest) = rest.split_once("):")?;
    if place.parse::<u32>().is_err() || !jobs.starts_with("-j ") {
        return None;
    }
    let mut words = rest.split_whitespace();
    let seconds = words.next().and_then(number);
    let is_time = matches!(words.next(), Some("seconds" | "sec" | "s"));
    Some((jobs, seconds.filter(|_| is_time)))
}

pub(super) fn is_it(text: &str) -> bool {
    text.lines().any(|line| run(line).is_some())
}

/// A result for each number of jobs. The file is the target.
pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut compiled = String::new();
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("Processor:") && !found.is_empty() {
            return Err(refused(
                place + 1,
                line,
                "another log begins here: put each into a file of its own",
            ));
        }
        // Runs of other sources or configurations are not the same work.
        for name in ["Linux compiled:", "Config; Environment:", "Build command:"] {
            if let Some(value) = line.trim_start().strip_prefix(name) {
                let value = value.split('[').next().unwrap_or_default().trim();
                compiled = format!("{compiled}{value}\n");
            }
        }
        let Some((jobs, seconds)) = run(line) else {
            continue;
        };
        let Some(seconds) = seconds else {
            return Err(refused(place + 1, line, "it is a run without seconds"));
        };
        match found.iter_mut().find(|(known, _)| known == jobs) {
            Some((_, all)) => all.push(seconds),
            None => found.push((jobs.to_owned(), vec![seconds])),
        }
    }
    let results = found.into_iter().map(|(jobs, values)| Imported {
        key: Some(format!("kcbench\n{compiled}")),
        title: format!("kcbench {jobs}"),
        unit: "s".to_owned(),
        lower_is_better: true,
        entries: vec![Entry::of_file(values, Origin::Runs)],
    });
    Ok(results.collect())
}
