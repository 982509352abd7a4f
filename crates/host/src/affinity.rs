//! Work on some processors only.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Steps of the loop that is timed.
const STEPS: u32 = 1_000_000;
/// Times that it is run; the shortest counts, since nothing came between.
const TIMES: u32 = 5;

/// Numbers of the processors that this process may use.
///
/// # Errors
/// If the system does not say.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Does something on some processors only; what it starts stays there.
pub fn on_processors<T, E: From<io::Error>>(
    cpus: &[usize],
    start: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let before = sched_getaffinity(None).map_err(io::Error::from)?;
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).map_err(io::Error::from)?;
    let started = start();
    sched_setaffinity(None, &before).map_err(io::Error::from)?;
    started
}

/// How long a processor takes for a fixed number of instructions that need no memory: it changes
/// with the clock rate only.
///
/// # Errors
/// If this process may not run there.
pub fn time_of_a_loop(cpu: usize) -> io::Result<Duration> {
    on_processors(&[cpu], || {
        let times = (0..TIMES).map(|_| {
            // Its own time alone: others may have the processor meanwhile.
            let begun = own_time();
            black_box(spin(black_box(STEPS)));
            own_time().saturating_sub(begun)
        });
        Ok(times.min().unwrap_or_default())
    })
}

/// CPU time of this thread (clock_gettime(2)).
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Each step needs the result of the one before.
fn spin(steps: u32) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_on_the_processor_that_was_named_and_only_that_work() {
        let before = allowed().unwrap();
        let one = *before.last().unwrap();
        let during = on_processors(&[one], allowed).unwrap();
        assert_eq!(during, [one]);
        assert_eq!(allowed().unwrap(), before);
        assert!(time_of_a_loop(one).unwrap() > Duration::from_micros(100));
        assert_eq!(allowed().unwrap(), before);
    }
}
