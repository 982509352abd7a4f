//! From lines to runs of `openssl speed`. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::command::Command;
use super::failure;
use super::lines::{self, Begin, End, Line, Rates};

/// Most figures that are kept of a text.
const MOST: usize = 20_000;
/// How far counts may be from the table of their run: by times that are rounded to 10 ms.
const ALIKE: f64 = 0.02;
/// Most names of a run; openssl itself has fewer algorithms.
const NAMES: usize = 500;
/// Most processes whose lines are told apart.
const AT_ONCE: usize = 1024;

/// What a text has.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) runs: Vec<Run>,
    /// The first message of an error.
    pub(super) error: Option<String>,
    /// Whether there are results that are not over sizes.
    pub(super) has_others: bool,
    /// Whether counts were left out since it is not sure which size they are of.
    pub(super) has_mixed: bool,
}

/// One run of openssl.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) command: Option<Command>,
    pub(super) engine: Option<String>,
    pub(super) engine_failed: Option<String>,
    /// An error of a library while an algorithm ran.
    pub(super) trouble: Option<String>,
    /// Label of the rows, such as the name of a board.
    pub(super) label: String,
    /// `OPENSSL_ia32cap`.
    pub(super) processor: Option<String>,
    pub(super) is_elapsed: bool,
    /// Whether it has lines before which openssl would have said that times are elapsed ones.
    pub(super) is_verbose: bool,
    /// Processes of `-multi`.
    pub(super) children: usize,
    /// What was counted, in the order of the text.
    pub(super) counts: Vec<Count>,
    /// What the table has: bytes per second by name and size.
    pub(super) rates: BTreeMap<(String, u64), f64>,
    /// Names in the order in which they come.
    pub(super) names: Vec<String>,
}

/// How often an algorithm ran.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Count {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Seconds until the alarm.
    pub(super) wanted: Option<f64>,
    pub(super) count: u64,
    /// Seconds that openssl divides by.
    pub(super) seconds: f64,
}

impl Run {
    /// Processes at once; 0 or 1 if it is one.
    pub(super) fn processes(&self) -> usize {
        let wanted = self.command.as_ref().map_or(0, |it| it.processes);
        match self.children {
            0 => wanted,
            started => started,
        }
    }

    fn has_results(&self) -> bool {
        !self.counts.is_empty() || !self.rates.is_empty()
    }

    /// What the text says about it before its results.
    fn without_results(&self) -> Self {
        Self {
            command: self.command.clone(),
            engine: self.engine.clone(),
            engine_failed: self.engine_failed.clone(),
            processor: self.processor.clone(),
            is_elapsed: self.is_elapsed,
            is_verbose: self.is_verbose,
            children: self.children,
            ..Self::default()
        }
    }

    /// Whether `table` is a table alone, and this run has its counts: standard error after standard
    /// output.
    fn has_counts_of(&self, table: &Self) -> bool {
        let agrees = |count: &Count| {
            let key = (count.name.clone(), count.bytes);
            let by_count = count.count as f64 * count.bytes as f64 / count.seconds;
            let rate = table.rates.get(&key);
            rate.is_some_and(|rate| (rate / by_count - 1.0).abs() < ALIKE)
        };
        let is_table = table.counts.is_empty() && self.rates.is_empty();
        is_table && table.rates.len() == self.counts.len() && self.counts.iter().all(agrees)
    }
}

/// Reads a text.
pub(super) fn read(text: &str) -> Found {
    let mut reader = Reader::default();
    // Terminals end lines with \r\n, and some lines with \r only.
    for line in text.split(['\n', '\r']) {
        // Who quotes an output in Markdown may have made numbers bold.
        reader.line(&line.replace("**", ""));
        if reader.kept > MOST {
            break;
        }
    }
    reader.next();
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Found,
    run: Run,
    /// Names and sizes that the run has counts of.
    counted: BTreeSet<(String, u64)>,
    /// Names that the run's table has.
    rated: BTreeSet<String>,
    /// What has begun and not ended: of several processes, several.
    begun: VecDeque<Begin>,
    /// Sizes of the table that goes on.
    sizes: Vec<u64>,
    /// Those of `-mr`.
    terse_sizes: Vec<u64>,
    /// The last command, and whether there were results of it.
    command: Option<Command>,
    has_results: bool,
    kept: usize,
}

impl Reader {
    fn line(&mut self, text: &str) {
        self.part(text);
        // An error that is printed while a run is counted stands behind its announcement.
        if let Some((_, rest)) = text.split_once(" size blocks: ") {
            if failure::is_trouble(rest.trim_start()) {
                let text = rest.trim().chars().take(200).collect();
                self.run.trouble.get_or_insert(text);
            }
        }
    }

