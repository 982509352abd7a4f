//! QEMU's own migration through `zstd -1`, with one thread and with one for each processor.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::qmp::Reader;
use serde_json::{Value, json};

use super::machine::Machine;

/// QEMU's usual 128 MiB a second is for networks.
const UNLIMITED: u64 = 1 << 40;
const ANSWER: Duration = Duration::from_secs(120);

/// What compresses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Zstd {
    /// `zstd -1`: a thread that compresses.
    One,
    /// `zstd -1 -T0`: as many of them as there are cores.
    All,
}

impl Zstd {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::One => &["-1"],
            Self::All => &["-1", "-T0"],
        }
    }
}

/// How it went.
pub(super) struct Migrated {
    /// Seconds.
    pub(super) seconds: f64,
    /// Bytes of the file.
    pub(super) size: f64,
    /// Bytes of pages that are not zero.
    pub(super) raw: f64,
}

/// Migrates once without being counted: the machine's memory is a file, and to look at a hole of
/// it fills that; plain QEMU has pages of zeros there that cost nothing.
pub(super) fn fill(machine: &Machine<'_>, place: &Path) -> anyhow::Result<()> {
    migrate(machine, place, Zstd::One).map(drop)
}

/// The machine to a file in that directory, and on.
pub(super) fn migrate(machine: &Machine<'_>, place: &Path, zstd: Zstd) -> anyhow::Result<Migrated> {
    let file = place.join(format!("brisk-bench-{}.qemu", machine.name));
    let run = machine.bench.dir.join("run/vm").join(machine.name);
    let stream = UnixStream::connect(run.join("qmp.sock"))?;
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
        .args(zstd.words())
        .args(["-q", "-f", "-o"])
        .arg(&file)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start zstd")?;
    let pipe = zstd.stdin.take().context("zstd has no input")?;
    qmp.give("bench", pipe.as_fd())?;
    drop(pipe);
    qmp.execute("migrate", &json!({ "uri": "fd:bench" }))?;
    let status = zstd.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    let written = file.display();
    ensure!(status.success(), "zstd did not write {written}: {status}");
    let raw = loop {
        let answer = qmp.execute("query-migrate", &none)?;
        match answer["status"].as_str() {
            Some("completed") => break answer["ram"]["normal-bytes"].as_f64(),
            Some("failed") => anyhow::bail!("QEMU could not migrate: {answer}"),
            _ => {}
        }
    };
    qmp.execute("cont", &none)?;
    let size = fs::metadata(&file)?.len();
    fs::remove_file(&file)?;
    Ok(Migrated {
        seconds,
        size: size as f64,
        raw: raw.context("QEMU does not say how much it has written")?,
    })
}
