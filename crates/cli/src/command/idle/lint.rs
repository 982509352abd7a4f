//! `brisk idle lint`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use brisk_lint::{Finding, Severity};
use brisk_tools::idle::measure::Options;
use brisk_tools::idle::rules::{GuestOs, descriptions};
use brisk_tools::idle::text::Text;
use serde::{Serialize, Serializer};

use super::all::{all, uuid};
use super::causes::Causes;
use super::description::{Described, Guests};
use super::listing::{Baseline, edit, table};
use super::sarif;
use super::target::{of_domain, of_process, with_roles};
use super::watch::watch;
use crate::command::rules;
use crate::exit;
use crate::parse;
use crate::ui::Ui;

/// Its name.
const COMMAND: &str = "brisk idle lint";

/// Find what keeps idle guests awake, with the reason and the fix of each.
///
/// Nothing is started and nothing is changed. A guest is the XML of a libvirt domain, a command
/// line of QEMU, or a QEMU that runs. Each finding has the name of its rule: --explain shows what is
/// known of it, and brisk idle fix makes the change.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0, or 1 if something was found that --fail-on counts; 125 if a \
                       guest could not be read, which a message names.",
    group = clap::ArgGroup::new("whole").args(["all", "explain", "rules"])
)]
pub struct Args {
    #[command(flatten)]
    guests: Guests,

    /// All domains of libvirt's, and all QEMUs that run.
    #[arg(long, conflicts_with_all = ["files", "domain", "vm", "pid", "qemu_command"])]
    all: bool,

    /// Measure the guests that run, as brisk idle measure does, and show what speaks for a finding.
    #[arg(long, conflicts_with_all = ["files", "qemu_command", "explain", "rules"])]
    measure: bool,

    /// How long to measure.
    #[arg(
        long,
        value_parser = parse::duration, value_name = "DURATION",
        default_value = "30s",
        requires = "measure"
    )]
    time: Duration,

    /// Longest wait until the guests have settled; 0 measures at once.
    #[arg(
        long,
        value_parser = parse::duration_or_zero, value_name = "LIMIT",
        default_value = "60s",
        requires = "measure"
    )]
    settle: Duration,

    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Least severity that makes the exit status 1.
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Medium)]
    fail_on: FailOn,

    /// Only findings of these rules.
    #[arg(long = "rule", value_name = "RULE")]
    only: Vec<String>,

    /// Leave out what an earlier brisk idle lint --format json wrote to this file: of each guest as
    /// many findings of a rule as it had.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Show what is known of a rule.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,

    /// List the rules.
    #[arg(long)]
    rules: bool,
}

/// Forms of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
    /// SARIF 2.1.0, for continuous integration.
    Sarif,
}

/// Severities that a command may fail on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// More than 2 % of a CPU, or 200 wakeups a second.
    High,
    /// Less, all the time.
    Medium,
    /// Little, or only now and then.
    Low,
    /// Anything.
    Note,
    /// Nothing.
    Never,
}

impl FailOn {
    fn counts(self, severity: Severity) -> bool {
        let least = match self {
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
            Self::Note => Severity::Note,
            Self::Never => return false,
        };
        severity <= least
    }
}

/// A guest and its findings.
#[derive(Debug, Serialize)]
pub(super) struct Linted {
    /// File, domain or process.
    pub(super) guest: String,
    /// The file, if it is one.
    #[serde(skip)]
    pub(super) file: Option<PathBuf>,
    /// What describes it: `xml`, `command-line`, `process` or `vm`.
    kind: &'static str,
    /// Number of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Its UUID, of a domain or a command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<String>,
    /// Its operating system, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<&'static str>,
    /// Version of its QEMU, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    qemu: Option<String>,
    /// What its QEMU takes of a CPU, in percent, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_percent: Option<f64>,
    /// The findings, the worst first.
    #[serde(serialize_with = "with_fixable")]
    pub(super) findings: Vec<Finding>,
    /// Words of its command line, if it is one.
    #[serde(skip)]
    pub(super) words: Vec<OsString>,
}

/// Version of the form of findings.
pub(super) const SCHEMA: &str = "brisk.idle.lint/1";

/// A finding, and whether brisk idle fix makes the change without being asked for the rule.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    fixable: bool,
}

fn with_fixable<S: Serializer>(findings: &[Finding], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(findings.iter().map(|finding| Listed {
        finding,
        fixable: edit(finding).is_some(),
    }))
}

