//! What restarts took, and what a warm one saved. Pure.

use brisk_measure::render::{Bar, BarPanel, clean, columns};
use brisk_measure::{Environment, Report, Series, Statistics, Summary, Unit};
use serde_json::{Value, json};

use super::record::{Barred, Outcome, Record, Times};

/// Schema of [`json`].
pub const SCHEMA: &str = "brisk.reboot.report/1";
/// Cold restarts that a warm one is compared with at most, the newest ones.
const BASELINE: usize = 20;

/// Seconds from the end of the services to multi-user.target: what differs between a warm restart
/// and a cold one.
fn from_down_to_up(record: &Record) -> Option<f64> {
    Times::between(record.times.down, record.times.up)
}

/// Times that the newest cold restarts took, as far as they are known.
fn cold_times(history: &[Record]) -> Vec<f64> {
    let cold = history
        .iter()
        .filter(|record| record.outcome == Outcome::Cold);
    let times: Vec<f64> = cold.filter_map(from_down_to_up).collect();
    tail(&times, BASELINE).to_vec()
}

/// The last elements, so many of them.
fn tail<T>(all: &[T], most: usize) -> &[T] {
    &all[all.len().saturating_sub(most)..]
}

/// Time that cold restarts took, from the end of the services to multi-user.target.
#[must_use]
pub fn baseline(history: &[Record]) -> Option<Statistics> {
    let series = Series::of_values("cold", Unit::Seconds, cold_times(history));
    Summary::of(&series).statistics
}

/// Seconds that a warm restart saved against the median of the cold ones; none if there was none, or
/// it was not warm.
#[must_use]
pub fn saved(record: &Record, history: &[Record]) -> Option<f64> {
    if record.outcome != Outcome::Warm {
        return None;
    }
    Some(baseline(history)?.median - from_down_to_up(record)?)
}

/// What came of a restart, a word or a few.
#[must_use]
pub fn outcome(record: &Record) -> String {
    match record.outcome {
        Outcome::Warm => "warm".to_owned(),
        Outcome::Cold => "cold".to_owned(),
        Outcome::ColdInstead(phase) => format!("cold: failed {}", phase.text()),
        Outcome::Interrupted(stage) => format!("interrupted {}", stage.text()),
    }
}

/// A restart in a line.
#[must_use]
pub fn line(record: &Record) -> String {
    let downtime = record.times.downtime();
    let downtime = downtime.map_or(String::new(), |time| format!(", {time:.1} s down"));
    let releases = format!("{} to {}", record.from.release, record.to.release);
    clean(&format!("{}: {releases}{downtime}", outcome(record))).into_owned()
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.1}"))
}

