//! What `systemctl show` says of units. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::reboot::config::is_unit;

/// Units that one may name as stopping with it.
const MOST: usize = 256;
/// Names of units that systemd stops with the unit (systemd.unit(5): of Requires=, BindsTo=, PartOf=
/// and PropagatesStopTo=), or that would start it again (Sockets=, and triggers of timers and paths).
const STOPS: [&str; 5] = [
    "RequiredBy",
    "BoundBy",
    "ConsistsOf",
    "PropagatesStopTo",
    "TriggeredBy",
];

/// Value of `--property=` for [`parse`].
pub(in crate::reboot::quiesce) const PROPERTIES: &str =
    "Id,ActiveState,RequiredBy,BoundBy,ConsistsOf,PropagatesStopTo,TriggeredBy";

/// State of a unit, and its relations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnitFacts {
    /// Whether it is active.
    pub is_active: bool,
    /// Units that stop with it, or that would start it again.
    pub stops: Vec<String>,
}

impl UnitFacts {
    pub(super) fn active() -> Self {
        Self {
            is_active: true,
            stops: Vec::new(),
        }
    }
}

/// Facts of units by name, from the output of `systemctl show`: `KEY=VALUE` lines, and an empty line
/// between units.
#[must_use]
pub fn parse(text: &str) -> BTreeMap<String, UnitFacts> {
    let mut units = BTreeMap::new();
    let mut name = None;
    let mut facts = UnitFacts::default();
    for line in text.lines().chain([""]) {
        match line.split_once('=') {
            Some(("Id", value)) => name = Some(value).filter(|value| is_unit(value)),
            Some(("ActiveState", value)) => facts.is_active = is_active(value),
            Some((key, value)) if STOPS.contains(&key) => {
                let names = value.split(' ').filter(|name| is_unit(name));
                let room = MOST.saturating_sub(facts.stops.len());
                facts.stops.extend(names.take(room).map(str::to_owned));
            }
            Some(_) => {}
            None => {
                let facts = std::mem::take(&mut facts);
                if let Some(name) = name.take() {
                    units.insert(name.to_owned(), facts);
                }
            }
        }
    }
    units
}

/// Whether a state is one of a unit that runs, or is about to.
fn is_active(state: &str) -> bool {
    ["active", "reloading", "activating", "refreshing"].contains(&state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_apart_and_names_are_names() {
        let text = "Id=gdm.service\nActiveState=active\nRequiredBy=\nConsistsOf=a.service b.socket\n\
                    \nId=x.service\nActiveState=inactive\nTriggeredBy=x.socket\n\n\
                    Id=--all\nActiveState=active\n";
        let units = parse(text);
        assert_eq!(units.len(), 2);
        assert!(units["gdm.service"].is_active);
        assert_eq!(units["gdm.service"].stops, ["a.service", "b.socket"]);
        assert!(!units["x.service"].is_active);
        assert_eq!(units["x.service"].stops, ["x.socket"]);
        assert!(parse("").is_empty());
        let many = format!("Id=x.service\nRequiredBy={}", "a.service ".repeat(10_000));
        assert_eq!(parse(&many)["x.service"].stops.len(), MOST);
    }
}
