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

/// Form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
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

/// Text from elsewhere for a terminal: no control character but the line end, and none that changes
/// the direction of writing.
pub(crate) fn printable(text: &str) -> String {
    let is_hidden = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || c.is_control() && !matches!(c, '\n' | '\t')
    };
    let shown = |c: char| match is_hidden(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Text from elsewhere as a part of one line, as [`printable`].
pub(crate) fn printable_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// Replaces a file, through links and with its owner and mode; a new one is its owner's alone.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::replace_keeping(path, bytes, 0o600, Durability::Synced, false)
        .with_context(|| format!("cannot write {}", path.display()))
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

/// Never leaves half a file; owner and mode of one that is there stay, a new one is for all to read.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::replace_keeping(path, bytes, 0o644, Durability::Atomic, false)
        .with_context(|| format!("cannot write {}", path.display()))
}
