//! Ranges of real repositories, measured by a stand-in for hosts.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_measure::{Clock, Environment, Reading, Report, Unit, render};
use tempfile::TempDir;

use super::*;
use brisk_host::interrupt::{Interrupt, Trigger};

mod ranges;
mod rates;

/// Noise of a restless host, always the same for a seed: a standard deviation of 3 %, a drift of
/// up to 10 % over some hundred runs, and one run of thirty that takes up to twice as long. Or that
/// of a real host.
pub(super) struct Noise {
    state: u64,
    runs: u32,
    /// Times that were measured, one after the other, over their median.
    recorded: Vec<f64>,
}

impl Noise {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            runs: 0,
            recorded: Vec::new(),
        }
    }

    /// As it was when boots were measured for a report, from one of them on and around.
    pub(super) fn recorded(report: &str, seed: u64) -> Self {
        let report: Report = serde_json::from_str(report).unwrap();
        let values = report.series[0].values();
        let median = brisk_measure::Statistic::Median.of(&values).unwrap();
        let mut noise = Self::new(seed);
        noise.recorded = values.iter().map(|value| value / median).collect();
        let from = (noise.unit() * values.len() as f64) as usize;
        noise.recorded.rotate_left(from);
        noise
    }

    /// In [0, 1): Knuth's MMIX generator.
    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = self.state.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// What a run measures.
    pub(super) fn of(&mut self, value: f64) -> f64 {
        self.runs += 1;
        if !self.recorded.is_empty() {
            return value * self.recorded[self.runs as usize % self.recorded.len()];
        }
        // A sum of twelve is normal enough: variance 1.
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        let drift = 0.1 * (f64::from(self.runs) / 150.0).sin();
        let stray = match self.unit() < 1.0 / 30.0 {
            true => 1.0 + self.unit(),
            false => 1.0,
        };
        value * (1.0 + drift) * (1.0 + 0.03 * normal) * stray
    }
}

/// Takes the time that a commit's artifact says, in microseconds; `broken` does not boot.
pub(super) struct Simulated {
    noise: Option<Noise>,
    boots: u32,
    /// Count of a commit with this cost, if it can be counted.
    counts: Option<fn(u64) -> u64>,
    /// Ends the engine after so many boots.
    until: Option<(u32, Trigger)>,
}

impl Simulated {
    fn exact() -> Self {
        Self {
            noise: None,
            boots: 0,
            counts: None,
            until: None,
        }
    }

    fn noisy(seed: u64) -> Self {
        Self {
            noise: Some(Noise::new(seed)),
            ..Self::exact()
        }
    }
}

