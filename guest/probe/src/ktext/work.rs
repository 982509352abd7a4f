//! Load of the kernel on chosen CPUs.

use std::fs;
use std::io;

use super::{guest, invalid, operations};
use crate::sys::{self, Area, PAGE, Processors, Worker};

/// Bytes that are copied from and to: more than caches have.
const COPIED: usize = 64 << 20;
/// Code of the kernel's own test module runs when this is read, if it is loaded.
const RUNS_MODULE: &str = "/sys/kernel/debug/provoke-crash/DIRECT";
/// A module that comes and goes, if the guest has it.
const COMES_AND_GOES: &str = "test_module";

/// Does on each CPU in turn what programs have the kernel do, so many times.
pub(super) fn work(cpus: &[usize], times: u64) -> io::Result<()> {
    for cpu in cpus {
        enter(*cpu)?;
        for _ in 0..times {
            operations::fork()?;
            operations::kill()?;
            operations::mmap()?;
            operations::open()?;
            for path in ["/proc/version", "/proc/meminfo"] {
                fs::read(path)?;
            }
            let _ = fs::read(RUNS_MODULE);
        }
        guest::reload(COMES_AND_GOES)?;
    }
    Ok(())
}

fn enter(cpu: usize) -> io::Result<()> {
    let processors = Processors::only(cpu).ok_or_else(|| invalid("no such CPU"))?;
    processors.enter()
}

/// Copies memory on each of these CPUs until the result is dropped.
pub(super) fn load(cpus: &[usize]) -> io::Result<Vec<Worker>> {
    let worker = |cpu: &usize| {
        let (mut from, mut to) = (Area::anonymous(COPIED)?, Area::anonymous(COPIED)?);
        let processors = Processors::only(*cpu).ok_or_else(|| invalid("no such CPU"))?;
        let (ready, tell) = sys::pipe()?;
        let worker = Worker::fork(|| {
            if processors.enter().is_ok() {
                // What was never written is one page of zeros for all, which stays in a cache.
                from.write_every(PAGE);
                let _ = sys::write_all(&tell, b"r");
                loop {
                    to.words().copy_from_slice(from.words());
                    std::hint::black_box(&mut to);
                }
            }
        })?;
        drop(tell);
        let mut byte = [0];
        sys::read_all(&ready, &mut byte).map_err(|_| {
            let reason = format!("no memory is copied on CPU {cpu}: this process may not use it");
            io::Error::other(reason)
        })?;
        Ok(worker)
    };
    cpus.iter().map(worker).collect()
}
