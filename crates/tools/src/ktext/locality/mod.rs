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

use super::emulated::{BuiltKernel, EmulationError, FILES, Machine, Plan, Plugin};
use super::worker::{Step, WorkerError};
use super::{FormatError, modules};
use brisk_host::interrupt::Interrupt;
use matrix::Ranges;

/// Function that is called when the file of the switch is read.
const MARK: &str = "active_get";
/// Reason of an answer about a file that is not there (`ENOENT`).
const NO_FILE: &str = "No such file or directory";

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
    /// Whether the kernel replicates modules, which were loaded: else their code is not counted apart.
    pub has_modules: bool,
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
    /// A file of the guest's, or the plugin's table.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The plugin saw other marks than were made.
    #[error(
        "{MARK} of the kernel was called {found} times instead of {expected}: what was counted is not \
         what was done between the marks"
    )]
    Marks {
        /// Marks that it saw.
        found: u32,
        /// Marks that were made.
        expected: u32,
    },
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
    let symbols = symbols::symbols(&request.kernel.map()?, request.with_rodata);
    let symbols = symbols.map_err(|reason| LocalityError::Symbols {
        kernel: request.kernel.directory().display().to_string(),
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
    let (qemu, release) = (machine.emulator.clone(), machine.release.clone());
    for name in request.kernel.loaded() {
        machine.step(&Step::Module(name))?;
    }
    let work = Step::Work {
        cpus: (0..plan.all_cpus()).collect(),
        times: request.turns,
    };
    let mut sides = Vec::new();
    let mut has_modules = true;
    for (on, stage) in [(true, Stage::With), (false, Stage::Without)] {
        progress(stage);
        machine.step(&Step::Switch(on))?;
        // A section ends at each mark: the work is in the ones that every second of them ends.
        machine.step(&Step::Mark)?;
        machine.step(&work)?;
        machine.step(&Step::Mark)?;
        let ranges = match machine.show(&format!("{FILES}/modules")) {
            Ok(text) => Ranges::of(&modules::parse(&text)?),
            // It replicates no modules.
            Err(EmulationError::Worker(WorkerError::Refused(reason)))
                if reason.contains(NO_FILE) =>
            {
                has_modules = false;
                Ranges::default()
            }
            Err(error) => return Err(error.into()),
        };
        sides.push(ranges);
    }
    let table = machine.off()?;
    let rows = counts::rows(&table)?;
    // A section ends at each mark, and the last one at the machine's end.
    let found = rows.iter().map(|row| row.section).max().unwrap_or(0);
    let expected = 2 * sides.len() as u32;
    if found != expected {
        return Err(match found {
            0 => LocalityError::Nothing,
            _ => LocalityError::Marks { found, expected },
        });
    }
    let side = |(place, ranges): (usize, &Ranges)| {
        let section = 2 * place as u32 + 1;
        let own = rows.iter().filter(|row| row.section == section);
        Side::of(plan, own, ranges)
    };
    let sides: Vec<_> = sides.iter().enumerate().map(side).collect();
    let Ok([with, without]) = <[Side; 2]>::try_from(sides) else {
        return Err(LocalityError::Nothing);
    };
    if with.text().total() == 0 || without.text().total() == 0 {
        return Err(LocalityError::Nothing);
    }
    Ok(Locality {
        plan: plan.clone(),
        turns: request.turns,
        qemu,
        release,
        has_modules,
        with,
        without,
    })
}
