//! The kernel with lockdep and other checks of its own.

use brisk_testkit::NumaKernel;

use crate::machine::{machine, run, variant};
use crate::{copies, modules, storms};

/// The kernel that checks itself, and lets allocations fail.
pub(super) fn checking() -> NumaKernel {
    let words = [
        "--config",
        "variants/lockdep.config",
        "--config",
        "variants/failures.config",
    ];
    variant("ktext-debug", &words)
}

/// Lockdep ends with its first finding, which is a complaint of the kernel, and when it has no room.
const IS_ON: &str = "\
    insmod /modules/lkdtm.ko; rmmod lkdtm; storm 5; cat ktext_repl/verify\n\
    section lockdep; grep debug_locks /proc/lockdep_stats";

/// Modules, page tables of processes, hotplug and what modifies text, on a preemptible kernel that
/// finds locks taken in a wrong order or context, and sleep where there must be none.
pub(super) fn none_taken_wrongly() {
    let kernel = checking();
    modules::check(&kernel).unwrap();
    storms::check(&kernel, 10).unwrap();
    copies::check_poked(&kernel).unwrap();
    let console = run(&machine(&kernel, 2), IS_ON).unwrap();
    let state: Vec<_> = console.section("lockdep").split_whitespace().collect();
    assert_eq!(state, ["debug_locks:", "1"]);
}

/// On that kernel, too: it finds a lock that an NMI takes and others hold.
pub(super) fn nmis() {
    storms::check_nmis(&checking(), 20).unwrap();
}
