//! The interval of a crossover: Fieller's.
//!
//! The difference of two lines at n is D(n) = a + b·n, with a variance that is quadratic in n. The
//! sizes at which D is not apart from 0 by Student's t are the interval; it is exact for relative
//! errors that are normal, whatever the number of sizes (Fieller, "Some problems in interval
//! estimation", Journal of the Royal Statistical Society B 16(2), 1954).

use super::line::{Lines, Shape};
use super::scatter::Spread;
use super::verdict::Bounds;

/// Share of intervals without the true value.
const ERROR: f64 = 0.05;

/// What the two lines leave open.
pub(super) struct Interval<'a> {
    pub(super) lines: &'a Lines,
    /// Of a point of the software's line, and of the offload's.
    pub(super) spreads: [Spread; 2],
}

impl Interval<'_> {
    /// The 95 % interval around a crossing at so many bytes; None if the data gives none.
    pub(super) fn around(&self, bytes: f64) -> Option<Bounds> {
        let Lines { software, offload } = self.lines;
        let unit = software.shape.unit;
        let at = bytes / unit;
        if !at.is_finite() {
            return None;
        }
        // In units of seconds that make no square too small.
        let second = software.shape.second.max(offload.shape.second);
        let fixed = (offload.fixed - software.fixed) / second;
        let per_unit = (offload.per_byte - software.per_byte) * unit / second;
        let [one, other] = [(software, 0), (offload, 1)].map(|(line, place)| {
            let spread: Spread = self.spreads[place];
            let scale = (line.shape.second / second).powi(2);
            (line.shape, spread, spread.variance * scale)
        });
        let part = |(shape, spread, variance): (Shape, Spread, f64)| {
            let at_crossing = variance * shape.variance(at);
            Spread {
                variance: at_crossing,
                ..spread
            }
        };
        let joint = part(one).and(part(other));
        let sum = |of: fn(Shape) -> f64| one.2 * of(one.0) + other.2 * of(other.0);
        let square = joint.quantile(ERROR).powi(2);
        let a = per_unit * per_unit - square * sum(|shape| shape.of_slope());
        let b = fixed * per_unit + square * sum(|shape| shape.mean * shape.of_slope());
        let c = fixed * fixed - square * sum(|shape| shape.variance(0.0));
        let root = b.mul_add(b, -a * c).max(0.0).sqrt();
        let (first, second) = ((-b - root) / a, (-b + root) / a);
        if a > 0.0 {
            return Some(Bounds {
                // Rounded numbers do not leave their own crossing out.
                low: (first.min(at) * unit).max(0.0),
                high: Some(second.max(at) * unit),
            });
        }
        // The slopes are not apart: an end above, or none at all. Roots are in reverse order.
        let is_above = a < 0.0 && root > 0.0 && first <= at;
        is_above.then(|| Bounds {
            low: (first * unit).max(0.0),
            high: None,
        })
    }

    /// Whether a byte costs the offload no less than the software, surely.
    pub(super) fn costs_no_less(&self) -> bool {
        let Lines { software, offload } = self.lines;
        let of = |place: usize| {
            let shape = [software.shape, offload.shape][place];
            let spread: Spread = self.spreads[place];
            spread.times(shape.of_slope() * (shape.second / shape.unit).powi(2))
        };
        let less = software.per_byte - offload.per_byte;
        // Equal but for the rounding of numbers.
        let rounded = 1e-9 * software.per_byte.abs();
        less + of(0).and(of(1)).reach(ERROR) <= rounded
    }
}
