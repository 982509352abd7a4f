//! A second processor in the memory of a guest that is kept: it waits there, and is taught later.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use brisk_sys::PRETRANSLATION_BASE;
use brisk_sys::pretranslation_layout::{GO, NEXT, SIGNAL};

use super::kernel::Kernel;
use super::list::List;
use super::{image, trace};

/// The second processor has nothing to do, but may be taught.
const UNTAUGHT: u32 = 2;
/// It has nothing to do, and nothing would be worth it.
const IDLE: u32 = 3;

/// A file with the memory of a guest that was started by [`super::waiting`], from address 0.
#[derive(Debug)]
pub struct TemplateMemory<'a>(&'a File);

impl<'a> TemplateMemory<'a> {
    /// This one.
    #[must_use]
    pub const fn new(file: &'a File) -> Self {
        Self(file)
    }

    /// Whether a guest that goes on from it would teach something.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_untaught(&self) -> io::Result<bool> {
        let mut word = [0; 4];
        self.0
            .read_exact_at(&mut word, PRETRANSLATION_BASE + SIGNAL)?;
        Ok(u32::from_le_bytes(word) == UNTAUGHT)
    }

    /// Has the second processor of every guest that goes on from it halt, for now.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&self) -> io::Result<()> {
        self.signal(UNTAUGHT)
    }

    /// Has it visit the blocks of `vmlinux` that QEMU traced when such a guest went on; or never
    /// any, if that would not be worth it. For one caller at a time.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn teach(&self, vmlinux: &[u8], traced: &[u8]) -> io::Result<()> {
        let Some(text) = super::text(vmlinux) else {
            return self.signal(IDLE);
        };
        let length = usize::try_from(text.end - text.start).map_err(io::Error::other)?;
        let mut patched = vec![0; length];
        self.0.read_exact_at(&mut patched, text.start)?;
        let Some(memory) = memory(vmlinux, &patched, traced) else {
            return self.signal(IDLE);
        };
        // The code is there, and somebody may be in it.
        let data = &memory[NEXT as usize..];
        self.0.write_all_at(data, PRETRANSLATION_BASE + NEXT)?;
        self.signal(GO)
    }

    fn signal(&self, word: u32) -> io::Result<()> {
        self.0
            .write_all_at(&word.to_le_bytes(), PRETRANSLATION_BASE + SIGNAL)
    }
}

/// What the second processor is to find. Until it is told to go on, it halts.
fn memory(vmlinux: &[u8], patched: &[u8], traced: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, patched)?;
    let blocks = trace::blocks(traced).filter(|&block| kernel.holds(block));
    let list = List::after_boot(&kernel, blocks.collect())?;
    let mut memory = image::memory(&kernel, &list)?;
    memory[SIGNAL as usize..][..4].copy_from_slice(&UNTAUGHT.to_le_bytes());
    Some(memory)
}
