//! Options of the emulated machine.

use std::path::PathBuf;
use std::time::Duration;

use brisk_tools::ktext::emulated::{BuiltKernel, Plan};

use crate::parse;

/// The machine.
#[derive(Debug, clap::Args)]
pub(super) struct MachineArgs {
    /// Boot the kernel in this directory, which has bzImage, System.map, modules and liblocality.so, as
    /// make kernel leaves them. Default: the one that make kernel has built.
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,

    /// Number of NUMA nodes of the emulated machine. Default: 2.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=8))]
    nodes: Option<u32>,

    /// CPUs of each of its nodes. Default: 2.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16))]
    cpus: Option<u32>,

    /// Memory of each of its nodes. Default: 256M.
    #[arg(long, value_name = "SIZE", value_parser = parse::memory_mib)]
    node_memory: Option<u64>,

    /// Words to add to the kernel's command line.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Option<String>,

    /// Time for each step at most, such as 10m.
    #[arg(long, value_parser = parse::duration, value_name = "DURATION", default_value = "10m")]
    pub(super) timeout: Duration,
}

const DEFAULT_NODES: u32 = 2;
const DEFAULT_CPUS: u32 = 2;
const DEFAULT_MEMORY: u64 = 256;

impl MachineArgs {
    /// An option that describes the machine, if one was given.
    pub(super) fn described(&self) -> Option<&'static str> {
        let all = [
            ("--kernel", self.kernel.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--cpus", self.cpus.is_some()),
            ("--node-memory", self.node_memory.is_some()),
            ("--append", self.append.is_some()),
        ];
        let mut given = all.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(option, _)| option)
    }

    /// The kernel.
    pub(super) fn kernel(&self) -> anyhow::Result<BuiltKernel> {
        Ok(BuiltKernel::find(self.kernel.as_deref())?)
    }

    /// The machine.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        Ok(Plan {
            nodes: self.nodes.unwrap_or(DEFAULT_NODES),
            cpus_of_node: self.cpus.unwrap_or(DEFAULT_CPUS),
            memory_of_node: self.node_memory.unwrap_or(DEFAULT_MEMORY),
            cmdline: self.append.clone().unwrap_or_default(),
            counts: false,
        })
    }
}
