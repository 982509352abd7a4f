//! A machine with the kernel of the series, and what each of its runs is checked for.

use std::time::Duration;

use brisk_testkit::{NumaAsked, NumaConsole, NumaKernel, NumaMachine};

/// A boot takes ten seconds, and a minute on a host that is busy.
const LIMIT: Duration = Duration::from_secs(300);

/// Says what the kernel has complained about.
const COMPLAINTS: &str = "section complaints\n\
    dmesg | grep -E 'BUG|WARNING|Oops|rcu:.*stall|W\\+X mappings: FAILED|general protection' || :\n";

pub(super) fn kernel() -> NumaKernel {
    NumaKernel::named("ktext-kernel").unwrap()
}

/// Runs a script on a machine of two nodes, or says what went wrong.
pub(super) fn on_two(kernel: &NumaKernel, script: &str) -> Result<NumaConsole, String> {
    on(kernel, 2, "", script)
}

/// Runs a script on a machine of some nodes, with more words of the kernel's command line.
pub(super) fn on(
    kernel: &NumaKernel,
    nodes: usize,
    append: &str,
    script: &str,
) -> Result<NumaConsole, String> {
    let machine = NumaMachine {
        append,
        ..machine(kernel, nodes)
    };
    run(&machine, script)
}

/// A machine of some nodes, whose processors take turns.
pub(super) fn machine(kernel: &NumaKernel, nodes: usize) -> NumaMachine<'_> {
    NumaMachine {
        kernel,
        nodes,
        append: "",
        is_parallel: false,
        programs: &[],
        options: &[],
        limit: LIMIT,
    }
}

/// Runs a script; an error is also what the kernel complains about.
pub(super) fn run(machine: &NumaMachine<'_>, script: &str) -> Result<NumaConsole, String> {
    Ok(run_and_ask(machine, script, "")?.console)
}

/// Runs a script, and gives commands to QEMU's monitor when it says `look`.
pub(super) fn run_and_ask(
    machine: &NumaMachine<'_>,
    script: &str,
    commands: &str,
) -> Result<NumaAsked, String> {
    let asked = machine.run_and_ask(&format!("{script}\n{COMPLAINTS}"), commands)?;
    let complaints = asked.console.section("complaints");
    if complaints.is_empty() {
        Ok(asked)
    } else {
        Err(format!("the kernel complains: {complaints}"))
    }
}

/// An error with this text, unless it is so.
pub(super) fn expect(is_so: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
