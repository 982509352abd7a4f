//! Replication as it is at the moment.

use std::collections::BTreeSet;
use std::path::Path;

use brisk_host::files;

use super::cpus::{self, CpuState};
use super::mapping::{self, Backing, Mapping};
use super::modules::{self, ModulePart};
use super::source::{Source, SourceError};
use super::stats::Stats;

/// What the kernel's files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Release of the kernel; empty if it cannot be read.
    pub release: String,
    /// Whether it is on, and counts.
    pub stats: Stats,
    /// What each node maps.
    pub mappings: Vec<Mapping>,
    /// What each CPU runs on.
    pub cpus: Vec<CpuState>,
    /// Where modules are; none if the kernel was built without replication of them.
    pub modules: Option<Vec<ModulePart>>,
}

impl Status {
    /// Reads the files of the system below `root`.
    ///
    /// # Errors
    /// If there are none, or one of them cannot be used.
    pub fn read(root: &Path) -> Result<Self, SourceError> {
        let source = Source::find(root)?;
        Ok(Self {
            release: release(root),
            stats: source.parsed("stats", Stats::parse)?,
            mappings: source.parsed("map", mapping::parse)?,
            cpus: source.parsed("cpus", cpus::parse)?,
            modules: source.maybe_parsed("modules", modules::parse)?,
        })
    }

    /// Nodes with memory, in order.
    #[must_use]
    pub fn nodes(&self) -> Vec<u32> {
        let nodes = self.mappings.iter().map(|mapping| mapping.node);
        nodes.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a node has copies.
    #[must_use]
    pub fn has_copies(&self, node: u32) -> bool {
        let mut of_node = self.mappings.iter().filter(|mapping| mapping.node == node);
        of_node.any(|mapping| mapping.backing == Backing::Copy)
    }

    /// What nodes fetch from another one although the kernel was to make copies for them.
    pub fn fallbacks(&self) -> impl Iterator<Item = &Mapping> {
        let has_slots = self.stats.slots > 0;
        let all = self.mappings.iter();
        all.filter(move |one| has_slots && one.backing == Backing::Master && one.is_remote())
    }
}

/// Release of the kernel of a system; empty if it cannot be read.
pub(super) fn release(root: &Path) -> String {
    let text = |path: &str| files::text_within(&root.join(path), 4096);
    let release = text("proc/sys/kernel/osrelease");
    // Copies of files have this one more often: `Linux version 6.12.117 (…`.
    let version = || Some(text("proc/version")?.split_whitespace().nth(2)?.to_owned());
    let release = release.or_else(version).unwrap_or_default();
    release.trim_end().to_owned()
}
