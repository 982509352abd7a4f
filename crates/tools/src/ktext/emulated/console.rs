//! The console of a machine: answers of its program, between what its kernel writes. Pure.

use std::collections::VecDeque;

use crate::guest::harmless;
use crate::ktext::worker::{Answer, Answers, WorkerError};

/// Lines that are kept.
const LINES: usize = 30;
/// Bytes of a line; longer ones are cut.
const LONGEST: usize = 4096;

/// What a guest has written.
#[derive(Debug, Default)]
pub(super) struct Console {
    answers: Answers,
    line: Vec<u8>,
    lines: VecDeque<String>,
}

impl Console {
    /// Adds bytes: the first answer that they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<Result<Answer, WorkerError>> {
        let mut found = None;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let free = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(free)]);
            if !piece.ends_with(b"\n") {
                continue;
            }
            let line = harmless(&std::mem::take(&mut self.line));
            // A tab at the end of a row is an empty cell.
            let line = line.trim_end_matches(['\r', '\n']);
            found = found.or(self.answers.take(line));
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(line.to_owned());
        }
        found
    }

    /// The last lines, and what has no end yet.
    pub(super) fn last_lines(&self) -> String {
        let rest = harmless(&self.line);
        let lines = self.lines.iter().map(String::as_str);
        let lines: Vec<_> = lines
            .chain(Some(&*rest).filter(|rest| !rest.is_empty()))
            .collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_put_together_of_pieces() {
        let mut console = Console::default();
        for piece in [
            "[ 1.0] Run /init\r\nbrisk-k",
            "text: line off_reason\t\r",
            "\n",
        ] {
            assert_eq!(console.take(piece.as_bytes()), None);
        }
        let answer = console.take(b"brisk-ktext: ok\r\n").unwrap().unwrap();
        assert_eq!(answer.lines, ["off_reason\t"]);
        console.take(b"\x1b[31mKernel panic");
        let text = console.last_lines();
        assert!(text.starts_with("[ 1.0] Run /init\n"), "{text}");
        assert!(text.ends_with("\n[31mKernel panic"), "{text}");
    }

    #[test]
    fn a_guest_that_writes_without_end_is_kept_short() {
        let mut console = Console::default();
        for _ in 0..10_000 {
            assert_eq!(console.take(&[b'x'; 1000]), None);
            assert_eq!(console.take(b"\xff\0\n\n"), None);
        }
        assert_eq!(console.lines.len(), LINES);
        for _ in 0..100 {
            console.take(&[b'x'; 1000]);
        }
        assert!(console.last_lines().len() <= LINES * (LONGEST + 1) + LONGEST);
    }
}
