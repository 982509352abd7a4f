//! `brisk crypto config --check`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use brisk_host::files;
use brisk_host::interrupt::Interrupt;
use brisk_tools::crypto::config::check::{FileKind, compare, proof, text};
use brisk_tools::crypto::libcrypto::Configuration;
use brisk_tools::crypto::{Implementation, Local, Worker};

use super::bench::{Ended, measure_with};
use super::options::MeasureArgs;
use crate::command::report::OutputArgs;
use crate::exit;
use crate::output::{Format, printable_line};
use crate::ui::Ui;

/// Bytes of a file at most.
const LARGEST: u64 = 1 << 20;

/// Measures OpenSSL without and with a configuration.
///
/// # Errors
/// If the file is no configuration that can be proven, OpenSSL does not take all of it, or nothing
/// can be measured.
pub(super) fn run(
    file: &Path,
    measure: &MeasureArgs,
    output: &OutputArgs,
    ui: &Ui,
) -> anyhow::Result<u8> {
    let bytes = files::read_regular(file, LARGEST)
        .with_context(|| format!("cannot read {}", shown(file)))?;
    let content = String::from_utf8_lossy(&bytes);
    if let Some(why) = FileKind::of(file, &content).refusal() {
        bail!("--check {}: this cannot be checked: {why}", shown(file));
    }
    let path = fs::canonicalize(file).with_context(|| format!("cannot find {}", shown(file)))?;
    let name = path.to_str().context("--check: the path is not UTF-8")?;
    let configured: Implementation = format!("openssl-conf:{name}").parse()?;
    let options = brisk_tools::crypto::Options {
        implementations: vec![Implementation::OpenSsl, configured.clone()],
        ..measure.options(1)?
    };
    // Without it there would be nothing to compare.
    let interrupt = Interrupt::by_signals()?;
    Local::new(interrupt)
        .check(&configured, measure.algorithm())
        .with_context(|| format!("--check {}", shown(file)))?;
    let (mut report, saved) = match measure_with(measure, options, output, ui)? {
        Ended::Whole(report, saved) => (*report, saved),
        Ended::BySignal(signal) => return Ok(exit::by_signal(signal)),
    };
    let checked = compare(&report, &configured);
    let configuration = Configuration::with_includes(&content, Path::new("/"));
    let proof = proof(&configuration, &checked);
    let ratios = checked.iter().flat_map(|one| &one.ratios);
    report.comparisons = ratios
        .filter_map(|(_, compared)| compared.clone())
        .collect();
    let answer = text(&checked, &proof, &report);
    report.notes.push(proof);
    report.save(&saved)?;
    match output.format {
        Format::Table => ui.data(&answer)?,
        _ => output.print(&report, ui)?,
    }
    output.files(&report, &saved, ui)?;
    Ok(exit::OK)
}

/// A path for a message.
fn shown(path: &Path) -> String {
    printable_line(&path.display().to_string())
}
