//! `cargo xtask bench-suspend`: a machine suspended by brisk and by QEMU's own migration, by turns.
//!
//! The guest has 2 GiB with the host's libraries in memory. Rates are bytes of its memory that are
//! not zero in a second, without the final fsync; QEMU's is until `zstd -1` has written its last
//! byte. The report is saved after every round.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use brisk_measure::{Report, Sample, Unit, render};
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::qmp::Reader;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::bench::{environment, progress, say};
use crate::goals::{Bound, Goal, judge};

/// What is measured, and where it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The brisk to measure.
    #[arg(long, default_value = "target/release/brisk")]
    brisk: PathBuf,
    /// Rounds that count.
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Directories that images are written to, each measured by itself.
    #[arg(long, required = true)]
    place: Vec<PathBuf>,
    /// Directory of the report.
    #[arg(long)]
    out: PathBuf,
}

const QEMU: &str = "QEMU, zstd -1";
const ZSTD: &str = "suspend, zstd:1";
const ONE: &str = "suspend, zstd:1, one thread";
const LZ4: &str = "suspend, lz4";
const SMALL: &str = "image, zstd:1";
const SMALL_QEMU: &str = "image of QEMU, zstd -1";
const GOALS: [Goal; 4] = [
    Goal {
        subject: ZSTD,
        base: QEMU,
        bound: Bound::AtLeast(2.0),
    },
    Goal {
        subject: LZ4,
        base: QEMU,
        bound: Bound::AtLeast(2.4),
    },
    Goal {
        subject: ZSTD,
        base: ONE,
        bound: Bound::AtLeast(1.8),
    },
    Goal {
        subject: SMALL,
        base: SMALL_QEMU,
        bound: Bound::AtMost(1.02),
    },
];
/// QEMU's usual 128 MiB a second is for networks.
const UNLIMITED: u64 = 1 << 40;
const ANSWER: Duration = Duration::from_secs(120);

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let brisk = fs::canonicalize(&args.brisk)
        .with_context(|| format!("{} is not built", args.brisk.display()))?;
    let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
    let machine = Machine {
        brisk,
        dir: scratch.path().to_owned(),
    };
    machine.fill()?;
    let now = jiff::Timestamp::now().to_string();
    let mut report = Report::new("bench", now, environment());
    let path = args.out.join("suspend.json");
    for round in 0..args.warmup + args.runs {
        let counts = round >= args.warmup;
        for place in &args.place {
            let mut put = |name: &str, unit, value| {
                let name = at(place, name);
                let sample = match counts {
                    true => Sample::measured(round - args.warmup, value),
                    false => Sample::warmup(round, value),
                };
                report.series_mut(&name, unit).push(sample);
            };
            machine.round(place, &mut put)?;
        }
        report.save(&path)?;
        progress(round + 1, args.warmup + args.runs);
    }
    let verdicts: String = args
        .place
        .iter()
        .map(|place| judge(&mut report, &GOALS, |name| at(place, name)))
        .collect();
    report.warn();
    report.save(&path)?;
    let text = format!("{}\n{verdicts}", render::table(&report));
    fs::write(args.out.join("suspend.csv"), render::csv(&report))?;
    fs::write(args.out.join("suspend.txt"), &text)?;
    say(&text);
    Ok(())
}

/// The name of a series at a place.
fn at(place: &Path, name: &str) -> String {
    format!("{}: {name}", place.display())
}

/// The machine that is measured; its name is `m`.
struct Machine {
    brisk: PathBuf,
    dir: PathBuf,
}

