//! Timeline of one run: events, activities and gaps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of a time. Times of different clocks can be compared only if their offset is known.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// `CLOCK_MONOTONIC` of the host, in nanoseconds (clock_gettime(2)).
    HostMonotonic,
    /// The guest's printk time, in nanoseconds since its clock was set up.
    GuestBoot,
    /// The virtual clock of `-icount shift=0`: instructions, each a nanosecond of guest time.
    Instructions,
}

impl Clock {
    /// `ticks` of this clock for people: a time or a number of instructions.
    pub fn format(self, ticks: i64) -> String {
        let (unit, tick) = self.unit();
        unit.format(ticks as f64 * tick)
    }

    /// The unit of the clock, and how much of it a tick is.
    pub fn unit(self) -> (crate::Unit, f64) {
        match self {
            Self::HostMonotonic | Self::GuestBoot => (crate::Unit::Seconds, 1e-9),
            Self::Instructions => (crate::Unit::Instructions, 1.0),
        }
    }

    /// Name of the clock.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostMonotonic => "host clock",
            Self::GuestBoot => "guest clock",
            Self::Instructions => "instructions",
        }
    }
}

/// An event, which has one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Name of the event. May be text that a guest chose.
    pub name: String,
    /// Time, in ticks of the clock (nanoseconds or instructions).
    pub at: u64,
    /// The clock the time was read from.
    pub clock: Clock,
}

/// An activity, which has a duration. It belongs to the smallest activity that contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Name of the activity. May be text that a guest chose.
    pub name: String,
    /// What sort of thing, as `firmware`, `kernel`, `initcall`, `userspace`: pictures give each
    /// its colour. Empty if there is nothing to say.
    pub kind: String,
    /// Start, in ticks of the clock.
    pub start: u64,
    /// Duration, in ticks of the clock.
    pub duration: u64,
    /// The clock of start and duration.
    pub clock: Clock,
    /// Whether the activity explains all of its time, as a function does with all its calls. A
    /// phase explains only the activities in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// A stretch of the timeline's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Where it begins, in ticks of the timeline's clock.
    pub start: i64,
    /// Where it ends; not before the start.
    pub end: i64,
}

impl Span {
    /// How long it is, in ticks.
    pub fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Time that no activity explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Start and end of the gap.
    pub span: Span,
    /// The innermost activity it lies in, an index into [`Timeline::activities`].
    pub within: Option<usize>,
    /// Name of the last event or activity before it.
    pub after: Option<String>,
    /// Name of the next event or activity after it.
    pub before: Option<String>,
}

/// An activity in its place among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Index into [`Timeline::activities`].
    pub activity: usize,
    /// Start and end on the timeline's clock.
    pub span: Span,
    /// Number of activities that contain it.
    pub depth: usize,
    /// The activity that contains it, an index into the nodes.
    pub parent: Option<usize>,
    /// Whether any activity lies in it.
    pub leaf: bool,
}

/// Events and activities of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// The clock of the timeline: pictures and gaps are in its ticks.
    pub clock: Clock,
    /// Offsets to add to the times of other clocks to get those of the timeline's clock. Events and
    /// activities of a clock without an offset have no place on the timeline.
    #[serde(default)]
    pub offsets: BTreeMap<Clock, i64>,
    /// Events, in any order.
    pub events: Vec<Event>,
    /// Activities, in any order.
    pub activities: Vec<Activity>,
}

