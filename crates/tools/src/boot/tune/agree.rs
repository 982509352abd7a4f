//! Comparison of two ledgers: whether their verdicts agree. Pure.

use super::{Entry, Verdict};

/// Optimisations that change less than this, relative, may come out differently.
pub const ABOVE: f64 = 0.02;

/// An optimisation in two ledgers.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Its name.
    pub optimisation: String,
    /// Verdicts; `None` where it was not tried.
    pub verdicts: [Option<Verdict>; 2],
    /// Whether it changes the boot by more than [`ABOVE`], by either ledger.
    pub above: bool,
}

impl Agreement {
    /// Whether both verdicts are equal.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdicts[0] == self.verdicts[1]
    }
}

/// Every optimisation of either ledger, in their order.
#[must_use]
pub fn agree(first: &[Entry], second: &[Entry]) -> Vec<Agreement> {
    let find = |ledger: &[Entry], name: &str| {
        let found = ledger.iter().find(|entry| entry.optimisation == name);
        found.map(|entry| (entry.verdict, is_above(entry)))
    };
    let only_second = second
        .iter()
        .filter(|entry| find(first, &entry.optimisation).is_none());
    let all = first.iter().chain(only_second);
    all.map(|entry| {
        let both = [
            find(first, &entry.optimisation),
            find(second, &entry.optimisation),
        ];
        Agreement {
            optimisation: entry.optimisation.clone(),
            verdicts: both.map(|found| found.map(|(verdict, _)| verdict)),
            above: both.iter().flatten().any(|(_, above)| *above),
        }
    })
    .collect()
}

/// Whether its instructions change by that much, or its time does beyond chance.
fn is_above(entry: &Entry) -> bool {
    let counted = entry
        .instructions
        .is_some_and(|ratio| (ratio - 1.0).abs() > ABOVE);
    let timed = entry
        .ratio
        .zip(entry.interval)
        .is_some_and(|(ratio, interval)| {
            (ratio - 1.0).abs() > ABOVE && (interval.high < 1.0 || interval.low > 1.0)
        });
    counted || timed
}

#[cfg(test)]
mod tests {
    use brisk_measure::Interval;

    use super::*;

    fn entry(optimisation: &str, verdict: Verdict, ratio: f64, counted: Option<f64>) -> Entry {
        Entry {
            optimisation: optimisation.to_owned(),
            what: String::new(),
            verdict,
            ratio: Some(ratio),
            interval: Some(Interval {
                low: ratio - 0.04,
                high: ratio + 0.04,
            }),
            instructions: counted,
            saving: None,
            pairs: Vec::new(),
            reason: String::new(),
            trades: None,
        }
    }

    #[test]
    fn only_what_is_beyond_chance_and_two_percent_has_to_agree() {
        let first = [
            entry("large", Verdict::Kept, 0.9, None),
            entry("noise", Verdict::NoGain, 1.03, Some(1.0)),
            entry("counted", Verdict::Kept, 0.99, Some(0.97)),
            entry("gone", Verdict::NoGain, 1.0, None),
        ];
        let second = [
            entry("large", Verdict::NoGain, 0.97, None),
            entry("noise", Verdict::Slower, 1.03, Some(1.001)),
            entry("counted", Verdict::Kept, 1.01, Some(0.97)),
            entry("new", Verdict::Refused, 1.0, None),
        ];
        let all = agree(&first, &second);
        let shown: Vec<_> = all
            .iter()
            .map(|a| (a.optimisation.as_str(), a.above, a.holds()))
            .collect();
        assert_eq!(
            shown,
            [
                ("large", true, false),
                ("noise", false, false),
                ("counted", true, true),
                ("gone", false, false),
                ("new", false, false),
            ]
        );
        assert_eq!(all[4].verdicts, [None, Some(Verdict::Refused)]);
    }
}
