//! Archives that kernels unpack, and those that they do not.

use std::io::Write;

use liblzma::stream::{Check, Filters, LzmaOptions};

use super::*;
use crate::initramfs::cpio::{DIR, FILE, Writer};

fn archive() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.add("bin", DIR | 0o755, (0, 0), &[]).unwrap();
    let data: Vec<u8> = (0..50_000_u32).map(|i| ((i * i) >> 7) as u8).collect();
    writer.add("bin/sh", FILE | 0o755, (0, 0), &data).unwrap();
    writer.finish().unwrap()
}

/// An .xz stream with a check, and with these filters before LZMA2.
fn xz(bytes: &[u8], check: Check, before: fn(&mut Filters)) -> Vec<u8> {
    let mut filters = Filters::new();
    before(&mut filters);
    filters.lzma2(&LzmaOptions::new_preset(0).unwrap());
    let stream = liblzma::stream::Stream::new_stream_encoder(&filters, check).unwrap();
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The text of a defect, and the remedy.
#[track_caller]
fn unsupported(bytes: &[u8]) -> (String, &'static str) {
    match verify(bytes) {
        Err(error @ Defect::Unsupported { remedy, .. }) => (error.to_string(), remedy),
        other => panic!("{other:?}"),
    }
}

fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => xz(bytes, Check::Crc32, |_| {}),
        Compression::Lzma => {
            let options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
            let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(bytes, 1).unwrap(),
        Compression::Lz4 => {
            let mut out = b"\x02\x21\x4c\x18".to_vec();
            let block = ::lz4::block::compress(bytes, None, false).unwrap();
            out.extend((block.len() as u32).to_le_bytes());
            out.extend(block);
            out
        }
        Compression::Bzip2 => {
            let level = bzip2::Compression::fast();
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

const ALL: [Compression; 6] = [
    Compression::Gzip,
    Compression::Xz,
    Compression::Lzma,
    Compression::Zstd,
    Compression::Lz4,
    Compression::Bzip2,
];

#[test]
fn each_compression_is_read_behind_microcode_and_before_zeros() {
    let own = archive();
    for compression in ALL {
        let mut whole = own.clone();
        whole.extend([0; 512]);
        whole.extend(packed(compression, &own));
        whole.extend([0; 7]);
        let found = verify(&whole[..]).unwrap_or_else(|error| panic!("{compression}: {error}"));
        let expected = Verified {
            size: whole.len() as u64,
            unpacked: 2 * own.len() as u64,
            entries: 4,
            compressions: vec![compression],
            ..Verified::default()
        };
        assert_eq!(found, expected, "{compression}");
    }
}

#[test]
fn compressed_archives_may_follow_each_other() {
    let own = archive();
    for compression in ALL {
        if compression == Compression::Lz4 {
            continue;
        }
        let one = packed(compression, &own);
        let found = verify(&[&one[..], &one].concat()[..]);
        assert_eq!(found.unwrap().entries, 4, "{compression}");
    }
}

#[test]
fn wherever_it_is_cut_it_is_truncated() {
    let own = archive();
    for compression in ALL {
        let whole = packed(compression, &own);
        for cut in [10, whole.len() / 2, whole.len() - 1] {
            let error = verify(&whole[..cut]).unwrap_err();
            let is_it = matches!(
                error,
                Defect::Truncated { start: 0 } | Defect::Corrupt { .. }
            );
            assert!(is_it, "{compression} at {cut}: {error:?}");
        }
    }
    // The last bytes are padding.
    assert_eq!(verify(&own[..own.len() - 3]).unwrap().entries, 2);
    for cut in [7, 111, 200, own.len() - 4] {
        let error = verify(&own[..cut]).unwrap_err();
        assert!(
            matches!(error, Defect::Truncated { start: 0 }),
            "{cut}: {error:?}"
        );
    }
}

#[test]
fn damage_and_other_files_are_named() {
    let own = archive();
    let mut flipped = packed(Compression::Gzip, &own);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    assert!(matches!(
        verify(&flipped[..]),
        Err(Defect::Corrupt { start: 0, .. })
    ));
    let cases: [(&[u8], &str); 4] = [
        (b"", "it is empty"),
        (&[0; 4096], "it is empty"),
        (
            b"#!/bin/sh",
            "at byte 0 is neither a cpio archive nor a known compression: [23, 21, 2f, 62, 69, 6e]",
        ),
        (
            &packed(Compression::Zstd, b"no archive"),
            "the archive that begins at byte 0 is corrupt: no cpio archive is in it",
        ),
    ];
    for (bytes, text) in cases {
        assert_eq!(verify(bytes).unwrap_err().to_string(), text);
    }
    let mut malformed = own.clone();
    malformed[54] = b'+';
    let error = verify(&malformed[..]).unwrap_err().to_string();
    assert!(error.contains("malformed"), "{error}");
    let lzo = [&own[..], b"\x89LZO\0\r\n\x1a\n"].concat();
    let error = verify(&lzo[..]).unwrap_err();
    let at = own.len() as u64;
    assert!(
        matches!(error, Defect::NotUnpacked { start } if start == at),
        "{error:?}"
    );
    // unpack_to_rootfs takes no uncompressed archive there.
    let apart = [&own[..], &[0; 2], &own].concat();
    let error = verify(&apart[..]).unwrap_err().to_string();
    assert!(error.contains("no multiple of 4"), "{error}");
    let behind = [&own[..], b"junk"].concat();
    assert!(matches!(verify(&behind[..]), Err(Defect::Unknown { .. })));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]
    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..512), at in 0..6_usize) {
        let own = archive();
        let mut mutated = packed(ALL[at], &own);
        for (place, byte) in bytes.iter().enumerate() {
            let length = mutated.len();
            mutated[(place * 7919) % length] ^= byte & 3;
        }
        let _ = verify(&mutated[..]);
        let _ = verify(&bytes[..]);
    }
}

