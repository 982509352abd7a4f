//! The boots of commits that are compared with one another.

use brisk_measure::{Comparison, Series, Unit, Verdict, render};

use super::build::Artifacts;
use super::engine::{Engine, Event, Observe};
use super::error::Error;
use super::judge::{self, Side, Trial};
use super::plan::Bisection;
use super::state::{self, Outcome};
use super::{Measure, Unbootable};
use brisk_experiment::{Experiment, Plan, Stopped};

/// Rounds before a commit that often fails is written off.
const LEAST_ROUNDS: u32 = 4;

impl Engine {
    /// One boot; its timeline is kept.
    pub(super) fn boot(
        &mut self,
        place: usize,
        artifacts: &Artifacts,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Result<f64, Unbootable>, Error> {
        self.go_on()?;
        let name = render::shorten(&self.name(place), 70);
        observe(Event::Doing(&format!("booting {name}")));
        let mut progress = |text: &str| {
            observe(Event::Doing(&format!("booting {name}: {text}")));
        };
        let measured = measure.measure(artifacts, 1, &mut progress);
        // A boot that was ended because brisk is to end says nothing about the commit.
        self.go_on()?;
        let measured = match measured {
            Ok(measured) => measured,
            Err(unbootable) => return Ok(Err(unbootable)),
        };
        if let Some(timeline) = &measured.timeline {
            let sha = &self.state.records[place].commit.sha;
            state::keep_timeline(&self.dir, sha, timeline)?;
        }
        if measured.series.unit != self.unit() {
            let (found, wanted) = (measured.series.unit, self.unit());
            let reason = format!("measured in {found:?} instead of {wanted:?}");
            return Ok(Err(Unbootable(reason)));
        }
        let value = measured.series.values().first().copied();
        Ok(value.ok_or_else(|| Unbootable(why_none(&measured.series))))
    }

    /// Compares two commits that boot. None if one of the suspects turns out not to, most times.
    pub(super) fn compare(
        &mut self,
        trial: Trial<'_>,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<Comparison>, Error> {
        let Trial {
            before,
            after,
            schedule,
            patience,
            suspects,
        } = trial;
        let tolerance = self.options.tolerance();
        let Some(schedule) = schedule else {
            let empty = Series::new("", Unit::Instructions);
            let of = |place: usize| self.state.records[place].series().unwrap_or(&empty);
            let comparison = Comparison::exact(of(before), of(after), tolerance);
            return Ok(Some(comparison));
        };
        let start = self.state.round;
        for &look in schedule.looks() {
            self.rounds(&[before, after], start + look, measure, observe)?;
            if self.expose(suspects, start) {
                return Ok(None);
            }
            let [a, b] = [before, after].map(|place| self.since(place, start));
            let found = judge::compare(&a, &b, schedule, tolerance, patience);
            if found.verdict != Verdict::Inconclusive {
                return Ok(Some(found));
            }
        }
        let [a, b] = [before, after].map(|place| self.since(place, start));
        let found = judge::compare(&a, &b, schedule, tolerance, patience);
        Ok(Some(found))
    }

    /// Whether a middle belongs to the newer of the ends, as surely as the search wants to know.
    /// None if it turns out not to boot, most times.
    pub(super) fn any_side(
        &mut self,
        places: [usize; 3],
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<bool>, Error> {
        if self.is_careful() {
            return self.side(places, measure, observe);
        }
        let bisection = self.state.bisection.as_ref();
        if let Some(direction) = bisection.and_then(Bisection::first_direction) {
            let side = self.counted_side(places, direction, measure, observe)?;
            if side.is_some() {
                return Ok(side);
            }
        }
        self.likely_side(places, measure, observe)
    }

    /// As [`Engine::any_side`], beyond chance.
    fn side(
        &mut self,
        [low, middle, high]: [usize; 3],
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<bool>, Error> {
        let Some(schedule) = self.schedules.as_ref().map(|s| s.side.clone()) else {
            let value = |place: usize| {
                let values = self.state.records[place].series().map(Series::values);
                values
                    .and_then(|values| values.first().copied())
                    .unwrap_or(0.0)
            };
            let nearer = judge::exact_side(value(low), value(middle), value(high));
            return Ok(Some(nearer));
        };
        let start = self.state.round;
        let mut found = None;
        for &look in schedule.looks() {
            self.rounds(&[low, middle, high], start + look, measure, observe)?;
            if self.expose(&[middle], start) {
                return Ok(None);
            }
            let [l, m, h] = [low, middle, high].map(|place| self.since(place, start));
            found = judge::side(&l, &m, &h, &schedule);
            if found.is_some_and(|side| side.certain) {
                break;
            }
        }
        // The ends boot no more: a middle is not to be judged by them.
        let without = "no round in which it and both ends booted";
        Ok(self.followed(middle, found, without, observe))
    }

    /// Where a middle leads, whose side may be unknown for a reason.
    fn followed(
        &mut self,
        middle: usize,
        side: Option<Side>,
        without: &str,
        observe: Observe<'_>,
    ) -> Option<bool> {
        let Some(side) = side else {
            let reason = without.to_owned();
            self.state.records[middle].outcome = Some(Outcome::NotBooted { reason });
            return None;
        };
        if !side.certain {
            let name = render::shorten(&self.name(middle), 70);
            let text = format!("{name} lies between the ends; the larger step is followed");
            observe(Event::Note(&text));
        }
        Some(side.high)
    }

    /// Likely side of a middle: the middle runs in each round, and one of the ends alternately, to
    /// measure the host's present speed.
    fn likely_side(
        &mut self,
        [low, middle, high]: [usize; 3],
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<Option<bool>, Error> {
        let start = self.state.round;
        let most = self.options.max_runs.max(LEAST_ROUNDS);
        let mut side = None;
        for round in start..start + most {
            let end = if (round - start) % 2 == 0 { low } else { high };
            self.rounds(&[middle, end], round + 1, measure, observe)?;
            if round + 1 - start >= LEAST_ROUNDS && self.expose(&[middle], start) {
                return Ok(None);
            }
            let all = |place: usize| self.since(place, 0);
            side = judge::likely_side(&all(low), &self.since(middle, start), &all(high));
            if side.is_some_and(|side| side.certain) {
                break;
            }
        }
        Ok(self.followed(middle, side, "no boot of it succeeded", observe))
    }

    /// Boots each of some commits once in each round, up to a round; the rounds go on from those
    /// of earlier comparisons.
    fn rounds(
        &mut self,
        places: &[usize],
        until: u32,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<(), Error> {
        let mut all = Vec::new();
        for &place in places {
            match self.artifacts(place, observe)? {
                Ok(artifacts) => all.push((place, artifacts)),
                // It was built before, but is lost, and cannot be built again.
                Err(reason) => {
                    self.state.records[place].outcome = Some(Outcome::NotBuilt { reason });
                }
            }
        }
        let first = self.state.round;
        let sides = all.iter().map(|(place, _)| self.name(*place));
        let plan = Plan::new(sides, until.saturating_sub(first)).beginning_at(first);
        let (interrupt, unit) = (self.interrupt.clone(), self.unit());
        let mut done = 0;
        let mut series: Vec<Series> = Vec::new();
        let ended = Experiment::new(&plan, &interrupt)
            .on_round(|progress| done = progress.done)
            .run(&mut series, |turn, readings| {
                let (place, artifacts) = &all[turn.side];
                let booted = self.boot(*place, artifacts, measure, observe)?;
                readings.put("", unit, booted.map_err(|Unbootable(reason)| reason));
                Ok(())
            });
        // An interrupted round, too, is kept as far as it came.
        for (side, (place, _)) in all.iter().enumerate() {
            let name = plan.series_name(side, "");
            let made = series.iter().find(|series| series.name == name);
            let outcome = &mut self.state.records[*place].outcome;
            if let (Some(Outcome::Booted { series }), Some(made)) = (outcome, made) {
                series.samples.extend(made.samples.iter().cloned());
            }
        }
        self.state.round += done;
        ended.map_err(|stopped| match stopped {
            Stopped::Run(error) => error,
            Stopped::Interrupted(_) => Error::Interrupted,
            Stopped::Save(_) => unreachable!("samples in memory need no file"),
        })?;
        self.state.save(&self.dir)?;
        Ok(())
    }

    /// Writes off those whose boots since a round failed more often than not. Whether there were
    /// any.
    fn expose(&mut self, places: &[usize], start: u32) -> bool {
        let mut any = false;
        for &place in places {
            let series = self.since(place, start);
            let (runs, good) = (series.samples.len(), series.values().len());
            if good * 2 < runs || runs == 0 {
                let bad = runs - good;
                let why = why_none(&series);
                let reason = format!("{bad} of {runs} boots failed: {why}");
                self.state.records[place].outcome = Some(Outcome::NotBooted { reason });
                any = true;
            }
        }
        any
    }

    fn since(&self, place: usize, round: u32) -> Series {
        match self.state.records[place].series() {
            Some(series) => judge::since(series, round),
            None => Series::new(self.name(place), self.unit()),
        }
    }
}

/// Why a series has no value.
fn why_none(series: &Series) -> String {
    let reason = series.measured().find_map(|sample| match &sample.outcome {
        brisk_measure::Outcome::Failed { reason } => Some(reason.clone()),
        brisk_measure::Outcome::TimedOut => Some("time limit".to_owned()),
        brisk_measure::Outcome::Ok { .. } => None,
    });
    reason.unwrap_or_else(|| "no run was made".to_owned())
}
