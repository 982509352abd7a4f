//! Memory that replication takes. Pure.

use serde::Serialize;

use super::machine::Machine;
use super::nodes::Node;
use crate::ktext::mapping::LARGE_PAGE;
use crate::ktext::stats::PAGE;

/// Page tables of a slot that do not depend on what is copied: one PUD page, and PMD pages of the last
/// 2 GiB of addresses.
const FIXED_TABLES: u64 = 3;

/// Memory that copies take on one node, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Nodes that would get copies; none if that is not known.
    pub nodes: Option<u64>,
    /// Kernel text; none if its size is not known.
    pub text: Option<u64>,
    /// Read-only data of the kernel; none if its size is not known.
    pub rodata: Option<u64>,
    /// Modules, at most: their data, which is not copied, is among it. None if it is not known.
    pub modules: Option<u64>,
    /// Page tables of the copies; none if the size of text is not known.
    pub page_tables: Option<u64>,
    /// Top-level page tables of processes, at most; none if their number is not known.
    pub processes: Option<u64>,
}

impl Cost {
    /// What it is on a machine: for each node with memory and CPUs but one, which is taken to have the
    /// kernel image.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let whole = |bytes: u64| bytes.div_ceil(PAGE).saturating_mul(PAGE);
        let text = machine.image.text.map(whole);
        let rodata = machine.image.rodata.map(whole);
        let parts = [text, rodata, machine.modules];
        let granules = parts.into_iter().flatten();
        let granules = granules.map(|bytes| bytes.div_ceil(LARGE_PAGE));
        let tables = granules.fold(FIXED_TABLES, u64::saturating_add);
        let are_shown = machine.has_sysfs || !machine.nodes.is_empty();
        let served: Option<Vec<_>> = machine.nodes.iter().map(Node::is_served).collect();
        let served = served.filter(|_| are_shown);
        let served = served.map(|all| all.into_iter().filter(|is_served| *is_served).count());
        Self {
            nodes: served.map(|count| (count as u64).saturating_sub(1)),
            text,
            rodata,
            modules: machine.modules,
            page_tables: text.map(|_| tables.saturating_mul(PAGE)),
            processes: machine.processes.map(|count| count.saturating_mul(PAGE)),
        }
    }

    /// All of it on one node that is known; none if the size of the kernel is not.
    #[must_use]
    pub fn on_a_node(&self) -> Option<u64> {
        let parts = [
            self.text?,
            self.rodata.unwrap_or(0),
            self.modules.unwrap_or(0),
            self.page_tables?,
            self.processes.unwrap_or(0),
        ];
        Some(parts.into_iter().fold(0, u64::saturating_add))
    }
}
