//! Altered bytes are found, named, and never taken for memory.

use std::fs;
use std::path::Path;

use super::fixture::{Dice, Fixture, content};
use crate::{Control, Error, Header, Image, Keys, PAGE, PAGE_SIZE, Place, Record, SlotKind};

/// Everything that an image holds, or why not.
fn read_all(image: Result<Image, Error>) -> Result<Vec<u8>, Error> {
    let image = image?;
    let mut all = content(&image)?;
    all.extend(image.state()?);
    Ok(all)
}

/// An image as bytes, and how to look at altered ones.
struct Victim {
    fixture: Fixture,
    whole: Vec<u8>,
    header: Header,
}

impl Victim {
    fn new(pages: usize) -> Self {
        let fixture = Fixture::new(pages);
        let path = fixture.image("whole.brisk");
        let header = Header::read(&path).unwrap();
        let whole = fs::read(path).unwrap();
        Self {
            fixture,
            whole,
            header,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let path = self.fixture.path("altered.brisk");
        fs::write(&path, bytes).unwrap();
        read_all(self.fixture.open(&path))
    }

    fn expected(&self) -> Vec<u8> {
        [&self.fixture.bytes[..], &self.fixture.state].concat()
    }
}

#[test]
fn every_flipped_bit_of_the_header_is_found() {
    let victim = Victim::new(8);
    assert_eq!(victim.header.len(), PAGE_SIZE);
    let mut bytes = victim.whole.clone();
    for bit in 0..PAGE * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::decode(&bytes[..PAGE]).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(Header::decode(&bytes[..PAGE]).is_ok());
}

#[test]
fn every_flipped_bit_of_the_header_is_found_though_its_checksum_is_right() {
    let victim = Victim::new(8);
    let mut bytes = victim.whole.clone();
    let mut accepted = 0;
    // What is behind the slots must be zero: a few bytes of it stand for all.
    let used = 128 + 4 + victim.header.slots[0].bytes.len() + 8;
    for bit in (0..96 * 8).chain(128 * 8..used * 8) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes[96..128].fill(0);
        let checksum = blake3::hash(&bytes[..PAGE]);
        bytes[96..128].copy_from_slice(checksum.as_bytes());
        accepted += usize::from(Header::decode(&bytes[..PAGE]).is_ok());
        let error = victim.read(&bytes).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("altered.brisk"), "bit {bit}: {text}");
        bytes.copy_from_slice(&victim.whole);
    }
    assert!(accepted > 1000, "the keys were asked only {accepted} times");
}

#[test]
fn ten_thousand_flipped_bits_of_the_body_are_found() {
    let victim = Victim::new(16);
    let expected = victim.expected();
    let mut dice = Dice::new(20_000);
    let mut bytes = victim.whole.clone();
    assert!(victim.read(&bytes).unwrap() == expected);
    // One file, altered in place: only what changes is written.
    let path = victim.fixture.path("altered.brisk");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    use std::os::unix::fs::FileExt;
    for _ in 0..10_000 {
        let at = dice.below(victim.header.len()..bytes.len() as u64);
        let byte = &mut bytes[at as usize];
        *byte ^= 1 << dice.below(0..8);
        file.write_all_at(&[*byte], at).unwrap();
        let result = read_all(victim.fixture.open(&path));
        assert!(matches!(result, Err(Error::Damaged { .. })), "byte {at}");
        *byte = victim.whole[at as usize];
        file.write_all_at(&[*byte], at).unwrap();
    }
    assert!(victim.read(&bytes).unwrap() == expected);
}

#[test]
fn cut_off_anywhere_it_is_refused_before_anything_is_read() {
    let victim = Victim::new(64);
    let image = victim
        .fixture
        .open(&victim.fixture.path("whole.brisk"))
        .unwrap();
    let start = victim.header.len();
    let mut ends = vec![0, 1, 8, 16, 127, 128, start - 1, start];
    for record in image.records() {
        if let Record::Here { offset, length, .. } = record {
            let (from, to) = (start + offset, start + offset + u64::from(*length));
            ends.extend([from, from + 1, to - 16, to - 1, to]);
        }
    }
    let head = victim.header.head_offset();
    let records = head + u64::from(victim.header.head_len);
    ends.extend([
        head,
        head + 1,
        records,
        records + 1,
        victim.whole.len() as u64 - 1,
    ]);
    for end in ends {
        let error = victim.read(&victim.whole[..end as usize]).unwrap_err();
        let refused = match &error {
            Error::NotAnImage { .. } => end < 16,
            Error::Damaged { place, .. } => *place == Place::Length,
            _ => false,
        };
        assert!(refused, "{end}: {error}");
    }
    let longer = [&victim.whole[..], b"x"].concat();
    let error = victim.read(&longer).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Damaged {
                place: Place::Length,
                ..
            }
        ),
        "{error}"
    );
}

/// The bytes of a sealed chunk in the file.
fn place(image: &Image, index: usize) -> std::ops::Range<usize> {
    let Record::Here { offset, length, .. } = image.records()[index] else {
        panic!("chunk {index} is not here");
    };
    let from = (image.header().len() + offset) as usize;
    from..from + length as usize
}

