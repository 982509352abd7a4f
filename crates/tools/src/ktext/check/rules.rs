//! Rules: first whether there is anything to gain, then what the kernel refuses in the order in which it
//! asks (`ktext_repl_refusal` of the patch series), then what is to be known.

mod gain;
mod notes;
mod refusals;

use super::consequence::Consequence;
use super::machine::Machine;
use brisk_lint::{Description, Finding};

/// A rule about replication.
type Rule = brisk_lint::Rule<Machine, Consequence>;
/// What such rules find.
type Findings = brisk_lint::Findings<Consequence>;

/// All rules, in groups.
const RULES: &[&[Rule]] = &[gain::RULES, refusals::RULES, notes::RULES];

/// Descriptions of all rules.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    brisk_lint::descriptions(RULES)
}

impl Machine {
    /// Findings of all rules, those with the worst consequence first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding<Consequence>> {
        let mut found = brisk_lint::check_all(RULES, self);
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        found
    }
}

fn advice(text: impl Into<String>) -> brisk_lint::Fix {
    brisk_lint::Fix::Advice(text.into())
}
