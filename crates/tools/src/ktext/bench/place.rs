//! Which CPU does the operations, and which ones load memory. Pure.

use std::collections::BTreeMap;

use crate::ktext::{Backing, Status};

/// CPUs of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The CPU that does the operations.
    pub cpu: u32,
    /// Its node, which is not the one that the kernel was loaded to.
    pub node: u32,
    /// CPUs of the other nodes, which load memory meanwhile.
    pub load: Vec<u32>,
}

/// Why there is no such place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No CPU has a copy.
    #[error("no CPU is on a node that has a copy of the kernel's text: see brisk ktext info")]
    None,
    /// A CPU that was named.
    #[error(
        "CPU {0} has no copy of the kernel's text to be measured by: it is on the node that has the \
         kernel, or offline; one that has is {1}"
    )]
    Without(u32, u32),
}

impl Place {
    /// The CPU that was asked for, or the first one of the last node that has a copy.
    ///
    /// # Errors
    /// If there is no such CPU, or it has no copy.
    pub fn find(status: &Status, cpu: Option<u32>) -> Result<Self, PlaceError> {
        let has_copy = |node: u32| {
            let mut own = status.mappings.iter().filter(|one| one.node == node);
            own.any(|one| one.backing == Backing::Copy)
        };
        let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for one in &status.cpus {
            if let Some(node) = one.node {
                nodes.entry(node).or_default().push(one.cpu);
            }
        }
        let usable = nodes.iter().filter(|(node, _)| has_copy(**node));
        let last = usable.clone().next_back().ok_or(PlaceError::None)?;
        let first = last.1.iter().min().copied().ok_or(PlaceError::None)?;
        let wanted = cpu.unwrap_or(first);
        let found = usable.clone().find(|(_, cpus)| cpus.contains(&wanted));
        let (node, _) = found.ok_or(PlaceError::Without(wanted, first))?;
        let others = nodes.iter().filter(|(other, _)| *other != node);
        Ok(Self {
            cpu: wanted,
            node: *node,
            load: others.flat_map(|(_, cpus)| cpus).copied().collect(),
        })
    }
}
