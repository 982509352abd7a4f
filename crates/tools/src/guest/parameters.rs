//! The kernel's command line, each parameter with its reason. Pure.
//!
//! Sources: `Documentation/admin-guide/kernel-parameters.txt` for what they do; what they
//! save is measured in `benchmarks/`.

use brisk_vm::qemu::{Accelerator, Machine, Parameter};

use super::initcalls::{DISPENSABLE, When};
use super::optimisations::{INITCALL, Optimisations};

/// Facts that the command line depends on.
#[derive(Debug, Clone)]
pub(crate) struct Setting<'a> {
    pub(crate) optimisations: &'a Optimisations,
    pub(crate) accelerator: Accelerator,
    pub(crate) tsc_khz: Option<u64>,
    pub(crate) console: bool,
    pub(crate) keep_going_on_panic: bool,
    pub(crate) all_initcalls: bool,
    pub(crate) signed_modules: bool,
    pub(crate) machine: Machine,
    /// Whether initcalls are logged.
    pub(crate) trace: bool,
    /// Whether everything random is pinned.
    pub(crate) instructions: bool,
    /// Whether nothing in the guest loads a security policy, unless the user does.
    pub(crate) no_policy: bool,
    /// Whether QEMU emulates `cmpxchg16b` wrongly.
    pub(crate) no_cmpxchg16b: bool,
    pub(crate) append: &'a [String],
}

/// How parameters of and about security modules begin, those that need a policy.
const POLICIES: [&str; 8] = [
    "lsm=",
    "security=",
    "apparmor",
    "selinux",
    "tomoyo",
    "ipe",
    "ima",
    "evm",
];

/// Whether one of these parameters is for a security module that needs a policy.
fn requests_policies(append: &[String]) -> bool {
    let speaks = |text: &String| POLICIES.iter().any(|of| text.starts_with(of));
    append.iter().any(speaks)
}

/// Whether a machine type has little hardware.
const fn bare(machine: Machine) -> bool {
    matches!(
        machine,
        Machine::Microvm { .. } | Machine::Pc { acpi: false }
    )
}

/// Parameters as they are collected.
struct List<'a> {
    optimisations: &'a Optimisations,
    parameters: Vec<Parameter>,
}

