//! NUMA nodes of a machine, from sysfs (`Documentation/ABI/stable/sysfs-devices-node`).

use std::path::Path;

use brisk_host::{cpu, sysfs};
use serde::Serialize;

use crate::ktext::MOST_NODES;

/// Where nodes are, below `sys`.
const DIRECTORY: &str = "devices/system/node";

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// Its memory, bytes.
    pub memory: u64,
    /// Memory of it that is free, bytes.
    pub free: u64,
    /// Distance of each node's memory, in the order of the nodes; 10 is that of its own.
    pub distances: Vec<u32>,
}

impl Node {
    /// Reads the nodes of the system below `root`, in order; empty if the kernel shows none.
    pub(super) fn read_all(root: &Path) -> Vec<Self> {
        let names = sysfs::names(root, DIRECTORY);
        let numbers = names.iter().filter_map(|name| {
            let number = name.strip_prefix("node")?.parse::<u32>().ok()?;
            ((number as usize) < MOST_NODES).then_some(number)
        });
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let nodes = numbers.into_iter();
        nodes.map(|number| Self::read(root, number)).collect()
    }

    fn read(root: &Path, number: u32) -> Self {
        let file = |name: &str| sysfs::line(root, &format!("{DIRECTORY}/node{number}/{name}"));
        let meminfo = file("meminfo").unwrap_or_default();
        let distances = file("distance").unwrap_or_default();
        let distances = distances.split_whitespace().take(MOST_NODES);
        Self {
            number,
            cpus: cpu::parse_list(&file("cpulist").unwrap_or_default()).unwrap_or_default(),
            memory: field(&meminfo, "MemTotal:"),
            free: field(&meminfo, "MemFree:"),
            distances: distances.filter_map(|one| one.parse().ok()).collect(),
        }
    }

    /// Whether the kernel gives it a copy, unless it has the kernel image (`ktext_repl_has_cpus` of the
    /// patch series).
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.has_memory() && !self.cpus.is_empty()
    }

    /// Whether the kernel would have something to copy to.
    #[must_use]
    pub const fn has_memory(&self) -> bool {
        self.memory > 0
    }
}

/// A line such as `Node 0 MemTotal:  24683656 kB`, in bytes.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse::<u64>().ok()
    });
    value.unwrap_or(0).saturating_mul(1024)
}

/// Distance of the farthest memory from the CPUs of nodes that have both; none if it is not known.
pub(super) fn farthest(nodes: &[Node]) -> Option<u32> {
    let both = nodes.iter().filter(|node| node.is_served());
    let distances = both.flat_map(|node| {
        // Distances are in the order of the nodes, online ones alone.
        let others = nodes.iter().zip(&node.distances);
        others.filter(|(other, _)| other.number != node.number && other.has_memory())
    });
    distances.map(|(_, distance)| *distance).max()
}
