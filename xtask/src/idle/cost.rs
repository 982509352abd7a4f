//! CPU time of a command that watches.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Seconds between two looks.
const WINDOW: u64 = 5;

/// A command that watches for a time.
pub(super) struct Watcher {
    words: Vec<String>,
    /// The words that say how long, by seconds.
    time: fn(u64) -> Vec<String>,
}

impl Watcher {
    pub(super) fn brisk(words: Vec<String>) -> Self {
        Self {
            words,
            time: |seconds| vec!["--time".into(), seconds.to_string()],
        }
    }

    /// top(1), which looks at all threads of the host and has no time of its own: one look more
    /// than windows.
    pub(super) fn top() -> Self {
        let words = ["top", "-b", "-H", "-d", "5"];
        Self {
            words: words.map(str::to_owned).into(),
            time: |seconds| vec!["-n".into(), (seconds / WINDOW + 1).to_string()],
        }
    }

    /// Time on CPUs, and the whole time, of watching for so many seconds.
    fn run(&self, seconds: u64) -> anyhow::Result<(Duration, Duration)> {
        let begun = Instant::now();
        let child = Command::new(&self.words[0])
            .args(&self.words[1..])
            .args((self.time)(seconds))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", self.words[0]))?;
        let (status, usage) = brisk_sys::wait_with_usage(child)?;
        ensure!(status.success(), "{}: {status}", self.words.join(" "));
        Ok((usage.cpu, begun.elapsed()))
    }
}

/// Cost in percent of a CPU.
#[derive(Debug, PartialEq)]
pub(super) struct Cost {
    /// Of the command from its start to its end.
    pub(super) whole: f64,
    /// Of what a longer time costs more.
    pub(super) watching: f64,
}

/// Cost of watching for that many seconds.
pub(super) fn cost(watcher: &Watcher, seconds: u64) -> anyhow::Result<Cost> {
    let long = watcher.run(seconds)?;
    let short = watcher.run(WINDOW)?;
    Ok(between(short, long))
}

/// Of two runs, each with its time on CPUs and its whole time.
fn between(short: (Duration, Duration), long: (Duration, Duration)) -> Cost {
    let percent = |cpu: f64, whole: f64| cpu / whole * 100.0;
    let [short, long] = [short, long].map(|(cpu, whole)| (cpu.as_secs_f64(), whole.as_secs_f64()));
    Cost {
        whole: percent(long.0, long.1),
        watching: percent(long.0 - short.0, long.1 - short.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_watching_costs_is_without_the_start() {
        let run = |cpu, whole| (Duration::from_millis(cpu), Duration::from_secs(whole));
        let found = between(run(50, 5), run(100, 55));
        assert!((found.watching - 0.1).abs() < 1e-9, "{found:?}");
        assert!((found.whole - 100.0 * 0.1 / 55.0).abs() < 1e-9, "{found:?}");
    }
}
