//! Page tables of processes that come and go on all nodes at once.

use brisk_testkit::{NumaConsole, NumaKernel, NumaMachine, times};

use crate::copies::{check_divergence, check_equal};
use crate::machine::{expect, kernel, machine, on_two, run};

/// The load, while replication is switched.
const SWITCHED: &str = "echo $((round % 2)) >ktext_repl/active";

/// And text is modified, and a processor comes and goes.
const MODIFIED: &str = "\
    echo $((round % 2)) >ktext_repl/active\n\
    if [ $((round % 3)) = 0 ]; then echo function; else echo nop; fi >tracing/current_tracer\n\
    if [ $((round % 4)) = 0 ]; then\n\
    echo 0 >/sys/devices/system/cpu/cpu3/online; echo 1 >/sys/devices/system/cpu/cpu3/online\n\
    fi";

fn storm(seconds: usize, meanwhile: &str) -> String {
    format!(
        "storm {seconds} >/result & storm=$!\n\
         round=0\n\
         while kill -0 $storm 2>/dev/null; do\n\
         round=$((round + 1)); {meanwhile}\n\
         done\n\
         wait $storm; section storm; echo $?; cat /result\n\
         echo nop >tracing/current_tracer; echo 1 >ktext_repl/active\n\
         section divergence; cat ktext_repl/divergence; section verify; cat ktext_repl/verify"
    )
}

/// Runs the load on processors that run at once, and with text that is modified.
pub(super) fn check(kernel: &NumaKernel, seconds: usize) -> Result<(), String> {
    let parallel = NumaMachine {
        is_parallel: true,
        ..machine(kernel, 2)
    };
    check_console(&run(&parallel, &storm(seconds, SWITCHED))?)?;
    check_console(&on_two(kernel, &storm(seconds, MODIFIED))?)
}

fn check_console(console: &NumaConsole) -> Result<(), String> {
    let result = console.section("storm");
    let (status, counts) = result.split_once('\n').unwrap();
    let counts: Vec<u64> = counts
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    expect(
        status == "0" && counts.len() == 2 && counts.iter().all(|count| *count > 20),
        format!("storm: {result}"),
    )?;
    check_divergence(console, "divergence", 2, true)?;
    check_equal(console, "verify")
}

pub(super) fn churn() {
    check(&kernel(), times(10, 60)).unwrap();
}

/// One mapping alone in its entry of the PML4, which two processors of different nodes map, touch,
/// unmap and miss, while replication is on and while it is switched.
const LONE: &str = "\
    section lone\n\
    for pair in '0 2' '2 0' '1 3' '3 1'; do lone 4 $pair; echo status $?; done\n\
    lone 10 0 3 >/result & lone=$!\n\
    while kill -0 $lone 2>/dev/null; do echo 0 >ktext_repl/active; echo 1 >ktext_repl/active; done\n\
    wait $lone; status=$?; cat /result; echo status $status\n\
    section verify; cat ktext_repl/verify";

pub(super) fn check_lone(kernel: &NumaKernel) -> Result<(), String> {
    let parallel = NumaMachine {
        is_parallel: true,
        ..machine(kernel, 2)
    };
    let console = run(&parallel, LONE)?;
    let result = console.section("lone");
    println!("{result}");
    let mut runs = 0;
    for line in result.lines().filter(|line| line.starts_with("lone\t")) {
        let counts = line.split('\t').skip(1);
        let counts: Vec<u64> = counts.map(|count| count.parse().unwrap()).collect();
        // Mapped in turns and at once, then read and missed.
        let is_enough = counts.len() == 4 && counts.iter().all(|count| *count > 2);
        expect(is_enough, line)?;
        runs += 1;
    }
    let is_well = result.matches("status 0\n").count() == 5 && runs == 5;
    expect(is_well, format!("lone: {result}"))?;
    check_equal(&console, "verify")
}

pub(super) fn lone() {
    check_lone(&kernel()).unwrap();
}

/// All processors show their stacks, each in an NMI, again and again. The console gets a line of each
/// time, and what the load says is kept for later.
const NMIS: &str = "\
    echo 0 >/proc/sys/kernel/printk\n\
    { until [ -e /enough ]; do echo l >/proc/sysrq-trigger; done; } &\n";

/// The load, while replication is switched, text is modified, processors come and go, and NMIs come to
/// all of them.
pub(super) fn check_nmis(kernel: &NumaKernel, seconds: usize) -> Result<(), String> {
    let storm = storm(seconds, MODIFIED);
    let script = format!(
        "{NMIS}{{ {storm}; }} >/said; : >/enough; wait\n\
         cat /said; section nmis; grep NMI: /proc/interrupts"
    );
    let console = on_two(kernel, &script)?;
    check_console(&console)?;
    let counts = console.section("nmis").split_whitespace();
    let counts: Vec<u64> = counts.filter_map(|word| word.parse().ok()).collect();
    println!("NMIs: {counts:?}");
    let is_enough = counts.len() == 4 && counts.iter().all(|count| *count > 20);
    expect(is_enough, format!("NMIs: {counts:?}"))
}
