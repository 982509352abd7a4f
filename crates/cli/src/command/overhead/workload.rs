//! Options of `brisk overhead run` that choose the workload.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use brisk_host::files;
use brisk_host::interrupt::Interrupt;
use brisk_tools::overhead::{self, Config, FLAGS, Kernel, Source, TINY, UNITS, Workload};
use brisk_vm::cache::Cache;
use clap::ValueEnum;

use crate::ui::Ui;

/// Most bytes of a configuration of a kernel; that of a distribution has less than 1 MiB.
const LARGEST: u64 = 16 << 20;

/// Choice of the workload that is run in every target.
#[derive(Debug, clap::Args)]
pub(super) struct WorkloadArgs {
    /// Workload.
    #[arg(long, value_enum, default_value_t = Kind::Compile)]
    workload: Kind,

    /// Number of units that the workload compile compiles.
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    units: usize,

    /// Source of the workload kernel: the top directory of a clean one, or an archive. Default:
    /// Debian's package linux-source.
    #[arg(long, value_name = "PATH")]
    tree: Option<PathBuf>,

    /// Configuration of the workload kernel: a target of make, such as defconfig or allmodconfig,
    /// or a file.
    #[arg(long, value_name = "TARGET|FILE", default_value = TINY)]
    config: String,

    /// Jobs of make in the workload kernel. Default: as many as processors of --cpus.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Target of make in the workload kernel, such as vmlinux or lib/.
    #[arg(long, value_name = "TARGET", default_value = "all")]
    make_target: String,

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
    /// A kernel, by make.
    Kernel,
    /// A command of yours.
    Command,
    /// Single operations, from a system call to a process: what each costs.
    Probe,
}

impl WorkloadArgs {
    /// Whether a kernel is compiled, which takes minutes.
    pub(super) fn is_kernel(&self) -> bool {
        matches!(self.workload, Kind::Kernel)
    }

    /// Makes the workload for so many processors; what is to be compiled if the cache has none.
    /// The signals are watched for as long as the workload may have files to remove.
    ///
    /// # Errors
    /// If options do not fit the workload, or units cannot be made.
    pub(super) fn workload(
        &self,
        processors: usize,
        ui: &Ui,
    ) -> anyhow::Result<(Workload, Interrupt)> {
        let workload = match (self.workload, &self.command) {
            (Kind::Command, Some(command)) => Workload::Command {
                command: command.clone(),
                check: self.check.clone(),
            },
            (Kind::Command, None) => bail!("--workload command needs --command"),
            (_, Some(_)) => bail!("--command is for --workload command"),
            (Kind::Kernel, None) => {
                let (kernel, interrupt) = self.kernel(processors, ui)?;
                return Ok((Workload::Kernel(kernel), interrupt));
            }
            (Kind::Probe, None) => Workload::Probe {
                time: self.probe_time,
            },
            (Kind::Compile, None) => {
                if !(1..=UNITS.len()).contains(&self.units) {
                    bail!("--units {}: there are 1 to {}", self.units, UNITS.len());
                }
                let spinner = ui.spinner("looking for the units to compile");
                let mut progress = |text: &str| ui.note(text);
                let kit = overhead::kit(&Cache::open()?, self.units, &mut progress)?;
                drop(spinner);
                Workload::Compile(kit)
            }
        };
        Ok((workload, watch()?))
    }

    fn kernel(&self, processors: usize, ui: &Ui) -> anyhow::Result<(Kernel, Interrupt)> {
        let named = &self.config;
        let is_target = named.ends_with("config") && !named.contains(['/', '.']);
        let config = if is_target {
            Config::Target(named.clone())
        } else {
            let content = files::read_regular(Path::new(named), LARGEST).with_context(|| {
                format!("--config {named}: neither a file nor a target such as {TINY}")
            })?;
            Config::Text(content)
        };
        let spinner = ui.spinner("looking for the kernel to compile");
        let (source, interrupt) = match &self.tree {
            Some(path) => {
                let interrupt = watch()?;
                (Source::at(path, &interrupt)?, interrupt)
            }
            None => {
                let mut progress = |text: &str| ui.note(text);
                let source = Source::of_debian(&Cache::open()?, named == TINY, &mut progress)?;
                (source, watch()?)
            }
        };
        drop(spinner);
        let kernel = Kernel {
            source,
            config,
            jobs: self.jobs.map_or(processors, usize::from),
            goal: self.make_target.clone(),
        };
        Ok((kernel, interrupt))
    }
}

fn watch() -> anyhow::Result<Interrupt> {
    Interrupt::by_signals().context("cannot watch for signals")
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
        Workload::Kernel(kernel) => {
            let goal = &kernel.goal;
            fact("workload", format!("kernel: make -j{} {goal}", kernel.jobs));
            fact("kernel", kernel.source.name.clone());
            let config = match &kernel.config {
                Config::Target(target) => target.clone(),
                Config::Text(text) => {
                    let hash = brisk_vm::cache::key(text);
                    format!("of a file ({})", hash.get(..16).unwrap_or(&hash))
                }
            };
            fact("configuration", config);
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
