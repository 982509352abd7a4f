//! `brisk ktext locality`.

use std::path::PathBuf;

use brisk_experiment::environment;
use brisk_host::interrupt::Interrupt;
use brisk_measure::{Report, render};
use brisk_tools::ktext::emulated::EmulationError;
use brisk_tools::ktext::locality::{self, Locality, LocalityError, Request, locality as count};
use brisk_vm::cache::Cache;

use super::emulation::MachineArgs;
use crate::exit;
use crate::output::{self, Form};
use crate::ui::Ui;

/// Share of fetches from the own node that replication is to give.
const WANTED: f64 = 0.99;

/// Count from which node's memory the kernel's instructions are fetched, in an emulated machine.
///
/// A kernel with replication boots in QEMU on a machine of several NUMA nodes. Each CPU does what
/// programs have the kernel do: forks, signals, mappings, opens, reads of /proc, modules that come and
/// go; with replication and, in the same boot, without it. A plugin counts each instruction of the
/// kernel by the node of the CPU and the node of the memory that it was fetched from.
///
/// It needs no machine of several nodes and no root. It shows where instructions come from, not what
/// that costs: an emulated machine has no caches, and its time means nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 with replication at least 99 % of the instructions of resident \
                       text and of modules come from the CPU's own node; 1 fewer do; 125 if nothing was \
                       counted, 130 after Ctrl-C."
)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    /// How often each CPU does the work.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    turns: u32,

    /// Count loads from read-only data, too. It then takes several times as long.
    #[arg(long)]
    read_only_data: bool,

    /// Form of what is printed. JSON has all counts, and every symbol that came from another node.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    /// Draw the counts as a picture (SVG) to this file, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Counts.
///
/// # Errors
/// If there is no such kernel or machine, or nothing can be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let kernel = args.machine.kernel()?;
    let request = Request {
        kernel: &kernel,
        plan: args.machine.plan()?,
        turns: args.turns,
        with_rodata: args.read_only_data,
        limit: args.machine.timeout,
    };
    let interrupt = Interrupt::by_signals()?;
    let mut spinner = None;
    let counted = count(&request, &Cache::open()?, &interrupt, &mut |stage| {
        drop(spinner.take());
        spinner = Some(ui.spinner(stage.name()));
    });
    drop(spinner);
    let counted = match counted {
        Err(LocalityError::Emulation(EmulationError::Interrupted(signal))) => {
            return Ok(exit::by_signal(signal));
        }
        counted => counted?,
    };
    if let Some(path) = &args.svg {
        let mut environment = environment::here();
        environment.guest_kernel = Some(counted.release.clone());
        environment.qemu_version = Some(counted.qemu.clone());
        let report = Report::new("ktext locality", output::now(), environment);
        let svg = render::svg_of_cells(&report, &locality::panels(&counted));
        output::write_whole(path, svg.as_bytes())?;
    }
    match args.format {
        Form::Table => ui.data(&locality::text(&counted))?,
        Form::Json => {
            let value = locality::json(&counted);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(if is_local(&counted) {
        exit::OK
    } else {
        exit::FOUND
    })
}

fn is_local(counted: &Locality) -> bool {
    use locality::Fetched::{Module, Text};
    let is_wanted = |fetched| {
        let matrix = counted.with.counts.get(&fetched);
        matrix
            .and_then(locality::Matrix::share)
            .map(|share| share >= WANTED)
    };
    // A kernel without modules ran no code of them.
    is_wanted(Text) == Some(true) && counted.has_modules && is_wanted(Module) != Some(false)
}
