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
    /// At every size measured, each of which is decided.
    Always {
        /// The smallest of them, in bytes.
        smallest: u64,
        /// Where the lines cross below it, if they do. An extrapolation.
        below: Option<Estimate>,
    },
    /// At none of the sizes measured, each of which is decided.
    Never {
        /// The largest of them, in bytes.
        largest: u64,
        /// What the lines say of larger ones. An extrapolation.
        beyond: Beyond,
    },
    /// The two are alike at every size.
    Alike,
    /// The offload leaves small data to software.
    Step {
        /// The largest size that it leaves to it, in bytes.
        up_to: u64,
        /// The smallest at which the device works, and is faster.
        from: u64,
    },
    /// Each size has its own answer, and some may have none.
    Partly {
        /// Where the lines cross, if they do so among the sizes.
        crossing: Option<Estimate>,
    },
    /// There is no one crossover, or the lines do not describe the times.
    Rejected(Rejection),
    /// There are fewer than [`FEWEST`] sizes that both have.
    TooFew {
        /// How many there are.
        sizes: usize,
    },
}

impl Verdict {
    /// Its name in reports, which stays.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::From(_) => "from",
            Self::UpTo(_) => "up-to",
            Self::Always { .. } => "always",
            Self::Never { .. } => "never",
            Self::Alike => "alike",
            Self::Step { .. } => "step",
            Self::Partly { .. } => "by-size",
            Self::Rejected(Rejection::Residual { .. }) => "not-on-lines",
            Self::Rejected(Rejection::Changes(_)) => "several-changes",
            Self::Rejected(Rejection::Contradiction(_)) => "contradiction",
            Self::TooFew { .. } => "too-few-sizes",
        }
    }
}

/// What lines say of sizes that were not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Beyond {
    /// They cross there.
    Crosses(Estimate),
    /// They do not cross: the offload's bytes cost no less, surely.
    Parallel,
    /// They may cross, or not.
    Open,
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
}
