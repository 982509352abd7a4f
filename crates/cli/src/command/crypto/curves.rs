//! Curves in the files that a user names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use brisk_host::files;
use brisk_measure::Report;
use brisk_tools::crypto::fit::{Candidate, METRICS, Metric, curves_of_report};
use brisk_tools::crypto::speed::{LARGEST, Speed};
use brisk_tools::crypto::{Algorithm, Origin, is_same, metric};

use crate::output::printable_line;

/// Most sizes of a curve: each has a bootstrap of its own.
const SIZES: usize = 1000;

/// What files have.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) candidates: Vec<Candidate>,
    /// Remarks about the figures.
    pub(super) notes: Vec<String>,
    /// Facts of reports about what was measured.
    pub(super) facts: BTreeMap<String, String>,
    /// What they say of the machine that was measured; what differs if they name several.
    pub(super) origin: Result<Origin, String>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            candidates: Vec::new(),
            notes: Vec::new(),
            facts: BTreeMap::new(),
            origin: Ok(Origin::default()),
        }
    }
}

impl Sources {
    /// Keeps what is about an algorithm, or does not say about which.
    ///
    /// # Errors
    /// If that is nothing.
    pub(super) fn keep(&mut self, algorithm: &Algorithm) -> anyhow::Result<()> {
        let all: BTreeSet<_> = self
            .candidates
            .iter()
            .map(|it| it.algorithm.clone())
            .collect();
        let is_other = |name: &String| !is_same(name, algorithm.name);
        self.candidates
            .retain(|one| !one.algorithm.as_ref().is_some_and(is_other));
        let names: Vec<_> = all.into_iter().flatten().collect();
        ensure!(
            !self.candidates.is_empty(),
            "the files are about {}, and {} is asked for",
            printable_line(&names.join(", ")),
            algorithm.name
        );
        Ok(())
    }

    fn add_origin(&mut self, found: Result<Origin, String>) {
        let known = std::mem::replace(&mut self.origin, Ok(Origin::default()));
        self.origin = known.and_then(|known| known.and(found?));
        // A report of them names it, too.
        self.facts
            .extend(self.origin.iter().flat_map(Origin::facts));
    }
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
        let (found, origin) = match is_json(&bytes) {
            true => of_report(&bytes, path, &mut sources.facts)?,
            false => of_speed(&bytes, &file, &mut sources.notes).with_context(context)?,
        };
        sources.add_origin(origin);
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

/// Curves of a file, and what it says of its machine.
type Figures = (Vec<Candidate>, Result<Origin, String>);

fn of_report(
    bytes: &[u8],
    path: &Path,
    facts: &mut BTreeMap<String, String>,
) -> anyhow::Result<Figures> {
    let report = Report::parse(bytes, path)?;
    let own = &report.environment.extra;
    facts.extend(own.clone());
    let mut candidates = Vec::new();
    for metric in METRICS {
        let curves = curves_of_report(&report, metric)
            .with_context(|| format!("cannot read {}", path.display()))?;
        candidates.extend(curves.into_iter().map(|curve| Candidate {
            file: String::new(),
            place: 0,
            algorithm: own.get(metric::ALGORITHM).cloned(),
            metric,
            used: None,
            curve,
        }));
    }
    Ok((candidates, Ok(Origin::of_facts(own))))
}

fn of_speed(bytes: &[u8], file: &str, notes: &mut Vec<String>) -> anyhow::Result<Figures> {
    // Consoles garble now and then; what is no result does not have to be UTF-8.
    let text = String::from_utf8_lossy(bytes);
    let speed = Speed::parse(&text)?;
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
    Ok((candidates.collect(), Origin::of_text(&text)))
}
