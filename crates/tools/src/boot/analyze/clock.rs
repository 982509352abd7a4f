//! Conversion of times in the kernel's log to the clock of the observation.
//!
//! There are three clocks: the observation's, that of printk (`local_clock()`) and the guest's
//! `CLOCK_MONOTONIC`, which init reads. The last two have the same rate and different starts. That
//! of printk is 0 until the kernel has found a clock, and while the kernel does not trust its time
//! stamp counter, the clock is never more than a tick ahead of the timer interrupt, so that it
//! stands still where interrupts are off for long (`kernel/sched/clock.c`). A record therefore is
//! later than its time says, by a lag that grows and never shrinks.

use std::collections::HashMap;

use crate::boot::Observation;

use super::calls::{Call, Step, is_of_init};
use super::lines::{self, Line, Record};

/// Number of records with one time in a row from which on the clock stood still.
const STANDING: usize = 5;

/// Largest time in ticks, 36 years.
pub(super) const LATEST: u64 = 1 << 60;

/// A record of the log, with its time on the observation's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) at: u64,
    pub(super) text: String,
}

/// Result of the conversion.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The log in its own order.
    pub(super) records: Vec<Placed>,
    /// Offset to add to init's timestamps.
    pub(super) stamp_offset: Option<i64>,
}

/// Converts the log, or if there is none, the part of it that reached the console.
pub(super) fn place(observation: &Observation, console: &[Line], notes: &mut Vec<String>) -> Seen {
    let shown: Vec<(u64, Record)> = console
        .iter()
        .filter_map(|line| Some((line.at, lines::printk(&line.text)?)))
        .collect();
    let mut records = lines::records(&observation.log);
    if records.is_empty() {
        records = shown.iter().map(|(_, record)| record.clone()).collect();
    }
    let arrivals = arrivals(&records, &shown);
    let ahead = stamps_ahead(&records, observation);
    // A record of time 0 says nothing about the clock.
    let lag = |(record, arrival): (&Record, &Option<u64>)| match arrival {
        Some(at) if record.micros > 0 => Some(*at as i64 - nanos(record.micros)),
        _ => None,
    };
    let lags: Vec<Option<i64>> = records.iter().zip(&arrivals).map(lag).collect();
    let tied = observation
        .guest_offset
        .zip(ahead)
        .map(|(offset, ahead)| offset + ahead);
    let offsets = if lags.iter().any(Option::is_some) {
        by_console(&lags, tied)
    } else {
        by_ends(&records, observation, tied, notes)
    };
    // With the log and the stamps tied to each other, nothing of one gets before what it followed
    // in the other.
    let stamp_offset = match (offsets.last(), ahead) {
        (Some(last), Some(ahead)) => Some(last - ahead),
        (last, _) => observation.guest_offset.or(last.copied()),
    };
    let end = observation.moment("QEMU ended").unwrap_or(u64::MAX);
    let entry = observation.moment("kernel entry").unwrap_or(0);
    let placed = records.into_iter().zip(&arrivals).zip(&offsets);
    let records = placed.map(|((record, arrival), offset)| {
        let by_clock = nanos(record.micros).saturating_add(*offset);
        let at = match arrival {
            Some(at) if record.micros == 0 => *at,
            None if record.micros == 0 => entry,
            _ => u64::try_from(by_clock).unwrap_or(0),
        };
        Placed {
            at: at.min(end),
            text: record.text,
        }
    });
    Seen {
        records: in_order(records.collect()),
        stamp_offset,
    }
}

fn nanos(micros: u64) -> i64 {
    micros.saturating_mul(1000).min(LATEST) as i64
}

/// Keeps times in order: records of time 0 are not after the first that has a time, and no other
/// record is before them.
fn in_order(mut records: Vec<Placed>) -> Vec<Placed> {
    let mut latest = u64::MAX;
    for record in records.iter_mut().rev() {
        latest = latest.min(record.at);
        record.at = latest;
    }
    records
}

/// Time at which each record reached the console, if it did.
fn arrivals(records: &[Record], shown: &[(u64, Record)]) -> Vec<Option<u64>> {
    let mut waiting: HashMap<(u64, &str), Vec<u64>> = HashMap::new();
    for (at, record) in shown.iter().rev() {
        let key = (record.micros, record.text.trim());
        waiting.entry(key).or_default().push(*at);
    }
    records
        .iter()
        .map(|record| waiting.get_mut(&(record.micros, record.text.trim()))?.pop())
        .collect()
}

