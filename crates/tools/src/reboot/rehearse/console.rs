//! How far a boot has come, from what its console says. Pure: bytes and times come from outside.

use std::collections::VecDeque;
use std::time::Duration;

use brisk_host::boot_entries::words;
use serde::Serialize;

use super::cmdline::last;
use super::goal::Goal;
use super::signs::{Cause, Sign, is_trace, signs};
use crate::guest::harmless;

/// Lines that are kept.
const LINES: usize = 40;
/// Bytes of a line; longer ones are cut.
const LONGEST: usize = 2048;
/// Causes that are kept.
const CAUSES: usize = 8;
/// Time for the root's init to show that it runs: one that cannot, ends at once, and the kernel
/// panics.
const SETTLED: Duration = Duration::from_secs(3);
/// The last program that a kernel tries; from an initial RAM disk it is a shell for repairs.
const SHELL: &str = "/bin/sh";
/// The others before it (`kernel_init` of `init/main.c`), and systemd's own place, by which it starts
/// itself in the root.
const INITS: [&str; 7] = [
    "/sbin/init",
    "/etc/init",
    "/bin/init",
    "/usr/sbin/init",
    "/usr/bin/init",
    "/lib/systemd/systemd",
    "/usr/lib/systemd/systemd",
];

/// How far a boot came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nothing was seen.
    Nothing,
    /// The kernel wrote something.
    Kernel,
    /// The initial RAM disk's init was started.
    Initramfs,
    /// The root's init was started.
    Root,
}

impl Stage {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Kernel => "the kernel",
            Self::Initramfs => "the initial RAM disk",
            Self::Root => "the root's init",
        }
    }
}

/// End of a boot, as its console tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Reached,
    Panicked,
    Corrupt,
    Shell,
    Passphrase,
}

/// The console of a rehearsal.
#[derive(Debug)]
pub(super) struct Console {
    goal: Goal,
    /// Path that `init=` names.
    init: Option<String>,
    pub(super) stage: Stage,
    /// What the kernel executed last.
    pub(super) program: Option<String>,
    /// The init of the root that was executed.
    pub(super) root_init: Option<String>,
    /// Reasons that lines may name, with their lines, the first ones.
    pub(super) causes: Vec<(Cause, String)>,
    lines: VecDeque<String>,
    line: Vec<u8>,
    /// What the unfinished line was understood as.
    ending: Option<Ending>,
    /// Line of the panic.
    pub(super) panic: Option<String>,
    /// Line that tells the ending, as far as it is there.
    pub(super) telling: Option<String>,
    /// Time at which the root's init was executed.
    since: Option<Duration>,
    /// Whether the kernel reports what it executes.
    traces: bool,
    /// What it says it executes, where it reports nothing, and when: it says so of what it cannot
    /// execute, too.
    announced: Option<(String, Duration)>,
}

impl Console {
    /// Of a boot with this command line.
    pub(super) fn new(cmdline: &str, goal: &Goal) -> Self {
        Self {
            goal: goal.clone(),
            init: last(&words(cmdline), "init").map(str::to_owned),
            stage: Stage::Nothing,
            program: None,
            root_init: None,
            causes: Vec::new(),
            lines: VecDeque::new(),
            line: Vec::new(),
            ending: None,
            panic: None,
            telling: None,
            since: None,
            traces: false,
            announced: None,
        }
    }

