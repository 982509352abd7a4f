//! Results that others measured: of benchmarks that are known by their output, and tables. Pure.
//!
//! They are drawn as brisk's own are, and are always called what they are: measured by somebody
//! else, who may not have compared like with like. A line that is not understood is an error that has
//! it.

mod cell;
mod clock;
mod fio;
mod grid;
mod heading;
mod hyperfine;
mod join;
mod kcbench;
mod logs;
mod mail;
mod mmtests;
mod own;
mod phoronix;
mod quantity;
mod table;

use brisk_measure::Statistic;

pub use join::{Joined, joined};

/// Numbers of some targets that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// What else has to be the same for it to be the same result in another file; none if it is in
    /// no other one.
    pub(self) key: Option<String>,
    /// Name of the result, as the file has it.
    pub title: String,
    /// Unit, as the file has it: `s`, `Frames Per Second`.
    pub unit: String,
    /// Whether a lower number is the better one, as of times.
    pub lower_is_better: bool,
    /// The targets, in the order of the file.
    pub entries: Vec<Entry>,
}

/// What a target took.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the target.
    pub name: String,
    /// Its runs, or its only number.
    pub values: Vec<f64>,
    /// What these are.
    pub origin: Origin,
}

/// What numbers of others are. Only runs say how much a result varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Each is that of a run.
    Runs,
    /// One number, of which the file does not say whether it is that of a run or a mean.
    Number,
    /// A mean or median of runs that are not in the file.
    Mean,
    /// It is not in the file, but computed from a share of the first.
    Share,
}

/// Mark behind the name of a target in a report, if its number is a mean.
pub const MEAN: &str = " (mean)";

/// A file that has no results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is no XML.
    #[error("it is not well-formed XML: {0}")]
    Xml(String),
    /// It is XML of something else.
    #[error("its root is <{0}>, and not <PhoronixTestSuite>; composite.xml of a result is read")]
    Root(String),
    /// It is JSON of something else.
    #[error("it is no JSON of hyperfine, fio, the Phoronix Test Suite or brisk overhead: {0}")]
    Json(String),
    /// It is a report of brisk's about something else.
    #[error(
        "it is a brisk report of the kind \"{0}\", which has no times of targets; \
         reports of brisk overhead run are read"
    )]
    Kind(String),
    /// It is output of a program that is not read.
    #[error("this is the output of {0}")]
    Output(&'static str),
    /// A job of fio failed.
    #[error("job {0} of fio ended with an error: its numbers say nothing")]
    Job(String),
    /// It is not said whether more is better.
    #[error(
        "whether more of \"{scale}\" is better is not in this JSON ({title}): import composite.xml"
    )]
    Direction {
        /// The result.
        title: String,
        /// Its unit.
        scale: String,
    },
    /// It has no result.
    #[error("it has no results with a number: {0}")]
    Nothing(&'static str),
    /// Nothing to compare with.
    #[error("no result has two targets: {0}")]
    Alone(String),
    /// A line of a table cannot be read.
    #[error("line {line}: {reason}: \"{text}\"")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Why not.
        reason: String,
        /// The line, or its begin.
        text: String,
    },
    /// The base is not in the table.
    #[error("there is no target {name} in {title}, which has {names}")]
    Base {
        /// The name.
        name: String,
        /// The result.
        title: String,
        /// Those there are.
        names: String,
    },
}

/// Most characters of a line that an error has.
const SHOWN: usize = 120;

/// An error about a line, from 1.
fn refused(line: usize, text: &str, reason: impl Into<String>) -> ImportError {
    let shown = text.trim().chars().take(SHOWN);
    let shown = shown.map(|one| if one.is_control() { ' ' } else { one });
    ImportError::Line {
        line,
        reason: reason.into(),
        text: shown.collect(),
    }
}

/// The results in a file, by what it looks like. They may have one target each, which has no name if
/// it is that of the file.
///
/// # Errors
/// If there are none, or they cannot be read.
pub fn read(text: &str) -> Result<Vec<Imported>, ImportError> {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    let found = if start.starts_with('<') {
        phoronix::parse(start)?
    } else if start.starts_with('{') || start.starts_with("[{") {
        json(start)?
    } else {
        // Blanks at the begin may be those before the names of columns.
        lines(&mail::plain(text.trim_start_matches('\u{feff}')))?
    };
    match found.is_empty() {
        true => Err(ImportError::Nothing("it is empty of them")),
        false => Ok(found),
    }
}

fn json(text: &str) -> Result<Vec<Imported>, ImportError> {
    let file = serde_json::from_str(text).map_err(|error| ImportError::Json(error.to_string()))?;
    if own::is_json(&file) {
        own::of_json(text)
    } else if fio::is_json(&file) {
        fio::of_json(&file)
    } else if phoronix::is_json(&file) {
        phoronix::of_json(&file)
    } else if hyperfine::is_json(&file) {
        Ok(vec![hyperfine::of_json(&file)?])
    } else {
        Err(ImportError::Json("it has other fields".to_owned()))
    }
}

fn lines(text: &str) -> Result<Vec<Imported>, ImportError> {
    if mmtests::is_it(text) {
        mmtests::parse(text)
    } else if kcbench::is_it(text) {
        kcbench::parse(text)
    } else if hyperfine::is_table(text) {
        Ok(vec![hyperfine::of_table(text)?])
    } else if phoronix::is_csv(text) {
        phoronix::of_csv(text)
    } else if fio::is_terse(text) {
        fio::of_terse(text)
    } else if let Some(found) = logs::parse(text)? {
        Ok(found)
    } else if clock::is_it(text) {
        clock::parse(text)
    } else {
        table::parse(text)
    }
}

impl Entry {
    /// The target that is the file itself.
    fn of_file(values: Vec<f64>, origin: Origin) -> Self {
        Self {
            name: String::new(),
            values,
            origin,
        }
    }

    /// The median of its runs.
    #[must_use]
    pub fn value(&self) -> f64 {
        Statistic::Median.of(&self.values).unwrap_or(f64::NAN)
    }
}

impl Imported {
    /// The entry that others are compared with: the one of that name, else the first.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn base(&self, name: Option<&str>) -> Result<&Entry, ImportError> {
        let Some(name) = name else {
            return self
                .entries
                .first()
                .ok_or(ImportError::Nothing("a result without targets"));
        };
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| ImportError::Base {
            name: name.to_owned(),
            title: match &*self.title {
                "" => "the table".to_owned(),
                title => format!("\"{title}\""),
            },
            names: self
                .entries
                .iter()
                .map(|entry| &*entry.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Speed of an entry in percent of the base's.
    #[must_use]
    pub fn share(&self, entry: &Entry, base: &Entry) -> f64 {
        let ratio = match self.lower_is_better {
            true => base.value() / entry.value(),
            false => entry.value() / base.value(),
        };
        ratio * 100.0
    }
}

/// A finite number above 0, as files have it; with a comma or an apostrophe between thousands.
fn number(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut groups = whole.split([',', '\'']);
    let first = groups.next()?;
    let groups: Vec<_> = groups.collect();
    // Elsewhere, a comma is that of a decimal fraction, or of a list.
    let are_thousands = groups.iter().all(|group| group.len() == 3);
    if !are_thousands || !(groups.is_empty() || (1..=3).contains(&first.len())) {
        return None;
    }
    let plain = format!("{first}{}{fraction}", groups.concat());
    let starts = plain.starts_with(|one: char| one.is_ascii_digit() || one == '.');
    let value: f64 = plain.parse().ok().filter(|_| starts)?;
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod forms;
#[cfg(test)]
mod tests;
