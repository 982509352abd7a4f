//! --timing shows the time of each event; warm caches leave nothing to build.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use brisk_testkit::brisk;
use serde_json::Value;
use tempfile::tempdir;

const MOMENTS: [(&str, &str); 13] = [
    ("brisk started", "host-monotonic"),
    ("QEMU executed", "host-monotonic"),
    ("QEMU up", "host-monotonic"),
    ("kernel entry", "host-monotonic"),
    ("init started", "guest-boot"),
    ("modules loaded", "guest-boot"),
    ("channel open", "guest-boot"),
    ("root ready", "guest-boot"),
    ("command started", "guest-boot"),
    ("first output", "guest-boot"),
    ("command ended", "guest-boot"),
    ("exit status received", "host-monotonic"),
    ("QEMU ended", "host-monotonic"),
];

#[test]
fn every_moment_is_there_with_its_clock_and_in_order() {
    let home = tempdir().unwrap();
    let file = home.path().join("timing.json");
    let run = brisk!["--root", "none", "--format", "json"]
        .arg(format!("--timing={}", file.display()))
        .command(["echo", "out"])
        .exits(0);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("out\n", ""));
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let timeline = &report["timeline"];
    let events = timeline["events"].as_array().unwrap();
    let moments: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event["name"].as_str().unwrap(),
                event["clock"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(moments, MOMENTS);
    // Each clock by itself goes forward.
    for clock in ["host-monotonic", "guest-boot"] {
        let times: Vec<_> = events
            .iter()
            .filter(|event| event["clock"] == clock)
            .map(|event| event["at"].as_u64().unwrap())
            .collect();
        assert!(times.is_sorted(), "{clock}: {times:?}");
    }
    assert_eq!(report["environment"]["accelerator"], "tcg");
}

#[test]
fn the_second_run_builds_nothing() {
    // A cache of its own: other tests build in the usual one at the same time.
    let home = tempdir().unwrap();
    let run = |text: &str| {
        let run = brisk!["--root", "none"].env("BRISK_CACHE_DIR", home.path());
        assert_eq!(
            run.command(["echo", text]).exits(0).text(),
            format!("{text}\n")
        );
        files(home.path())
    };
    let cold = run("cold");
    for kind in ["v1/vmlinux/", "v1/initramfs/", "v1/qemu/"] {
        let built = cold
            .keys()
            .any(|path| path.to_string_lossy().contains(kind));
        assert!(built, "nothing in {kind}: {cold:?}");
    }
    assert_eq!(run("warm"), cold);
}

/// Each file with the times that change when it is written anew.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), (meta.len(), meta.modified().unwrap()));
        }
    }
    found
}
