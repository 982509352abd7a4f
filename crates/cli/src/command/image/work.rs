//! Long work with a progress bar, which Ctrl-C ends in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use brisk_image::{Control, Error, Progress};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::hint;
use crate::ui::{Bar, Ui};

type Show = Box<dyn Fn(Progress) + Sync>;

/// While this value lives, signals that would end the process only request a stop.
pub(in crate::command) struct Work {
    stop: Arc<AtomicBool>,
    signals: Vec<SigId>,
    show: Show,
}

impl Work {
    pub(in crate::command) fn new(what: &str, ui: &Ui) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let signals = [SIGINT, SIGTERM, SIGHUP].map(|signal| {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .with_context(|| format!("cannot watch for signal {signal}"))
        });
        let signals = signals.into_iter().collect::<anyhow::Result<_>>()?;
        let show = bar(ui.bar(1, &format!("{what} (MB)")));
        Ok(Self {
            stop,
            signals,
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
        for signal in self.signals.drain(..) {
            signal_hook::low_level::unregister(signal);
        }
    }
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
