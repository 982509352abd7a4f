//! Images of what has changed.

use std::fs;

use age::x25519;

use super::fixture::{Fixture, content, memory, small, text};
use crate::{
    Base, Changed, Control, Error, Image, Keys, PAGE, PAGE_SIZE, Pages, Recipient, Record, Source,
    rekey, write,
};

/// Changes some pages of the memory; which they were.
fn touch(fixture: &mut Fixture, pages: &[usize]) -> Pages {
    let mut changed = Pages::none(fixture.bytes.len() as u64);
    for page in pages {
        let bytes = &mut fixture.bytes[page * PAGE..(page + 1) * PAGE];
        if page % 2 == 0 {
            text(bytes, page + 1_000_000);
        } else {
            bytes.fill(0);
        }
        changed.insert(*page as u64);
    }
    fixture.memory = memory(&fixture.bytes);
    changed
}

fn write_on(fixture: &Fixture, name: &str, image: &Image, changed: Changed<'_>) -> [u64; 3] {
    let base = Some(Base { image, changed });
    let source = Source {
        base,
        ..fixture.source()
    };
    let path = fixture.path(name);
    let report = write(
        &path,
        &source,
        &fixture.recipients(),
        &small(),
        Control::none(),
    );
    report.unwrap().chunks
}

fn open(fixture: &Fixture, name: &str) -> Result<Image, Error> {
    fixture
        .open(&fixture.path(name))?
        .with_parents(&fixture.keys(), &[])
}

#[test]
fn only_what_has_changed_is_written() {
    let mut fixture = Fixture::new(160);
    fixture.image("full.brisk");
    let full = open(&fixture, "full.brisk").unwrap();
    let changed = touch(&mut fixture, &[3, 4, 100]);
    let by_pages = write_on(&fixture, "pages.brisk", &full, Changed::Pages(&changed));
    let by_content = write_on(&fixture, "compare.brisk", &full, Changed::Compare);
    assert_eq!((by_pages, by_content), ([2, 0, 18], [2, 0, 18]));
    for name in ["pages.brisk", "compare.brisk"] {
        let image = open(&fixture, name).unwrap();
        assert!(content(&image).unwrap() == fixture.bytes);
        let verified = image.verify(2, Control::none()).unwrap();
        // Not those of the parent: as the header shows.
        assert_eq!((verified.stored_chunks, verified.parent_chunks), (2, 18));
        assert_eq!(image.header().stored_chunks, verified.stored_chunks);
        assert_eq!(image.header().stored_pages, verified.stored_pages);
    }
}

#[test]
fn pages_of_the_working_set_are_read_as_others_are() {
    let mut fixture = Fixture::new(160);
    fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    touch(&mut fixture, &[4]);
    let working_set = [96..104, 0..8];
    let write = |name: &str, base, working_set| {
        let source = Source {
            base,
            working_set,
            ..fixture.source()
        };
        let (path, recipients) = (fixture.path(name), fixture.recipients());
        write(&path, &source, &recipients, &small(), Control::none()).unwrap()
    };
    let is_zero = |page: &usize| fixture.bytes[page * PAGE..][..PAGE].iter().all(|b| *b == 0);
    let count = |pages: std::ops::Range<usize>| {
        let pages = pages.filter(|page| !is_zero(page)).count();
        (pages * PAGE) as u64
    };
    assert!(count(96..104) < 8 * PAGE_SIZE);
    let base = Some(Base {
        image: &full,
        changed: Changed::Compare,
    });
    assert_eq!(write("without", base, &[]).raw, count(0..8));
    // The first chunk has changed: it is in the file in any case.
    let based = write("with", base, &working_set);
    assert_eq!(based.raw, count(0..8) + count(96..104));
    assert_eq!(write("whole", None, &working_set).raw, count(0..160));
}

#[test]
fn chains_are_followed_and_end() {
    let mut fixture = Fixture::new(160);
    fixture.image("0");
    let mut last = 0;
    let refused = loop {
        let image = open(&fixture, &last.to_string()).unwrap();
        touch(&mut fixture, &[last * 9, 7]);
        let base = Some(Base {
            image: &image,
            changed: Changed::Compare,
        });
        let source = Source {
            base,
            ..fixture.source()
        };
        let path = fixture.path(&(last + 1).to_string());
        match write(
            &path,
            &source,
            &fixture.recipients(),
            &small(),
            Control::none(),
        ) {
            Ok(_) => last += 1,
            Err(error) => break error,
        }
        let image = open(&fixture, &last.to_string()).unwrap();
        assert_eq!(image.depth(), last + 1);
        assert!(content(&image).unwrap() == fixture.bytes);
    };
    assert_eq!(last, 15);
    assert!(
        refused.to_string().contains("write a full one"),
        "{refused}"
    );
}

