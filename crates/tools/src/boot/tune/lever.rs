//! What can be tried, in the order it is tried: what changes most comes first, because the rest
//! is measured on top of it. Pure.

use crate::run::parameters::dispensable_initcalls;
use crate::run::{Firmware, Levers, Machine, Options, Ram};

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// Name in the ledger.
    pub name: String,
    /// What it does.
    pub what: &'static str,
    /// What of the guest's security it gives up.
    pub trades: Option<&'static str>,
    change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// A machine, and levers that it does not boot surely without.
    Machine(Machine, &'static [&'static str]),
    Firmware(Firmware),
    Levers(Vec<String>),
    Append(&'static str),
    Memory(u64),
    Cpus(u32),
    Ram(Ram),
}

impl Lever {
    /// The options with it.
    #[must_use]
    pub fn apply(&self, options: &Options) -> Options {
        let mut changed = options.clone();
        match &self.change {
            Change::Machine(machine, needed) => {
                changed.machine = *machine;
                if let Levers::Only(known) = &mut changed.levers {
                    known.extend(needed.iter().map(|&name| name.to_owned()));
                }
            }
            Change::Firmware(firmware) => changed.firmware = *firmware,
            Change::Levers(names) => {
                if let Levers::Only(known) = &mut changed.levers {
                    known.extend(names.iter().cloned());
                }
            }
            Change::Append(text) => changed.append.push((*text).to_owned()),
            Change::Memory(mib) => changed.memory_mib = *mib,
            Change::Cpus(cpus) => changed.cpus = *cpus,
            Change::Ram(ram) => changed.ram = *ram,
        }
        changed
    }
}

/// Where tuning starts: what a user of plain QEMU has.
#[must_use]
pub fn plain(options: &Options) -> Options {
    Options {
        machine: Machine::Pc,
        firmware: Firmware::Auto,
        cpu: None,
        levers: Levers::Only(std::collections::BTreeSet::new()),
        ..options.clone()
    }
}

/// All that is tried.
#[must_use]
pub fn levers() -> Vec<Lever> {
    let mut list = Vec::new();
    let mut add = |name: &str, what, trades, change| {
        list.push(Lever {
            name: name.to_owned(),
            what,
            trades,
            change,
        });
    };
    let on = |names: &[&str]| Change::Levers(names.iter().map(|&name| name.to_owned()).collect());
    add(
        "vmlinux",
        "the kernel decompressed on the host, once",
        None,
        on(&["vmlinux"]),
    );
    // These change most, and what is random in a boot goes with the self-tests: all others are
    // tried on quicker boots, whose instructions tell more.
    add(
        "cryptomgr.notests",
        "no self-tests of ciphers",
        None,
        on(&["cryptomgr.notests"]),
    );
    let initcalls = Change::Levers(dispensable_initcalls().collect());
    add(
        "initcalls",
        "initcalls left out that a guest can do without",
        None,
        initcalls,
    );
    add(
        "quiet",
        "no messages on the serial console",
        None,
        on(&["quiet"]),
    );
    add(
        "cpu",
        "a CPU model that is quick to emulate",
        None,
        on(&["cpu"]),
    );
    add(
        "q35",
        "a PCI Express chipset",
        None,
        Change::Machine(Machine::Q35, &[]),
    );
    add(
        "microvm",
        "a machine with few devices, and the rate of the time stamp counter given",
        None,
        // One boot in twelve hangs where the kernel measures it.
        Change::Machine(Machine::Microvm, &["tsc_early_khz"]),
    );
    add(
        "pc-no-acpi",
        "a machine without ACPI tables and local APIC",
        None,
        Change::Machine(Machine::PcNoAcpi, &[]),
    );
    add(
        "qboot",
        "firmware that only starts kernels",
        None,
        Change::Firmware(Firmware::Qboot),
    );
    for (name, what) in [
        (
            "tsc_early_khz",
            "the rate of the time stamp counter given, not measured",
        ),
        ("tsc", "no watchdog for the time stamp counter"),
        ("no_timer_check", "no test of the timer's interrupt"),
        ("noreplace-smp", "lock prefixes are not patched away"),
        ("8250.nr_uarts", "no driver for serial ports"),
        (
            "random.trust_cpu",
            "the processor seeds the random generator",
        ),
        ("pci", "no search for PCI buses"),
    ] {
        add(name, what, None, on(&[name]));
    }
    add(
        "lsm",
        "no security modules that need a policy to do anything, with --root none",
        None,
        on(&["lsm"]),
    );
    for (text, what) in [
        (
            "rcupdate.rcu_expedited=1",
            "RCU does not wait for quiet moments",
        ),
        ("nowatchdog", "no detector of lockups"),
        ("psi=0", "no pressure stall information"),
        (
            "cgroup_disable=memory",
            "no accounting of memory to control groups",
        ),
        ("raid=noautodetect", "no search for RAID arrays"),
        ("edd=off", "no BIOS disk data"),
    ] {
        add(text, what, None, Change::Append(text));
    }
    add("256M", "less memory to set up", None, Change::Memory(256));
    add("2 CPUs", "a second processor", None, Change::Cpus(2));
    add(
        "shared memory",
        "guest memory in a file",
        None,
        Change::Ram(Ram::Shared),
    );
    for (text, what, trades) in [
        (
            "nokaslr",
            "kernel memory at fixed addresses",
            "exploits need not find out where the kernel lies",
        ),
        (
            "mitigations=off",
            "no mitigations of processor flaws",
            "programs in the guest can read each other's and the kernel's memory",
        ),
        (
            "init_on_alloc=0",
            "memory is not cleared when it is allocated",
            "what was in memory before can leak",
        ),
        (
            "rodata=off",
            "kernel text stays writable and is not checked",
            "a flaw in the kernel can change its code",
        ),
        (
            "audit=0",
            "no audit",
            "what happens in the guest is not recorded",
        ),
    ] {
        add(text, what, Some(trades), Change::Append(text));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lever_changes_something() {
        let options = plain(&Options::default());
        for lever in levers() {
            let changed = lever.apply(&Options {
                memory_mib: 512,
                ..options.clone()
            });
            assert_ne!(
                format!("{options:?}"),
                format!("{changed:?}"),
                "{}",
                lever.name
            );
        }
    }

    #[test]
    fn a_microvm_is_given_the_rate_that_it_cannot_measure() {
        let list = levers();
        let microvm = list.iter().find(|lever| lever.name == "microvm").unwrap();
        let changed = microvm.apply(&plain(&Options::default()));
        assert_eq!(changed.machine, Machine::Microvm);
        let Levers::Only(known) = changed.levers else {
            panic!("{:?}", changed.levers);
        };
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["tsc_early_khz"]);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = levers().into_iter().map(|lever| lever.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_weakens_the_guest_says_what_it_gives_up() {
        for lever in levers() {
            let weak = ["nokaslr", "mitigations", "init_on_alloc", "rodata", "audit"];
            let weakens = weak.iter().any(|word| lever.name.starts_with(word));
            assert_eq!(lever.trades.is_some(), weakens, "{}", lever.name);
        }
    }
}
