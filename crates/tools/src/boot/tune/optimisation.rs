//! Optimisations to try, in order: those with the largest effect come first, because the others are
//! measured on top of them. Pure.

use brisk_measure::Timeline;

use crate::guest::initcalls::dispensable_initcalls;
use crate::guest::{Firmware, Machine, Optimisations, Options, Ram};

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optimisation {
    /// Name in the ledger.
    pub name: String,
    /// Its effect.
    pub what: String,
    /// Security of the guest that it gives up.
    pub trades: Option<&'static str>,
    /// Whether only the guest's user can know what the guest loses by it.
    pub unknown: bool,
    change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// A machine, and optimisations that it does not boot surely without.
    Machine(Machine, &'static [&'static str]),
    Firmware(Firmware),
    Optimisations(Vec<String>),
    /// The initramfs as brisk makes it, not compressed.
    Uncompressed,
    Append(String),
    Memory(u64),
    Cpus(u32),
    Ram(Ram),
}

impl Optimisation {
    /// The options with the optimisation.
    #[must_use]
    pub fn apply(&self, options: &Options) -> Options {
        let mut changed = options.clone();
        match &self.change {
            Change::Machine(machine, needed) => {
                changed.hardware.machine = *machine;
                if let Optimisations::Only(known) = &mut changed.optimisations {
                    known.extend(needed.iter().map(|&name| name.to_owned()));
                }
            }
            Change::Firmware(firmware) => changed.hardware.firmware = *firmware,
            Change::Optimisations(names) => {
                if let Optimisations::Only(known) = &mut changed.optimisations {
                    known.extend(names.iter().cloned());
                }
            }
            Change::Uncompressed => changed.kernel.gzip_initramfs = false,
            Change::Append(text) => changed.kernel.append.push(text.clone()),
            Change::Memory(mib) => changed.hardware.memory_mib = *mib,
            Change::Cpus(cpus) => changed.hardware.cpus = *cpus,
            Change::Ram(ram) => changed.hardware.ram = *ram,
        }
        changed
    }
}

/// Options at the start of tuning: those of plain QEMU.
#[must_use]
pub fn plain(options: &Options) -> Options {
    let mut plain = options.clone();
    plain.hardware.machine = Machine::Pc;
    plain.hardware.firmware = Firmware::Auto;
    plain.hardware.cpu = None;
    plain.optimisations = Optimisations::Only(std::collections::BTreeSet::new());
    plain.kernel.gzip_initramfs = true;
    plain
}

/// All optimisations.
#[must_use]
pub fn optimisations() -> Vec<Optimisation> {
    let mut list = List(Vec::new());
    list.add_images();
    list.add_machines();
    list.add_parameters();
    list.add_sizes();
    list.add_trades();
    list.0
}

/// Turns optimisations of these names on.
fn on(names: &[&str]) -> Change {
    Change::Optimisations(names.iter().map(|&name| name.to_owned()).collect())
}

/// Optimisations, as they are collected.
struct List(Vec<Optimisation>);

impl List {
    fn add(&mut self, name: &str, what: &str, trades: Option<&'static str>, change: Change) {
        self.0.push(Optimisation {
            name: name.to_owned(),
            what: what.to_owned(),
            trades,
            unknown: false,
            change,
        });
    }

    /// Kernel, initramfs, console and CPU model.
    fn add_images(&mut self) {
        self.add(
            "vmlinux",
            "the kernel decompressed on the host, once",
            None,
            on(&["vmlinux"]),
        );
        // These change most, and what is random in a boot goes with the self-tests: all others are
        // tried on quicker boots, whose instructions show more.
        self.add(
            "cryptomgr.notests",
            "no self-tests of ciphers",
            None,
            on(&["cryptomgr.notests"]),
        );
        let initcalls = Change::Optimisations(dispensable_initcalls().collect());
        self.add(
            "initcalls",
            "initcalls left out that a guest can do without",
            None,
            initcalls,
        );
        self.add(
            "initramfs",
            "an initramfs that need not be decompressed",
            None,
            Change::Uncompressed,
        );
        self.add(
            "quiet",
            "no messages on the serial console",
            None,
            on(&["quiet"]),
        );
        self.add(
            "cpu",
            "a CPU model that is quick to emulate",
            None,
            on(&["cpu"]),
        );
    }

    /// Machine types and firmware.
    fn add_machines(&mut self) {
        self.add(
            "q35",
            "a PCI Express chipset",
            None,
            Change::Machine(Machine::Q35, &[]),
        );
        self.add(
            "microvm",
            "a machine type with few devices, and the rate of the time stamp counter given",
            None,
            // One boot in twelve hangs where the kernel measures it.
            Change::Machine(Machine::Microvm, &["tsc_early_khz"]),
        );
        self.add(
            "pc-no-acpi",
            "a machine type without ACPI tables and local APIC",
            None,
            Change::Machine(Machine::PcNoAcpi, &[]),
        );
        self.add(
            "qboot",
            "firmware that only starts kernels",
            None,
            Change::Firmware(Firmware::Qboot),
        );
    }