/// An archive with the program that the kernel starts.
fn with_init() -> Vec<u8> {
    let mut writer = Writer::default();
    writer
        .add("init", FILE | 0o755, (0, 0), &[7; 3000])
        .unwrap();
    writer.finish().unwrap()
}

#[test]
fn what_the_kernels_xz_decoder_lacks_is_named() {
    let own = archive();
    let early = [&own[..], &[0; 400]].concat();
    for (check, words) in [
        (Check::Crc64, "CRC64, which is xz's default"),
        (Check::Sha256, "SHA-256"),
    ] {
        let bytes = xz(&own, check, |_| {});
        let (text, remedy) = unsupported(&bytes);
        assert!(text.contains(words), "{text}");
        assert_eq!(remedy, "make it with xz --check=crc32");
        // Behind microcode, too.
        let (text, _) = unsupported(&[&early[..], &bytes].concat());
        assert!(text.contains(&format!("at byte {}", early.len())), "{text}");
    }
    for check in [Check::None, Check::Crc32] {
        let found = verify(&xz(&own, check, |_| {})[..]).unwrap();
        assert_eq!((found.entries, &found.options[..]), (2, &[][..]));
    }
    let x86 = xz(&own, Check::Crc32, |it| {
        it.x86();
    });
    assert_eq!(verify(&x86[..]).unwrap().options, ["CONFIG_XZ_DEC_X86"]);
    let arm64 = xz(&own, Check::Crc32, |it| {
        it.arm64();
    });
    assert_eq!(verify(&arm64[..]).unwrap().options, ["CONFIG_XZ_DEC_ARM64"]);
    // Number 3 in place of 4 is delta, which has no options in this crate.
    let mut delta = x86.clone();
    assert_eq!(delta[14], 4);
    delta[14] = 3;
    let (text, _) = unsupported(&delta);
    assert!(text.contains("its first filter is delta"), "{text}");
    let several = xz(&own, Check::Crc32, |it| {
        it.x86().arm();
    });
    let (text, _) = unsupported(&several);
    assert!(text.contains("it has 3 filters"), "{text}");
}

