//! Facts about processes from `/proc` (proc(5)), below a root that tests put elsewhere.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::files::{self, Durability};

/// A directory like `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Procfs(PathBuf);

impl Default for Procfs {
    fn default() -> Self {
        Self("/proc".into())
    }
}

impl Procfs {
    /// The `proc` directory below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self(root.join("proc"))
    }

    /// Numbers of the processes, in no order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(numbers)
    }

    /// Command line of a process, one word each, without NUL bytes.
    ///
    /// # Errors
    /// If the process has ended, or `/proc` hides it.
    pub fn words(&self, pid: u32) -> io::Result<Vec<Vec<u8>>> {
        let line = read(&self.0.join(pid.to_string()).join("cmdline"))?;
        let line = line.strip_suffix(&[0]).unwrap_or(&line);
        Ok(line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// Inodes of the sockets that a process has open; none if only its owner and root may see them.
    #[must_use]
    pub fn sockets(&self, pid: u32) -> Vec<u32> {
        let files = fs::read_dir(self.0.join(pid.to_string()).join("fd"));
        let links = files.into_iter().flatten().flatten();
        let inode = |link: PathBuf| {
            let name = link.to_str()?.strip_prefix("socket:[")?;
            name.strip_suffix(']')?.parse().ok()
        };
        links
            .filter_map(|file| fs::read_link(file.path()).ok().and_then(inode))
            .collect()
    }

    /// Status of a process, from `stat`.
    ///
    /// # Errors
    /// If the process has ended, or the file has another format.
    pub fn stat(&self, pid: u32) -> io::Result<Stat> {
        self.read_stat(Path::new(&pid.to_string()))
    }

    /// Number of the user who runs a process, its real one (`Uid` in `status`).
    ///
    /// # Errors
    /// If it has ended, or `/proc` hides it.
    pub fn user(&self, pid: u32) -> io::Result<u32> {
        let status = read(&self.0.join(pid.to_string()).join("status"))?;
        let status = String::from_utf8_lossy(&status);
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let real = users.and_then(|users| users.split_ascii_whitespace().next()?.parse().ok());
        real.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether processes of other users are shown: with `hidepid` (proc(5)) the first one, which is
    /// root's, is hidden from all but root.
    #[must_use]
    pub fn shows_others(&self) -> bool {
        self.words(1).is_ok()
    }

    /// Whether a process ignores a signal (`SigIgn` in `status`).
    ///
    /// # Errors
    /// If it has ended.
    pub fn ignores(&self, pid: u32, signal: i32) -> io::Result<bool> {
        let status = fs::read_to_string(self.0.join(pid.to_string()).join("status"))?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Ok(mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1))
    }

    /// What `stat` says of a thread.
    ///
    /// # Errors
    /// If the thread has ended, or the file has another format.
    pub fn thread_stat(&self, pid: u32, thread: u64) -> io::Result<Stat> {
        self.read_stat(&Path::new(&pid.to_string()).join(format!("task/{thread}")))
    }

    /// Writes a process's number, its start and this boot to a file, by which [`Self::recorded`] finds
    /// it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&self, pid: u32, path: &Path) -> io::Result<()> {
        let started = self.stat(pid).map_or(0, |stat| stat.start_ticks);
        let boot = self.boot_id().unwrap_or_default();
        let line = format!("{pid} {started} {boot}\n");
        files::replace(path, line.as_bytes(), Durability::Atomic)
    }

    /// The process that a file of [`Self::record`] names, if it lives: one that has its number by
    /// now is another, and one that has ended and is not reaped yet does not live.
    #[must_use]
    pub fn recorded(&self, path: &Path) -> Option<u32> {
        let text = String::from_utf8(files::read_own(path, RECORD).ok()?).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?);
        // Boots are alike: another process may have the number and the start of one before. Files of
        // earlier versions do not say it.
        if words
            .next()
            .is_some_and(|boot| self.boot_id().as_deref() != Some(boot))
        {
            return None;
        }
        let mut stat = self.stat(pid).ok()?;
        if stat.is_exiting {
            // Its memory is gone before its files are closed and their locks released.
            wait_for_end(pid);
            stat = self.stat(pid).ok()?;
        }
        let lives = stat.state != 'Z';
        (lives && stat.start_ticks.to_string() == started).then_some(pid)
    }

    /// Identifies this boot of the host.
    #[must_use]
    pub fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string(self.0.join("sys/kernel/random/boot_id")).ok()?;
        Some(id.trim().to_owned())
    }

    /// Load averages.
    #[must_use]
    pub fn load(&self) -> Option<Load> {
        Load::parse(&fs::read_to_string(self.0.join("loadavg")).ok()?)
    }

    /// Memory of the host, bytes.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.of_memory("MemTotal:")
    }

    /// Memory that programs can have without swapping, bytes.
    #[must_use]
    pub fn available_memory(&self) -> Option<u64> {
        self.of_memory("MemAvailable:")
    }

    /// Memory that programs can have, bytes, if that is less than `needed`. None where the kernel does
    /// not say.
    #[must_use]
    pub fn less_memory_than(&self, needed: u64) -> Option<u64> {
        self.available_memory()
            .filter(|available| *available < needed)
    }

    fn of_memory(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.0.join("meminfo")).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        kib.checked_mul(1024)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    fn read_stat(&self, of: &Path) -> io::Result<Stat> {
        let bytes = read(&self.0.join(of).join("stat"))?;
        Stat::parse(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Most bytes of a record of a process.
const RECORD: u64 = 4096;
/// Room for the usual files.
const FILE: usize = 4096;

/// Contents of a file below `/proc`. [`fs::read`] would ask for its size, which is 0, and then read
/// it in small parts.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FILE);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fields of `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// State, such as `R`, `S` or `Z`.
    pub state: char,
    /// Start time, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Whether the process is about to end (`PF_EXITING`).
    pub is_exiting: bool,
}

/// `PF_EXITING` of `include/linux/sched.h`.
const EXITING: u64 = 0x4;
/// Longest wait for the end of a process that is about to end.
const ENDING: Duration = Duration::from_secs(2);

/// Waits until a process that is about to end has ended, up to [`ENDING`].
fn wait_for_end(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let _ = wait_for(&mut fds, Some(Instant::now() + ENDING));
    }
}

