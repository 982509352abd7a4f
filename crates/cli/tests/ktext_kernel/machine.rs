//! A machine with the kernel of the series, and what each of its runs is checked for.

use std::fs;
use std::time::Duration;

use brisk_testkit::{NumaAsked, NumaConsole, NumaKernel, NumaMachine};

/// A boot takes ten seconds, and a minute on a host that is busy.
const LIMIT: Duration = Duration::from_secs(300);
/// With lockdep or KASAN all takes several times as long.
const LIMIT_WITH_CHECKS: Duration = Duration::from_secs(1500);

/// Lets a script say what the kernel has complained about.
const COMPLAINTS: &str = "complaints() {\n\
    dmesg | grep -E 'BUG|WARNING|Oops|rcu:.*stall|W\\+X mappings: FAILED|general protection|\
    INFO: trying to register|corruption' || :\n\
    }\n";

pub(super) fn kernel() -> NumaKernel {
    NumaKernel::named("ktext-kernel").unwrap()
}

/// A variant of the kernel, which is built beside it, as by [`NumaKernel::built`].
pub(super) fn variant(name: &str, words: &[&str]) -> NumaKernel {
    let kernel = kernel().file("");
    NumaKernel::built(kernel.parent().unwrap(), name, words).unwrap()
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
    let config = fs::read_to_string(kernel.file("config")).unwrap();
    let has_checks = ["CONFIG_LOCKDEP=y\n", "CONFIG_KASAN=y\n"]
        .iter()
        .any(|option| config.contains(option));
    let limit = if has_checks { LIMIT_WITH_CHECKS } else { LIMIT };
    NumaMachine {
        kernel,
        nodes,
        append: "",
        is_parallel: false,
        programs: &[],
        is_reversed: false,
        files: &[],
        options: &[],
        limit,
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
    let script = format!("{COMPLAINTS}{script}\nsection complaints; complaints");
    let asked = machine.run_and_ask(&script, commands)?;
    no_complaints(&asked.console, "complaints")?;
    Ok(asked)
}

/// Whether the kernel has not complained, from a section with what it has.
pub(super) fn no_complaints(console: &NumaConsole, section: &str) -> Result<(), String> {
    let complaints = console.section(section);
    expect(
        complaints.is_empty(),
        format!("the kernel complains: {complaints}"),
    )
}

/// An error with this text, unless it is so.
pub(super) fn expect(is_so: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
