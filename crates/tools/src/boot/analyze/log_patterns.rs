//! Log patterns: lines of firmware and kernel that begin or end phases. Data, not code: the files
//! in `data/markers`, or a user's own.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

/// The files that are part of brisk.
const OWN: [(&str, &str); 4] = [
    (
        "kernel.toml",
        include_str!("../../../data/markers/kernel.toml"),
    ),
    (
        "console.toml",
        include_str!("../../../data/markers/console.toml"),
    ),
    (
        "seabios.toml",
        include_str!("../../../data/markers/seabios.toml"),
    ),
    (
        "seabios-console.toml",
        include_str!("../../../data/markers/seabios-console.toml"),
    ),
];

/// Memory that one pattern may take, bytes.
const LARGEST_PATTERN: usize = 1 << 20;

/// Error of a file of log patterns.
#[derive(Debug, thiserror::Error)]
pub enum LogPatternsError {
    /// It is no TOML, or has other keys.
    #[error("{file} is not a file of boot markers")]
    Syntax {
        /// The file.
        file: String,
        /// Position and reason.
        source: Box<toml::de::Error>,
    },
    /// A pattern is no regular expression.
    #[error("{file}, entry {entry}: the pattern '{pattern}' is not a regular expression")]
    Pattern {
        /// The file.
        file: String,
        /// Number and name of the entry.
        entry: String,
        /// The pattern.
        pattern: String,
        /// The defect.
        source: Box<regex::Error>,
    },
    /// A version cannot be parsed.
    #[error("{file}, entry {entry}: '{version}' is not a kernel version such as 6.1 or 6.12.3")]
    Version {
        /// The file.
        file: String,
        /// Number and name of the entry.
        entry: String,
        /// The text.
        version: String,
    },
    /// An entry neither begins nor ends a phase.
    #[error("{file}, entry {entry}: neither `begins` nor `ends` names a phase")]
    Nameless {
        /// The file.
        file: String,
        /// Number and name of the entry.
        entry: String,
    },
}

/// Source of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Source {
    /// The kernel's log.
    Kernel,
    /// The console before the kernel has a log.
    Console,
    /// The debug console of SeaBIOS.
    Seabios,
    /// The debug console of qboot.
    Qboot,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "the kernel's log",
            Self::Console => "the console",
            Self::Seabios => "SeaBIOS's messages",
            Self::Qboot => "qboot's messages",
        }
    }
}

/// A kernel's version, as far as ranges need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version([u32; 3]);

impl Version {
    /// Parses a text that begins with a release, such as `6.1.0-56-cloud-amd64 (…)`.
    pub(super) fn of_release(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (version, _) = Self::parse(&text[..end.unwrap_or(text.len())])?;
        Some(version)
    }

    /// Parses a version; also the number of its parts.
    fn parse(text: &str) -> Option<(Self, usize)> {
        let mut parts = [0; 3];
        let mut given = 0;
        for part in text.split('.') {
            *parts.get_mut(given)? = part.parse().ok()?;
            given += 1;
        }
        Some((Self(parts), given))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: Source,
    kind: String,
    #[serde(default)]
    marker: Vec<MarkerEntry>,
    #[serde(default)]
    span: Vec<SpanEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkerEntry {
    pattern: String,
    begins: Option<String>,
    ends: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    occurrence: Occurrence,
    after: Option<String>,
    before: Option<String>,
    #[serde(default)]
    group: bool,
    #[serde(default)]
    optional: bool,
    min: Option<String>,
    max: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpanEntry {
    name: String,
    from: String,
    to: String,
    kind: Option<String>,
    min: Option<String>,
    max: Option<String>,
}

/// Choice between several lines that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Occurrence {
    #[default]
    First,
    Last,
}

/// Versions, both ends inclusive.
#[derive(Debug, Clone, Default)]
struct Range {
    min: Option<Version>,
    /// Highest version, with the number of parts that are compared: all of 6.11.x are 6.11.
    max: Option<(Version, usize)>,
}

impl Range {
    fn holds(&self, version: Option<Version>) -> bool {
        let Some(version) = version else { return true };
        let above = self.min.is_none_or(|min| version >= min);
        let below = self.max.is_none_or(|(max, given)| {
            let given = given.min(max.0.len());
            version.0[..given] <= max.0[..given]
        });
        above && below
    }
}

#[derive(Debug, Clone)]
struct ReadyCondition {
    source: Source,
    pattern: Regex,
    begins: Option<String>,
    ends: Option<String>,
    kind: String,
    occurrence: Occurrence,
    /// Only lines after the first that matches this count.
    after: Option<Regex>,
    /// Only lines before the first that matches this count.
    before: Option<Regex>,
    group: bool,
    optional: bool,
    range: Range,
}

impl ReadyCondition {
    fn line<'a>(&self, lines: &[(u64, &'a str)]) -> Option<(u64, &'a str)> {
        let mut lines = lines;
        let place = |lines: &[(u64, &str)], pattern: &Regex| {
            lines.iter().position(|line| pattern.is_match(line.1))
        };
        if let Some(after) = &self.after {
            lines = &lines[place(lines, after)? + 1..];
        }
        if let Some(before) = &self.before {
            lines = &lines[..place(lines, before)?];
        }
        let mut matching = lines.iter().filter(|line| self.pattern.is_match(line.1));
        match self.occurrence {
            Occurrence::First => matching.next(),
            Occurrence::Last => matching.next_back(),
        }
        .copied()
    }
}

#[derive(Debug, Clone)]
struct SpanMarker {
    source: Source,
    name: String,
    kind: String,
    from: Regex,
    to: Regex,
    range: Range,
}

