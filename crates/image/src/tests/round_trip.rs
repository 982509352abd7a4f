//! An image that is read has the content that was written.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::fixture::{Dice, Fixture, MARK, content, memory, noise, small, text};
use crate::{
    Compression, Control, Error, Form, Image, MIN_CHUNK, Options, PAGE, PAGE_SIZE, Pages, Progress,
    Range, Source, extract, write,
};

fn compressions() -> impl Strategy<Value = Compression> {
    prop_oneof![
        Just(Compression::None),
        (1_u8..=64).prop_map(Compression::Lz4),
        (-7_i8..=5).prop_map(Compression::Zstd),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_memory_by_any_compression_and_threads(
        kinds in prop::collection::vec(0_u8..5, 1..200),
        compression in compressions(),
        threads in 1_usize..5,
        chunk in 0_u32..4,
        seed in any::<u64>(),
    ) {
        let mut bytes = vec![0; kinds.len() * PAGE];
        for (number, (page, kind)) in bytes.chunks_mut(PAGE).zip(&kinds).enumerate() {
            match kind {
                0 | 1 => {}
                2 => text(page, number),
                3 => noise(page, seed ^ number as u64),
                _ => page[seed as usize % PAGE] = 1,
            }
        }
        let fixture = Fixture::of(bytes);
        let options = Options {
            compression,
            threads,
            chunk_size: Some(MIN_CHUNK << chunk),
            ..Options::default()
        };
        let path = fixture.path("a.brisk");
        let report = fixture.write(&path, &options).unwrap();
        let pages = fixture.bytes.chunks(PAGE).filter(|page| page.iter().any(|b| *b != 0)).count();
        prop_assert_eq!(report.raw, (pages * PAGE) as u64);
        prop_assert_eq!(report.compressed, path.metadata().unwrap().len());
        let image = fixture.open(&path).unwrap();
        prop_assert_eq!(image.header().compression, compression);
        prop_assert!(content(&image).unwrap() == fixture.bytes);
        prop_assert!(loaded(&image, threads) == fixture.bytes);
        prop_assert_eq!(image.state().unwrap(), &fixture.state[..]);
        prop_assert_eq!(image.description(), &fixture.description);
        let verified = image.verify(threads, Control::none()).unwrap();
        prop_assert_eq!(verified.stored_pages, pages as u64);
    }

    #[test]
    fn pages_that_are_left_out_are_zero(
        runs in prop::collection::vec((any::<bool>(), 1..20_usize), 1..20),
    ) {
        // Among them whole chunks.
        let run = |(out, pages)| std::iter::repeat_n(out, pages);
        let left_out: Vec<bool> = runs.into_iter().flat_map(run).collect();
        let fixture = Fixture::new(left_out.len());
        let mut pages = Pages::none(fixture.bytes.len() as u64);
        let mut expected = fixture.bytes.clone();
        for (number, page) in expected.chunks_mut(PAGE).enumerate() {
            if left_out[number] {
                pages.insert(number as u64);
                page.fill(0);
            }
        }
        let path = fixture.path("a.brisk");
        let source = Source { leave_out: Some(&pages), ..fixture.source() };
        write(&path, &source, &fixture.recipients(), &small(), Control::none()).unwrap();
        prop_assert!(content(&fixture.open(&path).unwrap()).unwrap() == expected);
    }

    #[test]
    fn compressions_are_written_as_they_are_read(compression in compressions()) {
        prop_assert_eq!(compression.to_string().parse(), Ok(compression));
    }
}

fn loaded(image: &Image, threads: usize) -> Vec<u8> {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    image
        .load(&file, image.path(), threads, Control::none())
        .unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_is_zero_stays_a_hole() {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = vec![0; 4096 * PAGE];
    text(&mut bytes[1000 * PAGE..1001 * PAGE], 0);
    let fixture = Fixture::of(bytes);
    let path = fixture.path("a.brisk");
    let report = fixture.write(&path, &small()).unwrap();
    assert_eq!(report.chunks, [1, 511, 0]);
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let image = fixture.open(&path).unwrap();
    image.load(&file, &path, 2, Control::none()).unwrap();
    let meta = file.metadata().unwrap();
    assert_eq!(meta.len(), fixture.bytes.len() as u64);
    assert_eq!(meta.blocks() * 512, PAGE_SIZE);
}

#[test]
fn nothing_of_the_guest_is_in_clear() {
    let fixture = Fixture::new(100);
    for compression in [Compression::None, Compression::Lz4(1), Compression::Zstd(1)] {
        let path = fixture.path(&compression.to_string());
        fixture
            .write(
                &path,
                &Options {
                    compression,
                    ..small()
                },
            )
            .unwrap();
        let file = std::fs::read(&path).unwrap();
        let found = |text: &[u8]| memchr::memmem::find(&file, text);
        assert_eq!(found(MARK), None);
        assert_eq!(found(&MARK[..8]), None);
        // Only the key distinguishes noise from what is sealed.
        assert_eq!(found(&fixture.bytes[3 * PAGE..3 * PAGE + 32]), None);
        assert_eq!(found(b"i440fx"), None);
        assert_eq!(found(b"qcow2"), None);
        assert_eq!(found(&[5; 16]), None, "the machine's UUID");
    }
}

#[test]
fn two_images_of_one_memory_have_nothing_in_common() {
    let fixture = Fixture::new(100);
    let (a, b) = (fixture.image("a"), fixture.image("b"));
    let (a, b) = (std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    assert_eq!(a.len(), b.len());
    let same = |at: &usize| a[*at..*at + 16] == b[*at..*at + 16];
    assert_eq!((PAGE..a.len() - 16).find(same), None);
}

#[test]
fn memory_of_the_writer_does_not_depend_on_the_guests() {
    use crate::chunk_size_for;
    use crate::format::chunk::sealed_bound;
    // The list of chunks, and for each thread a chunk, a sealed chunk, and another to compare.
    let needed = |memory: u64| {
        let chunk = chunk_size_for(memory);
        let each = 2 * chunk as usize + 2 * sealed_bound(chunk as usize);
        let records = memory.div_ceil(chunk.into()) as usize * size_of::<crate::Record>();
        records + 2 * each
    };
    for shift in 20..=42 {
        let needed = needed(1 << shift);
        assert!(needed <= 52 << 20, "2^{shift} bytes of memory: {needed}");
    }
}

#[test]
fn progress_only_grows_and_ends_at_the_end() {
    use std::sync::Mutex;
    let fixture = Fixture::new(800);
    let seen = Mutex::new(Vec::new());
    let progress = |progress: Progress| seen.lock().unwrap().push(progress);
    let never = AtomicBool::new(false);
    let control = Control {
        progress: &progress,
        cancel: &never,
    };
    let one = Options {
        threads: 1,
        ..small()
    };
    write(
        &fixture.path("a"),
        &fixture.source(),
        &fixture.recipients(),
        &one,
        control,
    )
    .unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted_by(|a, b| a.done <= b.done && a.stored <= b.stored));
    let last = seen.last().unwrap();
    assert_eq!((last.done, last.total), (800 * PAGE_SIZE, 800 * PAGE_SIZE));
}

#[test]
fn stopped_in_the_middle_nothing_is_left() {
    let fixture = Fixture::new(800);
    let stop = AtomicBool::new(false);
    let progress = |progress: Progress| {
        if progress.done > progress.total / 2 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let control = Control {
        progress: &progress,
        cancel: &stop,
    };
    let path = fixture.path("a.brisk");
    let result = write(
        &path,
        &fixture.source(),
        &fixture.recipients(),
        &small(),
        control,
    );
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert_eq!(fixture.left(), [""; 0]);
}

#[test]
fn a_limit_is_kept_and_still_hears_stop() {
    let fixture = Fixture::new(800);
    let stop = AtomicBool::new(false);
    let progress = |_| stop.store(true, Ordering::Relaxed);
    let control = Control {
        progress: &progress,
        cancel: &stop,
    };
    // A byte a second: without hearing it this test would take days.
    let slow = Options {
        limit: Some(1),
        ..small()
    };
    // The first piece is free and is reported; the others have to wait.
    let source = Source {
        state: &[],
        ..fixture.source()
    };
    let result = write(
        &fixture.path("a"),
        &source,
        &fixture.recipients(),
        &slow,
        control,
    );
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
}

#[test]
fn a_core_file_has_the_memory_at_its_addresses() {
    use object::{Object, ObjectSegment};
    let mut fixture = Fixture::new(64);
    let half = 32 * PAGE_SIZE;
    fixture.description.ranges = vec![
        Range {
            offset: 0,
            address: 0,
            length: half,
        },
        Range {
            offset: half,
            address: 4 << 30,
            length: half,
        },
    ];
    let image = fixture.open(&fixture.image("a.brisk")).unwrap();
    let path = fixture.path("core");
    extract(&image, Form::Core, &path, false, 2, Control::none()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let core = object::File::parse(&*bytes).unwrap();
    assert_eq!(core.kind(), object::ObjectKind::Core);
    let segments: Vec<_> = core.segments().collect();
    assert_eq!(segments.len(), 2);
    assert_eq!(
        segments[0].data_range(0, half).unwrap().unwrap(),
        &fixture.bytes[..half as usize]
    );
    let above = segments[1].data_range(4 << 30, half).unwrap().unwrap();
    assert_eq!(above, &fixture.bytes[half as usize..]);
}

#[test]
fn an_extracted_memory_is_whole_or_not_there() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(64);
    let image_path = fixture.image("a.brisk");
    let image = fixture.open(&image_path).unwrap();
    let path = fixture.path("memory");
    let again = |replace| extract(&image, Form::Raw, &path, replace, 2, Control::none());
    again(false).unwrap();
    assert!(std::fs::read(&path).unwrap() == fixture.bytes);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(again(false), Err(Error::Exists { .. })));
    again(true).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut bytes = std::fs::read(&image_path).unwrap();
    bytes[image.header().len() as usize + 5000] ^= 1;
    std::fs::write(&image_path, bytes).unwrap();
    assert!(matches!(again(false), Err(Error::Damaged { .. })));
    assert_eq!(fixture.left(), ["a.brisk"]);
}

#[test]
fn a_working_set_in_the_image_and_beside_it() {
    let fixture = Fixture::new(64);
    let ranges = [8..16, 0..3, 60..64];
    let path = fixture.path("a.brisk");
    let source = Source {
        working_set: &ranges,
        ..fixture.source()
    };
    write(
        &path,
        &source,
        &fixture.recipients(),
        &small(),
        Control::none(),
    )
    .unwrap();
    let image = fixture.open(&path).unwrap();
    assert_eq!(image.working_set().unwrap().unwrap(), ranges);
    let beside = fixture.path("a.working-set");
    for ranges in [&ranges[..2], &ranges[1..]] {
        crate::write_working_set(&beside, &image, ranges).unwrap();
        let (uuid, read) = crate::read_working_set(&beside, &fixture.keys()).unwrap();
        assert_eq!((uuid, &read[..]), ([5; 16], ranges));
    }
    let whole = std::fs::read(&beside).unwrap();
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 1 << (at % 8);
        std::fs::write(&beside, &altered).unwrap();
        let result = crate::read_working_set(&beside, &fixture.keys());
        assert!(result.is_err(), "byte {at}");
    }
}

#[test]
fn pages_of_the_working_set_come_with_their_numbers() {
    // More than a piece of them.
    let fixture = Fixture::new(600);
    let ranges = [8..200, 0..3, 300..600];
    let path = fixture.path("a.brisk");
    let source = Source {
        working_set: &ranges,
        ..fixture.source()
    };
    let (recipients, options) = (fixture.recipients(), small());
    write(&path, &source, &recipients, &options, Control::none()).unwrap();
    let image = fixture.open(&path).unwrap();
    let mut got = Vec::new();
    let mut take = |number: u64, content: &[u8]| {
        let at = number as usize * PAGE;
        assert!(content == &fixture.bytes[at..at + PAGE], "page {number}");
        got.push(number);
        true
    };
    image.each_working_page(&mut take).unwrap();
    assert_eq!(got, ranges.into_iter().flatten().collect::<Vec<_>>());
    let outside = Source {
        working_set: &[590..601, 0..1],
        ..fixture.source()
    };
    let refused = write(
        &fixture.path("b.brisk"),
        &outside,
        &recipients,
        &options,
        Control::none(),
    );
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[test]
fn a_working_set_has_no_pages_that_are_left_out() {
    let fixture = Fixture::new(64);
    let mut left_out = Pages::none(fixture.bytes.len() as u64);
    left_out.insert_all(2..10);
    left_out.insert(61);
    let path = fixture.path("a.brisk");
    let source = |working_set| Source {
        working_set,
        leave_out: Some(&left_out),
        ..fixture.source()
    };
    let options = Options {
        replace: true,
        ..small()
    };
    let recipients = fixture.recipients();
    let write = |ranges| {
        let source = source(ranges);
        write(&path, &source, &recipients, &options, Control::none()).unwrap()
    };
    write(&[8..16, 0..3, 60..64, 5..7]);
    let image = fixture.open(&path).unwrap();
    let kept = [10..16, 0..2, 60..61, 62..64];
    assert_eq!(image.working_set().unwrap().unwrap(), kept);
    let mut got = Vec::new();
    let mut take = |number: u64, content: &[u8]| {
        let at = number as usize * PAGE;
        assert!(content == &fixture.bytes[at..at + PAGE], "page {number}");
        got.push(number);
        true
    };
    image.each_working_page(&mut take).unwrap();
    assert_eq!(got, kept.into_iter().flatten().collect::<Vec<_>>());
    // What is left of it is all that it takes room for.
    let (nothing, something) = (write(&[]).compressed, write(&[2..5, 5..10]).compressed);
    assert_eq!(something, nothing);
    let image = fixture.open(&path).unwrap();
    assert_eq!(image.working_set().unwrap(), None);
}

#[test]
fn memory_that_cannot_be_is_refused() {
    let fixture = Fixture::new(8);
    let source = |size| Source {
        size,
        ..fixture.source()
    };
    for size in [0, 1, PAGE_SIZE + 1, 9 * PAGE_SIZE, !4095] {
        let path = fixture.path("a");
        let result = write(
            &path,
            &source(size),
            &fixture.recipients(),
            &small(),
            Control::none(),
        );
        assert!(
            matches!(result, Err(Error::Invalid(_))),
            "{size}: {result:?}"
        );
    }
    assert_eq!(fixture.left(), [""; 0]);
}

#[test]
fn a_file_without_holes_is_read_as_well() {
    let fixture = Fixture::new(40);
    let mut dice = Dice::new(1);
    let bytes: Vec<u8> = (0..40 * PAGE).map(|_| dice.next() as u8).collect();
    let memory = memory(&bytes);
    let source = Source {
        memory: &memory,
        ..fixture.source()
    };
    let path = fixture.path("a");
    write(
        &path,
        &source,
        &fixture.recipients(),
        &small(),
        Control::none(),
    )
    .unwrap();
    let image = fixture.open(&path).unwrap();
    assert!(content(&image).unwrap() == bytes);
    // Noise is stored as it is: tags, bitmaps and bytes for the codec are all that is added.
    assert!(image.header().data_len < bytes.len() as u64 + 1000);
}
