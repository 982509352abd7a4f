//! `brisk overhead import`.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use brisk_host::files;
use brisk_measure::{Better, Environment, Report, Series, Unit, render};
use brisk_tools::overhead::{ImportError, Imported, Joined, MEAN, Origin, joined, read};

use super::picture;
use super::table::UNKNOWN;
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, now, printable};
use crate::ui::Ui;

/// Kind of the report.
const KIND: &str = "overhead-import";
/// Largest file that is read.
const LARGEST: u64 = 16 << 20;

/// Draw results that others measured as brisk draws its own.
///
/// A file is a composite.xml of the Phoronix Test Suite or its JSON or CSV, a comparison of mmtests
/// (compare-kernels.sh, also in a mail), JSON, CSV or Markdown of hyperfine, JSON of fio, output of
/// kcbench, time, sysbench, perf bench, perf stat or UnixBench, a report of brisk overhead, or a table.
///
/// A table has a target in each line with its seconds, its share of the first target's speed (with %), or
/// both; or, with a heading, a test in each line with its unit and a target in each column. Columns are
/// apart by |, tabs, semicolons, commas or blanks. A line that is not understood is an error.
///
/// Of several files, such as one for each machine, the results of the same name are put side by side.
/// What is shown is called what it is: not measured here, and by rules that are not known.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Results of another tool, or tables; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Target that the others are compared with. Default: the first.
    #[arg(long, value_name = "NAME")]
    base: Option<String>,

    /// Only results whose titles have this text.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,

    /// Output of the report.
    #[command(flatten)]
    output: OutputArgs,
}

/// Imports.
///
/// # Errors
/// If the file has no results, or nothing can be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let mut files = Vec::new();
    for (place, file) in args.files.iter().enumerate() {
        let name = printable(&file.display().to_string());
        let before = args.files.get(..place).unwrap_or_default();
        ensure!(
            !before.contains(file),
            "{name} is named twice: a file is not compared with itself"
        );
        let context = || format!("cannot read {name}");
        let text = text(file).with_context(context)?;
        let results = read(&text).with_context(context)?;
        files.push((name, results));
    }
    let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    let name = names.join(", ");
    let is_one = names.len() == 1;
    let context = || format!("cannot compare what is in {name}");
    let Joined {
        results: mut found,
        mut left_out,
    } = joined(files).with_context(context)?;
    if let Some(wanted) = &args.result {
        let titles = found.iter().map(|one| one.title.clone());
        let titles = titles.collect::<Vec<_>>().join("; ");
        found.retain(|one| one.title.contains(wanted));
        left_out.retain(|title| title.contains(wanted));
        if found.is_empty() {
            let alone = match left_out.first() {
                Some(title) => format!(" (\"{title}\" has one target)"),
                None => String::new(),
            };
            bail!("{name} has no result with \"{wanted}\" in its title{alone}, but: {titles}");
        }
    }
    let base = args.base.as_deref();
    let panels = picture::of_others(&found, base).with_context(context)?;
    let file = args.output.file(KIND)?;
    let report = report(&found, &name, &left_out, is_one);
    report.save(&file)?;
    match args.output.format {
        Format::Table => ui.data(&lines(&found, base, &report)?)?,
        _ => args.output.print(&report, ui)?,
    }
    args.output.files_with_bars(&report, &panels, &file, ui)?;
    Ok(exit::OK)
}

fn text(file: &Path) -> anyhow::Result<String> {
    let bytes = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes)?;
        ensure!(
            bytes.len() as u64 <= LARGEST,
            "it is larger than any result"
        );
        bytes
    } else {
        files::read_regular(file, LARGEST)?
    };
    String::from_utf8(bytes).context("it is not text in UTF-8")
}

/// The numbers as a report, which says that they are of others.
fn report(found: &[Imported], source: &str, left_out: &[String], is_one: bool) -> Report {
    let mut report = Report::new(KIND, now(), Environment::default());
    report
        .notes
        .push(format!("imported from {source}: not measured here"));
    for one in found {
        for entry in &one.entries {
            let name = match &*one.title {
                "" => entry.name.clone(),
                title => format!("{title}: {}", entry.name),
            };
            let mean = if entry.origin == Origin::Mean {
                MEAN
            } else {
                ""
            };
            let values = entry.values.iter().copied();
            let series = Series::of_values(name + mean, picture::unit(one), values);
            report.series.push(Series {
                better: match one.lower_is_better {
                    true => Better::Lower,
                    false => Better::Higher,
                },
                ..series
            });
        }
    }
    let entries = found.iter().flat_map(|one| &one.entries);
    let derived = entries.filter(|entry| entry.origin == Origin::Share);
    let derived: Vec<_> = derived.map(|entry| &*entry.name).collect();
    if !derived.is_empty() {
        let names = derived.join(", ");
        let of_file = if is_one { "" } else { " of their file" };
        let note = format!("computed from shares of the first{of_file}: {names}");
        report.notes.push(note);
    }
    if !left_out.is_empty() {
        let titles = left_out.join("; ");
        let note = format!("left out, as they have one target: {titles}");
        report.notes.push(note);
    }
    report
}

/// A number without a multiple: its unit may have one, as MB/s has.
fn plain(value: f64) -> String {
    let digits = value.abs().max(1e-9).log10().floor() as i32;
    let decimals = (3 - digits).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

fn lines(found: &[Imported], base: Option<&str>, report: &Report) -> Result<String, ImportError> {
    let mut text = String::new();
    for one in found {
        let base = one.base(base)?;
        if !one.title.is_empty() {
            let _ = writeln!(text, "{}", printable(&one.title));
        }
        let rows = one.entries.iter().map(|entry| {
            let value = match picture::unit(one) {
                Unit::Seconds => Unit::Seconds.format(entry.value()),
                _ => format!("{} {}", plain(entry.value()), one.unit),
            };
            let share = one.share(entry, base);
            vec![
                printable(&entry.name),
                printable(value.trim()),
                format!("{:.2}", 100.0 / share),
                format!("{share:.1} %"),
                match entry.origin {
                    Origin::Runs => entry.values.len().to_string(),
                    Origin::Mean => "mean".to_owned(),
                    Origin::Number | Origin::Share => UNKNOWN.to_owned(),
                },
            ]
        });
        let of_base = format!("% of {}", printable(&base.name));
        let times = format!("× {}", printable(&base.name));
        let head = ["target", "result", &times, &of_base, "runs"];
        let _ = writeln!(text, "{}", render::sheet(&head, rows));
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}", printable(note));
    }
    Ok(text)
}
