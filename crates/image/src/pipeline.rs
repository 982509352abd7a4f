//! Threads that take chunk after chunk, until all are done, one fails, or the caller cancels.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Progress of writing or reading an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of memory that are done.
    pub done: u64,
    /// Bytes of memory altogether.
    pub total: u64,
    /// Bytes of the image written or read for it.
    pub stored: u64,
}

/// Callback for progress, and the caller's cancellation.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Called by any of the threads after each chunk: it should be quick.
    pub progress: &'a (dyn Fn(Progress) + Sync),
    /// If true, threads end after their chunk, and the result is [`Error::Cancelled`].
    pub cancel: &'a AtomicBool,
}

impl Control<'static> {
    /// No callback, and no cancellation.
    #[must_use]
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let progress: &'static (dyn Fn(Progress) + Sync) = &|_| {};
        Self {
            progress,
            cancel: &NEVER,
        }
    }
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({:?})", self.cancel)
    }
}

impl Control<'_> {
    /// Whether the caller has cancelled.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// Numbers to be done once each, in order, by any number of threads.
pub(crate) struct Work<'a> {
    next: AtomicU64,
    count: u64,
    failed: AtomicBool,
    control: Control<'a>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(count: u64, control: Control<'a>) -> Self {
        let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self {
            next,
            count,
            failed,
            control,
        }
    }

    /// Nothing before this number is left to do.
    pub(crate) fn skip_to(&self, number: u64) {
        self.next
            .fetch_max(number.min(self.count), Ordering::Relaxed);
    }

    fn take(&self) -> Option<u64> {
        if self.failed.load(Ordering::Relaxed) || self.control.cancelled() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.count).then_some(number)
    }

    /// Processes all numbers with this many threads, each with a worker of its own; the result is
    /// the workers.
    ///
    /// Of several failures the one with the lowest number is reported: whatever is before it
    /// was taken before and is finished.
    pub(crate) fn run<W: Send>(
        &self,
        threads: usize,
        worker: impl Fn() -> Result<W, Error> + Sync,
        step: impl Fn(&mut W, u64) -> Result<(), Error> + Sync,
    ) -> Result<Vec<W>, Error> {
        let failure: Mutex<Option<(u64, Error)>> = Mutex::new(None);
        let fail = |number, error| {
            self.failed.store(true, Ordering::Relaxed);
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            if failure.as_ref().is_none_or(|(first, _)| number < *first) {
                *failure = Some((number, error));
            }
        };
        let body = || {
            let mut worker = match worker() {
                Ok(worker) => worker,
                Err(error) => {
                    fail(u64::MAX, error);
                    return None;
                }
            };
            while let Some(number) = self.take() {
                if let Err(error) = step(&mut worker, number) {
                    fail(number, error);
                }
            }
            Some(worker)
        };
        let workers = std::thread::scope(|scope| {
            let spawned: Vec<_> = (1..threads).map(|_| scope.spawn(body)).collect();
            let own = body();
            let others = spawned.into_iter().map(|thread| thread.join());
            let others = others.map(|joined| joined.expect("a worker does not panic"));
            others.chain([own]).flatten().collect()
        });
        if let Some((_, error)) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        if self.control.cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(workers)
    }
}
