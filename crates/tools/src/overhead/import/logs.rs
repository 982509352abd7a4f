//! Logs of benchmarks with one number for each test: sysbench, `perf bench`, `perf stat`, UnixBench.
//! The file is the target. Those that cannot be read are refused by name. Pure.

use super::quantity::Quantity;
use super::{Entry, ImportError, Imported, Origin, number};

/// Marks of outputs that would pass for tables, and what to do with them.
const REFUSED: [(&str, &str); 9] = [
    ("Geekbench ", "Geekbench: write a table of its scores"),
    (
        "kernels so far (avrg:",
        "kcbenchrate: write a table of its rates",
    ),
    (
        "Time (mean ± σ):",
        "hyperfine on a terminal: import what --export-json writes",
    ),
    (
        ": (groupid=",
        "fio in its normal output: import what --output-format=json writes",
    ),
    (
        "er Is Better\n",
        "the Phoronix Test Suite on a terminal: import its composite.xml",
    ),
    (
        "|=== Command",
        "hyperfine in AsciiDoc: import what --export-json writes",
    ),
    (
        "where time went ",
        "brisk overhead on a terminal: import its report, the JSON file",
    ),
    (
        "% of host ",
        "brisk overhead on a terminal: import its report, the JSON file",
    ),
    (
        "median  95 % interval",
        "brisk on a terminal: import its report, the JSON file",
    ),
];

/// Results of a log; none of another text.
///
/// # Errors
/// If it is output that is not read.
pub(super) fn parse(text: &str) -> Result<Option<Vec<Imported>>, ImportError> {
    for (mark, reason) in REFUSED {
        if text.contains(mark) {
            return Err(ImportError::Output(reason));
        }
    }
    let has = |mark: &str| text.contains(mark);
    let found = if has("sysbench ") || (has("CPU speed:") && has("events per second:")) {
        sysbench(text)
    } else if has("# Running '") && has(" benchmark:") {
        perf_bench(text)
    } else if has("seconds time elapsed") {
        perf_stat(text)
    } else if has("samples)") && (has(" lps ") || has("BYTE UNIX Benchmarks")) {
        unixbench(text)
    } else {
        return Ok(None);
    };
    match found.is_empty() {
        true => Err(ImportError::Nothing(
            "it is the output of a benchmark without a time or a rate that is known",
        )),
        false => Ok(Some(found)),
    }
}

fn result(tool: &str, title: &str, number: f64, unit: &str) -> Option<Imported> {
    let quantity = Quantity::of(unit)?;
    Some(Imported {
        key: Some(tool.to_owned()),
        title: format!("{tool} {title}").trim().to_owned(),
        entries: vec![Entry::of_file(
            vec![number * quantity.factor],
            Origin::Number,
        )],
        unit: quantity.unit,
        lower_is_better: quantity.lower_is_better,
    })
}

/// A number in brackets, with its unit: `(12345.67 MiB/sec)`.
fn in_brackets(line: &str) -> Option<(f64, &str)> {
    let (_, inside) = line.split_once('(')?;
    let (number_of, unit) = inside.split_once(')')?.0.split_once(' ')?;
    Some((number(number_of)?, unit.trim()))
}

fn sysbench(text: &str) -> Vec<Imported> {
    let of = |line: &str| {
        let line = line.trim();
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        match name {
            "events per second" => result("sysbench", "events", number(value)?, "events/s"),
            "transactions" | "queries" => {
                let (rate, _) = in_brackets(value)?;
                result("sysbench", name, rate, &format!("{name}/s"))
            }
            "reads/s" | "writes/s" => result("sysbench", name, number(value)?, name),
            _ if line.contains("transferred (") => {
                let (rate, unit) = in_brackets(line)?;
                result("sysbench", "memory", rate, unit)
            }
            _ => None,
        }
    };
    text.lines().filter_map(of).collect()
}

fn perf_bench(text: &str) -> Vec<Imported> {
    let mut title = "";
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once("Running '") {
            title = name.split('\'').next().unwrap_or_default();
        } else if let Some(time) = line.strip_prefix("Total time:") {
            let seconds = time.split_whitespace().next().and_then(number);
            found.extend(seconds.and_then(|time| result("perf bench", title, time, "s")));
        }
    }
    found
}

/// A time with `+-` is the mean of `--repeat`.
fn perf_stat(text: &str) -> Vec<Imported> {
    let of = |line: &str| {
        let (time, _) = line.split_once("seconds time elapsed")?;
        let mut words = time.split_whitespace();
        let mut one = result("perf stat", "", words.next().and_then(number)?, "s")?;
        if words.next().is_some() || line.contains("+-") {
            one.entries[0].origin = Origin::Mean;
        }
        Some(one)
    };
    text.lines().filter_map(of).collect()
}

/// `Execl Throughput   4548.0 lps   (30.0 s, 2 samples)`, for each number of copies.
fn unixbench(text: &str) -> Vec<Imported> {
    let mut copies = String::new();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("; running ") {
            copies = rest.trim_end_matches(" of tests").to_owned();
        }
        let Some((before, _)) = line.split_once('(').filter(|_| line.ends_with("samples)")) else {
            continue;
        };
        // The name may have brackets: `Shell Scripts (8 concurrent)`.
        let before = line
            .rsplit_once('(')
            .map_or(before, |(before, _)| before)
            .trim();
        let Some((before, unit)) = before.rsplit_once(' ') else {
            continue;
        };
        let Some((name, value)) = before.trim().rsplit_once(' ') else {
            continue;
        };
        let title = format!("{}, {copies}", name.trim());
        let title = title.trim_end_matches([',', ' ']);
        let one = number(value).and_then(|value| result("UnixBench", title, value, unit));
        found.extend(one.map(|mut one| {
            one.entries[0].origin = Origin::Mean;
            one
        }));
    }
    found
}
