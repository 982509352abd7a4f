//! Machines that stay: nothing in the middle of a suspend or a resume loses one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use brisk_testkit::{Checked, Machines, Signal, brisk_of, qemu_is_before, times, trial};
use libtest_mimic::Arguments;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let trials = vec![
        trial("suspend_is_killed_anywhere", old.clone(), suspend_killed),
        trial("resume_is_killed_anywhere", old.clone(), resume_killed),
        trial(
            "what_a_killed_resume_left_goes_with_its_machine",
            old.clone(),
            left,
        ),
        trial(
            "ctrl_c_and_another_command_while_suspending",
            old,
            interrupted,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
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

/// Kills `command` after `delay`. Whether that was before its end.
fn kills(guest: &Checked, command: &[&str], delay: Duration) -> bool {
    let run = guest.all.vm(command).spawn();
    // No wait for anything: the point is any.
    thread::sleep(delay);
    run.signal(Signal::KILL);
    run.wait().signal() == Some(9)
}

/// Kills `command` at points all over the time it takes, and finds the machine well each time.
/// Where it was how often: running, standing still, in its image, done.
fn killed_anywhere(command: &[&str], seed: u64) -> [usize; 4] {
    let mut guest = Checked::new(machines(), &["--compression", "lz4"]);
    let resumes = command[0] == "resume";
    let timed = |words: &[&str]| {
        let begun = Instant::now();
        let _ = guest.all.does(words);
        begun.elapsed()
    };
    let took = [timed(&["suspend", "a"]), timed(&["resume", "--eager", "a"])];
    let mut whole = took[usize::from(resumes)];
    guest.is_well();
    let mut random = Random(seed);
    let mut seen = [0; 4];
    let points = times(50, 200);
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
    let seen = killed_anywhere(&["suspend", "a"], 0x5eed);
    assert!(seen[1] > 0, "{seen:?}");
}

fn resume_killed() {
    let seen = killed_anywhere(&["resume", "--eager", "a"], 0xfeed);
    assert!(seen[2] > 0, "{seen:?}");
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
        let _ = ended.said(&["interrupted; the machine goes on"]);
        guest.is_well();
    }
    is_all_there_is(&guest);
}

/// Killed when the guest ran, and before the image was removed.
fn left() {
    let guest = Checked::new(machines(), &["--compression", "lz4"]);
    let image = guest.all.state_dir("a").join("a.brisk");
    let left = image.with_extension("brisk.resumed");
    for end in ["stop", "kill"] {
        let _ = guest.all.does(&["suspend", "a"]);
        let _ = guest.all.does(&["resume", "--eager", "a"]);
        fs::write(&left, "used").unwrap();
        assert_eq!(guest.all.doing("a"), "running");
        let _ = guest.all.does(&[end, "a"]);
        is_all_there_is(&guest);
        let _ = guest.all.does(&["start", "a"]);
    }
}

/// Nothing but what a machine that is not suspended has.
fn is_all_there_is(guest: &Checked) {
    let names = fs::read_dir(guest.all.state_dir("a")).unwrap();
    let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "console.log",
            "initramfs",
            "kernel",
            "lock",
            "log",
            "qemu.log"
        ]
    );
}
