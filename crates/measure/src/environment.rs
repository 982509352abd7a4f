//! Environment of a measurement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts that may influence a measurement. Unknown facts are left out, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Environment {
    /// Name of the host, if its owner wants it in the report.
    pub host: Option<String>,
    /// `model name` of `/proc/cpuinfo`.
    pub cpu_model: Option<String>,
    /// CPUs online, counting hardware threads.
    pub logical_cpus: Option<u32>,
    /// Installed memory, in bytes.
    pub memory: Option<u64>,
    /// `uname -r` of the host.
    pub host_kernel: Option<String>,
    /// Version of QEMU, as `10.0.2`.
    pub qemu_version: Option<String>,
    /// Accelerator of the guest: `kvm`, `tcg`, `tcg icount`.
    pub accelerator: Option<String>,
    /// `scaling_governor` of the CPUs.
    pub governor: Option<String>,
    /// Mitigations of CPU vulnerabilities in force: `/sys/devices/system/cpu/vulnerabilities`.
    pub mitigations: BTreeMap<String, String>,
    /// Load average over one minute when the measurement began (proc_loadavg(5)).
    pub load: Option<f64>,
    /// `uname -r` of the guest.
    pub guest_kernel: Option<String>,
    /// The command that was measured, program first.
    pub command: Vec<String>,
    /// Revision of the thing under test, as a commit or a package version.
    pub revision: Option<String>,
    /// Other facts that matter to one kind of measurement.
    pub extra: BTreeMap<String, String>,
}

/// One thing that makes two environments incomparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the fact, for people: `accelerator`.
    pub what: String,
    /// Its value in the first environment, if known.
    pub a: Option<String>,
    /// Its value in the second.
    pub b: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let (a, b) = (known(&self.a), known(&self.b));
        write!(formatter, "{}: {a} against {b}", self.what)
    }
}

impl Environment {
    /// Whether numbers measured in `a` and in `b` may be compared: the accelerator, the version of
    /// QEMU and the model of the CPU must be equal. A fact that is known of one environment only
    /// counts as a difference.
    ///
    /// # Errors
    ///
    /// All differences.
    pub fn comparable(a: &Self, b: &Self) -> Result<(), Vec<Difference>> {
        let must_agree = |what: &str, field: fn(&Self) -> &Option<String>| {
            let (a, b) = (field(a), field(b));
            (a != b).then(|| Difference {
                what: what.to_owned(),
                a: a.clone(),
                b: b.clone(),
            })
        };
        let differences: Vec<Difference> = [
            must_agree("accelerator", |environment| &environment.accelerator),
            must_agree("QEMU version", |environment| &environment.qemu_version),
            must_agree("CPU model", |environment| &environment.cpu_model),
        ]
        .into_iter()
        .flatten()
        .collect();
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences)
        }
    }

    /// The facts that are equal in both environments, for a statement about both. The load is that
    /// of `self`.
    #[must_use]
    pub fn common(mut self, other: &Self) -> Self {
        let text = |mine: &mut Option<String>, theirs: &Option<String>| {
            mine.take_if(|mine| Some(&*mine) != theirs.as_ref());
        };
        text(&mut self.host, &other.host);
        text(&mut self.cpu_model, &other.cpu_model);
        text(&mut self.host_kernel, &other.host_kernel);
        text(&mut self.qemu_version, &other.qemu_version);
        text(&mut self.accelerator, &other.accelerator);
        text(&mut self.governor, &other.governor);
        text(&mut self.guest_kernel, &other.guest_kernel);
        text(&mut self.revision, &other.revision);
        self.logical_cpus
            .take_if(|count| Some(*count) != other.logical_cpus);
        self.memory.take_if(|bytes| Some(*bytes) != other.memory);
        if self.command != other.command {
            self.command.clear();
        }
        self.mitigations
            .retain(|name, value| other.mitigations.get(name) == Some(value));
        self.extra
            .retain(|name, value| other.extra.get(name) == Some(value));
        self
    }

    /// Every known fact with its name for people, in a fixed order.
    pub fn facts(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &Option<String>| Some((name.to_owned(), value.clone()?));
        let mut facts: Vec<(String, String)> = [
            text("host", &self.host),
            text("CPU model", &self.cpu_model),
            text("logical CPUs", &self.logical_cpus.map(|n| n.to_string())),
            text(
                "memory",
                &self.memory.map(|n| crate::Unit::Bytes.format(n as f64)),
            ),
            text("host kernel", &self.host_kernel),
            text("QEMU version", &self.qemu_version),
            text("accelerator", &self.accelerator),
            text("governor", &self.governor),
            text("load", &self.load.map(|load| format!("{load:.2}"))),
            text("guest kernel", &self.guest_kernel),
            text("revision", &self.revision),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !self.command.is_empty() {
            facts.push(("command".to_owned(), self.command.join(" ")));
        }
        let named = |kind: &str, map: &BTreeMap<String, String>| -> Vec<(String, String)> {
            map.iter()
                .map(|(name, value)| (format!("{kind}{name}"), value.clone()))
                .collect()
        };
        facts.extend(named("mitigation: ", &self.mitigations));
        facts.extend(named("", &self.extra));
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcg() -> Environment {
        Environment {
            accelerator: Some("tcg".to_owned()),
            qemu_version: Some("10.0.2".to_owned()),
            cpu_model: Some("EPYC".to_owned()),
            ..Environment::default()
        }
    }

    #[test]
    fn what_may_differ_does_not_matter() {
        let other = Environment {
            load: Some(3.0),
            guest_kernel: Some("6.12".to_owned()),
            revision: Some("abc".to_owned()),
            ..tcg()
        };
        assert_eq!(Environment::comparable(&tcg(), &other), Ok(()));
    }

    #[test]
    fn what_is_common_is_what_both_have() {
        let with = |kernel: &str, firmware: &str| Environment {
            guest_kernel: Some(kernel.to_owned()),
            extra: [("machine", "pc"), ("firmware", firmware)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..tcg()
        };
        let common = with("6.1", "qboot").common(&with("6.12", "SeaBIOS"));
        let expected = Environment {
            extra: [("machine".to_owned(), "pc".to_owned())].into(),
            ..tcg()
        };
        assert_eq!(common, expected);
        assert_eq!(tcg().common(&tcg()), tcg());
    }

    #[test]
    fn every_difference_is_named() {
        let other = Environment {
            accelerator: Some("kvm".to_owned()),
            qemu_version: None,
            ..tcg()
        };
        let differences = Environment::comparable(&tcg(), &other).unwrap_err();
        let text: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "accelerator: tcg against kvm",
                "QEMU version: 10.0.2 against unknown"
            ]
        );
        let other = Environment {
            cpu_model: Some("Xeon".to_owned()),
            ..tcg()
        };
        assert_eq!(
            Environment::comparable(&tcg(), &other).unwrap_err().len(),
            1
        );
    }
}
