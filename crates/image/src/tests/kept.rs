//! Images of guests whose memory stays in RAM.

use age::x25519;

use super::fixture::{Fixture, small};
use crate::{
    Base, Changed, Control, Error, Kept, KeptMemory, Recipient, Record, Source, digest, rekey,
    write,
};

fn kept(fixture: &Fixture) -> Kept {
    let size = fixture.bytes.len() as u64;
    Kept {
        path: "/memory/vm-a.ram".into(),
        start: 4 << 30,
        size: 1 << 30,
        boot: "a boot".to_owned(),
        digest: digest(&fixture.memory, "memory".as_ref(), size, 2, Control::none()).unwrap(),
    }
}

fn write_kept(fixture: &Fixture, kept: &Kept, in_image: bool) -> Result<[u64; 3], Error> {
    let source = Source {
        kept: Some(KeptMemory { kept, in_image }),
        ..fixture.source()
    };
    let path = fixture.path("kept.brisk");
    let recipients = fixture.recipients();
    let report = write(&path, &source, &recipients, &small(), Control::none());
    report.map(|report| report.chunks)
}

#[test]
fn an_image_without_memory_says_where_that_is() {
    let fixture = Fixture::new(160);
    let kept = kept(&fixture);
    assert_eq!(write_kept(&fixture, &kept, false).unwrap(), [0, 0, 0]);
    let path = fixture.path("kept.brisk");
    let other = x25519::Identity::generate();
    let recipients = [
        Recipient::Age(other.to_public()),
        Recipient::Host(fixture.identity.to_public()),
    ];
    for _ in 0..2 {
        let image = fixture.open(&path).unwrap();
        assert!(image.header().kept);
        assert_eq!(image.head().kept.as_ref(), Some(&kept));
        assert!(image.records().iter().all(|one| *one == Record::Kept));
        assert_eq!(image.state().unwrap(), fixture.state);
        let into = tempfile::tempfile().unwrap();
        let loaded = image.load(&into, "memory".as_ref(), 2, Control::none());
        assert!(matches!(loaded, Err(Error::Kept { .. })), "{loaded:?}");
        rekey(&path, &fixture.keys(), &recipients, Control::none()).unwrap();
    }
    // Nothing can be based on it: its chunks are nowhere.
    let image = fixture.open(&path).unwrap();
    for changed in [Changed::Compare, Changed::Pages(&crate::Pages::none(4096))] {
        let base = Some(Base {
            image: &image,
            changed,
        });
        let source = Source {
            base,
            ..fixture.source()
        };
        let path = fixture.path("next.brisk");
        let next = write(&path, &source, &recipients, &small(), Control::none());
        assert!(matches!(next, Err(Error::Invalid(_))), "{next:?}");
    }
}

#[test]
fn an_image_can_have_memory_that_is_kept_too() {
    let fixture = Fixture::new(160);
    let kept = kept(&fixture);
    let usual = fixture.image("usual.brisk");
    let usual = fixture.open(&usual).unwrap();
    write_kept(&fixture, &kept, true).unwrap();
    let image = fixture.open(&fixture.path("kept.brisk")).unwrap();
    assert!(!image.header().kept);
    assert_eq!(image.head().kept.as_ref(), Some(&kept));
    assert_eq!(image.stored_chunks(), usual.stored_chunks());
    let mut chunk = vec![0; image.header().chunk_len(0)];
    image.read_chunk(0, &mut chunk).unwrap();
    assert_eq!(chunk, fixture.bytes[..chunk.len()]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let fixture = Fixture::new(16);
    let long = Kept {
        path: "p".repeat(5000).into(),
        ..kept(&fixture)
    };
    let written = write_kept(&fixture, &long, true);
    assert!(matches!(written, Err(Error::Invalid(_))), "{written:?}");
    let kept = kept(&fixture);
    let source = Source {
        kept: Some(KeptMemory {
            kept: &kept,
            in_image: false,
        }),
        working_set: std::slice::from_ref(&(0..2)),
        ..fixture.source()
    };
    let path = fixture.path("kept.brisk");
    let recipients = fixture.recipients();
    let written = write(&path, &source, &recipients, &small(), Control::none());
    assert!(matches!(written, Err(Error::Invalid(_))), "{written:?}");
}