#[test]
fn holes_are_the_parents_pages_where_nothing_has_changed() {
    let mut fixture = Fixture::new(160);
    fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    let before = fixture.bytes.clone();
    // A guest that was resumed lazily: what it has not asked for is not in its memory's file.
    let changed = touch(&mut fixture, &[16]);
    let mut lazy = vec![0; fixture.bytes.len()];
    lazy[16 * PAGE..24 * PAGE].copy_from_slice(&fixture.bytes[16 * PAGE..24 * PAGE]);
    let expected = [
        &before[..16 * PAGE],
        &lazy[16 * PAGE..24 * PAGE],
        &before[24 * PAGE..],
    ]
    .concat();
    fixture.memory = memory(&lazy);
    write_on(&fixture, "next", &full, Changed::Pages(&changed));
    assert!(content(&open(&fixture, "next").unwrap()).unwrap() == expected);
}

#[test]
fn left_out_pages_are_zero_though_the_parent_has_them() {
    let fixture = Fixture::new(80);
    fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    let none = Pages::none(fixture.bytes.len() as u64);
    let mut leave_out = none.clone();
    leave_out.insert(11);
    // A whole chunk.
    leave_out.insert_all(16..24);
    for changed in [Changed::Compare, Changed::Pages(&none)] {
        let base = Some(Base {
            image: &full,
            changed,
        });
        let source = Source {
            base,
            leave_out: Some(&leave_out),
            ..fixture.source()
        };
        let path = fixture.path("next");
        let options = crate::Options {
            replace: true,
            ..small()
        };
        write(
            &path,
            &source,
            &fixture.recipients(),
            &options,
            Control::none(),
        )
        .unwrap();
        let mut expected = fixture.bytes.clone();
        expected[11 * PAGE..12 * PAGE].fill(0);
        expected[16 * PAGE..24 * PAGE].fill(0);
        assert!(content(&open(&fixture, "next").unwrap()).unwrap() == expected);
    }
}

#[test]
fn a_parent_that_is_not_there_is_named() {
    let mut fixture = Fixture::new(160);
    let path = fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    touch(&mut fixture, &[3]);
    write_on(&fixture, "next", &full, Changed::Compare);
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::copy(&path, &moved).unwrap();
    fs::remove_file(&path).unwrap();
    let id: String = full
        .header()
        .id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let error = open(&fixture, "next").unwrap_err();
    assert!(error.to_string().contains(&id), "{error}");
    let alone = fixture.open(&fixture.path("next")).unwrap();
    let here = alone
        .records()
        .iter()
        .position(|record| *record == Record::Parent)
        .unwrap();
    let mut out = vec![0; 8 * PAGE];
    assert!(matches!(
        alone.read_chunk(here as u64, &mut out),
        Err(Error::NoParent { .. })
    ));
    let image = alone.with_parents(&fixture.keys(), &[moved]).unwrap();
    assert!(content(&image).unwrap() == fixture.bytes);
}

#[test]
fn a_parent_may_be_wrapped_for_other_keys() {
    let mut fixture = Fixture::new(160);
    let path = fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    touch(&mut fixture, &[3]);
    write_on(&fixture, "next", &full, Changed::Compare);
    let other = x25519::Identity::generate();
    let recipients = [Recipient::Age(other.to_public())];
    rekey(&path, &fixture.keys(), &recipients, Control::none()).unwrap();
    assert!(matches!(open(&fixture, "next"), Err(Error::NoKey { .. })));
    let both: Keys = fixture.keys().with_identity(other);
    let image = Image::open(&fixture.path("next"), &both).unwrap();
    let image = image.with_parents(&both, &[]).unwrap();
    assert!(content(&image).unwrap() == fixture.bytes);
}

#[test]
fn an_image_of_another_machine_is_no_base() {
    let mut fixture = Fixture::new(80);
    fixture.image("full");
    let full = open(&fixture, "full").unwrap();
    fixture.description.uuid = [6; 16];
    let base = Some(Base {
        image: &full,
        changed: Changed::Compare,
    });
    let source = Source {
        base,
        ..fixture.source()
    };
    let path = fixture.path("next");
    let result = write(
        &path,
        &source,
        &fixture.recipients(),
        &small(),
        Control::none(),
    );
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
}
