//! Exits of virtual CPUs, where KVM counts them and libvirt can be asked. Pure.

use std::collections::BTreeMap;

use brisk_vm::libvirt::DomainStatistics;
use serde::{Deserialize, Serialize};

/// Counters worth a line for people, most telling first (`arch/x86/kvm/x86.c`,
/// `kvm_vcpu_stats_desc`).
pub const NOTABLE: [&str; 8] = [
    "exits",
    "halt_exits",
    "halt_wakeup",
    "io_exits",
    "mmio_exits",
    "irq_exits",
    "irq_injections",
    "hypercalls",
];

/// How often virtual CPUs left the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exits {
    /// Counts a second of all virtual CPUs together, by KVM's names; those that stood still are
    /// left out. A name that ends with `_ns` counts nanoseconds.
    PerSecond(BTreeMap<String, f64>),
    /// They are not known.
    Unknown {
        /// Reason, for people.
        reason: String,
    },
}

impl Exits {
    /// Exits that are not known for this reason.
    #[must_use]
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown {
            reason: reason.into(),
        }
    }

    /// The difference between two readings, `seconds` apart.
    #[must_use]
    pub fn between(before: &DomainStatistics, after: &DomainStatistics, seconds: f64) -> Self {
        if after.vcpu_sums().is_empty() {
            return Self::unknown("libvirt has no counters of KVM for it (8.10 or later has them)");
        }
        if seconds <= 0.0 {
            return Self::unknown("no time was measured");
        }
        let old = before.vcpu_sums();
        let rates = after.vcpu_sums().into_iter().filter_map(|(name, now)| {
            // What goes backwards was started anew meanwhile.
            let grown = now.checked_sub(old.get(&name).copied()?)?;
            (grown > 0).then(|| (name, grown as f64 / seconds))
        });
        Self::PerSecond(rates.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(text: &str) -> DomainStatistics {
        let text = format!("Domain: 'x'\n{text}");
        DomainStatistics::parse(&text).remove(0)
    }

    #[test]
    fn counters_become_rates() {
        let before = statistics("vcpu.0.exits.sum=100\nvcpu.1.exits.sum=50\nvcpu.0.pf.sum=3\n");
        let after = statistics("vcpu.0.exits.sum=400\nvcpu.1.exits.sum=150\nvcpu.0.pf.sum=3\n");
        let rates = BTreeMap::from([("exits".to_owned(), 40.0)]);
        let exits = Exits::between(&before, &after, 10.0);
        assert_eq!(exits, Exits::PerSecond(rates));
        // A domain that was started anew, no time, no counters.
        let anew = Exits::between(&after, &before, 10.0);
        assert_eq!(anew, Exits::PerSecond(BTreeMap::new()));
        for exits in [
            Exits::between(&before, &after, 0.0),
            Exits::between(&statistics(""), &statistics(""), 10.0),
        ] {
            assert!(matches!(exits, Exits::Unknown { .. }), "{exits:?}");
        }
    }
}
