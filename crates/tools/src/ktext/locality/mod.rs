//! From which node's memory the kernel's instructions are fetched, in an emulated machine: with
//! replication, and without it in the same boot.

mod counts;
mod draw;
mod matrix;
mod symbols;
mod text;

use std::time::Duration;

use brisk_vm::cache::Cache;

pub use draw::panels;
pub use matrix::{Fetched, Matrix, Residue, Side};
pub use text::{json, text};

use super::emulated::{BuiltKernel, EmulationError, Machine, Plan, Plugin};
use super::stats::Stats;
use super::worker::Step;
use super::{FormatError, modules};
use crate::interrupt::Interrupt;
use matrix::Ranges;

/// Directory of the kernel's files in the guest.
const FILES: &str = "/sys/kernel/debug/ktext_repl";
/// Function that is called when the file of the switch is read.
const MARK: &str = "active_get";

/// What to count, and how.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The kernel.
    pub kernel: &'a BuiltKernel,
    /// The machine. Its CPUs run at once.
    pub plan: Plan,
    /// How often each CPU does the work.
    pub turns: u32,
    /// Whether loads from read-only data are counted, too, which takes longer.
    pub with_rodata: bool,
    /// Time for each step at most.
    pub limit: Duration,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Locality {
    /// The machine.
    pub plan: Plan,
    /// How often each CPU did the work.
    pub turns: u32,
    /// Version of the QEMU.
    pub qemu: String,
    /// Release of the guest's kernel.
    pub release: String,
    /// With replication.
    pub with: Side,
    /// Without it.
    pub without: Side,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum LocalityError {
    /// The machine.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// The kernel's symbols.
    #[error("cannot use the System.map of {kernel}: {reason}")]
    Symbols {
        /// Directory of the kernel.
        kernel: String,
        /// The mistake.
        reason: String,
    },
    /// The kernel has no replication.
    #[error(
        "the kernel in {0} has no replication of its text, or no debugfs: build it with make kernel"
    )]
    NotBuilt(String),
    /// It has, and does not replicate.
    #[error("the guest's kernel does not replicate its text: {0}")]
    Off(String),
    /// A file of the guest's, or the plugin's table.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The plugin did not see the marks.
    #[error(
        "nothing was counted between the marks: {MARK} of the kernel is not called, or inlined"
    )]
    Nothing,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The machine boots.
    Boots,
    /// The work is done with replication.
    With,
    /// It is done without.
    Without,
}

impl Stage {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boots => "booting",
            Self::With => "counting with replication",
            Self::Without => "counting without replication",
        }
    }
}

/// Counts. The machine is gone afterwards.
///
/// # Errors
/// If there is no such machine, its kernel does not replicate, or somebody interrupts.
pub fn locality(
    request: &Request<'_>,
    cache: &Cache,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Stage),
) -> Result<Locality, LocalityError> {
    let directory = || request.kernel.directory().display().to_string();
    let symbols = symbols::symbols(&request.kernel.map()?, request.with_rodata);
    let symbols = symbols.map_err(|reason| LocalityError::Symbols {
        kernel: directory(),
        reason,
    })?;
    let plugin = Plugin {
        symbols: &symbols,
        mark: MARK,
    };
    progress(Stage::Boots);
    let plan = &request.plan;
    let mut machine = Machine::start(
        plan,
        request.kernel,
        Some(plugin),
        cache,
        request.limit,
        interrupt,
    )?;
    let qemu = machine.emulator.clone();
    let stats = show(&mut machine, "stats").map_err(|_| LocalityError::NotBuilt(directory()))?;
    let stats = Stats::parse(&stats)?;
    if let Some(reason) = stats.off_reason {
        return Err(LocalityError::Off(reason));
    }
    for name in request.kernel.loaded() {
        machine.step(&Step::Module(name))?;
    }
    let work = Step::Work {
        cpus: (0..plan.all_cpus()).collect(),
        times: request.turns,
    };
    let mut marks = 0;
    let mut sides = Vec::new();
    for (on, stage) in [(true, Stage::With), (false, Stage::Without)] {
        progress(stage);
        machine.step(&Step::Switch(on))?;
        // A section ends at each mark: the work is in the one that the second of them ends.
        machine.step(&Step::Mark)?;
        machine.step(&work)?;
        machine.step(&Step::Mark)?;
        marks += 2;
        let ranges = match show(&mut machine, "modules") {
            Ok(text) => Ranges::of(&modules::parse(&text)?),
            // It replicates no modules.
            Err(EmulationError::Worker(_)) => Ranges::default(),
            Err(error) => return Err(error.into()),
        };
        sides.push((on, marks - 1, ranges));
    }
    let release = machine.step(&Step::Show("/proc/sys/kernel/osrelease"))?;
    let table = machine.off()?;
    let side = |(_, section, ranges): &(bool, u32, Ranges)| {
        let rows = counts::rows(&table, &[*section])?;
        Ok::<_, FormatError>(Side::of(plan, &rows, ranges))
    };
    let [with, without] = &sides[..] else {
        return Err(LocalityError::Nothing);
    };
    let (with, without) = (side(with)?, side(without)?);
    if with.text().total() == 0 || without.text().total() == 0 {
        return Err(LocalityError::Nothing);
    }
    Ok(Locality {
        plan: plan.clone(),
        turns: request.turns,
        qemu,
        release: release.lines.concat(),
        with,
        without,
    })
}

/// A file of the kernel's, in the guest.
fn show(machine: &mut Machine<'_>, file: &str) -> Result<String, EmulationError> {
    let answer = machine.step(&Step::Show(&format!("{FILES}/{file}")))?;
    Ok(answer.lines.join("\n") + "\n")
}
