//! `brisk crypto config`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use brisk_tools::crypto::config::{
    By, Compared, Facts, Question, Recommendation, Whose, recommend, text, whose,
};
use brisk_tools::crypto::explain::Route;
use brisk_tools::crypto::list::Consumer;
use brisk_tools::crypto::{Algorithm, Implementation, Machine, Origin, metric};
use clap::ValueEnum;

use super::config_check;
use super::consumer::ConsumerOption;
use super::crossover::{CurveArgs, Curves, Outcome, find};
use super::machine::MachineArgs;
use crate::exit;
use crate::output::{Format, printable_line};
use crate::ui::Ui;

/// Kind of the report.
const KIND: &str = "crypto-config";
/// Facts with pieces of configuration begin with it.
const PIECE: &str = "configuration: ";

/// Say whether an offload is worth it, and write the configuration that it needs.
///
/// An offload is worth it where it takes less wall-clock time and less CPU time of the whole system,
/// from a size on that the consumer has; and the consumer must be able to use the driver, as brisk
/// crypto explain says. Then come the pieces of configuration, each with the file that it is for and
/// the measurement as its reason. Otherwise the answer is "Do not", with the figures, and there is
/// nothing to copy. Nothing is written but the report.
///
/// The figures are measured as by brisk crypto crossover, or are of files. Output of openssl speed
/// does not have CPU time of the whole system: nothing is recommended by it, unless --by time. Files
/// are judged by the machine that they name: this one if all that they name is so here; --sysroot
/// says which it is.
///
/// --check FILE proves a configuration of OpenSSL: openssl speed with OPENSSL_CONF=FILE against
/// openssl speed as it is, in interleaved rounds.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0, or 1 if the offload is not worth it or a fact is missing."
)]
pub struct Args {
    /// Figures, and the report.
    #[command(flatten)]
    curves: CurveArgs,

    /// What should use the offload. Default: what was measured.
    #[arg(long, value_enum, value_name = "CONSUMER")]
    consumer: Option<ConsumerOption>,

    /// What decides.
    #[arg(long, value_enum, value_name = "QUANTITY", default_value_t = ByOption::Both)]
    by: ByOption,

    /// Prove the configuration in this file, an openssl.cnf, by measuring without and with it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["from", "implementations", "through", "software", "offload", "consumer", "by", "sysroot"]
    )]
    check: Option<PathBuf>,

    /// Where the offload is to be used.
    #[command(flatten)]
    machine: MachineArgs,
}

/// What decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ByOption {
    /// Wall-clock time and CPU time of the whole system.
    Both,
    /// Wall-clock time.
    Time,
    /// CPU time of the whole system.
    Cpu,
}

impl ByOption {
    const fn by(self) -> By {
        match self {
            Self::Both => By::Both,
            Self::Time => By::Time,
            Self::Cpu => By::Cpu,
        }
    }
}

/// Recommends or proves a configuration.
///
/// # Errors
/// If nothing can be measured or compared, or a file is not what can be proven.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let CurveArgs {
        measure, output, ..
    } = &args.curves;
    if let Some(file) = &args.check {
        return config_check::run(file, measure, output, ui);
    }
    let mut curves = match find(&args.curves, KIND, ui)? {
        Outcome::Found(curves) => *curves,
        Outcome::BySignal(signal) => return Ok(exit::by_signal(signal)),
    };
    let answer = answer(args, &curves)?;
    note(&mut curves, &answer);
    curves.report.save(&curves.file)?;
    match output.format {
        Format::Table => {
            let mut shown = text(&answer);
            for note in &curves.notes {
                shown.push_str(&format!("Note: {}\n", printable_line(note)));
            }
            ui.data(&shown)?;
        }
        _ => output.print(&curves.report, ui)?,
    }
    curves.draw(output, ui)?;
    Ok(if answer.worth.is_from() {
        exit::OK
    } else {
        exit::FOUND
    })
}

fn answer(args: &Args, curves: &Curves) -> anyhow::Result<Recommendation> {
    let first = curves.found.first();
    let first = first.context("the files have no quantity of both implementations")?;
    let offload = implementation(&first.pair.offload.name);
    let algorithm = algorithm(args, curves)?;
    let (machine, whose) = judged(args, curves)?;
    let unseen = match &whose {
        Whose::Theirs(_) => None,
        Whose::NotTheirs(obstacle) => Some(obstacle),
    };
    let route = match (args.consumer, &offload) {
        (Some(consumer), _) => consumer.route(),
        (None, Some(offload)) => usual(offload),
        (None, None) => Route::Openssl,
    };
    let compared = curves.found.iter().map(|one| Compared {
        metric: one.pair.metric,
        crossover: one.crossover.clone(),
    });
    let compared: Vec<Compared> = compared.collect();
    let node = match unseen {
        Some(_) => None,
        None => fs::metadata(args.machine.root().join("dev/crypto")).ok(),
    };
    let mut answer = recommend(&Question {
        machine: &machine,
        unseen,
        algorithm,
        route,
        offload: offload.as_ref(),
        compared: &compared,
        by: args.by.by(),
        facts: &facts(args, curves, &first.pair.offload.name),
        cryptodev_mode: node.map(|node| node.permissions().mode()),
    });
    if let Whose::Theirs(Some(remark)) = whose {
        answer.remarks.insert(0, remark);
    }
    Ok(answer)
}

