//! The guest's console: its end is kept for error messages, all of it is shown on request. Hostile
//! text.

use std::collections::VecDeque;

/// Bytes that are kept.
const KEPT: usize = 64 * 1024;
/// Most lines that an error shows.
const LINES: usize = 25;
/// Beginning of the kernel's message at a panic (`kernel/panic.c`), and of brisk's init where it
/// cannot reach brisk.
const LAST_WORDS: [&str; 2] = ["Kernel panic - not syncing", "brisk-init: "];

/// Output of the serial port.
#[derive(Debug)]
pub(crate) struct Console {
    show: bool,
    kept: VecDeque<u8>,
}

impl Console {
    pub(crate) fn new(show: bool) -> Self {
        Self {
            show,
            kept: VecDeque::new(),
        }
    }

    /// Adds bytes; the result is the text to show.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
        if self.show {
            harmless(bytes)
        } else {
            String::new()
        }
    }

    /// Whether to read more while the shown text cannot be written (`full`): otherwise the guest's
    /// serial port waits, as its standard output does.
    pub(crate) fn wants_more(&self, full: bool) -> bool {
        !(self.show && full)
    }

    fn text(&self) -> String {
        let (a, b) = self.kept.as_slices();
        harmless(&[a, b].concat())
    }

    /// Whether the kernel has panicked, or brisk's init has given up.
    pub(crate) fn panicked(&self) -> bool {
        let text = self.text();
        LAST_WORDS.iter().any(|words| text.contains(words))
    }

    /// Whether the kernel has stopped for ever: after a power-off without ACPI, or a halt
    /// (`kernel/reboot.c`, `arch/x86/kernel/reboot.c`).
    pub(crate) fn halted(&self) -> bool {
        const WORDS: &str = "System halted";
        const LAST: usize = 256;
        let start = self.kept.len().saturating_sub(LAST);
        let last: Vec<u8> = self.kept.range(start..).copied().collect();
        harmless(&last).contains(WORDS)
    }

    /// The last lines, and before them the line of a panic, which a long trace follows.
    pub(crate) fn tail(&self) -> String {
        let text = self.text();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(LINES));
        let reason = before.iter().rfind(|line| has_reason(line));
        reason
            .into_iter()
            .chain(last)
            .copied()
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn has_reason(line: &str) -> bool {
    line.contains(LAST_WORDS[0])
}

/// The line of a kernel panic, if there is one.
pub(crate) fn gave_up(text: &str) -> Option<&str> {
    text.lines().rfind(|line| has_reason(line))
}

/// The last line that a program wrote to stderr.
pub(crate) fn last_line(stderr: &str) -> String {
    let last = stderr.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or("it does not say why").trim().to_owned()
}

/// Text of a guest's without control characters, fit for a terminal.
#[must_use]
pub fn harmless(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_waits_for_who_reads_its_console() {
        assert!(!Console::new(true).wants_more(true));
        assert!(Console::new(true).wants_more(false));
        // A command that writes more than is read must not keep a panic from being seen.
        assert!(Console::new(false).wants_more(true));
    }

    #[test]
    fn a_panic_is_seen_across_pieces() {
        let mut console = Console::new(false);
        assert_eq!(console.push(b"[    1.0] Kernel panic - not "), "");
        assert!(!console.panicked());
        console.push(b"syncing: VFS\r\n---[ end ]---\r\n");
        assert!(console.panicked());
        assert_eq!(
            console.tail(),
            "[    1.0] Kernel panic - not syncing: VFS\n---[ end ]---"
        );
    }

    #[test]
    fn a_kernel_that_stands_still_says_so() {
        let mut console = Console::new(false);
        console.push(b"reboot: Power off not available: System ");
        assert!(!console.halted());
        console.push(b"halted instead\r\n");
        assert!(console.halted());
        assert!(!console.panicked());
    }

    #[test]
    fn little_is_kept_of_much() {
        let mut console = Console::new(false);
        for _ in 0..100 {
            console.push(&[b'x'; KEPT]);
        }
        console.push(b"\nthe end\n");
        assert!(console.kept.len() <= KEPT);
        assert!(console.tail().ends_with("the end"));
    }

    #[test]
    fn the_reason_of_a_panic_survives_its_trace() {
        let mut console = Console::new(false);
        console.push(b"Booting\nKernel panic - not syncing: no memory\n");
        for line in 0..2 * LINES {
            console.push(format!(" frame {line}\n").as_bytes());
        }
        let tail = console.tail();
        assert!(tail.starts_with("Kernel panic - not syncing: no memory\n frame 25\n"));
        assert!(tail.ends_with(" frame 49"));
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        let mut console = Console::new(true);
        assert_eq!(console.push(b"a\x1b[2J\x07b\tc\n"), "a[2Jb\tc\n");
    }
}
