//! The trial load, which is the last rule.

use rustix::io::Errno;

use super::rule::{Findings, Rule, advice, command};
use crate::reboot::check::consequence::Consequence;
use crate::reboot::check::preflight::Preflight;
use crate::reboot::check::trial::Trial;
use crate::reboot::load::{Course, Refusal};
use brisk_lint::Applies;

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
        Trial::PassedByOlderCall(refusal) => findings.add(
            Consequence::Warn,
            format!(
                "the kernel has no newer call for the files: {refusal}; kexec of kexec-tools loads \
                 them by the older one, kexec_load"
            ),
            advice(refusal.remedy()),
        ),
        Trial::Refused(refusal) => refused(on, *refusal, findings),
        Trial::NoProgram(refusal) => findings.add(
            Consequence::Refuse,
            format!(
                "the kernel refused the files: {refusal}; the older call, kexec_load, may be used \
                 here, and kexec, which makes it, is not installed"
            ),
            advice(format!("{}; or install kexec-tools", refusal.remedy())),
        ),
    }
}

fn refused(on: &Preflight, refusal: Refusal, findings: &mut Findings) {
    let what = format!("the kernel refused the files: {refusal}");
    match refusal.course() {
        // A rule of its own says so.
        Course::Change
            if refusal == Refusal::new(Errno::NOTSUP) && on.machine.platform.has_tdx_erratum() => {}
        Course::Memory => findings.add(
            Consequence::Warn,
            format!("{what}; it is tried again when services have stopped"),
            advice(refusal.remedy()),
        ),
        Course::OlderCall | Course::Signature | Course::Later | Course::Change => {
            findings.add(Consequence::Refuse, what, advice(refusal.remedy()));
        }
    }
}
