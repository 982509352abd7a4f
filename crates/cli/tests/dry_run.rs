//! --dry-run says what would be run, with reasons, and runs nothing.

use std::fs;

use brisk_testkit::{Brisk, brisk, capture, tool};
use serde_json::Value;

const CONFIGURED: [&str; 7] = [
    "--root",
    "none",
    "--dry-run",
    "--machine",
    "q35",
    "--net",
    "user",
];

fn dry(words: &[&str]) -> Brisk {
    // A QEMU that was asked what it can do before is not even asked again.
    brisk!().args(CONFIGURED).args(words).command(["true"])
}

#[test]
fn the_table_has_a_reason_for_every_part() {
    let run = dry(&["--append", "brisk.mark"]).exits(0);
    let text = run.text();
    for part in [
        "qemu-system-x86_64",
        "  -M q35",
        "  -netdev user,id=net0",
        "virtio_console: ",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(
        text.contains("# brisk.mark: asked for with --append"),
        "{text}"
    );
    let parts: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("  -"))
        .collect();
    for part in parts {
        let rest = &text[text.find(part).unwrap() + part.len()..];
        assert!(rest.starts_with("\n      # "), "no reason for {part}");
    }
}

#[test]
fn json_is_for_programs_and_csv_for_sheets() {
    let run = dry(&["--format", "json"]).exits(0);
    let value: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(value["schema"], "brisk.dry-run/1");
    assert_eq!(value["accelerator_why"], "asked for with --accel tcg");
    let parts = value["parts"].as_array().unwrap();
    assert!(parts.len() > 10, "{parts:?}");
    for part in parts {
        assert!(
            part["words"]
                .as_array()
                .is_some_and(|words| !words.is_empty()),
            "{part}"
        );
        assert!(
            part["why"].as_str().is_some_and(|why| !why.is_empty()),
            "{part}"
        );
    }
    let run = dry(&["--format", "csv"]).exits(0);
    assert!(
        run.text().starts_with("words,why\n\"-nodefaults"),
        "{}",
        run.text()
    );
    assert!(run.text().lines().count() > parts.len());
}

#[test]
fn nothing_is_started() {
    // A QEMU that says it is one, and writes down every start.
    let home = tempfile::tempdir().unwrap();
    let [program, log] = ["qemu", "log"].map(|name| home.path().join(name));
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nexec qemu-system-x86_64 \"$@\"\n",
        log.display()
    );
    fs::write(&program, text).unwrap();
    brisk_testkit::capture("/bin/chmod".as_ref(), &["+x", program.to_str().unwrap()]);
    dry(&["--qemu", program.to_str().unwrap()]).exits(0);
    let started = fs::read_to_string(&log).unwrap();
    assert!(!started.contains("-kernel"), "{started}");
}

#[test]
fn an_archive_stays_packed() {
    let home = tempfile::tempdir().unwrap();
    let [root, archive, cache] = ["root", "root.tar", "cache"].map(|name| home.path().join(name));
    brisk_testkit::tree(&root);
    let _ = capture(
        &tool("tar"),
        &[
            "-C",
            root.to_str().unwrap(),
            "-cf",
            archive.to_str().unwrap(),
            ".",
        ],
    );
    let run = brisk!["--dry-run", "--root"].arg(&archive);
    let shown = run
        .env("BRISK_CACHE_DIR", &cache)
        .command(["true"])
        .exits(0);
    assert!(shown.text().contains("unread.erofs"), "{}", shown.text());
    let unpacked = fs::read_dir(cache.join("v1/containers"));
    assert_eq!(unpacked.map_or(0, Iterator::count), 0);
}
