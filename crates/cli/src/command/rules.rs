//! Lists of rules, and what is known of one.

use anyhow::{Context as _, ensure};
use brisk_lint::Description;

use crate::output::Form;

/// Options of a check that ask about its rules instead.
#[derive(Debug, clap::Args)]
#[group(id = "list", multiple = false)]
pub(super) struct RulesArgs {
    /// List the rules.
    #[arg(long)]
    rules: bool,

    /// Show what is known of a rule.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

impl RulesArgs {
    /// What was asked of the rules of a command; none if it is to check. Names in the list have a
    /// column of `width` characters.
    ///
    /// # Errors
    /// If there is no such rule, or it is asked for in another form than text.
    pub(super) fn answer(
        &self,
        rules: &[Description],
        width: usize,
        command: &str,
        form: Form,
    ) -> anyhow::Result<Option<String>> {
        ensure!(
            form == Form::Table || !self.rules && self.explain.is_none(),
            "--rules and --explain print text alone; leave --format json out"
        );
        if self.rules {
            return Ok(Some(list(rules, width)));
        }
        let explain = self.explain.as_deref();
        let rule = explain.map(|id| find(rules, id, command)).transpose()?;
        Ok(rule.map(|rule| explanation(&rule)))
    }
}

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