    /// Adds bytes that came so long after the start.
    pub(super) fn push(&mut self, bytes: &[u8], at: Duration) -> Option<Ending> {
        if self.stage == Stage::Nothing && !bytes.is_empty() {
            self.stage = Stage::Kernel;
        }
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let free = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(free)]);
            let text = plain(&self.line);
            let is_whole = piece.ends_with(b"\n") || piece.ends_with(b"\r");
            self.understand(text.trim(), is_whole, at);
            if is_whole {
                if !text.trim().is_empty() && !is_trace(&text) {
                    self.lines.push_back(text.trim().to_owned());
                }
                if self.lines.len() > LINES {
                    self.lines.pop_front();
                }
                self.line.clear();
            }
        }
        self.ended(at)
    }

    /// End of the boot, if it has come by that time.
    pub(super) fn ended(&mut self, at: Duration) -> Option<Ending> {
        let is_due = |(_, since): &mut (String, Duration)| at >= *since + SETTLED;
        if let Some((path, since)) = self.announced.take_if(is_due) {
            self.first_process(&path, since);
        }
        // A panic says more than what came before.
        if self.panic.is_some() {
            return Some(Ending::Panicked);
        }
        let is_settled = self.since.is_some_and(|since| at >= since + SETTLED);
        match self.ending {
            None if is_settled && self.goal == Goal::Init => Some(Ending::Reached),
            ending => ending,
        }
    }

    /// Time at which [`Self::ended`] may say something new without a byte.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let since = self.since.filter(|_| self.goal == Goal::Init);
        let announced = self.announced.as_ref().map(|(_, since)| *since);
        Some(since.or(announced)? + SETTLED)
    }

    /// The last lines, the unfinished one among them.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let rest = plain(&self.line);
        let rest = rest.trim();
        let mut lines: Vec<_> = self.lines.iter().cloned().collect();
        if !rest.is_empty() && !is_trace(rest) {
            lines.push(rest.to_owned());
        }
        lines
    }

    fn understand(&mut self, line: &str, is_whole: bool, at: Duration) {
        for sign in signs(line) {
            match sign {
                Sign::Exec { path, pid } if is_whole => self.executed(path, pid, at),
                Sign::KernelRuns(path) if is_whole && !self.traces => {
                    self.announced = Some((path.to_owned(), at));
                }
                Sign::RootInit if !self.traces => self.root_runs(None, at),
                Sign::Panic if is_whole => {
                    self.panic.get_or_insert_with(|| line.to_owned());
                }
                Sign::Corrupt => self.told(Ending::Corrupt, line),
                Sign::Shell => self.told(Ending::Shell, line),
                Sign::Passphrase => self.told(Ending::Passphrase, line),
                Sign::Finished if self.stage == Stage::Root && self.goal.is_of_systemd() => {
                    self.end(Ending::Reached);
                }
                Sign::Started(unit) if is_whole => self.started(unit),
                Sign::Cause(cause) if is_whole && self.causes.len() < CAUSES => {
                    self.causes.push((cause, line.to_owned()));
                }
                _ => {}
            }
        }
    }

    /// A line tells an ending; more of it may have come.
    fn told(&mut self, ending: Ending, line: &str) {
        let known = self.telling.as_deref().unwrap_or_default();
        if self.ending.is_none() || line.starts_with(known) {
            self.telling = Some(line.to_owned());
        }
        self.end(ending);
    }

    /// The first one stays.
    fn end(&mut self, ending: Ending) {
        self.ending = self.ending.or(Some(ending));
    }

    fn executed(&mut self, path: &str, pid: u32, at: Duration) {
        self.traces = true;
        self.announced = None;
        self.program = Some(path.to_owned());
        if self.since.is_some() {
            // It started something, or itself again: it works.
            if self.goal == Goal::Init {
                self.end(Ending::Reached);
            }
            return;
        }
        if pid == 1 {
            self.first_process(path, at);
        }
    }

    /// The first process executes a program.
    fn first_process(&mut self, path: &str, at: Duration) {
        let is_named = self.init.as_deref() == Some(path);
        let is_fallback = path == SHELL && self.stage < Stage::Initramfs;
        if is_named || is_fallback || INITS.contains(&path) {
            self.root_runs(Some(path), at);
        } else {
            self.stage = self.stage.max(Stage::Initramfs);
        }
    }

    fn root_runs(&mut self, path: Option<&str>, at: Duration) {
        self.stage = Stage::Root;
        self.since.get_or_insert(at);
        if self.root_init.is_none() {
            self.root_init = path.map(str::to_owned);
        }
    }

    fn started(&mut self, unit: &str) {
        let Goal::Unit(wanted) = &self.goal else {
            return;
        };
        let name = unit.split(' ').next().unwrap_or_default();
        let is_it = name.trim_end_matches('.') == wanted;
        if is_it && self.stage == Stage::Root {
            self.end(Ending::Reached);
        }
    }
}

/// Text without control characters, and without the sequences that move cursors, choose colours or
/// ask a terminal (CSI of ECMA-48), which systemd and shells write.
fn plain(bytes: &[u8]) -> String {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        rest = match rest.strip_prefix(b"\x1b[") {
            Some(sequence) => {
                let end = sequence
                    .iter()
                    .position(|byte| (0x40..=0x7e).contains(byte));
                &sequence[end.map_or(sequence.len(), |end| end + 1)..]
            }
            None => {
                kept.push(first);
                after
            }
        };
    }
    harmless(&kept)
}

#[cfg(test)]
mod tests;
