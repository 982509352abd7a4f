//! `cargo xtask bench-versions`: one brisk beside an earlier one, in turn, in each round.
//!
//! Each round starts every command once with each version, the versions in a random order. The
//! earlier one is measured twice: what it differs from itself is the noise floor.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use brisk_experiment::environment;
use brisk_experiment::{Experiment, Naming, Plan, Readings, Saved};
use brisk_host::interrupt::Interrupt;
use brisk_measure::{CompareOptions, Report, Unit, render};
use tempfile::TempDir;

use crate::bench::{ended, say, say_round};

/// Options of `cargo xtask bench-versions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The earlier brisk.
    #[arg(long)]
    before: PathBuf,
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    after: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 20)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 2)]
    warmup: u32,
    /// Memory that a guest fills with random bytes before each suspend, MiB.
    ///
    /// That much is written anew, and read by an eager resume: it makes the time that does not
    /// depend on the guest, which varies most, a small part of the whole.
    #[arg(long, default_value_t = 100)]
    fill: u32,
    /// QEMU for both, where they would choose different ones.
    #[arg(long)]
    qemu: Option<PathBuf>,
    /// Directory of the reports.
    #[arg(long)]
    out: PathBuf,
}

/// A command that is timed, by the words of its series.
const CASES: [(&str, &[&str]); 5] = [
    (
        "run --root none -- true",
        &["run", "--accel", "tcg", "--root", "none", "--", "true"],
    ),
    (
        "run --warm --root none -- true",
        &[
            "run", "--accel", "tcg", "--warm", "--root", "none", "--", "true",
        ],
    ),
    ("vm suspend", &["vm", "suspend", "a"]),
    ("vm resume", &["vm", "resume", "a"]),
    ("vm resume --eager", &["vm", "resume", "--eager", "a"]),
];
/// The version that the others are compared with, and its repetition.
const BEFORE: usize = 0;
const AGAIN: usize = 1;
/// Memory of a guest beside what it fills, MiB.
const REST: u32 = 412;

/// A brisk with directories of its own.
struct Version {
    name: &'static str,
    program: PathBuf,
    files: TempDir,
    memory: TempDir,
    path: Option<std::ffi::OsString>,
    fill: u32,
}

impl Version {
    fn new(
        name: &'static str,
        program: &Path,
        path: Option<std::ffi::OsString>,
        fill: u32,
    ) -> anyhow::Result<Self> {
        let program = fs::canonicalize(program)
            .with_context(|| format!("{} is not built", program.display()))?;
        Ok(Self {
            name,
            program,
            files: TempDir::new()?,
            memory: tempfile::Builder::new()
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in("/dev/shm")?,
            path,
            fill,
        })
    }

    /// Whole time of a command, s; or why it failed.
    fn time(&self, words: &[&str]) -> anyhow::Result<Result<f64, String>> {
        let dir = self.files.path();
        let mut command = Command::new(&self.program);
        command.args(words);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
            .env("BRISK_CACHE_DIR", dir.join("cache"))
            .env("BRISK_STATE_DIR", dir.join("state"))
            .env("BRISK_CONFIG_DIR", dir.join("config"))
            .env("BRISK_RUNTIME_DIR", self.memory.path().join("run"))
            .env("BRISK_WARM_DIR", self.memory.path())
            .stdin(Stdio::null());
        let begun = Instant::now();
        let output = command.output().context("cannot start brisk")?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(match output.status.success() {
            true => Ok(seconds),
            false => Err(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        })
    }

    fn must(&self, words: &[&str]) -> anyhow::Result<()> {
        let failed = self.time(words)?.err();
        ensure!(
            failed.is_none(),
            "{} {words:?}: {}",
            self.name,
            failed.unwrap_or_default()
        );
        Ok(())
    }

    /// Has it what it has after the first run of everything.
    fn prepare(&self) -> anyhow::Result<()> {
        let memory = format!("{}M", self.fill + REST);
        self.must(&["vm", "create", "a", "--memory", &memory])?;
        self.must(&["vm", "start", "a"])?;
        self.work()
    }

    /// Fills some of the guest's memory with new random bytes.
    fn work(&self) -> anyhow::Result<()> {
        let script = format!(
            "busybox dd if=/dev/urandom of=/data bs=1M count={} conv=notrunc 2>/dev/null",
            self.fill
        );
        self.must(&["vm", "exec", "a", "--", "sh", "-c", &script])
    }

    /// One after the other, what each needs before it.
    fn round(&self, readings: &mut Readings) -> anyhow::Result<()> {
        let mut take = |name: &str, seconds| readings.put(name, Unit::Seconds, seconds);
        let [run, warm, suspend, resume, eager] = CASES;
        for (name, words) in [run, warm] {
            take(name, self.time(words)?);
        }
        self.work()?;
        for (name, words) in [suspend, resume] {
            take(name, self.time(words)?);
        }
        // It waits for all of the memory.
        self.must(suspend.1)?;
        take(eager.0, self.time(eager.1)?);
        Ok(())
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        let _ = self.time(&["vm", "kill", "a"]);
    }
}

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let path = args.qemu.as_deref().and_then(Path::parent).map(|dir| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(dir.to_owned()).chain(std::env::split_paths(&path));
        std::env::join_paths(all)
    });
    let path = path.transpose()?;
    let new = |name, program: &Path| Version::new(name, program, path.clone(), args.fill);
    // An interruption leaves no guest behind: they are killed as this returns.
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let versions = [
        new("before", &args.before)?,
        new("before again", &args.before)?,
        new("after", &args.after)?,
    ];
    for version in &versions {
        version.prepare()?;
    }
    let mut report = Report::new(
        "bench",
        jiff::Timestamp::now().to_string(),
        environment::here(),
    );
    let file = args.out.join("versions.json");
    let names = versions.each_ref().map(|version| version.name);
    let plan = Plan::new(names, args.runs)
        .warmups(args.warmup)
        .naming(Naming::MetricFirst)
        .repeats(AGAIN, BEFORE);
    Experiment::new(&plan, &interrupt)
        .on_round(say_round)
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            versions[turn.side].round(readings)
        })
        .map_err(ended)?;
    for (name, _) in CASES {
        let found = plan.comparisons(&report.series, name, BEFORE, &CompareOptions::default());
        report.comparisons.extend(found);
    }
    report.warn();
    report.save(&file)?;
    let text = render::table(&report);
    fs::write(args.out.join("versions.txt"), &text)?;
    say(&text);
    Ok(())
}
