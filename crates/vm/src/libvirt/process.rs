//! The QEMU process of a domain, which is libvirt's child.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

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
        let stat = fs::read_to_string(format!("/proc/{number}/stat"))?;
        let ticks = start_ticks(&stat).ok_or_else(missing)?;
        let hertz = rustix::param::clock_ticks_per_second().max(1);
        let started = Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / hertz));
        Ok(Self { fd, started })
    }
}

/// Number of the process with a domain's UUID on its command line.
pub(super) fn number_of_domain(uuid: &str) -> io::Result<u32> {
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        if has_uuid(&line, uuid) {
            return Ok(number);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "no process in /proc has the domain's UUID on its command line",
    ))
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

/// Start time from field 22 of `/proc/PID/stat` (proc(5)). The name in field 2 may be anything.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "31470 (a) b) (c) S 1 31470 31470 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 4 0 777 9 9";
        assert_eq!(start_ticks(stat), Some(777));
        assert_eq!(start_ticks("nothing"), None);
    }

    #[test]
    fn a_process_is_known_by_the_word_behind_the_option() {
        assert!(has_uuid(b"qemu\0-uuid\0a-b\0-x\0", "a-b"));
        assert!(!has_uuid(b"grep\0a-b\0", "a-b"));
        assert!(!has_uuid(b"qemu\0-uuid\0a-bc\0", "a-b"));
    }

    #[test]
    fn our_own_start_is_in_the_past() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let hertz = rustix::param::clock_ticks_per_second();
        let started = start_ticks(&stat).unwrap() / hertz;
        assert!(started <= since_boot().as_secs());
    }
}
