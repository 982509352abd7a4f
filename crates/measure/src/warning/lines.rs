//! Warnings for people: those of several series are combined into one line.

use super::Warning;

/// Up to this number of series, warnings of few runs and of noise are separate.
const TOLD_APART: usize = 2;
/// Most series that one line names.
const NAMED: usize = 6;

impl Warning {
    /// For people: those that say the same of many series as one, and outliers and slow first runs
    /// as one whichever series have them.
    #[must_use]
    pub fn lines(warnings: &[Self]) -> Vec<String> {
        let mut lines = Vec::new();
        for warning in warnings {
            let together = match warning {
                Self::FewRuns { n, wanted, .. } => few_runs(warnings, *n, *wanted),
                Self::NoiseFloorHigh { .. } => noise(warnings),
                Self::OutliersFound { .. } => outliers(warnings),
                Self::FirstRunSlow { .. } => slow_first_runs(warnings),
                _ => None,
            };
            let line = together.unwrap_or_else(|| warning.to_string());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }
}

fn few_runs(warnings: &[Warning], n: usize, wanted: usize) -> Option<String> {
    let is_same = |other: &&Warning| matches!(other, Warning::FewRuns { n: m, wanted: w, .. } if (*m, *w) == (n, wanted));
    let count = warnings.iter().filter(is_same).count();
    (count > TOLD_APART).then(|| {
        format!("{n} successful runs, as {count} series have, are few. Take at least {wanted}.")
    })
}

fn noise(warnings: &[Warning]) -> Option<String> {
    let floors = warnings.iter().filter_map(|warning| match warning {
        Warning::NoiseFloorHigh { noise_floor, .. } => Some(*noise_floor),
        _ => None,
    });
    let floors: Vec<f64> = floors.collect();
    let highest = floors.iter().copied().fold(0.0, f64::max);
    (floors.len() > TOLD_APART).then(|| {
        format!(
            "the medians of {} series are known to {:.0} % only, or a little better, so smaller \
             differences are lost in noise. Take more runs, or quieten the host.",
            floors.len(),
            highest * 100.0
        )
    })
}

fn outliers(warnings: &[Warning]) -> Option<String> {
    let series = warnings.iter().filter_map(|warning| match warning {
        Warning::OutliersFound {
            series,
            outliers,
            n,
        } => Some(format!("{series}: {outliers} of {n}")),
        _ => None,
    });
    let named = named(series.collect())?;
    Some(format!(
        "some runs are far from the others ({named}). Close other programs, or look at the raw \
         samples for what those runs have in common."
    ))
}

fn slow_first_runs(warnings: &[Warning]) -> Option<String> {
    let series = warnings.iter().filter_map(|warning| match warning {
        Warning::FirstRunSlow { series, ratio } => Some(format!("{series}: {ratio:.1} times")),
        _ => None,
    });
    let named = named(series.collect())?;
    Some(format!(
        "first runs took longer than the median ({named}), so caches were cold. Add a \
         warm-up run, or measure cold starts only."
    ))
}

/// Lines for several series, one after the other; none for a single one.
fn named(mut series: Vec<String>) -> Option<String> {
    if series.len() < 2 {
        return None;
    }
    let more = series.len().saturating_sub(NAMED);
    series.truncate(NAMED);
    let mut text = series.join("; ");
    if more > 0 {
        text += &format!("; and {more} more series");
    }
    Some(text)
}
