//! Guests that run already: which process of the host does their work, and where.

use std::fs::{self, File};
use std::io;

use brisk_vm::libvirt::{self, Console, RunningDomain};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::target::{Kind, Via};
use crate::vm::{self, StateDirs};

/// A guest that cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExistingError {
    /// The VM cannot be seen.
    #[error(transparent)]
    Vm(#[from] vm::Error),
    /// The domain cannot be seen.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The domain has no serial console.
    #[error(
        "domain {0} has no console with a pseudo-terminal: add <console type='pty'/>, or use \
         via=ssh:HOST"
    )]
    NoConsole(String),
    /// The guest agent of the domain does not answer.
    #[error(
        "the guest agent of domain {domain} does not answer: give the domain the channel \
         org.qemu.guest_agent.0, and install and start qemu-guest-agent in its guest"
    )]
    NoAgent {
        /// The domain.
        domain: String,
        /// What virsh says.
        source: libvirt::Error,
    },
    /// The VM does not run.
    #[error("VM {name} is {state}; start it: brisk vm start {name}")]
    Off {
        /// Its name.
        name: String,
        /// What it is instead.
        state: &'static str,
    },
}

/// A guest that runs already.
#[derive(Debug)]
pub(super) struct Existing {
    /// Number of its VMM's process.
    pub(super) pid: u32,
    /// The console by which its shell is reached, if it is.
    pub(super) console: Option<Console>,
    /// The domain whose guest agent starts that shell, if it does.
    pub(super) agent: Option<RunningDomain>,
}

/// Finds the guest of a kind of target; none if this kind is started for the measurement.
///
/// # Errors
/// If it does not run.
pub(super) fn find(kind: &Kind) -> Result<Option<Existing>, ExistingError> {
    match kind {
        Kind::Vm(name) => of_vm(name).map(Some),
        Kind::Libvirt { domain, via } => of_domain(domain, via).map(Some),
        _ => Ok(None),
    }
}

fn of_vm(name: &str) -> Result<Existing, ExistingError> {
    let paths = StateDirs::here()?.vm(name)?;
    // An unknown name, or a wrong definition.
    paths.definition()?;
    if let Some(pid) = vm::pid(&paths) {
        return Ok(Existing {
            pid,
            console: None,
            agent: None,
        });
    }
    Err(ExistingError::Off {
        name: name.to_owned(),
        state: vm::condition(&paths)?.name(),
    })
}

fn of_domain(name: &str, via: &Via) -> Result<Existing, ExistingError> {
    let domain = RunningDomain::find(name, None)?;
    let no_console = || ExistingError::NoConsole(name.to_owned());
    let console = match via {
        Via::Console | Via::Agent => Some(domain.console()?.ok_or_else(no_console)?),
        Via::Ssh(_) => None,
    };
    if *via == Via::Agent {
        domain
            .ping_agent()
            .map_err(|source| ExistingError::NoAgent {
                domain: name.to_owned(),
                source,
            })?;
    }
    Ok(Existing {
        pid: domain.pid,
        console,
        agent: (*via == Via::Agent).then_some(domain),
    })
}

/// Threads of another program that are kept on some processors until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    /// The processes.
    processes: Vec<u32>,
    /// Each thread, and where it was allowed to run before.
    before: Vec<(Pid, CpuSet)>,
    /// Locks of the processes' directories in `/proc` (flock(2)), released after that: another
    /// measurement would put back what this one has changed, and leave it so.
    locks: Vec<File>,
}

impl Pinned {
    /// Keeps all threads of some processes on these processors. Threads that they start later are
    /// there, too; in the end they go where the first thread of their process is.
    ///
    /// # Errors
    /// If this user may not, another measurement keeps them somewhere, or the processors are not
    /// among those of the processes' group. Nothing is changed then.
    pub(super) fn new(processes: &[u32], cpus: &[usize]) -> io::Result<Self> {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        let mut pinned = Self::default();
        for pid in processes {
            pinned.locks.extend(lock(*pid)?);
        }
        for thread in processes.iter().flat_map(|pid| threads(*pid)) {
            let before = match sched_getaffinity(Some(thread)) {
                // It has ended.
                Err(rustix::io::Errno::SRCH) => continue,
                before => before?,
            };
            match sched_setaffinity(Some(thread), &set) {
                Err(rustix::io::Errno::SRCH) => continue,
                changed => changed?,
            }
            pinned.before.push((thread, before));
        }
        // Only now: after an error, threads that were not reached keep their places.
        pinned.processes.extend(processes);
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for (thread, before) in &self.before {
            // It may have ended.
            let _ = sched_setaffinity(Some(*thread), before);
        }
        let is_known = |thread: &Pid| self.before.iter().any(|(known, _)| known == thread);
        for pid in &self.processes {
            let first = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let first = self
                .before
                .iter()
                .find(|(thread, _)| Some(*thread) == first);
            let Some((_, set)) = first else {
                continue;
            };
            for thread in threads(*pid).into_iter().filter(|thread| !is_known(thread)) {
                let _ = sched_setaffinity(Some(thread), set);
            }
        }
    }
}

/// Lock of a process; none if it has ended.
fn lock(pid: u32) -> io::Result<Option<File>> {
    let directory = match File::open(format!("/proc/{pid}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other(
            "another target, or another brisk, measures this guest; measure it once at a time",
        )),
        Err(error) => Err(error.into()),
    }
}

fn threads(pid: u32) -> Vec<Pid> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let names = entries.into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn threads_are_where_they_were_when_it_is_dropped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let thread = threads(child.id())[0];
        let allowed = || sched_getaffinity(Some(thread)).unwrap();
        let before = allowed();
        let last = (0..CpuSet::MAX_CPU).rfind(|cpu| before.is_set(*cpu));
        let pinned = Pinned::new(&[child.id()], &[last.unwrap()]).unwrap();
        assert_eq!(allowed().count(), 1);
        // A second one would put back what the first has changed.
        let second = Pinned::new(&[child.id()], &[last.unwrap()]).unwrap_err();
        assert!(second.to_string().contains("at a time"), "{second}");
        drop(pinned);
        assert_eq!(allowed(), before);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn threads_that_were_started_meanwhile_are_put_back_too() {
        // It starts threads when it has something to compress.
        let mut command = Command::new("xz");
        command.args(["--threads=2", "--block-size=65536", "--stdout"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let before = sched_getaffinity(Some(Pid::from_child(&child))).unwrap();
        let last = (0..CpuSet::MAX_CPU).rfind(|cpu| before.is_set(*cpu));
        let pinned = Pinned::new(&[child.id()], &[last.unwrap()]).unwrap();
        let input = child.stdin.as_mut().unwrap();
        input.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let begun = Instant::now();
        while threads(child.id()).len() < 2 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it has no threads"
            );
            std::thread::yield_now();
        }
        drop(pinned);
        for thread in threads(child.id()) {
            assert_eq!(sched_getaffinity(Some(thread)).unwrap(), before);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn processors_that_are_not_there_are_an_error() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        Pinned::new(&[child.id()], &[CpuSet::MAX_CPU - 1]).unwrap_err();
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
