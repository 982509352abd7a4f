//! What a guest says: how much of it is kept, and what of it tells why a boot failed.

use super::observation::Observation;
use crate::run::gave_up;

/// Most bytes of consoles and log that are kept of one boot.
const MOST: usize = 32 * 1024 * 1024;

/// How much is kept of what a guest says.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: usize,
}

impl Kept {
    /// As text, unless it is too much.
    pub(super) fn text(&mut self, bytes: &[u8]) -> Option<String> {
        let sum = self.bytes + bytes.len();
        if sum > MOST {
            return None;
        }
        self.bytes = sum;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// What QEMU said, or why the kernel gave up, or the last line of the console: why it failed.
pub(super) fn with_last_words(mut reason: String, said: &str, observation: &Observation) -> String {
    let console: String = observation
        .console
        .iter()
        .map(|piece| &*piece.text)
        .collect();
    let last = said
        .lines()
        .chain(gave_up(&console))
        .chain(console.lines().rev())
        .find(|line| !line.trim().is_empty());
    if let Some(last) = last {
        let harmless: String = last.chars().filter(|c| !c.is_control()).collect();
        reason.push_str(": ");
        reason.push_str(harmless.trim());
    }
    reason
}
