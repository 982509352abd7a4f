//! Memory of this host that guests restored from one template take.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};

/// So many at once.
pub(crate) const CLONES: usize = 20;
const LINE: &[u8] = b"here\n";

/// Runs that wait, until this is dropped.
struct Clones(Vec<Child>);

impl Drop for Clones {
    fn drop(&mut self) {
        for clone in &mut self.0 {
            drop(clone.stdin.take());
        }
        for clone in &mut self.0 {
            // Nothing is measured any more, and a failed one has reported that.
            let _ = clone.wait();
        }
    }
}

/// Starts `words`, runs of `cat`, all at once, and when each guest has answered returns the bytes
/// that one of them adds, its share of what they share included (proportional set size): brisk,
/// its QEMU and all others.
pub(crate) fn memory_of_each(words: &[String]) -> anyhow::Result<f64> {
    let mut clones = Clones(Vec::new());
    for _ in 0..CLONES {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let child = command.spawn().context("cannot start brisk")?;
        clones.0.push(child);
    }
    for clone in &mut clones.0 {
        let mut stdin = clone.stdin.as_ref().context("a pipe")?;
        stdin.write_all(LINE).context("a clone has ended")?;
    }
    for clone in &mut clones.0 {
        let mut line = [0; LINE.len()];
        let stdout = clone.stdout.as_mut().context("a pipe")?;
        stdout
            .read_exact(&mut line)
            .context("a clone has not answered")?;
        ensure!(line == LINE, "a clone answered {line:?}");
    }
    let parents = parents()?;
    let ours: Vec<u32> = clones.0.iter().map(Child::id).collect();
    let descends = |process: &u32| {
        let mut process = *process;
        loop {
            if ours.contains(&process) {
                return true;
            }
            match parents.get(&process) {
                Some(parent) => process = *parent,
                None => return false,
            }
        }
    };
    let all: Vec<_> = parents.keys().filter(|process| descends(process)).collect();
    let sum = all
        .into_iter()
        .map(|process| share_of(*process))
        .sum::<anyhow::Result<f64>>()?;
    Ok(sum / CLONES as f64)
}

/// The parent of each process.
fn parents() -> anyhow::Result<HashMap<u32, u32>> {
    let entries = fs::read_dir("/proc").context("cannot list processes")?;
    let parent = |entry: fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((process, parent_in(&stat)?))
    };
    Ok(entries.flatten().filter_map(parent).collect())
}

/// Of a process, in proc_pid_stat(5).
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Its proportional set size, bytes.
fn share_of(process: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    share_in(&text).with_context(|| format!("{path} has no Pss"))
}

fn share_in(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert_eq!(parent_in("7 (a) b) S 5 7 7 0"), Some(5));
        assert_eq!(parent_in("7"), None);
        let text = "00400000-7fff ---p 00000000 00:00 0 [rollup]\nRss:  9 kB\nPss:      12 kB\n";
        assert_eq!(share_in(text), Some(12.0 * 1024.0));
        assert_eq!(share_in("Rss: 9 kB\n"), None);
        let own = std::process::id();
        assert!(parents().expect("/proc").contains_key(&own));
        assert!(share_of(own).expect("own memory") > 0.0);
    }
}