impl Measure for Simulated {
    fn measure(
        &mut self,
        artifacts: &Artifacts,
        runs: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, Unbootable> {
        self.boots += 1;
        progress("in the kernel");
        if let Some((boots, trigger)) = &self.until {
            if self.boots >= *boots {
                trigger.pull();
            }
        }
        let kernel = artifacts.get(Role::Kernel).unwrap();
        let text = fs::read_to_string(kernel).unwrap();
        let Ok(cost) = text.trim().parse::<u64>() else {
            return Err(Unbootable("kernel panic: \x1b[31mno init".to_owned()));
        };
        let series = match &mut self.noise {
            None => Series::of_values("", Unit::Instructions, vec![cost as f64; runs as usize]),
            Some(noise) => {
                let values = (0..runs).map(|_| noise.of(cost as f64 * 1e-6));
                Series::of_values("", Unit::Seconds, values.collect::<Vec<_>>())
            }
        };
        let clock = Clock::Instructions;
        let mut timeline = Timeline::new(clock);
        timeline
            .activity("firmware", "firmware", 0, 100_000, clock)
            .activity("acpi_init", "initcall", 100_000, cost, clock);
        let timeline = Some(timeline);
        Ok(Measured { series, timeline })
    }

    fn count(&mut self, artifacts: &Artifacts) -> Option<f64> {
        let text = fs::read_to_string(artifacts.get(Role::Kernel)?).unwrap();
        let cost = text.trim().parse().ok()?;
        Some(self.counts?(cost) as f64)
    }
}

/// A repository with a user's unfinished work in its checkout.
pub(super) struct Fixture {
    dir: TempDir,
}

pub(super) fn git(dir: &Path, args: &[&str], input: &str) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(args);
    for variable in git::misleading() {
        command.env_remove(variable);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Fixture {
    /// A commit for each cost, with a subject that is hostile once.
    pub(super) fn new(costs: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("repository");
        fs::create_dir(&repository).unwrap();
        git(
            &repository,
            &["init", "--quiet", "--initial-branch=main"],
            "",
        );
        let mut stream = String::new();
        for (number, cost) in costs.iter().enumerate() {
            let subject = match number {
                3 => "\x1b]0;owned\x07 <b>&\ttab".to_owned(),
                _ => format!("Change {number}"),
            };
            let seconds = 1_700_000_000 + number;
            let _ = writeln!(
                stream,
                "commit refs/heads/main\ncommitter A <a@example.org> {seconds} +0000\ndata {}\n\
                 {subject}\nM 644 inline cost.txt\ndata {}\n{cost}",
                subject.len(),
                cost.len(),
            );
        }
        git(&repository, &["fast-import", "--quiet"], &stream);
        git(&repository, &["reset", "--quiet", "--hard", "main"], "");
        // Hooks are not for commits that brisk looks at.
        let hook = repository.join(".git/hooks/post-checkout");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(
            &hook,
            "#!/bin/sh\ntouch \"$(git rev-parse --git-common-dir)/hooked\"\n",
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&hook, mode).unwrap();
        fs::write(repository.join("cost.txt"), "unfinished work").unwrap();
        fs::write(repository.join("artifact"), "the user's own").unwrap();
        Self { dir }
    }

    /// Commits of which those from `at` on cost more.
    pub(super) fn with_step(commits: usize, at: usize, before: &str, after: &str) -> Self {
        let cost = |number| if number >= at { after } else { before };
        Self::new(&(0..commits).map(cost).collect::<Vec<_>>())
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.dir.path().join("repository")
    }

    pub(super) fn options(&self, mode: Mode, goal: Goal) -> Options {
        let log = self.dir.path().join("built");
        Options {
            repository: self.repository(),
            range: "main~64..main".to_owned(),
            build: format!(
                "echo $BRISK_COMMIT >> {}; cp cost.txt artifact",
                log.display()
            ),
            build_limit: Some(Duration::from_secs(60)),
            clean: false,
            artifacts: vec!["kernel=artifact".parse().unwrap()],
            mode,
            setting: String::new(),
            goal,
            runs: 10,
            max_runs: 40,
            tolerance: None,
            fresh: false,
            dir: self.dir.path().join("cache"),
        }
    }

    /// The builds there were.
    pub(super) fn built(&self) -> usize {
        let log = fs::read_to_string(self.dir.path().join("built"));
        log.unwrap_or_default().lines().count()
    }

    /// What must not change: HEAD, branches, the checkout and what git knows of worktrees.
    pub(super) fn looks(&self) -> String {
        let repository = self.repository();
        let mut looks = git(&repository, &["status", "--porcelain=v2", "--branch"], "");
        looks += &git(&repository, &["worktree", "list"], "");
        looks += &git(&repository, &["for-each-ref"], "");
        looks += &fs::read_to_string(repository.join("cost.txt")).unwrap();
        looks += &fs::read_to_string(repository.join("artifact")).unwrap();
        assert!(!repository.join(".git/hooked").exists());
        looks
    }

    /// What there is of worktrees of ours.
    pub(super) fn worktrees(&self) -> usize {
        let entries = fs::read_dir(self.dir.path().join("cache/worktrees"));
        let dirs = entries.map(|entries| entries.flatten().filter(|e| e.path().is_dir()).count());
        dirs.unwrap_or(0)
    }
}

/// Runs a range to its end; gives the engine and the lines that it reported.
pub(super) fn finish(options: Options, measure: &mut dyn Measure) -> (Engine, Vec<String>) {
    let (engine, rows, _) = run_with_notes(options, measure);
    (engine, rows)
}

/// Runs it as well, and returns the notes besides.
pub(super) fn run_with_notes(
    options: Options,
    measure: &mut dyn Measure,
) -> (Engine, Vec<String>, Vec<String>) {
    let mut engine = Engine::open(options, Interrupt::new().unwrap()).unwrap();
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut observe = |event: Event<'_>| match event {
        Event::Doing(_) => {}
        Event::Row(row) => rows.push(row.to_owned()),
        Event::Note(note) => notes.push(note.to_owned()),
    };
    engine.run(measure, &mut observe).unwrap();
    (engine, rows, notes)
}

pub(super) fn readings(engine: &Engine) -> Vec<Reading> {
    let report = engine.report("2025-01-01T12:00:00Z", Environment::default());
    let history = report.history.unwrap();
    history
        .points
        .into_iter()
        .map(|point| point.reading)
        .collect()
}

pub(super) fn shown(engine: &Engine) -> String {
    render::table(&engine.report("2025-01-01T12:00:00Z", Environment::default()))
}
