//! What commands print and write: formats, fields, files, and errors with what to try.

use std::path::Path;

use anyhow::Context;
use brisk_host::files::{self, Durability};
use brisk_tools::guest;
use clap::ValueEnum;

/// Form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
    /// For spreadsheets.
    Csv,
}

/// With what to try as part of the message.
pub(crate) fn explain(error: guest::Error) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    match hint {
        None => error,
        Some(hint) => anyhow::anyhow!("{}; {hint}", chain(&error)),
    }
}

fn chain(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Seconds since 1970 as RFC 3339, in UTC.
pub(crate) fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    jiff::Timestamp::from_second(seconds as i64)
        .unwrap_or_default()
        .to_string()
}

/// A field of CSV that may hold anything.
pub(crate) fn csv_field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Never leaves half a file: written beside and renamed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::replace_with_mode(path, bytes, 0o644, Durability::Atomic)
        .with_context(|| format!("cannot write {}", path.display()))
}