    fn part(&mut self, text: &str) {
        let is_headless = self.sizes.is_empty() && self.run.children > 0;
        let columns = match is_headless {
            true => self.terse_sizes.len(),
            false => self.sizes.len(),
        };
        let line = lines::read(text, columns);
        let is_row = matches!(line, Some(Line::Rates(_)));
        if !is_row && !text.trim().is_empty() {
            // The table has ended.
            self.sizes.clear();
        }
        match line {
            None => {}
            Some(Line::Command(command)) => {
                self.next();
                self.has_results = false;
                self.command = Some(command);
                self.run = self.fresh();
            }
            Some(Line::Elapsed) => {
                self.next();
                self.keep_command(|command| command.is_elapsed);
                self.run.is_elapsed = true;
            }
            Some(Line::Engine(name)) => {
                self.next();
                self.engine_is_told(&name);
                self.run.engine = Some(name);
            }
            Some(Line::EngineFailed(name)) => {
                self.next();
                self.engine_is_told(&name);
                self.run.engine_failed = Some(name);
            }
            Some(Line::Processor(mask)) => self.run.processor = Some(mask),
            Some(Line::Child(number)) => {
                // Standard output may come after standard error, which has the counts.
                if self.run.children == 0 {
                    self.next();
                }
                self.run.children = self.run.children.max(number + 1);
            }
            Some(Line::Begin(begin, end)) => self.begin(begin, end),
            Some(Line::End(end)) => self.end(&end),
            Some(Line::Sizes(sizes, true)) => self.terse_sizes = sizes,
            Some(Line::Sizes(sizes, false)) => self.sizes = sizes,
            Some(Line::Rates(rates)) => self.rates(rates),
            Some(Line::Error(text)) => {
                self.found.error.get_or_insert(text);
            }
            // What an engine says while it is loaded is told by `Invalid engine`.
            Some(Line::Trouble(text)) if !self.begun.is_empty() => {
                self.run.trouble.get_or_insert(text);
            }
            Some(Line::Trouble(_)) => {}
            Some(Line::Other) => self.found.has_others = true,
        }
    }

    /// A run of the last command, or of none.
    fn fresh(&self) -> Run {
        Run {
            is_elapsed: self.command.as_ref().is_some_and(|it| it.is_elapsed),
            command: self.command.clone(),
            ..Run::default()
        }
    }

    /// Forgets a command that has results already, and of which what comes now is not: that of a
    /// further run is not in the text.
    fn keep_command(&mut self, is_of: impl Fn(&Command) -> bool) {
        if self.has_results && !self.command.as_ref().is_some_and(is_of) {
            self.command = None;
            self.run.command = None;
            self.run.is_elapsed = false;
        }
    }

    /// openssl says what became of an engine.
    fn engine_is_told(&mut self, name: &str) {
        self.keep_command(|command| command.engine.as_deref() == Some(name));
        let both = [&mut self.command, &mut self.run.command];
        for command in both.into_iter().flatten() {
            command.is_engine_told = true;
        }
    }

    fn begin(&mut self, begin: Begin, end: Option<End>) {
        let is_alike = |one: &Begin| one.name == begin.name && one.bytes == begin.bytes;
        if begin.is_terse && self.begun.iter().any(is_alike) {
            // Two that run at once: lines of processes whose standard output is elsewhere.
            self.run.children = self.run.children.max(2);
        }
        let key = (begin.name.clone(), begin.bytes);
        let is_again = self.run.children == 0 && self.counted.contains(&key);
        if is_again || self.rated.contains(&begin.name) {
            self.next();
        }
        self.run.is_verbose |= !begin.is_terse;
        if self.run.children == 0 {
            // One that never ended, as after Ctrl-C.
            self.begun.clear();
        }
        self.begun.push_back(begin);
        self.begun.truncate(AT_ONCE);
        if let Some(end) = end {
            self.end(&end);
        }
    }

    fn end(&mut self, end: &End) {
        // Those that run at once end in about the order in which they began.
        let Some(begin) = self.begun.pop_front() else {
            return;
        };
        if !self.name(&begin.name) {
            return;
        }
        self.kept += 1;
        self.counted.insert((begin.name.clone(), begin.bytes));
        self.run.counts.push(Count {
            name: begin.name,
            bytes: begin.bytes,
            wanted: begin.wanted,
            count: end.count,
            seconds: end.seconds,
        });
    }

    fn rates(&mut self, row: Rates) {
        if !self.rated.is_empty() && self.run.label != row.label {
            // Of another board or core, in one table: what was said before it holds for all of it.
            let whole = self.run.without_results();
            self.next();
            self.run = whole;
        }
        if self.rated.contains(&row.name) {
            // A further table, without the lines before it.
            self.next();
        }
        if !self.name(&row.name) {
            return;
        }
        self.rated.insert(row.name.clone());
        self.run.label.clone_from(&row.label);
        // The table of several processes has no head.
        let sizes = match row.is_terse || self.sizes.is_empty() {
            true => &self.terse_sizes,
            false => &self.sizes,
        };
        for (bytes, rate) in sizes.iter().zip(row.rates) {
            if let Some(rate) = rate {
                self.kept += 1;
                self.run.rates.insert((row.name.clone(), *bytes), rate);
            }
        }
    }

    /// Notes a name; whether there is room for it.
    fn name(&mut self, name: &str) -> bool {
        let is_known = self.run.names.iter().any(|one| one == name);
        if !is_known && self.run.names.len() < NAMES {
            self.run.names.push(name.to_owned());
            return true;
        }
        is_known
    }

    /// Begins the next run, if this one has results. What was said before results, such as the
    /// engine, is of the run whose results follow.
    fn next(&mut self) {
        if self.run.children > 0 && !self.begun.is_empty() {
            // Of lines that run at once and are cut short, it is not sure which end is whose.
            self.found.has_mixed |= !self.run.counts.is_empty();
            self.run.counts.clear();
        }
        if self.run.has_results() {
            self.has_results = true;
            let fresh = self.fresh();
            let mut run = std::mem::replace(&mut self.run, fresh);
            let before = self.found.runs.last();
            if before.is_some_and(|before| run.has_counts_of(before)) {
                let table = self.found.runs.pop();
                run.rates = table.map(|table| table.rates).unwrap_or_default();
            }
            self.found.runs.push(run);
            self.counted.clear();
            self.rated.clear();
            self.begun.clear();
        }
    }
}
