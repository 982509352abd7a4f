//! Memory from an image that may be unreadable for a while: the guest is stopped meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use brisk_host::files::{self, Durability};
use brisk_image::{Image, Record};
use brisk_vm::migration::{Memory, Reading};
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::qmp;
use serde_json::json;

use super::busy::Processors;
use super::clock::set_clock;
use super::paths::VmPaths;
use super::process;
use brisk_host::chain;

/// Interval at which an image that could not be read is tried again.
const AGAIN: Duration = Duration::from_millis(500);
const ATOMIC: Durability = Durability::Atomic;
/// Time limit of QEMU: a guest that waits for a page cannot stop before it has the page.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// An image whose guest runs.
pub(super) struct PostcopyMemory<'a> {
    paths: &'a VmPaths,
    image: &'a Image,
    given_up: AtomicBool,
    waited_for: AtomicBool,
    has_run: AtomicBool,
    processors: OnceLock<Processors>,
    standing: Mutex<Standing>,
}

/// State of the guest.
#[derive(Default)]
struct Standing {
    /// QEMU can get the command to stop the guest: no other process talks to it.
    runs: bool,
    /// Chunks that could not be read at the last try.
    missing: BTreeSet<u64>,
    /// Dropped when the image can be read again, which continues the guest.
    until: Option<Sender<()>>,
    /// Other end of `until`, for the thread that stops the guest, where that has to wait.
    later: Option<Receiver<()>>,
}

impl<'a> PostcopyMemory<'a> {
    pub(super) fn new(paths: &'a VmPaths, image: &'a Image) -> Self {
        Self {
            paths,
            image,
            given_up: AtomicBool::new(false),
            waited_for: AtomicBool::new(true),
            has_run: AtomicBool::new(false),
            processors: OnceLock::new(),
            standing: Mutex::default(),
        }
    }

    /// The image.
    pub(super) fn image(&self) -> &'a Image {
        self.image
    }

    /// Gives up reading: the guest is not wanted any more.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.has_answered();
    }

    /// Records that no command waits for the guest any more.
    pub(super) fn has_answered(&self) {
        self.waited_for.store(false, Ordering::Relaxed);
    }

    /// Records that QEMU has reported that the guest runs.
    pub(super) fn set_has_run(&self) {
        self.has_run.store(true, Ordering::Relaxed);
    }

    /// Whether QEMU has reported that the guest runs.
    pub(super) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// Sets the guest's virtual CPUs.
    pub(super) fn has(&self, processors: Processors) {
        let _ = self.processors.set(processors);
    }

    /// Records that the guest can be stopped from now on. Before, that would keep the thread that
    /// runs the guest from talking to QEMU, which listens to one connection at a time.
    pub(super) fn runs(&self) {
        let mut standing = self.standing();
        standing.runs = true;
        if let Some(until) = standing.later.take() {
            self.stop(until);
        }
    }

    /// Whether the image could not be read at the last try.
    pub(super) fn is_unreadable(&self) -> bool {
        self.standing().until.is_some()
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand(&self, index: u64, error: &brisk_image::Error) {
        let is_damaged = matches!(error, brisk_image::Error::Damaged { .. });
        let mut standing = self.standing();
        standing.missing.insert(index);
        if standing.until.is_none() {
            let reason = self.reason(index, error);
            self.paths.note(&match is_damaged {
                true => format!("VM stands still: {reason}"),
                false => format!("VM stands still until its image can be read again: {reason}"),
            });
            // Without it the reason is in the log alone.
            let path = match is_damaged {
                true => self.paths.damaged(),
                false => self.paths.unreadable(),
            };
            drop(files::replace(&path, reason.as_bytes(), ATOMIC));
            let (sender, receiver) = mpsc::channel();
            standing.until = Some(sender);
            if standing.runs {
                self.stop(receiver);
            } else {
                standing.later = Some(receiver);
            }
        }
    }

    /// Why a chunk cannot be read, and what to do.
    fn reason(&self, index: u64, error: &brisk_image::Error) -> String {
        let image = brisk_image::resumed_name(self.image.path());
        let image = image.display();
        match error {
            brisk_image::Error::Damaged { path, .. } => {
                let start = index * self.chunk() as u64;
                let end = self.length().min(start + self.chunk() as u64);
                // The lock is on the file itself.
                let what = match self.image.path() == path {
                    true => format!("{image}"),
                    false => format!("{}, which {image} is based on", path.display()),
                };
                format!(
                    "guest memory {start:#x} to {end:#x} does not pass authentication: {what} is \
                     damaged; write a good copy over that file, as with cp, and the VM goes on, or \
                     end it with brisk vm kill"
                )
            }
            error => chain(error),
        }
    }

    fn stop(&self, until: Receiver<()>) {
        let paths = self.paths.clone();
        thread::spawn(move || stop_until(&paths, &until));
    }

    fn was_read(&self, index: u64) {
        let mut standing = self.standing();
        standing.missing.remove(&index);
        // Other parts of it may be readable all the time.
        if !standing.missing.is_empty() {
            return;
        }
        standing.later = None;
        if standing.until.take().is_some() {
            for reason in [self.paths.unreadable(), self.paths.damaged()] {
                let _ = fs::remove_file(reason);
            }
            self.paths.note("The image can be read again, VM goes on");
        }
    }
}

/// Stops the guest until the other end of the channel is dropped.
fn stop_until(paths: &VmPaths, readable: &Receiver<()>) {
    let Ok(Some(stream)) = process::connect_within(paths, PATIENCE) else {
        return;
    };
    let mut control = Control::new(&stream, qmp::Reader::default(), PATIENCE);
    // If QEMU has ended there is nothing to stop.
    let _ = control.execute("qmp_capabilities", &json!(null));
    let _ = control.execute("stop", &json!(null));
    let _ = readable.recv();
    if control.execute("cont", &json!(null)).is_ok() {
        // It has stood still since.
        set_clock(paths);
    }
}

impl Memory for PostcopyMemory<'_> {
    fn first(&self, take: &mut dyn FnMut(u64, &[u8]) -> bool) {
        // What is not read here is read again with all the rest.
        if let Err(error) = self.image.each_working_page(take) {
            let reason = chain(&error);
            let text = format!("What the guest needs first cannot be read: {reason}");
            self.paths.note(&text);
        }
    }

    fn length(&self) -> u64 {
        self.image.header().memory
    }

    fn chunk(&self) -> usize {
        self.image.header().chunk_size as usize
    }

    fn is_zero(&self, index: u64) -> bool {
        self.image.records().get(index as usize) == Some(&Record::Zero)
    }

    fn read(&self, index: u64, out: &mut [u8], wait: bool) -> Reading {
        loop {
            match self.image.read_chunk(index, out) {
                Ok(()) => {
                    self.was_read(index);
                    return Reading::Whole;
                }
                Err(error) => self.stand(index, &error),
            }
            if self.given_up.load(Ordering::Relaxed) || process::pid(self.paths).is_none() {
                return Reading::GivenUp;
            }
            if !wait {
                return Reading::Later;
            }
            thread::sleep(AGAIN);
        }
    }

    fn is_at_work(&self) -> bool {
        let busy = || self.processors.get().is_some_and(Processors::are_busy);
        self.waited_for.load(Ordering::Relaxed) || busy()
    }
}