/// Looks.
///
/// # Errors
/// If a guest cannot be read, or nothing can be printed. Of several files, the others are looked at.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    if args.rules {
        ui.data(&rules::list(&descriptions(), 16))?;
        return Ok(exit::OK);
    }
    if let Some(id) = &args.explain {
        let rule = rules::find(&descriptions(), id, COMMAND)?;
        ui.data(&rules::explanation(&rule))?;
        return Ok(exit::OK);
    }
    for rule in &args.only {
        known(rule)?;
    }
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut failed = false;
    let spinner = ui.spinner("looking");
    let guests = match args.all {
        true => {
            let all = all(&args.guests, ui)?;
            failed = all.is_partial;
            all.guests
        }
        false if args.guests.is_empty() => vec![args.guests.one()?],
        false if !args.guests.files.is_empty() => {
            let files = args.guests.files.iter();
            let read = files.filter_map(|path| match args.guests.of_file(path) {
                Ok(guest) => Some(guest),
                Err(error) => {
                    ui.error(&error);
                    failed = true;
                    None
                }
            });
            read.collect()
        }
        false => args.guests.read()?,
    };
    drop(spinner);
    let guests = match args.measure {
        true => match measured(guests, args, ui)? {
            Ok(guests) => guests,
            Err(status) => return Ok(status),
        },
        false => guests,
    };
    let linted = guests.into_iter().map(|guest| linted(guest, &args.only));
    let mut linted = linted.collect::<anyhow::Result<Vec<_>>>()?;
    let accepted = baseline.map_or(0, |baseline| baseline.leave_out(&mut linted));
    match args.format {
        Format::Table if failed && linted.is_empty() => {}
        Format::Table => ui.data(&table(&linted, accepted))?,
        Format::Json => {
            let value =
                serde_json::json!({ "schema": SCHEMA, "host": host_name(), "guests": linted });
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Format::Sarif => {
            let value = sarif::log(&linted, &descriptions());
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    let mut findings = linted.iter().flat_map(|guest| &guest.findings);
    if failed {
        return Ok(exit::BRISK);
    }
    let fails = findings.any(|finding| args.fail_on.counts(finding.severity));
    Ok(if fails { exit::FOUND } else { exit::OK })
}

/// Name of this host.
fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Refuses a name that is not a rule's.
pub(super) fn known(rule: &str) -> anyhow::Result<()> {
    rules::find(&descriptions(), rule, COMMAND).map(drop)
}

fn linted(guest: Described, only: &[String]) -> anyhow::Result<Linted> {
    let findings = guest.context.findings(&guest.text);
    let mut findings = findings.with_context(|| format!("cannot read {}", guest.name))?;
    findings.retain(|finding| only.is_empty() || only.iter().any(|rule| rule == finding.rule));
    let subject = guest
        .text
        .hardware()
        .map(|hardware| guest.context.subject(hardware));
    let subject = subject.with_context(|| format!("cannot read {}", guest.name))?;
    let domain = guest.domain.as_ref().map(|domain| domain.uuid().to_owned());
    let named = uuid(&guest.text).and_then(|uuid| uuid.into_string().ok());
    Ok(Linted {
        kind: match (&guest.text, guest.pid) {
            (_, Some(_)) => "process",
            (Text::Xml(_), None) => "xml",
            (Text::Vm { .. }, None) => "vm",
            (Text::Arguments(_), None) => "command-line",
        },
        pid: guest.pid,
        cpu_percent: guest.context.live.as_ref().map(|live| live.cpu),
        uuid: domain.or(named),
        os: match subject.os {
            GuestOs::Windows11 => Some("windows11"),
            GuestOs::Windows => Some("windows"),
            GuestOs::Windows7 => Some("windows7"),
            GuestOs::Linux => Some("linux"),
            GuestOs::Other => Some("other"),
            GuestOs::Unknown => None,
        },
        qemu: subject
            .host
            .qemu
            .map(|(major, minor)| format!("{major}.{minor}")),
        file: guest.file,
        findings,
        words: match guest.text {
            Text::Arguments(words) | Text::Vm { words, .. } => words,
            Text::Xml(_) => Vec::new(),
        },
        guest: guest.name,
    })
}

/// The guests with what is measured of those that run, or the exit status of an interrupted
/// measurement.
fn measured(
    mut guests: Vec<Described>,
    args: &Args,
    ui: &Ui,
) -> anyhow::Result<Result<Vec<Described>, u8>> {
    let options = Options {
        settle: (!args.settle.is_zero()).then_some(args.settle),
        time: Some(args.time),
        connect: args.guests.connect.clone(),
    };
    let mut running = Vec::new();
    for (place, guest) in guests.iter().enumerate() {
        let found = match (&guest.domain, guest.pid) {
            (Some(domain), _) => of_domain(domain.name(), args.guests.connect.as_deref()),
            (None, Some(pid)) => of_process(pid),
            (None, None) => continue,
        };
        match found {
            Ok(found) => running.push((place, with_roles(found))),
            // Of all guests some are off, or end meanwhile.
            Err(_) if args.all => {}
            Err(error) => return Err(error),
        }
    }
    if running.is_empty() {
        ui.note("no guest runs, so nothing is measured");
        return Ok(Ok(guests));
    }
    let found: Vec<_> = running.iter().map(|(_, guest)| guest.clone()).collect();
    let watched = watch(&found, &options, &Causes::of(&found), ui)?;
    if let Some(signal) = watched.signal {
        ui.note("interrupted");
        return Ok(Err(exit::by_signal(signal)));
    }
    let measurement = watched.measurement?;
    for (place, guest) in running {
        let mut of = measurement.guests.iter();
        let Some(measured) = of.find(|measured| measured.guest.pid == guest.pid) else {
            continue;
        };
        let context = std::mem::take(&mut guests[place].context);
        guests[place].context = context.with_measured(measured, &measurement.host);
    }
    Ok(Ok(guests))
}
