//! The file `cpus`: which page tables each CPU runs on. Pure.

use serde::Serialize;

use super::table::{Row, Table};
use super::{FormatError, hexadecimal};

/// Whether a CPU runs on the page tables that it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuVerdict {
    /// It does.
    Own,
    /// It runs on the master's although its node has copies.
    Master,
    /// The process that runs there has no page table for the slot, and uses the master's.
    Fallback,
    /// What it runs on belongs to another slot: a bug of the kernel.
    Wrong,
}

impl CpuVerdict {
    /// As the kernel names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Master => "master",
            Self::Fallback => "fallback",
            Self::Wrong => "wrong",
        }
    }

    fn of(row: &Row<'_>) -> Result<Self, FormatError> {
        match row.text("verdict")? {
            "own" => Ok(Self::Own),
            "master" => Ok(Self::Master),
            "fallback" => Ok(Self::Fallback),
            "wrong" => Ok(Self::Wrong),
            other => Err(row.wrong("verdict", other, "own, master, fallback or wrong")),
        }
    }
}

/// What a CPU runs on at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuState {
    /// Its number.
    pub cpu: u32,
    /// Its node; none if the kernel knows none.
    pub node: Option<u32>,
    /// The page tables that it was given: 0 is the master's.
    pub slot: u32,
    /// Physical address of the top-level page table: that of the process which runs there.
    #[serde(serialize_with = "hexadecimal")]
    pub cr3: u64,
    /// Node that has the top-level page table.
    pub pgd_node: Option<u32>,
    /// Whether it is what it should be.
    pub verdict: CpuVerdict,
}

impl CpuState {
    fn of(row: &Row<'_>) -> Result<Self, FormatError> {
        let small = |column: &str| {
            let number = row.number(column)?;
            let text = number.to_string();
            u32::try_from(number).map_err(|_| row.wrong(column, &text, "below 4294967296"))
        };
        Ok(Self {
            cpu: small("cpu")?,
            node: row.node("node")?,
            slot: small("slot")?,
            cr3: row.address("cr3")?,
            pgd_node: row.node("pgd_node")?,
            verdict: CpuVerdict::of(row)?,
        })
    }
}

/// Parses the file `cpus`.
///
/// # Errors
/// If it is not as the kernel writes it.
pub(super) fn parse(text: &str) -> Result<Vec<CpuState>, FormatError> {
    let table = Table::parse("cpus", text)?;
    table.rows().map(|row| CpuState::of(&row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_page_tables_and_a_verdict() {
        let head = "cpu\tnode\tslot\tcr3\tpgd_node\tverdict\n";
        let row = |text: &str| parse(&format!("{head}{}\n", text.replace(' ', "\t")));
        let found = row("3 1 1 0x7f5c000 1 fallback").unwrap();
        let expected = CpuState {
            cpu: 3,
            node: Some(1),
            slot: 1,
            cr3: 0x7f5_c000,
            pgd_node: Some(1),
            verdict: CpuVerdict::Fallback,
        };
        assert_eq!(found, [expected]);
        for verdict in ["own", "master", "wrong"] {
            let found = row(&format!("0 -1 0 0x0 -1 {verdict}")).unwrap();
            assert_eq!(found[0].verdict.name(), verdict);
            assert_eq!((found[0].node, found[0].pgd_node), (None, None));
        }
        for text in [
            "0 0 0 0x0 0 good",
            "4294967296 0 0 0x0 0 own",
            "0 0 -1 0x0 0 own",
            "0 0 0 7f 0 own",
        ] {
            assert!(row(text).is_err(), "{text}");
        }
    }
}
