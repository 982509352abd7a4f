//! Results that others measured: of the Phoronix Test Suite, of mmtests, of hyperfine, and tables.
//! Pure.
//!
//! They are drawn as brisk's own are, and are always called what they are: measured by somebody
//! else, who may not have compared like with like.

mod hyperfine;
mod join;
mod mmtests;
mod phoronix;
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
    /// Whether the number is not in the file, but was computed from a share.
    pub is_derived: bool,
}

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
    #[error("it is no JSON of hyperfine --export-json: {0}")]
    Json(String),
    /// It is a table of hyperfine's, which has no runs.
    #[error(
        "a table of hyperfine has means and no runs; \
         import the JSON that hyperfine --export-json FILE writes"
    )]
    Means,
    /// It has no result.
    #[error("it has no results with a number: {0}")]
    Nothing(&'static str),
    /// Nothing to compare with.
    #[error("no result has two targets: {0}")]
    Alone(String),
    /// A line of a table cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Why not.
        reason: String,
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

/// The results in a file, by what it looks like. They may have one target each.
///
/// # Errors
/// If there are none, or they cannot be read.
pub fn read(text: &str) -> Result<Vec<Imported>, ImportError> {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    let found = if start.starts_with('<') {
        phoronix::parse(start)?
    } else if start.starts_with('{') {
        vec![hyperfine::parse(start)?]
    } else if hyperfine::is_table(start) {
        return Err(ImportError::Means);
    } else if mmtests::is_it(text) {
        mmtests::parse(text)?
    } else {
        vec![table::parse(text)?]
    };
    match found.is_empty() {
        true => Err(ImportError::Nothing("it is empty of them")),
        false => Ok(found),
    }
}

impl Entry {
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
mod tests;
