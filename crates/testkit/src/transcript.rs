//! Transcripts of commands, for snapshots. Paths, versions and measured numbers are replaced.

use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;

use crate::brisk::Brisk;
use crate::running::Finished;

/// Commands with their standard output, standard error and exit status, as a user sees them.
#[derive(Debug)]
pub struct Transcript {
    brisk: fn() -> Brisk,
    text: String,
    replaced: Vec<(Regex, &'static str)>,
}

impl Transcript {
    /// No commands yet. `brisk` is the binary under test.
    #[must_use]
    pub fn new(brisk: fn() -> Brisk) -> Self {
        let replaced = [
            (r"\d+\.\d+\.\d+[-+~.\w]*-(cloud-)?amd64", "[KERNEL]"),
            (
                r"QEMU( emulator version)? \d+\.\d+(\.\d+)?( \([^)]*\))?",
                "QEMU [VERSION]",
            ),
            (r"\d{4}-\d\d-\d\dT\d\d:?\d\d:?\d\d(\.\d+)?Z", "[TIME]"),
            (r"process \d+", "process [PID]"),
            (
                r"\d+(\.\d+)?( ?(ms|s|sec|µs|MB/s|MB|MiB|KiB|GiB|bytes|%)\b)",
                "[N]$2",
            ),
            (r"(?m) +$", ""),
        ];
        Self {
            brisk,
            text: String::new(),
            replaced: replaced
                .map(|(pattern, to)| (Regex::new(pattern).unwrap(), to))
                .into(),
        }
    }

    /// Replaces a path by a name.
    #[must_use]
    pub fn hiding(mut self, path: &Path, name: &'static str) -> Self {
        let pattern = regex::escape(path.to_str().unwrap());
        self.replaced
            .insert(0, (Regex::new(&pattern).unwrap(), name));
        self
    }

    /// Replaces what a regular expression matches.
    #[must_use]
    pub fn replacing(mut self, pattern: &str, to: &'static str) -> Self {
        self.replaced.insert(0, (Regex::new(pattern).unwrap(), to));
        self
    }

    fn add(&mut self, words: &[&str], ended: &Finished) {
        let status = match ended.status.code() {
            Some(0) => String::new(),
            Some(status) => format!("[exit status {status}]\n"),
            None => format!("[{}]\n", ended.status),
        };
        let shown = shlex::try_join(words.iter().copied()).unwrap();
        let streams = [("", ended.text()), ("2> ", ended.stderr.clone())];
        writeln!(self.text, "$ brisk {shown}").unwrap();
        for (mark, stream) in streams {
            for line in stream.lines() {
                writeln!(self.text, "{mark}{line}").unwrap();
            }
        }
        self.text.push_str(&status);
        self.text.push('\n');
    }

    /// Runs brisk with these words.
    pub fn brisk(&mut self, words: &[&str]) -> &mut Self {
        self.given((self.brisk)().args(words), words)
    }

    /// Runs a command that is shown as these words.
    pub fn given(&mut self, brisk: Brisk, words: &[&str]) -> &mut Self {
        let ended = brisk.output();
        self.add(words, &ended);
        self
    }

    /// All commands, with what differs between hosts and runs replaced.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.text.clone();
        for (pattern, to) in &self.replaced {
            text = pattern.replace_all(&text, *to).into_owned();
        }
        text
    }
}
