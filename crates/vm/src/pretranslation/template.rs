//! The second processor in the memory of a template: it waits there, and gets its list later.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use brisk_sys::PRETRANSLATION_BASE;
use brisk_sys::pretranslation_layout::{GO, NEXT, SIGNAL};

use super::kernel::Kernel;
use super::list::List;
use super::{image, trace};

/// State: the second processor has no list yet.
const PENDING: u32 = 2;
/// State: the second processor has no list, and none would be worth it.
const IDLE: u32 = 3;

/// File with the memory of a guest that was started by [`super::waiting`], from address 0.
#[derive(Debug)]
pub struct TemplateMemory<'a>(&'a File);

impl<'a> TemplateMemory<'a> {
    /// The template whose memory is `file`.
    #[must_use]
    pub const fn new(file: &'a File) -> Self {
        Self(file)
    }

    /// Whether a guest that is restored from the template should be traced.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn lacks_pretranslation(&self) -> io::Result<bool> {
        let mut word = [0; 4];
        self.0
            .read_exact_at(&mut word, PRETRANSLATION_BASE + SIGNAL)?;
        Ok(u32::from_le_bytes(word) == PENDING)
    }

    /// Has the second processor of every guest that is restored from the template halt, for now.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn await_pretranslation(&self) -> io::Result<()> {
        self.signal(PENDING)
    }

    /// Writes the list of blocks of `vmlinux`, from QEMU's trace of a restored guest; or records
    /// that none would be worth it. For one caller at a time.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add_pretranslation(&self, vmlinux: &[u8], traced: &[u8]) -> io::Result<()> {
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

/// Memory of the second processor for the template. It halts until it gets a signal.
fn memory(vmlinux: &[u8], patched: &[u8], traced: &[u8]) -> Option<Vec<u8>> {
    let kernel = Kernel::new(vmlinux, patched)?;
    let blocks = trace::blocks(traced).filter(|&block| kernel.holds(block));
    let list = List::after_boot(&kernel, blocks.collect())?;
    let mut memory = image::memory(&kernel, &list)?;
    memory[SIGNAL as usize..][..4].copy_from_slice(&PENDING.to_le_bytes());
    Some(memory)
}
