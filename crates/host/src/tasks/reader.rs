//! Counters of threads, read again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{ProcessTasks, Schedule, Status, Task, parsed};
use crate::proc::Procfs;

/// Longest `schedstat`: three numbers of 64 bits.
const SCHEDSTAT: usize = 64;
/// Longer than `status` of a host with a thousand CPUs.
const STATUS: usize = 8192;
/// Links to a directory without directories in it. `/proc/PID/task` has one more for each thread
/// (`proc_task_getattr` in `fs/proc/base.c`).
const LINKS: u64 = 2;

/// A process whose threads are read again and again.
///
/// Files of it stay open. To read an open one takes a sixth of the time that opening it takes, and
/// it stays that of its thread when another gets the thread's number.
#[derive(Debug)]
pub struct TaskReader {
    proc: Procfs,
    directory: PathBuf,
    /// The directory of the threads; None if no files are to stay open.
    list: Option<File>,
    process: ProcessTasks,
    /// Files of each thread, in their order.
    files: Vec<Files>,
    /// Files of threads that may stay open.
    keep: usize,
    /// Those of them that are left.
    left: usize,
}

/// Open files of a thread.
#[derive(Debug, Default)]
struct Files {
    schedstat: Option<File>,
    /// Of one that ran.
    status: Option<File>,
}

impl TaskReader {
    /// A reader of a process, which has read it once. It keeps up to `keep` files open.
    ///
    /// # Errors
    /// As [`Procfs::tasks`].
    pub fn open(proc: &Procfs, pid: u32, keep: usize) -> io::Result<Self> {
        let directory = proc.directory().join(pid.to_string()).join("task");
        // Before it is read, so that it cannot be that of a later process.
        let list = File::open(&directory).ok().filter(|_| keep > 0);
        let mut reader = Self {
            process: proc.tasks(pid, None)?,
            proc: proc.clone(),
            directory,
            list,
            files: Vec::new(),
            keep: keep.saturating_sub(1),
            left: 0,
        };
        reader.keep_open();
        Ok(reader)
    }

    /// The process as it was read last.
    #[must_use]
    pub const fn process(&self) -> &ProcessTasks {
        &self.process
    }

    /// Reads it again.
    ///
    /// # Errors
    /// As [`Procfs::tasks`].
    pub fn read(&mut self) -> io::Result<&ProcessTasks> {
        if !self.has_same_threads() || !self.read_threads() {
            self.process = self.proc.tasks(self.process.pid, Some(&self.process))?;
            self.keep_open();
        }
        Ok(&self.process)
    }

    /// Whether as many threads are there as before. If some of those have ended, their files say so.
    fn has_same_threads(&self) -> bool {
        let links = self.list.as_ref().and_then(|list| list.metadata().ok());
        let known = self.process.tasks.len() as u64;
        links.is_some_and(|list| list.nlink() == LINKS + known)
    }

    /// Reads the threads that are known; false if that does not go on, as when one of them has ended.
    fn read_threads(&mut self) -> bool {
        let pid = self.process.pid;
        for (task, files) in self.process.tasks.iter_mut().zip(&mut self.files) {
            let directory = || self.directory.join(task.tid.to_string());
            let read = match files.schedstat.as_ref().map(schedule) {
                Some(Ok(schedule)) if schedule.stood_still(&task.schedule) => {
                    task.schedule = schedule;
                    continue;
                }
                Some(Ok(schedule)) => files
                    .status(&directory().join("status"), &mut self.left)
                    .and_then(|status| self.proc.ran(pid, task.tid, Some(task), schedule, status)),
                Some(Err(error)) => Err(error),
                None => self.proc.task(pid, task.tid, &directory(), Some(task)),
            };
            match read {
                Ok(read) => *task = read,
                Err(_) => return false,
            }
        }
        true
    }

    /// Opens what can stay open.
    fn keep_open(&mut self) {
        self.left = if self.list.is_some() { self.keep } else { 0 };
        let path = |task: &Task| self.directory.join(task.tid.to_string()).join("schedstat");
        let files = self.process.tasks.iter().map(|task| Files {
            schedstat: keep(&path(task), &mut self.left),
            status: None,
        });
        self.files = files.collect();
    }
}

impl Files {
    /// Reads `status`, whose file stays open if one is left.
    fn status(&mut self, path: &Path, left: &mut usize) -> io::Result<Status> {
        if self.status.is_none() {
            self.status = keep(path, left);
        }
        let mut bytes = [0; STATUS];
        let length = match &self.status {
            Some(file) => rustix::io::pread(file, &mut bytes, 0)?,
            None => 0,
        };
        match length {
            // Not open, or longer.
            0 | STATUS => super::read(path, Status::parse),
            _ => parsed(&bytes[..length], Status::parse),
        }
    }
}

/// Opens a file if one is left.
fn keep(path: &Path, left: &mut usize) -> Option<File> {
    *left = left.checked_sub(1)?;
    File::open(path).ok()
}

fn schedule(file: &File) -> io::Result<Schedule> {
    let mut bytes = [0; SCHEDSTAT];
    let length = rustix::io::pread(file, &mut bytes, 0)?;
    parsed(&bytes[..length], Schedule::parse)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::tasks::{Task, has_ended};

    /// Whether a thread that starts is found, its time counted, and its end noticed.
    fn follows(keep: usize) {
        let proc = Procfs::default();
        let mut reader = TaskReader::open(&proc, std::process::id(), keep).unwrap();
        let (to_thread, orders) = channel::<()>();
        let (answer, answers) = channel();
        let worker = thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            answer.send(own).unwrap();
            for () in orders {
                answer.send(own).unwrap();
            }
        });
        let tid = answers.recv().unwrap();
        let find = |process: &ProcessTasks| {
            let mut tasks = process.tasks.iter();
            tasks.find(|task| task.tid == tid).cloned()
        };
        let first = find(reader.read().unwrap()).unwrap();
        // On a busy host an order may be there before the thread waits for it.
        let mut rounds = (0..10_000).map(|_| {
            to_thread.send(()).unwrap();
            answers.recv().unwrap();
            find(reader.read().unwrap()).unwrap()
        });
        let has_waited = |task: &Task| first.switches.voluntary < task.switches.voluntary;
        let second = rounds.find(has_waited).unwrap();
        drop(rounds);
        assert_eq!(first.start_ticks, second.start_ticks);
        assert!(first.schedule.on_cpu < second.schedule.on_cpu);
        // As one that reads everything anew.
        let anew = proc.tasks(std::process::id(), None).unwrap();
        let numbers = |process: &ProcessTasks| -> BTreeSet<u32> {
            process.tasks.iter().map(|task| task.tid).collect()
        };
        assert!(numbers(&anew).contains(&tid));
        drop(to_thread);
        worker.join().unwrap();
        // Its number goes when the kernel has taken it apart, soon after.
        while find(reader.read().unwrap()).is_some() {
            thread::yield_now();
        }
    }

    #[test]
    fn threads_are_followed_with_open_files() {
        follows(usize::MAX);
    }

    #[test]
    fn threads_are_followed_with_some_open_files() {
        follows(2);
    }

    #[test]
    fn threads_are_followed_without_open_files() {
        follows(0);
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        for keep in [0, usize::MAX] {
            let mut child = std::process::Command::new("cat")
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut reader = TaskReader::open(&Procfs::default(), child.id(), keep).unwrap();
            assert_eq!(reader.read().unwrap().tasks.len(), 1);
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(has_ended(&reader.read().unwrap_err()));
        }
    }
}