/// A set of log patterns.
#[derive(Debug, Clone, Default)]
pub struct LogPatterns {
    markers: Vec<ReadyCondition>,
    spans: Vec<SpanMarker>,
}

/// A line between two phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) at: u64,
    pub(super) begins: Option<String>,
    pub(super) ends: Option<String>,
    pub(super) kind: String,
    pub(super) group: bool,
}

/// Matches in the lines of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// In order of time.
    pub(super) points: Vec<Point>,
    /// Name, kind, start and end.
    pub(super) spans: Vec<(String, String, u64, u64)>,
}

impl LogPatterns {
    /// The patterns that are part of brisk.
    ///
    /// # Errors
    /// Never, which a test shows; the files are read like a user's.
    pub fn own() -> Result<Self, LogPatternsError> {
        let mut markers = Self::default();
        for (file, text) in OWN {
            markers.add(file, text)?;
        }
        Ok(markers)
    }

    /// Adds the patterns of a file; `file` is its name in errors.
    ///
    /// # Errors
    /// If the file is malformed. Nothing is added then.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), LogPatternsError> {
        let parsed: File = toml::from_str(text).map_err(|source| LogPatternsError::Syntax {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        let mut markers = Vec::new();
        for (number, entry) in parsed.marker.into_iter().enumerate() {
            let name = entry.begins.as_ref().or(entry.ends.as_ref());
            let place = Place::new(file, number, name.map_or("marker", String::as_str));
            if name.is_none() {
                return Err(LogPatternsError::Nameless {
                    file: place.file,
                    entry: place.entry,
                });
            }
            markers.push(ReadyCondition {
                source: parsed.source,
                pattern: place.pattern(&entry.pattern)?,
                after: entry
                    .after
                    .as_deref()
                    .map(|text| place.pattern(text))
                    .transpose()?,
                before: entry
                    .before
                    .as_deref()
                    .map(|text| place.pattern(text))
                    .transpose()?,
                range: place.range(entry.min.as_deref(), entry.max.as_deref())?,
                kind: entry.kind.unwrap_or_else(|| parsed.kind.clone()),
                begins: entry.begins,
                ends: entry.ends,
                occurrence: entry.occurrence,
                group: entry.group,
                optional: entry.optional,
            });
        }
        let mut spans = Vec::new();
        for (number, entry) in parsed.span.into_iter().enumerate() {
            let place = Place::new(file, number, &entry.name);
            spans.push(SpanMarker {
                source: parsed.source,
                from: place.pattern(&entry.from)?,
                to: place.pattern(&entry.to)?,
                range: place.range(entry.min.as_deref(), entry.max.as_deref())?,
                kind: entry.kind.unwrap_or_else(|| parsed.kind.clone()),
                name: entry.name,
            });
        }
        self.markers.extend(markers);
        self.spans.extend(spans);
        Ok(())
    }

    /// Finds matches in lines, which are in order of time.
    pub(super) fn find<'a>(
        &self,
        source: Source,
        version: Option<Version>,
        lines: impl Iterator<Item = (u64, &'a str)>,
        notes: &mut Vec<String>,
    ) -> Found {
        let lines: Vec<(u64, &str)> = lines.collect();
        let mut found = Found::default();
        let mut missing = Vec::new();
        let of_source =
            |marker: &&ReadyCondition| marker.source == source && marker.range.holds(version);
        for marker in self.markers.iter().filter(of_source) {
            match marker.line(&lines) {
                Some((at, _)) => found.points.push(Point {
                    at,
                    begins: marker.begins.clone(),
                    ends: marker.ends.clone(),
                    kind: marker.kind.clone(),
                    group: marker.group,
                }),
                None if marker.optional => {}
                None => missing.extend(marker.begins.as_deref().or(marker.ends.as_deref())),
            }
        }
        found.points.sort_by_key(|point| point.at);
        for span in &self.spans {
            if span.source != source || !span.range.holds(version) {
                continue;
            }
            let from = lines.iter().position(|line| span.from.is_match(line.1));
            let to = from.and_then(|from| {
                let rest = &lines[from..];
                rest.iter().find(|line| span.to.is_match(line.1))
            });
            if let (Some(from), Some(&(end, _))) = (from, to) {
                let start = lines[from].0;
                found
                    .spans
                    .push((span.name.clone(), span.kind.clone(), start, end));
            }
        }
        if !missing.is_empty() && !lines.is_empty() {
            notes.push(format!(
                "Not marked in {}, so that the phases around are larger: {}.",
                source.name(),
                missing.join(", "),
            ));
        }
        found
    }
}

/// Position of an entry, for errors.
struct Place {
    file: String,
    entry: String,
}

impl Place {
    fn new(file: &str, number: usize, name: &str) -> Self {
        Self {
            file: file.to_owned(),
            entry: format!("{} ({name})", number + 1),
        }
    }

    fn pattern(&self, pattern: &str) -> Result<Regex, LogPatternsError> {
        RegexBuilder::new(pattern)
            .size_limit(LARGEST_PATTERN)
            .build()
            .map_err(|source| LogPatternsError::Pattern {
                file: self.file.clone(),
                entry: self.entry.clone(),
                pattern: pattern.to_owned(),
                source: Box::new(source),
            })
    }

    fn range(&self, min: Option<&str>, max: Option<&str>) -> Result<Range, LogPatternsError> {
        let parse = |text: Option<&str>| {
            text.map(|text| {
                Version::parse(text).ok_or_else(|| LogPatternsError::Version {
                    file: self.file.clone(),
                    entry: self.entry.clone(),
                    version: text.to_owned(),
                })
            })
            .transpose()
        };
        Ok(Range {
            min: parse(min)?.map(|(version, _)| version),
            max: parse(max)?,
        })
    }
}
