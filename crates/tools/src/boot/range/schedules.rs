//! Levels and looks of the comparisons of a range. Pure.

use super::error::Error;
use super::judge::{self, ENDS, FALSE_ALARM, PROOF, Schedule, WRONG_TURN};
use super::plan::{self, Purpose};
use super::{Goal, Mode, Options};

/// The schedules of a range by wall-clock time.
#[derive(Debug)]
pub(super) struct Schedules {
    /// For comparisons of a walk, and of a careful search.
    compare: Schedule,
    /// For the middles of a careful search.
    pub(super) side: Schedule,
    /// For the ends of a quick search.
    ends: Schedule,
    /// For what it comes to.
    proof: Schedule,
}

impl Schedules {
    /// The schedules for a number of commits; none in deterministic mode.
    pub(super) fn new(options: &Options, commits: usize) -> Result<Option<Self>, Error> {
        if options.mode == Mode::Deterministic {
            return Ok(None);
        }
        let (compare, side) = match options.goal {
            Goal::Walk { step } => {
                let comparisons = plan::selection(commits, step)
                    .len()
                    .saturating_sub(1)
                    .max(1);
                (FALSE_ALARM / comparisons as f64, WRONG_TURN)
            }
            Goal::Bisect => {
                let turns = plan::halvings(commits.saturating_sub(1)).max(1);
                (FALSE_ALARM, WRONG_TURN / f64::from(turns))
            }
        };
        let schedule = |alpha: f64| {
            Schedule::new(options.runs, options.max_runs, alpha).ok_or(Error::TooFewRuns {
                most: options.max_runs,
                needed: judge::pairs_for(alpha),
            })
        };
        Ok(Some(Self {
            compare: schedule(compare)?,
            side: schedule(side)?,
            ends: schedule(ENDS)?,
            proof: schedule(PROOF)?,
        }))
    }

    /// The schedule of a comparison for this purpose.
    pub(super) fn of(&self, purpose: Purpose, careful: bool) -> &Schedule {
        match purpose {
            Purpose::Ends if !careful => &self.ends,
            Purpose::Result if !careful => &self.proof,
            _ => &self.compare,
        }
    }
}