impl Timeline {
    /// An empty timeline.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            offsets: BTreeMap::new(),
            events: Vec::new(),
            activities: Vec::new(),
        }
    }

    /// Adds an event.
    pub fn event(&mut self, name: impl Into<String>, at: u64, clock: Clock) -> &mut Self {
        self.events.push(Event {
            name: name.into(),
            at,
            clock,
        });
        self
    }

    /// Adds an activity from `start` to `end`; an end before the start counts as the start.
    pub fn activity(
        &mut self,
        name: impl Into<String>,
        kind: impl Into<String>,
        start: u64,
        end: u64,
        clock: Clock,
    ) -> &mut Self {
        self.activities.push(Activity {
            name: name.into(),
            kind: kind.into(),
            start,
            duration: end.saturating_sub(start),
            clock,
            whole: false,
        });
        self
    }

    /// Adds an activity that explains all of its time, whatever it contains.
    pub fn whole_activity(
        &mut self,
        name: impl Into<String>,
        kind: impl Into<String>,
        start: u64,
        end: u64,
        clock: Clock,
    ) -> &mut Self {
        self.activity(name, kind, start, end, clock);
        if let Some(activity) = self.activities.last_mut() {
            activity.whole = true;
        }
        self
    }

    /// Adds an activity between the first events called `from` and `to`. False, and nothing added,
    /// if one is missing, or they are of different clocks, or in the wrong order.
    pub fn activity_between(&mut self, name: &str, kind: &str, from: &str, to: &str) -> bool {
        let find = |wanted: &str| self.events.iter().find(|event| event.name == wanted);
        let (Some(from), Some(to)) = (find(from), find(to)) else {
            return false;
        };
        if from.clock != to.clock || to.at < from.at {
            return false;
        }
        let (start, end, clock) = (from.at, to.at, from.clock);
        self.activity(name, kind, start, end, clock);
        true
    }

    /// A time of any clock on the timeline's own, if the offset is known.
    pub fn place(&self, at: u64, clock: Clock) -> Option<i64> {
        let offset = if clock == self.clock {
            0
        } else {
            *self.offsets.get(&clock)?
        };
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        Some(at.saturating_add(offset))
    }

    /// When the activity was, by the timeline's clock.
    pub fn span_of(&self, activity: &Activity) -> Option<Span> {
        let end = activity.start.saturating_add(activity.duration);
        Some(Span {
            start: self.place(activity.start, activity.clock)?,
            end: self.place(end, activity.clock)?,
        })
    }

    /// From the first to the last time on the timeline; none if it is empty.
    pub fn span(&self) -> Option<Span> {
        let spans = self.activities.iter().filter_map(|a| self.span_of(a));
        let moments = self
            .placed_events()
            .into_iter()
            .map(|(at, _)| Span { start: at, end: at });
        spans.chain(moments).reduce(|a, b| Span {
            start: a.start.min(b.start),
            end: a.end.max(b.end),
        })
    }

    /// The events that have a place on the timeline, in order.
    pub fn placed_events(&self) -> Vec<(i64, &Event)> {
        let mut events: Vec<(i64, &Event)> = self
            .events
            .iter()
            .filter_map(|event| Some((self.place(event.at, event.clock)?, event)))
            .collect();
        events.sort_by_key(|(at, _)| *at);
        events
    }

    /// The activities that have a place on the timeline, each after the one it lies in, in order
    /// of their start. One that only overlaps another lies beside it, not in it.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = self
            .activities
            .iter()
            .enumerate()
            .filter_map(|(index, activity)| {
                Some(Node {
                    activity: index,
                    span: self.span_of(activity)?,
                    depth: 0,
                    parent: None,
                    leaf: true,
                })
            })
            .collect();
        nodes.sort_by_key(|node| (node.span.start, std::cmp::Reverse(node.span.end)));
        let mut open: Vec<usize> = Vec::new();
        for index in 0..nodes.len() {
            let span = nodes[index].span;
            // An activity that has ended holds no later one; one that ends too early may still
            // hold the next.
            open.retain(|&outer| nodes[outer].span.end > span.start);
            let parent = open
                .iter()
                .copied()
                .rev()
                .find(|&outer| nodes[outer].span.end >= span.end);
            if let Some(parent) = parent {
                nodes[index].depth = nodes[parent].depth + 1;
                nodes[index].parent = Some(parent);
                nodes[parent].leaf = false;
            }
            open.push(index);
        }
        nodes
    }

    /// The time that no activity explains. An activity with others in it explains only what they
    /// do, so that "kernel" does not explain what its initcalls leave open; one with nothing in it
    /// explains itself, and so does one that is [whole](Activity::whole).
    pub fn gaps(&self) -> Vec<Gap> {
        let Some(whole) = self.span() else {
            return Vec::new();
        };
        let nodes = self.nodes();
        let mut gaps = Vec::new();
        let mut reached = whole.start;
        let explains = |node: &&Node| node.leaf || self.activities[node.activity].whole;
        for leaf in nodes.iter().filter(explains) {
            if leaf.span.start > reached {
                self.split(reached, leaf.span.start, &nodes, &mut gaps);
            }
            reached = reached.max(leaf.span.end);
        }
        if whole.end > reached {
            self.split(reached, whole.end, &nodes, &mut gaps);
        }
        gaps
    }

    /// The share of the whole span that activities explain, 0 to 1; none if there is no span.
    pub fn explained_fraction(&self) -> Option<f64> {
        let whole = self.span()?.duration();
        let gaps = self.gaps();
        let unexplained: f64 = gaps.iter().map(|gap| gap.span.duration() as f64).sum();
        (whole > 0).then(|| (1.0 - unexplained / whole as f64).clamp(0.0, 1.0))
    }

    /// The activities without others in them that took longest, longest first.
    pub fn longest(&self, count: usize) -> Vec<Node> {
        let mut leaves: Vec<Node> = self.nodes().into_iter().filter(|n| n.leaf).collect();
        leaves.sort_by_key(|node| std::cmp::Reverse(node.span.duration()));
        leaves.truncate(count);
        leaves
    }

    /// Cuts a stretch that nothing explains where an outer activity begins or ends: each piece
    /// has one place.
    fn split(&self, start: i64, end: i64, nodes: &[Node], gaps: &mut Vec<Gap>) {
        let mut cuts: Vec<i64> = nodes
            .iter()
            .flat_map(|node| [node.span.start, node.span.end])
            .filter(|&at| start < at && at < end)
            .chain([start, end])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        for ends in cuts.windows(2) {
            let span = Span {
                start: ends[0],
                end: ends[1],
            };
            let within = nodes
                .iter()
                .filter(|n| n.span.start <= span.start && span.end <= n.span.end)
                .max_by_key(|node| node.depth)
                .map(|node| node.activity);
            gaps.push(Gap {
                span,
                within,
                after: self.neighbour(nodes, within, |s| (s.end <= span.start).then_some(s.end)),
                before: self
                    .neighbour(nodes, within, |s| (s.start >= span.end).then_some(-s.start)),
            });
        }
    }

    /// The name of the activity or event of the highest rank, inner activities first.
    fn neighbour(
        &self,
        nodes: &[Node],
        within: Option<usize>,
        rank: impl Fn(Span) -> Option<i64>,
    ) -> Option<String> {
        let activities = nodes.iter().filter_map(|node| {
            let name = &self.activities[node.activity].name;
            Some((
                rank(node.span)?,
                Some(node.activity) != within,
                node.depth,
                name,
            ))
        });
        let events = self.placed_events().into_iter().filter_map(|(at, event)| {
            Some((rank(Span { start: at, end: at })?, false, 0, &event.name))
        });
        activities
            .chain(events)
            .max_by_key(|(rank, inner, depth, _)| (*rank, *inner, *depth))
            .map(|(_, _, _, name)| name.clone())
    }
}

#[cfg(test)]
mod tests;
