//! Report of one measurement.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Comparison, Crossing, Environment, History, Series, Summary, Timeline, Unit, Warning};

/// The schema of the reports this version writes. The number is raised when a reader of the old
/// one would misread the new; additions leave it.
pub const SCHEMA: &str = "brisk.report/1";

/// The result of one measurement: raw samples, what follows from them, and where they were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What kind of measurement, as `boot`, `suspend`, `crypto`.
    pub kind: String,
    /// When the measurement began (RFC 3339).
    pub created: String,
    /// Environment of the measurement.
    pub environment: Environment,
    /// The raw samples.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Comparisons between series.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Where the time of one run went.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// History of a quantity over the commits of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Sizes from which an implementation takes less than another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
    /// Remarks for people.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Weaknesses of the report.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// Error of saving or loading a report. The path is the one that the caller gave.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file could not be written. An older report at the path is untouched.
    #[error("cannot save the report {}", path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read the report {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no JSON, or lacks a field of a report.
    #[error("{} is not a brisk report", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        source: serde_json::Error,
    },
    /// The file is a report of a schema this version does not know.
    #[error(
        "{} has the schema \"{found}\", and this version reads \"{SCHEMA}\": use the version of \
         brisk that wrote it", path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema, empty if it names none.
        found: String,
    },
}

impl Report {
    /// A report without samples. `created` is the time in RFC 3339, as `2025-01-01T12:00:00Z`.
    pub fn new(
        kind: impl Into<String>,
        created: impl Into<String>,
        environment: Environment,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            kind: kind.into(),
            created: created.into(),
            environment,
            series: Vec::new(),
            comparisons: Vec::new(),
            timeline: None,
            history: None,
            crossings: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The series of a name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// The series of a name, added at the end if there is none yet.
    pub fn series_mut(&mut self, name: &str, unit: crate::Unit) -> &mut Series {
        let place = self.series.iter().position(|series| series.name == name);
        let place = place.unwrap_or_else(|| {
            self.series.push(Series::new(name, unit));
            self.series.len() - 1
        });
        &mut self.series[place]
    }

    /// Adds each warning that follows from the report and is not in it yet.
    pub fn warn(&mut self) {
        // What a guest's processors count does not depend on the load of the host.
        let counted = |series: &Series| series.unit == Unit::Instructions;
        let mut found = match !self.series.is_empty() && self.series.iter().all(counted) {
            true => Vec::new(),
            false => Warning::of_environment(&self.environment),
        };
        for series in &self.series {
            found.extend(Warning::of_series(series, &Summary::of(series)));
        }
        found.extend(self.comparisons.iter().filter_map(Warning::of_comparison));
        found.extend(self.timeline.iter().filter_map(Warning::of_timeline));
        for warning in found {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// The report as indented JSON, in the schema [`SCHEMA`].
    pub(crate) fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a report has string keys and no failing parts");
        text.push('\n');
        text
    }

    /// Replaces the file at `path` atomically: a reader finds the old report or the new one, also
    /// after a crash, and never half of one. Call it after every run. Of a link it is the file that
    /// it leads to; devices, pipes and sockets are refused.
    ///
    /// # Errors
    ///
    /// [`ReportError::Save`].
    pub fn save(&self, path: &Path) -> Result<(), ReportError> {
        write_beside(path, &self.to_json()).map_err(|source| ReportError::Save {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads a report.
    ///
    /// # Errors
    ///
    /// Any but [`ReportError::Save`]. A schema with another number is refused before anything else
    /// of the file is looked at.
    pub fn load(path: &Path) -> Result<Self, ReportError> {
        let text = regular(path).map_err(|source| ReportError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a report. `path` is named in errors.
    ///
    /// # Errors
    ///
    /// [`ReportError::Malformed`] and [`ReportError::Schema`], as [`load`](Self::load).
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ReportError> {
        let malformed = |source| ReportError::Malformed {
            path: path.to_owned(),
            source,
        };
        let tree: serde_json::Value = serde_json::from_slice(text).map_err(malformed)?;
        let found = tree.get("schema").and_then(serde_json::Value::as_str);
        if found != Some(SCHEMA) {
            return Err(ReportError::Schema {
                path: path.to_owned(),
                found: found.unwrap_or_default().to_owned(),
            });
        }
        serde_json::from_value(tree).map_err(malformed)
    }
}

/// Largest report that is read, bytes.
const LARGEST: u64 = 1 << 30;

/// Content of a regular file: a pipe would be waited for, and a device may have no end.
fn regular(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
    if !std::fs::metadata(path)?.is_file() {
        return Err(wrong("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(wrong("it has more than 1 GiB, which no report has")),
        false => Ok(bytes),
    }
}

/// The JSON Schema (draft 2020-12) of a report.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

fn write_beside(path: &Path, text: &str) -> io::Result<()> {
    // The file below takes the place of what is there, which is not to be a link such as
    // /dev/stdout, nor a device.
    let target = match path.is_symlink() {
        true => std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    };
    let path = &*target;
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a device, a pipe or a socket, and a report would take its place; name a file",
        ));
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".brisk-report-");
    // A report is to be read by whoever may read the directory; the umask takes away from this.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    #[cfg(unix)]
    if let Ok(old) = std::fs::metadata(path) {
        keep_owner(file.as_file(), &old)?;
    }
    // Measuring reboots and panics ends in hosts that go down without syncing.
    file.as_file().sync_data()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// Gives a file that is to replace another its owner and mode.
#[cfg(unix)]
fn keep_owner(file: &File, old: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    // Only root can give files to others; for others the file is their own.
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o777))
}

#[cfg(test)]
mod tests;
