//! `brisk boot tune`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use brisk_tools::boot::analyze::LogPatterns;
use brisk_tools::boot::tune::{
    ABOVE, CANDIDATES, Entry, Settings, Tuned, Verdict, agree, optimisations, plain, tune,
};
use brisk_tools::guest::Profile;
use brisk_vm::cache::Cache;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::super::guest::{GuestArgs, MachineArgs};
use super::super::run_output;
use super::output::stopped;
use super::output::{NO_STATE, write};
use super::target::Until;
use crate::exit;
use crate::output::{Format, now};
use crate::parse::duration;
use crate::ui::Ui;

/// Find the optimisations that make a guest boot quickest on this host.
///
/// brisk starts from QEMU's plain `-M pc` and the kernel as it is installed. It tries each
/// optimisation on top of those that have helped, with boots alternately with and without it, until
/// the result is significant. Optimisations that save time are kept. Those that give up security
/// are refused unless they are allowed. The result is saved as this host's profile, which `brisk
/// run` uses with the same QEMU, kernel and accelerator.
#[derive(Debug, clap::Args)]
#[command(mut_arg("root", |root| root.default_value("none")))]
pub struct Args {
    /// Kernel, root and modules.
    #[command(flatten)]
    pub guest: GuestArgs,

    /// Processors, memory, accelerator.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Milestone at which the measured time ends.
    #[arg(long, value_enum, default_value_t = Until::Exit)]
    pub until: Until,

    /// Time limit of one boot, for example 90, 90s or 5m.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "30s")]
    pub timeout: Duration,

    /// Also try optimisations that give up security of the guest, and use them if they help.
    #[arg(long)]
    pub allow_insecure: bool,

    /// Also try to leave out the initcalls that take most of a boot, one by one.
    ///
    /// The guest loses what these initcalls do, and only --check shows whether that is missed.
    #[arg(long)]
    pub try_initcalls: bool,

    /// Shell command that must succeed in the guest with each optimisation.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "sleep 0.1 && test -r /proc/interrupts"
    )]
    pub check: String,

    /// Show the result and save no profile.
    #[arg(long)]
    pub no_profile: bool,

    /// Format of the ledger.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Write the ledger as JSON to this file.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Compare the verdicts with those of an earlier ledger.
    ///
    /// The exit status is 1 if an optimisation that changes the boot by more than 2 % has another
    /// verdict.
    #[arg(long, value_name = "LEDGER")]
    pub against: Option<PathBuf>,
}

/// The fields of an earlier ledger that are compared.
#[derive(serde::Deserialize)]
struct Earlier {
    schema: String,
    ledger: Vec<Entry>,
}

impl Earlier {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = brisk_host::files::read_regular_text(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let earlier: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no ledger of brisk boot tune", path.display()))?;
        if earlier.schema != SCHEMA {
            bail!(
                "{} is a ledger of {}, not {SCHEMA}",
                path.display(),
                earlier.schema
            );
        }
        Ok(earlier)
    }

    /// Prints the verdicts that differ; whether all verdicts agree on optimisations that change the
    /// boot by more than 2 %.
    fn compare(&self, ledger: &[Entry], ui: &Ui) -> bool {
        let all = agree(&self.ledger, ledger);
        let name = |verdict: Option<Verdict>| verdict.map_or("not tried", Verdict::name);
        for optimisation in all.iter().filter(|optimisation| !optimisation.holds()) {
            let [before, now] = optimisation.verdicts.map(name);
            let small = if optimisation.above {
                ""
            } else {
                " (a small change, or none)"
            };
            ui.note(&format!(
                "{}: {before} before, {now} now{small}",
                optimisation.optimisation
            ));
        }
        let large = all.iter().filter(|optimisation| optimisation.above);
        let (same, other): (Vec<_>, Vec<_>) = large.partition(|optimisation| optimisation.holds());
        ui.note(&format!(
            "{} of {} optimisations that change the boot by more than {} % have the same verdict",
            same.len(),
            same.len() + other.len(),
            ABOVE * 100.0
        ));
        other.is_empty()
    }
}

/// Exit status if a verdict differs from that of the earlier ledger.
const DIFFERS: u8 = 1;

/// Version of the ledger's format.
const SCHEMA: &str = "brisk.tune/1";

#[derive(Serialize)]
struct Ledger<'a> {
    schema: &'static str,
    created: String,
    environment: brisk_measure::Environment,
    ledger: &'a [Entry],
    run: Vec<String>,
    qemu: String,
}

