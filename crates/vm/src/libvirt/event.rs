//! Parser of lines of `virsh qemu-monitor-event` and `virsh event`. Pure.

use serde_json::Value;

/// Most bytes of a line that has no end.
const LONGEST: usize = 1024 * 1024;

/// An event of the QEMU monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name, such as `SHUTDOWN`.
    pub name: String,
    /// Time of the event by QEMU, in microseconds since 1970.
    pub micros: u64,
    /// Its data.
    pub data: Value,
}

impl Event {
    /// Parses `event NAME at SECONDS.MICROSECONDS for domain 'DOMAIN': DATA`. The name of the
    /// domain may be anything, so the data are searched from the end of the quotation.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.strip_prefix("event ")?.split_once(" at ")?;
        let (time, rest) = rest.split_once(" for domain ")?;
        let (seconds, micros) = time.split_once('.')?;
        let seconds: u64 = seconds.parse().ok()?;
        let micros: u64 = micros.parse().ok().filter(|micros| *micros < 1_000_000)?;
        let data = rest
            .match_indices(": ")
            .find_map(|(at, _)| serde_json::from_str(&rest[at + 2..]).ok());
        Some(Self {
            name: name.to_owned(),
            micros: seconds.checked_mul(1_000_000)?.checked_add(micros)?,
            data: data.unwrap_or(Value::Null),
        })
    }
}

/// Whether `virsh event` reports in this line that libvirt is connected to the guest agent.
pub(super) fn agent_connected(line: &str) -> bool {
    line.contains("event 'agent-lifecycle' for domain") && line.contains(": state: 'connected'")
}

/// Splits bytes into lines as they arrive.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.buffer.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        if self.buffer.len() > LONGEST {
            self.buffer.clear();
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recorded from virsh 11.3 and QEMU 10.0 as a kernel without a root reset its guest.
    const OUTPUT: &str = "\
event RESUME at 1795270163.061914 for domain 'plain': <null>
event SHUTDOWN at 1795270167.627444 for domain 'plain': {\"guest\":true,\"reason\":\"guest-reset\"}
event STOP at 1795270167.628286 for domain 'plain': <null>
";

    #[test]
    fn events_have_their_time_and_data_however_they_are_cut() {
        for cut in [1, 7, 4096] {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for piece in OUTPUT.as_bytes().chunks(cut) {
                let found = lines.push(piece);
                events.extend(found.iter().filter_map(|line| Event::parse(line)));
            }
            let names: Vec<_> = events.iter().map(|event| &*event.name).collect();
            assert_eq!(names, ["RESUME", "SHUTDOWN", "STOP"]);
            assert_eq!(events[0].micros, 1_795_270_163_061_914);
            assert_eq!(events[1].data["reason"], "guest-reset");
        }
    }

    #[test]
    fn a_domain_may_have_any_name() {
        let line = "event X at 1.000002 for domain 'a: {': '{}': {\"open\":true,\"id\":\"c: d\"}";
        let event = Event::parse(line).unwrap();
        assert_eq!(
            (event.micros, &event.data["open"]),
            (1_000_002, &true.into())
        );
    }

    #[test]
    fn the_agent_is_there_when_libvirt_says_so() {
        let at = "2026-11-21 14:09:22.605+0000: ";
        let event = "event 'agent-lifecycle' for domain 'plain': ";
        let line = |state: &str| format!("{at}{event}state: '{state}' reason: 'channel event'");
        assert!(agent_connected(&line("connected")));
        assert!(!agent_connected(&line("disconnected")));
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(text in "(event [A-Z]{0,3} at [0-9.]{0,24} for domain )?\\PC{0,40}") {
            let _ = Event::parse(&text);
            let _ = Lines::default().push(text.as_bytes());
        }
    }
}
