//! Findings and verdict as text and as JSON. Pure.

use std::fmt::Write;

use brisk_measure::render::one_line;
use serde_json::{Value, json};

use super::consequence::{Consequence, Verdict};
use super::images::Defect;
use super::preflight::Preflight;
use super::rules::descriptions;
use super::trial::Trial;
use brisk_lint::{Finding, report};

/// Schema of [`json`].
pub const SCHEMA: &str = "brisk.reboot.check/1";

/// For a terminal.
#[must_use]
pub fn text(on: &Preflight, findings: &[Finding<Consequence>]) -> String {
    let mut text = target(on);
    for finding in findings {
        let name = finding.severity.name();
        let _ = writeln!(
            text,
            "{name}: {} [{}]",
            one_line(&finding.what),
            finding.rule
        );
        let _ = writeln!(text, "    so:  {}", one_line(finding.effect));
        let _ = writeln!(text, "    fix: {}", one_line(&finding.fix.to_string()));
    }
    for fact in &on.machine.unread {
        let _ = writeln!(text, "Not read: {}", one_line(fact));
    }
    // A finding says what else came of it.
    if on.trial == Trial::Passed {
        let _ = writeln!(text, "Trial load: {}.", on.trial.describe());
    }
    let count = |consequence| report::count(findings, consequence);
    let sentence = match Verdict::of(findings) {
        Verdict::Warm => match findings.iter().any(|one| one.severity == Consequence::Warn) {
            true => "Warm: the machine can be restarted without its firmware; see the warnings.",
            false => "Warm: the machine can be restarted without its firmware.",
        }
        .to_owned(),
        Verdict::Cold => format!(
            "Cold: restart it through its firmware ({}).",
            count(Consequence::Cold)
        ),
        Verdict::Refused => format!(
            "Refused: no warm reboot before something has changed ({}).",
            count(Consequence::Refuse)
        ),
    };
    text.push_str(&sentence);
    text.push('\n');
    text
}

/// What the machine is to be restarted into.
fn target(on: &Preflight) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<13} {}", one_line(&value));
    };
    let release = match &*on.target.release {
        "" => String::new(),
        release => format!(" ({release})"),
    };
    row("Kernel", format!("{}{release}", on.target.kernel.display()));
    for initrd in &on.images.initrds {
        let state = match &initrd.content {
            Ok(content) => format!("{} KiB", content.size.div_ceil(1024)),
            Err(Defect::Missing) => "missing".to_owned(),
            Err(Defect::Unverified(_)) => "not unpacked".to_owned(),
            Err(_) => "bad".to_owned(),
        };
        row("Initrd", format!("{} ({state})", initrd.path.display()));
    }
    row("Command line", on.target.cmdline.clone());
    text
}

/// For programs: the verdict, each rule with what it found, and what was not read.
#[must_use]
pub fn json(on: &Preflight, findings: &[Finding<Consequence>]) -> Value {
    let initrds = on
        .images
        .initrds
        .iter()
        .map(|initrd| match &initrd.content {
            Ok(content) => json!({
                "path": initrd.path.to_string_lossy(),
                "size": content.size,
                "unpacked": content.unpacked,
            }),
            Err(defect) => json!({ "path": initrd.path.to_string_lossy(), "defect": defect }),
        });
    json!({
        "schema": SCHEMA,
        "verdict": Verdict::of(findings),
        "running": on.machine.platform.release,
        "target": on.target,
        "initrds": initrds.collect::<Vec<_>>(),
        "trial_load": { "result": on.trial.name(), "text": on.trial.describe() },
        "findings": findings,
        "rules": report::results(&descriptions(), findings, Consequence::name),
        "unread": on.machine.unread,
    })
}
