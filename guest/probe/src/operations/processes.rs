//! System calls, switches between threads and processes, and their making.

use std::io;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::batch::{Batch, Prepared, Skip};
use crate::sys::{self, Area, Child, PAGE, Processors};

/// How long a sleep is to be.
const SLEEP: Duration = Duration::from_micros(50);

pub(super) fn getppid() -> Prepared {
    Ok(Box::new(|count| {
        Batch::of(count, || {
            (0..count).for_each(|_| sys::parent());
            Ok(())
        })
    }))
}

pub(super) fn pipe() -> Prepared {
    Ok(Box::new(|count| {
        let (from_parent, to_child) = sys::pipe()?;
        let (from_child, to_parent) = sys::pipe()?;
        let own = [to_child.as_raw_fd(), from_child.as_raw_fd()];
        let child = Child::fork(|| {
            own.into_iter().for_each(sys::close_copy);
            let mut byte = [0];
            // It ends when the pipe is closed, also by the end of the probe.
            while sys::read_all(&from_parent, &mut byte).is_ok()
                && sys::write_all(&to_parent, &byte).is_ok()
            {}
        })?;
        // Only the child has them then: the probe sees its end.
        drop((from_parent, to_parent));
        let round_trip = || {
            sys::write_all(&to_child, &[1])?;
            sys::read_all(&from_child, &mut [0])
        };
        // The child is there when the time begins.
        let batch = round_trip()
            .and_then(|()| Batch::of(count, || (0..count).try_for_each(|_| round_trip())));
        drop((to_child, from_child));
        drop(child);
        batch
    }))
}

pub(super) fn futex() -> Prepared {
    Ok(Box::new(|count| {
        let turn = AtomicU32::new(0);
        let wait_while = |value| {
            while turn.load(Ordering::Acquire) == value {
                sys::futex_wait(&turn, value);
            }
        };
        let give = |value| {
            turn.store(value, Ordering::Release);
            sys::futex_wake(&turn);
        };
        let round_trip = || {
            give(1);
            wait_while(1);
        };
        thread::scope(|scope| {
            let answers = || {
                for _ in 0..=count {
                    wait_while(0);
                    give(0);
                }
            };
            thread::Builder::new().spawn_scoped(scope, answers)?;
            // The thread is there when the time begins.
            round_trip();
            Batch::of(count, || {
                (0..count).for_each(|_| round_trip());
                Ok(())
            })
        })
    }))
}

pub(super) fn exec() -> Prepared {
    let program = std::env::current_exe()?;
    Ok(Box::new(move |count| {
        Batch::of(count, || {
            for _ in 0..count {
                let status = Command::new(&program).arg("--exit").status()?;
                if !status.success() {
                    return Err(io::Error::other(format!("the probe ended with {status}")));
                }
            }
            Ok(())
        })
    }))
}

pub(super) fn fork() -> Prepared {
    Ok(Box::new(|count| {
        Batch::of(count, || {
            (0..count).try_for_each(|_| Child::fork(|| ()).map(drop))
        })
    }))
}

pub(super) fn sleep() -> Prepared {
    sys::timer_slack(1);
    Ok(Box::new(|count| {
        let begun = Instant::now();
        for _ in 0..count {
            thread::sleep(SLEEP);
        }
        let slept = SLEEP * u32::try_from(count).unwrap_or(u32::MAX);
        let time = begun.elapsed().saturating_sub(slept);
        Ok(Batch { count, time })
    }))
}

pub(super) fn mprotect() -> Prepared {
    let allowed = Processors::allowed()?;
    let processors = allowed.each();
    let [own, other, ..] = &processors[..] else {
        return Err(Skip("there is one CPU".to_owned()));
    };
    let (own, other) = (own.clone(), other.clone());
    Ok(Box::new(move |count| {
        let mut area = Area::anonymous(PAGE)?;
        area.write_every(PAGE);
        let (runs, ends) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let spins = || {
                let entered = other.enter();
                runs.store(true, Ordering::Release);
                while !ends.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                entered
            };
            let thread = thread::Builder::new().spawn_scoped(scope, spins)?;
            let batch = own.enter().and_then(|()| {
                while !runs.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                Batch::of(count, || {
                    (0..count).try_for_each(|_| area.protect_and_back())
                })
            });
            ends.store(true, Ordering::Release);
            let entered = thread
                .join()
                .map_err(|_| io::Error::other("the thread failed"));
            allowed.enter()?;
            entered??;
            batch
        })
    }))
}
