//! The normal and the t distribution, as far as intervals need them.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The probability that a standard normal variable is at most `z`.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The `z` with `normal_cdf(z) == p`, infinite for 0 and 1.
///
/// Bisection: the CDF is the only thing to trust, and this is called a few times per interval.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    bisect(-40.0, 40.0, |z| normal_cdf(z) < p)
}

/// The two-sided quantile of Student's t with `freedom` degrees: the t that |T| exceeds with
/// probability `alpha`.
pub fn student_two_sided(alpha: f64, freedom: usize) -> f64 {
    // From here on t and normal differ by less than 0.3 %.
    if freedom > 1000 {
        return normal_quantile(1.0 - alpha / 2.0);
    }
    bisect(0.0, 1e6, |t| student_within(t, freedom) < 1.0 - alpha)
}

/// The probability that |T| is at most `t`, for whole degrees of freedom.
///
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
fn student_within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    // Odd degrees sum cos + 2/3 cos³ + …, even ones 1 + 1/2 cos² + ….
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = if odd { 3 } else { 2 };
    while power + 2 <= freedom {
        let k = power as f64;
        term *= cos * cos * (k - 1.0) / k;
        sum += term;
        power += 2;
    }
    if odd {
        (angle + sin * sum) * 2.0 / PI
    } else {
        sin * sum
    }
    .clamp(0.0, 1.0)
}

/// The point where `below` turns false, which it does once.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        // scipy.stats.norm.cdf and ppf.
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.959_963_984_540_054, 0.025),
            (-5.0, 2.866_515_718_791_945_4e-7),
        ] {
            assert!((normal_cdf(z) / p - 1.0).abs() < 1e-12, "{z}");
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn the_t_distribution_is_that_of_the_tables() {
        // scipy.stats.t.ppf(0.975, freedom).
        for (freedom, t) in [
            (1, 12.706_204_736_432_095),
            (2, 4.302_652_729_911_275),
            (3, 3.182_446_305_284_263_4),
            (4, 2.776_445_105_198_011),
            (5, 2.570_581_835_636_314),
            (9, 2.262_157_162_740_991_5),
            (30, 2.042_272_456_301_238),
            (1000, 1.962_339_080_826_408_7),
        ] {
            let found = student_two_sided(0.05, freedom);
            assert!((found - t).abs() < 1e-6, "{freedom}: {found}");
        }
    }
}
