//! Analysis of a boot: from an observation to a timeline. Pure.
//!
//! [`LogPatterns`] say which lines of firmware and kernel begin or end phases; they are data. A
//! line that is missing in a boot makes the phases around it larger and leaves a note; nothing
//! aborts an analysis.

mod calls;
mod clock;
mod counted;
mod lines;
mod log_patterns;
mod phases;
mod report;
mod stretches;
mod summary;

#[cfg(test)]
mod tests;

use brisk_measure::{Clock, Timeline};

pub(crate) use counted::counted;
pub use log_patterns::{LogPatterns, LogPatternsError};
pub use report::report;
pub use summary::{Row, Summary, summarize};

use crate::boot::Observation;
use clock::{LATEST, Placed};

/// One boot, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// From the execution of QEMU to its end, on the clock of the observation.
    pub timeline: Timeline,
    /// Weaknesses of the analysis, for people.
    pub notes: Vec<String>,
}

/// Most events that show the kernel's messages around its longest silences.
const SILENCES: usize = 12;
/// Least length of a silence, as a part of the boot: 1 / `SILENCE_SHARE`.
const SILENCE_SHARE: u64 = 100;
/// Characters of a message in an event.
const MESSAGE: usize = 60;

/// Analyses a boot.
#[must_use]
pub fn analyze(observation: &Observation, markers: &LogPatterns) -> Analysis {
    let observation = &bounded(observation);
    let mut notes = Vec::new();
    let mut timeline = Timeline::new(observation.clock);
    let console = lines::lines(&observation.console);
    let firmware = lines::lines(&observation.firmware);
    let seen = clock::place(observation, &console, &mut notes);
    if let (Some(offset), false) = (
        observation.guest_offset,
        observation.clock == Clock::GuestBoot,
    ) {
        timeline.offsets.insert(Clock::GuestBoot, offset);
    }
    let frame = phases::Frame::of(observation, &console, &firmware, &seen, &mut notes);
    frame.draw(observation, &mut timeline);
    let version = kernel_version(&seen.records, &console);
    if let Some(span) = frame.firmware {
        let kind = firmware_kind(&firmware);
        let lines = firmware.iter().map(|line| (line.at, line.text.as_str()));
        let found = markers.find(
            kind,
            version,
            lines.filter(|(at, _)| *at < span.1),
            &mut notes,
        );
        stretches::draw(&found, span, &mut timeline);
        let lines = console.iter().map(|line| (line.at, line.text.as_str()));
        let lines = lines.filter(|(at, _)| *at < span.1);
        let found = markers.find(
            log_patterns::Source::Console,
            version,
            lines,
            &mut Vec::new(),
        );
        stretches::draw(&found, span, &mut timeline);
    }
    if let Some(span) = frame.kernel {
        let lines = seen
            .records
            .iter()
            .take_while(|record| !calls::is_of_init(&record.text))
            .map(|record| (record.at, record.text.as_str()));
        let found = markers.find(log_patterns::Source::Kernel, version, lines, &mut notes);
        stretches::draw(&found, span, &mut timeline);
    }
    calls::draw(
        &seen.records,
        &frame,
        observation.clock,
        &mut timeline,
        &mut notes,
    );
    silences(&seen.records, &mut timeline);
    Analysis { timeline, notes }
}

/// Limits all times so that they can be added up. Those of the guest are hostile.
fn bounded(observation: &Observation) -> Observation {
    let mut bounded = observation.clone();
    let console = bounded.console.iter_mut().chain(&mut bounded.firmware);
    let moments = bounded.moments.iter_mut().chain(&mut bounded.qmp);
    let times = console
        .map(|piece| &mut piece.at)
        .chain(moments.chain(&mut bounded.stamps).map(|it| &mut it.at));
    for at in times {
        *at = (*at).min(LATEST);
    }
    let latest = LATEST as i64;
    bounded.guest_offset = bounded.guest_offset.map(|it| it.clamp(-latest, latest));
    bounded
}

/// The kernel's version, from the log or the console.
fn kernel_version(records: &[Placed], console: &[lines::Line]) -> Option<log_patterns::Version> {
    let from_log = records.iter().map(|record| record.text.as_str());
    let from_console = console.iter().map(|line| lines::message(&line.text));
    from_log
        .chain(from_console)
        .find_map(|text| text.strip_prefix("Linux version "))
        .and_then(log_patterns::Version::of_release)
}

fn firmware_kind(lines: &[lines::Line]) -> log_patterns::Source {
    let qboot = lines.iter().any(|line| line.text.contains("qboot"));
    if qboot {
        log_patterns::Source::Qboot
    } else {
        log_patterns::Source::Seabios
    }
}

/// Adds the kernel's messages before and after long silences that nothing explains.
fn silences(records: &[Placed], timeline: &mut Timeline) {
    let Some(whole) = timeline.span() else { return };
    let least = whole.duration() / SILENCE_SHARE as i64;
    let mut found = Vec::new();
    for gap in timeline.gaps() {
        if gap.span.duration() < least {
            continue;
        }
        let (start, end) = (gap.span.start, gap.span.end);
        for pair in records.windows(2) {
            let (from, to) = (pair[0].at as i64, pair[1].at as i64);
            if to - from >= least && from < end && to > start {
                found.push((to - from, pair[0].clone()));
                found.push((to - from, pair[1].clone()));
            }
        }
    }
    found.sort_by_key(|(silence, _)| std::cmp::Reverse(*silence));
    found.truncate(SILENCES);
    let clock = timeline.clock;
    let mut records: Vec<Placed> = found.into_iter().map(|(_, record)| record).collect();
    records.sort_by(|a, b| (a.at, &a.text).cmp(&(b.at, &b.text)));
    records.dedup();
    for record in records {
        let text: String = record.text.chars().take(MESSAGE).collect();
        timeline.event(format!("“{text}”"), record.at, clock);
    }
}