#[test]
fn swapped_replayed_and_spliced_chunks_are_found() {
    // Noise only, so that all chunks have one length and fit each other's places.
    let mut fixture = Fixture::new(64);
    for (number, page) in fixture.bytes.chunks_mut(PAGE).enumerate() {
        super::fixture::noise(page, number as u64);
    }
    fixture.memory = super::fixture::memory(&fixture.bytes);
    let (a, b) = (fixture.image("a.brisk"), fixture.image("b.brisk"));
    let (image, other) = (fixture.open(&a).unwrap(), fixture.open(&b).unwrap());
    let (whole, theirs) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
    let fails_at = |bytes: &[u8], index: u64| {
        let path = fixture.path("altered.brisk");
        fs::write(&path, bytes).unwrap();
        let image = fixture.open(&path).unwrap();
        let error = image.verify(2, Control::none()).unwrap_err();
        let place = match error {
            Error::Damaged { place, .. } => place,
            other => panic!("{other}"),
        };
        assert_eq!(place, Place::Chunk(index));
    };
    // Two chunks of one image change places.
    let mut swapped = whole.clone();
    swapped[place(&image, 1)].copy_from_slice(&whole[place(&image, 3)]);
    swapped[place(&image, 3)].copy_from_slice(&whole[place(&image, 1)]);
    fails_at(&swapped, 1);
    // One is there twice.
    let mut replayed = whole.clone();
    replayed[place(&image, 2)].copy_from_slice(&whole[place(&image, 0)]);
    fails_at(&replayed, 2);
    // The same chunk of the same memory, from another image for the same key.
    let mut spliced = whole.clone();
    spliced[place(&image, 4)].copy_from_slice(&theirs[place(&other, 4)]);
    fails_at(&spliced, 4);
    // Head and list of the other image, or its header.
    let head = image.header().head_offset() as usize;
    assert_eq!(whole.len(), theirs.len());
    for bytes in [
        [&whole[..head], &theirs[head..]].concat(),
        [&theirs[..PAGE], &whole[PAGE..]].concat(),
    ] {
        let path = fixture.path("altered.brisk");
        fs::write(&path, bytes).unwrap();
        let error = fixture.open(&path).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Damaged {
                    place: Place::Head,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn verify_names_the_first_bad_place() {
    let fixture = Fixture::new(200);
    let path = fixture.image("a.brisk");
    let image = fixture.open(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for bad in [[20, 7], [3, 4], [24, 23]] {
        let mut bytes = whole.clone();
        for index in bad {
            bytes[place(&image, index).start] ^= 1;
        }
        fs::write(&path, bytes).unwrap();
        for threads in [1, 2, 4] {
            let error = fixture
                .open(&path)
                .unwrap()
                .verify(threads, Control::none());
            let Err(Error::Damaged { place, .. }) = error else {
                panic!("{error:?}");
            };
            assert_eq!(place, Place::Chunk(bad[0].min(bad[1]) as u64));
        }
    }
}

#[test]
fn other_files_are_no_images() {
    let fixture = Fixture::new(8);
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"brisk"),
        ("elf", b"\x7fELF\x02\x01\x01"),
    ] {
        let path = fixture.path(name);
        fs::write(&path, bytes).unwrap();
        let error = fixture.open(&path).unwrap_err();
        assert!(matches!(error, Error::NotAnImage { .. }), "{error}");
    }
    let missing = fixture.open(Path::new("/no/such.brisk")).unwrap_err();
    assert!(missing.to_string().contains("cannot read /no/such.brisk"));
    let mut newer = fs::read(fixture.image("a.brisk")).unwrap();
    newer[8] = 9;
    fs::write(fixture.path("newer"), newer).unwrap();
    let error = fixture.open(&fixture.path("newer")).unwrap_err();
    assert!(error.to_string().contains("has version 9"), "{error}");
}

#[test]
fn any_bytes_are_a_header_or_are_refused() {
    let victim = Victim::new(8);
    let mut dice = Dice::new(3);
    for _ in 0..5000 {
        let mut bytes = victim.whole[..PAGE].to_vec();
        for _ in 0..dice.below(1..6) {
            bytes[dice.below(16..160) as usize] = dice.next() as u8;
        }
        bytes[96..128].fill(0);
        let checksum = blake3::hash(&bytes);
        bytes[96..128].copy_from_slice(checksum.as_bytes());
        if let Ok(header) = Header::decode(&bytes) {
            assert!(header.encode() == bytes, "{header:?}");
        }
    }
}

#[test]
fn a_wrong_key_names_the_recipients() {
    let fixture = Fixture::new(8);
    let path = fixture.image("a.brisk");
    for keys in [Keys::new(), Fixture::new(1).keys()] {
        let error = Image::open(&path, &keys).unwrap_err();
        assert!(
            error.to_string().contains("encrypted to a host key"),
            "{error}"
        );
    }
    assert_eq!(
        Header::read(&path).unwrap().slots[0].kind(),
        SlotKind::HostKey
    );
}

#[test]
fn parsers_take_anything() {
    let victim = Victim::new(8);
    let image = victim
        .fixture
        .open(&victim.fixture.path("whole.brisk"))
        .unwrap();
    let header = &victim.whole[..PAGE];
    let head = serde_json::to_vec(image.head()).unwrap();
    let mut dice = Dice::new(11);
    let chunk = {
        let mut plain = vec![2, 1];
        plain.extend(zstd::bulk::compress(&[7; PAGE], 1).unwrap());
        plain
    };
    let record = [1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..5000 {
        for rest in [&head[..], &chunk, &record, &[1, 0xff, 0x1f, 0, 0, 9]] {
            let mut bytes = [header, rest].concat();
            for _ in 0..dice.below(0..4) {
                let at = dice.below(PAGE_SIZE..bytes.len() as u64) as usize;
                bytes[at] = dice.next() as u8;
            }
            bytes.truncate(dice.below(PAGE_SIZE..bytes.len() as u64 + 1) as usize);
            crate::parse_anything(&bytes);
        }
    }
}
