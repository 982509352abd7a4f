//! Curves in a report of brisk's.

use std::collections::BTreeMap;

use brisk_measure::{Report, Series, Unit};

use crate::crypto::metric::{self, Named};
use crate::crypto::{Curve, Point};

/// What an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Wall-clock time.
    Time,
    /// CPU time of the threads that ask for it.
    ProcessCpu,
    /// CPU time of these and of threads of the kernel.
    SystemCpu,
    /// CPU time of the whole system, less that of an idle one. A guest's is without its QEMU's.
    WholeSystemCpu,
}

/// All of them.
pub const METRICS: [Metric; 4] = [
    Metric::Time,
    Metric::ProcessCpu,
    Metric::SystemCpu,
    Metric::WholeSystemCpu,
];

impl Metric {
    /// Name in a report, behind the implementation and the size.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => metric::TIME,
            Self::ProcessCpu => metric::PROCESS,
            Self::SystemCpu => metric::SYSTEM,
            Self::WholeSystemCpu => metric::WHOLE,
        }
    }

    /// To take less of it, and more: of a size.
    pub(super) fn words(self) -> [&'static str; 2] {
        match self {
            Self::Time => ["faster", "slower"],
            Self::ProcessCpu => [
                "less CPU time of its process",
                "more CPU time of its process",
            ],
            Self::SystemCpu => ["less CPU time of the system", "more CPU time of the system"],
            Self::WholeSystemCpu => [
                "less CPU time of the whole system",
                "more CPU time of the whole system",
            ],
        }
    }

    /// What it is to take less of it: a verb.
    pub(super) fn less(self) -> &'static str {
        match self {
            Self::Time => "is faster",
            Self::ProcessCpu => "takes less CPU time of its process",
            Self::SystemCpu => "takes less CPU time of the system",
            Self::WholeSystemCpu => "takes less CPU time of the whole system",
        }
    }
}

/// A report without curves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CurvesError {
    /// It has no series of that form.
    #[error(
        "the report, of kind {0}, has no series such as \"IMPLEMENTATION 4096 B: time per \
         operation\"; brisk crypto bench writes them"
    )]
    Nothing(String),
    /// A series is not of seconds.
    #[error("the series {0} is not in seconds")]
    Unit(String),
}

/// The curves of a quantity that a report has: its series `IMPLEMENTATION SIZE B: METRIC`, of
/// seconds. Runs that failed and warm-ups are left out, sizes without any other run too. Empty if
/// the report has curves of other quantities only.
///
/// # Errors
/// If the report has no curves, or a series is not of seconds.
pub fn curves_of_report(report: &Report, metric: Metric) -> Result<Vec<Curve>, CurvesError> {
    let mut order: Vec<&str> = Vec::new();
    let mut all: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    let mut has_curves = false;
    for series in &report.series {
        let Some((found, of)) = named(series) else {
            continue;
        };
        has_curves = true;
        if of != metric {
            continue;
        }
        if series.unit != Unit::Seconds {
            return Err(CurvesError::Unit(series.name.clone()));
        }
        let values = series.values();
        if values.is_empty() {
            continue;
        }
        let sizes = all.entry(found.implementation).or_insert_with(|| {
            order.push(found.implementation);
            BTreeMap::new()
        });
        sizes.entry(found.bytes).or_default().extend(values);
    }
    if !has_curves {
        return Err(CurvesError::Nothing(report.kind.clone()));
    }
    let curves = order.into_iter().filter_map(|name| {
        let sizes = all.remove(name)?.into_iter();
        let points = sizes.map(|(bytes, seconds)| Point { bytes, seconds });
        let resolution = report.environment.extra.get(&resolution_name(name));
        let resolution = resolution.and_then(|share| share.parse().ok());
        let is_share = |share: &f64| (0.0..1.0).contains(share);
        Some(Curve {
            name: name.to_owned(),
            points: points.collect(),
            resolution: resolution.filter(is_share).unwrap_or(0.0),
        })
    });
    Ok(curves.collect())
}

/// Parts of the name of a series that is of a curve, and its quantity.
fn named(series: &Series) -> Option<(Named<'_>, Metric)> {
    let named = Named::of(&series.name).filter(|named| named.bytes > 0)?;
    let metric = METRICS.into_iter().find(|one| one.name() == named.metric)?;
    Some((named, metric))
}

/// Name of the fact with the step of a curve's clock, as a share of its times.
#[must_use]
pub fn resolution_name(implementation: &str) -> String {
    format!("{implementation}: step of the clock")
}

/// Name of the series of a size.
#[must_use]
pub fn series_name(implementation: &str, bytes: u64, metric: Metric) -> String {
    format!(
        "{}: {}",
        metric::side(&implementation, bytes),
        metric.name()
    )
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Sample};

    use super::*;

    fn report(series: Vec<Series>) -> Report {
        let mut report = Report::new("crypto", "", Environment::default());
        report.series = series;
        report
    }

    #[test]
    fn series_are_named_by_implementation_size_and_quantity() {
        let name = |bytes, metric| series_name("cbc (aes) 2 B: x", bytes, metric);
        let mut warm = Series::of_values(name(64, Metric::Time), Unit::Seconds, [3.0, 4.0]);
        warm.samples.insert(0, Sample::warmup(0, 9.0));
        warm.samples[2] = Sample::measured(2, f64::NAN);
        let mut all = report(vec![
            warm,
            Series::of_values(name(16, Metric::Time), Unit::Seconds, [1.0, 2.0]),
            Series::of_values(name(128, Metric::Time), Unit::Seconds, []),
            Series::of_values(name(16, Metric::ProcessCpu), Unit::Seconds, [0.5]),
            Series::of_values("boot", Unit::Seconds, [7.0]),
            Series::of_values("x 0 B: time per operation", Unit::Bytes, [7.0]),
        ]);
        let extra = &mut all.environment.extra;
        extra.insert(resolution_name("cbc (aes) 2 B: x"), "0.01".into());
        let curves = curves_of_report(&all, Metric::Time).unwrap();
        let point = |bytes, seconds: &[f64]| Point {
            bytes,
            seconds: seconds.to_vec(),
        };
        let expected = Curve {
            name: "cbc (aes) 2 B: x".into(),
            points: vec![point(16, &[1.0, 2.0]), point(64, &[3.0])],
            resolution: 0.01,
        };
        assert_eq!(curves, [expected]);
        assert_eq!(curves_of_report(&all, Metric::SystemCpu), Ok(Vec::new()));
    }

    #[test]
    fn reports_of_something_else_say_what_is_missing() {
        let other = report(vec![Series::of_values("boot", Unit::Seconds, [7.0])]);
        let error = curves_of_report(&other, Metric::Time).unwrap_err();
        assert_eq!(error, CurvesError::Nothing("crypto".into()));
        assert!(error.to_string().contains("brisk crypto bench writes them"));
        let name = series_name("a", 16, Metric::Time);
        let bytes = report(vec![Series::of_values(&name, Unit::Bytes, [7.0])]);
        let error = curves_of_report(&bytes, Metric::Time).unwrap_err();
        assert_eq!(error, CurvesError::Unit(name));
    }
}
