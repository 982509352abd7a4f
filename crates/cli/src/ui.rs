//! Output for the user: data on stdout, everything else on stderr.

mod progress;

use std::io::{self, IsTerminal, Write};

pub use progress::{Bar, Board, Spinner};

/// Where messages go.
#[derive(Debug)]
pub struct Ui {
    terminal: bool,
}

/// An error with its causes, once.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

impl Ui {
    /// Output of this process.
    #[must_use]
    pub fn new() -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
        }
    }

    /// Prints data. A reader that has gone away, as with `| head`, is no error.
    ///
    /// # Errors
    /// If stdout cannot be written.
    pub fn data(&self, text: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(anyhow::Error::new(error).context("cannot write to standard output"))
            }
            _ => Ok(()),
        }
    }

    /// Prints a message, in which text from elsewhere may be.
    pub fn note(&self, text: &str) {
        let text = crate::output::printable(text);
        let _ = writeln!(io::stderr().lock(), "brisk: {text}");
    }

    /// Prints text to stderr unchanged.
    pub fn plain(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Prints an error with its causes, once.
    pub fn error(&self, error: &anyhow::Error) {
        let text = crate::output::printable(&error_text(error));
        let _ = writeln!(io::stderr().lock(), "brisk: error: {text}");
    }

    /// A sign of life for an activity that may take more than a second; nothing where stderr is no
    /// terminal. It shows after a moment and is wiped when dropped.
    #[must_use]
    pub fn spinner(&self, text: &str) -> Spinner {
        Spinner::new(self.terminal, text)
    }

    /// Lines that are replaced as an activity goes on, with a line of progress below; nothing where
    /// stderr is no terminal. They are wiped when dropped.
    #[must_use]
    pub fn board(&self) -> Board {
        Board::new(self.terminal)
    }

    /// Progress of an activity with a known number of steps; a line each half minute where stderr is no
    /// terminal.
    /// It is wiped when dropped.
    #[must_use]
    pub fn bar(&self, steps: u64, text: &str) -> Bar {
        Bar::new(self.terminal, steps, text)
    }
}

impl Default for Ui {
    fn default() -> Self {
        Self::new()
    }
}
