//! Counters that KVM keeps of a domain, from `virsh domstats --vcpu --vm` (libvirt 8.10).

use std::collections::BTreeMap;

use super::virsh::{Error, Virsh};

/// Counters of a domain since its start, with KVM's names (`Documentation/virt/kvm/api.rst` of the
/// kernel, "KVM_GET_STATS_FD"). Only those that grow: the kind `sum` of virsh(1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainStatistics {
    /// Name of the domain.
    pub name: String,
    /// Counters of each virtual CPU, such as `exits` and `halt_wakeup`.
    pub vcpus: BTreeMap<u32, BTreeMap<String, u64>>,
    /// Counters of the VM as a whole.
    pub vm: BTreeMap<String, u64>,
}

impl DomainStatistics {
    /// Counters of all domains that run.
    ///
    /// # Errors
    /// If `virsh` fails, or is older than 8.10.
    pub fn of_all(virsh: &Virsh) -> Result<Vec<Self>, Error> {
        // Without --nowait a domain whose monitor is busy would hold up the others.
        let words = ["domstats", "--vcpu", "--vm", "--list-active", "--nowait"];
        Ok(Self::parse(&virsh.call(&words)?))
    }

    /// Parses the output of `virsh domstats`. Lines that are not understood are left out.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut domains: Vec<Self> = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("Domain: ") {
                let quoted = name
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''));
                domains.push(Self {
                    name: quoted.unwrap_or(name).to_owned(),
                    ..Self::default()
                });
            } else if let (Some(domain), Some((key, value))) =
                (domains.last_mut(), line.split_once('='))
            {
                domain.read(key, value);
            }
        }
        domains
    }

    /// All virtual CPUs together.
    #[must_use]
    pub fn vcpu_sums(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::<String, u64>::new();
        for (name, value) in self.vcpus.values().flatten() {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*value);
        }
        sums
    }

    /// Whether KVM counted anything: under TCG it does not.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vcpus.is_empty() && self.vm.is_empty()
    }

    fn read(&mut self, key: &str, value: &str) -> Option<()> {
        let value: u64 = value.parse().ok()?;
        let key = key.strip_suffix(".sum")?;
        match key.split_once('.')? {
            ("vm", name) => {
                self.vm.insert(name.to_owned(), value);
            }
            ("vcpu", rest) => {
                let (index, name) = rest.split_once('.')?;
                let index = index.parse().ok()?;
                let counters = self.vcpus.entry(index).or_default();
                counters.insert(name.to_owned(), value);
            }
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written from virsh(1) of libvirt 9.0, "domstats", and the counters of Linux 6.1 on an Intel
    /// processor; not captured, as that needs KVM.
    const OUTPUT: &str = include_str!("fixtures/domstats.txt");

    #[test]
    fn counters_of_each_virtual_cpu_are_read() {
        let domains = DomainStatistics::parse(OUTPUT);
        let names: Vec<_> = domains.iter().map(|domain| &*domain.name).collect();
        assert_eq!(names, ["win10", "it's tcg"]);
        let domain = &domains[0];
        assert_eq!(domain.vcpus.len(), 2);
        assert_eq!(domain.vcpus[&0]["exits"], 5_468_522);
        assert_eq!(domain.vcpus[&1]["halt_wakeup"], 119_000);
        // Instant values and maxima do not grow, and time is no counter of KVM.
        assert!(!domain.vcpus[&0].contains_key("blocking"));
        assert!(!domain.vcpus[&0].contains_key("time"));
        assert_eq!(domain.vcpu_sums()["exits"], 5_468_522 + 1_000_478);
        assert_eq!(domain.vm["remote_tlb_flush"], 70_131);
        assert!(domains[1].is_empty());
    }

    proptest! {
        #[test]
        fn any_output_is_read(text in "(Domain: '?[a-z']{0,4}'?\n|vcpu[.0-9]{0,12}[a-z_.]{0,8}(.sum)?=[0-9-]{0,22}\n|\\PC{0,30}\n){0,12}") {
            let domains = DomainStatistics::parse(&text);
            for domain in &domains {
                let _ = domain.vcpu_sums();
            }
        }

        #[test]
        fn sums_do_not_overflow(a: u64, b: u64) {
            let text = format!("Domain: 'x'\n vcpu.0.exits.sum={a}\n vcpu.1.exits.sum={b}\n");
            let sums = DomainStatistics::parse(&text)[0].vcpu_sums();
            prop_assert_eq!(sums["exits"], a.saturating_add(b));
        }
    }
}
