//! `brisk crypto explain`.

use std::fmt::Write;
use std::path::Path;

use anyhow::{bail, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_lint::Finding;
use brisk_measure::render::{clean, columns};
use brisk_tools::crypto::explain::rules::figures;
use brisk_tools::crypto::explain::{
    Answer, Answered, Explanation, Subject, explain, offload, routes,
};
use brisk_tools::crypto::{ALGORITHMS, Algorithm, Machine, NotMeasured, SIZES, Trial};

use super::Form;
use super::consumer::ConsumerOption;
use super::machine::{MachineArgs, this_machine};
use crate::exit;
use crate::output::printable;
use crate::ui::Ui;

/// Explain why a device for cryptography is not used.
///
/// Looks at one thing after another, from the device to OpenSSL: device, module, algorithm,
/// self-test, consumer, flags, af_alg_restrict, capability, priority, size of the key, software in
/// the place of the device, OpenSSL, FIPS. The first that is in the way is the cause. At the end are
/// figures of other programs that mislead on this machine. Instructions of the CPU, such as AES-NI,
/// are no device. Without --try nothing is loaded or changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit status: 0, or 1 if no device is known to be used.")]
pub struct Args {
    /// Algorithm with the size of its key, by OpenSSL's or the kernel's name.
    #[arg(value_name = "ALG", default_value = "aes-128-cbc")]
    pub algorithm: String,

    /// What should use a device. Default: a line for each of them.
    #[arg(long, value_enum, value_name = "CONSUMER")]
    pub consumer: Option<ConsumerOption>,

    /// Use the driver of a device, by AF_ALG, for two seconds: does its device do the work, and from
    /// which size?
    ///
    /// Drivers may hand requests to software, such as small ones. Requests of 16 to 65536 bytes are
    /// encrypted, and interrupts of the device tell who did them.
    #[arg(long = "try")]
    pub is_tried: bool,

    /// Where to look.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Format of the explanation.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub format: Form,
}

/// Explains; the result is the exit status.
///
/// # Errors
/// If the algorithm is not known, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let Some(algorithm) = Algorithm::find(&args.algorithm) else {
        let known: Vec<_> = ALGORITHMS.iter().map(|one| one.name).collect();
        bail!(
            "the algorithm {} is not known; try one of {}",
            args.algorithm,
            known.join(", ")
        );
    };
    ensure!(
        !args.is_tried || args.machine.root() == Path::new("/"),
        "--try uses a driver of this machine, and --sysroot names another: leave one of them out"
    );
    let machine = args.machine.look(true)?;
    let trial = match tried(args.is_tried, &machine, algorithm, ui) {
        Ok(trial) => trial,
        Err(NotMeasured::Interrupted(signal)) => return Ok(exit::by_signal(signal)),
        Err(error) => return Err(error.into()),
    };
    let asked = match args.consumer {
        Some(one) => vec![one.route()],
        None => routes(),
    };
    let explanations: Vec<_> = asked
        .into_iter()
        .map(|route| {
            explain(&Subject {
                machine: &machine,
                algorithm,
                route,
                trial: trial.as_ref(),
            })
        })
        .collect();
    let figures = figures(&machine);
    match args.format {
        Form::Json => {
            let value = serde_json::json!({
                "schema": "brisk.crypto.explain/1",
                "kernel": Some(&machine.kernel.release).filter(|release| !release.is_empty()),
                "explanations": explanations,
                "figures": figures,
            });
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Form::Table => ui.data(&text(&machine, &explanations, &figures))?,
    }
    let is_used = explanations.iter().any(|one| one.is_used == Answer::Yes);
    Ok(if is_used { exit::OK } else { exit::FOUND })
}

