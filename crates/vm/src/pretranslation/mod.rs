//! Having a second processor translate the kernel's code before the first one comes to it.
//!
//! Two thirds of the time of an emulated boot QEMU translates code, in blocks that are executed
//! a few times each. It keeps the translations for all processors of a guest. So the guest gets a
//! second one, of which its kernel knows nothing, and which walks through a list of the blocks
//! that the kernel executed at an earlier boot, in that order: having been sent to a block, it has
//! QEMU translate it, and by then the first processor finds it translated. Nothing but time
//! differs for the kernel:
//!
//! - The second processor has page tables of its own, in which only pages with code of the kernel
//!   are mapped, read-only, and a page of its own. At a block's first access to memory it is back,
//!   by a page fault.
//! - It is sent only to blocks whose every path comes to such an access before it comes to a
//!   privileged instruction, an indirect jump or a loop, or to the
//!   address of code ([`walk`]); whatever the kernel patches is
//!   followed in both its forms.
//! - What is only there while the kernel boots is left to the first processor ([`kernel`]).
//! - When the list is at its end, it halts for good, with interrupts off.
//!
//! In a guest that is kept to go on from it waits, and visits what the first one that went on
//! executed, of which the host writes the list into the guest's memory ([`TemplateMemory`]).
//!
//! The list comes from QEMU's trace of the first boot, which costs nothing ([`trace`]), and is
//! kept together with the code in a small ELF that QEMU starts in place of the kernel
//! ([`image`]): it starts the second processor and jumps to the kernel.

mod image;
mod kernel;
mod list;
mod template;
mod trace;
mod walk;

use std::ops::Range;

use brisk_sys::{PRETRANSLATION_BASE, pretranslator};

use kernel::Kernel;
use list::List;

/// The event of QEMU's trace that is learnt from.
pub const EVENT: &str = trace::EVENT;

/// Whether this machine's build of brisk can have that done.
#[must_use]
pub fn is_possible() -> bool {
    pretranslator().is_some()
}

/// Changes whenever what is made of the same boot does.
pub const VERSION: u32 = 7;

/// Guest-physical memory that the kernel must leave alone.
pub const RESERVED: Range<u64> = PRETRANSLATION_BASE..PRETRANSLATION_BASE + image::MAX;

/// The guest-physical memory of the kernel's code that stays when it has booted.
#[must_use]
pub fn text(vmlinux: &[u8]) -> Option<Range<u64>> {
    Kernel::new(vmlinux, &[]).map(|kernel| kernel.text())
}

/// The ELF to start instead of `vmlinux`, from what QEMU traced as it booted, and what was in
/// [`text`] after the kernel had patched it.
///
/// `None` if there is nothing in it that would be worth it, or it has not the shape that is known.
#[must_use]
pub fn learn(vmlinux: &[u8], patched: &[u8], traced: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, patched)?;
    let blocks = trace::blocks(traced).filter(|&block| kernel.holds(block));
    let list = List::new(&kernel, blocks.collect())?;
    image::elf(&kernel, &list)
}

/// The ELF to start instead of `vmlinux` where the second processor is to wait until it is taught.
///
/// `None` if the kernel has not the shape that is known.
#[must_use]
pub fn waiting(vmlinux: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, &[])?;
    image::elf(&kernel, &List::later())
}

pub use template::TemplateMemory;

#[cfg(test)]
mod tests;
