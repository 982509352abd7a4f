//! `brisk overhead run`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use brisk_experiment::Saved;
use brisk_experiment::environment;
use brisk_host::cpu;
use brisk_host::files;
use brisk_measure::Report;
use brisk_measure::render::Lead;
use brisk_tools::idle::host::gather;
use brisk_tools::overhead::{
    self, ANSWER, Ablation, Here, KitError, Options, OverheadError, PROCESSORS, Row, Side, Step,
    Target, Workload, changes, check, explain, go_on, judge, probe, rows, sides,
};
use rustix::system::uname;

use super::table::{self, Findings};
use super::workload::{self, WorkloadArgs};
use super::{fix, operations, picture};
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now, printable};
use crate::parse::duration;
use crate::ui::{Bar, Ui};

/// Kind of the report.
const KIND: &str = "overhead";

/// Run a workload on the host and in other targets in turn, and compare the times.
///
/// Each round runs every target once, in random order, after rounds that do not count (--warmup). The
/// host takes part twice: by what the two differ is noise. All targets are started before, and run
/// on the same processor. Times are taken by the host's clock, CPU time by the host's counters, so
/// that it does not matter what a guest says.
///
/// The workload `compile` compiles units of a kernel that gcc preprocessed once on this host, from
/// Debian's package linux-source; the objects have to be the same everywhere, byte for byte.
///
/// The workload `kernel` compiles a whole kernel by make: each run configures it in a fresh
/// directory and reads all files once before the time begins.
///
/// The workload `probe` measures what single operations cost, such as a system call, a page fault
/// or a process, with a static program that runs in every target. It goes by the target's clock.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure a target: host, command:PREFIX, runc:, gvisor:[PLATFORM or OPTIONS], podman:[OPTIONS]
    /// IMAGE, docker:[OPTIONS] IMAGE, uml:[OPTIONS], brisk:[OPTIONS of brisk run], vm:NAME of a VM
    /// that runs, libvirt:DOMAIN[,via=console|agent|ssh:HOST] of one that runs, or qemu:COMMAND LINE. The
    /// host takes part by itself.
    ///
    /// A shell is started in it by the prefix and `sh`, and gets commands and files on its standard
    /// input. It needs tar, and for the workload compile gcc and sha256sum.
    #[arg(
        long = "target",
        short,
        value_name = "NAME=KIND:ARGUMENTS",
        required_unless_present = "file"
    )]
    targets: Vec<Target>,

    /// Also measure the targets of a TOML file. Each is a table [[target]] with name, kind and
    /// arguments, which are a text as for --target, or a list of words.
    #[arg(long = "targets", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Workload and its options.
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Measure each target once more with one thing changed: thp (no huge pages of the host's),
    /// tmpfs (the work directory on a disk), pinning (all processors), kernel (the host's kernel
    /// in a guest of brisk's, or kernel=FILE), fix (what brisk overhead fix changes of a command
    /// line of QEMU, or fix=RULE+RULE).
    #[arg(long, value_name = "CHANGE", value_delimiter = ',')]
    ablate: Vec<Ablation>,

    /// Make so many rounds that count. Default: 6 to 15, until each ratio is known to --precision.
    /// An interval of 95 % needs six.
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Make so many rounds before these, which do not count. Default: 1, and 0 for the workload
    /// kernel, which takes minutes, and which the host compiles once before all rounds.
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(0..=1000))]
    warmup: Option<u32>,

    /// End when half of the interval of each ratio is at most so wide, in percent of the ratio, or
    /// half as wide as what the host differs from itself by. Default, without --rounds: 1.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    precision: Option<f64>,

    /// Begin no round after so long.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    budget: Option<Duration>,

    /// Count runs, too, in which other programs had the processors for more than 5 % of the time.
    #[arg(long)]
    keep_disturbed: bool,

    /// Explain losses: measure what single operations cost in each target, before the rounds and
    /// after them, and multiply that with how often the work did them.
    #[arg(long)]
    explain: bool,

    /// Go on with the rounds of this report, which was interrupted or is to have more rounds; needs
    /// the options with which it was begun. The report is replaced.
    #[arg(long = "continue", value_name = "FILE", conflicts_with = "output")]
    report: Option<PathBuf>,

    /// Processors of the host that every target runs on, such as 1 or 2-3. Default: the last one
    /// that brisk may use.
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,

    /// Time limit of one run, and of the start of a target.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "10m")]
    timeout: Duration,

    /// Seed of the order of the targets.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

