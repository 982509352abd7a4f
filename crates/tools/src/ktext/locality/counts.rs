//! The plugin's table: how many instructions of which symbol each CPU fetched from each node's memory.
//! Pure.

use std::collections::BTreeMap;

use super::symbols::{MODULE, RODATA, TEXT};
use crate::ktext::{FormatError, MOST_NODES};

/// Name of the table in errors.
const TABLE: &str = "the plugin's table";
const HEAD: &str = "section\tcpu\tnode\tkind\tsymbol\tinstructions";

/// What was fetched, as far as the plugin knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    Text,
    Rodata,
    /// A page of the modules' area.
    Module,
    /// Kernel code elsewhere.
    Other,
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count<'a> {
    /// Sections are numbered from 0.
    pub(super) section: u32,
    pub(super) cpu: u32,
    /// Node that has the memory; none if no node has.
    pub(super) node: Option<u32>,
    pub(super) kind: Counted,
    pub(super) symbol: &'a str,
    /// How often.
    pub(super) count: u64,
}

/// How much was fetched from each node's memory, and from no node's.
pub(super) type ByNode = BTreeMap<Option<u32>, u64>;

/// The rows.
///
/// # Errors
/// If it is not as the plugin writes it.
pub(super) fn rows(table: &str) -> Result<Vec<Count<'_>>, FormatError> {
    let wrong = |line: usize, reason: &str| FormatError {
        file: TABLE,
        line,
        reason: reason.to_owned(),
    };
    let mut lines = table.lines().enumerate();
    if lines.next().map(|(_, head)| head) != Some(HEAD) {
        return Err(wrong(1, "the line with the names is missing"));
    }
    if !table.ends_with('\n') {
        return Err(wrong(table.lines().count(), "it is cut off"));
    }
    let mut rows = Vec::new();
    for (place, line) in lines {
        rows.push(row(line).ok_or_else(|| wrong(place + 1, "it is not a count"))?);
    }
    Ok(rows)
}

fn row(line: &str) -> Option<Count<'_>> {
    let cells: Vec<_> = line.split('\t').collect();
    let [section, cpu, node, kind, symbol, count] = cells[..] else {
        return None;
    };
    Some(Count {
        section: section.parse().ok()?,
        cpu: cpu.parse().ok().filter(|cpu| *cpu < 4096)?,
        node: match node {
            "-1" => None,
            node => Some(
                node.parse()
                    .ok()
                    .filter(|node| (*node as usize) < MOST_NODES)?,
            ),
        },
        kind: match kind {
            TEXT => Counted::Text,
            RODATA => Counted::Rodata,
            MODULE => Counted::Module,
            "other" => Counted::Other,
            _ => return None,
        },
        symbol,
        count: count.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_section_and_what_was_counted() {
        let table = format!("{HEAD}\n0\t1\t0\ttext\tfork\t7\n1\t3\t-1\tother\t-\t2\n");
        let rows = rows(&table).unwrap();
        let expected = Count {
            section: 1,
            cpu: 3,
            node: None,
            kind: Counted::Other,
            symbol: "-",
            count: 2,
        };
        assert_eq!(rows[1..], [expected]);
        assert_eq!(
            (rows[0].section, rows[0].symbol, rows[0].count),
            (0, "fork", 7)
        );
    }

    #[test]
    fn what_the_plugin_does_not_write_is_an_error() {
        for text in [
            "",
            "section\n",
            &format!("{HEAD}\n0\t1\t0\ttext\tfork\t7"),
            &format!("{HEAD}\n0\t1\t0\ttext\tfork\n"),
            &format!("{HEAD}\n0\t1\t0\tdata\tfork\t7\n"),
            &format!("{HEAD}\n0\t1\t-2\ttext\tfork\t7\n"),
            &format!("{HEAD}\n0\t99999\t0\ttext\tfork\t7\n"),
            &format!("{HEAD}\n0\t1\t0\ttext\tfork\t-7\n"),
        ] {
            assert!(rows(text).is_err(), "{text:?}");
        }
    }
}
