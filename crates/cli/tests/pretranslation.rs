//! A second processor that has the kernel's code translated: recorded once, used from then on, and
//! not seen by the guest.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brisk_testkit::{Brisk, brisk, in_memory, qemu_is_before, trials};
use libtest_mimic::Arguments;
use tempfile::TempDir;

/// What the processor has written: 8 words of 32 bits, of which the fifth to seventh are the
/// kernel's entry, how many blocks it was sent to, and how often it waited in vain.
const PRINT_WORDS: &str =
    "dd if=/dev/mem bs=4096 skip=49 count=1 2>/dev/null | od -An -v -tu4 -N32";

/// Script that prints those words as soon as the processor was sent to more than so many blocks; at once if that
/// is 0.
fn print_words(more_than: u32) -> String {
    match more_than {
        0 => PRINT_WORDS.to_owned(),
        _ => {
            format!("until set -- $({PRINT_WORDS}) && test $6 -gt {more_than}; do :; done; echo $*")
        }
    }
}

/// Those words, as they were printed.
fn words(lines: &[&str]) -> Vec<u32> {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    words.map(|word| word.parse().unwrap()).collect()
}

/// A cache in which nothing is known yet.
struct Cache {
    dir: TempDir,
    /// Directory of templates.
    templates: TempDir,
}

impl Cache {
    fn new() -> Self {
        Self {
            dir: TempDir::with_prefix_in("ahead-", env!("CARGO_TARGET_TMPDIR")).unwrap(),
            templates: in_memory("ahead-"),
        }
    }

    fn run(&self, words: &[&str]) -> Brisk {
        let run = brisk!["--root", "none"]
            .env("BRISK_CACHE_DIR", self.dir.path())
            .env("BRISK_WARM_DIR", self.templates.path());
        // Whatever else the host does meanwhile.
        let run = match words.contains(&"--pretranslate") {
            true => run,
            false => run.args(["--pretranslate", "yes"]),
        };
        run.args(words)
    }

    /// What the plan is: the number of processors, and whether it is traced.
    fn plans(&self, words: &[&str]) -> (bool, bool) {
        let run = self.run(words).args(["--dry-run"]).command(["true"]);
        let text = run.exits(0).text();
        let two = text.contains("  -smp 2\n") && text.contains(" memmap=384K$0x30000");
        let pretranslator = text.contains("/ahead/") || text.contains("/ahead-waiting/");
        assert_eq!(two, pretranslator, "{text}");
        (two, text.contains("  -trace translate_block"))
    }

    fn recorded(&self) -> Vec<PathBuf> {
        let list = fs::read_dir(self.dir.path().join("v1/ahead"));
        let files = list.into_iter().flatten().map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_none()).collect()
    }

    fn records(&self) {
        let run = self.run(&[]).script("nproc; cat; exit 3").stdin("in\n");
        assert_eq!(run.exits(3).text(), "1\nin\n");
        assert_eq!(self.recorded().len(), 1);
    }
}

fn uses() {
    let cache = Cache::new();
    assert_eq!(cache.plans(&[]), (false, true));
    cache.records();
    assert_eq!(cache.plans(&[]), (true, false));
    // Debian's kernels have 38,000 to 44,000; it is far from its end if it got stuck.
    let script = format!("nproc; {}; cat; exit 3", print_words(30_000));
    let run = cache.run(&[]).script(&script).stdin("in\n").exits(3);
    let text = run.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines.last().copied()), ("1", Some("in")));
    let words = words(&lines[1..lines.len() - 1]);
    assert_eq!(words[6], 0, "it waited in vain: {words:?}");
    // Nothing is recorded a second time.
    assert_eq!(cache.recorded().len(), 1);
}

fn refuses() {
    let cache = Cache::new();
    let no = ["--pretranslate", "no"];
    assert_eq!(cache.plans(&no), (false, false));
    cache.run(&no).command(["true"]).exits(0);
    assert!(cache.recorded().is_empty());
    // Unusual boots are not recorded.
    for words in [["--append", "debug"], ["--ram", "private"]] {
        assert_eq!(cache.plans(&words), (false, false), "{words:?}");
    }
    cache.records();
    assert_eq!(cache.plans(&["--append", "debug"]), (true, false));
    for words in [
        &no[..],
        &["--cpus", "2"],
        &["--machine", "q35"],
        &["--machine", "microvm"],
        &["--firmware", "seabios"],
        &["--cpu", "max"],
    ] {
        assert_eq!(cache.plans(words), (false, false), "{words:?}");
    }
}