/// The machine of the figures: what can be looked at, if that is theirs.
fn judged(args: &Args, curves: &Curves) -> anyhow::Result<(Machine, Whose)> {
    let CurveArgs { from, measure, .. } = &args.curves;
    let machine = args.machine.look(true)?;
    let is_named = args.machine.sysroot.is_some();
    if from.is_empty() && measure.through.is_none() && !is_named {
        return Ok((machine, Whose::Theirs(None)));
    }
    let here = Origin::of_machine(&machine, args.machine.root());
    let whose = whose(&curves.origin, &here, is_named);
    let kernel = curves
        .origin
        .as_ref()
        .ok()
        .and_then(|it| it.kernel.as_deref());
    let machine = match &whose {
        Whose::Theirs(_) => machine,
        Whose::NotTheirs(_) => Machine::elsewhere(kernel),
    };
    Ok((machine, whose))
}

/// Implementation of a curve's name: brisk's, or `aes-128-cbc, engine afalg` of openssl speed.
fn implementation(name: &str) -> Option<Implementation> {
    let of_brisk = name.parse().ok();
    of_brisk.or_else(|| {
        let (_, rest) = name.split_once(", ")?;
        let (kind, name) = rest.split(", ").next()?.split_once(' ')?;
        match kind {
            "engine" | "provider" => format!("{kind}:{name}").parse().ok(),
            _ => None,
        }
    })
}

/// Algorithm of the figures.
fn algorithm(args: &Args, curves: &Curves) -> anyhow::Result<&'static Algorithm> {
    let CurveArgs { from, measure, .. } = &args.curves;
    // Figures about others are left out.
    if from.is_empty() || measure.algorithm.is_some() {
        return Ok(measure.algorithm());
    }
    let mut known: Vec<&Algorithm> = Vec::new();
    for algorithm in curves
        .algorithms
        .iter()
        .filter_map(|name| Algorithm::find(name))
    {
        if !known.contains(&algorithm) {
            known.push(algorithm);
        }
    }
    // Reports of brisk crypto crossover have the names of openssl speed.
    let of_name = || {
        let name = &curves.found.first()?.pair.software.name;
        Algorithm::find(name.split(", ").next()?)
    };
    ensure!(
        known.len() < 2,
        "the files are about several algorithms: {}; name one before --from",
        curves.algorithms.join(", ")
    );
    let found = known.first().copied().or_else(of_name);
    found.context(
        "the files do not say which algorithm they are about, or it is none that brisk knows: name \
         it before --from",
    )
}

/// The consumer whose way was measured.
fn usual(offload: &Implementation) -> Route {
    match offload {
        Implementation::AfAlg | Implementation::Driver(_) => Route::Kernel(Consumer::AfAlg),
        Implementation::DmCrypt(_) => Route::Kernel(Consumer::DmCrypt),
        Implementation::Ktls => Route::Kernel(Consumer::Ktls),
        _ => Route::Openssl,
    }
}

fn facts(args: &Args, curves: &Curves, offload: &str) -> Facts {
    let fact = |name: &str| curves.facts.get(name).cloned();
    let names = args
        .curves
        .from
        .iter()
        .map(|path| path.display().to_string());
    let source = match args.curves.from.is_empty() {
        true => format!("the report {}", curves.file.display()),
        false => names.collect::<Vec<_>>().join(" and "),
    };
    // The sizes are not sorted as names: the proof of the largest counts.
    let prefix = format!("{}{offload} ", metric::PROOF);
    let proofs = curves.facts.iter().filter_map(|(name, proof)| {
        let size = name.strip_prefix(&prefix)?.strip_suffix(" B")?;
        Some((size.parse::<u64>().ok()?, proof))
    });
    let proof = proofs.max_by_key(|(size, _)| *size);
    Facts {
        source,
        openssl: curves
            .origin
            .as_ref()
            .ok()
            .and_then(|it| it.openssl.clone()),
        others: fact(metric::OTHERS).and_then(|text| text.parse().ok()),
        proof: proof.map(|(_, proof)| proof.clone()),
    }
}

/// The answer, in the report.
fn note(curves: &mut Curves, answer: &Recommendation) {
    let report = &mut curves.report;
    report.kind = KIND.to_owned();
    // The facts of the measurement stay with what was concluded from it; what was concluded before
    // does not.
    let measured = curves.facts.iter();
    for (name, value) in measured.filter(|(name, _)| !name.starts_with(PIECE)) {
        let facts = &mut report.environment.extra;
        facts.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let facts = &mut report.environment.extra;
    facts.insert("worth it".to_owned(), answer.worth.to_string());
    for piece in &answer.pieces {
        facts.insert(format!("{PIECE}{}", piece.place), piece.text.clone());
    }
    let fix = answer.fix.iter().map(|fix| format!("To do: {fix}"));
    let first: Vec<String> = std::iter::once(answer.headline.clone())
        .chain(fix)
        .collect();
    report.notes.splice(0..0, first);
    report.notes.extend(answer.remarks.iter().cloned());
}
