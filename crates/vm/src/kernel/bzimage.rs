//! The setup header of a bzImage. Source: `Documentation/arch/x86/boot.rst`.

use std::borrow::Cow;

use brisk_host::kernel::bzimage_version;

use super::compression::Compression;
use super::error::Reason;
use super::{Image, elf};

/// `XLF_KERNEL_64`: the kernel has the 64-bit entry point (protocol 2.12).
const XLF_KERNEL_64: u16 = 1;

/// `XLF_CAN_BE_LOADED_ABOVE_4G`: it runs wherever it is loaded.
const XLF_CAN_BE_LOADED_ABOVE_4G: u16 = 2;

/// In `loadflags`: the protected-mode code is loaded at 1 MiB.
const LOADED_HIGH: u8 = 1;

/// Fields of the setup header of a bzImage.
#[derive(Debug)]
pub struct BzImage<'a> {
    /// Version of the boot protocol: major in the high byte.
    pub protocol: u16,
    /// Where its setup code enters protected mode: `code32_start`, if it is loaded there
    /// (`LOADED_HIGH`), as every bzImage is.
    pub entry: Option<u32>,
    /// Release of the kernel.
    pub version: Option<&'a str>,
    /// Longest command line that it takes, bytes, without the NUL at its end (`cmdline_size`).
    pub cmdline_size: u32,
    /// Memory that it needs from where it is loaded on, bytes (`init_size`).
    pub init_size: u32,
    /// Whether it can be loaded anywhere, as kexec_file_load(2) does
    /// (`XLF_CAN_BE_LOADED_ABOVE_4G`).
    pub is_relocatable: bool,
    /// The compressed vmlinux, with the size trailer that all formats but gzip have.
    pub payload: &'a [u8],
}

/// Whether the bytes have the magic numbers of a bzImage.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.get(0x1fe..0x200) == Some(&[0x55, 0xaa]) && bytes.get(0x202..0x206) == Some(b"HdrS")
}

impl<'a> BzImage<'a> {
    /// Reads the setup header.
    ///
    /// # Errors
    ///
    /// If it is no bzImage, a 32-bit one, or its payload reaches beyond the end of the file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Reason> {
        if !is(bytes) {
            return Err(Reason::NotKernel(super::error::looks_like(bytes)));
        }
        if bytes.len() < 0x250 {
            return Err(truncated("the setup header", 0x250, bytes));
        }
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u64::from(u16_at(at)) | u64::from(u16_at(at + 2)) << 16;
        let protocol = u16_at(0x206);
        if protocol < 0x0208 {
            return Err(Reason::OldProtocol(protocol));
        }
        if protocol >= 0x020c && u16_at(0x236) & XLF_KERNEL_64 == 0 {
            return Err(Reason::ThirtyTwoBit);
        }
        // Zero means four sectors, for images of the oldest protocols.
        let sectors = match bytes[0x1f1] {
            0 => 4,
            sectors => u64::from(sectors),
        };
        let start = (sectors + 1) * 512 + u32_at(0x248);
        let end = start + u32_at(0x24c);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let payload = range
            .and_then(|(start, end)| bytes.get(start..end))
            .ok_or_else(|| truncated("the compressed kernel", end, bytes))?;
        if payload.is_empty() {
            return Err(Reason::NotKernel(
                "a program that boots as one, without a payload",
            ));
        }
        let high = bytes[0x211] & LOADED_HIGH != 0;
        Ok(Self {
            protocol,
            entry: high.then_some(u32_at(0x214) as u32),
            version: bzimage_version(bytes),
            cmdline_size: u32_at(0x238) as u32,
            init_size: match bytes.get(0x260..0x264) {
                Some(_) if protocol >= 0x020a => u32_at(0x260) as u32,
                _ => 0,
            },
            is_relocatable: protocol >= 0x020c && u16_at(0x236) & XLF_CAN_BE_LOADED_ABOVE_4G != 0,
            payload,
        })
    }

    /// How the payload is compressed; `None` if it is an ELF as it is (`CONFIG_KERNEL_UNCOMPRESSED`)
    /// or unknown.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        Compression::of(self.payload)
    }

    /// The decompressed payload, checked to be an x86-64 kernel.
    ///
    /// # Errors
    ///
    /// If the payload is corrupt, too large, or not for x86-64.
    pub fn vmlinux(&self) -> Result<Cow<'a, [u8]>, Reason> {
        if let Ok(Image::Vmlinux(bytes)) = Image::parse(self.payload) {
            return Ok(Cow::Borrowed(bytes));
        }
        let Some(compression) = self.compression() else {
            let start = &self.payload[..self.payload.len().min(8)];
            return Err(Reason::UnknownCompression(start.to_owned()));
        };
        let vmlinux = match self.payload.split_last_chunk::<4>() {
            // gzip ends with the size by itself; for the others the kernel's build appends it
            // (scripts/Makefile.lib, size_append).
            Some((data, size)) if compression != Compression::Gzip => {
                compression.decompress(data, Some(u32::from_le_bytes(*size)))?
            }
            _ => compression.decompress(self.payload, None)?,
        };
        elf::check(&vmlinux)?;
        Ok(Cow::Owned(vmlinux))
    }
}

fn truncated(what: &'static str, expected: u64, bytes: &[u8]) -> Reason {
    Reason::Truncated {
        what,
        expected,
        found: bytes.len() as u64,
    }
}
