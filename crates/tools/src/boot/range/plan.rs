//! Plan of a range: the next step, from the facts about the commits. Pure.

use serde::{Deserialize, Serialize};

/// Known facts about a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Not tried yet.
    Untried,
    /// Cannot be built or booted.
    Useless,
    /// Boots.
    Good,
}

/// The next step. Numbers are places in the list of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Build and boot a commit.
    Try(usize),
    /// Find out whether two commits differ.
    Compare {
        before: usize,
        after: usize,
        purpose: Purpose,
    },
    /// Find out to which of two commits that differ a third one belongs.
    Side {
        low: usize,
        middle: usize,
        high: usize,
    },
    /// No step: the range is finished.
    Done,
}

/// Purpose of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Neighbours in a walk.
    Walk,
    /// Ends of a range to bisect.
    Ends,
    /// Result of a bisection.
    Result,
}

/// Direction of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Direction {
    /// More time.
    Up,
    /// Less.
    Down,
}

/// Result of a bisection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Answer {
    /// Fewer than two commits could be measured.
    Unmeasurable,
    /// The oldest and the newest commit that could be measured do not differ.
    Unchanged {
        /// The oldest one, a place in the list of commits.
        before: usize,
        /// The newest one.
        after: usize,
    },
    /// The change is in one of the commits after `before` up to `after`; those between them could
    /// not be measured.
    Changed {
        /// The last commit before the change.
        before: usize,
        /// The first one after it.
        after: usize,
        /// Whether these two, compared once more, differ. If not, the change came in several
        /// commits, or noise misled the search.
        confirmed: bool,
    },
}

/// Every `step`-th commit of `count` and the last one.
pub(super) fn selection(count: usize, step: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..count).step_by(step.max(1)).collect();
    if count > 0 && chosen.last() != Some(&(count - 1)) {
        chosen.push(count - 1);
    }
    chosen
}

/// The next step of a walk over `selection`. `compared` has the commit that each one was compared
/// with.
pub(super) fn walk(
    selection: &[usize],
    known: &[Known],
    compared: impl Fn(usize) -> Option<usize>,
) -> Step {
    let mut last = None;
    for &place in selection {
        match (known[place], last) {
            (Known::Untried, _) => return Step::Try(place),
            (Known::Useless, _) => {}
            (Known::Good, Some(before)) if compared(place) != Some(before) => {
                return Step::Compare {
                    before,
                    after: place,
                    purpose: Purpose::Walk,
                };
            }
            (Known::Good, _) => last = Some(place),
        }
    }
    Step::Done
}

/// Most quick searches.
const QUICK: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    Ends,
    Halving,
    Result,
}

/// A bisection. The change is in one of the commits after `low` up to `high`.
///
/// From a middle that is nearer to the low end the search continues above it, else below: the half
/// that is left has at least half of the difference, so that with several changes the search always
/// follows the larger step.
///
/// A quick search follows the likely side, and its result has to be proven by a comparison with the
/// same direction as that of the ends. If it is not, the search begins anew; the third search is
/// careful: each of its steps is beyond chance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bisection {
    low: usize,
    high: usize,
    stage: Stage,
    answer: Option<Answer>,
    /// Quick searches that are left, this one included.
    #[serde(default)]
    quick: u32,
    /// Direction of the ends' difference, and their places.
    #[serde(default)]
    ends: Option<(Direction, usize, usize)>,
}

impl Bisection {
    /// A bisection of the commits 0 to `last`. Where measurements are exact, every search is
    /// careful.
    pub(super) fn new(last: usize, careful: bool) -> Self {
        Self {
            low: 0,
            high: last,
            stage: Stage::Ends,
            answer: None,
            quick: if careful { 0 } else { QUICK },
            ends: None,
        }
    }

    /// Whether every step has to be beyond chance.
    pub(super) fn is_careful(&self) -> bool {
        self.quick == 0
    }

    /// Number of quick searches that are left.
    pub(super) fn quick(&self) -> u32 {
        self.quick
    }

    /// Direction of the ends' difference, during the first search.
    pub(super) fn first_direction(&self) -> Option<Direction> {
        let first = self.quick == QUICK;
        self.ends.filter(|_| first).map(|(direction, ..)| direction)
    }

    pub(super) fn answer(&self) -> Option<Answer> {
        self.answer
    }

