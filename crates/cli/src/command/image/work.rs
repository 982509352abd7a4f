//! Long work with a progress bar, which Ctrl-C ends in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use brisk_image::{Control, Error, Progress};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::hint;
use crate::ui::{Bar, Ui};

/// Time that a command which was asked to end has for its last words.
const FAREWELL: Duration = Duration::from_secs(1);

type Show = Box<dyn Fn(Progress) + Sync>;

/// While this value lives, signals that would end the process only request a stop. Afterwards they
/// end it.
pub(in crate::command) struct Work {
    stop: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    show: Show,
}

impl Work {
    pub(in crate::command) fn new(what: &str, ui: &Ui) -> anyhow::Result<Self> {
        let (stop, is_over) = (Arc::default(), Arc::default());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Unregistering would leave the signal without effect.
            flag::register_conditional_default(signal, Arc::clone(&is_over))
                .and_then(|_| flag::register(signal, Arc::clone(&stop)))
                .with_context(|| format!("cannot watch for signal {signal}"))?;
        }
        let show = bar(ui.bar(1, &format!("{what} (MB)")));
        Ok(Self {
            stop,
            is_over,
            show,
        })
    }

    pub(in crate::command) fn control(&self) -> Control<'_> {
        Control {
            progress: &*self.show,
            cancel: &self.stop,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) {
            // It came when the work was nearly done; the terminal may take no words about that.
            end_soon();
        }
    }
}

/// Ends this process, which a signal has asked to end and whose work is over, if its last words block.
pub(in crate::command) fn end_soon() {
    thread::spawn(|| {
        thread::sleep(FAREWELL);
        let _ = signal_hook::low_level::emulate_default_handler(SIGTERM);
    });
}

/// Formats a bar in megabytes; several threads report to it.
fn bar(bar: Bar) -> Show {
    let sized = AtomicBool::new(false);
    Box::new(move |progress: Progress| {
        if !sized.swap(true, Ordering::Relaxed) {
            bar.of(progress.total / 1_000_000);
        }
        bar.at(progress.done / 1_000_000);
    })
}

/// An error with its hint, what the user can try, as part of the message.
pub(in crate::command) fn with_hint(error: Error) -> anyhow::Error {
    let hint = error.hint();
    hint::with_hint(error, hint)
}
