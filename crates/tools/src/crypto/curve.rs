//! Time of an operation over the size of its data.

/// What was measured of one implementation at several sizes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Name of the implementation.
    pub name: String,
    /// Sizes in ascending order, each once.
    pub points: Vec<Point>,
    /// Step of the clock, as a share of the shortest run's time; 0 if it does not matter.
    pub resolution: f64,
}

/// What was measured at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Bytes of data of one operation.
    pub bytes: u64,
    /// Seconds of one operation, one figure for each run; never empty.
    pub seconds: Vec<f64>,
}
