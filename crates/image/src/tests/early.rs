//! Chunks that are written before the guest stands still.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::fixture::{Dice, Fixture, content, noise, small};
use crate::{
    Control, Error, Forecast, Image, Options, Outline, PAGE, PAGE_SIZE, Pages, Place, Record,
    Report, Source, Writer,
};

/// A forecast for a fixture's pages.
fn forecast(
    fixture: &Fixture,
    kept: impl Fn(u64) -> bool,
    lasts: impl Fn(u64) -> bool,
) -> Forecast {
    let size = fixture.bytes.len() as u64;
    let mut forecast = Forecast::none(size);
    let expected = (0..size / PAGE_SIZE).filter(|page| kept(*page));
    expected.for_each(|page| forecast.keep(page, lasts(page)));
    forecast
}

fn outline(fixture: &Fixture) -> Outline<'static> {
    Outline {
        vm: fixture.description.uuid,
        memory: fixture.bytes.len() as u64,
        base: None,
    }
}

/// An image with what is expected written before `between`, all else after it.
fn written(
    fixture: &mut Fixture,
    options: &Options,
    forecast: &Forecast,
    between: impl FnOnce(&mut Fixture) -> Option<Pages>,
) -> (Image, Report) {
    let path = fixture.path("early.brisk");
    let recipients = fixture.recipients();
    let (outline, control) = (outline(fixture), Control::none());
    let writer = Writer::begin(&path, outline, &recipients, options, control).unwrap();
    let enough = AtomicBool::new(false);
    let writer = writer.write_early(&fixture.memory, forecast, &enough);
    let writer = writer.unwrap();
    let left_out = between(fixture);
    let report = writer.finish(&Source {
        leave_out: left_out.as_ref(),
        ..fixture.source()
    });
    let report = report.unwrap();
    (fixture.open(&path).unwrap(), report)
}

fn early(image: &Image) -> usize {
    let records = image.records().iter();
    records
        .filter(|record| matches!(record, Record::Here { early: true, .. }))
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_was_expected_the_image_is_of_what_is(
        unexpected in prop::collection::btree_set(0..128_u64, 0..20),
        changed in prop::collection::btree_map(0..128_usize, 0..3_u64, 0..12),
        free in prop::collection::btree_set(0..128_u64, 0..40),
    ) {
        let mut fixture = Fixture::new(128);
        let before = fixture.bytes.clone();
        let expected = forecast(&fixture, |page| !unexpected.contains(&page), |_| true);
        let (image, report) = written(&mut fixture, &small(), &expected, |fixture| {
            for (page, how) in &changed {
                let range = page * PAGE..(page + 1) * PAGE;
                let bytes = &mut fixture.bytes[range.clone()];
                match how {
                    0 => bytes.fill(0),
                    1 => bytes[PAGE / 2] ^= 1,
                    _ => noise(bytes, 1 + *page as u64),
                }
                fixture.memory.write_all_at(bytes, range.start as u64).unwrap();
            }
            let mut left_out = Pages::none(fixture.bytes.len() as u64);
            free.iter().for_each(|page| left_out.insert(*page));
            Some(left_out)
        });
        let stored = content(&image).unwrap();
        let pages = stored.chunks(PAGE).zip(fixture.bytes.chunks(PAGE)).zip(before.chunks(PAGE));
        for (page, ((stored, now), before)) in (0_u64..).zip(pages) {
            let is_right = match free.contains(&page) {
                true => stored.iter().all(|byte| *byte == 0) || stored == before,
                false => stored == now,
            };
            prop_assert!(is_right, "page {page}");
        }
        let verified = image.verify(2, Control::none()).unwrap();
        prop_assert_eq!(verified.stored_pages * PAGE_SIZE, report.raw);
    }
}

