//! How many guests run at once, over all threads and test binaries.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, flock};

/// Says how many; unset: two.
const VARIABLE: &str = "BRISK_TEST_GUESTS";

static TURN: AtomicUsize = AtomicUsize::new(0);

/// The right to run a guest; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "its lock is what counts")] File);

impl Slot {
    pub(crate) fn take(directory: &Path) -> Self {
        let count = std::env::var(VARIABLE).map_or(2, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{VARIABLE}={text}: not a number"))
        });
        let open = |index: usize| {
            let path = directory.join(format!("guest-{index}.lock"));
            File::create(&path).unwrap()
        };
        for index in 0..count {
            let file = open(index);
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Self(file);
            }
        }
        let file = open(TURN.fetch_add(1, Ordering::Relaxed) % count);
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}
