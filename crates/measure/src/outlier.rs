//! Detection of outliers.

use crate::bootstrap::Statistic;

/// The magnitude of the modified z-score from which a value counts as an outlier.
///
/// Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC Quality Press, 1993.
pub const OUTLIER_SCORE: f64 = 3.5;

/// The modified z-score of each value: 0.6745 (x − median) / MAD, where MAD is the median absolute
/// deviation from the median (Iglewicz and Hoaglin 1993).
///
/// Where more than half of the values are equal the MAD is 0; then the mean absolute deviation
/// times 1.253314 (the ratio of standard and mean absolute deviation of a normal distribution,
/// √(π/2)) takes its place. All scores of equal values are 0.
pub fn modified_z_scores(values: &[f64]) -> Vec<f64> {
    let Some(median) = Statistic::Median.of(values) else {
        return Vec::new();
    };
    let deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    let mad = Statistic::Median.of(&deviations).unwrap_or(0.0);
    let scale = if mad > 0.0 {
        mad / 0.6745
    } else {
        Statistic::Mean.of(&deviations).unwrap_or(0.0) * 1.253_314
    };
    values
        .iter()
        .map(|value| match scale {
            0.0 => 0.0,
            scale => (value - median) / scale,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_definition() {
        // Median 3, absolute deviations 2 1 0 1 97, MAD 1: 0.6745 · 97.
        let scores = modified_z_scores(&[1.0, 2.0, 3.0, 4.0, 100.0]);
        assert!((scores[4] - 65.4265).abs() < 1e-9);
        assert!((scores[0] + 1.349).abs() < 1e-9);
        assert_eq!(scores.iter().filter(|s| s.abs() > OUTLIER_SCORE).count(), 1);
    }

    #[test]
    fn a_stray_value_among_equal_ones_is_found() {
        let mut values = [5.0; 10];
        values[7] = 6.0;
        let scores = modified_z_scores(&values);
        assert!(scores[7] > OUTLIER_SCORE, "{scores:?}");
        assert_eq!(scores[0], 0.0);
    }

    #[test]
    fn equal_and_missing_values_have_no_outliers() {
        assert_eq!(modified_z_scores(&[2.0, 2.0]), [0.0, 0.0]);
        assert!(modified_z_scores(&[]).is_empty());
    }
}
