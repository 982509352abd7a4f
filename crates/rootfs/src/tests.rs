use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use fixture::{Home, LINUX, MIB, ROOT, disk, ext4, gpt_disk, repair};

mod backing;
mod fixture;

#[test]
fn directories() {
    let home = Home::new();
    let bare = detect(&home.path(""), None).unwrap();
    assert!(bare.explain().contains("warning: it has no usr/bin"));
    fs::create_dir(home.path("etc")).unwrap();
    let Found::Directory(found) = detect(&home.path(""), None).unwrap() else {
        panic!("no directory");
    };
    assert_eq!(found.warning, None);
    home.write("oci-layout", b"{}");
    home.write("index.json", b"{}");
    let Found::Container(found) = detect(&home.path(""), None).unwrap() else {
        panic!("no container");
    };
    assert_eq!(found.form, Form::OciDirectory);
}

fn tar_of(names: &[&str]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        builder.append_data(&mut header, name, &[][..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn archives() {
    let home = Home::new();
    let digest = "a".repeat(64);
    let (layer, packed) = (format!("{digest}/layer.tar"), format!("{digest}.tar.gz"));
    let form = |path: &Path| match detect(path, None).unwrap() {
        Found::Container(container) => container.form,
        other => panic!("{other:?}"),
    };
    for (names, expected) in [
        (
            &[
                "oci-layout",
                "index.json",
                "blobs/sha256/a",
                "manifest.json",
            ][..],
            Form::OciArchive,
        ),
        (
            &[&layer[..], "repositories", "manifest.json"],
            Form::DockerArchive,
        ),
        // Of crane, ko and kaniko; of Jib; of Bazel and by hand.
        (
            &[&format!("sha256:{digest}"), &packed, "manifest.json"],
            Form::DockerArchive,
        ),
        (
            &["config.json", &packed, "manifest.json"],
            Form::DockerArchive,
        ),
        (
            &["manifest.json", "base/layer.tar", "image.json"],
            Form::DockerArchive,
        ),
        (&["manifest.json", "etc/passwd"], Form::Tarball),
        (&["config.json", &packed], Form::Tarball),
        (&["bin/sh"], Form::Tarball),
    ] {
        let tar = tar_of(names);
        assert_eq!(form(&home.write("a.tar", &tar)), expected);
        let zstd = zstd::encode_all(&tar[..], 1).unwrap();
        assert_eq!(form(&home.write("a.tar.zst", &zstd)), expected);
    }
}

#[test]
fn a_fragment_names_an_image() {
    let home = Home::new();
    home.write("i.tar", &tar_of(&["oci-layout", "index.json"]));
    let Found::Container(found) = detect(&home.path("i.tar#debian:12"), None).unwrap() else {
        panic!("no container");
    };
    assert_eq!(found.name.as_deref(), Some("debian:12"));
    assert_eq!(found.path, home.path("i.tar"));
    home.write("j#k", &tar_of(&["bin/sh"]));
    assert!(detect(&home.path("j#k"), None).is_ok());
    home.write("plain.tar", &tar_of(&["bin/sh"]));
    let error = detect(&home.path("plain.tar#x"), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no named images"), "{error}");
}

#[test]
fn file_systems_by_their_magic() {
    for (offset, magic, expected) in [
        (1024, &[0xe2, 0xe1, 0xf5, 0xe0][..], Filesystem::Erofs),
        (0, b"XFSB", Filesystem::Xfs),
        (0x10040, b"_BHRfS_M", Filesystem::Btrfs),
        (0, b"hsqs", Filesystem::Squashfs),
    ] {
        let home = Home::new();
        let mut image = vec![0; 128 << 10];
        image[offset..offset + magic.len()].copy_from_slice(magic);
        let found = disk(&home.write("image", &image));
        assert_eq!((found.filesystem, found.partition), (expected, None));
        assert_eq!(found.device(), "/dev/vda");
        assert_eq!(found.kernel_modules(), [expected.name()]);
    }
}

#[test]
fn a_disk_without_partitions() {
    let home = Home::new();
    let found = disk(&home.write("image", &ext4()));
    assert_eq!(found.filesystem, Filesystem::Ext4);
    assert_eq!(found.format, Format::Raw);
}

#[test]
fn the_root_partition_of_a_gpt() {
    let home = Home::new();
    let ext4 = ext4();
    let mut other = vec![0; 4096];
    other[..4].copy_from_slice(b"XFSB");
    let image = gpt_disk(
        16,
        &[
            (LINUX, 1, 8, &other),
            (ROOT, 9, 2, &ext4),
            (LINUX, 11, 4, b"nothing"),
        ],
    );
    let path = home.write("disk", &image);
    let found = disk(&path);
    assert_eq!(
        (found.partition, found.reason),
        (Some(2), Some(Reason::Type))
    );
    assert_eq!(
        (found.filesystem, found.device()),
        (Filesystem::Ext4, "/dev/vda2".into())
    );
    insta::assert_snapshot!(
        Found::Disk(found).explain().replace(&*path.to_string_lossy(), "DISK"), @r"
    DISK is a disk image (raw) with 3 partitions; the root is /dev/vda2 with ext4, because its type in the partition table is root (x86-64)
        1         8 MiB  xfs
    *   2         2 MiB  ext4
        3         4 MiB  unknown
    ");
    let image = gpt_disk(16, &[(LINUX, 9, 2, &ext4), (LINUX, 1, 8, &other)]);
    let found = disk(&home.write("disk", &image));
    assert_eq!(
        (found.partition, found.reason),
        (Some(2), Some(Reason::Largest))
    );
    assert_eq!(found.sector_size, 512);
    let beyond = [(LINUX, 9, 2, &ext4[..]), (LINUX, 1, 8, b"")];
    let mut beyond = gpt_disk(16, &beyond);
    let far = (u64::MAX / 512 - 1).to_le_bytes();
    beyond[1152 + 32..1152 + 48].copy_from_slice(&[far, far].concat());
    repair(&mut beyond);
    assert_eq!(disk(&home.write("disk", &beyond)).partition, Some(1));
    let mut damaged = image;
    damaged[1100] ^= 1;
    let error = detect(&home.write("disk", &damaged), None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("checksum of the partition table"),
        "{error}"
    );
}

/// A table on a disk with sectors of 4 KiB: header in the second, entries in the third.
#[test]
fn large_sectors_are_noticed() {
    let mut small = gpt_disk(1, &[(ROOT, 0, 1, b"")]);
    small[1024 + 32..1024 + 48].copy_from_slice(&[[7, 0, 0, 0, 0, 0, 0, 0]; 2].concat());
    repair(&mut small);
    let mut large = vec![0; MIB];
    large[4096..4188].copy_from_slice(&small[512..604]);
    large[8192..8192 + 128 * 128].copy_from_slice(&small[1024..1024 + 128 * 128]);
    for (disk, size) in [(small, 512), (large, 4096)] {
        let (sector, partitions) = partition::gpt(&disk).unwrap();
        assert_eq!(sector, size);
        assert_eq!(partitions[0].start, 7 * u64::from(size));
        assert_eq!(partitions[0].length, u64::from(size));
    }
}

#[test]
fn the_root_partition_of_an_mbr() {
    let home = Home::new();
    let ext4 = ext4();
    let mut image = vec![0; 12 * MIB];
    let mut entry = |at: usize, kind: u8, start: usize, length: usize| {
        image[at + 4] = kind;
        image[at + 8..at + 12].copy_from_slice(&((start * 2048) as u32).to_le_bytes());
        image[at + 12..at + 16].copy_from_slice(&((length * 2048) as u32).to_le_bytes());
    };
    entry(446, 0x82, 1, 1);
    entry(462, 0x05, 4, 8);
    // Two logical partitions: the first link at 4 MiB, the next 4 MiB behind it.
    entry(4 * MIB + 446, 0x83, 1, 2);
    entry(4 * MIB + 462, 0x05, 4, 4);
    entry(8 * MIB + 446, 0x83, 1, 3);
    for sector in [0, 4 * MIB, 8 * MIB] {
        image[sector + 510..sector + 512].copy_from_slice(&[0x55, 0xaa]);
    }
    image[9 * MIB..11 * MIB].copy_from_slice(&ext4);
    let path = home.write("disk", &image);
    let found = disk(&path);
    assert_eq!(
        (found.device(), found.reason),
        ("/dev/vda6".into(), Some(Reason::Only))
    );
    image[9 * MIB..11 * MIB].fill(0);
    let error = detect(&home.write("disk", &image), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("but 1 (1 MiB, empty), 5 (2 MiB, empty)"),
        "{error}"
    );
}

fn lz4_frame(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().0
}

#[test]
fn what_is_no_root_is_called_by_its_name() {
    let home = Home::new();
    let at = |offset: usize, magic: &[u8]| {
        let mut bytes = vec![1; 40_000];
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        bytes
    };
    for (bytes, expected) in [
        (at(0x8001, b"CD001"), "an ISO 9660 image"),
        (at(0, b"KDMV"), "a VMDK image"),
        (at(64, &[0x7f, 0x10, 0xda, 0xbe]), "a VDI image"),
        (at(0x202, b"HdrS"), "a Linux kernel"),
        (at(0, b"LUKS\xba\xbe"), "a LUKS volume"),
        (at(0x218, b"LVM2 001"), "an LVM physical volume"),
        (at(4086, b"SWAPSPACE2"), "swap space"),
        (
            lz4_frame(&at(0, b"QFI\xfb")),
            "a qcow2 image, LZ4-compressed",
        ),
        (
            zstd::encode_all(&at(0, b"XFSB")[..], 1).unwrap(),
            "an image of xfs, zstd-compressed",
        ),
        (
            zstd::encode_all(&at(0, b"070701")[..], 1).unwrap(),
            "a cpio archive, zstd-compressed",
        ),
        (vec![0; 4096], "all zeros"),
        (vec![], "an empty file"),
        (b"hello".to_vec(), "nothing that brisk knows"),
    ] {
        let error = detect(&home.write("file", &bytes), None).unwrap_err();
        assert!(matches!(error, Error::NotARoot { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let missing = detect(&home.path("missing"), None);
    assert!(matches!(missing, Err(Error::Missing { .. })));
    let device = detect(Path::new("/dev/null"), None);
    assert!(matches!(device, Err(Error::NotARoot { .. })));
}

/// Bytes that get past the first look: a magic and noise.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let magics = vec![
        (0, &b""[..]),
        (0, b"QFI\xfb\0\0\0\x03"),
        (0, &[0x1f, 0x8b, 8]),
        (257, b"ustar"),
        (0, &[0x28, 0xb5, 0x2f, 0xfd]),
        (512, b"EFI PART"),
        (510, &[0x55, 0xaa]),
    ];
    let noise = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..3000),
        proptest::collection::vec(Just(0), 600..3000),
    ];
    (noise, prop::sample::select(magics)).prop_map(|(mut bytes, (at, magic))| {
        if bytes.len() >= at + magic.len() {
            bytes[at..at + magic.len()].copy_from_slice(magic);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn detection_never_panics(bytes in bytes()) {
        let home = Home::new();
        if !bytes.starts_with(b"QFI") {
            let _ = detect(&home.write("file", &bytes), None);
        }
        // Without qemu-img, which takes too long for this many cases.
        let _ = qcow2::references(&bytes);
        let _ = qcow2::backing_chain(&home.write("file", &bytes));
        let _ = partition::gpt(&bytes);
        let _ = partition::mbr(&bytes);
        let _ = partition::logical(&bytes);
    }

    #[test]
    fn a_damaged_gpt_never_panics(at in 512_usize..604, byte in any::<u8>(), sum in any::<bool>()) {
        let mut disk = gpt_disk(1, &[]);
        disk[at] = byte;
        if sum {
            disk[528..532].fill(0);
            let length = u32::from_le_bytes(disk[524..528].try_into().unwrap()) as usize;
            let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
            let value = disk.get(512..512_usize.saturating_add(length)).map(|h| crc.checksum(h));
            disk[528..532].copy_from_slice(&value.unwrap_or_default().to_le_bytes());
        }
        let _ = partition::gpt(&disk);
    }
}
