//! What reports of findings share. Pure.

use serde_json::{Value, json};

use super::{Description, Finding, Grade};

/// Each rule with the worst that it found, or `pass`, and its source.
pub fn results<G: Grade>(
    rules: &[Description],
    findings: &[Finding<G>],
    name: fn(G) -> &'static str,
) -> Value {
    let result = |rule: &str| {
        let of = findings.iter().filter(|finding| finding.rule == rule);
        let worst = of.map(|finding| finding.severity).max();
        worst.map_or("pass", name)
    };
    let rules = rules.iter().map(|rule| {
        json!({
            "rule": rule.id,
            "result": result(rule.id),
            "source": rule.source,
        })
    });
    rules.collect()
}

/// Number of findings of a grade, in words.
pub fn count<G: Grade>(findings: &[Finding<G>], of: G) -> String {
    match findings.iter().filter(|one| one.severity == of).count() {
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    }
}