/// What the driver of a device does, if that is to be tried and there is one.
fn tried(
    is_tried: bool,
    machine: &Machine,
    algorithm: &'static Algorithm,
    ui: &Ui,
) -> Result<Option<Trial>, NotMeasured> {
    if !is_tried {
        return Ok(None);
    }
    let driver = match offload(machine, algorithm) {
        Some(driver) if driver.is_tested => driver,
        Some(driver) => {
            ui.note(&format!(
                "nothing was tried: the self-test of {} has not passed",
                driver.driver
            ));
            return Ok(None);
        }
        None => {
            ui.note(&format!(
                "nothing was tried: no driver of a device has {}",
                algorithm.kernel
            ));
            return Ok(None);
        }
    };
    let bar = ui.bar(SIZES.len() as u64, "");
    let mut worker = this_machine(Interrupt::by_signals()?)
        .map_err(|error| NotMeasured::Failed(format!("{error:#}")))?;
    let mut done = 0;
    let root = Path::new("/");
    let trial = Trial::of(&mut worker, root, driver, algorithm, |bytes| {
        bar.say(&format!("{bytes} bytes by {}", printable(&driver.driver)));
        bar.at(done);
        done += 1;
    });
    trial.map(Some)
}

fn text(machine: &Machine, explanations: &[Explanation], figures: &[Finding]) -> String {
    let mut text = format!("{}\n", clean(&machine.kernel.title()));
    match explanations {
        [one] => text.push_str(&steps(one)),
        all => text.push_str(&overview(all)),
    }
    if !figures.is_empty() {
        text.push_str("\nFigures that do not mean what they seem here:\n");
    }
    for figure in figures {
        let lines = format!(
            "{} [{}]\n    because: {}\n    instead: {}",
            figure.what, figure.rule, figure.effect, figure.fix
        );
        for line in lines.lines() {
            let _ = writeln!(text, "{}", clean(line));
        }
    }
    text
}

/// All steps of one consumer.
fn steps(one: &Explanation) -> String {
    let rows = one.steps.iter().map(|step| {
        vec![
            step.id.to_owned(),
            step.outcome.answer.name().to_owned(),
            step.outcome.looked_at.clone(),
        ]
    });
    let head = ["step", "answer", "looked at"];
    let mut text = format!(
        "{} by {}\n\n{}\n",
        one.algorithm,
        one.consumer,
        columns(&head, rows)
    );
    match (one.cause(), one.is_used) {
        (Some(step), _) => {
            let cause = step.outcome.cause.as_deref().unwrap_or_default();
            let _ = writeln!(text, "No device is used: {}", clean(cause));
            if let Some(fix) = &step.outcome.fix {
                let _ = writeln!(text, "To do: {}", clean(&fix.to_string()));
            }
        }
        (None, Answer::Unknown) => {
            text.push_str("Whether a device is used is not known: see the steps above.\n");
            let missing = one
                .steps
                .iter()
                .filter_map(|step| step.outcome.fix.as_ref());
            for fix in missing {
                let _ = writeln!(text, "To do: {}", clean(&fix.to_string()));
            }
        }
        (None, _) => text.push_str("A device is used.\n"),
    }
    text
}

/// The first step that is in the way, else the first that is not known.
fn cause_of(one: &Explanation) -> Option<&Answered> {
    let mut steps = one.steps.iter();
    let unknown = || steps.find(|step| step.outcome.answer == Answer::Unknown);
    one.cause().or_else(unknown)
}

/// A line for each consumer, and below what to do about each cause.
fn overview(all: &[Explanation]) -> String {
    let algorithm = all.first().map_or("", |one| one.algorithm);
    let rows = all.iter().map(|one| {
        let cause = cause_of(one);
        let why = cause.map(|step| match &step.outcome.cause {
            Some(cause) => cause.clone(),
            None => step.outcome.looked_at.clone(),
        });
        vec![
            one.consumer.to_owned(),
            one.is_used.name().to_owned(),
            cause.map_or("-", |step| step.id).to_owned(),
            why.unwrap_or_default(),
        ]
    });
    let head = ["consumer", "device used", "step", "cause"];
    let mut text = format!("{algorithm}\n\n{}\n", columns(&head, rows));
    let mut shown: Vec<String> = Vec::new();
    for one in all {
        let Some(step) = cause_of(one) else { continue };
        let Some(fix) = &step.outcome.fix else {
            continue;
        };
        let line = format!("{}: {fix}", step.id);
        if !shown.contains(&line) {
            let _ = writeln!(text, "To do about {}", clean(&line));
            shown.push(line);
        }
    }
    text.push_str("--consumer CONSUMER shows all steps.\n");
    text
}
