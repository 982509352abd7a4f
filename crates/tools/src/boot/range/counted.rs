//! Search by counted instructions. They are equal in every boot, so that one boot of each middle is
//! enough, and guide the search where they can be counted. They prove nothing: whether two commits
//! take different times is measured in wall-clock time, before and after.

use brisk_measure::render;

use super::Measure;
use super::engine::{Engine, Event, Observe};
use super::error::Error;
use super::plan::Direction;
use super::state::Counted;

/// Least relative difference between the instructions of the ends: a smaller one says nothing.
const LEAST: f64 = 0.005;
/// Largest distance of a middle from an end, as a part of the distance between the ends.
const NEAR: f64 = 0.25;

impl Engine {
    /// Whether a middle belongs to the newer end by its instructions. `None` where these do not
    /// decide: they cannot be counted, those of the ends do not differ as their times do, or those
    /// of the middle lie between them.
    pub(super) fn counted_side(
        &mut self,
        [low, middle, high]: [usize; 3],
        times: Direction,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<bool>, Error> {
        let Some(low) = self.count(low, measure, observe)? else {
            return Ok(None);
        };
        let Some(high) = self.count(high, measure, observe)? else {
            return Ok(None);
        };
        let Some(way) = way(low, high, times) else {
            return Ok(None);
        };
        let middle = self.count(middle, measure, observe)?;
        Ok(middle.and_then(|middle| side(low, middle, way)))
    }

    /// Instructions of a commit's boot, which is made once.
    fn count(
        &mut self,
        place: usize,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<f64>, Error> {
        if let Some(counted) = self.state.records[place].counted {
            return Ok(counted.instructions);
        }
        let Ok(artifacts) = self.artifacts(place, observe)? else {
            return Ok(None);
        };
        self.go_on()?;
        let name = render::shorten(&self.name(place), 70);
        observe(Event::Doing(&format!("counting instructions of {name}")));
        let instructions = measure.count(&artifacts);
        // A boot that was ended because brisk is to end has counted nothing.
        self.go_on()?;
        self.state.records[place].counted = Some(Counted { instructions });
        self.state.save(&self.dir)?;
        Ok(instructions)
    }
}

/// Distance between the ends' instructions as a logarithm, if they differ as the times do.
fn way(low: f64, high: f64, times: Direction) -> Option<f64> {
    let way = (high / low).ln();
    let counts = if way > 0.0 {
        Direction::Up
    } else {
        Direction::Down
    };
    (way.is_finite() && way.abs() >= LEAST && counts == times).then_some(way)
}

/// Whether the middle belongs to the high end, where its instructions decide.
fn side(low: f64, middle: f64, way: f64) -> Option<bool> {
    let part = (middle / low).ln() / way;
    match part {
        _ if part.abs() <= NEAR => Some(false),
        _ if (part - 1.0).abs() <= NEAR => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_is_like_one_of_the_ends_or_decides_nothing() {
        use Direction::{Down, Up};
        for (counts, times, wanted) in [
            ([100.0, 100.1, 110.0], Up, Some(false)),
            ([100.0, 109.5, 110.0], Up, Some(true)),
            ([110.0, 110.0, 100.0], Down, Some(false)),
            ([110.0, 100.0, 100.0], Down, Some(true)),
            // Between the ends, beyond them, the other way, not at all.
            ([100.0, 105.0, 110.0], Up, None),
            ([100.0, 120.0, 110.0], Up, None),
            ([100.0, 110.0, 110.0], Down, None),
            ([100.0, 100.0, 100.0], Up, None),
            ([100.0, 100.3, 100.3], Up, None),
            ([0.0, 1.0, 1.0], Up, None),
        ] {
            let [low, middle, high] = counts;
            let found = way(low, high, times).and_then(|way| side(low, middle, way));
            assert_eq!(found, wanted, "{counts:?}");
        }
    }
}
