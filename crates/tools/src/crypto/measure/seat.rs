//! A thread's side of a measurement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

/// A thread's word to the one that started it.
pub(super) enum Event {
    /// It is prepared, and has done the operation once.
    Ready,
    /// It ended by itself.
    Ended,
    /// It cannot go on.
    Failed(String),
}

/// State that threads have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) may_begin: Mutex<bool>,
    pub(super) changed: Condvar,
    pub(super) is_over: AtomicBool,
    /// Programs that threads wait for. Each leads a process group, and is reaped only when it is not
    /// here any more, so that its number is not another's.
    programs: Mutex<Vec<Pid>>,
}

impl Shared {
    /// Kills the programs with all that they have started, which may hold their pipes open.
    pub(super) fn kill_programs(&self) {
        let lock = self.programs.lock();
        for program in &*lock.unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process_group(*program, Signal::KILL);
        }
    }
}

/// A thread's side of it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) shared: Arc<Shared>,
    pub(super) events: Sender<Event>,
}

/// Rate of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Operations.
    pub(super) operations: f64,
    /// Wall-clock time that they took, seconds.
    pub(super) seconds: f64,
    /// CPU seconds a second.
    pub(super) cpu: f64,
}

impl Seat {
    /// Says that the thread is prepared, and waits for the others.
    fn ready(&self) {
        let _ = self.events.send(Event::Ready);
        let lock = self.shared.may_begin.lock();
        let mut may_begin = lock.unwrap_or_else(PoisonError::into_inner);
        while !*may_begin && !self.is_over() {
            let woken = self.shared.changed.wait(may_begin);
            may_begin = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does an operation again and again, from the moment when all threads are ready until the end.
    ///
    /// # Errors
    /// Those of the operation, which end it.
    pub(super) fn repeat(
        &self,
        mut operation: impl FnMut() -> Result<(), String>,
    ) -> Result<Rate, String> {
        self.ready();
        let (begun, used) = (Instant::now(), cpu_time());
        let mut operations = 0_u64;
        while !self.is_over() {
            operation()?;
            operations += 1;
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Rate {
            operations: operations as f64,
            seconds,
            cpu: (cpu_time() - used) / seconds,
        })
    }

    /// Says that the thread has begun by itself and does not wait.
    pub(super) fn begun(&self) {
        let _ = self.events.send(Event::Ready);
    }

    /// Has a program killed when something fails: the thread waits for it.
    pub(super) fn runs(&self, program: Pid) {
        let lock = self.shared.programs.lock();
        lock.unwrap_or_else(PoisonError::into_inner).push(program);
    }

    /// Kills a program with all that it has started, and reaps it.
    pub(super) fn end(&self, program: Pid, reap: impl FnOnce()) {
        let lock = self.shared.programs.lock();
        let mut programs = lock.unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = programs.iter().position(|one| *one == program) {
            programs.remove(place);
            let _ = kill_process_group(program, Signal::KILL);
        }
        reap();
    }

    /// Whether the thread is to end.
    pub(super) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }
}

/// CPU time of this thread, seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