/// Time of day of a record, UTC.
fn when(record: &Record) -> String {
    let times = record.times;
    let at = times.down.or(times.handed).or(times.kernel);
    let at = at.and_then(|at| jiff::Timestamp::from_second(at as i64).ok());
    at.map_or_else(
        || "-".to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// The `most` last restarts of the history as a table, and the last one in full.
#[must_use]
pub fn text(history: &[Record], most: usize, barred: &[Barred]) -> String {
    let Some(last) = history.last() else {
        return "No restart is known yet. They are noted from the next one on if \
                brisk-reboot.service is enabled.\n"
            .to_owned();
    };
    let rows = tail(history, most).iter().map(|record| {
        vec![
            when(record),
            record.to.release.clone(),
            seconds(record.times.downtime()),
            seconds(record.times.phases()[2].1),
            seconds(saved(record, history)),
            outcome(record),
        ]
    });
    let head = [
        "when (UTC)",
        "kernel",
        "down, s",
        "firmware, s",
        "saved, s",
        "how",
    ];
    let mut text = columns(&head, rows);
    text.push_str("\nThe last restart\n");
    let mut row = |name: &str, value: &str| {
        text.push_str(&format!("{:<20}{}\n", format!("{name}:"), clean(value)));
    };
    row("how", &outcome(last));
    for reason in &last.reasons {
        row("why not warm", reason);
    }
    let is_kexec = match last.to.is_kexec {
        Some(true) => "kexec started the kernel (bootloader_type)",
        Some(false) => "a boot loader started the kernel (bootloader_type)",
        None => "the kernel does not say what started it",
    };
    row("started by", is_kexec);
    row(
        "kernel",
        &format!("{}, before {}", last.to.release, last.from.release),
    );
    for (name, time) in last.times.phases() {
        if let Some(time) = time {
            row(name, &format!("{time:.1} s"));
        }
    }
    if let Some(time) = last.times.downtime() {
        row("down", &format!("{time:.1} s"));
    }
    match (saved(last, history), baseline(history)) {
        (Some(time), Some(cold)) => {
            let interval = cold.median_interval.map_or(String::new(), |interval| {
                format!(" [{:.1}, {:.1}]", interval.low, interval.high)
            });
            row(
                "saved",
                &format!(
                    "{time:.1} s against {:.1}{interval} s, the median of {} cold restarts",
                    cold.median,
                    cold_times(history).len()
                ),
            );
        }
        _ if last.outcome == Outcome::Warm => row(
            "saved",
            "not known: no cold restart was noted yet (brisk reboot --cold makes one)",
        ),
        _ => {}
    }
    let lost = last.before.lost(&last.after);
    if last.by_brisk {
        match &lost[..] {
            [] => row("as before", "units, GPUs, network links and VMs"),
            lost => lost.iter().for_each(|what| row("not as before", what)),
        }
    }
    for barred in barred {
        let start = barred.short();
        row(
            "barred",
            &format!(
                "{} failed {}; brisk reboot allow {start} permits it again",
                barred.release,
                barred.phase.text()
            ),
        );
    }
    text
}

/// The `most` last restarts of the history, for programs.
#[must_use]
pub fn json(history: &[Record], most: usize, barred: &[Barred]) -> Value {
    let restarts = tail(history, most).iter().map(|record| {
        let phases = record.times.phases();
        let phases = phases
            .iter()
            .map(|(name, time)| ((*name).to_owned(), json!(time)));
        json!({
            "record": record,
            "phases": Value::Object(phases.collect()),
            "downtime": record.times.downtime(),
            "saved": saved(record, history),
            "lost": record.before.lost(&record.after),
        })
    });
    json!({
        "schema": SCHEMA,
        "restarts": restarts.collect::<Vec<_>>(),
        "cold": baseline(history),
        "barred": barred,
    })
}

/// The `most` last restarts of the history as a measurement, with its panel of bars: phases of each
/// restart.
#[must_use]
pub fn picture(history: &[Record], most: usize, created: &str) -> (Report, BarPanel) {
    let history = tail(history, most);
    let mut report = Report::new("reboot-history", created, Environment::default());
    for record in history {
        let name = match record.outcome {
            Outcome::Warm => "warm",
            Outcome::Cold => "cold",
            _ => continue,
        };
        if let Some(time) = record.times.downtime() {
            let series = report.series_mut(name, Unit::Seconds);
            let number = series.samples.len() as u32;
            series.push(brisk_measure::Sample::measured(number, time));
        }
    }
    let parts = [
        "shutdown",
        "firmware or kexec",
        "kernel and initrd",
        "userspace",
    ];
    let bars = history.iter().rev().filter_map(|record| {
        // There is no room for more beside the bars.
        let word = match record.outcome {
            Outcome::Warm => "warm",
            Outcome::Cold => "cold",
            Outcome::ColdInstead(_) => "failed",
            Outcome::Interrupted(_) => "interrupted",
        };
        record.times.downtime()?;
        let phases = record.times.phases();
        let values = phases[1..].iter().map(|(_, time)| time.unwrap_or(0.0));
        Some(Bar {
            name: format!("{} {word}", when(record)),
            values: values.collect(),
            interval: None,
        })
    });
    let bars = bars.take(BASELINE);
    let panel = BarPanel {
        title: "Downtime of restarts".to_owned(),
        unit: Unit::Seconds,
        parts: parts.map(str::to_owned).to_vec(),
        bars: bars.collect(),
        remark: "From asking systemd to multi-user.target; the newest first. Whole seconds of the \
                 hardware clock separate the phases before and after the kernel's start."
            .to_owned(),
    };
    (report, panel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::restart::{Boot, Census, Phase};

    fn record(outcome: Outcome, down: f64, up: f64) -> Record {
        let boot = |id: &str, is_kexec| Boot {
            id: id.to_owned(),
            release: "6.12.1".to_owned(),
            is_kexec: Some(is_kexec),
        };
        Record {
            id: "1".to_owned(),
            by_brisk: true,
            to: boot("b", outcome == Outcome::Warm),
            outcome,
            reasons: Vec::new(),
            from: boot("a", false),
            times: Times {
                begun: Some(down - 5.0),
                handed: Some(down - 2.0),
                down: Some(down),
                kernel: Some(up - 10.0),
                userspace: Some(up - 6.0),
                up: Some(up),
            },
            combination: None,
            before: Census::default(),
            after: Census::default(),
        }
    }

    #[test]
    fn a_warm_restart_is_compared_with_cold_ones() {
        let cold = [
            record(Outcome::Cold, 1000.0, 1100.0),
            record(Outcome::Cold, 2000.0, 2090.0),
            record(Outcome::Cold, 3000.0, 3110.0),
        ];
        let warm = record(Outcome::Warm, 4000.0, 4012.0);
        let failed = record(Outcome::ColdInstead(Phase::Kernel), 5000.0, 5500.0);
        let history = [&cold[..], &[warm.clone(), failed.clone()]].concat();
        assert_eq!(saved(&warm, &history), Some(88.0));
        assert_eq!(saved(&failed, &history), None);
        assert_eq!(saved(&warm, std::slice::from_ref(&warm)), None);
        assert_eq!(warm.times.downtime(), Some(14.0));
        let phases = warm.times.phases().map(|(_, time)| time.unwrap());
        assert_eq!(phases, [3.0, 2.0, 2.0, 4.0, 6.0]);
        let text = text(&history[..4], 20, &[]);
        insta::assert_snapshot!(text, @r"
        when (UTC)        kernel  down, s  firmware, s  saved, s  how
        1970-01-01 00:16  6.12.1  102.0    90.0         -         cold
        1970-01-01 00:33  6.12.1  92.0     80.0         -         cold
        1970-01-01 00:50  6.12.1  112.0    100.0        -         cold
        1970-01-01 01:06  6.12.1  14.0     2.0          88.0      warm

        The last restart
        how:                warm
        started by:         kexec started the kernel (bootloader_type)
        kernel:             6.12.1, before 6.12.1
        preparation:        3.0 s
        shutdown:           2.0 s
        firmware or kexec:  2.0 s
        kernel and initrd:  4.0 s
        userspace:          6.0 s
        down:               14.0 s
        saved:              88.0 s against 100.0 [90.0, 110.0] s, the median of 3 cold restarts
        as before:          units, GPUs, network links and VMs
        ");
    }

    #[test]
    fn what_is_not_known_is_no_zero() {
        let mut warm = record(Outcome::Warm, 4000.0, 4012.0);
        warm.times.down = None;
        warm.times.handed = None;
        assert_eq!(warm.times.downtime(), None);
        assert_eq!(
            saved(&warm, &[record(Outcome::Cold, 0.0, 60.0), warm.clone()]),
            None
        );
        let text = text(&[warm], 20, &[]);
        assert!(text.contains("saved:              not known"), "{text}");
    }

    #[test]
    fn what_is_not_shown_is_compared_with_too() {
        let mut lost = record(Outcome::Cold, 500.0, 560.0);
        lost.times.down = None;
        let history = [
            lost,
            record(Outcome::Cold, 1000.0, 1100.0),
            record(Outcome::Warm, 4000.0, 4012.0),
        ];
        let text = text(&history, 1, &[]);
        let lines = text.lines().filter(|line| line.starts_with("1970"));
        assert_eq!(lines.count(), 1, "{text}");
        let saved = "saved:              88.0 s against 100.0 s, the median of 1 cold restarts";
        assert!(text.contains(saved), "{text}");
        let json = json(&history, 1, &[]);
        let restarts = json["restarts"].as_array().unwrap();
        assert_eq!((restarts.len(), &restarts[0]["saved"]), (1, &json!(88.0)));
        assert_eq!(picture(&history, 1, "").1.bars.len(), 1);
    }

    #[test]
    fn a_clock_that_was_set_back_tells_no_time() {
        // As a machine whose hardware clock has no battery.
        let mut cold = record(Outcome::Cold, 1000.0, 1100.0);
        cold.times.kernel = Some(10.0);
        cold.times.userspace = Some(14.0);
        cold.times.up = Some(20.0);
        assert_eq!(cold.times.downtime(), None);
        let phases = cold.times.phases().map(|(_, time)| time);
        assert_eq!(phases, [Some(3.0), Some(2.0), None, Some(4.0), Some(6.0)]);
        let warm = record(Outcome::Warm, 4000.0, 4012.0);
        assert_eq!(saved(&warm, &[cold, warm.clone()]), None);
        // As one whose clock was wrong before it went down.
        let mut early = record(Outcome::Cold, 1000.0, 1.8e9);
        assert_eq!(early.times.downtime(), None);
        early.times.up = Some(f64::MAX);
        assert_eq!(saved(&warm, &[early, warm.clone()]), None);
        // The hardware clock has whole seconds.
        let mut rounded = record(Outcome::Warm, 4000.9, 4012.0);
        rounded.times.kernel = Some(4000.1);
        assert_eq!(rounded.times.phases()[2].1, Some(0.0));
    }

    #[test]
    fn pictures_have_a_bar_for_each_restart() {
        let mut unknown = record(Outcome::Cold, 500.0, 600.0);
        unknown.times = Times::default();
        let history = [
            unknown,
            record(Outcome::Cold, 1000.0, 1100.0),
            record(Outcome::Warm, 4000.0, 4012.0),
            record(Outcome::ColdInstead(Phase::Kernel), 5000.0, 5012.0),
        ];
        let (report, panel) = picture(&history, 20, "2026-11-26T00:00:00Z");
        let values: Vec<_> = panel.bars.iter().map(|bar| bar.values.clone()).collect();
        let short = [2.0, 2.0, 4.0, 6.0];
        assert_eq!(values, [short, short, [2.0, 90.0, 4.0, 6.0]]);
        assert_eq!(panel.bars[0].name, "1970-01-01 01:23 failed");
        assert_eq!(report.series("warm").unwrap().values(), [14.0]);
        assert_eq!(report.series("cold").unwrap().values(), [102.0]);
    }
}