#[test]
fn what_stays_is_not_written_again() {
    let mut fixture = Fixture::new(128);
    let expected = forecast(&fixture, |_| true, |_| true);
    let (image, report) = written(&mut fixture, &small(), &expected, |fixture| {
        // One page of the second chunk.
        fixture.memory.write_all_at(b"new", 9 * PAGE_SIZE).unwrap();
        fixture.bytes[9 * PAGE..9 * PAGE + 3].copy_from_slice(b"new");
        None
    });
    assert_eq!((early(&image), image.records().len()), (15, 16));
    let Record::Here { early: false, .. } = image.records()[1] else {
        panic!("{:?}", image.records()[1]);
    };
    assert!(content(&image).unwrap() == fixture.bytes);
    // What was written of the second chunk first is nobody's; all else is under seal.
    let bytes = fs::read(image.path()).unwrap();
    for (index, record) in (0..).zip(image.records()) {
        let Record::Here { offset, .. } = record else {
            continue;
        };
        let mut bytes = bytes.clone();
        bytes[(image.header().len() + offset) as usize] ^= 1;
        let altered = fixture.path("altered.brisk");
        fs::write(&altered, bytes).unwrap();
        let error = fixture.open(&altered).unwrap().verify(2, Control::none());
        let Err(Error::Damaged { place, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(place, Place::Chunk(index));
    }
    // In each chunk but that one as many pages as there are in it.
    let whole = fixture.write(&fixture.path("whole.brisk"), &small());
    let (raw, second) = (whole.unwrap().raw, report.raw - report.early);
    assert_eq!(report.raw, raw);
    assert!(second > 0 && second <= 8 * PAGE_SIZE, "{second}");
}

#[test]
fn free_pages_that_were_expected_do_no_harm() {
    let mut fixture = Fixture::new(128);
    let expected = forecast(&fixture, |_| true, |_| true);
    let (image, _) = written(&mut fixture, &small(), &expected, |fixture| {
        let mut left_out = Pages::none(fixture.bytes.len() as u64);
        // Part of a chunk, and all of one.
        left_out.insert_all(1..3);
        left_out.insert_all(16..24);
        Some(left_out)
    });
    assert_eq!((early(&image), image.records()[2]), (15, Record::Zero));
}

#[test]
fn a_page_that_nobody_expected_has_its_chunk_written_again() {
    let mut fixture = Fixture::new(128);
    let expected = forecast(&fixture, |page| page != 9, |_| true);
    let (image, _) = written(&mut fixture, &small(), &expected, |_| None);
    assert_eq!(early(&image), 15);
    assert!(content(&image).unwrap() == fixture.bytes);
}

#[test]
fn only_what_is_likely_to_stay_is_written_early() {
    let mut fixture = Fixture::new(128);
    // Half of the third chunk, and a little less of the fourth.
    let lasting = |page| (16..20).contains(&page) || (24..27).contains(&page);
    let expected = forecast(&fixture, |_| true, lasting);
    let (image, _) = written(&mut fixture, &small(), &expected, |_| None);
    let Record::Here { early: true, .. } = image.records()[2] else {
        panic!("{:?}", image.records()[2]);
    };
    assert_eq!(early(&image), 1);
}

#[test]
fn one_thread_is_left_for_the_guest() {
    let mut fixture = Fixture::new(128);
    let expected = forecast(&fixture, |_| true, |_| true);
    let alone = Options {
        threads: 1,
        ..small()
    };
    let (image, report) = written(&mut fixture, &alone, &expected, |_| None);
    assert_eq!((early(&image), report.early), (0, 0));
}

#[test]
fn what_is_enough_ends_it_after_a_chunk() {
    let fixture = Fixture::new(128);
    let path = fixture.path("early.brisk");
    let (recipients, options) = (fixture.recipients(), small());
    let control = Control::none();
    let writer = Writer::begin(&path, outline(&fixture), &recipients, &options, control).unwrap();
    let expected = forecast(&fixture, |_| true, |_| true);
    let (enough, more) = (AtomicBool::new(true), AtomicBool::new(false));
    let writer = writer.write_early(&fixture.memory, &expected, &enough);
    let writer = writer.unwrap();
    let first = writer.early_bytes();
    assert!(first > 0 && first <= 8 * PAGE_SIZE, "{first}");
    // There is no second time, in which something might be sealed again.
    let writer = writer.write_early(&fixture.memory, &expected, &more);
    let writer = writer.unwrap();
    assert_eq!(writer.early_bytes(), first);
    // What is not finished leaves nothing.
    drop(writer);
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[test]
fn who_says_stop_meanwhile_is_heard() {
    let fixture = Fixture::new(128);
    let path = fixture.path("early.brisk");
    let (recipients, options) = (fixture.recipients(), small());
    let cancel = AtomicBool::new(true);
    let control = Control {
        cancel: &cancel,
        ..Control::none()
    };
    let writer = Writer::begin(&path, outline(&fixture), &recipients, &options, control).unwrap();
    let expected = forecast(&fixture, |_| true, |_| true);
    let enough = AtomicBool::new(false);
    let stopped = writer.write_early(&fixture.memory, &expected, &enough);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

#[test]
fn what_is_based_on_another_image_is_not_written_early() {
    let fixture = Fixture::new(128);
    let image = fixture.open(&fixture.image("base.brisk")).unwrap();
    let path = fixture.path("early.brisk");
    let (recipients, options) = (fixture.recipients(), small());
    let based = Outline {
        base: Some(&image),
        ..outline(&fixture)
    };
    let writer = Writer::begin(&path, based, &recipients, &options, Control::none()).unwrap();
    assert!(!writer.takes_early());
    let expected = forecast(&fixture, |_| true, |_| true);
    let enough = AtomicBool::new(false);
    let writer = writer.write_early(&fixture.memory, &expected, &enough);
    assert_eq!(writer.unwrap().early_bytes(), 0);
}

#[test]
fn memory_that_changes_meanwhile_is_written_as_it_is_in_the_end() {
    let mut fixture = Fixture::new(2048);
    let expected = forecast(&fixture, |_| true, |_| true);
    let memory = fixture.memory.try_clone().unwrap();
    let (begun, over) = (Barrier::new(2), AtomicBool::new(false));
    let image = thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let mut page = [0; PAGE];
            let mut dice = Dice::new(7);
            begun.wait();
            while !over.load(Ordering::Relaxed) {
                noise(&mut page, dice.next());
                let at = dice.below(0..1024) * PAGE_SIZE;
                memory.write_all_at(&page, at).unwrap();
            }
        });
        begun.wait();
        let (image, _) = written(&mut fixture, &small(), &expected, |fixture| {
            over.store(true, Ordering::Relaxed);
            guest.join().unwrap();
            fixture.memory.read_exact_at(&mut fixture.bytes, 0).unwrap();
            None
        });
        image
    });
    assert!(content(&image).unwrap() == fixture.bytes);
    // Half of it did not change.
    assert!(early(&image) >= 128, "{}", early(&image));
}

#[test]
fn an_image_is_for_the_machine_it_was_begun_for() {
    let fixture = Fixture::new(16);
    let path = fixture.path("early.brisk");
    let (recipients, options) = (fixture.recipients(), small());
    let others = Outline {
        vm: [6; 16],
        ..outline(&fixture)
    };
    let writer = Writer::begin(&path, others, &recipients, &options, Control::none()).unwrap();
    let error = writer.finish(&fixture.source()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}