impl List<'_> {
    /// Adds a parameter that a guest needs.
    fn add(&mut self, text: &str, why: &str) {
        self.parameters.push(Parameter::new(text, why));
    }

    /// Adds a parameter that only makes the guest quicker.
    fn optimisation(&mut self, text: &str, why: &str) {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        if self.optimisations.has(name) {
            self.add(text, why);
        }
    }

    /// The console, before any driver.
    fn add_console(&mut self, shown: bool) {
        let opened = "console without a driver to probe; shown when the kernel fails";
        if shown {
            self.add("earlyprintk=ttyS0,keep", opened);
            self.add("loglevel=7", "asked for with --console");
        } else {
            // The order matters: the console replays what is logged so far at this level.
            self.add(
                "loglevel=6",
                "lets out the kernel's first line, which marks its entry",
            );
            self.add("earlyprintk=ttyS0,keep", opened);
            self.optimisation(
                "quiet",
                "from here on each character on the console costs time",
            );
        }
        self.optimisation(
            "8250.nr_uarts=0",
            "no serial driver: the console above does without",
        );
    }

    /// How the guest ends.
    fn add_end(&mut self, keep_going_on_panic: bool) {
        self.add("reboot=t", "the shortest way down");
        if keep_going_on_panic {
            self.add("panic=0", "asked for with --keep-going-on-panic");
        } else {
            self.add("panic=-1", "a panic ends the guest at once");
        }
    }

    /// Sources of randomness, none of them while instructions are counted.
    fn add_randomness(&mut self, instructions: bool) {
        if instructions {
            self.add(
                "nokaslr",
                "the kernel lies at the same addresses at every boot",
            );
            self.add("random.trust_cpu=off", "nothing is random");
        } else {
            self.optimisation("random.trust_cpu=on", "getrandom(2) works from the start");
        }
    }

    /// For a PC without ACPI.
    fn add_plain_pc(&mut self) {
        self.add(
            "acpi=off",
            "the machine type is a plain PC: interval timer and interrupt controller need no tables",
        );
        self.add(
            "nolapic",
            "no local APIC, even if the firmware's table speaks of one",
        );
        self.optimisation(
            "pci=conf1,lastbus=0",
            "one PCI bus, and how to reach it: nothing to probe",
        );
    }

    /// For a processor that QEMU emulates.
    fn add_emulation(&mut self, setting: &Setting<'_>) {
        if setting.no_cmpxchg16b {
            self.add(
                // By its number, which older kernels understand too.
                "clearcpuid=141",
                "the kernel does without cmpxchg16b: QEMU before 8.0 gets its flags wrong",
            );
        }
        self.optimisation("tsc=reliable", "no watchdog for a clock that is the host's");
        if let Some(khz) = setting.tsc_khz {
            let text = format!("tsc_early_khz={khz}");
            self.optimisation(
                &text,
                "the host's rate: measuring it in the guest takes time and fails under load",
            );
        }
        self.optimisation("no_timer_check", "no test of a timer that is emulated");
        self.optimisation(
            "noreplace-smp",
            "lock prefixes stay: taking them out costs more under emulation than it can save",
        );
    }

    /// Leaves out initcalls that the guest can do without.
    fn leave_out_initcalls(&mut self, setting: &Setting<'_>, no_policy: bool) {
        let left_out: Vec<_> = DISPENSABLE
            .iter()
            .filter(|call| {
                setting
                    .optimisations
                    .has(&format!("{INITCALL}{}", call.name))
            })
            .filter(|call| match call.when {
                When::Always => true,
                When::Bare => bare(setting.machine),
                When::Unsigned => !setting.signed_modules,
                When::Unmeasured => no_policy,
            })
            .collect();
        let names: Vec<_> = left_out.iter().map(|call| call.name).collect();
        let why: Vec<_> = left_out
            .iter()
            .map(|call| format!("{} ({})", call.name, call.why))
            .collect();
        if !names.is_empty() {
            self.add(
                &format!("initcall_blacklist={}", names.join(",")),
                &format!("left out, --all-initcalls keeps them: {}", why.join("; ")),
            );
        }
    }
}

