//! Reduction of a module to the parts that the kernel's loader reads.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::endian::{U32, U64};
use object::pod::bytes_of;
use object::read::elf::{FileHeader, SectionHeader};

type Header = FileHeader64<LE>;
type Section = SectionHeader64<LE>;

/// Ends a signed module (`include/linux/module_signature.h`).
#[cfg(test)]
const SIGNED: &[u8] = b"~Module signature appended~\n";
/// Sections that the loader or a tool would look up by name, and that nothing at run time needs.
const DROPPED: [&[u8]; 4] = [b".comment", b".BTF", b".BTF.base", b".note.GNU-stack"];

/// A module without its signature, BTF, debug information and compiler notes.
///
/// The signature is what counts: with it the kernel hashes the whole module and does public-key
/// arithmetic, emulated. On 6.12, with overlay, virtio_blk, erofs and virtio_mmio, dropping it
/// takes the guest from 1.883 to 1.432 billion instructions until the end of init, and the
/// sections to 1.427; with ext4, btrfs and 9p both take it from 4.94 to 3.56. Signature and
/// sections are 4 to 7 % of a distribution's module; of one from a kernel built at home with debug
/// information the sections are most.
///
/// Dropped sections stay in the section table as empty ones of type `SHT_NULL`, which the loader
/// passes over, so that no index in symbols and relocations changes. `None` if the bytes are not
/// an x86-64 module.
#[must_use]
pub fn strip(module: &[u8]) -> Option<Vec<u8>> {
    let header = Header::parse(module).ok()?;
    let relocatable = header.e_type(LE) == elf::ET_REL && header.e_machine(LE) == elf::EM_X86_64;
    let sections = header.section_headers(LE, module).ok()?;
    if !relocatable || sections.is_empty() || header.e_shnum(LE) == 0 {
        return None;
    }
    let names = header.section_strings(LE, module, sections).ok()?;
    let dropped: Vec<bool> = sections
        .iter()
        .map(|section| {
            section
                .name(LE, names)
                .is_ok_and(|name| droppable(section, name))
        })
        .collect();

    let mut out = bytes_of(header).to_vec();
    let mut table = Vec::with_capacity(sections.len());
    for (section, gone) in sections.iter().zip(&dropped) {
        let mut kept = *section;
        let target = section.sh_info(LE) as usize;
        let relocates_gone = matches!(section.sh_type(LE), elf::SHT_RELA | elf::SHT_REL)
            && dropped.get(target) == Some(&true);
        if *gone || relocates_gone {
            kept.sh_type = U32::new(LE, elf::SHT_NULL);
            kept.sh_name = U32::new(LE, 0);
            kept.sh_size = U64::new(LE, 0);
            kept.sh_link = U32::new(LE, 0);
            kept.sh_info = U32::new(LE, 0);
            kept.sh_offset = U64::new(LE, 0);
        } else if section.sh_type(LE) != elf::SHT_NULL {
            align(&mut out, section.sh_addralign(LE));
            kept.sh_offset = U64::new(LE, out.len() as u64);
            out.extend_from_slice(section.data(LE, module).ok()?);
        }
        table.push(kept);
    }
    align(&mut out, 8);
    let header = Header {
        e_shoff: U64::new(LE, out.len() as u64),
        ..*header
    };
    out[..size_of::<Header>()].copy_from_slice(bytes_of(&header));
    for section in &table {
        out.extend_from_slice(bytes_of(section));
    }
    Some(out)
}

/// Whether the bytes end as a signed module.
#[cfg(test)]
pub(super) fn is_signed(module: &[u8]) -> bool {
    module.ends_with(SIGNED)
}

fn droppable(section: &Section, name: &[u8]) -> bool {
    let loaded = section.sh_flags(LE).contains(elf::SHF_ALLOC);
    !loaded && (DROPPED.contains(&name) || name.starts_with(b".debug"))
}

fn align(out: &mut Vec<u8>, to: u64) {
    // A module's sections are aligned to a page at most.
    let to = to.clamp(1, 4096) as usize;
    out.resize(out.len().next_multiple_of(to), 0);
}
