//! Memory: its speed, and what the kernel does for it.

use std::fs;
use std::hint::black_box;
use std::io;

use super::user::xorshift;
use crate::batch::{Batch, Prepared, Skip, Work};
use crate::sys::{self, Area, Child, PAGE};

/// Bytes of a large area.
const LARGE: usize = 64 << 20;
/// Bytes of the area that faults are measured in.
const SMALL: usize = 2048 * PAGE;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Words of a page, and of a line of the cache.
const PAGE_WORDS: usize = PAGE / 8;
const LINE_WORDS: usize = 8;

/// Refuses what would make the target use up its memory.
fn need(bytes: usize) -> Result<(), Skip> {
    // A target that does not say how much it has is tried.
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    match available {
        Some(available) if available << 10 < bytes + bytes / 2 => Err(Skip(format!(
            "it needs {} MiB of memory, and {} MiB are available",
            bytes >> 20,
            available >> 10
        ))),
        _ => Ok(()),
    }
}

pub(super) fn copy() -> Prepared {
    need(2 * LARGE)?;
    let mut from = Area::anonymous(LARGE)?;
    let mut to = Area::anonymous(LARGE)?;
    from.write_every(PAGE);
    to.write_every(PAGE);
    Ok(Box::new(move |_| {
        let (from, to) = (from.words(), to.words());
        Batch::of((LARGE / PAGE) as u64, || {
            to.copy_from_slice(from);
            black_box(to);
            Ok(())
        })
    }))
}

/// Loads in `words`, which have to be zero, one in each page, in a random circle.
fn circle(words: &mut [u64]) -> usize {
    let pages = words.len() / PAGE_WORDS;
    // Not the same line of each page: those share few places of the caches.
    let place = |page: usize| page * PAGE_WORDS + page * LINE_WORDS % PAGE_WORDS;
    // One circle through all: Sattolo, "An algorithm to generate a random cyclic permutation",
    // Information Processing Letters 22, 1986.
    let mut order: Vec<usize> = (0..pages).collect();
    let mut state = 1;
    for last in (1..pages).rev() {
        state = xorshift(state);
        order.swap(last, state as usize % last);
    }
    for (page, next) in order.iter().enumerate() {
        words[place(page)] = place(*next) as u64;
    }
    place(0)
}

fn chased(mut area: Area, skipped: usize) -> Box<Work<'static>> {
    let words = LARGE / 8;
    let mut at = circle(&mut area.words()[skipped..][..words]);
    Box::new(move |count| {
        let words = &area.words()[skipped..][..words];
        Batch::of(count, || {
            for _ in 0..count {
                at = words[at] as usize;
            }
            black_box(at);
            Ok(())
        })
    })
}

pub(super) fn chase() -> Prepared {
    need(LARGE)?;
    Ok(chased(Area::anonymous(LARGE)?, 0))
}

pub(super) fn chase_huge() -> Prepared {
    need(LARGE + HUGE)?;
    let none = |_: io::Error| Skip("the kernel has no transparent huge pages".to_owned());
    let before = huge_pages();
    let mut area = Area::huge(LARGE + HUGE).map_err(none)?;
    area.write_every(PAGE);
    let got = huge_pages().saturating_sub(before);
    if got < (LARGE - HUGE) >> 10 {
        return Err(Skip(format!(
            "of {} MiB, the kernel has {} MiB in huge pages",
            LARGE >> 20,
            got >> 10
        )));
    }
    let words = area.words();
    // The circle wants zeros.
    words.fill(0);
    let skipped = words.as_ptr().addr().next_multiple_of(HUGE) - words.as_ptr().addr();
    Ok(chased(area, skipped / 8))
}

/// KiB of this process in transparent huge pages; 0 if the kernel does not say.
fn huge_pages() -> usize {
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let sizes = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("AnonHugePages:")?;
        rest.trim().strip_suffix(" kB")?.parse::<usize>().ok()
    });
    sizes.sum()
}

pub(super) fn fault_anonymous() -> Prepared {
    Ok(Box::new(|_| {
        let mut area = Area::anonymous(SMALL)?;
        Batch::of((SMALL / PAGE) as u64, || {
            area.write_every(PAGE);
            Ok(())
        })
    }))
}

pub(super) fn unmap() -> Prepared {
    Ok(Box::new(|_| {
        let mut area = Area::anonymous(SMALL)?;
        area.write_every(PAGE);
        Batch::of((SMALL / PAGE) as u64, || {
            drop(area);
            Ok(())
        })
    }))
}

pub(super) fn fault_copy() -> Prepared {
    Ok(Box::new(|_| {
        let mut area = Area::anonymous(SMALL)?;
        area.write_every(PAGE);
        let (waits, wakes) = sys::pipe()?;
        let raw = std::os::fd::AsRawFd::as_raw_fd(&wakes);
        let child = Child::fork(|| {
            // Else it would keep the pipe open for which it waits.
            sys::close_copy(raw);
            // It ends when the pipe is closed, also by the end of the probe.
            let _ = sys::read_all(&waits, &mut [0]);
        })?;
        let batch = Batch::of((SMALL / PAGE) as u64, || {
            area.write_every(PAGE);
            Ok(())
        });
        drop(wakes);
        drop(child);
        batch
    }))
}
