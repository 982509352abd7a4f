//! Operations of RedHawk's table, each many times on one CPU.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::invalid;
use crate::sys::{self, Area, Child, PAGE, Processors};

/// How often caches were flushed, and for how long.
const FLUSHED: &str = "/sys/module/ktext_cold/parameters/flushed";
/// Pages that are mapped, touched and unmapped.
const PAGES: usize = 1024;

type Operation = fn() -> io::Result<()>;

/// fork, exit and wait.
pub(super) fn fork() -> io::Result<()> {
    Child::fork(|| ()).map(drop)
}

/// A signal to this process, which is handled.
pub(super) fn kill() -> io::Result<()> {
    sys::signal_self()
}

/// Pages of `/dev/zero`, private, mapped, read and unmapped.
pub(super) fn mmap() -> io::Result<()> {
    let file = File::options().read(true).write(true).open("/dev/zero")?;
    Area::private_of(&file, PAGES * PAGE)?.read_every(PAGE);
    Ok(())
}

/// `/dev/null`, opened and closed.
pub(super) fn open() -> io::Result<()> {
    sys::open_and_close(c"/dev/null")
}

fn named(name: &str) -> Option<Operation> {
    Some(match name {
        "fork" => fork,
        "kill" => kill,
        "mmap" => mmap,
        "open" => open,
        _ => return None,
    })
}

/// Counts of the module that flushes caches at system calls of this process.
struct Cold(File);

impl Cold {
    /// None if it flushes at those of no process, or of another one.
    fn of_this_process() -> io::Result<Option<Self>> {
        let own = std::process::id().to_string();
        match fs::read_to_string(super::COLD) {
            Ok(pid) if pid.trim() == own => File::open(FLUSHED).map(|file| Some(Self(file))),
            _ => Ok(None),
        }
    }

    /// Flushes until now, and the nanoseconds that they took. One system call reads both.
    fn flushed(&self) -> io::Result<(u64, u64)> {
        let mut text = [0; 64];
        let count = self.0.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..count]).into_owned();
        let numbers = text.trim().split_once(' ');
        let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers.ok_or_else(|| invalid("the module ktext_cold counts nothing"))
    }
}

/// Nanoseconds that flushing took between two readings, without the flush of the second one.
fn flushing(before: (u64, u64), after: (u64, u64)) -> io::Result<f64> {
    let all = after.0.saturating_sub(before.0);
    let Some(within) = all.checked_sub(1).filter(|within| *within > 0) else {
        return Err(invalid(
            "caches were not flushed: ktext_cold sees another process by this number, as in a \
             container",
        ));
    };
    let each = after.1.saturating_sub(before.1) as f64 / all as f64;
    Ok(each * within as f64)
}

/// Nanoseconds, without those in which caches were flushed, and ticks of the TSC for each of `times` operations on this CPU.
pub(super) fn measure(name: &str, cpu: usize, times: u64) -> io::Result<String> {
    let operation = named(name).ok_or_else(|| invalid("no such operation"))?;
    let processors = Processors::only(cpu).ok_or_else(|| invalid("no such CPU"))?;
    processors.enter()?;
    let cold = Cold::of_this_process()?;
    let before = cold.as_ref().map(Cold::flushed).transpose()?;
    let (begun, first) = (Instant::now(), sys::ticks());
    for _ in 0..times {
        operation()?;
    }
    let ticks = sys::ticks().wrapping_sub(first) as f64;
    let mut time = begun.elapsed().as_nanos() as f64;
    if let (Some(cold), Some(before)) = (&cold, before) {
        time -= flushing(before, cold.flushed()?)?;
    }
    let times = times.max(1) as f64;
    Ok(format!("{:.3} {:.3}", time / times, ticks / times))
}