/// The whole command line.
pub(crate) fn parameters(setting: &Setting<'_>) -> Vec<Parameter> {
    let mut list = List {
        optimisations: setting.optimisations,
        parameters: Vec::new(),
    };
    let no_policy = setting.no_policy && !requests_policies(setting.append);
    list.add_console(setting.console);
    list.add_end(setting.keep_going_on_panic);
    list.add_randomness(setting.instructions);
    if setting.trace {
        list.add("initcall_debug", "the kernel logs its initcalls");
        list.add("log_buf_len=8M", "all of them are kept");
        list.add("printk.devkmsg=on", "init can log what it does");
    }
    list.optimisation("cryptomgr.notests", "no self-tests of ciphers");
    if no_policy {
        list.optimisation(
            "lsm=lockdown,yama,landlock,bpf",
            "the other security modules (apparmor, selinux, tomoyo, ipe, ima, evm) do nothing \
             without a policy, and nothing loads one before the command; --append apparmor=1, or \
             whatever speaks of them, keeps all",
        );
    }
    if setting.machine == (Machine::Pc { acpi: false }) {
        list.add_plain_pc();
    }
    if setting.accelerator == Accelerator::Tcg {
        list.add_emulation(setting);
    }
    if !setting.all_initcalls {
        list.leave_out_initcalls(setting, no_policy);
    }
    for text in setting.append {
        list.add(text, "asked for with --append");
    }
    list.parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(append: &[String]) -> Setting<'_> {
        Setting {
            accelerator: Accelerator::Tcg,
            tsc_khz: Some(2_500_000),
            console: false,
            keep_going_on_panic: false,
            all_initcalls: false,
            signed_modules: false,
            machine: Machine::Microvm { pcie: true },
            trace: false,
            instructions: false,
            no_policy: false,
            no_cmpxchg16b: false,
            optimisations: &Optimisations::All,
            append,
        }
    }

    fn texts(setting: &Setting<'_>) -> Vec<String> {
        parameters(setting)
            .into_iter()
            .map(|parameter| parameter.text)
            .collect()
    }

    #[test]
    fn kvm_keeps_its_own_clocks() {
        let kvm = texts(&Setting {
            accelerator: Accelerator::Kvm,
            ..setting(&[])
        });
        for text in kvm {
            assert!(!text.contains("tsc") && !text.contains("timer"), "{text}");
        }
    }

    #[test]
    fn an_instruction_that_is_emulated_wrongly_is_not_used() {
        let with = |accelerator, no_cmpxchg16b| {
            texts(&Setting {
                accelerator,
                no_cmpxchg16b,
                ..setting(&[])
            })
            .iter()
            // X86_FEATURE_CX16: bit 13 of word 4.
            .any(|text| *text == format!("clearcpuid={}", 4 * 32 + 13))
        };
        assert!(with(Accelerator::Tcg, true));
        assert!(!with(Accelerator::Tcg, false));
        assert!(!with(Accelerator::Kvm, true));
    }

    #[test]
    fn the_local_timer_stays() {
        assert!(
            !texts(&setting(&[]))
                .iter()
                .any(|text| text == "nolapic_timer")
        );
    }

    #[test]
    fn signed_modules_keep_the_keys() {
        let with = |signed_modules| {
            texts(&Setting {
                signed_modules,
                ..setting(&[])
            })
            .join(" ")
        };
        assert!(with(false).contains("load_system_certificate_list"));
        assert!(!with(true).contains("load_system_certificate_list"));
    }

    #[test]
    fn security_modules_stay_where_they_may_get_a_policy() {
        let with = |no_policy, append: &[&str]| {
            let append: Vec<_> = append.iter().map(|&text| text.to_owned()).collect();
            let line = texts(&Setting {
                no_policy,
                ..setting(&append)
            });
            let list = line.iter().any(|text| text.starts_with("lsm=lockdown,"));
            assert_eq!(line.join(" ").contains("init_ima"), list, "{line:?}");
            list
        };
        assert!(with(true, &["foo=1"]));
        assert!(!with(false, &[]));
        for text in [
            "ima_policy=tcb",
            "lsm=ima",
            "evm=fix",
            "apparmor=1",
            "security=selinux",
        ] {
            assert!(!with(true, &[text]), "{text}");
        }
    }

    #[test]
    fn only_bare_machines_are_known_to_have_no_keyboard() {
        let with = |machine| {
            texts(&Setting {
                machine,
                ..setting(&[])
            })
            .join(" ")
        };
        for bare in [
            Machine::Microvm { pcie: true },
            Machine::Microvm { pcie: false },
            Machine::Pc { acpi: false },
        ] {
            assert!(with(bare).contains("i8042_init"), "{bare:?}");
        }
        for full in [Machine::Q35, Machine::Pc { acpi: true }] {
            assert!(!with(full).contains("i8042_init"), "{full:?}");
        }
    }

    #[test]
    fn acpi_is_off_only_where_the_machine_has_none() {
        let with = |machine| {
            texts(&Setting {
                machine,
                ..setting(&[])
            })
            .contains(&"acpi=off".to_owned())
        };
        assert!(with(Machine::Pc { acpi: false }));
        for machine in [
            Machine::Pc { acpi: true },
            Machine::Q35,
            Machine::Microvm { pcie: true },
        ] {
            assert!(!with(machine), "{machine:?}");
        }
    }

    #[test]
    fn all_initcalls_means_all() {
        let line = texts(&Setting {
            all_initcalls: true,
            ..setting(&[])
        })
        .join(" ");
        assert!(!line.contains("initcall_blacklist"), "{line}");
    }

    #[test]
    fn the_user_has_the_last_word() {
        let append = ["loglevel=3".to_owned()];
        assert_eq!(texts(&setting(&append)).last(), Some(&append[0]));
    }

    #[test]
    fn nothing_that_protects_is_switched_off() {
        let line = texts(&setting(&[])).join(" ");
        for word in [
            "mitigations",
            "nokaslr",
            "nopti",
            "selinux=0",
            "apparmor=0",
            "init_on_alloc",
        ] {
            assert!(!line.contains(word), "{word} in {line}");
        }
    }
}
