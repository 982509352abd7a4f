//! Memory that replication takes. Pure.

use serde::Serialize;

use super::machine::Machine;
use crate::ktext::mapping::LARGE_PAGE;
use crate::ktext::stats::PAGE;

/// Page tables of a slot that do not depend on what is copied: one PUD page, and PMD pages of the last
/// 2 GiB of addresses.
const FIXED_TABLES: u64 = 3;

/// Memory that copies take on one node, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Nodes that would get copies.
    pub nodes: u64,
    /// Kernel text; none if its size is not known.
    pub text: Option<u64>,
    /// Read-only data of the kernel; none if its size is not known.
    pub rodata: Option<u64>,
    /// Modules, at most: their data, which is not copied, is among it.
    pub modules: u64,
    /// Page tables of the copies.
    pub page_tables: u64,
    /// Top-level page tables of processes, at most.
    pub processes: u64,
}

impl Cost {
    /// What it is on a machine: for each node with memory and CPUs but one, which is taken to have the
    /// kernel image.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let whole = |bytes: u64| bytes.div_ceil(PAGE).saturating_mul(PAGE);
        let text = machine.image.text.map(whole);
        let rodata = machine.image.rodata.map(whole);
        let parts = [text, rodata, Some(machine.modules)];
        let granules = parts.into_iter().flatten();
        let granules = granules.map(|bytes| bytes.div_ceil(LARGE_PAGE));
        let tables = granules.fold(FIXED_TABLES, u64::saturating_add);
        let served = machine.nodes.iter().filter(|node| node.is_served());
        Self {
            nodes: (served.count() as u64).saturating_sub(1),
            text,
            rodata,
            modules: machine.modules,
            page_tables: tables.saturating_mul(PAGE),
            processes: machine.processes.saturating_mul(PAGE),
        }
    }

    /// All of it on one node; none if the size of the kernel is not known.
    #[must_use]
    pub fn on_a_node(&self) -> Option<u64> {
        let parts = [
            self.text?,
            self.rodata.unwrap_or(0),
            self.modules,
            self.page_tables,
            self.processes,
        ];
        Some(parts.into_iter().fold(0, u64::saturating_add))
    }
}
