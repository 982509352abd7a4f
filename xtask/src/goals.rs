//! Ratios that are to be reached.

use brisk_measure::{CompareOptions, Comparison, Report};

/// How much of the base the subject may take, or must have.
pub(crate) struct Goal {
    pub(crate) subject: &'static str,
    pub(crate) base: &'static str,
    pub(crate) bound: Bound,
}

/// On which side of it a ratio is right.
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Compares what the goals are about, whose series have the names that `named` gives them, and says
/// each ratio beside its bound. What was not measured is passed over.
pub(crate) fn judge(report: &mut Report, goals: &[Goal], named: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for goal in goals {
        let of = |name: &str| {
            let name = named(name);
            report.series.iter().find(|series| series.name == name)
        };
        let (Some(base), Some(subject)) = (of(goal.base), of(goal.subject)) else {
            continue;
        };
        let comparison = Comparison::of(base, subject, &CompareOptions::default());
        if let Some(ratio) = comparison.ratio {
            let interval = comparison.ratio_interval;
            let interval =
                interval.map_or(String::new(), |i| format!(" [{:.4}, {:.4}]", i.low, i.high));
            let (bound, reached) = match goal.bound {
                Bound::AtMost(most) => (format!("at most {most:.4}"), ratio <= most),
                Bound::AtLeast(least) => (format!("at least {least:.4}"), ratio >= least),
            };
            let verdict = if reached { "reached" } else { "missed" };
            let (subject, base) = (named(goal.subject), named(goal.base));
            text += &format!("{subject} / {base} = {ratio:.4}{interval}, {bound}: {verdict}\n");
        }
        report.comparisons.push(comparison);
    }
    text
}
