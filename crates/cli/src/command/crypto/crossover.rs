//! `brisk crypto crossover`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use brisk_measure::render::shorten;
use brisk_measure::{Crossing, Environment, Reach, Report, Series, SizeOrder, Unit, render};
use brisk_tools::crypto::Origin;
use brisk_tools::crypto::fit::{
    self, Chosen, Crossover, Metric, Order, Pair, Verdict, resolution_name, series_name,
};

use super::bench::{Ended, measure};
use super::options::MeasureArgs;
use super::{curves, picture};
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now, printable_line};
use crate::ui::Ui;

/// Kind of the report.
const KIND: &str = "crypto-crossover";
/// Characters of a name in the list of answers.
const NAME: usize = 40;
/// Options that have nothing to say about files.
const MEASURED: [&str; 8] = [
    "implementations",
    "sizes",
    "decrypt",
    "seconds",
    "rounds",
    "budget",
    "seed",
    "through",
];

/// Find the size from which an offload is worth it.
///
/// A file is an output of openssl speed, plain or of -mr, of any version and from any machine, with
/// any text around it; or a report of brisk, as JSON. Of two files the first is the software's and
/// the second the offload's; one file may have both. A line is fitted through the times of each,
/// and the size at which they cross has a 95 % interval; a fit that does not describe the times is
/// rejected. Beside it stand the two measured sizes between which the order changes.
///
/// Without a file two implementations are measured as by brisk crypto bench, named by --impl: first
/// software, then the offload. The answers are then given for wall-clock time and for CPU time of the
/// threads that ask, with the kernel's threads, and of the whole system: they differ.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Curves, and the report.
    #[command(flatten)]
    curves: CurveArgs,
}

/// Two implementations over the size of the data.
#[derive(Debug, clap::Args)]
pub(super) struct CurveArgs {
    /// Output of openssl speed, or report of brisk; - is standard input.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = MEASURED)]
    pub(super) from: Vec<PathBuf>,

    /// Measurement without a file.
    #[command(flatten)]
    pub(super) measure: MeasureArgs,

    /// Implementation in software: its name or a part of it, or the name of a file. Default: the
    /// first.
    #[arg(long, value_name = "NAME")]
    software: Option<String>,

    /// Offload: its name or a part of it, or the name of a file. Default: the other.
    #[arg(long, value_name = "NAME")]
    offload: Option<String>,

    /// Output of the report.
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Finds crossovers.
///
/// # Errors
/// If a file has no curves, it is not clear which are compared, or nothing can be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let output = &args.curves.output;
    let curves = match find(&args.curves, KIND, ui)? {
        Outcome::Found(curves) => *curves,
        Outcome::BySignal(signal) => return Ok(exit::by_signal(signal)),
    };
    curves.report.save(&curves.file)?;
    match output.format {
        Format::Table => ui.data(&text(&curves.found, &curves.notes))?,
        _ => output.print(&curves.report, ui)?,
    }
    curves.draw(output, ui)?;
    Ok(exit::OK)
}

/// How it ended.
pub(super) enum Outcome {
    /// Everything was compared.
    Found(Box<Curves>),
    /// The user interrupted a measurement, which was said.
    BySignal(i32),
}

/// What was compared.
pub(super) struct Curves {
    pub(super) found: Vec<Found>,
    /// Remarks about the figures.
    pub(super) notes: Vec<String>,
    /// Facts about what was measured, of all files.
    pub(super) facts: BTreeMap<String, String>,
    /// Algorithms that the files name.
    pub(super) algorithms: Vec<String>,
    /// What the files say of the machine that was measured; what differs if they name several.
    pub(super) origin: Result<Origin, String>,
    /// Report with curves and answers, which is not saved yet.
    pub(super) report: Report,
    /// File that it is for.
    pub(super) file: PathBuf,
}

impl Curves {
    /// Writes the pictures and pages that were asked for.
    pub(super) fn draw(&self, output: &OutputArgs, ui: &Ui) -> anyhow::Result<()> {
        let panels: Vec<_> = self.found.iter().flat_map(picture::panels).collect();
        output.files_with_curves(&self.report, &panels, &self.file, ui)
    }
}

