//! Samples: one run and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measured number, in the unit of its [`Series`](crate::Series).
///
/// Always finite and at most [`Value::LIMIT`] in magnitude, so that it survives JSON (which has
/// no NaN) and that sums of squares of values stay finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(with = "f64")]
pub struct Value(f64);

impl Value {
    /// The largest magnitude a value may have; far beyond any measured quantity.
    pub const LIMIT: f64 = 1e100;

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Value {
    type Error = ValueError;

    fn try_from(number: f64) -> Result<Self, ValueError> {
        if number.is_finite() && number.abs() <= Self::LIMIT {
            Ok(Self(number))
        } else {
            Err(ValueError(number))
        }
    }
}

impl From<Value> for f64 {
    fn from(value: Value) -> Self {
        value.0
    }
}

/// A number that cannot be a measured value.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a measurable number")]
pub struct ValueError(f64);

/// Whether a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Run to fill caches; kept in the report, left out of every statistic.
    Warmup,
    /// A run that counts.
    Measured,
}

/// How a run ended. Only a run that succeeded has a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// The run did what it should.
    Ok {
        /// The measured value.
        value: Value,
    },
    /// The run went wrong.
    Failed {
        /// Reason, for people. May have text that a guest chose.
        reason: String,
    },
    /// The run was ended by its time limit.
    TimedOut,
}

impl From<f64> for Outcome {
    /// A run that measured `number`. A number that cannot be a [`Value`] becomes a failed run: it
    /// is a fault of the measurement that must be seen, and must not end the whole series.
    fn from(number: f64) -> Self {
        match Value::try_from(number) {
            Ok(value) => Self::Ok { value },
            Err(error) => Self::Failed {
                reason: error.to_string(),
            },
        }
    }
}

impl From<Result<f64, String>> for Outcome {
    /// A run that measured a number, or failed for that reason.
    fn from(result: Result<f64, String>) -> Self {
        result.map_or_else(|reason| Self::Failed { reason }, Self::from)
    }
}

/// One run of the thing under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the run, counting from 0 in each phase. Runs of two series with the same number
    /// form a pair when the series were measured interleaved.
    pub iteration: u32,
    /// Whether the run counts.
    pub phase: Phase,
    /// How the run ended, and what it measured.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Sample {
    /// A run that counts and measured `number`; see [`Outcome::from`] for numbers that are no
    /// [`Value`].
    pub fn measured(iteration: u32, number: f64) -> Self {
        Self::of(iteration, Phase::Measured, number)
    }

    /// A warm-up run that measured `number`.
    pub fn warmup(iteration: u32, number: f64) -> Self {
        Self::of(iteration, Phase::Warmup, number)
    }

    /// A run that went wrong.
    pub fn failed(iteration: u32, phase: Phase, reason: impl Into<String>) -> Self {
        Self {
            iteration,
            phase,
            outcome: Outcome::Failed {
                reason: reason.into(),
            },
        }
    }

    /// A run ended by its time limit.
    pub fn timed_out(iteration: u32, phase: Phase) -> Self {
        Self {
            iteration,
            phase,
            outcome: Outcome::TimedOut,
        }
    }

    fn of(iteration: u32, phase: Phase, number: f64) -> Self {
        Self {
            iteration,
            phase,
            outcome: number.into(),
        }
    }

    /// The value of the run, if it succeeded.
    pub fn value(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Ok { value } => Some(value.get()),
            Outcome::Failed { .. } | Outcome::TimedOut => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_becomes_a_failure() {
        for number in [f64::NAN, f64::INFINITY, -1e101] {
            let sample = Sample::measured(0, number);
            assert_eq!(sample.value(), None);
            assert!(matches!(sample.outcome, Outcome::Failed { .. }));
        }
    }

    #[test]
    fn the_written_form_is_flat() {
        let written = |sample| serde_json::to_string(&sample).unwrap();
        assert_eq!(
            written(Sample::measured(2, 0.5)),
            r#"{"iteration":2,"phase":"measured","outcome":"ok","value":0.5}"#
        );
        assert_eq!(
            written(Sample::timed_out(0, Phase::Warmup)),
            r#"{"iteration":0,"phase":"warmup","outcome":"timed-out"}"#
        );
    }

    #[test]
    fn a_failure_with_a_value_is_still_a_failure_and_a_success_needs_one() {
        let read = serde_json::from_str::<Sample>;
        let failed =
            r#"{"iteration":0,"phase":"measured","outcome":"failed","reason":"x","value":0}"#;
        assert_eq!(read(failed).unwrap().value(), None);
        assert!(read(r#"{"iteration":0,"phase":"measured","outcome":"ok"}"#).is_err());
        assert!(
            read(r#"{"iteration":0,"phase":"measured","outcome":"ok","value":1e200}"#).is_err()
        );
    }
}
