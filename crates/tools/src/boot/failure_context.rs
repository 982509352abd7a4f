//! Failure context of a boot: the kept output of the guest, and the part of it that shows the
//! reason of a failure.

use super::observation::Piece;
use crate::guest::gave_up;

/// Most bytes of consoles and log that are kept of one boot.
const MOST: usize = 32 * 1024 * 1024;
/// Bytes that a piece takes besides its text: a guest can write one byte after the other.
const PIECE: usize = 64;

/// Amount of output that is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: usize,
}

impl Kept {
    /// Bytes as text, unless the limit is reached.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Option<String> {
        let sum = self.bytes + bytes.len() + PIECE;
        if sum > MOST {
            return None;
        }
        self.bytes = sum;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Adds the reason of a failure: QEMU's error, the kernel's panic, or the last line of the console;
/// QEMU's warnings only if there is nothing else.
pub(super) fn with_last_words(mut reason: String, stderr: &str, console: &[Piece]) -> String {
    let console: String = console.iter().map(|piece| &*piece.text).collect();
    let (warnings, errors): (Vec<_>, Vec<_>) = stderr
        .lines()
        .partition(|line| line.contains(": warning: "));
    let last = errors
        .into_iter()
        .chain(gave_up(&console))
        .chain(console.lines().rev())
        .chain(warnings)
        .find(|line| !line.trim().is_empty());
    if let Some(last) = last {
        let harmless: String = last.chars().filter(|c| !c.is_control()).collect();
        reason.push_str(": ");
        reason.push_str(harmless.trim());
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_not_why_it_failed_if_there_is_another_reason() {
        let with = |stderr: &str, console: &str| {
            let text = console.to_owned();
            with_last_words("failed".to_owned(), stderr, &[Piece { at: 0, text }])
        };
        let warning = "qemu: warning: TCG doesn't support that";
        let error = format!("{warning}\nqemu: no such file\n");
        assert_eq!(with(&error, "last\n"), "failed: qemu: no such file");
        assert_eq!(with(warning, "first\nlast\n"), "failed: last");
        assert_eq!(with(warning, " "), format!("failed: {warning}"));
        assert_eq!(with("", ""), "failed");
    }
}
