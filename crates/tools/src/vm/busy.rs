//! Activity of a guest's virtual CPUs.

use brisk_host::proc::Procfs;
use serde_json::Value;

/// QEMU's threads that run the virtual CPUs.
#[derive(Debug)]
pub(super) struct Processors {
    process: u32,
    threads: Vec<u64>,
}

impl Processors {
    /// The threads of process `pid`, from QEMU's answer to `query-cpus-fast`.
    pub(super) fn of(pid: u32, answer: &Value) -> Self {
        let threads = answer.as_array().into_iter().flatten();
        let threads = threads.filter_map(|cpu| cpu["thread-id"].as_u64());
        Self {
            process: pid,
            threads: threads.collect(),
        }
    }

    /// Whether one of them runs, or would if the host had a free processor. A thread that waits for
    /// memory does not.
    pub(super) fn are_busy(&self) -> bool {
        let proc = Procfs::default();
        let mut stats = self
            .threads
            .iter()
            .map(|thread| proc.thread_stat(self.process, *thread));
        // Of a thread that has ended there is none.
        stats.any(|stat| stat.is_ok_and(|stat| stat.state == 'R'))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::thread;

    use serde_json::json;

    use super::*;

    /// A name that looks like a state, which a thread may give itself.
    const NAME: &str = "a) R";

    fn send_id(sender: &Sender<i32>) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        sender.send(thread).expect("the receiver lives");
    }

    fn of(threads: &Receiver<i32>) -> Processors {
        let thread = threads.recv().expect("a thread sends its id");
        Processors::of(std::process::id(), &json!([{"thread-id": thread}]))
    }

    #[test]
    fn who_runs_is_told_from_who_waits_and_who_has_ended() {
        let stop = AtomicBool::new(false);
        let (sender, threads) = mpsc::channel();
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let named = || thread::Builder::new().name(NAME.to_owned());
            let first = sender.clone();
            let wait = move || {
                send_id(&first);
                end.recv().expect_err("nobody says anything");
            };
            let waiting = named().spawn_scoped(scope, wait).expect("a thread");
            let waits = of(&threads);
            let run = || {
                send_id(&sender);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let running = named().spawn_scoped(scope, run).expect("a thread");
            let runs = of(&threads);
            // It has yet to come to where it waits.
            while waits.are_busy() {}
            let both = Processors {
                process: std::process::id(),
                threads: [&waits.threads[..], &runs.threads].concat(),
            };
            let seen = [&runs, &both, &waits].map(Processors::are_busy);
            stop.store(true, Ordering::Relaxed);
            assert_eq!(seen, [true, true, false]);
            running.join().expect("no panic");
            drop(ended);
            waiting.join().expect("no panic");
            // The kernel may be slower than who joins.
            while both.are_busy() {}
        });
        let unknown = Processors::of(std::process::id(), &json!({}));
        assert!(!unknown.are_busy());
    }
}
