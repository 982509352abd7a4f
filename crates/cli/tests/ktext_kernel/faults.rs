//! Faults put into the series, each of which one of the checks must find: what they do not find,
//! they do not prove.

use brisk_testkit::NumaKernel;

use crate::machine::variant;
use crate::{copies, failures, modules, monitor, storms};

pub(super) type Check = fn(&NumaKernel) -> Result<(), String>;

/// Each patch in `kernel/ktext/faults`, and the check that finds it.
pub(super) const FAULTS: [(&str, Check); 16] = [
    ("poke-misses-a-copy", copies::check_poked),
    ("pgd-misses-an-entry", check_storm),
    ("pgd-keeps-an-entry", check_storm),
    ("module-mapping-is-not-synchronized", modules::check),
    ("module-copies-are-not-dropped", modules::check),
    ("module-is-copied-too-early", modules::check),
    ("modules-are-anywhere", modules::check),
    ("switch-keeps-cr3", check_divergence),
    ("switching-off-does-nothing", check_divergence),
    ("one-copy-for-all-nodes", check_divergence),
    ("new-cpu-stays-on-the-master", copies::check_hotplug),
    ("copies-lie-on-the-wrong-node", check_mapped),
    ("copies-are-writable", check_mapped),
    ("module-copies-are-writable", monitor::check_protection),
    ("new-table-is-incomplete", modules::check),
    ("fallback-is-freed", failures::check_boots),
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
pub(super) fn is_found(fault: &str, check: Check) {
    let patch = format!("faults/{fault}.patch");
    let kernel = variant("ktext-fault", &["--patch", &patch]);
    let found = check(&kernel).expect_err("the fault is not found");
    // A panic comes after the reason of it.
    let is_reason = |line: &&str| {
        ["BUG: ", "Oops: ", "WARNING: "]
            .iter()
            .any(|it| line.contains(it))
    };
    let reason = found.lines().find(is_reason);
    let last = found.lines().rfind(|line| !line.trim().is_empty());
    println!("{fault}: {}", reason.or(last).unwrap_or_default());
}
