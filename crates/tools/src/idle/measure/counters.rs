//! Asks libvirt for KVM's counters.

use std::time::Instant;

use brisk_vm::libvirt::{DomainStatistics, Virsh};

use super::exits::Exits;
use super::guests::{Guest, Kind};
use brisk_host::chain;

/// Source of counters: a libvirt, if a guest is a domain under KVM.
#[derive(Debug)]
pub(super) enum Counters {
    /// No guest has counters.
    Needless,
    /// The libvirt.
    Libvirt(Virsh),
    /// No libvirt can be asked: the reason.
    Unreachable(String),
}

/// What a libvirt said, or why not.
pub(super) type Reading = Result<Vec<DomainStatistics>, String>;

impl Counters {
    pub(super) fn new(guests: &[Guest], connect: Option<&str>) -> Self {
        if !guests.iter().any(has_counters) {
            return Self::Needless;
        }
        match Virsh::connect(connect) {
            Ok(virsh) => Self::Libvirt(virsh),
            Err(error) => Self::Unreachable(chain(&error)),
        }
    }

    pub(super) fn read(&self) -> Reading {
        match self {
            Self::Needless => Ok(Vec::new()),
            Self::Unreachable(reason) => Err(reason.clone()),
            Self::Libvirt(virsh) => DomainStatistics::of_all(virsh).map_err(|error| chain(&error)),
        }
    }

    /// Exits of each guest since `before`, which was read at `start`.
    pub(super) fn exits(&self, guests: &[Guest], before: &Reading, start: Instant) -> Vec<Exits> {
        let after = self.read();
        let seconds = start.elapsed().as_secs_f64();
        let each = guests.iter();
        each.map(|guest| exits(guest, before, &after, seconds))
            .collect()
    }
}

/// Whether libvirt can have counters of the guest.
fn has_counters(guest: &Guest) -> bool {
    guest.uses_kvm() && guest.kind == Kind::Domain
}

fn exits(guest: &Guest, before: &Reading, after: &Reading, seconds: f64) -> Exits {
    if !guest.uses_kvm() {
        let accelerator = &guest.accelerator;
        return Exits::unknown(format!("{accelerator} does not count exits; KVM does"));
    }
    if !has_counters(guest) {
        return Exits::unknown(
            "libvirt counts the exits of its domains; another QEMU's are in \
             /sys/kernel/debug/kvm, for root",
        );
    }
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(reason), _) | (_, Err(reason)) => return Exits::unknown(reason),
    };
    let of = |list: &[DomainStatistics]| {
        let mut list = list.iter();
        list.find(|domain| Some(&domain.name) == guest.name.as_ref())
            .cloned()
    };
    match (of(before), of(after)) {
        (Some(before), Some(after)) => Exits::between(&before, &after, seconds),
        _ => Exits::unknown("this libvirt does not have the domain; name its own with --connect"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn guest(kind: Kind, accelerator: &str) -> Guest {
        Guest {
            pid: 4711,
            name: Some("win10".into()),
            kind,
            program: "qemu-system-x86_64".into(),
            accelerator: accelerator.into(),
            roles: BTreeMap::new(),
            helpers: Default::default(),
        }
    }

    fn reading(exits: u64) -> Reading {
        let text = format!("Domain: 'win10'\n  vcpu.0.exits.sum={exits}\n");
        Ok(DomainStatistics::parse(&text))
    }

    fn reason(exits: Exits) -> String {
        match exits {
            Exits::Unknown { reason } => reason,
            Exits::PerSecond(rates) => panic!("{rates:?}"),
        }
    }

    #[test]
    fn a_domain_under_kvm_has_exits() {
        let guest = guest(Kind::Domain, "kvm");
        let found = exits(&guest, &reading(100), &reading(400), 10.0);
        let expected = BTreeMap::from([("exits".to_owned(), 30.0)]);
        assert_eq!(found, Exits::PerSecond(expected));
    }

    #[test]
    fn what_is_missing_is_said() {
        let cases = [
            (
                guest(Kind::Domain, "tcg"),
                reading(1),
                "tcg does not count exits",
            ),
            (
                guest(Kind::Qemu, "kvm"),
                reading(1),
                "libvirt counts the exits of its domains",
            ),
            (
                guest(Kind::Domain, "kvm"),
                Err("no daemon".into()),
                "no daemon",
            ),
            (guest(Kind::Domain, "kvm"), Ok(Vec::new()), "--connect"),
        ];
        for (guest, before, part) in cases {
            let told = reason(exits(&guest, &before, &reading(2), 10.0));
            assert!(told.contains(part), "{told}");
        }
        assert!(matches!(
            Counters::new(&[guest(Kind::Qemu, "kvm")], None),
            Counters::Needless
        ));
    }
}
