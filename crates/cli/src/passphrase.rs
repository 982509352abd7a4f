//! Passphrases from the terminal, which does not show them.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use brisk_image::{Error, Secret};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::ui::Ui;

const TERMINAL: &str = "/dev/tty";
/// Longest passphrase in bytes; the buffer never moves and leaves no copies.
const LONGEST: usize = 1024;

/// Asks for a passphrase; `None` if nobody is at a terminal.
pub(crate) fn ask(prompt: &str) -> Result<Option<Secret>, Error> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open(TERMINAL) else {
        return Ok(None);
    };
    let io = |source| Error::Io {
        action: "read a passphrase from",
        path: Path::new(TERMINAL).to_owned(),
        source,
    };
    let silent = Silent::new(&terminal).map_err(|errno| io(errno.into()))?;
    (&terminal).write_all(prompt.as_bytes()).map_err(io)?;
    let line = line(&mut &terminal).map_err(io)?;
    let _ = (&terminal).write_all(b"\n");
    drop(silent);
    let line = line.ok_or(Error::Cancelled)?;
    let text = std::str::from_utf8(&line)
        .map_err(|_| Error::Invalid("the passphrase is not UTF-8".into()))?;
    if text.is_empty() {
        return Err(Error::Invalid("the passphrase is empty".into()));
    }
    Ok(Some(Secret::new(text)))
}

/// Asks until two answers agree.
pub(crate) fn ask_twice(prompt: &str, ui: &Ui) -> Result<Secret, Error> {
    let missing = || Error::Invalid("no terminal to ask for a passphrase: give a file".into());
    loop {
        let first = ask(prompt)?.ok_or_else(missing)?;
        if first == ask("Again: ")?.ok_or_else(missing)? {
            return Ok(first);
        }
        ui.note("the two are different");
    }
}

/// Reads a line as it is typed; `None` for Ctrl-C or an end before it.
fn line(terminal: &mut impl Read) -> std::io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST));
    let mut byte = [0];
    loop {
        if terminal.read(&mut byte)? == 0 {
            return Ok(None);
        }
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            // Ctrl-C, Ctrl-D, Ctrl-\: they raise no signals here, so that echo comes back.
            3 | 4 | 28 => return Ok(None),
            // Ctrl-U.
            21 => line.clear(),
            8 | 127 => {
                // A whole character of UTF-8.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if line.len() < LONGEST => line.push(byte),
            _ => {}
        }
    }
}

/// A terminal that shows nothing and raises no signals, until this is dropped.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> rustix::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_is_left_of_what_is_typed() {
        let typed = |bytes: &[u8]| line(&mut &*bytes).unwrap().map(|line| line.to_vec());
        assert_eq!(typed(b"open sesame\r"), Some(b"open sesame".to_vec()));
        assert_eq!(
            typed("ab\u{e9}\u{7f}\u{7f}c\n".as_bytes()),
            Some(b"ac".to_vec())
        );
        assert_eq!(typed(b"wrong\x15right\n"), Some(b"right".to_vec()));
        assert_eq!(typed(b"abc\x03"), None);
        assert_eq!(typed(b"abc"), None);
    }
}
