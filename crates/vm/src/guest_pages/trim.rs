//! Removal of guest memory that the guest does not need.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

use super::{Memory, VmcoreinfoLocation, free_pages, vmcoreinfo};
use crate::holes::each_stretch;
use brisk_image::{PAGE, PAGE_SIZE, Pages, is_zero};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Punches holes for pages that are free or zero: the guest finds zeros in both. Free pages are
/// known if the guest's kernel has VMCOREINFO; the guest must be stopped. The result is the number
/// of bytes of data that are left.
///
/// # Errors
/// If the file cannot be read or changed.
pub fn trim(memory: Memory<'_>) -> io::Result<u64> {
    let free = free(memory)?.unwrap_or_else(|| Pages::none(memory.end()));
    let mut left = 0;
    let mut hole: Option<(u64, u64)> = None;
    let punch = |hole: &mut Option<(u64, u64)>| match hole.take() {
        Some((start, end)) => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(memory.file, flags, start, end - start)
        }
        None => Ok(()),
    };
    each_page(memory, |at, page| {
        if free.contains(at / PAGE_SIZE) || is_zero(page) {
            match &mut hole {
                Some((_, end)) if *end == at => *end += PAGE_SIZE,
                _ => {
                    punch(&mut hole)?;
                    hole = Some((at, at + PAGE_SIZE));
                }
            }
        } else {
            left += PAGE_SIZE;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    punch(&mut hole)?;
    Ok(left)
}

/// The free pages, by a VMCOREINFO note that is found at the beginning of a page.
fn free(memory: Memory<'_>) -> io::Result<Option<Pages>> {
    let mut found = None;
    each_page(memory, |at, page| {
        let place = place(memory, at, page);
        found = place.and_then(|place| free_pages(memory, place).ok());
        Ok(match found {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
    })?;
    Ok(found)
}

/// Place of the VMCOREINFO note that a page begins with.
fn place(memory: Memory<'_>, at: u64, page: &[u8]) -> Option<VmcoreinfoLocation> {
    let (front, length) = vmcoreinfo::extent(page)?;
    let mut ranges = memory.ranges.iter();
    let range = ranges.find(|range| (range.offset..range.offset + range.length).contains(&at))?;
    Some(VmcoreinfoLocation {
        address: range.address + at - range.offset,
        length: (front + length) as u64,
    })
}

/// Calls `take` for each page of the file that is no hole, with its offset, until `take` breaks.
fn each_page(
    memory: Memory<'_>,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut bytes = vec![0; PIECE];
    let mut on = true;
    each_stretch(memory.file, memory.end(), |stretch| {
        let mut at = stretch.start;
        while at < stretch.end && on {
            let length = (stretch.end - at).min(PIECE as u64) as usize;
            memory.file.read_exact_at(&mut bytes[..length], at)?;
            for (number, page) in bytes[..length].chunks(PAGE).enumerate() {
                if take(at + number as u64 * PAGE_SIZE, page)?.is_break() {
                    on = false;
                    break;
                }
            }
            at += length as u64;
        }
        Ok(())
    })
}
