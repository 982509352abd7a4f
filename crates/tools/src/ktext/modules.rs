//! The file `modules`: on which nodes text and read-only data of modules are. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::table::{Row, Table};
use super::{FormatError, Kind, MOST_NODES, hexadecimal};

/// Text or read-only data of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModulePart {
    /// Name of the module.
    pub module: String,
    /// What it is.
    pub kind: Kind,
    /// First address.
    #[serde(serialize_with = "hexadecimal")]
    pub virtual_address: u64,
    /// Bytes.
    pub size: u64,
    /// Node on which it was loaded; none if the kernel does not know.
    pub master_node: Option<u32>,
    /// Bytes of it on each node with memory: copies, and what was loaded there.
    pub bytes: BTreeMap<u32, u64>,
}

impl ModulePart {
    fn of(row: &Row<'_>, nodes: &[(u32, &str)]) -> Result<Self, FormatError> {
        let module = row.text("module")?;
        if module.is_empty() {
            return Err(row.wrong("module", module, "the name of a module"));
        }
        let bytes = nodes.iter().map(|(node, column)| {
            let bytes = row.number(column)?;
            Ok((*node, bytes))
        });
        Ok(Self {
            module: module.to_owned(),
            kind: Kind::of(row)?,
            virtual_address: row.address("va")?,
            size: row.number("size")?,
            master_node: row.node("master_node")?,
            bytes: bytes.collect::<Result<_, _>>()?,
        })
    }
}

/// Parses the file `modules`.
///
/// # Errors
/// If it is not as the kernel writes it.
pub(super) fn parse(text: &str) -> Result<Vec<ModulePart>, FormatError> {
    let table = Table::parse("modules", text)?;
    let nodes = table.columns().iter().filter_map(|column| {
        let node = column.strip_prefix("node")?.parse::<u32>().ok()?;
        ((node as usize) < MOST_NODES).then_some((node, *column))
    });
    let nodes: Vec<_> = nodes.collect();
    let rows = table.rows();
    rows.map(|row| ModulePart::of(&row, &nodes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_bytes_for_each_node() {
        let text = "module\tkind\tva\tsize\tmaster_node\tnode0\tnode2\n\
                    dummy\ttext\t0xffffffffc0000000\t8192\t0\t8192\t4096\n";
        let found = parse(text).unwrap();
        let expected = ModulePart {
            module: "dummy".into(),
            kind: Kind::Text,
            virtual_address: 0xffff_ffff_c000_0000,
            size: 8192,
            master_node: Some(0),
            bytes: [(0, 8192), (2, 4096)].into(),
        };
        assert_eq!(found, [expected]);
        assert_eq!(parse("module\tkind\tva\tsize\tmaster_node\n"), Ok(vec![]));
        for (from, to) in [
            ("dummy", ""),
            ("\ttext", "\tdata"),
            ("\t4096", "\t-1"),
            ("\t0\t", "\tx\t"),
        ] {
            assert!(parse(&text.replace(from, to)).is_err(), "{from:?}");
        }
    }
}
