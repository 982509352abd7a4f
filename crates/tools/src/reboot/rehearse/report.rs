//! A verdict as text and as JSON. Pure.

use std::fmt::Write;

use brisk_measure::Unit;
use brisk_measure::render::one_line;
use serde_json::{Value, json};

use super::verdict::{Judgement, Outcome, Verdict};

/// Schema of [`Verdict::json`].
pub const SCHEMA: &str = "brisk.reboot.rehearsal/1";
/// Last lines of the console that people see.
const LINES: usize = 15;
/// What no rehearsal proves.
const UNPROVEN: [&str; 4] = [
    "the jump: devices that the running kernel leaves behind, and drivers of this machine's hardware",
    "what depends on the firmware: EFI variables, the TPM, memory as this machine has it",
    "the network: the VM has none",
    "the screen and the keyboard: the VM has a serial console alone",
];

impl Verdict {
    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "{:<14} {}", name, one_line(value));
        };
        let release = match &*self.target.release {
            "" => String::new(),
            release => format!(" ({release})"),
        };
        row(
            "Kernel",
            &format!("{}{release}", self.target.kernel.display()),
        );
        for initrd in &self.target.initrds {
            row("Initrd", &initrd.display().to_string());
        }
        row("Command line", &self.target.cmdline);
        for departure in &self.vm.departures {
            row(
                "  and here",
                &format!("{}: {}", departure.words, departure.why),
            );
        }
        let vm = &self.vm;
        for disk in &vm.disks {
            let written = match disk.written_meanwhile {
                Some(bytes @ 1..) => {
                    format!(
                        "; {} were written to it meanwhile",
                        Unit::Bytes.format(bytes as f64)
                    )
                }
                _ => String::new(),
            };
            let path = &disk.path;
            row(
                "Disk",
                &format!("{path}, read only, by {}{written}", disk.bus.name()),
            );
        }
        let (memory, cpus) = (vm.memory_mib, vm.cpus);
        row(
            "VM",
            &format!("{memory} MiB, {cpus} CPU, {}", vm.accelerator),
        );
        text.push_str(&self.end());
        text
    }

    /// How it ended, and what that does not prove.
    fn end(&self) -> String {
        let mut text = String::new();
        if self.outcome != Outcome::Reached {
            let skipped = self.last_lines.len().saturating_sub(LINES);
            for one in &self.last_lines[skipped..] {
                let _ = writeln!(text, "  | {}", one_line(one));
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {}.", one_line(note));
        }
        for fact in UNPROVEN {
            let _ = writeln!(text, "Not proven: {fact}.");
        }
        let word = match self.judgement() {
            Judgement::Passed => "Passed",
            Judgement::Failed => "Failed",
            Judgement::Undecided => "Undecided",
        };
        let seconds = self.took.as_secs_f64();
        let _ = writeln!(
            text,
            "{word} after {seconds:.1} s: {}.",
            one_line(&self.sentence())
        );
        let cause = self.causes.first().map(|(_, line)| line);
        let cause = cause.filter(|_| self.outcome != Outcome::Reached);
        let mut lines: Vec<_> = cause.into_iter().chain(&self.line).collect();
        lines.dedup();
        for one in lines {
            let _ = writeln!(text, "    says: {}", one_line(one));
        }
        if let Some(advice) = self.advice() {
            let _ = writeln!(text, "    fix:  {}", one_line(&advice));
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let causes = self.causes.iter();
        let causes = causes.map(|(cause, line)| json!({ "cause": cause, "line": line }));
        json!({
            "schema": SCHEMA,
            "judgement": self.judgement(),
            "outcome": self.outcome,
            "text": self.sentence(),
            "line": self.line,
            "causes": causes.collect::<Vec<_>>(),
            "advice": self.advice(),
            "goal": self.goal,
            "stage": self.stage,
            "seconds": self.took.as_secs_f64(),
            "init": self.init,
            "last_program": self.program,
            "last_lines": self.last_lines,
            "target": self.target,
            "vm": self.vm,
            "notes": self.notes,
            "not_proven": UNPROVEN,
        })
    }
}
