//! The QEMU process of a domain, which is libvirt's child.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use brisk_host::proc::Procfs;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

use crate::qemu::cmdline::CommandLine;

/// The QEMU of a domain.
#[derive(Debug)]
pub(super) struct Process {
    /// Readable when it has ended.
    pub(super) fd: OwnedFd,
    /// Start time since the host's boot, rounded down to the clock tick of 10 ms.
    pub(super) started: Duration,
}

impl Process {
    /// Finds the process by the UUID on its command line, as libvirt writes it.
    pub(super) fn of_domain(uuid: &str) -> io::Result<Self> {
        let number = number_of_domain(uuid)?;
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let fd = pidfd_open(pid.ok_or_else(missing)?, PidfdFlags::empty())?;
        let ticks = Procfs::default().stat(number)?.start_ticks;
        let hertz = rustix::param::clock_ticks_per_second().max(1);
        let started = Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / hertz));
        Ok(Self { fd, started })
    }
}

/// Number of the process with a domain's UUID on its command line.
pub(super) fn number_of_domain(uuid: &str) -> io::Result<u32> {
    let line = |number: &u32| fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let all = Procfs::default().processes()?;
    the_only(
        all.into_iter()
            .filter(|number| has_uuid(&line(number), uuid)),
    )
}

/// The process, if it is the only one: any user may put a UUID on a command line.
fn the_only(found: impl Iterator<Item = u32>) -> io::Result<u32> {
    let found: Vec<u32> = found.collect();
    match &*found {
        [] => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no process in /proc has the domain's UUID on its command line",
        )),
        [number] => Ok(*number),
        several => {
            let several: Vec<_> = several.iter().map(u32::to_string).collect();
            Err(io::Error::other(format!(
                "the processes {} all have the domain's UUID on their command lines, and only one \
                 of them is libvirt's",
                several.join(", ")
            )))
        }
    }
}

/// Time since the host's boot, the clock of [`Process::started`].
pub(super) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

fn has_uuid(line: &[u8], uuid: &str) -> bool {
    // Most processes are no QEMU.
    memchr::memmem::find(line, uuid.as_bytes()).is_some()
        && CommandLine::of_process(line)
            .value("uuid")
            .is_some_and(|value| value == uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_the_word_behind_the_option() {
        assert!(has_uuid(b"qemu\0-uuid\0a-b\0-x\0", "a-b"));
        assert!(!has_uuid(b"grep\0a-b\0", "a-b"));
        assert!(!has_uuid(b"qemu\0-uuid\0a-bc\0", "a-b"));
    }

    #[test]
    fn a_process_that_pretends_to_be_a_domain_is_not_taken_for_it() {
        assert_eq!(the_only([7].into_iter()).unwrap(), 7);
        let none = the_only([].into_iter()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let several = the_only([7, 9].into_iter()).unwrap_err().to_string();
        assert!(several.contains("the processes 7, 9"), "{several}");
    }

    #[test]
    fn our_own_start_is_in_the_past() {
        let stat = Procfs::default().stat(std::process::id()).unwrap();
        let started = stat.start_ticks / rustix::param::clock_ticks_per_second();
        assert!(started <= since_boot().as_secs());
    }
}
