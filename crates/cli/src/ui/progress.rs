//! Progress of an activity, drawn by a thread that the activity never waits for.
//!
//! A terminal may take no more bytes: Ctrl-S, a stalled connection, a pager. The thread that draws
//! blocks then, and what it draws for, such as a guest that stands still until its image is written,
//! goes on. What is left at the end is drawn within [`FAREWELL`], or not at all; lasting lines are
//! never left out.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// Time from which on an activity shows a sign of life.
const MOMENT: Duration = Duration::from_millis(400);
/// Interval of drawing.
const TICK: Duration = Duration::from_millis(300);
/// Time that a terminal has at the end to have the progress wiped.
const FAREWELL: Duration = Duration::from_millis(500);

/// Interval of a line that says how far an activity is, where there is no terminal.
const REPORT: Duration = Duration::from_secs(30);

type Change = Box<dyn FnOnce(&ProgressBar) + Send>;

/// The thread that draws, until this is dropped.
#[derive(Debug)]
struct Drawing {
    /// `None` once it is to end.
    changes: Option<Sender<Change>>,
    /// Several threads report progress; nobody but this one's end waits.
    ended: Mutex<Receiver<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    position: AtomicU64,
    /// Lasting lines that are not printed yet.
    lines: Mutex<VecDeque<String>>,
}

impl Shared {
    fn next_line(&self) -> Option<String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.pop_front()
    }
}

impl Drawing {
    /// Draws a bar, after `quiet`; one that is hidden prints lasting lines alone.
    fn begin(bar: ProgressBar, quiet: Duration) -> Self {
        let (sender, changes) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        thread::spawn(move || {
            draw(&bar, quiet, &changes, &seen);
            drop(end);
        });
        Self {
            changes: Some(sender),
            ended: Mutex::new(ended),
            shared,
        }
    }

    fn change(&self, change: impl FnOnce(&ProgressBar) + Send + 'static) {
        if let Some(changes) = &self.changes {
            // The thread ends only after this does.
            let _ = changes.send(Box::new(change));
        }
    }

    fn set_position(&self, position: u64) {
        self.shared.position.store(position, Ordering::Relaxed);
    }

