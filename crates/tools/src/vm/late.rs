//! Memory from an image that may be unreadable for a while: the guest stands still meanwhile.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use brisk_vm::image::{Image, Record};
use brisk_vm::migration::Memory;
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::qmp;
use serde_json::json;

use super::home::Home;
use super::live;

/// How long until an image that could not be read is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// A guest that waits for a page cannot stop before it has it; so QEMU may take long.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// An image whose guest runs.
pub(super) struct Late<'a> {
    home: &'a Home,
    image: &'a Image,
    given_up: AtomicBool,
    /// Dropped when the image can be read again.
    standing: Mutex<Option<Sender<()>>>,
}

impl<'a> Late<'a> {
    pub(super) fn new(home: &'a Home, image: &'a Image) -> Self {
        Self {
            home,
            image,
            given_up: AtomicBool::new(false),
            standing: Mutex::new(None),
        }
    }

    /// The guest is not wanted any more.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    fn stand(&self, reason: &str) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if standing.is_none() {
            let text = format!("VM stands still until its image can be read again: {reason}");
            self.home.note(&text);
            let (sender, receiver) = mpsc::channel();
            let home = self.home.clone();
            thread::spawn(move || stop_until(&home, &receiver));
            *standing = Some(sender);
        }
    }

    fn go_on(&self) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if standing.take().is_some() {
            self.home.note("The image can be read again, VM goes on");
        }
    }
}

/// Stops the guest until the other side of the channel is gone.
fn stop_until(home: &Home, readable: &Receiver<()>) {
    let Ok(Some(stream)) = live::connect(home) else {
        return;
    };
    let mut control = Control::new(&stream, qmp::Reader::default(), PATIENCE);
    // If QEMU has ended there is nothing to stop.
    let _ = control.execute("qmp_capabilities", &json!(null));
    let _ = control.execute("stop", &json!(null));
    let _ = readable.recv();
    let _ = control.execute("cont", &json!(null));
}

impl Memory for Late<'_> {
    fn first(&self, take: &mut dyn FnMut(u64, &[u8]) -> bool) {
        // What is not read here is read again with all the rest.
        if let Err(error) = self.image.each_working_page(take) {
            let text = format!("What the guest needs first cannot be read: {error}");
            self.home.note(&text);
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

    fn read(&self, index: u64, out: &mut [u8]) -> bool {
        loop {
            match self.image.read_chunk(index, out) {
                Ok(()) => {
                    self.go_on();
                    return true;
                }
                Err(error) => self.stand(&error.to_string()),
            }
            if self.given_up.load(Ordering::Relaxed) || live::pid(self.home).is_none() {
                return false;
            }
            thread::sleep(AGAIN);
        }
    }
}
