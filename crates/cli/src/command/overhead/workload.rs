//! Options of `brisk overhead run` that choose the workload.

use std::collections::BTreeMap;

use anyhow::bail;
use brisk_tools::overhead::{self, FLAGS, UNITS, Workload};
use brisk_vm::cache::Cache;
use clap::ValueEnum;

use crate::ui::Ui;

/// Choice of the workload that is run in every target.
#[derive(Debug, clap::Args)]
pub(super) struct WorkloadArgs {
    /// Workload.
    #[arg(long, value_enum, default_value_t = Kind::Compile)]
    workload: Kind,

    /// Number of units that the workload compile compiles.
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    units: usize,

    /// Command of the workload command, for a shell.
    #[arg(long, value_name = "COMMAND", required_if_eq("workload", "command"))]
    command: Option<String>,

    /// Command that succeeds if the workload command did what it should; it is not timed.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    check: Option<String>,

    /// Milliseconds that the workload probe takes for one operation.
    #[arg(long, default_value_t = 120, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    probe_time: u32,
}

/// Values of [`WorkloadArgs::workload`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Kind {
    /// Units of a kernel, compiled one after another.
    Compile,
    /// A command of yours.
    Command,
    /// Single operations, from a system call to a process: what each costs.
    Probe,
}

impl WorkloadArgs {
    /// Makes the workload; the units to compile if the cache has none.
    ///
    /// # Errors
    /// If options do not fit the workload, or units cannot be made.
    pub(super) fn workload(&self, ui: &Ui) -> anyhow::Result<Workload> {
        match (self.workload, &self.command) {
            (Kind::Command, Some(command)) => Ok(Workload::Command {
                command: command.clone(),
                check: self.check.clone(),
            }),
            (Kind::Command, None) => bail!("--workload command needs --command"),
            (_, Some(_)) => bail!("--command is for --workload command"),
            (Kind::Probe, None) => Ok(Workload::Probe {
                time: self.probe_time,
            }),
            (Kind::Compile, None) => {
                if !(1..=UNITS.len()).contains(&self.units) {
                    bail!("--units {}: there are 1 to {}", self.units, UNITS.len());
                }
                let spinner = ui.spinner("looking for the units to compile");
                let mut progress = |text: &str| ui.note(text);
                let kit = overhead::kit(&Cache::open()?, self.units, &mut progress)?;
                drop(spinner);
                Ok(Workload::Compile(kit))
            }
        }
    }
}

/// Facts that describe the workload, by name.
pub(super) fn facts(workload: &Workload) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut fact = |name: &str, value: String| facts.insert(name.to_owned(), value);
    match workload {
        Workload::Compile(kit) => {
            fact("workload", format!("compile {} units", kit.units.len()));
            fact("units of", kit.source.clone());
            fact("compiler options", FLAGS.into());
        }
        Workload::Command { command, check } => {
            fact("workload", command.clone());
            if let Some(check) = check {
                fact("check", check.clone());
            }
        }
        Workload::Probe { time } => {
            fact("workload", format!("probe, {time} ms for each operation"));
            fact("clock of the operations", "the target's own".into());
        }
    }
    facts
}
