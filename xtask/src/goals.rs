//! Goals of the benchmarks.

use brisk_measure::{CompareOptions, Comparison, Report, Series, Summary, Unit};

/// How much of the base the subject may take, or must have; without a base, how much at all.
pub(crate) struct Goal {
    pub(crate) subject: &'static str,
    pub(crate) base: Option<&'static str>,
    pub(crate) bound: Bound,
}

/// What one series may take of another, or must have.
pub(crate) const fn ratio(subject: &'static str, base: &'static str, bound: Bound) -> Goal {
    let base = Some(base);
    Goal {
        subject,
        base,
        bound,
    }
}

/// What a series may take, or must have.
pub(crate) const fn absolute(subject: &'static str, bound: Bound) -> Goal {
    let base = None;
    Goal {
        subject,
        base,
        bound,
    }
}

/// On which side of it a ratio, or a median in the unit of its series, is right.
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// As it is printed, with whether it is reached.
    fn verdict(&self, value: f64, say: impl Fn(f64) -> String) -> String {
        let (word, bound, reached) = match *self {
            Self::AtMost(most) => ("most", most, value <= most),
            Self::AtLeast(least) => ("least", least, value >= least),
        };
        let verdict = if reached { "reached" } else { "missed" };
        format!("at {word} {}: {verdict}", say(bound))
    }
}

/// Compares what the goals are about, whose series have the names that `named` gives them, and says
/// each figure beside its bound. What was not measured is passed over.
pub(crate) fn judge(report: &mut Report, goals: &[Goal], named: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for goal in goals {
        let of = |name: &str| {
            let name = named(name);
            report.series.iter().find(|series| series.name == name)
        };
        let Some(subject) = of(goal.subject) else {
            continue;
        };
        let Some(base) = goal.base else {
            text += &median(subject, &goal.bound);
            continue;
        };
        let Some(base) = of(base) else {
            continue;
        };
        let comparison = Comparison::of(base, subject, &CompareOptions::default());
        if let Some(ratio) = comparison.ratio {
            let interval = comparison.ratio_interval;
            let interval =
                interval.map_or(String::new(), |i| format!(" [{:.4}, {:.4}]", i.low, i.high));
            let verdict = goal.bound.verdict(ratio, |bound| format!("{bound:.4}"));
            let (subject, base) = (&subject.name, &base.name);
            text += &format!("{subject} / {base} = {ratio:.4}{interval}, {verdict}\n");
        }
        report.comparisons.push(comparison);
    }
    text
}

/// The median beside its bound.
fn median(subject: &Series, bound: &Bound) -> String {
    let Some(found) = Summary::of(subject).statistics else {
        return String::new();
    };
    let say = |value| text_of(subject.unit, value);
    let interval = found.median_interval;
    let interval = interval.map_or(String::new(), |i| {
        format!(" [{}, {}]", say(i.low), say(i.high))
    });
    let verdict = bound.verdict(found.median, say);
    format!(
        "{} = {}{interval}, {verdict}\n",
        subject.name,
        say(found.median)
    )
}

/// Rates as goals have them, in powers of ten.
fn text_of(unit: Unit, value: f64) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{:.1} MB/s", value / 1e6),
        Unit::Bytes => format!("{:.1} MB", value / 1e6),
        _ => unit.format(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_medians_are_held_against_their_bounds() {
        let goals = [
            ratio("new", "old", Bound::AtLeast(2.0)),
            ratio("new", "absent", Bound::AtLeast(2.0)),
            absolute("new", Bound::AtLeast(250e6)),
            absolute("wait", Bound::AtMost(0.15)),
        ];
        let mut report = Report::new("bench", "2026-11-21T00:00:00Z", Default::default());
        for (name, unit, values) in [
            ("at: old", Unit::BytesPerSecond, [100e6, 100e6]),
            ("at: new", Unit::BytesPerSecond, [240e6, 240e6]),
            ("at: wait", Unit::Seconds, [0.125, 0.125]),
        ] {
            report.series.push(Series::of_values(name, unit, values));
        }
        let text = judge(&mut report, &goals, |name| format!("at: {name}"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("at: new / at: old = 2.4"), "{text}");
        assert!(lines[0].ends_with("at least 2.0000: reached"), "{text}");
        assert!(lines[1].starts_with("at: new = 240.0 MB/s"), "{text}");
        assert!(lines[1].ends_with("at least 250.0 MB/s: missed"), "{text}");
        assert!(lines[2].starts_with("at: wait = 125.0 ms"), "{text}");
        assert!(lines[2].ends_with("at most 150.0 ms: reached"), "{text}");
    }
}
