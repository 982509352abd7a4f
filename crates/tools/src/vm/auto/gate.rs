//! Where threads wait that save guests at once: a [`Budget`] with a clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use brisk_image::Progress;

use super::budget::{Answer, Budget, Load};
use super::turn::Turn;
use crate::vm::error::Error;
use crate::vm::late::Late;

/// Interval of measuring, and at which a cancellation is noticed.
const TICK: Duration = Duration::from_millis(100);

/// The guests that are saved at once.
pub(super) struct Gate<'a> {
    begun: Instant,
    turn: Turn<'a>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    budget: Budget,
    next: usize,
    begun: Vec<Arc<Share>>,
    is_over: bool,
}

/// What the threads of one guest have in common.
struct Share {
    id: usize,
    bytes: u64,
    done: AtomicU64,
    cancel: AtomicBool,
    late: OnceLock<Late>,
}

/// The gate, as long as guests may come.
pub(super) struct Open<'g, 'a>(&'g Gate<'a>);

/// Leave to save a guest, until this is dropped.
pub(super) struct Pass<'g, 'a> {
    gate: &'g Gate<'a>,
    share: Arc<Share>,
}

impl<'a> Gate<'a> {
    /// Guests are saved until `until`; without it, for as long as it takes.
    pub(super) fn new(begun: Instant, until: Option<Duration>, turn: Turn<'a>) -> Self {
        Self {
            begun,
            turn,
            state: Mutex::new(State {
                budget: Budget::new(until, turn.jobs),
                next: 0,
                begun: Vec::new(),
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits until a guest may be saved.
    ///
    /// # Errors
    /// If it would not be done in time, or the caller cancels.
    pub(super) fn enter(&self, load: Load) -> Result<Pass<'_, 'a>, Error> {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.budget.queue(id, load);
        loop {
            if self.turn.is_cancelled() {
                state.budget.leave(id);
                return Err(Error::Interrupted);
            }
            match state.budget.ask(id, self.begun.elapsed()) {
                Answer::Go => break,
                Answer::Late(late) => return Err(Error::Late(late)),
                Answer::Wait => state = self.wait(state),
            }
        }
        let share = Arc::new(Share {
            id,
            bytes: load.bytes,
            done: AtomicU64::new(0),
            cancel: AtomicBool::new(false),
            late: OnceLock::new(),
        });
        state.begun.push(Arc::clone(&share));
        drop(state);
        // Another one is the first of those that wait now.
        self.changed.notify_all();
        Ok(Pass { gate: self, share })
    }

    /// Guests may come until this is dropped.
    pub(super) fn open(&self) -> Open<'_, 'a> {
        Open(self)
    }

    /// Measures, and ends those that would not be done in time, as long as guests may come.
    pub(super) fn watch(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let State { budget, begun, .. } = &mut *state;
            for share in begun.iter() {
                budget.did(share.id, share.done.load(Ordering::Relaxed));
            }
            for (id, late) in budget.look(self.begun.elapsed()) {
                if let Some(share) = begun.iter().find(|share| share.id == id) {
                    let _ = share.late.set(late);
                    share.cancel.store(true, Ordering::Relaxed);
                }
            }
            if self.turn.is_cancelled() {
                for share in begun.iter() {
                    share.cancel.store(true, Ordering::Relaxed);
                }
            }
            state = self.wait(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Pass<'_, '_> {
    /// So much of its memory is written.
    pub(super) fn did(&self, progress: Progress) {
        let total = u128::from(progress.total.max(1));
        let done = u128::from(progress.done) * u128::from(self.share.bytes) / total;
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        self.share.done.fetch_max(done, Ordering::Relaxed);
    }

    /// Is true when it is to be saved no more.
    pub(super) fn cancel(&self) -> &AtomicBool {
        &self.share.cancel
    }

    /// The error of what was interrupted: why, if it would not be done in time.
    pub(super) fn explain(&self, error: Error) -> Error {
        match (error, self.share.late.get()) {
            (Error::Interrupted, Some(late)) => Error::Late(*late),
            (error, _) => error,
        }
    }
}

impl Drop for Open<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Pass<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.budget.leave(self.share.id);
        state.begun.retain(|share| share.id != self.share.id);
        drop(state);
        self.gate.changed.notify_all();
    }
}
