//! Archives that unpack to more than there is room or time for, and writers that are killed.

use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock};

use super::super::manifest::{Expect, Layer, bounded};
use super::images::oci;
use super::*;

/// A plain archive with a megabyte of text and sixteen of zeros.
fn large() -> Vec<u8> {
    let zeros = Member::File("zeros".into(), vec![0; 16 << 20]);
    let text = Member::File("text".into(), b"text".repeat(1 << 18));
    layer(&[zeros, text])
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let [path, cache] = ["root.tar", "cache"].map(|name| home.path().join(name));
    fs::write(&path, large()).unwrap();
    let limits = Limits {
        reserve: |_| u64::MAX,
        ..Limits::default()
    };
    let fault = take_limited(&tarball(&path), &cache, limits).unwrap_err();
    assert!(matches!(fault, Fault::Full { .. }), "{fault:?}");
    assert!(names(&cache).is_empty());
}

#[test]
fn holes_take_no_room() {
    let home = tempfile::tempdir().unwrap();
    let [path, cache] = ["root.tar", "cache"].map(|name| home.path().join(name));
    fs::write(&path, large()).unwrap();
    let root = take(&tarball(&path), &cache).unwrap();
    let image = fs::metadata(&root.image).unwrap();
    assert!(image.len() > 17 << 20);
    assert!(image.blocks() * 512 < 3 << 20, "{} blocks", image.blocks());
    let seen = reading::read(&fs::read(root.image).unwrap());
    assert_eq!(seen.len(), 3, "{:?}", seen.keys());
}

#[test]
fn a_killed_writer_leaves_nothing_and_what_others_left_goes() {
    let home = tempfile::tempdir().unwrap();
    let [path, cache] = ["root.tar", "cache"].map(|name| home.path().join(name));
    fs::write(&path, large()).unwrap();
    fs::create_dir(&cache).unwrap();
    fs::write(cache.join(".new-dead"), "").unwrap();
    let held = fs::File::create(cache.join(".new-alive")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut looked = 0;
    unpack(&tarball(&path), &cache, Limits::default(), &mut |_, _| {
        looked += 1;
        assert_eq!(names(&cache), [".new-alive"]);
    })
    .unwrap();
    assert!(looked > 0);
    let mut left = names(&cache);
    left.retain(|name| name.starts_with('.'));
    assert_eq!(left, [".new-alive"]);
}

#[test]
fn a_layer_that_is_listed_again_and_again_counts_each_time() {
    let megabyte = |name: &str| layer(&[Member::File(name.into(), vec![0; 1 << 20])]);
    let both = [megabyte("a"), megabyte("b")];
    let home = tempfile::tempdir().unwrap();
    let limits = Limits {
        content: 8 << 20,
        ..Limits::default()
    };
    let in_turn = |count: usize| both.iter().cycle().take(count).cloned().collect();
    let cases: [(Vec<_>, bool); 2] = [(in_turn(7), true), (in_turn(9), false)];
    for (number, (layers, fits)) in cases.into_iter().enumerate() {
        let directory = home.path().join(number.to_string());
        let found = oci(&directory, &layers);
        match take_limited(&found, &home.path().join("cache"), limits) {
            Ok(_) => assert!(fits),
            Err(fault) => assert!(!fits && matches!(fault, Fault::TooMuch { .. }), "{fault:?}"),
        }
    }
}

#[test]
fn a_layer_twice_in_a_row_is_one_and_there_are_not_thousands() {
    let named = |name: usize| Layer {
        name: name.to_string(),
        expect: Expect::Stored(String::new()),
    };
    let layers = |each: usize| (0..4096).map(|at| named(at / each)).collect::<Vec<_>>();
    assert_eq!(bounded(layers(4096)).unwrap(), [named(0)]);
    assert_eq!(bounded(layers(64)).unwrap().len(), 64);
    assert!(matches!(bounded(layers(1)), Err(Fault::TooMuch { .. })));
}

#[test]
fn pipes_and_devices_in_a_layout_are_refused() {
    let bytes = layer(&[file("a", "text")]);
    let home = tempfile::tempdir().unwrap();
    let found = oci(home.path(), &[bytes]);
    let blobs = found.path.join("blobs/sha256");
    let mut parts: Vec<_> = names(&blobs).iter().map(|name| blobs.join(name)).collect();
    parts.push(found.path.join("index.json"));
    assert_eq!(parts.len(), 4);
    for part in parts {
        let whole = fs::read(&part).unwrap();
        fs::remove_file(&part).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &part, fifo, mode, 0).unwrap();
        let fault = take(&found, &home.path().join("cache")).unwrap_err();
        assert!(fault.to_string().ends_with("not a regular file"), "{fault}");
        fs::remove_file(&part).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &part).unwrap();
        assert!(take(&found, &home.path().join("cache")).is_err());
        fs::remove_file(&part).unwrap();
        fs::write(&part, whole).unwrap();
    }
    let _ = take(&found, &home.path().join("cache")).unwrap();
}

#[test]
fn the_files_of_equal_layers_count_each_time() {
    let bytes = layer(&[Member::File("zeros".into(), vec![0; 1 << 20])]);
    let home = tempfile::tempdir().unwrap();
    let limits = Limits {
        content: 8 << 20,
        ..Limits::default()
    };
    for (times, fits) in [(7, true), (9, false)] {
        let directory = home.path().join(times.to_string());
        let found = oci(&directory, &vec![bytes.clone(); times]);
        let taken = take_limited(&found, &home.path().join("cache"), limits);
        match taken {
            Ok(_) => assert!(fits),
            Err(fault) => assert!(!fits && matches!(fault, Fault::TooMuch { .. }), "{fault:?}"),
        }
    }
}
