//! Facts, findings and verdict as text and as JSON. Pure.

use std::fmt::Write as _;

use brisk_measure::render::{columns, one_line};
use serde_json::{Value, json};

use super::consequence::{Consequence, Verdict};
use super::cost::Cost;
use super::machine::{Machine, Replication};
use super::rules::descriptions;
use crate::ktext::{amount, ranges};
use crate::lint::{Finding, report};

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
        let _ = writeln!(text, "    so:   {}", one_line(finding.effect));
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
    row("Kernel", format!("{}, {built}", on.release));
    if let Replication::Present(stats) = &on.replication {
        let state = match stats.why_off() {
            None if stats.slots == 1 => "on, 1 slot beside the master".to_owned(),
            None => format!("on, {} slots beside the master", stats.slots),
            Some(reason) => format!("off: {reason}"),
        };
        row("Replication", state);
    }
    row("Processors", on.model.clone());
    row("Memory cost", cost(&Cost::of(on)));
    if !on.nodes.is_empty() {
        text.push_str(&nodes(on));
    }
    text
}

/// What copies take.
fn cost(cost: &Cost) -> String {
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "not known".to_owned(), amount);
    let whole = match cost.on_a_node() {
        Some(bytes) => format!("up to {}", amount(bytes)),
        None => "not known".to_owned(),
    };
    let nodes = match cost.nodes {
        0 => "none: no other node has memory; it would be".to_owned(),
        1 => "on 1 node".to_owned(),
        count => format!("on each of {count} nodes"),
    };
    format!(
        "{nodes} {whole}: text {}, read-only data {}, modules at most {}, page tables {}, and of \
         processes at most {}",
        known(cost.text),
        known(cost.rodata),
        amount(cost.modules),
        amount(cost.page_tables),
        amount(cost.processes)
    )
}

fn nodes(on: &Machine) -> String {
    let rows = on.nodes.iter().map(|node| {
        let cpus: Vec<u32> = node
            .cpus
            .iter()
            .filter_map(|cpu| (*cpu).try_into().ok())
            .collect();
        let distances: Vec<_> = node.distances.iter().map(ToString::to_string).collect();
        let shown = |text: String| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text
            }
        };
        vec![
            format!("node {}", node.number),
            shown(ranges(&cpus)),
            amount(node.memory),
            amount(node.free),
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
        "built_with_replication": on.is_built,
        "replication": replication,
        "nodes": on.nodes,
        "cost": { "of": cost, "on_a_node": cost.on_a_node() },
        "findings": findings,
        "rules": report::results(&descriptions(), findings, Consequence::name),
        "unread": on.unread,
    })
}
