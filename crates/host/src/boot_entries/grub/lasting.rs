//! The default entry, and choices for one boot, which GRUB takes back as it starts.

use std::collections::BTreeMap;

use super::super::environment::variables;
use super::super::once::{Change, Once};
use super::state::Menu;
use super::{Ran, Script};

/// Variables of the environment block that are for one boot: of `grub-reboot` today, and before GRUB
/// 2.00, which kept the lasting default in the last of them.
pub(super) const ONCE: [&str; 3] = ["next_entry", "saved_entry", "prev_saved_entry"];

/// What a configuration comes to when nothing is chosen for one boot.
pub(super) struct Lasting {
    pub(super) menu: Menu,
    /// What was chosen for one boot, if that makes a difference.
    pub(super) chosen: Option<String>,
    /// `saved_entry` of the environment block.
    pub(super) saved_entry: String,
    /// What GRUB takes back as it starts.
    pub(super) once: Option<Once>,
}

impl Script<'_> {
    /// With what GRUB writes as it starts, the script comes to the lasting default.
    pub(super) fn lasting(&self, ran: &Ran) -> Lasting {
        let text = self.tree.text(&self.block()).unwrap_or_default();
        let environment = variables(&text);
        let changes = changes(&environment, &ran.saved);
        let menu = match &changes[..] {
            [] => ran.menu.clone(),
            _ => self.run(&changes).menu,
        };
        // A script that comes to the same without it does not use it, or it makes no difference.
        let is_chosen = ran.menu.default != menu.default;
        let is_saved = changes.iter().any(|it| ran.saved.contains_key(&it.name));
        let mut noted = ["next_entry", "saved_entry"]
            .map(|name| value(&environment, name))
            .into_iter();
        let chosen = noted.find(|it| !it.is_empty()).filter(|_| is_chosen);
        let saved_entry = changes.iter().find(|it| it.name == "saved_entry");
        let saved_entry = saved_entry.map_or(value(&environment, "saved_entry"), |it| &it.after);
        Lasting {
            menu,
            chosen: chosen.map(str::to_owned),
            saved_entry: saved_entry.to_owned(),
            once: (is_chosen || is_saved).then(|| Once::Environment {
                file: self.block(),
                changes: changes.clone(),
            }),
        }
    }
}

/// Value of a variable in an environment block; empty without one.
fn value<'e>(environment: &'e [(String, String)], name: &str) -> &'e str {
    let found = environment.iter().rev().find(|(it, _)| it == name);
    found.map_or("", |(_, value)| value)
}

/// What GRUB changes in the environment block as it starts, of what is for one boot: by the commands
/// that the script comes to, and what `grub-reboot` notes in any case.
fn changes(environment: &[(String, String)], saved: &BTreeMap<String, String>) -> Vec<Change> {
    let change = |name: &&str| {
        let of_script = saved.get(*name).map(String::as_str);
        let after = of_script.or((*name == ONCE[0]).then_some(""))?;
        let before = value(environment, name);
        (before != after).then(|| Change {
            name: (*name).to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        })
    };
    ONCE.iter().filter_map(change).collect()
}
