//! Persistent VMs: nothing in the middle of a suspend or a resume loses one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use brisk_testkit::{
    Checked, Machines, Signal, Taken, brisk_of, ext4, qemu_is_before, times, tree, trials, until,
};
use libtest_mimic::Arguments;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 9] = [
        ("suspend_is_killed_anywhere", suspend_killed),
        ("a_dropped_cache_is_killed_anywhere", dropping_killed),
        ("resume_is_killed_anywhere", resume_killed),
        ("suspend_is_killed_beside_locks", || {
            locked_killed("suspend", 0x10c5)
        }),
        ("resume_is_killed_beside_locks", || {
            locked_killed("resume", 0x10c7)
        }),
        ("a_resume_by_pages_is_killed_beside_locks", || {
            locked_killed("resume by pages", 0x10c9)
        }),
        ("a_clone_is_killed_anywhere", clone_killed),
        ("what_a_killed_resume_left_goes_with_its_machine", left),
        ("ctrl_c_and_another_command_while_suspending", interrupted),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials(old, tests)).exit();
}

/// Points in time, the same in each run of the test.
struct Random(u64);

impl Random {
    fn within(&mut self, limit: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        limit.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// A process that locks a disk and lets go of it, again and again, until this is dropped.
struct Locker {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<u32>>,
}

impl Locker {
    fn new(disk: &Path) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, disk) = (Arc::clone(&ends), disk.to_owned());
        let thread = thread::spawn(move || {
            let mut random = Random(0x10c4e5);
            let mut count = 0;
            while !end.load(Ordering::Relaxed) {
                let taken = Taken::try_new(&disk);
                count += u32::from(taken.is_some());
                // No wait for anything: the point is any.
                thread::sleep(random.within(Duration::from_millis(60)));
                drop(taken);
                thread::sleep(random.within(Duration::from_millis(60)));
            }
            count
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }

    /// How often it had the lock.
    fn end(mut self) -> u32 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Resumes a VM beside a process that locks its disk now and then. A refusal leaves it as it
/// was: in its image, or standing still. How often it was refused.
fn resumes_beside_locks(guest: &Checked, words: &[&str]) -> u32 {
    let mut refused = 0;
    loop {
        let tried = guest.all.vm(words).output();
        if tried.status.success() {
            return refused;
        }
        let tried = tried.exited(125);
        // What goes on of a command that was killed still works on it, or has had it run.
        if [
            "by another process",
            "another command",
            "runs already",
            "gets its memory from its image",
        ]
        .iter()
        .any(|text| tried.stderr.contains(text))
        {
            if guest.all.doing("a") == "running" {
                return refused;
            }
            continue;
        }
        let _ = tried.explains(&["lock", "has one of its disks"]);
        let left = (guest.all.doing("a"), guest.all.count());
        let left = (left.0.as_str(), left.1);
        assert!(matches!(left, ("suspended", 0) | ("paused", 1)), "{left:?}");
        refused += 1;
    }
}

/// Kills a suspend or a resume of a VM at any points, beside a process that locks its disk and
/// lets go of it at others. No VM is lost, and none runs twice.
fn locked_killed(what: &str, seed: u64) {
    let all = machines();
    let disk = all.dir().join("disk");
    File::create_new(&disk).unwrap().set_len(1 << 20).unwrap();
    let words = ["--compression", "lz4", "--disk", disk.to_str().unwrap()];
    let mut guest = Checked::new(all, &words);
    let resume: &[&str] = match what {
        "resume by pages" => &["resume", "a"],
        _ => &["resume", "--eager", "a"],
    };
    let suspend = &["suspend", "a"][..];
    let suspends = what == "suspend";
    let mut whole = [0; 2].map(|_| {
        let begun = Instant::now();
        let _ = guest.all.does(suspend);
        let _ = guest.all.does(resume);
        begun.elapsed()
    })[1];
    let locker = Locker::new(&disk);
    let mut random = Random(seed);
    let (mut kills_done, mut refused) = (0, 0);
    while kills_done < times(8, 200) {
        if !suspends {
            let _ = guest.all.does(suspend);
        }
        let command = if suspends { suspend } else { resume };
        let run = guest.all.vm(command).spawn();
        thread::sleep(random.within(whole));
        run.signal(Signal::KILL);
        let ended = run.wait();
        match ended.signal() == Some(9) {
            true => kills_done += 1,
            false => whole = whole.mul_f64(0.9),
        }
        match guest.all.doing("a").as_str() {
            "running" => {}
            "paused" | "suspended" => refused += resumes_beside_locks(&guest, resume),
            other => panic!("{other}"),
        }
        guest.is_well();
    }
    // Until it has been refused once at least, whatever the points in time.
    while refused == 0 {
        let _ = guest.all.does(suspend);
        refused += resumes_beside_locks(&guest, resume);
        guest.is_well();
    }
    assert!(locker.end() > 0);
}

/// Kills `command` after `delay`. Whether that was before its end.
fn kills(guest: &Checked, command: &[&str], delay: Duration) -> bool {
    let run = guest.all.vm(command).spawn();
    // No wait for anything: the point is any.
    thread::sleep(delay);
    run.signal(Signal::KILL);
    run.wait().signal() == Some(9)
}

/// Kills `command` at points all over the time it takes, and finds the VM well each time.
/// Where it was how often: running, standing still, in its image, done.
fn killed_anywhere(command: &[&str], seed: u64, points: usize) -> [usize; 4] {
    // No image is based on another one: of such nothing is written while the guest runs.
    let settings = ["--compression", "lz4", "--incremental=false"];
    let drops = command.contains(&"--drop-cache");
    let mut guest = Checked::new(machines(), &settings[..if drops { 3 } else { 2 }]);
    let resumes = command[0] == "resume";
    let timed = |words: &[&str]| {
        let begun = Instant::now();
        let _ = guest.all.does(words);
        begun.elapsed()
    };
    let suspend = if drops { command } else { &["suspend", "a"] };
    let took = [timed(suspend), timed(&["resume", "--eager", "a"])];
    let mut whole = took[usize::from(resumes)];
    guest.is_well();
    let mut random = Random(seed);
    let mut seen = [0; 4];
    while seen[..3].iter().sum::<usize>() < points {
        if resumes {
            let _ = guest.all.does(&["suspend", "a"]);
        }
        assert_eq!(guest.all.count(), usize::from(!resumes));
        let killed = kills(&guest, command, random.within(whole));
        let doing = guest.all.doing("a");
        let place = match doing.as_str() {
            _ if !killed => 3,
            "running" => 0,
            "paused" => 1,
            "suspended" => 2,
            other => panic!("{other}"),
        };
        seen[place] += 1;
        if !killed {
            whole = whole.mul_f64(0.9);
        }
        if doing != "running" {
            let _ = guest.all.does(&["resume", "a"]);
        }
        guest.is_well();
    }
    seen
}

fn suspend_killed() {
    let seen = killed_anywhere(&["suspend", "a"], 0x5eed, times(50, 200));
    assert!(seen[1] > 0, "{seen:?}");
}

/// Part of the image is written while the guest runs.
fn dropping_killed() {
    let suspend = &["suspend", "--drop-cache", "a"];
    let seen = killed_anywhere(suspend, 0xd509, times(15, 200));
    assert!(seen[0] > 0, "{seen:?}");
}

fn resume_killed() {
    let seen = killed_anywhere(&["resume", "--eager", "a"], 0xfeed, times(50, 200));
    assert!(seen[2] > 0, "{seen:?}");
}

/// A disk, and more behind it, so that to copy it takes a while.
fn large_disk(all: &Machines) -> String {
    let (dir, image) = (all.dir().join("tree"), all.dir().join("image"));
    tree(&dir);
    fs::write(dir.join("srv/file"), "theirs\n").unwrap();
    ext4(&dir, &image);
    let mut more = File::options().append(true).open(&image).unwrap();
    for _ in 0..200 {
        more.write_all(&[1; 1 << 20]).unwrap();
    }
    image.into_os_string().into_string().unwrap()
}

/// A killed `resume --clone` leaves a clone that is off, paused or running, or nothing; the clone
/// can be removed, and its disk is complete or missing. The image that it comes from is unchanged.
fn clone_killed() {
    let all = machines();
    let disk = large_disk(&all);
    let words = ["--compression", "lz4", "--root", &disk, "--rw"];
    let mut guest = Checked::new(all, &words);
    let all = &guest.all;
    let _ = all.does(&["suspend", "a"]);
    let clone = ["resume", "a", "--clone", "b"];
    let own = all.state_dir("b").join("disk0.raw");
    let is_own = || {
        assert_eq!(all.output("b", "hostname; cat /srv/file"), "b\ntheirs\n");
        // The file system before it is written to by whoever runs.
        let behind = |path: &Path| fs::read(path).unwrap().split_off(32 << 20);
        assert!(behind(&own) == behind(disk.as_ref()));
    };
    let remove = || {
        if all.doing("b") != "off" {
            let _ = all.does(&["kill", "b"]);
        }
        let _ = all.does(&["rm", "b"]);
        assert!(!all.definition("b").exists() && !all.state_dir("b").exists());
        assert_eq!(all.count(), 0);
    };
    let begun = Instant::now();
    let _ = all.does(&clone);
    let whole = begun.elapsed();
    is_own();
    remove();
    // While the disk is copied, surely.
    let run = all.vm(&clone).spawn();
    until("the disk is copied", || {
        own.with_extension("partial").exists().then_some(())
    });
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal(), Some(9));
    assert_eq!((all.doing("b").as_str(), own.exists()), ("off", false));
    all.refuses(&clone, &["there is a VM b already", "brisk vm rm"]);
    remove();
    let mut random = Random(0xc10e);
    for _ in 0..times(10, 200) {
        let killed = kills(&guest, &clone, random.within(whole));
        if !all.definition("b").exists() {
            // Nothing but who was about to define it.
            let left = fs::read_dir(all.state_dir("b")).into_iter().flatten();
            let mut left = left.map(|file| file.unwrap().file_name());
            assert!(killed && left.all(|name| name == "lock"));
            continue;
        }
        match all.doing("b").as_str() {
            "running" => {
                let tried = all.exec("b", "true").spawn().wait();
                match tried.status.success() {
                    true => is_own(),
                    // Killed before it notified the guest.
                    false => {
                        let _ = tried.explains(&["b is a clone that does not know yet who it is"]);
                    }
                }
            }
            // Or before it ran.
            other => assert!(killed && matches!(other, "off" | "paused"), "{other}"),
        }
        remove();
    }
    let _ = all.does(&clone);
    is_own();
    remove();
    let _ = all.does(&["resume", "a"]);
    guest.is_well();
}

fn interrupted() {
    // At such a rate it would never end.
    let mut guest = Checked::new(machines(), &["--bandwidth", "1K"]);
    for signal in [Signal::INT, Signal::TERM] {
        let run = guest.suspends();
        let holder = format!("brisk vm suspend, process {}", run.id());
        for command in ["stop", "suspend", "resume", "kill", "rm", "set", "start"] {
            let texts = ["another command works on a", holder.as_str()];
            guest.all.refuses(&[command, "a"], &texts);
        }
        run.signal(signal);
        let ended = run.wait().exited(130);
        let _ = ended.explains(&["interrupted; the VM goes on"]);
        guest.is_well();
    }
    is_all_there_is(&guest, &["process"]);
}

/// Killed when the guest ran, and before the image was removed.
fn left() {
    let guest = Checked::new(machines(), &["--compression", "lz4"]);
    let image = guest.all.state_dir("a").join("a.brisk");
    let left = image.with_extension("brisk.resumed");
    for end in ["stop", "kill"] {
        let _ = guest.all.does(&["suspend", "a"]);
        let used = fs::read(&image).unwrap();
        let _ = guest.all.does(&["resume", "--eager", "a"]);
        fs::write(&left, used).unwrap();
        assert_eq!(guest.all.doing("a"), "running");
        let _ = guest.all.does(&[end, "a"]);
        is_all_there_is(&guest, &[]);
        let _ = guest.all.does(&["start", "a"]);
    }
}

/// Nothing but what a VM that is not suspended has, and what it has besides if it runs.
fn is_all_there_is(guest: &Checked, besides: &[&str]) {
    let names = fs::read_dir(guest.all.state_dir("a")).unwrap();
    let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    let usual = [
        "console.log",
        "initramfs",
        "kernel",
        "lock",
        "log",
        "qemu.log",
    ];
    let mut all = [&usual[..], besides].concat();
    all.sort_unstable();
    assert_eq!(names, all);
}
