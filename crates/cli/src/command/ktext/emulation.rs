//! Options of the emulated machine.

use std::path::PathBuf;

use anyhow::Context as _;
use brisk_host::quantity;
use brisk_tools::ktext::emulated::{BuiltKernel, Plan};

/// The machine.
#[derive(Debug, clap::Args)]
pub(super) struct MachineArgs {
    /// Boot the kernel in this directory, which has bzImage, System.map, modules and liblocality.so, as
    /// make kernel leaves them. Default: the one that make kernel has built.
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,

    /// Number of NUMA nodes of the emulated machine.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    nodes: u32,

    /// CPUs of each of its nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    cpus: u32,

    /// Memory of each of its nodes.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    node_memory: String,

    /// Words to add to the kernel's command line.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    append: Option<String>,

    /// Time for each step at most, such as 10m.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(super) timeout: String,
}

impl MachineArgs {
    /// The kernel.
    pub(super) fn kernel(&self) -> anyhow::Result<BuiltKernel> {
        Ok(BuiltKernel::find(self.kernel.as_deref())?)
    }

    /// The machine.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let memory = &self.node_memory;
        let memory_of_node = quantity::memory_mib(memory)
            .with_context(|| format!("--node-memory {memory}: not a size such as 256M"))?;
        Ok(Plan {
            nodes: self.nodes,
            cpus_of_node: self.cpus,
            memory_of_node,
            cmdline: self.append.clone().unwrap_or_default(),
            counts: false,
        })
    }
}
