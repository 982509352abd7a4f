//! The interval of a crossover, by bootstrap.

use brisk_measure::{SplitMix64, Statistic, resampled_interval};

use super::line::{At, Line, Lines};
use super::sizes::Size;
use super::verdict::Bounds;

/// Resamples; each is two medians for each size and two lines.
const RESAMPLES: usize = 4000;
/// Most samples that are drawn in all, which bounds the time.
const DRAWS: usize = 20_000_000;
/// Stands for lines that never cross, in bytes.
const NEVER: f64 = 1e30;

/// The 95 % interval of where the lines cross, around nothing else than errors that can be seen:
/// those of the samples, and those of the points against their lines. The latter have the former in
/// them, so that the interval is rather too wide than too narrow: of 150 simulated measurements of
/// two lines at six sizes it had the crossover in 97 to 98 % with one sample for each size, and in
/// all with three or more. None if resamples have no lines.
pub(super) fn interval(sizes: &[Size], lines: &Lines, seed: u64) -> Option<Bounds> {
    let drawn: usize = sizes
        .iter()
        .map(|size| size.samples.software.len() + size.samples.offload.len())
        .sum();
    let resamples = (DRAWS / drawn.max(1)).clamp(200, RESAMPLES);
    let [software, offload] = [lines.software.errors(), lines.offload.errors()];
    let mut scratch = Vec::new();
    // A line has two parameters: one degree of freedom less than a mean.
    let interval = resampled_interval(sizes.len() - 1, resamples, seed, |random| {
        let mut replicate = |line: &Line, errors: &[f64], of: fn(&Size) -> Side| {
            let points = sizes.iter().map(|size| {
                let Side { samples, usual } = of(size);
                let median = middle(samples, &mut scratch, random);
                let error = errors[random.below(errors.len())];
                // How this median differs from the usual one, and the line's own error.
                let time = line.at(size.bytes as f64) * (median / usual) * (1.0 + error);
                At {
                    bytes: size.bytes as f64,
                    // A line may be below 0 at small sizes; a time is not.
                    seconds: time.max(usual * 0.01),
                }
            });
            Line::through(&points.collect::<Vec<_>>())
        };
        let software = replicate(&lines.software, &software, |size| Side {
            samples: &size.samples.software,
            usual: size.software,
        })?;
        let offload = replicate(&lines.offload, &offload, |size| Side {
            samples: &size.samples.offload,
            usual: size.offload,
        })?;
        Some(end(&Lines { software, offload }, lines))
    })?;
    Some(Bounds {
        low: interval.low.max(0.0),
        high: (interval.high < NEVER / 1e6).then_some(interval.high),
    })
}

/// One implementation at a size.
struct Side<'a> {
    samples: &'a [f64],
    /// Their median.
    usual: f64,
}

/// Median of a resample.
fn middle(seconds: &[f64], scratch: &mut Vec<f64>, random: &mut SplitMix64) -> f64 {
    if let [only] = seconds {
        return *only;
    }
    scratch.clear();
    scratch.extend((0..seconds.len()).map(|_| seconds[random.below(seconds.len())]));
    Statistic::Median.of(scratch).unwrap_or(f64::NAN)
}

/// Where the lines of a resample cross, seen from the side that the lines of the data have: 0 if
/// the crossing is below, and [`NEVER`] if the line that ought to fall behind does not.
fn end(drawn: &Lines, data: &Lines) -> f64 {
    let fixed = drawn.offload.fixed - drawn.software.fixed;
    let per_byte = drawn.software.per_byte - drawn.offload.per_byte;
    let is_upwards = data.software.per_byte > data.offload.per_byte;
    let (fixed, per_byte) = match is_upwards {
        true => (fixed, per_byte),
        false => (-fixed, -per_byte),
    };
    if fixed <= 0.0 {
        0.0
    } else if per_byte <= 0.0 {
        NEVER
    } else {
        (fixed / per_byte).min(NEVER)
    }
}
