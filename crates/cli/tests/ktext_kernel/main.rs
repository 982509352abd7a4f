//! Kernel text replication in Linux, in emulated machines of several NUMA nodes: the kernel is
//! built by `setup/ktext-kernel` from the patches in `kernel/ktext`.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]
#![expect(clippy::print_stdout, reason = "what was counted and found")]

mod book;
mod copies;
mod debuggers;
mod failures;
mod faults;
mod live;
mod locality;
mod locks;
mod machine;
mod memory;
mod modules;
mod monitor;
mod power;
mod refused;
mod selftests;
mod storms;

use brisk_testkit::{NumaKernel, times, trial, trials};
use libtest_mimic::Arguments;

/// Tests of make test, which take four minutes.
const QUICK: [(&str, fn()); 11] = [
    ("cpus_run_the_copy_of_their_node", copies::divergence),
    ("copies_stay_equal_while_text_is_modified", copies::poked),
    (
        "copies_lie_on_their_nodes_and_are_read_only",
        copies::mapped,
    ),
    ("qemu_sees_each_cpu_on_its_own_copy", monitor::agrees),
    ("cpus_that_come_back_use_their_copy", copies::hotplug),
    ("modules_are_replicated_and_dropped", modules::come_and_go),
    (
        "page_tables_of_processes_are_equal_on_all_nodes",
        storms::churn,
    ),
    ("no_page_is_writable_and_executable", monitor::protects),
    (
        "instructions_are_fetched_from_the_own_node",
        locality::of_two,
    ),
    (
        "brisk_shows_and_measures_the_kernel",
        live::shows_and_measures,
    ),
    ("examples_of_the_book_work", book::examples_work),
];

/// Tests of make soak.
const LONG: [(&str, fn()); 16] = [
    ("a_lone_mapping_comes_and_goes_on_all_nodes", storms::lone),
    ("nmis_come_on_all_nodes", locks::nmis),
    (
        "memory_that_is_added_is_there_on_all_nodes",
        memory::is_added,
    ),
    ("pgds_are_near_in_cpusets", memory::is_near_in_cpusets),
    ("machines_that_cannot_replicate_say_why", refused::says_why),
    ("machines_suspend_and_resume", power::suspends),
    ("a_kernel_boots_another_one", power::boots_another),
    (
        "boots_without_memory_fall_back_to_the_master",
        failures::boots,
    ),
    (
        "failed_allocations_fall_back_to_the_master",
        failures::fall_back,
    ),
    (
        "debuggers_patches_and_probes_modify_all_copies",
        debuggers::modify_text,
    ),
    ("no_lock_is_taken_wrongly", locks::none_taken_wrongly),
    ("no_memory_is_used_wrongly", memory::is_used_rightly),
    (
        "the_kernels_own_tests_pass_as_without_replication",
        selftests::pass,
    ),
    ("instructions_are_local_on_four_nodes", locality::of_four),
    ("read_only_data_is_local", locality::of_data),
    ("instructions_of_operations_are_counted", locality::costs),
];

fn main() {
    let arguments = Arguments::from_args();
    // One at a time: each has all processors.
    let arguments = Arguments {
        test_threads: Some(1),
        ..arguments
    };
    let missing = NumaKernel::named("ktext-kernel").err();
    let long = missing.clone().or_else(|| {
        let is_soak = times(0, 1) > 0;
        (!is_soak).then(|| "make soak runs it".to_owned())
    });
    let mut all = trials(missing, QUICK);
    all.extend(trials(long.clone(), LONG));
    all.extend(faults::FAULTS.map(|fault| {
        let name = format!("fault_{}_is_found", fault.name.replace('-', "_"));
        trial(name, long.clone(), move || faults::is_found(fault))
    }));
    libtest_mimic::run(&arguments, all).exit();
}
