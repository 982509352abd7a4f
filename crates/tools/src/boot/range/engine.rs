//! Engine of a range: executes the steps of the plan.

use std::fs;
use std::path::PathBuf;

use brisk_measure::{Sample, Series, Unit, Verdict, render};

use super::build::{self, Artifacts, Builds, Failure, Recipe, make_dir};
use super::error::Error;
use super::git::{Commit, GitError, Lock, Repository, Worktree, try_lock};
use super::judge::{Patience, Trial};
use super::plan::{self, Answer, Bisection, Direction, Known, Purpose, Step};
use super::schedules::Schedules;
use super::state::{Compared, Outcome, Record, State, Subject};
use super::{Goal, Measure, Mode, Options, Unbootable};
use brisk_host::interrupt::Interrupt;

/// Progress of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A step has begun: a sign of life.
    Doing(&'a str),
    /// A commit is finished: a line of a table.
    Row(&'a str),
    /// A note for the user.
    Note(&'a str),
}

/// A range of commits, measured as far as it is.
#[derive(Debug)]
pub struct Engine {
    pub(super) options: Options,
    repository: Repository,
    pub(super) state: State,
    pub(super) dir: PathBuf,
    builds: Builds,
    pub(super) interrupt: Interrupt,
    /// Made when first needed: a range that is known needs none.
    worktree: Option<Worktree>,
    /// Levels and looks; `None` in deterministic mode.
    pub(super) schedules: Option<Schedules>,
    _lock: Lock,
}

pub(super) type Observe<'a> = &'a mut dyn FnMut(Event<'_>);

impl Engine {
    /// Opens the repository and the state of the range.
    ///
    /// # Errors
    ///
    /// Any but [`Error::Interrupted`].
    pub fn open(options: Options, interrupt: Interrupt) -> Result<Self, Error> {
        if options.artifacts.is_empty() {
            return Err(Error::NoArtifacts);
        }
        let repository = Repository::open(&options.repository)?;
        let commits = repository.commits(&options.range)?;
        let schedules = Schedules::new(&options, commits.len())?;
        let sha = |commit: Option<&Commit>| commit.map(|c| c.sha.clone()).unwrap_or_default();
        let subject = Subject {
            repository: repository.identity().to_owned(),
            first: sha(commits.first()),
            last: sha(commits.last()),
            commits: commits.len(),
            build: options.build.clone(),
            clean: options.clean,
            artifacts: options.artifacts.clone(),
            mode: options.mode,
            setting: options.setting.clone(),
        };
        let ranges = options.dir.join("ranges");
        make_dir(&ranges).map_err(|source| Error::File {
            path: ranges.clone(),
            source,
        })?;
        let dir = ranges.join(subject.key());
        let lock_path = dir.with_extension("lock");
        let lock = try_lock(&lock_path)?.ok_or(GitError::Busy(lock_path))?;
        if options.fresh {
            // A file that is not there need not be forgotten; one that cannot be deleted is reported when it
            // is written.
            let _ = fs::remove_dir_all(&dir);
        }
        for part in ["timelines", "logs"] {
            let part = dir.join(part);
            make_dir(&part).map_err(|source| Error::File { path: part, source })?;
        }
        let state = State::load(&dir)?.unwrap_or_else(|| State::new(subject, commits));
        let engine = Self {
            builds: Builds::new(options.dir.join("builds")),
            options,
            repository,
            state,
            dir,
            interrupt,
            worktree: None,
            schedules,
            _lock: lock,
        };
        if engine.options.fresh {
            let forget = |record: &Record| engine.builds.forget(&engine.key(&record.commit.sha));
            engine.state.records.iter().for_each(forget);
        }
        Ok(engine)
    }

    /// The commits, oldest first, with the one before the range.
    pub fn commits(&self) -> impl Iterator<Item = &Commit> {
        self.state.records.iter().map(|record| &record.commit)
    }

    /// Number of builds that were begun, also by earlier runs of brisk.
    #[must_use]
    pub fn builds(&self) -> usize {
        self.state.builds
    }

    /// Result of the bisection, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        self.state.bisection.as_ref()?.answer()
    }

    /// Path of the log of a commit's build.
    #[must_use]
    pub fn log(&self, sha: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{sha}.log"))
    }

    /// Executes all steps that are left.
    ///
    /// # Errors
    ///
    /// Any. Finished work is kept and will not be repeated.
    pub fn run(
        &mut self,
        measure: &mut dyn Measure,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        let last = self.state.records.len().saturating_sub(1);
        let mut reported = 0;
        let done = loop {
            if let Goal::Walk { step } = self.options.goal {
                self.report_rows(step, &mut reported, observe);
            }
            match self.next(last) {
                Step::Done => break Ok(()),
                step => {
                    if let Err(error) = self.carry_out(step, measure, observe) {
                        break Err(error);
                    }
                }
            }
            if let Err(error) = self.state.save(&self.dir) {
                break Err(error.into());
            }
        };
        self.worktree = None;
        // Also what an interrupted comparison measured.
        self.state.save(&self.dir)?;
        done
    }

    fn next(&mut self, last: usize) -> Step {
        let known = self.state.known();
        match self.options.goal {
            Goal::Walk { step } => {
                let selection = plan::selection(known.len(), step);
                let compared = |place: usize| {
                    let compared = self.state.records[place].compared.as_ref();
                    compared.map(|compared| compared.with)
                };
                plan::walk(&selection, &known, compared)
            }
            Goal::Bisect => self
                .state
                .bisection
                .get_or_insert_with(|| Bisection::new(last, self.schedules.is_none()))
                .next(&known),
        }
    }

    /// Reports the lines of finished commits, in their order and once.
    fn report_rows(&self, step: usize, reported: &mut usize, observe: Observe<'_>) {
        let selection = plan::selection(self.state.records.len(), step);
        let mut booted_before = false;
        for (number, &place) in selection.iter().enumerate() {
            let record = &self.state.records[place];
            let finished = match record.known() {
                Known::Untried => false,
                Known::Useless => true,
                Known::Good => record.compared.is_some() || !booted_before,
            };
            booted_before |= record.known() == Known::Good;
            if !finished {
                return;
            }
            if number >= *reported {
                observe(Event::Row(&self.row(place)));
                *reported = number + 1;
            }
        }
    }

    fn carry_out(
        &mut self,
        step: Step,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<(), Error> {
        match step {
            Step::Done => {}
            Step::Try(place) => {
                self.attempt(place, measure, observe)?;
                if self.options.goal == Goal::Bisect {
                    observe(Event::Row(&self.row(place)));
                }
            }
            Step::Compare {
                before,
                after,
                purpose,
            } => {
                let patience = match purpose {
                    Purpose::Walk => Patience::Little,
                    Purpose::Ends | Purpose::Result => Patience::Much,
                };
                let suspects: &[usize] = match purpose {
                    Purpose::Walk => &[after],
                    Purpose::Ends => &[before, after],
                    Purpose::Result => &[],
                };
                let careful = self.is_careful();
                let quick = self.state.bisection.as_ref().map_or(0, Bisection::quick);
                let schedule = self
                    .schedules
                    .as_ref()
                    .map(|s| s.of(purpose, careful).clone());
                let trial = Trial {
                    before,
                    after,
                    schedule: schedule.as_ref(),
                    patience,
                    suspects,
                };
                let found = self.compare(trial, measure, observe)?;
                let Some(comparison) = found else {
                    return Ok(());
                };
                let direction = match comparison.verdict {
                    Verdict::Slower => Some(Direction::Up),
                    Verdict::Faster => Some(Direction::Down),
                    _ => None,
                };
                self.state.records[after].compared = Some(Compared {
                    with: before,
                    comparison,
                });
                if let Some(bisection) = self
                    .state
                    .bisection
                    .as_mut()
                    .filter(|_| purpose != Purpose::Walk)
                {
                    bisection.compared(direction);
                    if bisection.quick() < quick {
                        let how = if bisection.is_careful() {
                            " with care"
                        } else {
                            ""
                        };
                        observe(Event::Note(&format!(
                            "what a quick search came to is not beyond chance; searching again{how}"
                        )));
                    }
                }
            }
            Step::Side { low, middle, high } => {
                let side = self.any_side([low, middle, high], measure, observe)?;
                if let (Some(bisection), Some(high)) = (&mut self.state.bisection, side) {
                    bisection.sided(middle, high);
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_careful(&self) -> bool {
        let bisection = self.state.bisection.as_ref();
        bisection.is_none_or(Bisection::is_careful)
    }

    /// Builds a commit and boots it once.
    fn attempt(
        &mut self,
        place: usize,
        measure: &mut dyn Measure,
        observe: Observe<'_>,
    ) -> Result<(), Error> {
        let outcome = match self.artifacts(place, observe)? {
            Err(reason) => {
                self.report_log(place, observe);
                Outcome::NotBuilt { reason }
            }
            Ok(artifacts) => {
                let first = self.boot(place, &artifacts, measure, observe)?;
                match first {
                    Err(Unbootable(reason)) => Outcome::NotBooted { reason },
                    Ok(value) => {
                        let mut series = Series::new(self.name(place), self.unit());
                        series.push(match self.options.mode {
                            Mode::Deterministic => Sample::measured(0, value),
                            // The first boot of a build finds cold caches.
                            Mode::WallClock => Sample::warmup(0, value),
                        });
                        Outcome::Booted { series }
                    }
                }
            }
        };
        self.state.records[place].outcome = Some(outcome);
        Ok(())
    }

    /// Reports the log's path of a commit that was not built, if its build was begun.
    fn report_log(&self, place: usize, observe: Observe<'_>) {
        let log = self.log(&self.state.records[place].commit.sha);
        if log.exists() {
            let name = render::shorten(&self.name(place), 70);
            let log = log.display();
            observe(Event::Note(&format!(
                "{name} was not built; its log is {log}"
            )));
        }
    }

    /// The artifacts of a commit, from the cache or built; or the reason why there are none.
    pub(super) fn artifacts(
        &mut self,
        place: usize,
        observe: Observe<'_>,
    ) -> Result<Result<Artifacts, String>, Error> {
        let sha = self.state.records[place].commit.sha.clone();
        let key = self.key(&sha);
        if let Some(artifacts) = self.builds.get(&key, &self.options.artifacts) {
            return Ok(Ok(artifacts));
        }
        self.go_on()?;
        let name = render::shorten(&self.name(place), 70);
        observe(Event::Doing(&format!("building {name}")));
        let worktree = self.worktree()?.path().to_owned();
        let (wanted, clean) = (self.options.artifacts.clone(), self.options.clean);
        match self.worktree()?.checkout(&sha, &wanted, clean) {
            // A filter of one commit may be missing.
            Err(GitError::Program(error)) => return Ok(Err(error.to_string())),
            other => other?,
        }
        self.state.builds += 1;
        let (log, limit) = (self.log(&sha), self.options.build_limit);
        let built = build::run(
            &self.options.build,
            &sha,
            &worktree,
            &log,
            limit,
            &self.interrupt,
        )
        .and_then(|()| self.builds.store(&key, &worktree, &wanted));
        match built {
            Ok(artifacts) => Ok(Ok(artifacts)),
            Err(Failure::Broken(reason)) => Ok(Err(reason)),
            Err(Failure::Interrupted) => Err(Error::Interrupted),
            Err(Failure::System { path, source }) => Err(Error::File { path, source }),
        }
    }

    fn worktree(&mut self) -> Result<&Worktree, Error> {
        if self.worktree.is_none() {
            let dir = self.options.dir.join("worktrees");
            make_dir(&dir).map_err(|source| Error::File {
                path: dir.clone(),
                source,
            })?;
            let name = format!("brisk-{}", self.state.subject.key());
            self.worktree = Some(Worktree::create(&self.repository, &dir, &name)?);
        }
        // It was made above.
        self.worktree.as_ref().ok_or(Error::Interrupted)
    }

    pub(super) fn go_on(&self) -> Result<(), Error> {
        match self.interrupt.came() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn key(&self, sha: &str) -> String {
        let recipe = Recipe {
            repository: self.repository.identity(),
            command: &self.options.build,
            clean: self.options.clean,
            artifacts: &self.options.artifacts,
        };
        Builds::key(&recipe, sha)
    }

    pub(super) fn unit(&self) -> Unit {
        match self.options.mode {
            Mode::WallClock => Unit::Seconds,
            Mode::Deterministic => Unit::Instructions,
        }
    }

    pub(super) fn name(&self, place: usize) -> String {
        let commit = &self.state.records[place].commit;
        let short = commit.sha.get(..12).unwrap_or(&commit.sha);
        format!("{short} {}", commit.subject)
    }
}
