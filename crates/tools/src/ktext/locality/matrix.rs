//! Counts of a side, by what was fetched and from where. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::counts::{ByNode, Count, Counted};
use crate::ktext::emulated::Plan;
use crate::ktext::{Kind, ModulePart};

/// What was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fetched {
    /// Instructions of the kernel image.
    Text,
    /// Instructions of modules, as far as the kernel gives them copies.
    Module,
    /// Instructions in the modules' area that have no copies: a module's init, BPF, trampolines.
    Shared,
    /// Other instructions of the kernel, such as those that are freed after boot.
    Other,
    /// Loads from read-only data of the kernel image.
    Rodata,
}

impl Fetched {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [
        Self::Text,
        Self::Module,
        Self::Shared,
        Self::Other,
        Self::Rodata,
    ];

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "resident text",
            Self::Module => "module text",
            Self::Shared => "shared pages",
            Self::Other => "other",
            Self::Rodata => "read-only data",
        }
    }

    /// For programs.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Module => "module",
            Self::Shared => "shared",
            Self::Other => "other",
            Self::Rodata => "rodata",
        }
    }
}

/// How often CPUs of each node fetched from each node's memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Matrix {
    /// For each node that has CPUs.
    pub by_cpu_node: BTreeMap<u32, ByNode>,
}

impl Matrix {
    fn add(&mut self, cpu_node: u32, memory_node: Option<u32>, count: u64) {
        let row = self.by_cpu_node.entry(cpu_node).or_default();
        let sum = row.entry(memory_node).or_default();
        *sum = sum.saturating_add(count);
    }

    /// From the memory of the CPU's own node.
    #[must_use]
    pub fn local(&self) -> u64 {
        let own = |(node, row): (&u32, &ByNode)| row.get(&Some(*node)).copied();
        self.by_cpu_node
            .iter()
            .filter_map(own)
            .fold(0, u64::saturating_add)
    }

    /// All.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = self.by_cpu_node.values().flat_map(ByNode::values);
        all.copied().fold(0, u64::saturating_add)
    }

    /// Share that was local, 0 to 1; none if nothing was fetched.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.local() as f64 / total as f64)
    }
}

/// What was fetched from another node's memory, by a symbol or a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residue {
    /// What it is.
    pub fetched: Fetched,
    /// Symbol, module, or address of a page.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// With replication or without it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// What was fetched how often.
    pub counts: BTreeMap<Fetched, Matrix>,
    /// What came from another node's memory, the most first.
    pub residue: Vec<Residue>,
}

/// Where text of modules is that may have copies, sorted by their starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ranges(Vec<(u64, u64, String)>);

impl Ranges {
    pub(super) fn of(modules: &[ModulePart]) -> Self {
        let text = modules.iter().filter(|part| part.kind == Kind::Text);
        let range = |part: &ModulePart| {
            let start = part.virtual_address;
            (start, start.saturating_add(part.size), part.module.clone())
        };
        let mut ranges: Vec<_> = text.map(range).collect();
        ranges.sort();
        Self(ranges)
    }

    /// The module whose text has this address.
    fn module(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let (_, end, module) = self.0.get(after.checked_sub(1)?)?;
        (address < *end).then_some(module)
    }
}

impl Side {
    /// Adds up rows of a section.
    pub(super) fn of<'a>(
        plan: &Plan,
        rows: impl Iterator<Item = &'a Count<'a>>,
        ranges: &Ranges,
    ) -> Self {
        let mut side = Self::default();
        let mut remote: BTreeMap<(Fetched, String), u64> = BTreeMap::new();
        for row in rows {
            let (fetched, name) = match row.kind {
                Counted::Text => (Fetched::Text, row.symbol),
                Counted::Rodata => (Fetched::Rodata, row.symbol),
                Counted::Other => (Fetched::Other, "outside of symbols"),
                Counted::Module => {
                    let address = u64::from_str_radix(row.symbol, 16).unwrap_or(0);
                    match ranges.module(address) {
                        Some(module) => (Fetched::Module, module),
                        None => (Fetched::Shared, row.symbol),
                    }
                }
            };
            let cpu_node = plan.node_of(row.cpu);
            let matrix = side.counts.entry(fetched).or_default();
            matrix.add(cpu_node, row.node, row.count);
            if row.node != Some(cpu_node) {
                let sum = remote.entry((fetched, name.to_owned())).or_default();
                *sum = sum.saturating_add(row.count);
            }
        }
        let residue = remote.into_iter().map(|((fetched, name), count)| Residue {
            fetched,
            name,
            count,
        });
        side.residue = residue.collect();
        side.residue.sort_by_key(|one| Reverse(one.count));
        side
    }

    /// Instructions of the kernel image.
    pub(super) fn text(&self) -> Matrix {
        self.counts.get(&Fetched::Text).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn plan() -> Plan {
        Plan {
            nodes: 2,
            cpus_of_node: 2,
            memory_of_node: 256,
            cmdline: String::new(),
            counts: false,
        }
    }

    /// Rows of CPU, node, kind, symbol and count.
    pub(in super::super) fn side<'a>(rows: &[(u32, i32, Counted, &'a str, u64)]) -> Side {
        let row = |(cpu, node, kind, symbol, count): &(u32, i32, Counted, &'a str, u64)| Count {
            section: 0,
            cpu: *cpu,
            node: u32::try_from(*node).ok(),
            kind: *kind,
            symbol,
            count: *count,
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let ranges = Ranges(vec![
            (0xa000_1000, 0xa000_3000, "first".into()),
            (0xa000_4000, 0xa000_5000, "second".into()),
        ]);
        Side::of(&plan(), rows.iter(), &ranges)
    }

    #[test]
    fn rows_are_added_by_nodes() {
        use Counted::{Module, Other, Rodata, Text};
        let side = side(&[
            (0, 0, Text, "fork", 60),
            (2, 1, Text, "fork", 30),
            (3, 0, Text, "fork", 4),
            (3, 0, Text, "exit", 6),
            (0, -1, Other, "-", 1),
            (2, 1, Module, "a0002000", 5),
            (2, 0, Module, "a0003000", 7),
            (1, 1, Rodata, "table", 2),
        ]);
        let text = side.text();
        assert_eq!((text.local(), text.total()), (90, 100));
        assert_eq!(text.share(), Some(0.9));
        assert_eq!(text.by_cpu_node[&1][&Some(0)], 10);
        assert_eq!(side.counts[&Fetched::Module].local(), 5);
        assert_eq!(side.counts[&Fetched::Shared].local(), 0);
        let residue = side.residue.iter().map(|one| (&*one.name, one.count));
        assert_eq!(
            residue.collect::<Vec<_>>(),
            [
                ("a0003000", 7),
                ("exit", 6),
                ("fork", 4),
                ("table", 2),
                ("outside of symbols", 1)
            ]
        );
        assert_eq!(Matrix::default().share(), None);
    }

    #[test]
    fn counts_that_nothing_can_have_do_not_overflow() {
        let rows = [
            (0, 0, Counted::Text, "a", u64::MAX),
            (2, 0, Counted::Text, "a", u64::MAX),
        ];
        let text = side(&rows).text();
        assert_eq!((text.local(), text.total()), (u64::MAX, u64::MAX));
    }
}
