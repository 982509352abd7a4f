//! Unified kernel images: PE files with the parts of a boot as sections.
//!
//! Source: the UAPI Group's "Unified Kernel Image" specification.

use object::pe::IMAGE_FILE_MACHINE_AMD64;
use object::read::pe::PeFile64;
use object::{LittleEndian as LE, Object, ObjectSection};

use super::error::Reason;

/// The sections of a UKI.
#[derive(Debug)]
pub struct Uki<'a> {
    /// `.linux`: the bzImage.
    pub linux: &'a [u8],
    /// `.initrd`: the initramfs.
    pub initrd: Option<&'a [u8]>,
    /// `.cmdline`: the kernel command line.
    pub cmdline: Option<&'a str>,
    /// `.uname`: the release.
    pub uname: Option<&'a str>,
}

impl<'a> Uki<'a> {
    /// Reads the section table.
    ///
    /// # Errors
    ///
    /// If it is not a PE file for x86-64 with a `.linux` section.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Reason> {
        let Ok(pe) = PeFile64::parse(bytes) else {
            return Err(Reason::NotKernel(
                "a malformed or 32-bit DOS, Windows or EFI program",
            ));
        };
        let section = |name: &str| {
            let section = pe.section_by_name(name)?;
            Some(section.data().map_err(|_| {
                Reason::Truncated {
                    what: "a section of the UKI",
                    expected: section
                        .file_range()
                        .map_or(0, |(at, size)| at.saturating_add(size)),
                    found: bytes.len() as u64,
                }
            }))
        };
        let machine = pe.nt_headers().file_header.machine.get(LE);
        let linux = match section(".linux") {
            None => return Err(Reason::NotKernel("an EFI program without a .linux section")),
            Some(_) if machine != IMAGE_FILE_MACHINE_AMD64 => {
                return Err(Reason::Foreign("another architecture (a UKI)"));
            }
            Some(linux) => linux?,
        };
        let text = |name: &str| -> Result<Option<&'a str>, Reason> {
            let Some(data) = section(name).transpose()? else {
                return Ok(None);
            };
            let text =
                std::str::from_utf8(data).map_err(|_| Reason::Malformed("UKI text section"))?;
            Ok(Some(text.trim_end_matches(['\0', '\n'])))
        };
        Ok(Self {
            linux,
            initrd: section(".initrd").transpose()?,
            cmdline: text(".cmdline")?,
            uname: text(".uname")?,
        })
    }
}
