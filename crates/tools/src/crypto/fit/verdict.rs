//! Answers to from which size on an offload is worth it.

/// Two measured sizes, in bytes, between which the faster implementation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The largest size at which the one that is faster for small sizes is faster.
    pub low: u64,
    /// The smallest at which the other is.
    pub high: u64,
}

/// Where two lines cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Size in bytes.
    pub bytes: f64,
    /// Its 95 % interval; None if the data does not give one.
    pub interval: Option<Bounds>,
}

/// A 95 % interval, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower end, from 0.
    pub low: f64,
    /// Upper end; None if the lines may as well never cross.
    pub high: Option<f64>,
}

/// From which size on the offload is faster.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// From a size on.
    From(Estimate),
    /// Up to a size: the offload is faster for small data.
    UpTo(Estimate),
    /// At every size measured.
    Always {
        /// The smallest of them, in bytes.
        smallest: u64,
        /// Where the lines cross below it, if they do. An extrapolation.
        below: Option<Estimate>,
    },
    /// At none of the sizes measured.
    Never {
        /// The largest of them, in bytes.
        largest: u64,
        /// What the lines say of larger ones. An extrapolation.
        beyond: Beyond,
    },
    /// At no size do the intervals of the two times part.
    NoDifference,
    /// There is no one crossover, or the lines do not describe the times.
    Rejected(Rejection),
    /// There are fewer than [`FEWEST`] sizes that both have.
    TooFew {
        /// How many there are.
        sizes: usize,
    },
}

/// What lines say of sizes that were not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Beyond {
    /// They cross there.
    Crosses(Estimate),
    /// They do not cross: the offload's bytes cost no less.
    Parallel,
    /// Nothing: one of them does not describe the times.
    Unknown,
}

/// Why there is no crossover.
#[derive(Debug, Clone, PartialEq)]
pub enum Rejection {
    /// A point is too far from its line.
    Residual {
        /// Name of the implementation.
        name: String,
        /// Size of the point, in bytes.
        bytes: u64,
        /// How far, as a share of the point; above 0 if it took longer than the line says.
        residual: f64,
    },
    /// The faster one changes more than once.
    Changes(Vec<Bracket>),
    /// The lines cross outside the bracket, by more than their interval.
    Contradiction(Estimate),
    /// The lines cross where the intervals of the two times do not part.
    Undecided(Estimate),
}
