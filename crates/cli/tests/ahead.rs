//! A second processor that has the kernel's code translated: learnt once, used from then on, and
//! not seen by the guest.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::PathBuf;

use brisk_testkit::{Brisk, brisk, qemu_is_before, trials};
use libtest_mimic::Arguments;
use tempfile::TempDir;

/// What the processor has written: 8 words of 32 bits, of which the fifth to seventh are the
/// kernel's entry, how many blocks it was sent to, and how often it waited in vain.
const TOLD: &str = "dd if=/dev/mem bs=4096 skip=49 count=1 2>/dev/null | od -An -v -tu4 -N32";

/// A cache in which nothing is known yet.
struct Cache(TempDir);

impl Cache {
    fn new() -> Self {
        Self(TempDir::with_prefix_in("ahead-", env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn run(&self, words: &[&str]) -> Brisk {
        brisk!["--root", "none"]
            .env("BRISK_CACHE_DIR", self.0.path())
            .args(words)
    }

    /// What the plan is: the number of processors, and whether it learns.
    fn plans(&self, words: &[&str]) -> (bool, bool) {
        let run = self.run(&["--dry-run"]).args(words).command(["true"]);
        let text = run.exits(0).text();
        let two = text.contains("  -smp 2\n") && text.contains(" memmap=384K$0x30000");
        assert_eq!(two, text.contains("/ahead/"), "{text}");
        (two, text.contains("  -trace translate_block"))
    }

    fn learnt(&self) -> Vec<PathBuf> {
        let list = fs::read_dir(self.0.path().join("v1/ahead"));
        let files = list.into_iter().flatten().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_none()).collect()
    }

    fn learns(&self) {
        let run = self.run(&[]).script("nproc; cat; exit 3").stdin("in\n");
        assert_eq!(run.exits(3).text(), "1\nin\n");
        assert_eq!(self.learnt().len(), 1);
    }
}

fn uses() {
    let cache = Cache::new();
    assert_eq!(cache.plans(&[]), (false, true));
    cache.learns();
    assert_eq!(cache.plans(&[]), (true, false));
    let script = format!("nproc; {TOLD}; cat; exit 3");
    let run = cache.run(&[]).script(&script).stdin("in\n").exits(3);
    let text = run.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines.last().copied()), ("1", Some("in")));
    let words: Vec<u32> = lines[1..lines.len() - 1]
        .iter()
        .flat_map(|line| line.split_whitespace())
        .map(|word| word.parse().unwrap())
        .collect();
    // Debian's kernels have 38,000 to 44,000; it is far from its end if it got stuck.
    assert!(words[5] > 30_000, "{words:?}");
    assert_eq!(words[6], 0, "it waited in vain: {words:?}");
    // Nothing is learnt a second time.
    assert_eq!(cache.learnt().len(), 1);
}

fn refuses() {
    let cache = Cache::new();
    let no = ["--translate-ahead", "no"];
    assert_eq!(cache.plans(&no), (false, false));
    cache.run(&no).command(["true"]).exits(0);
    assert!(cache.learnt().is_empty());
    // What is unusual teaches nothing.
    for words in [["--append", "debug"], ["--ram", "private"]] {
        assert_eq!(cache.plans(&words), (false, false), "{words:?}");
    }
    cache.learns();
    assert_eq!(cache.plans(&["--append", "debug"]), (true, false));
    for words in [
        &no[..],
        &["--cpus", "2"],
        &["--machine", "q35"],
        &["--machine", "microvm"],
        &["--firmware", "seabios"],
        &["--cpu", "max"],
        &["--warm"],
    ] {
        assert_eq!(cache.plans(words), (false, false), "{words:?}");
    }
}

fn mends() {
    let cache = Cache::new();
    cache.learns();
    // As after a crash of the host.
    fs::write(&cache.learnt()[0], b"").unwrap();
    assert_eq!(cache.plans(&[]), (false, true));
    cache.learns();
    assert_eq!(cache.plans(&[]), (true, false));
}

fn fails() {
    let cache = Cache::new();
    let run = cache.run(&["--timeout", "1s"]).command(["sleep", "1000"]);
    run.exits(124);
    assert!(cache.learnt().is_empty());
}

fn main() {
    let arguments = Arguments::from_args();
    let alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
    let alone = alone.then(|| "one processor".to_owned());
    let tests = trials(
        qemu_is_before(8, 0).or(alone),
        [
            ("the_next_boot_has_it_translated_ahead", uses),
            ("it_is_left_where_it_does_not_fit_or_is_not_wanted", refuses),
            ("what_is_damaged_is_learnt_again", mends),
            ("a_run_that_was_cut_off_teaches_nothing", fails),
        ],
    );
    libtest_mimic::run(&arguments, tests).exit();
}