/// Most bytes of a file of targets.
const LARGEST: u64 = 1 << 20;
/// Rounds at most, if their number is not given.
const MOST_ROUNDS: u32 = 15;
/// Half the width of an interval that is narrow enough then, in percent.
const PRECISION: f64 = 1.0;

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(number) if (0.01..=100.0).contains(&number) => Ok(number),
        _ => Err("a number of percent from 0.01 to 100 is wanted".to_owned()),
    }
}

/// Measures.
///
/// # Errors
/// If a target lacks what it needs, the workload fails on the host, or a report cannot be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let here = Here {
        kernel: format!("/boot/vmlinuz-{}", uname().release().to_string_lossy()),
        host: gather(Path::new("/"), None),
    };
    let targets = targets(args)?;
    let (sides, left_out) = sides(&targets, &args.ablate, &here)?;
    measure(args, &targets, &sides, left_out, ui)
}

/// Measures sides, of which targets are described in the report.
pub(super) fn measure(
    args: &Args,
    targets: &[Target],
    sides: &[Side],
    left_out: Vec<String>,
    ui: &Ui,
) -> anyhow::Result<u8> {
    check(sides)?;
    let cpus = processors(args.cpus.as_deref())?;
    let mut options = options(args, cpus)?;
    ensure!(
        !args.explain || options.cpus.len() == 1,
        "--explain adds up the time of one processor, and --cpus names {}: name one",
        options.cpus.len()
    );
    let (workload, interrupt) = match args.workload.workload(options.cpus.len(), ui) {
        Ok(workload) => workload,
        Err(error) => return interrupted(error, ui),
    };
    if args.explain && matches!(workload, Workload::Probe { .. }) {
        bail!("--explain explains another workload by what the workload probe measures; omit it");
    }
    let here = environment::here();
    let facts = facts(args, targets, &workload, &options);
    let names = overhead::names(sides);
    let (mut report, file) = match &args.report {
        None => (Report::new(KIND, now(), here), args.output.file(KIND)?),
        Some(file) => {
            // It is replaced; a pipe would be waited for, and a device has no end.
            let is_other = std::fs::metadata(file).is_ok_and(|it| !it.is_file());
            ensure!(!is_other, "{}: it is not a regular file", file.display());
            let mut report = Report::load(file)?;
            options.first = go_on(&mut report, KIND, &here, &facts, &names)
                .with_context(|| format!("cannot go on with {}", file.display()))?;
            if options.first >= options.rounds {
                let rounds = options.first;
                bail!(
                    "{} has {rounds} rounds already: name more with --rounds",
                    file.display()
                );
            }
            (report, file.clone())
        }
    };
    report.environment.extra.extend(facts);
    let steps = u64::from(options.rounds - options.first) + u64::from(options.warmups);
    let bar = ui.bar(steps, "starting the targets");
    let mut left = None;
    let mut saved = Saved::new(&mut report, &file);
    let measured = overhead::run(
        sides,
        &workload,
        &options,
        &interrupt,
        &mut saved,
        &mut |step| {
            progress(&bar, &mut left, &step);
        },
    );
    drop(bar);
    report.notes.extend(left_out);
    let judged = judge(&report, &names);
    let explained = explain(&report, &names);
    // The changes of a trial are what is measured.
    let has_remedies = measured.is_ok() && sides.iter().all(|side| side.trial.is_none());
    let remedies = match has_remedies {
        true => fix::remedies(targets, &judged, &explained),
        false => Vec::new(),
    };
    let others = answered(&mut report, remedies);
    report.notes.extend(others);
    report.save(&file)?;
    let signal = match measured {
        Ok(()) => None,
        Err(OverheadError::Interrupted(signal)) => Some(signal),
        Err(error) => return Err(error.into()),
    };
    let findings = Findings {
        rows: rows(&report, &names),
        judged,
        changes: changes(&report, sides),
        explained,
    };
    let shown = Shown {
        report: &report,
        findings: &findings,
        is_probe: matches!(workload, Workload::Probe { .. }),
    };
    // What was measured before an interrupt is shown, and so is why nothing was.
    let has_any = findings.rows.iter().any(|row| row.median.is_some());
    if signal.is_none() || has_any {
        shown.print(&args.output, ui)?;
    }
    shown.write(&args.output, &file, ui)?;
    if let Some(signal) = signal {
        let file = brisk_host::program::quote(file.as_os_str());
        ui.note(&format!(
            "interrupted; to go on: the same command with --continue {file}"
        ));
        return Ok(exit::by_signal(signal));
    }
    match unmeasured(&findings.rows) {
        Some(reason) => bail!("no target was measured: {reason}"),
        None => Ok(exit::OK),
    }
}