/// Reads the files, or measures, and compares. `kind` is that of the report.
///
/// # Errors
/// If a file has no curves, it is not clear which are compared, or nothing can be measured.
pub(super) fn find(args: &CurveArgs, kind: &str, ui: &Ui) -> anyhow::Result<Outcome> {
    let mut base = Report::new(kind, now(), Environment::default());
    let mut names = (args.software.clone(), args.offload.clone());
    let (sources, file) = if args.from.is_empty() {
        if names == (None, None) {
            let [software, offload] = &args.measure.implementations[..] else {
                bail!(
                    "name two implementations by --impl, first software and then the offload, or \
                     --from FILE; brisk crypto list shows what is here"
                );
            };
            names = (Some(software.to_string()), Some(offload.to_string()));
        }
        match measure(&args.measure, 1, &args.output, ui)? {
            Ended::Whole(report, file) => {
                base = *report;
                (curves::read(std::slice::from_ref(&file))?, file)
            }
            Ended::BySignal(signal) => return Ok(Outcome::BySignal(signal)),
        }
    } else {
        let mut sources = curves::read(&args.from)?;
        if let Some(algorithm) = args.measure.algorithm {
            sources.keep(algorithm)?;
        }
        let file = args.output.file(kind)?;
        if let Some(path) = args.from.iter().find(|path| is_one_file(path, &file)) {
            bail!(
                "--output {}: the report would take the place of that file, which is read; name \
                 another",
                printable_line(&path.display().to_string())
            );
        }
        (sources, file)
    };
    let chosen = Chosen {
        software: names.0.as_deref(),
        offload: names.1.as_deref(),
    };
    let pairs = fit::pairs(&sources.candidates, chosen).inspect_err(|_| {
        // They may say why something is not there.
        for note in &sources.notes {
            ui.note(&printable_line(note));
        }
    })?;
    let found: Vec<Found> = pairs.into_iter().map(Found::of).collect();
    let mut notes = sources.notes;
    notes.splice(0..0, base.notes.iter().cloned());
    let named = sources.candidates.iter();
    let named = named.filter_map(|one| one.algorithm.clone());
    let mut algorithms: Vec<String> = named.collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    Ok(Outcome::Found(Box::new(Curves {
        report: report(base, &found, &notes),
        found,
        notes,
        facts: sources.facts,
        algorithms,
        origin: sources.origin,
        file,
    })))
}

/// Whether both are the same file, which is there.
fn is_one_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|real_one| Some(real_one) == real(other))
}

/// A pair of curves and its crossover.
pub(super) struct Found {
    pub(super) pair: Pair,
    pub(super) crossover: Crossover,
}

impl Found {
    fn of(pair: Pair) -> Self {
        let crossover = Crossover::of(&pair.software, &pair.offload);
        Self { pair, crossover }
    }

    fn sentence(&self) -> String {
        self.crossover.sentence(self.pair.metric)
    }
}

/// The curves as a report, with the verdicts as its notes and crossings.
fn report(mut report: Report, found: &[Found], notes: &[String]) -> Report {
    for one in found {
        let metric = one.pair.metric;
        for curve in [&one.pair.software, &one.pair.offload] {
            for point in &curve.points {
                let name = series_name(&curve.name, point.bytes, metric);
                if report.series(&name).is_none() {
                    let values = point.seconds.iter().copied();
                    let series = Series::of_values(name, Unit::Seconds, values);
                    report.series.push(series);
                }
            }
            if curve.resolution > 0.0 {
                let facts = &mut report.environment.extra;
                facts.insert(resolution_name(&curve.name), curve.resolution.to_string());
            }
        }
        report.crossings.push(crossing(metric, &one.crossover));
    }
    let sentences = found.iter().map(Found::sentence);
    report.notes = sentences.chain(notes.iter().cloned()).collect();
    report
}

fn crossing(metric: Metric, found: &Crossover) -> Crossing {
    let estimate = found.estimate();
    let reach = |low: f64, high| Reach { low, high };
    Crossing {
        quantity: metric.name().to_owned(),
        software: found.software.clone(),
        offload: found.offload.clone(),
        answer: found.verdict.name().to_owned(),
        bytes: estimate.map(|estimate| estimate.bytes),
        interval: estimate
            .and_then(|estimate| estimate.interval)
            .map(|bounds| reach(bounds.low, bounds.high)),
        bracket: found
            .bracket
            .map(|bracket| reach(bracket.low as f64, Some(bracket.high as f64))),
        sizes: found
            .sizes
            .iter()
            .map(|size| SizeOrder {
                bytes: size.bytes,
                less: less(size.order).to_owned(),
            })
            .collect(),
    }
}

