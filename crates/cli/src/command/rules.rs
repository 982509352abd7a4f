//! Lists of rules, and what is known of one.

use anyhow::Context as _;
use brisk_tools::lint::Description;

/// A line for each rule; names have a column of `width` characters.
pub(super) fn list(rules: &[Description], width: usize) -> String {
    let lines = rules
        .iter()
        .map(|rule| format!("{:<width$}  {}\n", rule.id, rule.why));
    lines.collect()
}

/// A rule by its name.
///
/// # Errors
/// If there is none, with the command whose `--rules` lists them.
pub(super) fn find(rules: &[Description], id: &str, command: &str) -> anyhow::Result<Description> {
    let found = rules.iter().find(|rule| rule.id == id).copied();
    found.with_context(|| format!("there is no rule {id}; {command} --rules lists them"))
}

/// Name, reason and source of a rule.
pub(super) fn explanation(rule: &Description) -> String {
    format!(
        "{}\n    why:    {}\n    source: {}\n",
        rule.id, rule.why, rule.source
    )
}
