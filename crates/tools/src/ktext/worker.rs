//! Steps of the program that works on a machine with replication, and its answers: the other half is
//! `guest/probe/src/ktext`. What it answers may come from a guest. Pure.

use std::fmt;

/// Begins an answer.
const ANSWER: &str = "brisk-ktext: ";
/// Lines of a file at most.
const MOST_LINES: usize = 1 << 16;

/// An operation of RedHawk's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// fork, exit and wait.
    Fork,
    /// A signal to the process itself, which is handled.
    Kill,
    /// 1024 pages of `/dev/zero`, private, mapped, read and unmapped.
    Mmap,
    /// `/dev/null`, opened and closed.
    Open,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fork, Self::Kill, Self::Mmap, Self::Open];

    /// Name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Kill => "kill",
            Self::Mmap => "mmap",
            Self::Open => "open",
        }
    }
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Replication on or off.
    Switch(bool),
    /// Ends a section of what the plugin counts.
    Mark,
    /// Loads a module of the guest's.
    Module(&'a str),
    /// Lines of a file.
    Show(&'a str),
    /// On each of these CPUs what programs have the kernel do, so many times.
    Work { cpus: Vec<u32>, times: u32 },
    /// An operation, so many times on a CPU.
    Operation {
        operation: Operation,
        cpu: u32,
        times: u32,
    },
    /// Whether caches are flushed at each system call.
    Cold(bool),
    /// Memory is copied on these CPUs from now on; on none.
    Load(Vec<u32>),
    /// The end.
    Off,
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[u32]| {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            cpus.join(",")
        };
        match self {
            Self::Switch(on) => write!(formatter, "switch {}", u8::from(*on)),
            Self::Mark => formatter.write_str("mark"),
            Self::Module(name) => write!(formatter, "module {name}"),
            Self::Show(path) => write!(formatter, "show {path}"),
            Self::Work { cpus, times } => write!(formatter, "work {} {times}", list(cpus)),
            Self::Operation {
                operation,
                cpu,
                times,
            } => write!(formatter, "operation {} {cpu} {times}", operation.name()),
            Self::Cold(on) => write!(formatter, "cold {}", u8::from(*on)),
            Self::Load(cpus) => formatter.write_str(format!("load {}", list(cpus)).trim_end()),
            Self::Off => formatter.write_str("off"),
        }
    }
}

/// An answer that is complete.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answer {
    /// Lines of a file.
    pub(super) lines: Vec<String>,
    /// Numbers of a measurement.
    pub(super) numbers: Vec<f64>,
}

/// Why a step was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// It says so.
    #[error("the machine answers: {0}")]
    Refused(String),
    /// It does not answer as the program does.
    #[error("the machine answers {0:?}, which is no answer to this step")]
    Strange(String),
    /// A file has too many lines.
    #[error("a file of the machine has more than {MOST_LINES} lines")]
    TooLong,
}

/// Answers that are put together of lines.
#[derive(Debug, Default)]
pub(super) struct Answers {
    lines: Vec<String>,
}

impl Answers {
    /// Takes a line, without its end: the answer that it completes, if it does.
    pub(super) fn take(&mut self, line: &str) -> Option<Result<Answer, WorkerError>> {
        // What the kernel writes may be in front of it.
        let (_, text) = line.split_once(ANSWER)?;
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let result = match kind {
            "line" if self.lines.len() < MOST_LINES => {
                self.lines.push(rest.to_owned());
                return None;
            }
            "line" => Err(WorkerError::TooLong),
            "ok" => {
                let number = |word: &str| word.parse().ok().filter(|value: &f64| value.is_finite());
                let numbers: Option<Vec<f64>> = rest.split_whitespace().map(number).collect();
                let lines = std::mem::take(&mut self.lines);
                let answer = numbers.map(|numbers| Answer { lines, numbers });
                answer.ok_or_else(|| WorkerError::Strange(text.to_owned()))
            }
            "error" => Err(WorkerError::Refused(rest.to_owned())),
            _ => Err(WorkerError::Strange(text.to_owned())),
        };
        self.lines.clear();
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_lines() {
        let operation = Step::Operation {
            operation: Operation::Mmap,
            cpu: 3,
            times: 20,
        };
        let cpus = vec![0, 5];
        for (step, line) in [
            (Step::Switch(true), "switch 1"),
            (Step::Module("lkdtm"), "module lkdtm"),
            (operation, "operation mmap 3 20"),
            (Step::Work { cpus, times: 2 }, "work 0,5 2"),
            (Step::Load(vec![1]), "load 1"),
            (Step::Load(vec![]), "load"),
        ] {
            assert_eq!(step.to_string(), line);
        }
    }

    #[test]
    fn an_answer_comes_in_lines_between_others() {
        let mut answers = Answers::default();
        for line in [
            "",
            "[    1.0] Run /init",
            "brisk-ktext: line a b",
            "brisk-ktext: line",
        ] {
            assert_eq!(answers.take(line), None);
        }
        let answer = answers
            .take("[ 2.0] mbrisk-ktext: ok 12.5 3")
            .unwrap()
            .unwrap();
        assert_eq!(answer.lines, ["a b", ""]);
        assert_eq!(answer.numbers, [12.5, 3.0]);
        assert_eq!(answers.take("brisk-ktext: ok"), Some(Ok(Answer::default())));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let mut answers = Answers::default();
        let mut taken = |line: &str| answers.take(line).unwrap().unwrap_err();
        assert_eq!(
            taken("brisk-ktext: error switch 1: none"),
            WorkerError::Refused("switch 1: none".into())
        );
        for line in ["ok 1 x", "ok inf", "maybe", "okay"] {
            let strange = WorkerError::Strange(line.to_owned());
            assert_eq!(taken(&format!("brisk-ktext: {line}")), strange);
        }
        let line = "brisk-ktext: line x";
        for _ in 0..MOST_LINES {
            assert_eq!(answers.take(line), None);
        }
        assert_eq!(answers.take(line), Some(Err(WorkerError::TooLong)));
        // It begins anew.
        assert_eq!(answers.take(line), None);
    }
}
