use proptest::prelude::*;

use super::payload::tests::compress;
use super::*;

/// A vmlinux with a text segment that ends in zeros, a gap, a data segment with `.bss`, a PVH note
/// and something behind the segments, as the kernel's build leaves it.
pub(super) fn vmlinux() -> Vec<u8> {
    let mut elf = vec![0_u8; 0x6000];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
    put(&mut elf, 20, 1, 4);
    put(&mut elf, 24, 0x100_0000, 8);
    put(&mut elf, 32, 64, 8);
    put(&mut elf, 40, 0x5800, 8);
    put(&mut elf, 52, 64, 2);
    put(&mut elf, 54, 56, 2);
    put(&mut elf, 56, 3, 2);
    let high = 0xffff_ffff_8000_0000;
    segment(
        &mut elf,
        0,
        [1, 0x1000, high + 0x100_0000, 0x100_0000, 0x1000, 0x1000],
    );
    segment(
        &mut elf,
        1,
        [1, 0x3000, high + 0x120_0000, 0x120_0000, 0x2000, 0x8000],
    );
    segment(
        &mut elf,
        2,
        [4, 0x1100, high + 0x100_0100, 0x100_0100, 20, 20],
    );
    elf[0x1000..0x1100].fill(0x90);
    let note = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x50\x08\x00\x01";
    elf[0x1100..0x1100 + note.len()].copy_from_slice(note);
    elf[0x3000..0x3010].fill(7);
    let banner = b"Linux version 6.9.9-fixture (a@b)";
    elf[0x3100..0x3100 + banner.len()].copy_from_slice(banner);
    elf[0x5800..].fill(0xee);
    elf
}

fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

fn segment(elf: &mut [u8], index: usize, fields: [u64; 6]) {
    let at = 64 + 56 * index;
    put(elf, at, fields[0], 4);
    for (i, value) in fields[1..].iter().enumerate() {
        put(elf, at + 8 + 8 * i, *value, 8);
    }
    put(elf, at + 48, if fields[0] == 1 { 0x20_0000 } else { 4 }, 8);
}

pub(super) fn bzimage(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 1024 + 0x200];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    put(&mut image, 0x206, 0x20f, 2);
    put(&mut image, 0x20e, 0x100, 2);
    put(&mut image, 0x236, 1, 2);
    put(&mut image, 0x248, 0x200, 4);
    put(&mut image, 0x24c, payload.len() as u64, 4);
    image[0x300..0x30d].copy_from_slice(b"6.9.9-fixture");
    image.extend(payload);
    image.extend([0xcc; 64]);
    image
}

fn packed(kind: Compression, data: &[u8]) -> Vec<u8> {
    let mut payload = compress(kind, data);
    if kind != Compression::Gzip {
        payload.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    }
    payload
}

fn uki(machine: u16, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut pe = vec![0; 0x400];
    pe[..2].copy_from_slice(b"MZ");
    put(&mut pe, 0x3c, 0x80, 4);
    pe[0x80..0x84].copy_from_slice(b"PE\0\0");
    put(&mut pe, 0x84, machine.into(), 2);
    put(&mut pe, 0x86, sections.len() as u64, 2);
    put(&mut pe, 0x94, 240, 2);
    put(&mut pe, 0x98, 0x20b, 2);
    put(&mut pe, 0x98 + 108, 16, 4);
    for (i, (name, data)) in sections.iter().enumerate() {
        let at = 0x98 + 240 + 40 * i;
        let offset = pe.len() as u64;
        pe[at..at + name.len()].copy_from_slice(name.as_bytes());
        put(&mut pe, at + 8, data.len() as u64, 4);
        put(&mut pe, at + 12, offset, 4);
        let raw = data.len().next_multiple_of(512);
        put(&mut pe, at + 16, raw as u64, 4);
        put(&mut pe, at + 20, offset, 4);
        pe.extend(*data);
        pe.resize(pe.len() + raw - data.len(), 0);
    }
    pe
}