    fn print(&self, line: &str) {
        let lines = self.shared.lines.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line.to_owned());
        drop(lines);
        self.change(|_| {});
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.changes = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(FAREWELL);
        // Nothing waits for this any more.
        while let Some(line) = self.shared.next_line() {
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}

fn draw(bar: &ProgressBar, quiet: Duration, changes: &Receiver<Change>, shared: &Shared) {
    let print = || {
        while let Some(line) = shared.next_line() {
            match bar.is_hidden() {
                true => drop(writeln!(io::stderr().lock(), "{line}")),
                false => bar.println(line),
            }
        }
    };
    let begun = Instant::now();
    let mut report = begun + REPORT;
    let mut wait = quiet;
    loop {
        match changes.recv_timeout(wait) {
            Ok(change) => change(bar),
            Err(RecvTimeoutError::Timeout) => wait = TICK,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        print();
        if wait == TICK {
            bar.set_position(shared.position.load(Ordering::Relaxed));
            bar.tick();
        }
        if bar.is_hidden() && Instant::now() >= report {
            report += REPORT;
            let position = shared.position.load(Ordering::Relaxed);
            let line = report_line(bar, position, begun.elapsed());
            let _ = line.map(|line| writeln!(io::stderr().lock(), "brisk: {line}"));
        }
    }
    print();
    bar.finish_and_clear();
}

/// How far an activity is, for a log; `None` of one that has no name.
fn report_line(bar: &ProgressBar, position: u64, elapsed: Duration) -> Option<String> {
    let activity = Some(bar.prefix()).filter(|prefix| !prefix.is_empty());
    let activity = activity.unwrap_or_else(|| bar.message());
    let done = match bar.length().filter(|length| *length > 0) {
        Some(length) => format!("{position} of {length}"),
        None => format!("for {}", HumanDuration(elapsed)),
    };
    (!activity.is_empty()).then(|| format!("{activity}: {done}"))
}

/// See [`Ui::board`](super::Ui::board).
#[derive(Debug)]
pub struct Board {
    drawing: Drawing,
    terminal: bool,
}

impl Board {
    pub(super) fn new(terminal: bool) -> Self {
        let bar = match terminal {
            true => ProgressBar::new(0),
            false => ProgressBar::hidden(),
        };
        Self {
            drawing: Drawing::begin(bar, TICK),
            terminal,
        }
    }

    /// Whether there is a terminal to show it on.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.terminal
    }

    /// Replaces the text.
    pub fn text(&self, text: &str) {
        if self.terminal {
            let text = text.trim_end().to_owned();
            self.drawing.change(move |bar| bar.set_message(text));
        }
    }

    /// Shows the present activity, and how far it is, in seconds; without an end if that is not
    /// known.
    pub fn step(&self, activity: &str, seconds: u64, of: Option<u64>) {
        let end = match of {
            Some(_) => "{wide_bar} {pos}/{len} s",
            None => "{pos} s",
        };
        let activity = activity.to_owned();
        self.drawing.set_position(seconds);
        self.drawing.change(move |bar| {
            if let Ok(style) = ProgressStyle::with_template(&format!("{{msg}}\n{{prefix}} {end}")) {
                bar.set_style(style);
            }
            bar.set_prefix(activity);
            bar.set_length(of.unwrap_or(0));
        });
    }
}

/// See [`Ui::bar`](super::Ui::bar).
#[derive(Debug)]
pub struct Bar(Drawing);

impl Bar {
    pub(super) fn new(terminal: bool, steps: u64, text: &str) -> Self {
        let bar = match terminal {
            true => ProgressBar::new(steps),
            // Its length may be set here: nothing of it is drawn.
            false => {
                let bar = ProgressBar::hidden();
                bar.set_length(steps);
                bar
            }
        };
        let bar = bar.with_message(text.to_owned());
        let template = "{msg} {wide_bar} {pos}/{len}{left}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", left));
        }
        Self(Drawing::begin(bar, TICK))
    }

    /// Sets the number of steps that are done.
    pub fn at(&self, steps: u64) {
        self.0.set_position(steps);
    }

    /// Sets the number of steps, where that was not known before.
    pub fn of(&self, steps: u64) {
        self.0.change(move |bar| bar.set_length(steps));
    }

    /// Shows the present activity.
    pub fn say(&self, text: &str) {
        let text = text.to_owned();
        self.0.change(move |bar| bar.set_message(text));
    }

    /// Prints a lasting line, above the bar where there is one.
    pub fn above(&self, text: &str) {
        self.0.print(text);
    }
}

/// Writes the time that is left, where it is known and not nothing: the last step may take long.
fn left(state: &ProgressState, text: &mut dyn fmt::Write) {
    if state.eta() >= Duration::from_secs(1) {
        let _ = write!(text, ", {:#} left", HumanDuration(state.eta()));
    }
}

/// See [`Ui::spinner`](super::Ui::spinner).
#[derive(Debug)]
pub struct Spinner(#[expect(dead_code, reason = "it draws until it is dropped")] Drawing);

impl Spinner {
    pub(super) fn new(terminal: bool, text: &str) -> Self {
        let bar = match terminal {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        let bar = bar.with_message(text.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        Self(Drawing::begin(bar, MOMENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_how_far_an_activity_is() {
        let line =
            |bar: &ProgressBar, position| report_line(bar, position, Duration::from_secs(60));
        let bar = ProgressBar::hidden();
        assert_eq!(line(&bar, 0), None);
        let bar = bar.with_message("booting");
        assert_eq!(line(&bar, 0).unwrap(), "booting: for 60 seconds");
        bar.set_length(12);
        assert_eq!(line(&bar, 3).unwrap(), "booting: 3 of 12");
        bar.set_prefix("waiting");
        assert_eq!(line(&bar, 3).unwrap(), "waiting: 3 of 12");
    }
}
