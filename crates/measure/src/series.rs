//! Series: the samples of one quantity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Better, Phase, Sample, Unit};

/// All runs that measured one quantity of one variant of the thing under test.
///
/// The unit belongs to the series, not to each sample: values of one series are always
/// comparable with one another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name of the quantity, unique in its report, such as `microvm: exec to init`.
    pub name: String,
    /// The unit of every value.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// Every run in the order it was made, warm-ups and failures too.
    pub samples: Vec<Sample>,
}

impl Series {
    /// A series without samples, in the usual direction of its unit.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self {
            name: name.into(),
            unit,
            better: unit.better(),
            samples: Vec::new(),
        }
    }

    /// A series of runs that all succeeded and all count.
    pub fn of_values(
        name: impl Into<String>,
        unit: Unit,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let mut series = Self::new(name, unit);
        series.samples = (0..)
            .zip(values)
            .map(|(iteration, value)| Sample::measured(iteration, value))
            .collect();
        series
    }

    /// Adds a run.
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// The runs that count, failed ones too.
    pub fn measured(&self) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(|sample| sample.phase == Phase::Measured)
    }

    /// The values of the runs that count and succeeded, in the order they were made.
    pub fn values(&self) -> Vec<f64> {
        self.measured().filter_map(Sample::value).collect()
    }

    /// Whether it has no noise: counted instructions that are the same in each run.
    pub fn is_exact(&self) -> bool {
        let values = self.values();
        self.unit == crate::Unit::Instructions
            && !values.is_empty()
            && values.iter().all(|value| *value == values[0])
    }

    /// The values of two interleaved series whose runs have the same number, where both
    /// succeeded. A run whose partner failed is left out of both.
    pub fn pairs(&self, other: &Self) -> Vec<(f64, f64)> {
        let partners: std::collections::HashMap<u32, f64> = other
            .measured()
            .filter_map(|sample| Some((sample.iteration, sample.value()?)))
            .collect();
        self.measured()
            .filter_map(|sample| Some((sample.value()?, *partners.get(&sample.iteration)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_need_both_runs() {
        let mut a = Series::of_values("a", Unit::Seconds, [1.0, 2.0, 3.0]);
        let mut b = Series::of_values("b", Unit::Seconds, [10.0, 20.0]);
        a.samples[1] = Sample::failed(1, Phase::Measured, "no marker");
        b.push(Sample::warmup(2, 99.0));
        assert_eq!(a.pairs(&b), [(1.0, 10.0)]);
        assert_eq!(a.values(), [1.0, 3.0]);
        assert_eq!(b.values(), [10.0, 20.0]);
    }
}
