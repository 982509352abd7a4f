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