/// A measurement that has ended.
struct Shown<'a> {
    report: &'a Report,
    findings: &'a Findings,
    is_probe: bool,
}

impl Shown<'_> {
    fn operations(&self) -> (Vec<String>, Vec<probe::Row>) {
        let rows = self.findings.rows.iter();
        let names: Vec<_> = rows.map(|row| row.name.clone()).collect();
        let rows = probe::rows(self.report, &names);
        (names, rows)
    }

    fn print(&self, output: &OutputArgs, ui: &Ui) -> anyhow::Result<()> {
        let Format::Table = output.format else {
            return output.print(self.report, ui);
        };
        let (report, findings) = (self.report, self.findings);
        let text = match self.is_probe {
            true => operations::text(report, &findings.rows, &self.operations().1),
            false => table::text(report, findings, &table::lead(report, findings)),
        };
        ui.data(&text)
    }

    /// Writes the picture and the page that were asked for.
    fn write(&self, output: &OutputArgs, file: &Path, ui: &Ui) -> anyhow::Result<()> {
        let (panels, lead) = match self.is_probe {
            true => {
                let (names, rows) = self.operations();
                (operations::panels(&names, &rows), Lead::default())
            }
            false => (
                picture::of_run(self.findings),
                table::lead(self.report, self.findings),
            ),
        };
        output.files_with_lead(self.report, &panels, &lead, file, ui)
    }
}

/// Adds the largest cause that can be changed to the answer about each target. The others are notes.
fn answered(report: &mut Report, remedies: Vec<(String, String)>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut notes = Vec::new();
    for (name, text) in remedies {
        let answer = report.environment.extra.get_mut(&format!("{name}{ANSWER}"));
        match answer.filter(|_| seen.insert(name.clone())) {
            Some(answer) => answer.push_str(&format!(" To change first: {text}.")),
            None => notes.push(format!("{name}: {text}")),
        }
    }
    notes
}

/// Why no target has a time; none if one has.
fn unmeasured(rows: &[Row]) -> Option<String> {
    // The host takes part twice.
    let targets = rows.get(2..).unwrap_or_default();
    if targets
        .iter()
        .any(|row| row.median.is_some() || row.by_cpu.is_some())
    {
        return None;
    }
    let reasons = targets.iter().map(|row| {
        let reason = match (&row.reason, row.dropped, row.untimed) {
            (Some(reason), ..) => reason.clone(),
            (None, 0, 0) => "no run of it counts".to_owned(),
            (None, _, 0) => "all of its runs were dropped".to_owned(),
            _ => "its runs are too short".to_owned(),
        };
        format!("{}: {}", row.name, printable(&reason))
    });
    Some(reasons.collect::<Vec<_>>().join("; "))
}