    /// Parameters of the kernel that give nothing up.
    fn add_parameters(&mut self) {
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
            self.add(name, what, None, on(&[name]));
        }
        self.add(
            "lsm",
            "no security modules that need a policy to do anything",
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
            self.add(text, what, None, Change::Append(text.to_owned()));
        }
    }

    /// Processors and memory.
    fn add_sizes(&mut self) {
        self.add("256M", "less memory to set up", None, Change::Memory(256));
        self.add("2 CPUs", "a second processor", None, Change::Cpus(2));
        self.add(
            "shared memory",
            "guest memory in a file",
            None,
            Change::Ram(Ram::Shared),
        );
    }

    /// Parameters that give up some of the guest's security.
    fn add_trades(&mut self) {
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
            self.add(text, what, Some(trades), Change::Append(text.to_owned()));
        }
    }
}

/// The optimisation that leaves out an initcall, which takes this share of a boot.
pub(super) fn without(initcall: &str, share: f64) -> Optimisation {
    Optimisation {
        name: format!("initcall_blacklist={initcall}"),
        what: format!("without what takes {:.1} % of a boot", share * 100.0),
        trades: PROTECTING
            .iter()
            .find(|(name, _)| *name == initcall)
            .map(|(_, trades)| *trades),
        unknown: true,
        change: Change::Append(format!("initcall_blacklist={initcall}")),
    }
}

/// Initcalls that protect, with the protection.
const PROTECTING: [(&str, &str); 8] = [
    ("init_user_buckets", HEAP),
    ("init_msg_buckets", HEAP),
    ("audit_init", "what happens in the guest is not recorded"),
    ("init_ima", UNCHECKED),
    ("init_evm", UNCHECKED),
    ("integrity_iintcache_init", UNCHECKED),
    ("aa_create_aafs", "AppArmor can be given no policy"),
    ("init_sel_fs", "SELinux can be given no policy"),
];
const HEAP: &str =
    "what programs have the kernel keep lies beside its own data, which exploits make use of";
const UNCHECKED: &str = "files that were tampered with are not noticed";

/// Least share of a boot for an initcall that is worth trying to leave out.
const LARGE: f64 = 0.01;
/// Most of them.
pub const CANDIDATES: usize = 8;

/// The initcalls that take most of a boot, with their shares. Names that may be no initcall's are
/// ignored: a guest can choose them.
#[must_use]
pub(super) fn candidates(timeline: &Timeline) -> Vec<Optimisation> {
    let Some(whole) = timeline.span() else {
        return Vec::new();
    };
    let part = |activity| {
        let span = timeline.span_of(activity)?;
        Some(span.duration() as f64 / whole.duration() as f64)
    };
    let mut parts: Vec<_> = timeline
        .activities
        .iter()
        .filter(|activity| activity.kind == "initcall" && is_name(&activity.name))
        .filter_map(|activity| Some((part(activity)?, &activity.name)))
        .filter(|(part, _)| part.is_finite() && *part >= LARGE)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    parts.truncate(CANDIDATES);
    parts
        .into_iter()
        .map(|(part, name)| without(name, part))
        .collect()
}

fn is_name(text: &str) -> bool {
    let part_of_one = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= 100 && text.bytes().all(part_of_one)
}

#[cfg(test)]
mod tests {
    use brisk_measure::Clock;

    use super::*;

    #[test]
    fn every_lever_changes_something() {
        let mut options = plain(&Options::default());
        options.hardware.memory_mib = 512;
        for optimisation in optimisations() {
            let changed = optimisation.apply(&options);
            assert_ne!(
                format!("{options:?}"),
                format!("{changed:?}"),
                "{}",
                optimisation.name
            );
        }
    }

    #[test]
    fn a_microvm_is_given_the_rate_that_it_cannot_measure() {
        let list = optimisations();
        let microvm = list
            .iter()
            .find(|optimisation| optimisation.name == "microvm")
            .unwrap();
        let changed = microvm.apply(&plain(&Options::default()));
        assert_eq!(changed.hardware.machine, Machine::Microvm);
        let Optimisations::Only(known) = changed.optimisations else {
            panic!("{:?}", changed.optimisations);
        };
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["tsc_early_khz"]);
    }

    #[test]
    fn what_takes_long_can_be_tried_without() {
        let clock = Clock::Instructions;
        let mut timeline = Timeline::new(clock);
        timeline
            .activity("kernel", "kernel", 0, 1000, clock)
            .activity("inet_init", "initcall", 100, 220, clock)
            .activity("small_init", "initcall", 300, 309, clock)
            .activity("pci_init", "initcall", 400, 700, clock)
            .activity("a,b", "initcall", 700, 790, clock)
            .activity("probe", "probe", 800, 890, clock);
        let found = candidates(&timeline);
        let shown: Vec<_> = found
            .iter()
            .map(|optimisation| (&*optimisation.name, &*optimisation.what))
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "initcall_blacklist=pci_init",
                    "without what takes 30.0 % of a boot"
                ),
                (
                    "initcall_blacklist=inet_init",
                    "without what takes 12.0 % of a boot"
                ),
            ]
        );
        let changed = found[0].apply(&Options::default());
        assert_eq!(changed.kernel.append, ["initcall_blacklist=pci_init"]);
        assert!(found.iter().all(|optimisation| optimisation.unknown));
        assert!(candidates(&Timeline::new(clock)).is_empty());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = optimisations()
            .into_iter()
            .map(|optimisation| optimisation.name)
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn what_weakens_the_guest_says_what_it_gives_up() {
        for optimisation in optimisations() {
            let weak = ["nokaslr", "mitigations", "init_on_alloc", "rodata", "audit"];
            let weakens = weak.iter().any(|word| optimisation.name.starts_with(word));
            assert_eq!(
                optimisation.trades.is_some(),
                weakens,
                "{}",
                optimisation.name
            );
        }
    }
}
