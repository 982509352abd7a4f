//! Facts, findings and verdict as text and as JSON. Pure.

use std::fmt::Write as _;

use brisk_measure::render::{columns, one_line};
use serde_json::{Value, json};

use super::consequence::{Consequence, Verdict};
use super::cost::Cost;
use super::machine::{Machine, Replication};
use super::rules::descriptions;
use crate::ktext::{amount, ranges};
use brisk_lint::{Finding, report};

/// Schema of [`json`].
pub const SCHEMA: &str = "brisk.ktext.check/1";

/// For a terminal.
#[must_use]
pub fn text(on: &Machine, findings: &[Finding<Consequence>]) -> String {
    let mut text = facts(on);
    for finding in findings {
        let name = finding.severity.name();
        let _ = writeln!(
            text,
            "{name}: {} [{}]",
            one_line(&finding.what),
            finding.rule
        );
        if let Some(evidence) = &finding.evidence {
            let _ = writeln!(text, "    seen: {}", one_line(evidence));
        }
        // What follows from it is not known, either.
        if finding.severity != Consequence::Unknown {
            let _ = writeln!(text, "    so:   {}", one_line(finding.effect));
        }
        let _ = writeln!(text, "    fix:  {}", one_line(&finding.fix.to_string()));
    }
    for fact in &on.unread {
        let _ = writeln!(text, "Not read: {}", one_line(fact));
    }
    let _ = writeln!(text, "{}", sentence(findings));
    text
}

fn sentence(findings: &[Finding<Consequence>]) -> String {
    let count = |consequence| report::count(findings, consequence);
    match Verdict::of(findings) {
        Verdict::CouldGain => {
            let warned = findings.iter().any(|one| one.severity == Consequence::Warn);
            let see = if warned { "; see the warnings" } else { "" };
            format!("Could gain: measure it with a kernel that has the patch series{see}.")
        }
        Verdict::Refused => format!(
            "Refused: a kernel with the patch series would not replicate its text on this machine \
             as it was booted ({}).",
            count(Consequence::Refuse)
        ),
        Verdict::NotKnown => format!(
            "Not known: what decides it cannot be read ({}).",
            count(Consequence::Unknown)
        ),
        Verdict::NoGain => format!(
            "No gain: there is nothing that a copy could bring nearer ({}).",
            count(Consequence::NoGain)
        ),
    }
}

/// What the machine is.
fn facts(on: &Machine) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<11} {}", one_line(&value));
    };
    let config = on.config.as_deref().unwrap_or("no configuration was found");
    let built = match on.is_built {
        Some(true) => format!("built with replication ({config})"),
        Some(false) => format!("built without replication ({config})"),
        None => format!("replication not known ({config})"),
    };
    let release = match &*on.release {
        "" => "release not known",
        release => release,
    };
    row("Kernel", format!("{release}, {built}"));
    if let Replication::Present(stats) = &on.replication {
        let state = match stats.why_off() {
            None if stats.slots == 1 => "on, 1 slot beside the master".to_owned(),
            None => format!("on, {} slots beside the master", stats.slots),
            Some(reason) => format!("off: {reason}"),
        };
        row("Replication", state);
    }
    if !on.processors.model.is_empty() {
        row("Processors", on.processors.model.clone());
    }
    row("Memory cost", cost(&Cost::of(on)));
    if !on.nodes.is_empty() {
        text.push_str(&nodes(on));
    }
    text
}

/// An amount, or that it is not known.
fn known(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not known".to_owned(), amount)
}

/// An upper bound of an amount, or that it is not known.
fn at_most(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("at most {}", amount(bytes)),
        None => "not known".to_owned(),
    }
}

/// What copies take.
fn cost(cost: &Cost) -> String {
    let nodes = match cost.nodes {
        Some(0) => return "none, as no other node has memory and CPUs".to_owned(),
        Some(1) => "on 1 node".to_owned(),
        Some(count) => format!("on each of {count} nodes"),
        None => "on each node that gets copies".to_owned(),
    };
    let whole = match cost.on_a_node() {
        Some(bytes) => format!("up to {}", amount(bytes)),
        None => "not known".to_owned(),
    };
    format!(
        "{nodes} {whole}: text {}, read-only data {}, modules {}, page tables {}, and of processes {}",
        known(cost.text),
        known(cost.rodata),
        at_most(cost.modules),
        known(cost.page_tables),
        at_most(cost.processes)
    )
}

/// Text, or a dash for none.
fn shown(text: String) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

fn nodes(on: &Machine) -> String {
    let rows = on.nodes.iter().map(|node| {
        let cpus = node.cpus.as_ref().map(|cpus| {
            let numbers = cpus.iter().filter_map(|cpu| (*cpu).try_into().ok());
            shown(ranges(&numbers.collect::<Vec<_>>()))
        });
        let distances: Vec<_> = node.distances.iter().map(ToString::to_string).collect();
        vec![
            format!("node {}", node.number),
            cpus.unwrap_or_else(|| "not known".to_owned()),
            known(node.memory),
            known(node.free),
            shown(distances.join(" ")),
        ]
    });
    columns(&["", "cpus", "memory", "free", "distances"], rows)
}

/// For programs: the verdict, the facts, each rule with what it found, and what was not read.
#[must_use]
pub fn json(on: &Machine, findings: &[Finding<Consequence>]) -> Value {
    let replication = match &on.replication {
        Replication::Present(stats) => json!({ "stats": stats }),
        Replication::Absent(reason) => json!({ "absent": reason }),
    };
    let cost = Cost::of(on);
    json!({
        "schema": SCHEMA,
        "verdict": Verdict::of(findings),
        "running": on.release,
        "command_line": on.cmdline,
        "processors": { "vendor": on.processors.vendor, "model": on.processors.model },
        "built_with_replication": on.is_built,
        "replication": replication,
        "nodes": on.nodes,
        "cost": { "of": cost, "on_a_node": cost.on_a_node() },
        "findings": findings,
        "rules": report::results(&descriptions(), findings, Consequence::name),
        "unread": on.unread,
    })
}
