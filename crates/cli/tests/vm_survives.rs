//! Machines that stay: nothing in the middle of a suspend or a resume loses one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use brisk_testkit::{Machines, Signal, brisk_of, capture, qemu_is_before, tool, trial, until};
use libtest_mimic::Arguments;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let user = capture(&tool("id"), &["-u"]).trim() != "0";
    let no_mounts = old
        .clone()
        .or_else(|| user.then(|| "only root mounts".to_owned()));
    let trials = vec![
        trial("suspend_is_killed_anywhere", old.clone(), suspend_killed),
        trial("resume_is_killed_anywhere", old.clone(), resume_killed),
        trial(
            "ctrl_c_and_another_command_while_suspending",
            old,
            interrupted,
        ),
        trial("targets_that_are_full_or_read_only", no_mounts, targets),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Writes files in memory without end and looks whether they are what was written; counts.
const CHECK: &str = r#"
busybox mkdir -p /run; cd /run
cat > check <<'END'
n=0
while :; do
  n=$((n+1))
  for k in 0 1 2 3; do
    if test -e p$k && ! busybox md5sum -c -s s$k; then echo "p$k at $n" >> bad; fi
    busybox seq $((n*k)) $((n*k+1000)) > p$k
    busybox md5sum p$k > s$k
  done
  if test $(cat n) != $((n-1)); then echo "$(cat n) before $n" >> bad; fi
  echo $n > m; busybox mv m n; busybox sleep 0.02
done
END
echo 0 > n
busybox setsid sh check < /dev/null > /dev/null 2>&1 &
until test $(cat n) -gt 2; do busybox sleep 0.01; done
cat /proc/sys/kernel/random/boot_id
"#;

/// A machine that checks itself.
struct Checked {
    all: Machines,
    boot: String,
    rounds: u64,
}

impl Checked {
    fn new(words: &[&str]) -> Self {
        let all = machines();
        all.boot("a", words);
        let boot = all.tells("a", CHECK);
        Self {
            all,
            boot,
            rounds: 0,
        }
    }

    /// It runs, it is the same guest that never lost a round, and it goes on.
    #[track_caller]
    fn is_well(&mut self) {
        let all = &self.all;
        assert_eq!((all.doing("a").as_str(), all.count()), ("running", 1));
        let script = "cat /proc/sys/kernel/random/boot_id; cd /run; n=$(cat n); \
             until test $(cat n) -gt $n; do busybox sleep 0.01; done; cat n; \
             if test -e bad; then cat bad; fi";
        let told = all.tells("a", script);
        let rest = told.strip_prefix(&self.boot).unwrap();
        let rounds: u64 = rest.trim().parse().unwrap_or_else(|_| panic!("{rest}"));
        assert!(rounds > self.rounds, "{rounds} {}", self.rounds);
        self.rounds = rounds;
        let image = all.state_dir("a").join("a.brisk");
        assert!(!image.exists() && !image.with_extension("brisk.resuming").exists());
    }

    /// Kills `command` after `delay`. Where that was before its end.
    fn kills(&self, command: &[&str], delay: Duration) -> bool {
        let run = self.all.vm(command).spawn();
        // No wait for anything: the point is any.
        thread::sleep(delay);
        run.signal(Signal::KILL);
        run.wait().signal() == Some(9)
    }
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

/// Kills `command` at points all over the time it takes, and finds the machine well each time.
/// Where it was how often: running, standing still, in its image, done.
fn killed_anywhere(command: &[&str], seed: u64) -> [usize; 4] {
    let mut guest = Checked::new(&["--compression", "lz4"]);
    let resumes = command[0] == "resume";
    let timed = |words: &[&str]| {
        let begun = Instant::now();
        let _ = guest.all.does(words);
        begun.elapsed()
    };
    let times = [timed(&["suspend", "a"]), timed(&["resume", "--eager", "a"])];
    let mut whole = times[usize::from(resumes)];
    guest.is_well();
    let mut random = Random(seed);
    let mut seen = [0; 4];
    while seen[..3].iter().sum::<usize>() < 50 {
        if resumes {
            let _ = guest.all.does(&["suspend", "a"]);
        }
        assert_eq!(guest.all.count(), usize::from(!resumes));
        let killed = guest.kills(command, random.within(whole));
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

/// Starts a suspend that takes long, and waits until it is at work.
fn suspends(guest: &Checked) -> brisk_testkit::Running {
    let log = guest.all.state_dir("a").join("log");
    let count = || {
        let text = fs::read_to_string(&log).unwrap();
        text.matches("VM suspending").count()
    };
    let before = count();
    let run = guest.all.vm(&["suspend", "a"]).spawn();
    until("it suspends", || (count() > before).then_some(()));
    run
}

fn interrupted() {
    let mut guest = Checked::new(&["--compression", "zstd:19"]);
    for signal in [Signal::INT, Signal::TERM] {
        let run = suspends(&guest);
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

/// A small file system.
struct Mount(PathBuf);

impl Mount {
    fn new(path: PathBuf, size: &str) -> Self {
        fs::create_dir(&path).unwrap();
        let words = ["-t", "tmpfs", "-o", size, "tmpfs", path.to_str().unwrap()];
        capture(&tool("mount"), &words);
        Self(path)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        capture(&tool("umount"), &["-l", self.0.to_str().unwrap()]);
    }
}

fn targets() {
    let mut guest = Checked::new(&["--compression", "none"]);
    let small = Mount::new(guest.all.dir().join("small"), "size=8m");
    let path = small.0.join("%{name}.brisk");
    let path = path.to_str().unwrap();
    let _ = guest.all.does(&["set", "a", "--suspend-path", path]);
    guest
        .all
        .refuses(&["suspend", "a"], &["small has 8 MB free"]);
    guest.is_well();
    assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0);
    let target = small.0.to_str().unwrap();
    capture(&tool("mount"), &["-o", "remount,ro", target]);
    guest
        .all
        .refuses(&["suspend", "a"], &["a.brisk", "Read-only"]);
    guest.is_well();
    let nowhere = guest.all.dir().join("nowhere/a.brisk");
    let words = ["set", "a", "--suspend-path", nowhere.to_str().unwrap()];
    let _ = guest.all.does(&words);
    guest.all.refuses(&["suspend", "a"], &["nowhere"]);
    guest.is_well();
}
