//! Compressions of archives and layers.

use std::io::{self, BufRead, BufReader, Read};

const BUFFER: usize = 256 << 10;
/// Memory that xz may use, bytes: `xz -9` needs 65 MiB.
const XZ_MEMORY: u64 = 1 << 30;

/// The compression of a stream, by its first bytes: the media type in a manifest is only a claim,
/// and docker archives state none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Lz4,
}

impl Compression {
    const ALL: [Self; 5] = [Self::Gzip, Self::Zstd, Self::Xz, Self::Bzip2, Self::Lz4];

    /// The compression that begins so, if one does.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|compression| head.starts_with(compression.magic()))
    }

    /// RFC 1952 section 2.3.1, RFC 8878 section 3.1.1, The .xz File Format 2.1.1.1, the first bytes
    /// of bzip2 and its version, LZ4 Frame Format.
    const fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => &[0x1f, 0x8b],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            Self::Xz => b"\xfd7zXZ\0",
            Self::Bzip2 => b"BZh",
            Self::Lz4 => &[0x04, 0x22, 0x4d, 0x18],
        }
    }

    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "LZ4",
        }
    }
}

/// Undoes the compression of `inner`.
pub(crate) fn decompress<'a>(inner: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut buffered = BufReader::with_capacity(BUFFER, inner);
    let Some(compression) = Compression::of(buffered.fill_buf()?) else {
        return Ok(Box::new(buffered));
    };
    let decoder: Box<dyn Read + 'a> = match compression {
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?),
        Compression::Xz => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, flags)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(buffered, stream))
        }
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered)),
        Compression::Lz4 => Box::new(Frames::new(buffered)?),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
}

/// Frames of LZ4, one behind the other. The decoder of one takes no byte of the next, and says
/// nothing where its input ends too early.
struct Frames<R>(Option<lz4::Decoder<R>>);

impl<R: BufRead> Frames<R> {
    fn new(inner: R) -> io::Result<Self> {
        Ok(Self(Some(lz4::Decoder::new(inner)?)))
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let read = decoder.read(buffer)?;
            if read != 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some((mut inner, ended)) = self.0.take().map(lz4::Decoder::finish) else {
                break;
            };
            ended.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            if !inner.fill_buf()?.is_empty() {
                self.0 = Some(lz4::Decoder::new(inner)?);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(compression: Compression, text: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(text, 1).unwrap(),
            Compression::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut encoder =
                    bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Lz4 => {
                let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
                encoder.write_all(text).unwrap();
                let (bytes, ended) = encoder.finish();
                ended.unwrap();
                bytes
            }
        }
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        decompress(bytes)?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn each_compression_is_undone_and_its_end_is_missed() {
        let text: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
        for compression in Compression::ALL {
            let bytes = packed(compression, &text);
            assert_eq!(Compression::of(&bytes), Some(compression));
            assert_eq!(unpacked(&bytes).unwrap(), text, "{compression:?}");
            // As parallel compressors write it.
            let twice = [&bytes[..], &bytes].concat();
            let found = unpacked(&twice).unwrap();
            assert_eq!(found, [&text[..], &text].concat(), "{compression:?}");
            for kept in [bytes.len() / 2, bytes.len() - 1] {
                let cut = unpacked(&bytes[..kept]);
                assert!(cut.is_err(), "{compression:?} at {kept}");
            }
        }
        assert_eq!(unpacked(&text).unwrap(), text);
    }
}
