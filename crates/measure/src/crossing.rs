//! The size of data from which one implementation takes less time than another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer for one quantity of two implementations. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossing {
    /// The quantity, such as `time per operation`.
    pub quantity: String,
    /// Name of the software.
    pub software: String,
    /// Name of the offload.
    pub offload: String,
    /// Kind of the answer: `from`, `up-to`, `always`, `never`, `alike`, `step`, `by-size`, or why
    /// there is none.
    pub answer: String,
    /// Where the lines through the times cross; none where that is no answer.
    pub bytes: Option<f64>,
    /// The 95 % interval of `bytes`.
    pub interval: Option<Reach>,
    /// The measured sizes between which the order changes.
    pub bracket: Option<Reach>,
    /// The order at each size that both have.
    pub sizes: Vec<SizeOrder>,
}

/// A range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reach {
    /// Lower end, bytes.
    pub low: f64,
    /// Upper end, bytes; none if it is not bounded.
    pub high: Option<f64>,
}

/// The order at a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeOrder {
    /// The size, bytes.
    pub bytes: u64,
    /// What takes less: `software`, `offload`, `alike`, or `not decided`.
    pub less: String,
}
