//! Threads that begin at once and end at once.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::request::{GroupRate, NotMeasured, Request};
use super::seat::{Event, Rate, Seat, Shared};
use super::{dm_crypt, kernel, ktls, openssl};
use crate::crypto::{Algorithm, Implementation};
use brisk_host::interrupt::Interrupt;

/// How long a thread that does not end is waited for.
const GIVEN_UP: Duration = Duration::from_secs(5);
/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(20);
/// How often the wait for threads that are about to end looks.
const CLOSE_LOOK: Duration = Duration::from_millis(2);
/// How often a driver is looked for.
const PROOF: Duration = Duration::from_millis(100);
/// How long after its time an `openssl speed` may end.
const LATE: Duration = Duration::from_secs(30);

/// All threads of a request.
pub(super) struct Threads {
    shared: Arc<Shared>,
    events: Receiver<Event>,
    /// Groups of the threads.
    running: Vec<(usize, JoinHandle<Result<Rate, String>>)>,
    groups: usize,
    /// Whether `openssl speed` says when the end is.
    ends_itself: bool,
}

impl Threads {
    /// Starts them; they prepare.
    pub(super) fn start(
        request: &Request,
        algorithm: &'static Algorithm,
    ) -> Result<Self, NotMeasured> {
        let (sender, events) = channel();
        let mut threads = Self {
            shared: Arc::default(),
            events,
            running: Vec::new(),
            groups: request.groups.len(),
            ends_itself: false,
        };
        for (number, group) in request.groups.iter().enumerate() {
            threads.ends_itself |= group.implementation.is_of_openssl();
            for cpu in &group.cpus {
                let seat = Seat {
                    shared: Arc::clone(&threads.shared),
                    events: sender.clone(),
                };
                let (request, cpu) = (request.clone(), *cpu);
                let implementation = group.implementation.clone();
                let body = move || {
                    pin(cpu)?;
                    let run = match &implementation {
                        it if it.is_of_openssl() => openssl::run,
                        Implementation::Ktls | Implementation::Tcp => ktls::run,
                        Implementation::DmCrypt(_) => dm_crypt::run,
                        _ => kernel::run,
                    };
                    run(&implementation, algorithm, &request, &seat)
                };
                let told = sender.clone();
                let body = move || {
                    let result = body();
                    let event = match &result {
                        Ok(_) => Event::Ended,
                        Err(reason) => Event::Failed(reason.clone()),
                    };
                    let _ = told.send(event);
                    result
                };
                let thread = std::thread::Builder::new().spawn(body)?;
                threads.running.push((number, thread));
            }
        }
        Ok(threads)
    }

    /// Waits until all are prepared.
    pub(super) fn wait_until_ready(
        &self,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<(), NotMeasured> {
        let until = Instant::now() + limit;
        let mut left = self.running.len();
        while left > 0 {
            match self.event(until, interrupt)? {
                Some(Event::Ready) => left -= 1,
                Some(Event::Failed(reason)) => return Err(NotMeasured::Failed(reason)),
                Some(Event::Ended) => {
                    let reason = "it ended before it was to begin".to_owned();
                    return Err(NotMeasured::Failed(reason));
                }
                None => {
                    let reason = format!("the first operation has not ended in {limit:?}");
                    return Err(NotMeasured::NoAnswer(reason));
                }
            }
        }
        Ok(())
    }

    /// Lets them begin.
    pub(super) fn begin(&self) {
        let lock = self.shared.may_begin.lock();
        *lock.unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_all();
    }

    /// Waits until the time is over, or the first `openssl speed` has ended, and has all end.
    /// If there is an `openssl speed`, which says that it begins before it has set its key, `look` is
    /// called now and then until it has seen what it looks for.
    pub(super) fn wait_until_ended(
        &self,
        seconds: f64,
        interrupt: &Interrupt,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), NotMeasured> {
        let ended = self.wait_for_end(seconds, interrupt, look);
        self.shared.is_over.store(true, Ordering::Relaxed);
        ended
    }

    fn wait_for_end(
        &self,
        seconds: f64,
        interrupt: &Interrupt,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), NotMeasured> {
        let begun = Instant::now();
        let time = Duration::from_secs_f64(seconds);
        let until = match self.ends_itself {
            true => begun + time.max(Duration::from_secs(1)) + LATE,
            false => begun + time,
        };
        let mut event = None;
        while self.ends_itself && event.is_none() && Instant::now() < until && !look() {
            event = self.event(until.min(Instant::now() + PROOF), interrupt)?;
        }
        if event.is_none() {
            event = self.event(until, interrupt)?;
        }
        match event {
            Some(Event::Failed(reason)) => Err(NotMeasured::Failed(reason)),
            None if self.ends_itself => {
                let reason = "openssl speed did not end in its time".to_owned();
                Err(NotMeasured::Failed(reason))
            }
            _ => Ok(()),
        }
    }

    /// What each group measured, when all have ended.
    pub(super) fn finish(mut self, interrupt: &Interrupt) -> Result<Vec<GroupRate>, NotMeasured> {
        let until = Instant::now() + LATE;
        while !self.running.iter().all(|(_, thread)| thread.is_finished()) {
            if let Some(signal) = interrupt.signal() {
                return Err(NotMeasured::Interrupted(signal));
            }
            if Instant::now() > until {
                let reason = format!("an operation has not ended in {LATE:?}");
                return Err(NotMeasured::NoAnswer(reason));
            }
            std::thread::sleep(CLOSE_LOOK);
        }
        let mut rates = vec![GroupRate::default(); self.groups];
        for (group, thread) in std::mem::take(&mut self.running) {
            let result = thread.join().unwrap_or_else(|_| {
                let reason = "a thread panicked: this is an error in brisk".to_owned();
                Err(reason)
            });
            let rate = result.map_err(NotMeasured::Failed)?;
            let total = &mut rates[group];
            total.operations += rate.operations;
            total.rate += rate.operations / rate.seconds;
            total.cpu += rate.cpu;
        }
        Ok(rates)
    }

    /// The next event until then; none if there is none.
    fn event(&self, until: Instant, interrupt: &Interrupt) -> Result<Option<Event>, NotMeasured> {
        loop {
            if let Some(signal) = interrupt.signal() {
                return Err(NotMeasured::Interrupted(signal));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.events.recv_timeout(left.min(LOOK)) {
                Ok(event) => return Ok(Some(event)),
                Err(RecvTimeoutError::Timeout) => {}
                // The idle system: no thread has the other end.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(left.min(LOOK)),
            }
        }
    }
}

/// Nothing is left behind, also when something fails.
impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // A waiting thread may be between its look and its wait, which the lock excludes.
        drop(self.shared.may_begin.lock());
        self.shared.changed.notify_all();
        self.shared.kill_programs();
        let until = Instant::now() + GIVEN_UP;
        for (_, thread) in self.running.drain(..) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
            // One that waits for an answer of a device cannot be ended.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

fn pin(cpu: usize) -> Result<(), String> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(format!("there is no processor {cpu}"));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| format!("cannot use processor {cpu}: {error}"))
}
