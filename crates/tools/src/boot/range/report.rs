//! Output of a range: lines, a report, a conclusion.

use brisk_measure::{
    Change, Comparison, Environment, History, Point, Reading, Report, Verdict, Warning, render,
};

use super::engine::Engine;
use super::plan::Answer;
use super::state::{self, Outcome, Record};
use super::{Goal, Mode};
use crate::boot::Difference;

/// Kind of the report.
const KIND: &str = "boot range";
/// How many lines explain a change.
const EXPLAINED: usize = 12;

impl Engine {
    /// Formats a commit as a line of a table.
    pub(super) fn row(&self, place: usize) -> String {
        let record = &self.state.records[place];
        let compared = record.compared.as_ref().filter(|compared| {
            // A bisection compares its ends, far from one another.
            !matches!(self.options.goal, Goal::Bisect) || compared.with + 1 == place
        });
        let comparison = compared.map(|compared| &compared.comparison);
        render::history_row(&self.point(place), record.series(), comparison)
    }

    fn point(&self, place: usize) -> Point {
        let record = &self.state.records[place];
        let reading = match &record.outcome {
            None => Reading::NotTried,
            Some(Outcome::NotBuilt { reason }) => Reading::NotBuilt {
                reason: reason.clone(),
            },
            Some(Outcome::NotBooted { reason }) => Reading::NotBooted {
                reason: reason.clone(),
            },
            Some(Outcome::Booted { series }) => Reading::Measured {
                series: series.name.clone(),
            },
        };
        Point {
            id: record.commit.sha.clone(),
            subject: record.commit.subject.clone(),
            date: record.commit.date.clone(),
            reading,
        }
    }

    /// Report of the range. `created` is the time in RFC 3339.
    #[must_use]
    pub fn report(&self, created: impl Into<String>, environment: Environment) -> Report {
        let mut report = Report::new(KIND, created, environment);
        let records = &self.state.records;
        report.series = records.iter().filter_map(|r| r.series()).cloned().collect();
        let compared = records.iter().filter_map(|r| r.compared.as_ref());
        report.comparisons = compared.map(|c| c.comparison.clone()).collect();
        report.history = Some(History {
            points: (0..records.len()).map(|place| self.point(place)).collect(),
            changes: self.changes(),
        });
        report.notes.extend(self.conclusion());
        let built = |record: &Record| !matches!(record.outcome, Some(Outcome::NotBuilt { .. }));
        if !records.iter().all(built) {
            let logs = self.dir.join("logs");
            report.notes.push(format!(
                "The logs of commits that were not built are in {}.",
                logs.display()
            ));
        }
        // How many runs a commit gets is for the tests to say, and one is enough for an exact count:
        // warnings of few runs would be about every commit.
        if self.options.mode != Mode::Deterministic {
            report.warnings = Warning::of_environment(&report.environment);
        }
        report
    }

    /// Result of a bisection, or all changes between neighbours.
    fn changes(&self) -> Vec<Change> {
        if self.options.goal == Goal::Bisect {
            let Some(Answer::Changed { before, after, .. }) = self.answer() else {
                return Vec::new();
            };
            return self.change(before, after).into_iter().collect();
        }
        let records = self.state.records.iter().enumerate();
        let changed = records.filter_map(|(place, record)| {
            let compared = record.compared.as_ref()?;
            beyond_chance(&compared.comparison).then_some((compared.with, place))
        });
        changed
            .filter_map(|(before, after)| self.change(before, after))
            .collect()
    }

    fn change(&self, before: usize, after: usize) -> Option<Change> {
        let compared = self.state.records[after].compared.as_ref()?;
        let comparison = &compared.comparison;
        Some(Change {
            before,
            after,
            ratio: comparison.ratio?,
            p_value: comparison.p_value.map(|p| p.value),
            explanation: self.explain(before, after),
        })
    }

    /// Activities that changed from one commit to another, largest first; empty if their boots were
    /// not traced.
    #[must_use]
    pub fn explain(&self, before: usize, after: usize) -> Vec<String> {
        let timeline = |place: usize| {
            let record = self.state.records.get(place)?;
            state::timeline(&self.dir, &record.commit.sha)
        };
        let (Some(before), Some(after)) = (timeline(before), timeline(after)) else {
            return Vec::new();
        };
        let Ok(difference) = Difference::of(&before, &after) else {
            return Vec::new();
        };
        let mut lines = difference.lines(difference.noise());
        let more = lines.len().saturating_sub(EXPLAINED);
        lines.truncate(EXPLAINED);
        if more > 0 {
            lines.push(format!("and {more} smaller differences"));
        }
        lines
    }

    /// Conclusion in sentences; empty while a bisection is not finished.
    #[must_use]
    pub fn conclusion(&self) -> Vec<String> {
        match self.options.goal {
            Goal::Bisect => self.answer().map(|answer| self.answered(answer)),
            Goal::Walk { .. } => None,
        }
        .unwrap_or_default()
    }

    fn answered(&self, answer: Answer) -> Vec<String> {
        let name = |place: usize| render::shorten(&self.name(place), 90);
        let comparison = |place: usize| {
            let compared = self.state.records[place].compared.as_ref();
            compared.map(|compared| &compared.comparison)
        };
        let built = match self.state.builds {
            1 => "1 build".to_owned(),
            builds => format!("{builds} builds"),
        };
        match answer {
            Answer::Unmeasurable => vec![
                "There are no two commits in the range that could be built and booted.".to_owned(),
            ],
            Answer::Unchanged { before, after } => {
                let reach = comparison(after).and_then(|comparison| {
                    let interval = comparison.ratio_interval?;
                    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                    let (low, high) = (percent(interval.low), percent(interval.high));
                    let reach = format!(" (95 % interval {low:+.1} % to {high:+.1} %)");
                    Some(reach.replace('-', "−"))
                });
                let reach = reach.unwrap_or_default();
                let (before, after) = (name(before), name(after));
                vec![format!(
                    "Nothing to bisect: {after} does not differ from {before}{reach}."
                )]
            }
            Answer::Changed {
                before,
                after,
                confirmed,
            } => {
                let mut lines = Vec::new();
                let candidates = after - before;
                lines.push(match candidates {
                    1 => format!("The change is in {}, found with {built}.", name(after)),
                    _ => format!(
                        "The change is in one of {candidates} commits, found with {built}; all but \
                         the last of them could not be measured:"
                    ),
                });
                if candidates > 1 {
                    lines.extend((before + 1..=after).map(|place| format!("  {}", name(place))));
                }
                if !confirmed {
                    lines.push(
                        "Compared with one another alone the commits around it do not differ \
                         beyond tolerance and chance: the change came in pieces, or in noise."
                            .to_owned(),
                    );
                }
                lines
            }
        }
    }
}

fn beyond_chance(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Slower | Verdict::Faster)
}