/// Targets of the command line, and then those of the file.
fn targets(args: &Args) -> anyhow::Result<Vec<Target>> {
    let mut targets = args.targets.clone();
    if let Some(path) = &args.file {
        let read = files::read_regular(path, LARGEST);
        let read = read.map_err(anyhow::Error::from);
        let read = read.and_then(|bytes| Ok(String::from_utf8(bytes)?));
        let text = read.with_context(|| format!("cannot read {}", path.display()))?;
        let more = overhead::targets(&text);
        targets.extend(more.with_context(|| format!("{}", path.display()))?);
    }
    Ok(targets)
}

/// Exit status of a workload that was not made.
fn interrupted(error: anyhow::Error, ui: &Ui) -> anyhow::Result<u8> {
    match error.downcast_ref() {
        Some(KitError::Interrupted(signal)) => {
            ui.note("interrupted");
            Ok(exit::by_signal(*signal))
        }
        _ => Err(error),
    }
}

/// Shows a step. `left` keeps the seconds that are left, when a round has told.
fn progress(bar: &Bar, left: &mut Option<u64>, step: &Step<'_>) {
    match step {
        Step::Starts(name) => bar.say(&format!("starting {name}")),
        Step::Probes(name) => bar.say(&format!("costs of operations in {name}")),
        // A long measurement goes on, and whoever sees this may end it.
        Step::Fails(name, reason) => {
            let line = printable(&format!("{name} fails: {reason}"));
            bar.above(&format!("brisk: {line}"));
        }
        Step::Runs(name) => {
            let left = left.map(|seconds| format!(", about {seconds} s left"));
            bar.say(&format!("rounds: {name}{}", left.unwrap_or_default()));
        }
        Step::Round(progress) => {
            bar.at(u64::from(progress.done));
            *left = Some(progress.rest().as_secs());
        }
    }
}

fn options(args: &Args, cpus: Vec<usize>) -> anyhow::Result<Options> {
    let precision = args
        .precision
        .or(args.rounds.is_none().then_some(PRECISION));
    Ok(Options {
        rounds: args.rounds.unwrap_or(MOST_ROUNDS),
        warmups: args.warmup.unwrap_or(u32::from(!args.workload.is_kernel())),
        precision: precision.map(|percent| percent / 100.0),
        budget: args.budget,
        keeps_disturbed: args.keep_disturbed,
        explains: args.explain,
        cpus,
        timeout: args.timeout,
        seed: args.seed,
        first: 0,
    })
}

/// The processors that were named; else the last one that this process may use: the first one
/// has most of the interrupts.
fn processors(named: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let allowed =
        brisk_host::affinity::allowed().context("cannot ask which processors brisk may use")?;
    let Some(text) = named else {
        return Ok(allowed.last().copied().into_iter().collect());
    };
    let list = cpu::parse_list(text)
        .with_context(|| format!("--cpus {text}: not a list of processors, such as 1 or 2-3"))?;
    if let Some(cpu) = list.iter().find(|cpu| !allowed.contains(cpu)) {
        let allowed = cpu::list(&allowed);
        bail!("--cpus {text}: brisk may not use processor {cpu}, but {allowed}");
    }
    Ok(list)
}

/// Facts that describe a measurement, by name.
fn facts(
    args: &Args,
    targets: &[Target],
    workload: &Workload,
    options: &Options,
) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    facts.insert(PROCESSORS.to_owned(), cpu::list(&options.cpus));
    for target in targets {
        facts.insert(format!("target {}", target.name), target.kind.to_string());
    }
    if !args.ablate.is_empty() {
        let changes: Vec<_> = args.ablate.iter().map(ToString::to_string).collect();
        facts.insert("also measured".into(), changes.join(", "));
    }
    if options.keeps_disturbed {
        facts.insert("disturbed runs".into(), "count".into());
    }
    facts.extend(workload::facts(workload));
    facts
}
