//! Difference between two boots, activity by activity.

use std::collections::BTreeMap;

use brisk_measure::{Clock, Node, Timeline};

/// Time of all activities of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Number of activities.
    pub times: usize,
    /// Their time, in ticks.
    pub total: i64,
    /// Their time without the activities in them, in ticks.
    pub own: i64,
}

/// The activities of one name, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Name. May be text that a guest chose.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Time before; `None` if there were none.
    pub before: Option<Spent>,
    /// Time after; `None` if there are none.
    pub after: Option<Spent>,
}

/// Difference between two timelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The clock of both.
    pub clock: Clock,
    /// Time of the whole, before and after, in ticks.
    pub whole: (i64, i64),
    /// Time that no activity explains, before and after.
    pub unexplained: (i64, i64),
    /// All activities, the one with the largest change of its own time first.
    pub activities: Vec<Changed>,
}

/// Reason why timelines cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incomparable {
    /// Their times are of different clocks.
    #[error("one boot was timed by the {}, the other by the {}", before.name(), after.name())]
    Clocks {
        /// Clock of the first.
        before: Clock,
        /// Clock of the second.
        after: Clock,
    },
}

impl Changed {
    /// Change of the activities' own time, without the activities in them.
    #[must_use]
    pub fn own(&self) -> i64 {
        let of = |spent: Option<Spent>| spent.map_or(0, |spent| spent.own);
        of(self.after).saturating_sub(of(self.before))
    }

    /// Change of the activities' time with everything in them.
    #[must_use]
    pub fn total(&self) -> i64 {
        let of = |spent: Option<Spent>| spent.map_or(0, |spent| spent.total);
        of(self.after).saturating_sub(of(self.before))
    }
}

impl Difference {
    /// Compares `after` with `before`. Activities are matched by their names; several of one name
    /// count as one. An activity's own time leaves out the activities in it, so that a slower
    /// initcall is not also counted for the kernel around it.
    ///
    /// # Errors
    ///
    /// [`Incomparable`].
    pub fn of(before: &Timeline, after: &Timeline) -> Result<Self, Incomparable> {
        if before.clock != after.clock {
            return Err(Incomparable::Clocks {
                before: before.clock,
                after: after.clock,
            });
        }
        let mut all: BTreeMap<String, Changed> = BTreeMap::new();
        for (timeline, late) in [(before, false), (after, true)] {
            let nodes = timeline.nodes();
            let own = own_times(&nodes);
            for (node, own) in nodes.iter().zip(own) {
                let activity = &timeline.activities[node.activity];
                let changed = all.entry(activity.name.clone()).or_insert_with(|| Changed {
                    name: activity.name.clone(),
                    kind: activity.kind.clone(),
                    before: None,
                    after: None,
                });
                let side = match late {
                    false => &mut changed.before,
                    true => &mut changed.after,
                };
                let spent = side.get_or_insert_with(Spent::default);
                spent.times += 1;
                spent.total = spent.total.saturating_add(node.span.duration());
                spent.own = spent.own.saturating_add(own);
            }
        }
        let mut activities: Vec<Changed> = all.into_values().collect();
        activities.sort_by_key(|changed| std::cmp::Reverse(changed.own().unsigned_abs()));
        Ok(Self {
            clock: before.clock,
            whole: (length(before), length(after)),
            unexplained: (unexplained(before), unexplained(after)),
            activities,
        })
    }

    /// Change of the whole, in ticks.
    #[must_use]
    pub fn change(&self) -> i64 {
        self.whole.1.saturating_sub(self.whole.0)
    }

    /// Largest change that is noise between boots that differ as much as these: a fiftieth of the
    /// whole difference, and at least a 10 000th of the boot.
    #[must_use]
    pub fn noise(&self) -> i64 {
        let boot = self.whole.0.max(self.whole.1);
        (self.change().saturating_abs() / 50).max(boot / 10_000)
    }

    /// Lines for changes of more than `threshold` ticks, largest first: `+21.00 ms in acpi_init
    /// (12.00 ms → 33.00 ms)`, `+4.000 ms: new initcall foo`, `−3.000 ms: gone initcall bar`, and
    /// at the end the unexplained time.
    #[must_use]
    pub fn lines(&self, threshold: i64) -> Vec<String> {
        let mut lines: Vec<String> = self
            .activities
            .iter()
            .filter(|changed| changed.own().saturating_abs() > threshold)
            .map(|changed| self.line(changed))
            .collect();
        let (before, after) = self.unexplained;
        let change = after.saturating_sub(before);
        if change.saturating_abs() > threshold {
            lines.push(format!(
                "{} explained by no activity ({} → {})",
                self.signed(change),
                self.clock.format(before),
                self.clock.format(after),
            ));
        }
        lines
    }

    fn line(&self, changed: &Changed) -> String {
        let change = self.signed(changed.own());
        let (name, kind) = (&changed.name, &changed.kind);
        // A phase is called by its name alone.
        let called = match kind.is_empty() || kind == name {
            true => name.clone(),
            false => format!("{kind} {name}"),
        };
        match (changed.before, changed.after) {
            (None, _) => format!("{change}: new {called}"),
            (_, None) => format!("{change}: gone {called}"),
            (Some(before), Some(after)) => {
                let own = |spent: Spent| self.clock.format(spent.own);
                let mut line = format!("{change} in {name} ({} → {}", own(before), own(after));
                if before.times != after.times {
                    line += &format!(", {} → {} times", before.times, after.times);
                }
                line + ")"
            }
        }
    }

    fn signed(&self, ticks: i64) -> String {
        let size = self.clock.format(ticks.saturating_abs());
        let sign = if ticks < 0 { '−' } else { '+' };
        format!("{sign}{size}")
    }
}

