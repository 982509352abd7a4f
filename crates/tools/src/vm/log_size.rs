//! Size limit of a running VM's console and error files.
//!
//! QEMU appends to the files by itself, so that nothing is lost if brisk is killed. A process of
//! brisk's waits for changes, and removes the oldest part of a file that has become too long. It
//! ends with QEMU.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use brisk_host::files::{self, Durability};
use brisk_sys::{Sharing, is_taken, try_lock, wait_for};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::background::{self, Priority};
use super::error::{Error, file};
use super::paths::VmPaths;
use super::process;

/// Longest file, bytes; a guest may exceed that by what it writes in [`PAUSE`].
const LONGEST: u64 = 4 << 20;
/// Bytes at the end of a longer file that are kept.
const KEPT: u64 = 2 << 20;
/// Time between two checks. A guest that writes all the time costs no more than that.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the process that limits the files of a running VM. The VM also runs without that process.
pub(super) fn start(paths: &VmPaths) -> Option<u32> {
    let words = ["vm", "bound-logs", &paths.name];
    let started = background::command(&words, Priority::Idle).and_then(|mut bound| bound.spawn());
    let note = |error| paths.note(&format!("Its console is kept at any length: {error}"));
    started.map_err(note).ok().map(|child| child.id())
}

/// Starts that process again if it was killed.
pub(super) fn look_after(paths: &VmPaths) {
    let gone = || {
        let taken = lock(paths).and_then(|lock| {
            let taken = is_taken(&lock);
            taken.map_err(file("lock", paths.runtime()))
        });
        matches!(taken, Ok(false))
    };
    if paths.runtime().exists() && process::pid(paths).is_some() && gone() {
        start(paths);
    }
}

/// Lock of the process that limits the files.
fn lock(paths: &VmPaths) -> Result<File, Error> {
    let path = paths.runtime().join("bound-logs");
    files::open_lock(&path).map_err(file("open", path))
}

/// Limits the files of a VM until its QEMU ends.
///
/// # Errors
/// If the files cannot be watched.
pub fn bound_logs(paths: &VmPaths) -> Result<(), Error> {
    let Some(pid) = process::pid(paths) else {
        return Ok(());
    };
    let process =
        Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // Another process may have had the number by then.
    let Some(process) = process.filter(|_| process::pid(paths) == Some(pid)) else {
        return Ok(());
    };
    let lock = lock(paths)?;
    if !try_lock(&lock, Sharing::Exclusive).unwrap_or(false) {
        return Ok(());
    }
    let files = paths.runtime_files();
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let watch =
        inotify::init(flags).map_err(|errno| file("watch", &files.console)(errno.into()))?;
    for path in [&files.console, &files.errors] {
        inotify::add_watch(&watch, path, inotify::WatchFlags::MODIFY)
            .map_err(|errno| file("watch", path)(errno.into()))?;
    }
    loop {
        // What fails now, for want of room, may not the next time.
        if shorten(&files.console, LONGEST, KEPT).unwrap_or(false) {
            // All of it is from this start of the VM.
            let start = paths.console_start();
            let _ = files::replace(&start, b"0", Durability::Atomic);
        }
        let _ = shorten(&files.errors, LONGEST, KEPT);
        let ended = |others: &[PollFd<'_>], deadline| {
            let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
            fds.extend_from_slice(others);
            let waited = wait_for(&mut fds, deadline);
            waited.is_err() || !fds[0].revents().is_empty()
        };
        let changed = [PollFd::new(&watch, PollFlags::IN)];
        if ended(&changed, None) || ended(&[], Some(Instant::now() + PAUSE)) {
            return Ok(());
        }
        // What changed is looked at in any case.
        let mut events = [0; 4096];
        while let Ok(1..) = rustix::io::read(&watch, &mut events) {}
    }
}

/// Removes the beginning of a file that is longer than `longest` bytes, so that `kept` bytes at
/// most are left, from the beginning of a line. Others may append to it meanwhile (`O_APPEND`).
fn shorten(path: &Path, longest: u64, kept: u64) -> io::Result<bool> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    if length <= longest {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(length - kept))?;
    let mut end = Vec::new();
    // Its QEMU, if a guest has taken that over, may have made it longer meanwhile.
    (&file).take(kept).read_to_end(&mut end)?;
    let line = end.iter().position(|byte| *byte == b'\n');
    let from = line.map_or(0, |line| line + 1);
    file.set_len(0)?;
    file.write_all(&end[from..])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_end_of_a_long_file_stays_and_others_go_on_writing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        let mut writer = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        for number in 0..100 {
            writeln!(writer, "line {number:04}").unwrap();
        }
        assert!(!shorten(&path, 1000, 55).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), 1000);
        writeln!(writer, "line 0100").unwrap();
        assert!(shorten(&path, 1000, 35).unwrap());
        writeln!(writer, "line 0101").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "line 0098\nline 0099\nline 0100\nline 0101\n");
    }

    #[test]
    fn a_single_line_that_never_ends_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        fs::write(&path, "x".repeat(5000)).unwrap();
        assert!(shorten(&path, 1000, 100).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), 100);
    }
}
