use std::io::Write;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use super::*;

type Never = Error;

fn build(cache: &Cache, content: &[u8]) -> Entry<u32> {
    cache
        .get_or_build("test", "key", |file| {
            file.write_all(content).unwrap();
            Ok::<_, Never>(7)
        })
        .unwrap()
}

#[test]
fn a_result_is_built_once() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    let first = build(&cache, b"content");
    let second = build(&cache, b"other");
    assert!(first.fresh && !second.fresh);
    assert_eq!(std::fs::read(&second.path).unwrap(), b"content");
    assert_eq!((second.meta, second.size), (7, 7));
    assert!(second.path.starts_with(dir.path().join("v1")));
}

#[test]
fn a_damaged_result_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    let path = build(&cache, b"content").path;
    for damage in [
        |path: &Path| std::fs::write(path, b"cut").unwrap(),
        |path: &Path| std::fs::remove_file(path).unwrap(),
        |path: &Path| std::fs::write(path.with_extension("json"), b"{").unwrap(),
    ] {
        damage(&path);
        assert!(build(&cache, b"content").fresh);
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert!(!build(&cache, b"content").fresh);
    }
}

#[test]
fn a_result_no_longer_valid_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    build(&cache, b"content");
    let entry = cache
        .get_valid_or_build("test", "key", |meta| *meta == 8, |_| Ok::<u32, Never>(8))
        .unwrap();
    assert!(entry.fresh);
    assert_eq!((entry.meta, entry.size), (8, 0));
}

#[test]
fn a_failed_build_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    let result = cache.get_or_build("test", "key", |_| Err::<u32, _>(Error::NoDirectory));
    assert!(matches!(result, Err(Error::NoDirectory)));
    let left: Vec<_> = std::fs::read_dir(cache.dir().join("test"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["key.lock"]);
}

#[test]
fn of_many_builders_one_builds() {
    let dir = tempfile::tempdir().unwrap();
    let (builds, barrier) = (AtomicUsize::new(0), Barrier::new(8));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let cache = Cache::new(dir.path());
                barrier.wait();
                let entry = cache.get_or_build("test", "key", |file| {
                    builds.fetch_add(1, Ordering::SeqCst);
                    file.write_all(&[1; 100_000]).unwrap();
                    Ok::<_, Never>(0)
                });
                assert_eq!(std::fs::read(entry.unwrap().path).unwrap(), [1; 100_000]);
            });
        }
    });
    assert_eq!(builds.into_inner(), 1);
}

#[test]
fn whoever_builds_holds_the_lock_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    let path = cache.dir().join("test/key.lock");
    let try_lock = || {
        flock(
            File::open(&path).unwrap(),
            FlockOperation::NonBlockingLockShared,
        )
    };
    let build = |_: &mut File| Ok::<_, Never>(try_lock() == Err(rustix::io::Errno::WOULDBLOCK));
    assert!(cache.get_or_build("test", "key", build).unwrap().meta);
    try_lock().unwrap();
}

/// The time of change cannot be set, so the clock it is compared with is moved.
#[test]
fn a_file_changed_just_now_is_not_settled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, b"a").unwrap();
    let identity = Identity::of(&path).unwrap();
    let changed = Duration::new(identity.ctime.0 as u64, identity.ctime.1 as u32);
    assert!(!identity.settled(changed + Duration::from_millis(5)));
    assert!(!identity.settled(changed - Duration::from_secs(5)));
    assert!(identity.settled(changed + Duration::from_secs(1)));
}

#[test]
fn the_hash_follows_the_content() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path().join("cache"));
    let path = dir.path().join("file");
    std::fs::write(&path, b"a").unwrap();
    let first = cache.content_hash(&path).unwrap();
    assert_eq!(first, blake3::hash(b"a").to_hex().as_str());
    std::fs::write(&path, b"b").unwrap();
    assert_ne!(cache.content_hash(&path).unwrap(), first);
}

#[test]
fn an_unchanged_file_is_not_hashed_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::new(dir.path());
    // The test program was written long enough ago.
    let path = std::env::current_exe().unwrap();
    let hash = cache.content_hash(&path).unwrap();
    let index = cache.dir().join("index");
    let file = std::fs::read_dir(&index)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(&hash, "remembered")).unwrap();
    assert_eq!(cache.content_hash(&path).unwrap(), "remembered");
    let known: Indexed = read_json(&file).unwrap();
    let identity = Identity {
        size: 1,
        ..known.identity
    };
    write_json(
        &file,
        &Indexed {
            identity,
            hash: known.hash,
        },
    )
    .unwrap();
    assert_eq!(cache.content_hash(&path).unwrap(), hash);
}

#[test]
fn an_unwritable_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let result = Cache::new(&file).get_or_build("test", "key", |_| Ok::<_, Never>(0));
    let error = result.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot write the cache {}", file.join("v1/test").display())
    );
    assert!(error.hint().unwrap().contains("BRISK_CACHE_DIR"));
}