    /// The next step. Ends that cannot be used are replaced by their nearest neighbours.
    pub(super) fn next(&mut self, known: &[Known]) -> Step {
        if self.answer.is_some() {
            return Step::Done;
        }
        let (low, high) = match self.stage {
            Stage::Ends => match self.ends(known) {
                Ok(ends) => ends,
                Err(step) => return step,
            },
            _ => (self.low, self.high),
        };
        let compare = |purpose| Step::Compare {
            before: low,
            after: high,
            purpose,
        };
        match self.stage {
            Stage::Ends => compare(Purpose::Ends),
            Stage::Result => compare(Purpose::Result),
            Stage::Halving => {
                let mut places = middles(low, high);
                match places.find(|&place| known[place] != Known::Useless) {
                    Some(middle) if known[middle] == Known::Untried => Step::Try(middle),
                    Some(middle) => Step::Side { low, middle, high },
                    None => {
                        self.stage = Stage::Result;
                        compare(Purpose::Result)
                    }
                }
            }
        }
    }

    fn ends(&mut self, known: &[Known]) -> Result<(usize, usize), Step> {
        while self.low < self.high && known[self.low] == Known::Useless {
            self.low += 1;
        }
        while self.low < self.high && known[self.high] == Known::Useless {
            self.high -= 1;
        }
        if self.low >= self.high {
            self.answer = Some(Answer::Unmeasurable);
            return Err(Step::Done);
        }
        let untried = |place: &usize| known[*place] == Known::Untried;
        match [self.low, self.high].into_iter().find(untried) {
            Some(place) => Err(Step::Try(place)),
            None => Ok((self.low, self.high)),
        }
    }

    /// Takes the direction of the last comparison; `None` for no difference.
    pub(super) fn compared(&mut self, found: Option<Direction>) {
        let (before, after) = (self.low, self.high);
        match (self.stage, found) {
            (Stage::Ends, Some(direction)) => {
                self.stage = Stage::Halving;
                self.ends = Some((direction, before, after));
            }
            (Stage::Ends, None) => self.answer = Some(Answer::Unchanged { before, after }),
            (Stage::Halving | Stage::Result, found) => {
                let ends = self.ends.filter(|_| !self.is_careful());
                let proven = ends.is_none_or(|(direction, ..)| found == Some(direction));
                match ends {
                    Some((_, low, high)) if !proven => {
                        (self.low, self.high) = (low, high);
                        self.stage = Stage::Ends;
                        self.quick -= 1;
                    }
                    _ => {
                        self.answer = Some(Answer::Changed {
                            before,
                            after,
                            confirmed: found.is_some(),
                        });
                    }
                }
            }
        }
    }

    /// Takes the side of the middle: whether it belongs to the high end.
    pub(super) fn sided(&mut self, middle: usize, high: bool) {
        if high {
            self.high = middle;
        } else {
            self.low = middle;
        }
    }
}

/// Most halvings of a range of this many commits, if all can be measured.
pub(super) fn halvings(commits: usize) -> u32 {
    commits.max(1).next_power_of_two().ilog2()
}