#[test]
fn what_the_kernels_other_decoders_lack_is_named() {
    let own = archive();
    let frame = [b"\x04\x22\x4d\x18".to_vec(), own.clone()].concat();
    let skippable = [
        b"\x50\x2a\x4d\x18\x04\0\0\0abcd".to_vec(),
        packed(Compression::Zstd, &own),
    ]
    .concat();
    let zstd = |set: &dyn Fn(&mut zstd::Encoder<'_, Vec<u8>>)| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        set(&mut encoder);
        encoder.write_all(&own).unwrap();
        encoder.finish().unwrap()
    };
    let long = |log: u32| {
        zstd(&|it| {
            it.long_distance_matching(true).unwrap();
            it.window_log(log).unwrap();
        })
    };
    let gzip = |set: &dyn Fn(flate2::GzBuilder) -> flate2::GzBuilder| {
        let builder = set(flate2::GzBuilder::new());
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&own).unwrap();
        encoder.finish().unwrap()
    };
    let mut dictionary = zstd(&|it| it.include_contentsize(false).unwrap());
    // The identifier has a byte behind that of the window.
    dictionary[4] |= 1;
    dictionary.insert(6, 7);
    let halves = own.split_at(own.len() / 2);
    let two = |compression| [packed(compression, halves.0), packed(compression, halves.1)].concat();
    for (bytes, words, help) in [
        (frame, "LZ4's frame format", "lz4 -l"),
        (skippable, "is to be skipped", "zstd -T0"),
        (long(28), "its window has 256 MiB", "--long=27"),
        (dictionary, "with a dictionary", "zstd without -D"),
        (gzip(&|it| it.comment("x")), "a comment", "gzip -n"),
        (
            gzip(&|it| it.extra(b"BC\x02\0\0\0".to_vec())),
            "extra fields, as bgzip",
            "gzip -n",
        ),
        (
            two(Compression::Bzip2),
            "over the end of a stream",
            "in place of pbzip2",
        ),
        (
            two(Compression::Zstd),
            "over the end of a stream",
            "in place of pzstd",
        ),
        (
            two(Compression::Gzip),
            "over the end of a stream",
            "in place of bgzip",
        ),
        (two(Compression::Xz), "over the end of a stream", "one call"),
        (lzop(0x3), "one checksum", "lzop without -F"),
        (lzop(0), "one checksum", "lzop without -F"),
    ] {
        let (text, remedy) = unsupported(&bytes);
        assert!(
            text.contains(words) && remedy.contains(help),
            "{text}: {remedy}"
        );
    }
    for bytes in [
        long(27),
        gzip(&|it| it.filename("initrd")),
        zstd(&|it| it.include_checksum(true).unwrap()),
    ] {
        assert_eq!(verify(&bytes[..]).unwrap().entries, 2);
    }
    // What lzop writes by itself.
    assert!(matches!(
        verify(&lzop(0x0300_0001)[..]),
        Err(Defect::NotUnpacked { start: 0 })
    ));
}

