//! What goes wrong while an image is written leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::fixture::{Fixture, content, small};
use crate::image::{Compression, Control, Error, Options, Progress, estimate, rekey, write};

#[test]
fn an_image_is_for_its_owner_and_replaces_only_when_told() {
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
fn where_nothing_can_be_written_the_path_and_the_reason_are_said() {
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

/// A tmpfs of a few pages; needs root.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(dir: &'a Path, options: &std::ffi::CStr) -> Self {
        use rustix::mount::{MountFlags, mount};
        mount("none", dir, "tmpfs", MountFlags::empty(), options).unwrap();
        Self(dir)
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
#[ignore = "mounts a tmpfs: run as root with --ignored"]
fn a_full_disk_is_refused_before_or_survived_after() {
    let fixture = Fixture::new(800);
    let dir = fixture.path("mounted");
    fs::create_dir(&dir).unwrap();
    let path = dir.join("a.brisk");
    let whole = fixture.image("whole.brisk").metadata().unwrap().len();
    for (size, refused) in [(16, true), (whole / 4096 - 3, false)] {
        let options = std::ffi::CString::new(format!("size={}k", size * 4)).unwrap();
        let _mounted = Tmpfs::mount(&dir, &options);
        let error = fixture.write(&path, &small()).unwrap_err();
        if refused {
            assert!(matches!(error, Error::Space { .. }), "{error:?}");
            assert!(error.to_string().contains("free some space"), "{error}");
        } else {
            assert!(
                error.hint().unwrap().contains("free some space"),
                "{error:?}"
            );
            assert!(error.to_string().contains("cannot write"), "{error}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let free = rustix::fs::statvfs(&dir).unwrap();
        assert_eq!(
            free.f_bfree, free.f_blocks,
            "nothing is left without a name either"
        );
    }
    // With room it goes on as if nothing had been.
    let _mounted = Tmpfs::mount(&dir, c"size=16m");
    fixture.write(&path, &small()).unwrap();
    assert!(content(&fixture.open(&path).unwrap()).unwrap() == fixture.bytes);
}

#[test]
#[ignore = "mounts a tmpfs: run as root with --ignored"]
fn rekey_on_a_full_or_read_only_disk_keeps_the_image() {
    let fixture = Fixture::new(800);
    let dir = fixture.path("mounted");
    fs::create_dir(&dir).unwrap();
    let path = dir.join("a.brisk");
    let size = fixture.image("whole.brisk").metadata().unwrap().len() * 3 / 2 / 1024;
    let options = std::ffi::CString::new(format!("size={size}k")).unwrap();
    let _mounted = Tmpfs::mount(&dir, &options);
    fixture.write(&path, &small()).unwrap();
    let again = || {
        rekey(
            &path,
            &fixture.keys(),
            &fixture.recipients(),
            Control::none(),
        )
    };
    let error = again().unwrap_err();
    assert!(error.to_string().contains("a.brisk"), "{error}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert!(content(&fixture.open(&path).unwrap()).unwrap() == fixture.bytes);
    let read_only = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount_remount(&dir, read_only, c"").unwrap();
    let error = again().unwrap_err();
    assert!(
        error.hint().unwrap().contains("that you can write"),
        "{error:?}"
    );
    let error = fixture.write(&dir.join("b.brisk"), &small()).unwrap_err();
    assert!(
        error.hint().unwrap().contains("that you can write"),
        "{error:?}"
    );
    assert!(content(&fixture.open(&path).unwrap()).unwrap() == fixture.bytes);
}
