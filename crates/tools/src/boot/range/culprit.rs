//! Search for the line of a build's log that says why the build failed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a line that are read.
const LINE: u64 = 4096;
/// Most characters of a line that are shown.
const WIDTH: usize = 200;

/// The first line of a log with an error, else its last line that is not empty, without control
/// characters; `None` for an empty log.
pub(super) fn find(log: &Path) -> io::Result<Option<String>> {
    let mut log = BufReader::new(File::open(log)?);
    let mut found = Found::default();
    let mut line = Vec::new();
    while {
        line.clear();
        (&mut log).take(LINE).read_until(b'\n', &mut line)? > 0
    } {
        found.see(&plain(&String::from_utf8_lossy(&line)));
        if found.diagnosed.is_some() {
            break;
        }
    }
    let line = found.diagnosed.or(found.mentioned).or(found.last);
    Ok(line
        .or(found.summary)
        .map(|line| line.chars().take(WIDTH).collect()))
}

/// Candidate lines, the best first.
#[derive(Debug, Default)]
struct Found {
    /// A line in the form of compilers and most other programs: `FILE: error: …`, `error[…]`,
    /// `Error: …`.
    diagnosed: Option<String>,
    /// The first line with the word.
    mentioned: Option<String>,
    /// The last line.
    last: Option<String>,
    /// Make's message that a command has failed; the command's own message is better.
    summary: Option<String>,
}

impl Found {
    fn see(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let own = || Some(line.to_owned());
        let lower = line.to_lowercase();
        if lower.contains("*** [") && lower.contains("] error ") {
            self.summary = self.summary.take().or_else(own);
            return;
        }
        if lower.contains("error:") || lower.contains("error[") {
            self.diagnosed = self.diagnosed.take().or_else(own);
        }
        // Not `-Werror` nor a name of a file.
        let mut words = lower.split(|char: char| char.is_whitespace() || "!,;()".contains(char));
        if words.any(|word| matches!(word, "error" | "errors")) {
            self.mentioned = self.mentioned.take().or_else(own);
        }
        self.last = own();
    }
}

/// A line without escape sequences (ECMA-48) and other control characters.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\x1b' && chars.next_if_eq(&'[').is_some() {
            // The rest of a control sequence.
            for char in chars.by_ref() {
                if ('@'..='~').contains(&char) {
                    break;
                }
            }
        } else if char == '\t' {
            plain.push(' ');
        } else if !char.is_control() {
            plain.push(char);
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(log: &str) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), log).unwrap();
        find(file.path()).unwrap()
    }

    #[test]
    fn the_first_error_is_shown() {
        let log = "cc -Werror -c error.c\nerror.c: In function 'f':\n\
                   \x1b[1merror.c:3:1: \x1b[31;1merror: \x1b[mno 'x'\x07\r\nlater: error: y\n\
                   make: *** [Makefile:2: all] Error 1\n";
        assert_eq!(found(log).unwrap(), "error.c:3:1: error: no 'x'");
        let log = "error[E0308]: mismatched types\nerror: aborting\n";
        assert_eq!(found(log).unwrap(), "error[E0308]: mismatched types");
        let log = "Traceback:\n  File x\nModuleNotFoundError: No module named 'y'\n";
        assert_eq!(
            found(log).unwrap(),
            "ModuleNotFoundError: No module named 'y'"
        );
        assert_eq!(
            found("one\nfatal error in x\ntwo\n").unwrap(),
            "fatal error in x"
        );
    }

    #[test]
    fn without_an_error_the_last_line_is_shown() {
        let log = "one\n/bin/sh: 1: iasl: not found\n\n\
                   make[1]: *** [Makefile:2: all] Error 127\nmake: *** [Makefile:9: x] Error 2\n";
        assert_eq!(found(log).unwrap(), "/bin/sh: 1: iasl: not found");
        let log = "make: *** No rule to make target 'x'.  Stop.\n";
        assert_eq!(
            found(log).unwrap(),
            "make: *** No rule to make target 'x'.  Stop."
        );
        let alone = "make: *** [Makefile:2: all] Error 1";
        assert_eq!(found(alone).unwrap(), alone);
        assert_eq!(found(" \n\n"), None);
    }

    #[test]
    fn long_lines_are_cut() {
        let log = format!("{}\nerror: {}\n", "x".repeat(10_000), "é".repeat(10_000));
        assert_eq!(found(&log).unwrap().chars().count(), WIDTH);
    }
}
