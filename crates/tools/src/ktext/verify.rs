//! Whether the copies are equal to what they were copied from, byte by byte. The kernel compares; this
//! shows what it found.

use std::fmt::Write as _;
use std::path::Path;

use brisk_measure::render::{clean, columns};
use serde::Serialize;
use serde_json::{Value, json};

use super::source::{Source, SourceError};
use super::stats::Stats;
use super::table::{Row, Table};
use super::{FormatError, amount, maybe_hexadecimal, symbol};

/// Schema of [`Verification::json`].
pub const SCHEMA: &str = "brisk.ktext.verify/1";

/// What the kernel found for the copies of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The node.
    pub node: u32,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Bytes that differ.
    pub different: u64,
    /// Address of the first of them.
    #[serde(serialize_with = "maybe_hexadecimal")]
    pub first: Option<u64>,
    /// Symbol that it is in, if that is known.
    pub first_symbol: Option<String>,
    /// Entries of the page tables that are not what follows from the master's.
    pub entries_different: u64,
    /// Address that the first of them maps.
    #[serde(serialize_with = "maybe_hexadecimal")]
    pub first_entry: Option<u64>,
    /// Symbol that it is in, if that is known.
    pub first_entry_symbol: Option<String>,
}

impl Comparison {
    /// Whether everything is equal.
    #[must_use]
    pub const fn is_equal(&self) -> bool {
        self.different == 0 && self.entries_different == 0
    }

    fn of(row: &Row<'_>) -> Result<Self, FormatError> {
        let first = |count: u64, column: &str| match count {
            0 => Ok(None),
            _ => row.address(column).map(Some),
        };
        let different = row.number("different")?;
        let entries_different = row.number("entries_different")?;
        Ok(Self {
            node: row.known_node("node")?,
            bytes: row.number("bytes")?,
            different,
            first: first(different, "first")?,
            first_symbol: None,
            entries_different,
            first_entry: first(entries_different, "first_entry")?,
            first_entry_symbol: None,
        })
    }
}

/// A comparison of all copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// For each node with copies.
    pub nodes: Vec<Comparison>,
    /// Why there is nothing to compare, if there is nothing.
    pub nothing: Option<String>,
}

impl Verification {
    /// Has the kernel of the system below `root` compare, by reading the file `verify`.
    ///
    /// # Errors
    /// If the kernel's files are not there, or one of them cannot be used.
    pub fn read(root: &Path) -> Result<Self, SourceError> {
        let source = Source::find(root)?;
        let stats = source.parsed("stats", Stats::parse)?;
        // A kernel that made no copies compares none.
        let slots = if stats.off_reason.is_none() {
            stats.slots
        } else {
            0
        };
        let mut nodes = source.parsed("verify", |text| parse(text, slots))?;
        name(root, &mut nodes);
        let is_nothing = nodes.iter().all(|node| node.bytes == 0 && node.is_equal());
        let nothing = is_nothing.then(|| match (stats.off_reason, stats.slots) {
            (Some(reason), _) => format!("replication is off: {reason}"),
            (None, 0) => "no node needs a copy: the kernel image is on the only one".to_owned(),
            (None, _) if stats.page_alloc_failures == 0 => format!(
                "no page has a copy: {} page tables could not be allocated",
                stats.pgtbl_alloc_failures
            ),
            (None, _) => format!(
                "no page has a copy: {} could not be allocated",
                stats.page_alloc_failures
            ),
        });
        Ok(Self { nodes, nothing })
    }

    /// Whether all copies are equal to the master.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.nodes.iter().all(Comparison::is_equal)
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let place = |address: Option<u64>, symbol: &Option<String>| match (address, symbol) {
            (None, _) => "-".to_owned(),
            (Some(address), None) => format!("{address:#x}"),
            (Some(address), Some(symbol)) => format!("{address:#x} {symbol}"),
        };
        let rows = self.nodes.iter().map(|node| {
            vec![
                node.node.to_string(),
                node.bytes.to_string(),
                node.different.to_string(),
                place(node.first, &node.first_symbol),
                node.entries_different.to_string(),
                place(node.first_entry, &node.first_entry_symbol),
            ]
        });
        let mut text = columns(
            &[
                "node",
                "bytes",
                "different",
                "first",
                "entries different",
                "first entry",
            ],
            rows,
        );
        let bytes = self.nodes.iter().map(|node| node.bytes);
        let bytes = amount(bytes.fold(0, u64::saturating_add));
        let different: Vec<_> = self.nodes.iter().filter(|node| !node.is_equal()).collect();
        let sentence = match (&self.nothing, &*different) {
            (Some(reason), _) => format!("Nothing was compared: {reason}."),
            (None, []) => format!("Equal: {bytes} of copies are as the master."),
            (None, different) => {
                let names: Vec<_> = different.iter().map(|one| one.node.to_string()).collect();
                let names = names.join(", ");
                format!(
                    "Different: the copies of node {names} are not as the master. That is a bug of \
                     the kernel: brisk ktext off, and report it."
                )
            }
        };
        let _ = writeln!(text, "{}", clean(&sentence));
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "equal": self.is_equal() && self.nothing.is_none(),
            "nothing": self.nothing,
            "nodes": self.nodes,
        })
    }
}

/// Parses the file `verify` of a kernel with so many slots. Fewer nodes were not all compared.
fn parse(text: &str, slots: u64) -> Result<Vec<Comparison>, FormatError> {
    let table = Table::parse("verify", text)?;
    let nodes = table.rows().map(|row| Comparison::of(&row));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    match nodes.len() as u64 >= slots {
        true => Ok(nodes),
        false => Err(FormatError {
            file: "verify",
            line: 1,
            reason: format!("it has {} nodes, and stats has {slots} slots", nodes.len()),
        }),
    }
}

/// Names what is at the first differences.
fn name(root: &Path, nodes: &mut [Comparison]) {
    let all = nodes.iter().flat_map(|node| [node.first, node.first_entry]);
    let addresses: Vec<u64> = all.flatten().collect();
    let mut names = symbol::names(root, &addresses).into_iter();
    for node in nodes {
        if node.first.is_some() {
            node.first_symbol = names.next().flatten();
        }
        if node.first_entry.is_some() {
            node.first_entry_symbol = names.next().flatten();
        }
    }
}