/// What takes less at a size.
const fn less(order: Order) -> &'static str {
    match order {
        Order::Software => "software",
        Order::Offload => "offload",
        Order::Alike => "alike",
        Order::Undecided => "not decided",
    }
}

/// The answers for a terminal.
fn text(found: &[Found], notes: &[String]) -> String {
    let mut text = String::new();
    for one in found {
        section(one, &mut text);
    }
    if found.len() > 1 {
        let _ = writeln!(text, "{}", summary(found));
    }
    for note in notes {
        let _ = writeln!(text, "Note: {}", printable_line(note));
    }
    text.trim_end().to_owned() + "\n"
}

/// All answers side by side.
fn summary(found: &[Found]) -> String {
    let rows = found.iter().map(|one| {
        let crossover = &one.crossover;
        let interval = crossover.estimate().and_then(|estimate| estimate.interval);
        let interval = interval.map(|bounds| match bounds.high {
            Some(high) => format!("{:.0} – {high:.0} B", bounds.low),
            None => format!("{:.0} – ∞ B", bounds.low),
        });
        let bracket = crossover.bracket;
        let bracket = bracket.map(|bracket| format!("{} – {} B", bracket.low, bracket.high));
        let unknown = || "-".to_owned();
        vec![
            one.pair.metric.name().to_owned(),
            shorten(&crossover.software, NAME),
            shorten(&crossover.offload, NAME),
            answer(crossover),
            interval.unwrap_or_else(unknown),
            bracket.unwrap_or_else(unknown),
        ]
    });
    let head = [
        "quantity",
        "software",
        "offload",
        "offload takes less",
        "95 % interval",
        "measured between",
    ];
    render::sheet(&head, rows)
}

fn answer(crossover: &Crossover) -> String {
    match &crossover.verdict {
        Verdict::From(estimate) => format!("from {:.0} B", estimate.bytes),
        Verdict::UpTo(estimate) => format!("up to {:.0} B", estimate.bytes),
        Verdict::Always { .. } => "at every size".to_owned(),
        Verdict::Never { .. } => "at no size".to_owned(),
        Verdict::Alike => "alike".to_owned(),
        Verdict::Step { from, .. } => format!("from {from} B (step)"),
        Verdict::Partly { .. } if crossover.of_order(Order::Undecided).next().is_some() => {
            "not decided".to_owned()
        }
        Verdict::Partly { .. } => "at some sizes".to_owned(),
        Verdict::Rejected(_) => "rejected".to_owned(),
        Verdict::TooFew { .. } => "too few sizes".to_owned(),
    }
}

fn section(one: &Found, text: &mut String) {
    let Found { pair, crossover } = one;
    let name = |name: &str| printable_line(name);
    let _ = writeln!(
        text,
        "{}\nsoftware: {}\noffload:  {}\n",
        pair.metric.name(),
        name(&crossover.software),
        name(&crossover.offload)
    );
    let has_throughput = pair.metric == Metric::Time;
    let mut head = vec!["size", "software", "offload", "software / offload"];
    if has_throughput {
        head.extend(["software", "offload"]);
    }
    head.push(if has_throughput { "faster" } else { "less" });
    let rows = crossover.sizes.iter().map(|size| {
        let mut row = vec![
            format!("{} B", size.bytes),
            Unit::Seconds.format(size.software),
            Unit::Seconds.format(size.offload),
            format!("{:.2}", size.ratio()),
        ];
        if has_throughput {
            let rate = |seconds: f64| Unit::BytesPerSecond.format(size.bytes as f64 / seconds);
            row.extend([rate(size.software), rate(size.offload)]);
        }
        let less = match size.order {
            Order::Software => "software",
            Order::Offload => "offload",
            Order::Alike => "alike",
            Order::Undecided => "not decided",
        };
        row.push(less.to_owned());
        row
    });
    text.push_str(&render::sheet(&head, rows));
    if !crossover.left_out.is_empty() {
        let sizes = crossover.left_out.iter().map(u64::to_string);
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "only one has: {sizes} bytes");
    }
    let lines = [
        ("software", &crossover.software_line),
        ("offload", &crossover.offload_line),
    ];
    text.push('\n');
    for (side, line) in lines {
        if let Some(line) = line {
            let _ = writeln!(
                text,
                "line of the {side}: {}, within {:.1} %",
                picture::parameters(line),
                line.residual() * 100.0
            );
        }
    }
    let _ = writeln!(text, "\n{}\n", name(&one.sentence()));
}
