//! Output for the user: data on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Time from which on an activity shows a sign of life.
const MOMENT: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(300);

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
        let text = text.to_owned();
        Spinner(self.terminal.then(|| {
            let (end, ended) = mpsc::channel();
            (end, thread::spawn(move || spin(text, &ended)))
        }))
    }

    /// Lines that are replaced as an activity goes on, with a line of progress below; nothing where
    /// stderr is no terminal. They are wiped when dropped.
    #[must_use]
    pub fn board(&self) -> Board {
        Board(self.terminal.then(|| {
            let bar = ProgressBar::new(0);
            bar.enable_steady_tick(TICK);
            bar
        }))
    }

    /// Progress of an activity with a known number of steps; nothing where stderr is no terminal.
    /// It is wiped when dropped.
    #[must_use]
    pub fn bar(&self, steps: u64, text: &str) -> Bar {
        if !self.terminal {
            return Bar(None);
        }
        let bar = ProgressBar::new(steps).with_message(text.to_owned());
        let template = "{msg} {wide_bar} {pos}/{len}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Bar(Some(bar))
    }
}

/// See [`Ui::board`].
#[derive(Debug)]
pub struct Board(Option<ProgressBar>);

impl Board {
    /// Whether there is a terminal to show it on.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    /// Replaces the text.
    pub fn text(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.trim_end().to_owned());
        }
    }

    /// Shows the present activity, and how far it is, in seconds; without an end if that is not
    /// known.
    pub fn step(&self, activity: &str, seconds: u64, of: Option<u64>) {
        let Some(bar) = &self.0 else { return };
        let end = match of {
            Some(_) => "{wide_bar} {pos}/{len} s",
            None => "{pos} s",
        };
        if let Ok(style) = ProgressStyle::with_template(&format!("{{msg}}\n{{prefix}} {end}")) {
            bar.set_style(style);
        }
        bar.set_prefix(activity.to_owned());
        bar.set_length(of.unwrap_or(0));
        bar.set_position(seconds);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// See [`Ui::bar`].
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Sets the number of steps that are done.
    pub fn at(&self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(steps);
        }
    }

    /// Sets the number of steps, where that was not known before.
    pub fn of(&self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(steps);
        }
    }

    /// Shows the present activity.
    pub fn say(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }

    /// Prints a lasting line, above the bar where there is one.
    pub fn above(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.println(text),
            None => {
                let _ = writeln!(io::stderr().lock(), "{text}");
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Default for Ui {
    fn default() -> Self {
        Self::new()
    }
}

/// See [`Ui::spinner`].
#[derive(Debug)]
pub struct Spinner(Option<(Sender<()>, JoinHandle<()>)>);

/// Shows the sign of life until the other end of `ended` is dropped; nothing if that is soon.
fn spin(text: String, ended: &Receiver<()>) {
    if ended.recv_timeout(MOMENT) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::new_spinner()
        .with_message(text)
        .with_elapsed(MOMENT);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    let _ = ended.recv();
    bar.finish_and_clear();
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}
