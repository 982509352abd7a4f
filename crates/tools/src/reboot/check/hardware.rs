//! Known hardware, firmware and drivers: data, not code. The file is `data/reboot/hardware.toml`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::consequence::Consequence;
use super::machine::{Device, Machine};

const FILE: &str = include_str!("../../../data/reboot/hardware.toml");
/// Memory that one pattern may take, bytes.
const LARGEST_PATTERN: usize = 1 << 20;

/// Something that is known, and what it is known of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// Name of the rule that looks for it.
    pub(super) rule: String,
    /// Driver of a device.
    driver: Option<String>,
    /// Module that is loaded.
    pub(super) module: Option<String>,
    /// Model name of the processor.
    #[serde(default, deserialize_with = "pattern")]
    processor: Option<Regex>,
    /// Model in the device tree.
    #[serde(default, deserialize_with = "pattern")]
    model: Option<Regex>,
    /// Fields of DMI.
    #[serde(default, deserialize_with = "patterns")]
    dmi: BTreeMap<String, Regex>,
    /// Releases of the running kernel from which on it is otherwise: the first, and those of stable
    /// series before it.
    #[serde(default)]
    fixed: Vec<String>,
    /// Description of what happens.
    what: String,
    /// What to do.
    fix: String,
    /// What follows.
    pub(super) consequence: Consequence,
    /// Where that is known from.
    pub(super) source: String,
}

#[cfg(test)]
impl Known {
    /// Text of what happens behind the address of a device, which no other entry has.
    pub(super) fn start(&self) -> &str {
        self.what.trim_start_matches("{address}")
    }
}

/// Something known that is true of a machine.
#[derive(Debug)]
pub(super) struct Match<'a> {
    pub(super) known: &'static Known,
    /// The device, if it is about one.
    device: Option<&'a Device>,
}

impl Match<'_> {
    /// Description of what happens, on this machine.
    pub(super) fn what(&self) -> String {
        format!("{} ({})", self.filled(&self.known.what), self.known.source)
    }

    /// What to do, on this machine.
    pub(super) fn fix(&self) -> String {
        self.filled(&self.known.fix)
    }

    fn filled(&self, text: &str) -> String {
        let address = self.device.map_or("", |device| &device.address);
        text.replace("{address}", address)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    known: Vec<Known>,
}

/// All of the file.
pub(super) fn all() -> &'static [Known] {
    static ALL: OnceLock<Vec<Known>> = OnceLock::new();
    ALL.get_or_init(|| {
        let file: File = toml::from_str(FILE).expect("a file that the tests parse");
        file.known
    })
}

/// Entries for a rule that are true of a machine.
pub(super) fn matches<'a>(rule: &str, machine: &'a Machine) -> Vec<Match<'a>> {
    let known = all().iter().filter(|known| known.rule == rule);
    let known = known.filter(|known| !is_fixed(&known.fixed, &machine.platform.release));
    known.flat_map(|known| of_one(known, machine)).collect()
}

fn of_one<'a>(known: &'static Known, machine: &'a Machine) -> Vec<Match<'a>> {
    if let Some(driver) = &known.driver {
        let devices = machine.devices.list.iter();
        let bound = devices.filter(|device| device.driver.as_ref() == Some(driver));
        let found = bound.map(|device| Match {
            known,
            device: Some(device),
        });
        return found.collect();
    }
    let platform = &machine.platform;
    let is_true = if let Some(module) = &known.module {
        machine.devices.module(module).is_some()
    } else if let Some(processor) = &known.processor {
        processor.is_match(&platform.processor)
    } else if let Some(model) = &known.model {
        let found = platform.model.as_deref();
        found.is_some_and(|found| model.is_match(found))
    } else {
        let has = |(field, pattern): (&String, &Regex)| {
            let value = platform.dmi.get(field);
            value.is_some_and(|value| pattern.is_match(value))
        };
        !known.dmi.is_empty() && known.dmi.iter().all(has)
    };
    let found = is_true.then_some(Match {
        known,
        device: None,
    });
    found.into_iter().collect()
}

/// Whether a release is the first that has a change, or later, or one of a stable series that has
/// it. Not if none has it.
fn is_fixed(fixed: &[String], release: &str) -> bool {
    let Some(own) = numbers(release) else {
        return false;
    };
    let mut since = fixed.iter().filter_map(|text| numbers(text));
    let first = since.next();
    let is_in_series =
        |(major, minor, patch): (u32, u32, u32)| (own.0, own.1) == (major, minor) && own.2 >= patch;
    first.is_some_and(|first| own.cmp(&first) != Ordering::Less) || since.any(is_in_series)
}

/// Version, patch level and sublevel of a release such as `6.1.0-56-amd64`.
fn numbers(release: &str) -> Option<(u32, u32, u32)> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = release.find(|c| !is_number(c)).unwrap_or(release.len());
    let mut parts = release[..end].split('.').map(str::parse::<u32>);
    let major = parts.next()?.ok()?;
    let minor = parts.next()?.ok()?;
    Some((major, minor, parts.next().and_then(Result::ok).unwrap_or(0)))
}

fn compiled<E: serde::de::Error>(text: &str) -> Result<Regex, E> {
    let built = RegexBuilder::new(text).size_limit(LARGEST_PATTERN).build();
    built.map_err(E::custom)
}

fn pattern<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Regex>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| compiled(&text)).transpose()
}

fn patterns<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Regex>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    let pairs = texts.into_iter();
    pairs
        .map(|(field, text)| Ok((field, compiled(&text)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_about_one_thing_and_has_a_source() {
        assert!(all().len() > 10);
        for known in all() {
            let about = [
                known.driver.is_some(),
                known.module.is_some(),
                known.processor.is_some(),
                known.model.is_some(),
                !known.dmi.is_empty(),
            ];
            let count = about.iter().filter(|is_it| **is_it).count();
            assert_eq!(count, 1, "{known:?}");
            assert!(
                !known.source.is_empty() && !known.fix.is_empty(),
                "{known:?}"
            );
            let about_device = known.what.contains("{address}");
            assert_eq!(about_device, known.driver.is_some(), "{known:?}");
        }
    }

    #[test]
    fn a_change_is_in_its_release_and_in_stable_series() {
        let fixed = ["6.15".to_owned(), "6.14.9".to_owned()];
        for (release, is_it) in [
            ("6.15.0-rc1", true),
            ("6.15.2-arch1", true),
            ("7.0.1", true),
            ("6.14.9", true),
            ("6.14.10-1", true),
            ("6.14.8", false),
            ("6.1.0-56-cloud-amd64", false),
            ("6.9", false),
            ("", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_fixed(&fixed, release), is_it, "{release}");
        }
        assert!(!is_fixed(&[], "6.1.0"));
    }
}
