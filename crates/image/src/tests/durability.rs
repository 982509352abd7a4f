//! What goes wrong while an image is written leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::fixture::{Fixture, small};
use crate::{Compression, Control, Error, Options, Progress, estimate, write};

#[test]
fn an_image_is_for_its_owner_and_replaces_only_when_asked_to() {
    let fixture = Fixture::new(20);
    let path = fixture.image("a.brisk");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&path).unwrap();
    let error = fixture.write(&path, &small()).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert!(fs::read(&path).unwrap() == before);
    let replace = Options {
        replace: true,
        ..small()
    };
    fixture.write(&path, &replace).unwrap();
    assert!(fs::read(&path).unwrap() != before);
    assert_eq!(fixture.left(), ["a.brisk"]);
}

#[test]
fn a_name_that_is_taken_meanwhile_is_not_replaced() {
    let fixture = Fixture::new(200);
    let path = fixture.path("a.brisk");
    let progress = |_: Progress| fs::write(&path, "someone else's").unwrap();
    let never = AtomicBool::new(false);
    let control = Control {
        progress: &progress,
        cancel: &never,
    };
    let result = write(
        &path,
        &fixture.source(),
        &fixture.recipients(),
        &small(),
        control,
    );
    assert!(matches!(result, Err(Error::Exists { .. })), "{result:?}");
    assert_eq!(fs::read(&path).unwrap(), b"someone else's");
    assert_eq!(fixture.left(), ["a.brisk"]);
}

#[test]
fn a_directory_that_is_removed_meanwhile_is_an_error() {
    let fixture = Fixture::new(200);
    let dir = fixture.path("images");
    fs::create_dir(&dir).unwrap();
    let path = dir.join("a.brisk");
    let removed = AtomicBool::new(false);
    let progress = |_: Progress| {
        if !removed.swap(true, std::sync::atomic::Ordering::Relaxed) {
            fs::remove_dir_all(&dir).unwrap();
        }
    };
    let never = AtomicBool::new(false);
    let control = Control {
        progress: &progress,
        cancel: &never,
    };
    let result = write(
        &path,
        &fixture.source(),
        &fixture.recipients(),
        &small(),
        control,
    );
    let error = result.unwrap_err();
    assert!(error.to_string().contains("images/a.brisk"), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(fixture.left(), [""; 0]);
}

#[test]
fn where_nothing_can_be_written_the_path_and_the_reason_are_shown() {
    let fixture = Fixture::new(8);
    // Not even root makes files there.
    for path in ["/proc/self/a.brisk", "/no/such/directory/a.brisk"] {
        let error = fixture.write(Path::new(path), &small()).unwrap_err();
        let Error::Io { ref path, .. } = error else {
            panic!("{error:?}");
        };
        assert!(
            path.starts_with("/proc/self") || path.starts_with("/no/such"),
            "{error}"
        );
    }
}

#[test]
fn what_cannot_fit_is_refused_before() {
    let fixture = Fixture::new(400);
    let size = fixture.bytes.len() as u64;
    let path = fixture.path("a.brisk");
    let none = estimate(&path, &fixture.memory, size, None, Compression::None).unwrap();
    let zstd = estimate(&path, &fixture.memory, size, None, Compression::Zstd(1)).unwrap();
    assert!(zstd.likely < none.likely && none.likely <= none.most);
    assert!(none.free > 0 && !none.is_hopeless());
    let written = fixture.image("b.brisk").metadata().unwrap().len();
    assert!(
        zstd.likely / 2 < written && written < zstd.most,
        "{zstd:?} {written}"
    );
}