/// The header of a file of lzop with these flags.
fn lzop(flags: u32) -> Vec<u8> {
    let mut bytes = b"\x89LZO\0\r\n\x1a\n\x10\x30\x20\xa0\x09\x40\x01\x05".to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn bytes_that_the_kernel_only_complains_about_are_noted() {
    let (early, own) = (archive(), with_init());
    let at =
        |bytes: &[u8]| verify(bytes).map(|found| (found.junk, found.size == bytes.len() as u64));
    for junk in [
        &b"junk"[..],
        b"0",
        b"x",
        b"#!/bin/sh\n",
        b"\x50\x2a\x4d\x18table",
    ] {
        let plain = [&early[..], &own, junk].concat();
        let end = (early.len() + own.len()) as u64;
        assert_eq!(at(&plain).unwrap(), (Some(end), true), "{junk:?}");
        for compression in ALL {
            let stream = packed(compression, &own);
            let start = stream.len() as u64;
            let bytes = [&stream[..], junk].concat();
            // LZ4 has no end: up to three bytes are no block, and more are read as one.
            match compression {
                Compression::Lz4 if junk.len() < 4 => {
                    assert_eq!(at(&bytes).unwrap(), (None, true), "{junk:?}");
                }
                Compression::Lz4 => assert!(at(&bytes).is_err(), "{junk:?}"),
                _ => assert_eq!(at(&bytes).unwrap(), (Some(start), true), "{compression}"),
            }
            // In the stream itself.
            let inner = packed(compression, &[&own[..], junk].concat());
            assert_eq!(
                at(&inner).unwrap(),
                (Some(0), true),
                "{compression} {junk:?}"
            );
        }
    }
    // What is started may be behind it.
    let lost = [&early[..], b"junk", &own].concat();
    assert!(matches!(verify(&lost[..]), Err(Defect::Unknown { .. })));
    // An archive that is not unpacked is not junk.
    let frame = [&own[..], b"\x04\x22\x4d\x18abcd"].concat();
    unsupported(&frame);
    let other = [&own[..], &xz(&early, Check::Crc64, |_| {})].concat();
    unsupported(&other);
    for next in [own.clone(), packed(Compression::Gzip, &own)] {
        for zeros in 0..4 {
            let bytes = [packed(Compression::Lz4, &own), vec![0; zeros], next.clone()].concat();
            assert!(
                matches!(
                    verify(&bytes[..]),
                    Err(Defect::Corrupt { .. } | Defect::Truncated { .. })
                ),
                "{zeros}"
            );
        }
    }
}

#[test]
fn behind_an_archive_that_is_not_compressed_all_begin_at_a_multiple_of_4() {
    let (early, own) = (archive(), with_init());
    for compression in ALL {
        for (zeros, is_whole) in [(0, true), (4, true), (2, false)] {
            let bytes = [early.clone(), vec![0; zeros], packed(compression, &own)].concat();
            assert_eq!(
                verify(&bytes[..]).is_ok(),
                is_whole,
                "{compression} {zeros}"
            );
        }
    }
    // Behind one that is compressed, it does not matter to another.
    let bytes = [
        packed(Compression::Gzip, &early),
        vec![0; 3],
        packed(Compression::Xz, &own),
    ]
    .concat();
    assert!(verify(&bytes[..]).unwrap().has_init);
}

#[test]
fn the_program_that_is_started_is_found() {
    for (name, mode, has) in [
        ("init", FILE | 0o755, true),
        ("./init", FILE | 0o755, true),
        ("/init", FILE | 0o755, true),
        ("init", DIR | 0o755, false),
        ("sbin/init", FILE | 0o755, false),
        (".init", FILE | 0o755, false),
    ] {
        let mut writer = Writer::default();
        writer.add(name, mode, (0, 0), &[]).unwrap();
        let found = verify(&writer.finish().unwrap()[..]).unwrap();
        assert_eq!(found.has_init, has, "{name}");
    }
}

#[test]
fn an_initramfs_in_a_kernel_is_found() {
    let filling: Vec<u8> = (0..40_000_u32)
        .flat_map(|i| (i * i).to_le_bytes())
        .collect();
    let within = |bytes: &[u8]| [&filling[..], bytes, &filling].concat();
    for compression in ALL {
        let bytes = within(&packed(compression, &with_init()));
        assert_eq!(
            is_built_in(&bytes),
            compression != Compression::Lzma,
            "{compression}"
        );
    }
    assert!(is_built_in(&within(&with_init())));
    // What each kernel has: /dev, /dev/console and /root.
    assert!(!is_built_in(&within(&archive())));
    assert!(!is_built_in(&filling) && !is_built_in(b""));
}