fn length(timeline: &Timeline) -> i64 {
    timeline.span().map_or(0, |span| span.duration())
}

/// Time outside of all activities. Time between the parts of one is its own time.
fn unexplained(timeline: &Timeline) -> i64 {
    let gaps = timeline.gaps();
    gaps.iter()
        .filter(|gap| gap.within.is_none())
        .fold(0, |sum, gap| sum.saturating_add(gap.span.duration()))
}

/// Own time of each activity: without the activities directly in it, which may overlap one another.
/// The nodes are in the order of their start.
fn own_times(nodes: &[Node]) -> Vec<i64> {
    let mut own: Vec<i64> = nodes.iter().map(|node| node.span.duration()).collect();
    let mut reached: Vec<i64> = nodes.iter().map(|node| node.span.start).collect();
    for node in nodes {
        let Some(parent) = node.parent else {
            continue;
        };
        let fresh = node
            .span
            .end
            .saturating_sub(node.span.start.max(reached[parent]));
        if fresh > 0 {
            own[parent] = own[parent].saturating_sub(fresh);
            reached[parent] = node.span.end;
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const CLOCK: Clock = Clock::HostMonotonic;

    /// A boot from names, kinds, starts and ends in milliseconds.
    fn boot(activities: &[(&str, &str, u64, u64)]) -> Timeline {
        let mut timeline = Timeline::new(CLOCK);
        for &(name, kind, start, end) in activities {
            timeline.activity(name, kind, start * MS, end * MS, CLOCK);
        }
        timeline
    }

    fn lines(before: &Timeline, after: &Timeline) -> Vec<String> {
        Difference::of(before, after).unwrap().lines(0)
    }

    #[test]
    fn what_changed_is_named_and_not_what_is_around_it() {
        let before = boot(&[
            ("firmware", "firmware", 0, 10),
            ("kernel", "kernel", 10, 60),
            ("acpi_init", "initcall", 20, 32),
            ("bar", "initcall", 32, 35),
            ("pci_init", "initcall", 40, 50),
        ]);
        let after = boot(&[
            ("firmware", "firmware", 0, 10),
            ("kernel", "kernel", 10, 82),
            ("acpi_init", "initcall", 20, 53),
            ("foo", "initcall", 53, 57),
            ("pci_init", "initcall", 62, 72),
        ]);
        let difference = Difference::of(&before, &after).unwrap();
        assert_eq!(
            difference.lines(0),
            [
                "+21.00 ms in acpi_init (12.00 ms → 33.00 ms)",
                "+4.000 ms: new initcall foo",
                "−3.000 ms: gone initcall bar",
            ]
        );
        assert_eq!(difference.change(), 22 * MS as i64);
        let kernel = difference.activities.iter().find(|c| c.name == "kernel");
        let kernel = kernel.unwrap();
        assert_eq!((kernel.own(), kernel.total()), (0, 22 * MS as i64));
        assert_eq!(difference.lines(3 * MS as i64).len(), 2, "beyond, not at");
        assert_eq!(difference.noise(), 22 * MS as i64 / 50);
    }

    #[test]
    fn alike_boots_do_not_differ() {
        let one = boot(&[
            ("kernel", "kernel", 10, 60),
            ("acpi_init", "initcall", 20, 32),
        ]);
        assert_eq!(lines(&one, &one), Vec::<String>::new());
        let empty = Timeline::new(CLOCK);
        assert_eq!(lines(&empty, &empty), Vec::<String>::new());
        assert_eq!(lines(&empty, &one).len(), 2);
    }

    #[test]
    fn activities_of_one_name_count_together() {
        let before = boot(&[("insmod", "", 0, 5)]);
        let after = boot(&[("insmod", "", 0, 5), ("insmod", "", 5, 7)]);
        assert_eq!(
            lines(&before, &after),
            ["+2.000 ms in insmod (5.000 ms → 7.000 ms, 1 → 2 times)"]
        );
    }

    #[test]
    fn what_overlaps_is_taken_from_its_parent_once() {
        let before = boot(&[("userspace", "", 0, 20)]);
        let after = boot(&[
            ("userspace", "", 0, 20),
            ("a", "", 2, 10),
            ("b", "", 6, 12),
            ("c", "", 7, 9),
        ]);
        let difference = Difference::of(&before, &after).unwrap();
        let userspace = difference.activities.iter().find(|c| c.name == "userspace");
        assert_eq!(userspace.unwrap().own(), -10 * MS as i64);
    }

    #[test]
    fn time_of_no_activity_is_shown() {
        let before = boot(&[("a", "", 0, 10), ("b", "", 12, 20)]);
        let after = boot(&[("a", "", 0, 10), ("b", "", 22, 30)]);
        assert_eq!(
            lines(&before, &after),
            ["+10.00 ms explained by no activity (2.000 ms → 12.00 ms)"]
        );
    }

    #[test]
    fn clocks_are_not_mixed() {
        let error = Difference::of(
            &Timeline::new(Clock::HostMonotonic),
            &Timeline::new(Clock::Instructions),
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "one boot was timed by the host clock, the other by the instructions"
        );
    }

    #[test]
    fn instructions_are_counted() {
        let boot = |end| {
            let mut timeline = Timeline::new(Clock::Instructions);
            timeline.activity("acpi_init", "initcall", 0, end, Clock::Instructions);
            timeline
        };
        assert_eq!(
            lines(&boot(2_000_000), &boot(1_500_000)),
            ["−500.0 kinstr in acpi_init (2.000 Minstr → 1.500 Minstr)"]
        );
    }
}
