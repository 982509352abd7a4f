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
    /// Its CPUs that are online; none if they cannot be read.
    pub cpus: Option<Vec<usize>>,
    /// Its CPUs that are offline: the kernel makes copies for CPUs that may come.
    pub offline: Vec<usize>,
    /// Its memory, bytes; none if it cannot be read.
    pub memory: Option<u64>,
    /// Memory of it that is free, bytes.
    pub free: Option<u64>,
    /// Whether it has memory that the kernel can use for itself, which is not so of movable memory
    /// alone; none if the kernel does not show it.
    pub is_normal: Option<bool>,
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
        let normal = sysfs::line(root, &format!("{DIRECTORY}/has_normal_memory"));
        let normal = normal.and_then(|text| list(&text));
        let read = |number: u32| Self {
            is_normal: normal
                .as_ref()
                .map(|normal| normal.contains(&(number as usize))),
            ..Self::read(root, number)
        };
        numbers.into_iter().map(read).collect()
    }

    fn read(root: &Path, number: u32) -> Self {
        let place = format!("{DIRECTORY}/node{number}");
        let file = |name: &str| sysfs::line(root, &format!("{place}/{name}"));
        let meminfo = file("meminfo").unwrap_or_default();
        let distances = file("distance").unwrap_or_default();
        let distances = distances.split_whitespace().take(MOST_NODES);
        let cpus = file("cpulist").and_then(|text| list(&text));
        let cpus = cpus.or_else(|| cpu::parse_mask(&file("cpumap")?));
        let offline = cpus.as_ref().map_or_else(Vec::new, |online| {
            let mut linked = linked(root, &place);
            linked.retain(|cpu| !online.contains(cpu));
            linked
        });
        Self {
            number,
            cpus,
            offline,
            memory: field(&meminfo, "MemTotal:"),
            free: field(&meminfo, "MemFree:"),
            is_normal: None,
            distances: distances.filter_map(|one| one.parse().ok()).collect(),
        }
    }

    /// Whether the kernel would have something to copy to; none if that is not known.
    #[must_use]
    pub fn has_memory(&self) -> Option<bool> {
        self.is_normal.or(self.memory.map(|bytes| bytes > 0))
    }

    /// Whether it has CPUs; none if that is not known.
    #[must_use]
    pub fn has_cpus(&self) -> Option<bool> {
        let online = self.cpus.as_ref()?;
        Some(!online.is_empty() || !self.offline.is_empty())
    }

    /// Whether the kernel gives it a copy, unless it has the kernel image (`pgtable_cache_init` of the
    /// patch series); none if that is not known.
    #[must_use]
    pub fn is_served(&self) -> Option<bool> {
        match (self.has_memory(), self.has_cpus()) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }
}

/// A list of numbers, which may have none; none if it has another format.
fn list(text: &str) -> Option<Vec<usize>> {
    match text {
        "" => Some(Vec::new()),
        text => cpu::parse_list(text),
    }
}

/// CPUs that a node's directory has links to: those that are there, whether they are online or not.
fn linked(root: &Path, place: &str) -> Vec<usize> {
    let names = sysfs::names(root, place);
    let numbers = names.iter().filter_map(|name| name.strip_prefix("cpu"));
    let mut numbers: Vec<_> = numbers.filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A line such as `Node 0 MemTotal:  24683656 kB`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse::<u64>().ok()
    });
    value.map(|kib| kib.saturating_mul(1024))
}

/// Distance of the farthest memory that may have the kernel image from the CPUs of nodes that may get a
/// copy; none if it is not known.
pub(super) fn farthest(nodes: &[Node]) -> Option<u32> {
    let both = nodes.iter().filter(|node| node.is_served() == Some(true));
    let distances = both.flat_map(|node| {
        // Distances are in the order of the nodes, online ones alone.
        let others = nodes.iter().zip(&node.distances);
        others.filter(|(other, _)| other.number != node.number && other.has_memory() == Some(true))
    });
    distances.map(|(_, distance)| *distance).max()
}
