//! Operations of RedHawk's table, each many times on one CPU.

use std::fs::File;
use std::io;
use std::time::Instant;

use super::invalid;
use crate::sys::{self, Area, Child, PAGE, Processors};

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

/// Nanoseconds and ticks of the TSC for each of `times` operations on this CPU.
pub(super) fn measure(name: &str, cpu: usize, times: u64) -> io::Result<String> {
    let operation = named(name).ok_or_else(|| invalid("no such operation"))?;
    let processors = Processors::only(cpu).ok_or_else(|| invalid("no such CPU"))?;
    processors.enter()?;
    let (begun, first) = (Instant::now(), sys::ticks());
    for _ in 0..times {
        operation()?;
    }
    let ticks = sys::ticks().wrapping_sub(first) as f64;
    let time = begun.elapsed().as_nanos() as f64;
    let times = times.max(1) as f64;
    Ok(format!("{:.3} {:.3}", time / times, ticks / times))
}