/// Fields of the text of `/proc/PID/stat` from the third on, the state. The name before it, in
/// brackets, may have any characters.
pub(crate) fn stat_fields(text: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let after = text.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&text[after + 1..]).ok()?;
    Some(text.split_ascii_whitespace())
}

impl Stat {
    /// Parses the text of the file.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = stat_fields(text)?;
        // Fields 3, 9 and 22.
        let state = fields.next()?.chars().next()?;
        let flags: u64 = fields.nth(5)?.parse().ok()?;
        let start_ticks = fields.nth(12)?.parse().ok()?;
        Some(Self {
            state,
            start_ticks,
            is_exiting: flags & EXITING != 0,
        })
    }
}

/// Load averages (proc_loadavg(5)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Average of the last minute.
    pub minute: f64,
    /// Threads that run or are runnable, the reader among them.
    pub runnable: usize,
}

impl Load {
    /// Parses the text of the file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let minute = fields.next()?.parse().ok()?;
        let runnable = fields.nth(2)?.split('/').next()?.parse().ok()?;
        Some(Self { minute, runnable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_start_are_found_behind_any_name() {
        let stat = "31470 (a) R) S 1 31470 31470 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 4 0 777 9 9";
        let state = 'S';
        assert_eq!(
            Stat::parse(stat.as_bytes()),
            Some(Stat {
                state,
                start_ticks: 777,
                is_exiting: false
            })
        );
        // PF_EXITING, besides two other flags.
        let exiting = stat.replace(" 4194560 ", " 4194564 ");
        assert!(Stat::parse(exiting.as_bytes()).unwrap().is_exiting);
        let wild = [b"1 (\xff\xfe\n) ", &stat.as_bytes()[12..]].concat();
        assert_eq!(
            Stat::parse(&wild),
            Some(Stat {
                state,
                start_ticks: 777,
                is_exiting: false
            })
        );
        for text in ["nothing", "1 (a) S 1", "1 (a)", ""] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_known() {
        let proc = Procfs::default();
        let me = std::process::id();
        assert!(proc.processes().unwrap().contains(&me));
        assert!(proc.stat(me).unwrap().start_ticks > 0);
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        // A test runs as it is asked.
        assert_eq!(proc.thread_stat(me, thread).unwrap().state, 'R');
        let words = proc.words(me).unwrap();
        let program = std::env::args().next().unwrap();
        assert_eq!(words[0], program.as_bytes());
        assert!(proc.memory().unwrap() > 1 << 20);
        assert!(proc.boot_id().is_some());
    }

    #[test]
    fn a_recorded_process_is_known_as_long_as_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("process");
        let proc = Procfs::default();
        let me = std::process::id();
        proc.record(me, &path).unwrap();
        assert_eq!(proc.recorded(&path), Some(me));
        // Another one with this number.
        fs::write(&path, format!("{me} 1\n")).unwrap();
        assert_eq!(proc.recorded(&path), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        proc.record(id, &path).unwrap();
        child.wait().unwrap();
        assert_eq!(proc.recorded(&path), None);
        for text in ["", "x", "1", "1 2 3"] {
            fs::write(&path, text).unwrap();
            assert_eq!(proc.recorded(&path), None, "{text}");
        }
    }

    #[test]
    fn words_may_be_empty_or_not_text() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/7");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cmdline"), b"a\0\0\xff\0").unwrap();
        let words = Procfs::below(root.path()).words(7).unwrap();
        assert_eq!(words, [b"a".to_vec(), Vec::new(), vec![0xff]]);
        assert!(Procfs::below(root.path()).words(8).is_err());
    }

    #[test]
    fn ignored_signals_are_found_in_the_mask() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("proc/7");
        fs::create_dir_all(&dir).unwrap();
        let status = "Name:\tbrisk\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        fs::write(dir.join("status"), status).unwrap();
        let proc = Procfs::below(root.path());
        let ignored = [1, 2, 13].map(|signal| proc.ignores(7, signal).unwrap());
        assert_eq!(ignored, [true, false, true]);
        assert!(proc.ignores(8, 1).is_err());
    }

    #[test]
    fn loads_are_read() {
        let load = Load::parse("0.20 0.18 0.12 3/80 11206\n").unwrap();
        assert_eq!((load.minute, load.runnable), (0.2, 3));
        for text in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 1"] {
            assert_eq!(Load::parse(text), None, "{text}");
        }
    }
}