impl Machine {
    fn vm(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.brisk);
        command.arg("vm").args(words);
        for (name, dir) in [("CONFIG", "config"), ("STATE", "state"), ("RUNTIME", "run")] {
            command.env(format!("BRISK_{name}_DIR"), self.dir.join(dir));
        }
        command.stdin(Stdio::null());
        command
    }

    /// What it says, in both ways.
    fn does(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = self.vm(words).output().context("cannot start brisk")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        ensure!(output.status.success(), "brisk vm {words:?}: {said}");
        Ok(said)
    }

    /// Boots it and gives it the host's libraries.
    fn fill(&self) -> anyhow::Result<()> {
        self.does(&["create", "m", "--memory", "2G", "--incremental=false"])?;
        self.does(&["start", "m"])?;
        let mut tar = Command::new("tar")
            .args(["-c", "-C", "/usr/lib", "x86_64-linux-gnu"])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start tar")?;
        let libraries = tar.stdout.take().context("tar has no output")?;
        let script = "mkdir /m && mount -t tmpfs -o size=1100M none /m && \
             head -c 1073741824 > /m/libraries; cat > /dev/null; du -m /m";
        let mut fill = self.vm(&["exec", "m", "--", "sh", "-c", script]);
        let filled = fill.stdin(libraries).output()?;
        tar.wait()?;
        ensure!(filled.status.success(), "the guest cannot be filled");
        Ok(())
    }

    /// Everything once.
    fn round(&self, place: &Path, put: &mut dyn FnMut(&str, Unit, f64)) -> anyhow::Result<()> {
        let image = place.join("brisk-bench.image");
        let path = image.to_str().context("a place that is no text")?;
        self.does(&["set", "m", "--suspend-path", path])?;
        let file = place.join("brisk-bench.qemu");
        // Its memory is a file, and to look at a hole of it fills that; plain QEMU has pages of
        // zeros there that cost nothing. So the first one does not count.
        self.migrate(&file)?;
        let (elapsed, size) = self.migrate(&file)?;
        self.does(&["suspend", "m"])?;
        self.does(&["resume", "--eager", "m"])?;
        let mut raw = 0.0;
        for (name, compression, threads, eager) in [
            (ZSTD, "zstd:1", "0", true),
            (ONE, "zstd:1", "1", false),
            (LZ4, "lz4", "0", false),
        ] {
            let words = [
                "set",
                "m",
                "--compression",
                compression,
                "--threads",
                threads,
            ];
            self.does(&words)?;
            let said = self.does(&["suspend", "m"])?;
            let [bytes, rate] = figures(&said)?;
            raw = bytes;
            put(name, Unit::BytesPerSecond, rate);
            if compression == "zstd:1" && threads == "0" {
                put(SMALL, Unit::Bytes, fs::metadata(&image)?.len() as f64);
            }
            let words: &[&str] = match eager {
                true => &["resume", "--eager", "m"],
                false => &["resume", "m"],
            };
            let said = self.does(words)?;
            let running = number_before(&said, " s: ").context("no time of the resume")?;
            if eager {
                let loading = said
                    .rsplit_once("loaded in ")
                    .context("no time of loading")?
                    .1;
                let loading = number_before(loading, " s").context("no time of loading")?;
                put("load, zstd:1", Unit::BytesPerSecond, raw / loading);
            } else {
                put("lazy resume until the guest runs", Unit::Seconds, running);
                self.wait_for_memory(&image)?;
            }
        }
        put(QEMU, Unit::BytesPerSecond, raw / elapsed);
        put(SMALL_QEMU, Unit::Bytes, size);
        Ok(())
    }

    /// Until nobody reads the image any more.
    fn wait_for_memory(&self, image: &Path) -> anyhow::Result<()> {
        let mut resumed = image.as_os_str().to_owned();
        resumed.push(".resumed");
        let Ok(file) = File::open(resumed) else {
            return Ok(());
        };
        // Who serves it holds the lock until it is done.
        Ok(flock(&file, FlockOperation::LockShared)?)
    }

    /// QEMU's migration of the same machine to a file; seconds and bytes.
    fn migrate(&self, file: &Path) -> anyhow::Result<(f64, f64)> {
        let stream = UnixStream::connect(self.dir.join("run/vm/m/qmp.sock"))?;
        stream.set_nonblocking(true)?;
        let mut qmp = Control::new(&stream, Reader::default(), ANSWER);
        let none = Value::Null;
        qmp.execute("qmp_capabilities", &none)?;
        let shared = json!({ "capability": "x-ignore-shared", "state": false });
        qmp.execute(
            "migrate-set-capabilities",
            &json!({ "capabilities": [shared] }),
        )?;
        qmp.execute(
            "migrate-set-parameters",
            &json!({ "max-bandwidth": UNLIMITED }),
        )?;
        qmp.execute("stop", &none)?;
        let begun = Instant::now();
        let mut zstd = Command::new("zstd")
            .args(["-1", "-q", "-f", "-o"])
            .arg(file)
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start zstd")?;
        let pipe = zstd.stdin.take().context("zstd has no input")?;
        qmp.give("bench", pipe.as_fd())?;
        drop(pipe);
        qmp.execute("migrate", &json!({ "uri": "fd:bench" }))?;
        let status = zstd.wait()?;
        let elapsed = begun.elapsed().as_secs_f64();
        ensure!(status.success(), "zstd: {status}");
        loop {
            let answer = qmp.execute("query-migrate", &none)?;
            match answer["status"].as_str() {
                Some("completed") => break,
                Some("failed") => anyhow::bail!("QEMU could not migrate: {answer}"),
                _ => {}
            }
        }
        qmp.execute("cont", &none)?;
        let size = fs::metadata(file)?.len();
        fs::remove_file(file)?;
        Ok((elapsed, size as f64))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may be off.
        let _ = self.vm(&["kill", "m"]).output();
    }
}

/// Bytes and bytes a second of `raw-fast-fsync: 857 MB in 1.40 sec 610.5 MB/s`.
fn figures(said: &str) -> anyhow::Result<[f64; 2]> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("raw-fast-fsync: "));
    let line = line.context("no raw-fast-fsync")?;
    let bytes = number_before(line, " MB in").context("no bytes")?;
    let rate = line.rsplit_once("sec ").map(|(_, rest)| rest);
    let rate = rate.and_then(|rest| number_before(rest, " MB/s"));
    Ok([bytes * 1e6, rate.context("no rate")? * 1e6])
}

/// The number that ends where `mark` begins.
fn number_before(text: &str, mark: &str) -> Option<f64> {
    let before = text.split_once(mark)?.0;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_suspend_says_is_understood() {
        let said =
            "raw: 857 MB in 1.41 sec 609.5 MB/s\nraw-fast-fsync: 857 MB in 1.40 sec 610.5 MB/s\n";
        assert_eq!(figures(said).unwrap(), [857e6, 610.5e6]);
        let resumed = "m runs again after 0.125 s: 134 MB of memory come as it needs them";
        assert_eq!(number_before(resumed, " s: "), Some(0.125));
    }
}
