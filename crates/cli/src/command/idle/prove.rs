//! `brisk idle prove`.

use std::time::Duration;

use brisk_experiment::Saved;
use brisk_experiment::environment;
use brisk_measure::Report;
use brisk_tools::idle::prove::{Error, ProveError, Settings, Start, prove, sides};
use brisk_tools::idle::text::Text;
use brisk_vm::cache::Cache;

use super::description::{Described, Guests};
use super::lint::known;
use crate::command::report::OutputArgs;
use crate::command::vm::named;
use crate::exit;
use crate::output::now;
use crate::parse::{duration, duration_or_zero};
use crate::ui::Ui;

/// Start a guest with and without the changes of brisk idle fix, in turn, and measure it when idle.
///
/// Each round starts the guest as it is, once more as it is, and with the change of each rule that
/// is named, or with all changes; in random order. The boot is the sample: the report has the CPU
/// time and the wakeups of each, how much the guest differs from itself, and a verdict for each
/// change. A command line is started as it is written, so its disks are written to as at any boot:
/// -snapshot keeps them. A domain or VM has to be shut off; libvirt or brisk starts it from the
/// changed definition, and that in its file stays as it is.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    guests: Guests,

    /// Prove the change of this rule by itself.
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,

    /// Rounds; each starts every side once.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Time that the guest has to boot.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "30s")]
    boot: Duration,

    /// Longest wait after that until it has settled.
    #[arg(long, value_parser = duration_or_zero, value_name = "DURATION", default_value = "60s")]
    settle: Duration,

    /// How long it is measured.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "30s")]
    time: Duration,

    /// How long a domain or VM may take to shut down; 0 cuts its power at once.
    #[arg(
        long,
        value_parser = duration_or_zero, value_name = "DURATION",
        default_value = "30s",
        requires = "defined"
    )]
    shutdown: Duration,

    /// Seed of the order of the sides.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

/// Proves.
///
/// # Errors
/// If there is nothing to prove, a guest cannot be started, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    for rule in &args.rules {
        known(rule)?;
    }
    let spinner = ui.spinner("looking");
    let guest = args.guests.one()?;
    drop(spinner);
    let start = start_with(&guest, args)?;
    let text = text(&guest)?;
    let settings = Settings {
        rounds: args.rounds,
        boot: args.boot,
        settle: args.settle,
        time: args.time,
        seed: args.seed,
    };
    let sides = sides(&text, &guest.context, &args.rules)?;
    let file = args.output.file("idle-proof")?;
    let mut report = Report::new("idle-proof", now(), environment::here());
    let names: Vec<_> = sides.iter().map(|side| &*side.name).collect();
    report
        .notes
        .push(format!("{} with {}", guest.name, names.join(", ")));
    let bar = ui.bar(u64::from(args.rounds), "rounds");
    let mut saved = Saved::new(&mut report, &file);
    let proved = prove(
        &text,
        &start,
        &sides,
        &settings,
        &mut saved,
        &mut |progress| {
            bar.at(u64::from(progress.done));
        },
    );
    drop(bar);
    report.save(&file)?;
    match proved {
        Ok(()) => {}
        Err(ProveError::Interrupted(signal)) => {
            ui.note(&format!(
                "interrupted; what there is is in {}",
                file.display()
            ));
            return Ok(exit::by_signal(signal));
        }
        Err(ProveError::Guest(Error::Vm(error))) => return Err(named::explain(error)),
        Err(error) => return Err(error.into()),
    }
    args.output.show(&report, &file, ui)?;
    Ok(exit::OK)
}

fn start_with(guest: &Described, args: &Args) -> anyhow::Result<Start> {
    start(guest, args.shutdown)
}

/// What starts a guest that is off, for a measurement; it may take `patience` to shut down.
pub(super) fn start(guest: &Described, patience: Duration) -> anyhow::Result<Start> {
    if let Some(domain) = &guest.domain {
        return Ok(Start::Domain {
            domain: Box::new(domain.clone()),
            patience,
        });
    }
    if let Some(paths) = &guest.vm {
        if let Some(pid) = brisk_tools::vm::pid(paths) {
            anyhow::bail!(
                "VM {0} runs (process {pid}), and a proof starts and ends it several times; brisk \
                 vm stop {0} ends it first",
                paths.name
            );
        }
        return Ok(Start::Vm {
            paths: Box::new(paths.clone()),
            cache: Cache::open()?,
            patience,
        });
    }
    match &guest.text {
        Text::Xml(_) => anyhow::bail!(
            "a file of XML is not a domain that libvirt has; define it and name it with --domain"
        ),
        _ if guest.pid.is_some() => anyhow::bail!(
            "a guest that runs is not started again; give its command line after --, as brisk \
             idle fix --pid prints it"
        ),
        _ => Ok(Start::Command),
    }
}

/// The description to start from: of a domain with its passwords, as libvirt would start it. Threads
/// have names, so that it can be told which of them is awake.
fn text(guest: &Described) -> anyhow::Result<Text> {
    if let Some(domain) = &guest.domain {
        return Ok(Text::Xml(domain.xml_with_passwords()?));
    }
    if guest.vm.is_some() {
        return Ok(guest.text.clone());
    }
    let named = ["thread-names".to_owned()];
    let wanted = brisk_tools::idle::fix::Wanted { rules: &named };
    let fixed = brisk_tools::idle::fix::fix(guest.text.clone(), &guest.context, wanted)?;
    Ok(fixed.text)
}
