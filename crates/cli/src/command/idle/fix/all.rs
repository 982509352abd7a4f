//! Changes of all domains and VMs.

use std::collections::BTreeMap;

use anyhow::bail;
use brisk_tools::idle::backup::Backups;
use brisk_tools::idle::domain;
use brisk_tools::idle::fix::{self, Fixed, Wanted};
use brisk_tools::vm::StateDirs;
use serde_json::json;

use super::super::all::{All, domains};
use super::super::description::Described;
use super::shown::{diff, print, shown, whole};
use super::{Applied, Args, Format, Topic, apply};
use crate::exit;
use crate::output::{now, printable};
use crate::ui::Ui;

/// Shows or makes changes of all guests. One that cannot be read or changed leaves the others.
///
/// # Errors
/// If libvirt cannot be asked, or no backup can be kept.
pub(super) fn change(args: &Args, topic: &Topic, ui: &Ui) -> anyhow::Result<u8> {
    if args.apply && args.rules.is_empty() {
        bail!(
            "--all --apply changes many guests: name the rules with --rule; without --apply, \
             {} fix --all shows what each would change",
            topic.command
        );
    }
    let spinner = ui.spinner("looking");
    let mut all = guests(args, ui)?;
    drop(spinner);
    let mut backups = args.apply.then(Backups::open).transpose()?;
    if let Some(backups) = &mut backups {
        backups.begin_batch(&now());
    }
    let mut tally = Tally {
        guests: all.guests.len(),
        ..Tally::default()
    };
    let mut values = Vec::new();
    for guest in &mut all.guests {
        guest.context.look = topic.look;
        let wanted = Wanted { rules: &args.rules };
        let applied = match &backups {
            Some(backups) => apply(guest, wanted, backups, ui),
            None => show(guest, wanted),
        };
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                let name = printable(&guest.name);
                match error.downcast_ref() {
                    // Its message says that it was changed.
                    Some(domain::Error::Defined { .. }) => ui.error(&error),
                    _ => ui.error(&error.context(format!("{name} stays as it is"))),
                }
                tally.failed += 1;
                all.is_partial = true;
                continue;
            }
        };
        tally.add(&applied.fixed);
        for (rule, reason) in &applied.fixed.failed {
            ui.note(&printable(&format!(
                "{}: the fix of {rule} cannot be made here: {reason}",
                guest.name
            )));
        }
        match args.format {
            Format::Diff => print(&applied.diff, ui)?,
            Format::Json => values.push(json!({
                "guest": guest.name,
                "applied": applied.fixed.applied,
                "left": applied.fixed.left,
                "failed": applied.fixed.failed,
                "diff": applied.diff,
                "result": whole(&applied.fixed.text),
                "backup": applied.backup,
            })),
        }
    }
    if args.format == Format::Json {
        let value = json!({ "schema": topic.schema, "guests": values });
        ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
    }
    tally.tell(args, topic, ui);
    Ok(match all.is_partial {
        true => exit::BRISK,
        false => exit::OK,
    })
}

/// All domains, and the VMs of brisk's as they are defined.
fn guests(args: &Args, ui: &Ui) -> anyhow::Result<All> {
    let mut all = domains(&args.guests, ui)?;
    // Those of another libvirt are asked for.
    let names = match args.guests.connect {
        Some(_) => Vec::new(),
        None => StateDirs::here()
            .map(|dirs| dirs.names())
            .unwrap_or_default(),
    };
    for name in names {
        match args.guests.of_vm(&name) {
            Ok(guest) => all.guests.push(guest),
            Err(error) => {
                ui.note(&format!("VM {name} is left out: {error:#}"));
                all.is_partial = true;
            }
        }
    }
    Ok(all)
}

fn show(guest: &Described, wanted: Wanted<'_>) -> anyhow::Result<Applied> {
    let fixed = fix::fix(guest.text.clone(), &guest.context, wanted)?;
    let diff = diff(&guest.name, &shown(&guest.text), &shown(&fixed.text));
    Ok(Applied {
        fixed,
        diff,
        backup: None,
    })
}

/// Guests by rule.
#[derive(Default)]
struct Tally {
    guests: usize,
    /// Those that could not be read or changed.
    failed: usize,
    changed: BTreeMap<&'static str, usize>,
    left: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(&mut self, fixed: &Fixed) {
        let count = |rules: &mut BTreeMap<&'static str, usize>, of: &[brisk_lint::Finding]| {
            let mut names: Vec<_> = of.iter().map(|finding| finding.rule).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                *rules.entry(name).or_default() += 1;
            }
        };
        count(&mut self.changed, &fixed.applied);
        count(&mut self.left, &fixed.left);
    }

    fn tell(&self, args: &Args, topic: &Topic, ui: &Ui) {
        let list = |rules: &BTreeMap<&'static str, usize>| {
            let rules = rules.iter().map(|(rule, count)| format!("{rule} {count}"));
            rules.collect::<Vec<_>>().join(", ")
        };
        let failed = match self.failed {
            0 => String::new(),
            count => format!("; {count} could not be changed"),
        };
        match (self.changed.is_empty(), args.apply) {
            (true, _) if self.failed == self.guests && self.failed > 0 => {
                ui.note(&format!("none of {} guests could be changed", self.guests));
            }
            (true, _) if self.failed > 0 => ui.note(&format!(
                "{} of {} guests could not be changed, and there is nothing to change in the others",
                self.failed, self.guests
            )),
            (true, _) => ui.note(&format!(
                "there is nothing to change in {} guests",
                self.guests
            )),
            (false, false) => ui.note(&format!(
                "changes by rule, of {} guests: {}{failed}; --rule RULE --apply makes those of a \
                 rule",
                self.guests,
                list(&self.changed)
            )),
            (false, true) => ui.note(&format!(
                "changed by rule, of {} guests: {}{failed}; it counts from each guest's next cold \
                 start on ({} undo --all restores what was there)",
                self.guests,
                list(&self.changed),
                topic.command
            )),
        }
        if !self.left.is_empty() && args.rules.is_empty() {
            let more = topic
                .more
                .map_or_else(String::new, |more| format!(" ({more} --all says why)"));
            ui.note(&format!(
                "left to decide, in so many guests: {}{more}",
                list(&self.left)
            ));
        }
    }
}