/// The commits between two, in the order to try them: the middle, then its neighbours at
/// distances 1, 2, 4 and so on to both sides, then the others. Commits that do not build come in
/// runs, and doubling gets out of a long one in few builds.
fn middles(low: usize, high: usize) -> impl Iterator<Item = usize> {
    let middle = low + (high - low) / 2;
    let all = 1..high - low;
    let doubling = all.clone().filter(|d| d.is_power_of_two());
    let others = all.filter(|d| !d.is_power_of_two());
    let sides = doubling
        .chain(others)
        .flat_map(move |d| [middle.checked_add(d), middle.checked_sub(d)]);
    std::iter::once(middle)
        .chain(sides.flatten())
        .filter(move |place| low < *place && *place < high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bisects values; a commit without one is of no use. Gives the answer and the tries.
    fn bisect(values: &[Option<f64>]) -> (Answer, usize) {
        let mut known = vec![Known::Untried; values.len()];
        let mut bisection = Bisection::new(values.len() - 1, false);
        let value = |place: usize| values[place].unwrap();
        let mut tries = 0;
        loop {
            match bisection.next(&known) {
                Step::Try(place) => {
                    assert_eq!(known[place], Known::Untried);
                    tries += 1;
                    known[place] = match values[place] {
                        Some(_) => Known::Good,
                        None => Known::Useless,
                    };
                }
                Step::Compare { before, after, .. } => {
                    let up = value(before) < value(after);
                    let direction = if up { Direction::Up } else { Direction::Down };
                    let differ = value(before) != value(after);
                    bisection.compared(differ.then_some(direction));
                }
                Step::Side { low, middle, high } => {
                    let to = |place: usize| (value(middle) - value(place)).abs();
                    bisection.sided(middle, to(high) < to(low));
                }
                Step::Done => return (bisection.answer().unwrap(), tries),
            }
        }
    }

    fn changed(before: usize, after: usize) -> Answer {
        Answer::Changed {
            before,
            after,
            confirmed: true,
        }
    }

    #[test]
    fn every_change_among_64_commits_is_found_in_8_tries() {
        for at in 1..=64 {
            let values: Vec<_> = (0..=64)
                .map(|n| Some(f64::from(u8::from(n >= at))))
                .collect();
            let (answer, tries) = bisect(&values);
            assert_eq!(answer, changed(at - 1, at));
            assert!(tries <= 8, "{tries}");
        }
        assert_eq!(halvings(64), 6);
    }

    #[test]
    fn without_a_change_only_the_ends_are_tried() {
        let (answer, tries) = bisect(&[Some(1.0); 65]);
        assert_eq!(
            (answer, tries),
            (
                Answer::Unchanged {
                    before: 0,
                    after: 64
                },
                2
            )
        );
    }

    #[test]
    fn the_largest_of_several_steps_is_followed() {
        let levels = |n: usize| Some([1.0, 2.0, 5.0][usize::from(n > 9) + usize::from(n > 40)]);
        let values: Vec<_> = (0..=64).map(levels).collect();
        assert_eq!(bisect(&values).0, changed(40, 41));
    }

    #[test]
    fn useless_commits_are_stepped_around() {
        let mut values: Vec<_> = (0..=64u32)
            .map(|n| Some(f64::from(u8::from(n >= 32))))
            .collect();
        values[0] = None;
        values[64] = None;
        values[25..=35].fill(None);
        let (answer, tries) = bisect(&values);
        assert_eq!(answer, changed(24, 36));
        assert!(tries < 25, "{tries}");
    }

    #[test]
    fn too_few_commits_have_no_answer() {
        assert_eq!(bisect(&[Some(1.0)]).0, Answer::Unmeasurable);
        assert_eq!(bisect(&[None, Some(1.0), None]).0, Answer::Unmeasurable);
        assert_eq!(bisect(&[None, Some(1.0), Some(2.0)]).0, changed(1, 2));
    }

    #[test]
    fn a_bisection_goes_on_where_it_was() {
        let mut bisection = Bisection::new(8, false);
        let known = vec![Known::Good; 9];
        bisection.next(&known);
        bisection.compared(Some(Direction::Up));
        bisection.sided(4, true);
        let text = serde_json::to_string(&bisection).unwrap();
        let mut again: Bisection = serde_json::from_str(&text).unwrap();
        let step = Step::Side {
            low: 0,
            middle: 2,
            high: 4,
        };
        assert_eq!(again.next(&known), step);
    }

    #[test]
    fn what_is_not_proven_is_searched_for_again_with_care() {
        let known = vec![Known::Good; 3];
        // Of two commits the second search finds that nothing changed, or that something did.
        for (proof, again, answer) in [
            (
                None,
                None,
                Answer::Unchanged {
                    before: 0,
                    after: 2,
                },
            ),
            (Some(Direction::Down), Some(Direction::Up), changed(0, 1)),
        ] {
            let compare = |before, after, purpose| Step::Compare {
                before,
                after,
                purpose,
            };
            let mut bisection = Bisection::new(2, false);
            for left in (0..QUICK).rev() {
                assert!(!bisection.is_careful());
                assert_eq!(bisection.next(&known), compare(0, 2, Purpose::Ends));
                bisection.compared(Some(Direction::Up));
                bisection.sided(1, false);
                assert_eq!(bisection.next(&known), compare(1, 2, Purpose::Result));
                bisection.compared(proof);
                assert_eq!(bisection.quick(), left);
            }
            assert!(bisection.is_careful());
            assert_eq!(bisection.next(&known), compare(0, 2, Purpose::Ends));
            bisection.compared(again);
            if again.is_some() {
                bisection.sided(1, true);
                bisection.next(&known);
                bisection.compared(again);
            }
            assert_eq!(bisection.answer(), Some(answer));
        }
    }

    #[test]
    fn all_middles_come_up_once() {
        assert_eq!(middles(0, 1).count(), 0);
        assert_eq!(middles(3, 5).collect::<Vec<_>>(), [4]);
        let mut all: Vec<_> = middles(2, 40).collect();
        assert_eq!(all[..6], [21, 22, 20, 23, 19, 25]);
        all.sort_unstable();
        assert_eq!(all, (3..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_walk_compares_with_the_last_that_booted() {
        assert_eq!(selection(10, 4), [0, 4, 8, 9]);
        assert_eq!(selection(1, 1), [0]);
        assert!(selection(0, 3).is_empty());
        let mut known = [Known::Good, Known::Useless, Known::Good, Known::Untried];
        let all = [0, 1, 2, 3];
        let step = Step::Compare {
            before: 0,
            after: 2,
            purpose: Purpose::Walk,
        };
        assert_eq!(walk(&all, &known, |_| None), step);
        let compared = |place| (place == 2).then_some(0);
        assert_eq!(walk(&all, &known, compared), Step::Try(3));
        known[3] = Known::Useless;
        assert_eq!(walk(&all, &known, compared), Step::Done);
    }
}
