//! Sides, rounds and the order of runs. Pure.

use std::time::Duration;

use brisk_measure::{CompareOptions, Comparison, Phase, Series, noise_floor, turns};

/// One of the things that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name in the report, unique in the plan.
    pub name: String,
    /// The side that this one is a repetition of: what the two differ by is noise.
    pub repeats: Option<usize>,
}

/// The order in which the sides of a round run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Another random order in each round: whatever the host does for some runs favours no side.
    Random {
        /// Orders of the same seed are the same. One other than 0 is noted in the report.
        seed: u64,
    },
    /// As the plan names them, in each round: for sides that need what another one leaves behind.
    Fixed,
}

/// How the name of a series is made of those of its side and its metric. Where one of them is
/// empty the other one is the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `side: metric`.
    SideFirst,
    /// `metric: side`.
    MetricFirst,
}

/// An experiment: its sides and rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(super) sides: Vec<Side>,
    order: Order,
    naming: Naming,
    warmups: u32,
    rounds: u32,
    first: u32,
    budget: Option<Duration>,
}

/// A run that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Which of the plan's sides.
    pub side: usize,
    /// The round, from 0; warm-ups count.
    pub round: u32,
    /// The number of the samples, from 0 in each phase unless the plan begins later.
    pub iteration: u32,
    /// Whether the samples count.
    pub phase: Phase,
}

impl Plan {
    /// At most `rounds` rounds of these sides, without warm-ups and in random order.
    pub fn new<S: Into<String>>(sides: impl IntoIterator<Item = S>, rounds: u32) -> Self {
        let side = |name: S| Side {
            name: name.into(),
            repeats: None,
        };
        Self {
            sides: sides.into_iter().map(side).collect(),
            order: Order::Random { seed: 0 },
            naming: Naming::SideFirst,
            warmups: 0,
            rounds,
            first: 0,
            budget: None,
        }
    }

    /// So many rounds first that do not count.
    #[must_use]
    pub fn warmups(mut self, warmups: u32) -> Self {
        self.warmups = warmups;
        self
    }

    /// The sides run in this order.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The sides run in random orders of this seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.order(Order::Random { seed })
    }

    /// The series are named like this.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.naming = naming;
        self
    }

    /// `side` measures once more what `original` is.
    #[must_use]
    pub fn repeats(mut self, side: usize, original: usize) -> Self {
        if let Some(side) = self.sides.get_mut(side) {
            side.repeats = Some(original);
        }
        self
    }

    /// The first round that counts has this number: it goes on from earlier ones.
    #[must_use]
    pub fn beginning_at(mut self, round: u32) -> Self {
        self.first = round;
        self
    }

    /// No round begins after so long.
    #[must_use]
    pub fn within(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The number of rounds at most, warm-ups included.
    #[must_use]
    pub fn most_rounds(&self) -> u32 {
        self.warmups.saturating_add(self.rounds)
    }

    /// The seed of the orders; none if they are not random.
    #[must_use]
    pub fn order_seed(&self) -> Option<u64> {
        match self.order {
            Order::Random { seed } => Some(seed),
            Order::Fixed => None,
        }
    }

    /// Whether the time is used up after so long.
    #[must_use]
    pub(super) fn is_out_of_time(&self, elapsed: Duration) -> bool {
        self.budget.is_some_and(|budget| elapsed >= budget)
    }

    /// The runs of a round in their order.
    #[must_use]
    pub fn turns(&self, round: u32) -> Vec<Turn> {
        let (phase, iteration) = match round.checked_sub(self.warmups) {
            None => (Phase::Warmup, round),
            Some(measured) => (Phase::Measured, self.first.saturating_add(measured)),
        };
        let sides = match self.order {
            Order::Fixed => (0..self.sides.len()).collect(),
            Order::Random { seed } => {
                turns(seed, self.first.saturating_add(round), self.sides.len())
            }
        };
        let turn = |side| Turn {
            side,
            round,
            iteration,
            phase,
        };
        sides.into_iter().map(turn).collect()
    }

    /// The name of a series; empty for a side that is not in the plan and no metric.
    #[must_use]
    pub fn series_name(&self, side: usize, metric: &str) -> String {
        let side = self.sides.get(side).map_or("", |side| &side.name);
        match (self.naming, side, metric) {
            (_, "", name) | (_, name, "") => name.to_owned(),
            (Naming::SideFirst, side, metric) => format!("{side}: {metric}"),
            (Naming::MetricFirst, side, metric) => format!("{metric}: {side}"),
        }
    }

    /// Compares every other side with `base` in one metric. Repetitions of the base are not
    /// compared with it: they give the noise floor, which is the largest of theirs.
    #[must_use]
    pub fn comparisons(
        &self,
        series: &[Series],
        metric: &str,
        base: usize,
        options: &CompareOptions,
    ) -> Vec<Comparison> {
        let find = |side: usize| {
            let name = self.series_name(side, metric);
            series.iter().find(|series| series.name == name)
        };
        let Some(first) = find(base) else {
            return Vec::new();
        };
        let is_repeat = |side: &usize| self.sides[*side].repeats == Some(base);
        let others = (0..self.sides.len()).filter(|side| *side != base);
        let (repeats, subjects): (Vec<_>, Vec<_>) = others.partition(is_repeat);
        let repeats = repeats.into_iter().filter_map(find);
        let floors = repeats.filter_map(|again| noise_floor(first, again, options));
        let options = CompareOptions {
            noise_floor: floors.reduce(f64::max).or(options.noise_floor),
            ..*options
        };
        let subjects = subjects.into_iter().filter_map(find);
        subjects
            .map(|subject| Comparison::of(first, subject, &options))
            .collect()
    }
}
