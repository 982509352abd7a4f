//! Curves in the files that a user names.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use brisk_host::files;
use brisk_measure::Report;
use brisk_tools::crypto::fit::{Candidate, METRICS, Metric, curves_of_report};
use brisk_tools::crypto::speed::{LARGEST, Speed};

use crate::output::printable_line;

/// Most sizes of a curve: each has a bootstrap of its own.
const SIZES: usize = 1000;

/// What files have.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) candidates: Vec<Candidate>,
    /// Remarks about the figures.
    pub(super) notes: Vec<String>,
    /// Facts of reports about what was measured.
    pub(super) facts: BTreeMap<String, String>,
}

/// Reads outputs of openssl speed and reports.
///
/// # Errors
/// If a file cannot be read, or has no curve.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Sources> {
    let mut sources = Sources::default();
    let inputs = paths.iter().filter(|path| path.as_os_str() == "-").count();
    ensure!(
        inputs < 2,
        "standard input can be read once: give - one time only"
    );
    for (place, path) in paths.iter().enumerate() {
        let shown = printable_line(&path.display().to_string());
        let context = || format!("cannot read {shown}");
        let bytes = bytes(path).with_context(context)?;
        let file = name(path);
        let found = match is_json(&bytes) {
            true => of_report(&bytes, path, &mut sources.facts)?,
            false => of_speed(&bytes, &file, &mut sources.notes).with_context(context)?,
        };
        for one in &found {
            let sizes = one.curve.points.len();
            ensure!(
                sizes <= SIZES,
                "{shown} has {sizes} sizes of {}, more than any measurement: {SIZES} are read",
                printable_line(&one.curve.name)
            );
        }
        sources
            .candidates
            .extend(found.into_iter().map(|one| Candidate {
                file: file.clone(),
                place,
                ..one
            }));
    }
    Ok(sources)
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return Ok(files::read_regular(path, LARGEST as u64)?);
    }
    let mut bytes = Vec::new();
    let limit = LARGEST as u64 + 1;
    std::io::stdin().take(limit).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() <= LARGEST,
        "it has more than {} MiB, which nothing of this kind has",
        LARGEST >> 20
    );
    Ok(bytes)
}

/// Name of a file for people, without its directory.
fn name(path: &Path) -> String {
    match path.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        Some(_) => "standard input".to_owned(),
        None => path.to_string_lossy().into_owned(),
    }
}

fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{')
}

fn of_report(
    bytes: &[u8],
    path: &Path,
    facts: &mut BTreeMap<String, String>,
) -> anyhow::Result<Vec<Candidate>> {
    let report = Report::parse(bytes, path)?;
    facts.extend(report.environment.extra.clone());
    let mut candidates = Vec::new();
    for metric in METRICS {
        let curves = curves_of_report(&report, metric)
            .with_context(|| format!("cannot read {}", path.display()))?;
        candidates.extend(curves.into_iter().map(|curve| Candidate {
            file: String::new(),
            place: 0,
            algorithm: None,
            metric,
            used: None,
            curve,
        }));
    }
    Ok(candidates)
}

fn of_speed(bytes: &[u8], file: &str, notes: &mut Vec<String>) -> anyhow::Result<Vec<Candidate>> {
    // Consoles garble now and then; what is no result does not have to be UTF-8.
    let speed = Speed::parse(&String::from_utf8_lossy(bytes))?;
    let remarks = speed.remarks.iter();
    notes.extend(remarks.map(|remark| format!("{file}: {remark}")));
    // User CPU time is not what an offload takes: no answer is made from it.
    let (timed, others): (Vec<_>, Vec<_>) = speed
        .measured
        .into_iter()
        .partition(|one| one.is_wall_clock);
    ensure!(
        !timed.is_empty(),
        "no verdict: {}",
        speed
            .remarks
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    );
    for one in others {
        notes.push(format!("{file}: {} is not compared.", one.curve.name));
    }
    let candidates = timed.into_iter().map(|one| Candidate {
        file: String::new(),
        place: 0,
        algorithm: Some(one.algorithm),
        metric: Metric::Time,
        used: one.used,
        curve: one.curve,
    });
    Ok(candidates.collect())
}
