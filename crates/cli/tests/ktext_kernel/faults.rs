//! Faults put into the series, each of which one of the checks must find: what they do not find,
//! they do not prove.

use brisk_testkit::NumaKernel;

use crate::machine::variant;
use crate::{copies, failures, memory, modules, monitor, storms};

pub(super) type Check = fn(&NumaKernel) -> Result<(), String>;

/// A patch in `kernel/ktext/faults`, and the check that finds it.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    /// Name of the patch without its ending.
    pub(super) name: &'static str,
    check: Check,
    /// More words for `setup/ktext-kernel`.
    config: &'static [&'static str],
}

const fn fault(name: &'static str, check: Check) -> Fault {
    Fault {
        name,
        check,
        config: &[],
    }
}

pub(super) const FAULTS: [Fault; 20] = [
    fault("poke-misses-a-copy", copies::check_poked),
    fault("pgd-misses-an-entry", check_storm),
    fault("pgd-keeps-an-entry", check_storm),
    fault("module-mapping-is-not-synchronized", modules::check),
    fault("module-copies-are-not-dropped", modules::check),
    fault("module-is-copied-too-early", modules::check),
    fault("modules-are-anywhere", modules::check),
    fault("switch-keeps-cr3", check_divergence),
    fault("switching-off-does-nothing", check_divergence),
    fault("one-copy-for-all-nodes", check_divergence),
    fault("new-cpu-stays-on-the-master", copies::check_hotplug),
    fault("copies-lie-on-the-wrong-node", check_mapped),
    fault("copies-are-writable", check_mapped),
    fault("module-copies-are-writable", monitor::check_protection),
    fault("new-table-is-incomplete", modules::check),
    fault("fallback-is-freed", failures::check_boots),
    fault("spare-is-not-cleared", check_divergence),
    fault("spare-misses-a-change", copies::check_poked),
    Fault {
        config: &memory::CONFIG,
        ..fault("spare-is-off-the-list", memory::check)
    },
    Fault {
        config: &memory::CONFIG,
        ..fault("pgds-follow-cpusets", memory::check_cpuset)
    },
];

fn check_storm(kernel: &NumaKernel) -> Result<(), String> {
    storms::check(kernel, 10)
}

fn check_divergence(kernel: &NumaKernel) -> Result<(), String> {
    copies::check_who_runs_what(kernel, 4)
}

fn check_mapped(kernel: &NumaKernel) -> Result<(), String> {
    copies::check_mapped(kernel, 4)
}

/// Builds the series with a fault, which its check has to find.
pub(super) fn is_found(fault: Fault) {
    let name = fault.name;
    let patch = format!("faults/{name}.patch");
    let kernel = variant(
        "ktext-fault",
        &[&["--patch", &*patch], fault.config].concat(),
    );
    let found = (fault.check)(&kernel).expect_err("the fault is not found");
    // A panic comes after the reason of it.
    let is_reason = |line: &&str| {
        ["BUG: ", "Oops: ", "WARNING: "]
            .iter()
            .any(|it| line.contains(it))
    };
    let reason = found.lines().find(is_reason);
    let last = found.lines().rfind(|line| !line.trim().is_empty());
    println!("{name}: {}", reason.or(last).unwrap_or_default());
}