/// Every other block of Debian's kernels that it can be sent to is 6,000 and more.
const MANY: u32 = 3_000;

/// How many blocks the processor was sent to in a guest that went on from a template, which waits
/// until it is more than so many.
fn visited(cache: &Cache, warm: &[&str], more_than: u32) -> u32 {
    let script = format!("nproc; {}; cat; exit 3", print_words(more_than));
    let run = cache.run(warm).script(&script);
    let run = run.stdin("in\n").exits(3);
    let text = run.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines.last().copied()), ("1", Some("in")));
    words(&lines[1..lines.len() - 1])[5]
}

fn uses_warm() {
    let cache = Cache::new();
    assert_eq!(cache.plans(&["--warm"]), (true, false));
    // The first restored guest is recorded.
    assert_eq!(visited(&cache, &["--warm"], 0), 0);
    visited(&cache, &["--warm"], MANY);
    // A list that is there is not recorded again.
    visited(&cache, &["--warm"], MANY);
    assert!(cache.recorded().is_empty());
    // Another template has its own.
    assert_eq!(visited(&cache, &["--warm=new"], 0), 0);
    visited(&cache, &["--warm"], MANY);
}

fn refuses_warm() {
    let cache = Cache::new();
    for words in [
        &["--warm", "--pretranslate", "no"][..],
        &["--warm", "--cpus", "2"],
        // It boots, and nothing would end the wait of the second processor.
        &["--warm", "--rw"],
    ] {
        assert_eq!(cache.plans(words), (false, false), "{words:?}");
    }
}

/// Threads that have something to do until this is dropped, one for each processor.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn new() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let over = over.clone();
            std::thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Self(over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spares() {
    let cache = Cache::new();
    cache.records();
    assert_eq!(visited(&cache, &["--warm"], 0), 0);
    let busy = Busy::new();
    let auto = ["--pretranslate", "auto"];
    assert_eq!(cache.plans(&auto), (false, false));
    let warm = [&auto[..], &["--warm"]].concat();
    assert_eq!(visited(&cache, &warm, 0), 0);
    drop(busy);
    visited(&cache, &["--warm"], MANY);
}

fn long_warm() {
    let cache = Cache::new();
    // Longer than the recording, which ends before the command.
    let run = cache.run(&["--warm"]).script("sleep 3; echo out");
    assert_eq!(run.exits(0).text(), "out\n");
    visited(&cache, &["--warm"], MANY);
}

fn ends_warm() {
    let cache = Cache::new();
    // Cut off: the next one is recorded.
    let run = cache
        .run(&["--warm", "--timeout", "1s"])
        .command(["sleep", "1000"]);
    run.exits(124);
    assert_eq!(visited(&cache, &["--warm"], 0), 0);
    visited(&cache, &["--warm"], MANY);
}

fn mends() {
    let cache = Cache::new();
    cache.records();
    // As after a crash of the host.
    fs::write(&cache.recorded()[0], b"").unwrap();
    assert_eq!(cache.plans(&[]), (false, true));
    cache.records();
    assert_eq!(cache.plans(&[]), (true, false));
}

fn fails() {
    let cache = Cache::new();
    let run = cache.run(&["--timeout", "1s"]).command(["sleep", "1000"]);
    run.exits(124);
    assert!(cache.recorded().is_empty());
}

fn main() {
    let arguments = Arguments::from_args();
    let alone = std::thread::available_parallelism().map_or(1, usize::from) < 2;
    let alone = alone.then(|| "one processor".to_owned());
    let warm = trials(
        qemu_is_before(8, 2).or_else(|| alone.clone()),
        [
            ("a_guest_that_goes_on_has_it_translated_ahead", uses_warm),
            ("no_guest_waits_where_it_does_not_fit", refuses_warm),
            ("a_busy_host_is_spared", spares),
            ("a_long_command_is_watched_for_a_while", long_warm),
            ("a_command_that_was_cut_off_is_not_recorded", ends_warm),
        ],
    );
    let mut tests = trials(
        qemu_is_before(8, 0).or(alone),
        [
            ("the_next_boot_has_it_translated_ahead", uses),
            ("it_is_left_where_it_does_not_fit_or_is_not_wanted", refuses),
            ("what_is_damaged_is_recorded_again", mends),
            ("a_run_that_was_cut_off_is_not_recorded", fails),
        ],
    );
    tests.extend(warm);
    libtest_mimic::run(&arguments, tests).exit();
}
