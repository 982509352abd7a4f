//! Ready conditions and milestones: the end of the measured time.

use std::str::FromStr;

use brisk_vm::qemu::watch::Extra;
use regex::bytes::Regex;

/// Milestone of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The kernel's first output.
    Kernel,
    /// The first instruction of init.
    Init,
    /// The command is executed; with a QEMU of the user's, the ready condition is met.
    Ready,
    /// QEMU has ended.
    Exit,
}

impl Until {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Init => "init",
            Self::Ready => "ready",
            Self::Exit => "exit",
        }
    }
}

/// Ready condition of a guest that is not brisk's.
#[derive(Debug, Clone)]
pub enum ReadyCondition {
    /// A line of the console matches.
    Console(Regex),
    /// The guest writes to this I/O port.
    Port(u16),
    /// QMP reports an event of this name.
    Qmp(String),
    /// The guest agent answers.
    Agent,
}

/// Error of parsing a ready condition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadyConditionError {
    /// The regular expression is malformed.
    #[error("console:{pattern}: {reason}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// The defect.
        reason: String,
    },
    /// Not a port number.
    #[error("port:{0}: a port is a number from 0 to 0xffff, such as 0xf4")]
    Port(String),
    /// The text has none of the forms.
    #[error(
        "{0}: a ready marker is console:REGEX, port:NUMBER, qmp:EVENT or agent, for example \
         console:'login: $'"
    )]
    Form(String),
}

impl FromStr for ReadyCondition {
    type Err = ReadyConditionError;

    fn from_str(text: &str) -> Result<Self, ReadyConditionError> {
        match text.split_once(':') {
            Some(("console", pattern)) if !pattern.is_empty() => {
                let regex = Regex::new(pattern).map_err(|error| ReadyConditionError::Pattern {
                    pattern: pattern.to_owned(),
                    reason: error.to_string(),
                })?;
                Ok(Self::Console(regex))
            }
            Some(("port", number)) => {
                let parsed = match number.strip_prefix("0x") {
                    Some(hex) => u16::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                parsed
                    .map(Self::Port)
                    .map_err(|_| ReadyConditionError::Port(number.to_owned()))
            }
            Some(("qmp", event)) if !event.is_empty() => Ok(Self::Qmp(event.to_owned())),
            None if text == "agent" => Ok(Self::Agent),
            _ => Err(ReadyConditionError::Form(text.to_owned())),
        }
    }
}

impl ReadyCondition {
    /// Addition to QEMU's command line.
    #[must_use]
    pub const fn extra(&self) -> Option<Extra> {
        match self {
            Self::Port(port) => Some(Extra::Port(*port)),
            Self::Agent => Some(Extra::Agent),
            Self::Console(_) | Self::Qmp(_) => None,
        }
    }
}

impl std::fmt::Display for ReadyCondition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Console(regex) => write!(formatter, "console:{regex}"),
            Self::Port(port) => write!(formatter, "port:{port:#x}"),
            Self::Qmp(event) => write!(formatter, "qmp:{event}"),
            Self::Agent => formatter.write_str("agent"),
        }
    }
}

/// Searches the console for the condition as bytes come; keeps no more than a line.
#[derive(Debug)]
pub(crate) struct Scanner {
    regex: Regex,
    line: Vec<u8>,
}

/// Most bytes of a line; longer lines are cut.
const LONGEST: usize = 16 * 1024;

impl Scanner {
    pub(crate) fn new(regex: Regex) -> Self {
        Self {
            regex,
            line: Vec::new(),
        }
    }

    /// Adds bytes; whether the condition is met in them: in a whole line, or in the last line
    /// without an end, such as a prompt.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let excess = self.line.len().saturating_sub(LONGEST);
            self.line.drain(..excess);
            let text = self.line.trim_ascii_end();
            if self.regex.is_match(&self.line) || self.regex.is_match(text) {
                return true;
            }
            if piece.ends_with(b"\n") {
                self.line.clear();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_read_as_they_are_written() {
        for text in ["console:login: $", "port:0xf4", "qmp:RESET", "agent"] {
            assert_eq!(text.parse::<ReadyCondition>().unwrap().to_string(), text);
        }
        assert!(matches!(
            "port:244".parse().unwrap(),
            ReadyCondition::Port(0xf4)
        ));
    }

    #[test]
    fn what_is_no_marker_is_named() {
        for text in [
            "",
            "console:",
            "port:70000",
            "port:x",
            "qmp:",
            "login",
            "console:(",
        ] {
            let error = text.parse::<ReadyCondition>().unwrap_err().to_string();
            assert!(error.contains(text.trim_start_matches("port:")), "{error}");
        }
    }

    #[test]
    fn a_marker_is_found_across_pieces() {
        let mut scanner = Scanner::new(Regex::new("login: $").unwrap());
        assert!(!scanner.push(b"Debian 12\r\nhost lo"));
        assert!(scanner.push(b"gin: "));
        let mut scanner = Scanner::new(Regex::new("^Run /init").unwrap());
        assert!(!scanner.push(b"x Run /init\nRun /in"));
        assert!(scanner.push(b"it as init\r\n"));
    }

    #[test]
    fn endless_lines_are_not_kept() {
        let mut scanner = Scanner::new(Regex::new("never").unwrap());
        for _ in 0..100 {
            assert!(!scanner.push(&[b'x'; 1000]));
        }
        assert!(scanner.line.len() <= LONGEST);
    }
}
