use std::io::Write;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const KINDS: [Compression; 6] = [
    Compression::Gzip,
    Compression::Xz,
    Compression::Lzma,
    Compression::Zstd,
    Compression::Lz4,
    Compression::Bzip2,
];

/// Compresses as the kernel's build does, without the size trailer.
pub(in crate::kernel) fn compress(kind: Compression, data: &[u8]) -> Vec<u8> {
    match kind {
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => liblzma::encode_all(data, 0).unwrap(),
        Compression::Lzma => {
            let options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
            let stream = liblzma::stream::Stream::new_lzma_encoder(&options).unwrap();
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(data, 1).unwrap(),
        Compression::Lz4 => {
            let mut out = crate::kernel::compression::LZ4.to_vec();
            for block in data.chunks(8 << 20) {
                let block = ::lz4::block::compress(block, None, false).unwrap();
                out.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
                out.extend(block);
            }
            out
        }
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
    }
}

/// Bytes with short and long matches, runs, and parts that do not compress.
fn sample(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..size)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match i >> 12 & 3 {
                0 => 0,
                1 => (state >> 24) as u8,
                2 => (i % 251) as u8,
                _ => (state >> 30) as u8,
            }
        })
        .collect()
}

#[test]
fn every_format_comes_back() {
    let data = sample(300_000);
    for kind in KINDS {
        let packed = compress(kind, &data);
        assert_eq!(Compression::of(&packed), Some(kind), "{kind}");
        assert!(kind.decompress(&packed, None).unwrap() == data, "{kind}");
    }
}

#[test]
fn lz4_frames_have_many_blocks() {
    let data = sample(9 << 20);
    assert!(
        Compression::Lz4
            .decompress(&compress(Compression::Lz4, &data), None)
            .unwrap()
            == data
    );
}

#[test]
fn the_announced_size_is_checked() {
    for kind in KINDS {
        let packed = compress(kind, &sample(10_000));
        assert!(kind.decompress(&packed, Some(10_000)).is_ok(), "{kind}");
        let error = kind.decompress(&packed, Some(10_001)).unwrap_err();
        assert!(
            matches!(
                error,
                Reason::Size {
                    expected: 10_001,
                    found: 10_000,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_cut_is_noticed() {
    for kind in KINDS {
        let packed = compress(kind, &sample(300_000));
        let error = kind
            .decompress(&packed[..packed.len() / 2], None)
            .unwrap_err();
        assert!(
            matches!(error, Reason::Decompress { .. }),
            "{kind}: {error}"
        );
    }
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![0; 9 << 20];
    for kind in KINDS {
        let packed = compress(kind, &zeros);
        let error = kind.decompress_within(&packed, None, 1 << 20).unwrap_err();
        assert!(matches!(error, Reason::TooLarge), "{kind}: {error}");
        assert_eq!(
            kind.decompress_within(&packed, None, 9 << 20)
                .unwrap()
                .len(),
            9 << 20
        );
    }
}

static PACKED: LazyLock<[Vec<u8>; 6]> =
    LazyLock::new(|| KINDS.map(|kind| compress(kind, &sample(20_000))));

proptest! {
    #[test]
    fn hostile_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        for kind in KINDS {
            let _ = kind.decompress_within(&bytes, None, 1 << 20);
            let mut damaged = PACKED[kind as usize].clone();
            for (at, byte) in &flips {
                let at = at % damaged.len();
                damaged[at] ^= byte;
            }
            let _ = kind.decompress_within(&damaged, None, 1 << 20);
        }
    }
}
