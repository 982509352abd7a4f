//! Modules made by hand.

/// A module of the least that a loader accepts: text, a BTF section, names.
pub(super) fn module(size: usize) -> Vec<u8> {
    let names = b"\0.text\0.BTF\0.shstrtab\0";
    let mut elf = vec![0; 64];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
    elf[20] = 1;
    elf[52] = 64;
    (elf[58], elf[60], elf[62]) = (64, 4, 3);
    let mut sections = vec![[0_u64; 10]];
    for (name, kind, flags, data) in [
        (1, 1, 6, vec![0x90; size]),
        (7, 1, 0, vec![0xbb; 1000]),
        (12, 3, 0, names.to_vec()),
    ] {
        let offset = elf.len().next_multiple_of(16);
        elf.resize(offset, 0);
        sections.push([
            name,
            kind,
            flags,
            0,
            offset as u64,
            data.len() as u64,
            0,
            0,
            16,
            0,
        ]);
        elf.extend(data);
    }
    elf.resize(elf.len().next_multiple_of(8), 0);
    let table = elf.len() as u64;
    elf[40..48].copy_from_slice(&table.to_le_bytes());
    for fields in sections {
        for (i, field) in fields.iter().enumerate() {
            let width = if matches!(i, 0 | 1 | 6 | 7) { 4 } else { 8 };
            elf.extend(&field.to_le_bytes()[..width]);
        }
    }
    elf.extend(b"PKCS#7~Module signature appended~\n");
    elf
}