/// Lags by the console: a line arrives after it was logged, and lags only grow, so that a record's
/// arrival limits the lags of all records before it. Between records that arrived the last one
/// counts. The limit by init's timestamps holds for all.
fn by_console(lags: &[Option<i64>], tied: Option<i64>) -> Vec<i64> {
    let mut least = tied.unwrap_or(i64::MAX);
    let mut offsets: Vec<Option<i64>> = lags.to_vec();
    for lag in offsets.iter_mut().rev().flatten() {
        least = least.min(*lag);
        *lag = least;
    }
    let mut current = offsets.iter().flatten().next().copied().unwrap_or(0);
    offsets
        .into_iter()
        .map(|offset| {
            current = offset.unwrap_or(current);
            current
        })
        .collect()
}

/// Lags without a console: the clocks are tied by init's timestamps; if the clock stood still,
/// records before that are tied to the kernel's entry.
fn by_ends(
    records: &[Record],
    observation: &Observation,
    tied: Option<i64>,
    notes: &mut Vec<String>,
) -> Vec<i64> {
    let entry = observation.moment("kernel entry").map(|at| at as i64);
    let Some(end) = tied.or(observation.guest_offset).or(entry) else {
        if !records.is_empty() {
            notes.push("Nothing ties the guest's clock to the host's.".to_owned());
        }
        return vec![0; records.len()];
    };
    if observation.guest_offset.is_none() {
        notes.push(
            "Nothing but the kernel's entry ties the guest's clock to the host's.".to_owned(),
        );
    }
    match (standing(records), entry) {
        (Some((first, last)), Some(entry)) if entry < end => {
            notes.push(format!(
                "The kernel's clock stood still between “{}” and “{}”, where {} are missing in \
                 it. What happened in between is timed only if the console is shown.",
                records[first].text,
                records[last].text,
                observation.clock.format(end - entry),
            ));
            let before = std::iter::repeat_n(entry, last + 1);
            before
                .chain(std::iter::repeat(end))
                .take(records.len())
                .collect()
        }
        _ => vec![end; records.len()],
    }
}

/// The first and last record of the first run with one time, before the kernel has more than one
/// thread: later the timer runs.
fn standing(records: &[Record]) -> Option<(usize, usize)> {
    let threads =
        |record: &Record| matches!(Call::parse(&record.text), Some(Call::Begin { task: 1, .. }));
    let end = records.iter().position(threads).unwrap_or(records.len());
    let mut first = 0;
    for place in 1..=end {
        if place < end && records[place].micros == records[first].micros {
            continue;
        }
        if records[first].micros > 0 && place - first >= STANDING {
            return Some((first, place - 1));
        }
        first = place;
    }
    None
}

/// Offset of init's clock from printk's. Init logs right after its timestamps, which is an upper
/// bound, and right before them, which is a lower bound, as is the kernel's message that it runs
/// init.
fn stamps_ahead(records: &[Record], observation: &Observation) -> Option<i64> {
    let stamp = |name: &str| observation.stamp(name).map(|at| at as i64);
    let steps: Vec<(i64, Step<'_>)> = records
        .iter()
        .filter_map(|record| Some((nanos(record.micros), Step::parse(&record.text)?)))
        .collect();
    let first = |wanted: &dyn Fn(&Step<'_>) -> bool| steps.iter().find(|(_, step)| wanted(step));
    let last = |wanted: &dyn Fn(&Step<'_>) -> bool| steps.iter().rfind(|(_, step)| wanted(step));
    let command = |step: &Step<'_>| step.what == "command";
    let module = |step: &Step<'_>| step.what.starts_with("module ");
    let setup = |step: &Step<'_>| !command(step) && !module(step) && step.what != "release";
    let after = [
        ("init started", first(&module)),
        ("channel open", first(&setup)),
        ("root ready", first(&|step| command(step) && step.begins)),
        ("command ended", last(&|step| command(step) && !step.begins)),
    ];
    let before = [
        ("modules loaded", last(&module)),
        ("root ready", last(&setup)),
    ];
    let run = records
        .iter()
        .take_while(|record| !is_of_init(&record.text))
        .filter(|record| record.text.starts_with("Run ") && record.text.ends_with("init process"))
        .last()
        .and_then(|record| Some(stamp("init started")? - nanos(record.micros)));
    let difference =
        |(name, found): (&str, Option<&(i64, Step<'_>)>)| Some(stamp(name)? - found?.0);
    // The command can write such lines too; they cannot make init start before it is run.
    let possible = |difference: &i64| run.is_none_or(|most| *difference <= most);
    let least = after
        .into_iter()
        .filter_map(difference)
        .filter(possible)
        .max();
    least.or_else(|| before.into_iter().filter_map(difference).chain(run).min())
}