fn refusal(bytes: &[u8]) -> String {
    extract_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn every_payload_gives_the_same_vmlinux() {
    use Compression::{Bzip2, Gzip, Lz4, Lzma, Xz, Zstd};
    for kind in [Gzip, Xz, Lzma, Zstd, Lz4, Bzip2] {
        let image = bzimage(&packed(kind, &vmlinux()));
        let parsed = BzImage::parse(&image).unwrap();
        assert_eq!(parsed.compression(), Some(kind));
        assert_eq!(parsed.version, Some("6.9.9-fixture"));
        assert!(extract_bytes(&image).unwrap() == vmlinux(), "{kind}");
    }
    assert!(extract_bytes(&bzimage(&vmlinux())).unwrap() == vmlinux());
}

#[test]
fn compressed_files_and_ukis() {
    assert!(extract_bytes(&compress(Compression::Xz, &vmlinux())).unwrap() == vmlinux());
    let inner = bzimage(&packed(Compression::Zstd, &vmlinux()));
    let image = uki(
        0x8664,
        &[
            (".linux", &inner),
            (".cmdline", b"quiet\n"),
            (".uname", b"6.9.9-fixture"),
        ],
    );
    let Image::Uki(parsed) = Image::parse(&image).unwrap() else {
        panic!("not recognised as a UKI")
    };
    assert_eq!(
        (parsed.cmdline, parsed.uname, parsed.initrd),
        (Some("quiet"), Some("6.9.9-fixture"), None)
    );
    assert!(extract_bytes(&image).unwrap() == vmlinux());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.efi");
    for sections in [
        &[(".linux", &inner[..])][..],
        &[(".uname", b"6.9.9-fixture")],
    ] {
        std::fs::write(&path, uki(0x8664, sections)).unwrap();
        assert_eq!(
            image_version(&path).unwrap().as_deref(),
            Some("6.9.9-fixture")
        );
    }
}

#[test]
fn slim_keeps_what_is_loaded() {
    let slim = slim(&vmlinux()).unwrap();
    assert_eq!(pvh_entry(&slim), Some(0x100_0850));
    assert!(slim.len() < 0x3200, "{:#x}", slim.len());
    assert!(memory(&slim) == memory(&vmlinux()));
    assert!(extract_bytes(&slim).unwrap() == slim);
}

/// What a loader makes of an ELF: addresses and contents, zero-filled.
fn memory(elf: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let number = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    (0..usize::from(elf[56]))
        .map(|i| 64 + 56 * i)
        .filter(|at| elf[*at] == 1)
        .map(|at| {
            let start = number(at + 8) as usize;
            assert_eq!(number(at + 8) % 4096, number(at + 16) % 4096);
            let mut data = elf[start..start + number(at + 32) as usize].to_vec();
            data.resize(number(at + 40) as usize, 0);
            (number(at + 24), data)
        })
        .collect()
}

#[test]
fn truncation_names_both_sizes() {
    let image = bzimage(&packed(Compression::Zstd, &vmlinux()));
    assert_eq!(
        refusal(&image[..image.len() - 100]),
        format!(
            "the file is truncated: the compressed kernel ends at byte {}, the file at byte {}",
            image.len() - 64,
            image.len() - 100
        )
    );
    assert!(refusal(&vmlinux()[..0x4000]).contains("an ELF segment ends at byte 20480"));
    assert!(refusal(&image[..0x210]).contains("the setup header ends at byte 592"));
    assert!(refusal(b"\x7fELF\x02\x01").contains("the ELF header ends at byte 64"));
}

#[test]
fn a_wrong_trailer_is_noticed() {
    let mut payload = packed(Compression::Zstd, &vmlinux());
    *payload.last_mut().unwrap() = 1;
    assert!(
        refusal(&bzimage(&payload)).contains("zstd data is corrupt: 16801792 bytes are announced")
    );
}

#[test]
fn other_things_are_named() {
    let mut arm = vec![0; 0x100];
    arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
    assert_eq!(refusal(&arm), "it is a kernel for arm64, not for x86-64");
    assert!(refusal(&compress(Compression::Gzip, &arm)).contains("arm64"));
    let mut elf = vmlinux();
    elf[18] = 243;
    assert!(refusal(&elf).contains("RISC-V"));
    elf[18] = 3;
    assert!(refusal(&elf).contains("32-bit x86"));
    let mut image = bzimage(&packed(Compression::Gzip, &vmlinux()));
    image[0x236] = 0;
    assert!(refusal(&image).contains("32-bit x86"));
    image.extend(b"(XEN) ");
    assert!(refusal(&image).contains("the Xen hypervisor"));
    // Linux has messages about Xen.
    image.extend(b"Linux version 6.9.9");
    assert!(refusal(&image).contains("32-bit x86"));
    let mut program = bzimage(b"");
    assert!(refusal(&program).contains("without a payload"));
    program.extend(b"Memtest86+ v6.10");
    assert!(refusal(&program).contains("Memtest86+"));
    assert!(refusal(&compress(Compression::Gzip, &program)).contains("Memtest86+"));
    assert!(refusal(&uki(0xaa64, &[(".linux", b"x")])).contains("another architecture"));
    assert_eq!(
        refusal(&uki(0x8664, &[])),
        "it is not a kernel but an EFI program without a .linux section"
    );
    assert_eq!(refusal(b""), "the file is empty");
    assert_eq!(refusal(b"#!/bin/sh\n"), "it is not a kernel but a script");
    assert_eq!(refusal(b"hello\n"), "it is not a kernel but a text file");
    assert_eq!(
        refusal(&compress(Compression::Zstd, b"070701000")),
        "it is not a kernel but a cpio archive (an initramfs?), compressed with zstd"
    );
    let program = std::fs::read("/proc/self/exe").unwrap();
    assert_eq!(
        refusal(&program),
        "it is not a kernel but a program of user space"
    );
}

#[test]
fn directories_and_missing_files() {
    let cache = Cache::new("/nonexistent/cache");
    let error = vmlinux_of(Path::new("/"), &cache);
    assert_eq!(error.to_string(), "/ is a directory, not a kernel image");
    let error = vmlinux_of(Path::new("/nonexistent/vmlinuz"), &cache);
    assert_eq!(
        error.to_string(),
        "cannot read the kernel image /nonexistent/vmlinuz"
    );
    assert!(error.hint().unwrap().contains("check the path"));
    let denied = Error::Read {
        path: "/boot/vmlinuz-6.8".into(),
        source: io::ErrorKind::PermissionDenied.into(),
    };
    assert!(denied.hint().unwrap().contains("dpkg-statoverride"));
}

fn vmlinux_of(image: &Path, cache: &Cache) -> Error {
    super::vmlinux(image, cache).unwrap_err()
}

#[test]
fn the_cache_is_used_and_follows_the_image() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path().join("cache"));
    let image = dir.path().join("image");
    std::fs::write(&image, bzimage(&packed(Compression::Zstd, &vmlinux()))).unwrap();
    let first = super::vmlinux(&image, &cache).unwrap();
    assert!(first.fresh && first.pvh);
    assert_eq!(first.version, "6.9.9-fixture");
    assert!(std::fs::read(&first.path).unwrap() == slim(&vmlinux()).unwrap());
    let second = super::vmlinux(&image, &cache).unwrap();
    assert_eq!(
        second,
        Extracted {
            fresh: false,
            ..first.clone()
        }
    );
    let mut other = vmlinux();
    other[0x3000] = 9;
    std::fs::write(&image, bzimage(&packed(Compression::Zstd, &other))).unwrap();
    let third = super::vmlinux(&image, &cache).unwrap();
    assert!(third.fresh && third.path != first.path);
}

proptest! {
    #[test]
    fn damaged_images_do_not_panic(
        which in 0..4_usize,
        cut in any::<usize>(),
        damage in proptest::collection::vec((0..0x400_usize, any::<u8>()), 0..12),
    ) {
        let bz = bzimage(&packed(Compression::Lz4, &vmlinux()));
        let mut bytes = match which {
            0 => vmlinux(),
            1 => uki(0x8664, &[(".linux", &bz)]),
            2 => bzimage(&vmlinux()),
            _ => bz,
        };
        bytes.truncate(cut % (2 * bytes.len()) + 1);
        for (at, byte) in damage {
            if let Some(target) = bytes.get_mut(at) {
                *target = byte;
            }
        }
        if let Ok(vmlinux) = extract_bytes(&bytes) {
            let _ = slim(&vmlinux);
        }
    }
}
