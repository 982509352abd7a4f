//! TB pretranslation: a second processor has the kernel's code translated before the first one
//! needs it.
//!
//! Two thirds of the time of an emulated boot, QEMU translates code, in blocks that are executed a
//! few times each. It keeps the translations for all processors of a guest. So the guest gets a
//! second processor, which its kernel does not know of. It walks through a list of the blocks that
//! the kernel executed at an earlier boot, in that order: when it jumps to a block, QEMU translates
//! the block, and later the first processor finds the block translated. Nothing but time differs
//! for the kernel:
//!
//! - The second processor has page tables of its own, which map only pages with code of the kernel,
//!   read-only, and a page of its own. At a block's first access to memory it is back, by a page
//!   fault.
//! - It visits only blocks whose every path leads to such an access before a privileged
//!   instruction, an indirect jump, a loop, or the address of code ([`walk`]). Code that the kernel
//!   patches is followed in both its forms.
//! - Code of the init sections is left to the first processor ([`kernel`]).
//! - At the end of the list, it halts for good, with interrupts off.
//!
//! In a template it waits, and visits the blocks that the first guest restored from the template
//! executed; the host writes the list into the template's memory ([`TemplateMemory`]).
//!
//! The list comes from QEMU's trace of the first boot, which costs nothing ([`trace`]), and is kept
//! together with the code in a small ELF file that QEMU starts in place of the kernel ([`image`]):
//! it starts the second processor and jumps to the kernel.

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

/// The event of QEMU's trace that lists are made from.
pub const EVENT: &str = trace::EVENT;

/// Whether this build of brisk has the code for it.
#[must_use]
pub fn is_possible() -> bool {
    pretranslator().is_some()
}

/// Version of the result: changes whenever an unchanged boot gives another one.
pub const VERSION: u32 = 7;

/// Guest-physical memory that the kernel must not use.
pub const RESERVED: Range<u64> = PRETRANSLATION_BASE..PRETRANSLATION_BASE + image::MAX;

/// Guest-physical memory of the kernel's code outside of the init sections.
#[must_use]
pub fn text(vmlinux: &[u8]) -> Option<Range<u64>> {
    Kernel::new(vmlinux, &[]).map(|kernel| kernel.text())
}

/// Makes the ELF file to start instead of `vmlinux`, from QEMU's trace of a boot (`traced`) and
/// from the content of [`text`] after the kernel had patched it (`patched`).
///
/// `None` if pretranslation would not be worth it, or the kernel's layout is unknown.
#[must_use]
pub fn from_trace(vmlinux: &[u8], patched: &[u8], traced: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, patched)?;
    let blocks = trace::blocks(traced).filter(|&block| kernel.holds(block));
    let list = List::new(&kernel, blocks.collect())?;
    image::elf(&kernel, &list)
}

/// Makes the ELF file to start instead of `vmlinux` in a template, where the second processor waits
/// for its list.
///
/// `None` if the kernel's layout is unknown.
#[must_use]
pub fn waiting(vmlinux: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, &[])?;
    image::elf(&kernel, &List::later())
}

pub use template::TemplateMemory;

#[cfg(test)]
mod tests;
