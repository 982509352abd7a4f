//! What the rules of a warm reboot have in common.

use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::hardware::{self, Match};
use crate::reboot::check::preflight::Preflight;
use brisk_lint::Fix;

/// A rule about a warm reboot.
pub(in crate::reboot::check) type Rule = brisk_lint::Rule<Preflight, Consequence>;
/// What such rules find.
pub(in crate::reboot::check) type Findings = brisk_lint::Findings<Consequence>;

/// What the data file knows for the rule that looks.
pub(super) fn known(on: &Preflight, findings: &mut Findings) {
    for found in hardware::matches(findings.rule().id, &on.machine) {
        add(&found, findings);
    }
}

fn add(found: &Match<'_>, findings: &mut Findings) {
    let fix = match found.fix() {
        text if text.starts_with("modprobe ") => Fix::Command(text),
        text => Fix::Advice(text),
    };
    findings.add(found.known.consequence, found.what(), fix);
}

pub(super) fn advice(text: impl Into<String>) -> Fix {
    Fix::Advice(text.into())
}

pub(super) fn command(text: impl Into<String>) -> Fix {
    Fix::Command(text.into())
}

/// Advice where only firmware helps.
pub(super) fn firmware_restart() -> Fix {
    command("systemctl reboot, which goes through the firmware")
}

/// Values of an option on a command line.
pub(in crate::reboot::check) fn values<'a>(
    cmdline: &'a str,
    name: &'a str,
) -> impl Iterator<Item = &'a str> {
    let words = cmdline.split_whitespace();
    words.filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
}
