//! The trial load, which is the last rule.

use rustix::io::Errno;

use super::rule::{Findings, Rule, advice, command};
use crate::lint::Applies;
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::preflight::Preflight;
use crate::reboot::check::trial::Trial;
use crate::reboot::load::{Course, Refusal};

pub(super) const RULES: &[Rule] = &[Rule {
    id: "trial-load",
    applies: Applies::Host,
    why: "the kernel itself says whether it takes these files",
    source: "kexec_file_load(2)",
    check: trial_load,
}];

fn trial_load(on: &Preflight, findings: &mut Findings) {
    match &on.trial {
        Trial::NotYet | Trial::Passed => {}
        Trial::NotAsked => findings.add(
            Consequence::Note,
            "it was left out",
            command("sudo brisk reboot check, without --no-trial-load"),
        ),
        Trial::LeftOut(reason) => findings.add(
            Consequence::Note,
            format!("it was left out: {reason}"),
            advice("nothing, if the other findings are what was to be known"),
        ),
        Trial::Failed(reason) => findings.add(
            Consequence::Refuse,
            reason.clone(),
            advice("look at the files, and check again"),
        ),
        Trial::Refused(refusal) => refused(on, *refusal, findings),
    }
}

fn refused(on: &Preflight, refusal: Refusal, findings: &mut Findings) {
    let what = format!("the kernel refused the files: {refusal}");
    match refusal.course() {
        // A rule of its own says so.
        Course::OlderCall
            if refusal == Refusal::new(Errno::NOTSUP) && on.machine.platform.has_tdx_erratum() => {}
        Course::Memory => findings.add(
            Consequence::Warn,
            format!("{what}; it is tried again when services have stopped"),
            advice(refusal.remedy()),
        ),
        Course::OlderCall if may_use_older_call(on) => {
            let paths = on.target.initrds.iter().map(|path| path.to_string_lossy());
            let initrds: String = paths
                .map(|path| format!(" --initrd={}", quoted(&path)))
                .collect();
            let kernel = on.target.kernel.to_string_lossy();
            findings.add(
                Consequence::Refuse,
                format!("{what}; kexec_load, the older call, may be used here, and brisk does not have it"),
                command(format!(
                    "kexec -c -l {}{initrds} --command-line={}, and systemctl kexec",
                    quoted(&kernel),
                    quoted(&on.target.cmdline)
                )),
            );
        }
        Course::OlderCall | Course::Signature | Course::Later | Course::Change => {
            findings.add(Consequence::Refuse, what, advice(refusal.remedy()));
        }
    }
}

/// Whether the older call would be no way around what a kernel enforces, and goes to the kernel.
fn may_use_older_call(on: &Preflight) -> bool {
    let is_one_file = on.target.initrds.len() <= 1 && !on.target.is_uki;
    let is_locked = on.machine.kexec.is_locked_down() || on.machine.firmware.has_secure_boot;
    is_one_file && !is_locked && on.machine.platform.xen.is_none()
}

/// As a word of a shell.
fn quoted(text: &str) -> String {
    let quoted = shlex::try_quote(text);
    quoted.map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
}