/// Tunes boots; the result is the exit status.
///
/// # Errors
/// If a boot fails, or the ledger or the profile cannot be read or written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    // Before minutes are spent.
    let earlier = args.against.as_deref().map(Earlier::read).transpose()?;
    let kept = match args.no_profile {
        true => None,
        false => Some(Profile::path().context(NO_STATE)?),
    };
    let options = args.machine.options(&args.guest)?;
    let cache = Cache::open()?;
    let settings = Settings {
        until: args.until.tool(),
        timeout: args.timeout,
        allow_insecure: args.allow_insecure,
        try_initcalls: args.try_initcalls,
        markers: LogPatterns::own()?,
        check: vec!["/bin/sh".into(), "-c".into(), args.check.clone()],
    };
    let mut start = plain(&options);
    start.command.words = vec!["true".into()];
    let bar = ui.bar((optimisations().len() + CANDIDATES) as u64, "tuning");
    let mut so_far = Vec::new();
    let mut written = Ok(());
    let result = tune(start, &settings, &cache, &mut |done, name, entry| {
        bar.say(name);
        bar.at(done as u64);
        if let Some(entry) = entry {
            let change = match (saving(entry), &*entry.reason) {
                (Some(saving), _) => format!(", {saving}"),
                (None, "") => String::new(),
                (None, reason) => format!(" ({reason})"),
            };
            bar.above(&format!("{name}: {}{change}", entry.verdict.name()));
            so_far.push(entry.clone());
            // An interrupted run loses nothing.
            if let Some(path) = args.output.as_ref().filter(|_| written.is_ok()) {
                let partial = serde_json::json!({ "schema": SCHEMA, "ledger": so_far });
                written = write(path, &format!("{partial:#}\n"));
            }
        }
    });
    drop(bar);
    written?;
    let tuned = match result {
        Ok(tuned) => tuned,
        Err(error) => return stopped(error, "the profile is as it was", ui),
    };
    let facts = tuned.best.facts();
    let profile = Profile::of(&tuned.best.options, facts);
    let ledger = Ledger {
        schema: SCHEMA,
        created: now(),
        environment: run_output::environment(tuned.best.plan(), facts),
        ledger: &tuned.ledger,
        run: profile.words(),
        qemu: run_output::command_line(tuned.best.plan()),
    };
    let json = serde_json::to_string_pretty(&ledger)? + "\n";
    match args.format {
        Format::Json => ui.data(&json)?,
        Format::Csv => ui.data(&csv(&tuned))?,
        Format::Table => ui.data(&table(&ledger))?,
    }
    if let Some(path) = &args.output {
        write(path, &json)?;
    }
    if let Some(path) = kept {
        let saved = profile.without(&tuned.blind).save(&path);
        saved.context("cannot keep the profile")?;
        ui.note(&format!("profile in {}; brisk run uses it", path.display()));
        if !tuned.blind.is_empty() {
            let blind = tuned.blind.join(" ");
            ui.note(&format!(
                "not in it, because other guests may need what that takes from them: {blind}"
            ));
        }
    }
    let agrees = earlier.is_none_or(|earlier| earlier.compare(&tuned.ledger, ui));
    Ok(if agrees { exit::OK } else { DIFFERS })
}

fn saving(entry: &Entry) -> Option<String> {
    let saving = entry.saving?;
    let interval = entry.interval?;
    Some(format!(
        "{:+.1} ms ({:+.1} to {:+.1} %)",
        -saving * 1e3,
        (interval.low - 1.0) * 100.0,
        (interval.high - 1.0) * 100.0
    ))
}

fn table(ledger: &Ledger<'_>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "optimisation",
        "verdict",
        "change (95 %)",
        "instructions",
        "pairs",
        "what it does",
    ]);
    for entry in ledger.ledger {
        let what = match (&entry.trades, entry.verdict) {
            (Some(trades), Verdict::Kept) => format!("{}; INSECURE: {trades}", entry.what),
            _ if entry.reason.is_empty() => entry.what.clone(),
            _ => format!("{} ({})", entry.what, entry.reason),
        };
        table.add_row([
            entry.optimisation.clone(),
            entry.verdict.name().to_owned(),
            saving(entry).unwrap_or_default(),
            entry.instructions.map_or(String::new(), |ratio| {
                format!("{:+.1} %", (ratio - 1.0) * 100.0)
            }),
            entry.pairs.len().to_string(),
            what,
        ]);
    }
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\n\nbrisk run {}\n\n{}\n",
        run_output::quoted(&ledger.run),
        ledger.qemu
    )
}

fn csv(tuned: &Tuned) -> String {
    let mut text = "optimisation,verdict,ratio,low,high,saving_s,instructions,pairs\n".to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    for entry in &tuned.ledger {
        text.push_str(&format!(
            "{},{},{},{},{},{},{},{}\n",
            entry.optimisation,
            entry.verdict.name(),
            number(entry.ratio),
            number(entry.interval.map(|interval| interval.low)),
            number(entry.interval.map(|interval| interval.high)),
            number(entry.saving),
            number(entry.instructions),
            entry.pairs.len()
        ));
    }
    text
}
