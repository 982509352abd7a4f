//! Persistent VMs that run before their memory is loaded (postcopy).
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::Claim;
use brisk_testkit::{capture, in_memory, times, tool, trials, until};
use libtest_mimic::Arguments;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Tests with the names of their functions.
macro_rules! named {
    ($($test:ident),* $(,)?) => {
        [$((stringify!($test), $test as fn())),*]
    };
}

fn main() {
    let version = capture(&tool("qemu-system-x86_64"), &["--version"]);
    let old = ["7.", "8.", "9."]
        .iter()
        .any(|old| version.contains(&format!("version {old}")));
    let reason = if old {
        Some("QEMU before 10")
    } else if !std::path::Path::new("/dev/userfaultfd").exists() {
        Some("no /dev/userfaultfd")
    } else if !is_mount_point("/") {
        Some("/ is no mount point, so QEMU cannot have files of its own")
    } else {
        None
    };
    let tests = named![
        memory_comes_as_the_guest_asks_for_it,
        a_guest_stands_still_while_its_image_cannot_be_read,
        a_machine_that_lacks_memory_can_be_ended,
        a_file_where_the_next_image_would_be_changes_nothing,
        the_next_image_may_be_elsewhere,
        whoever_serves_is_killed_anywhere,
        a_command_that_waits_has_memory_served,
        what_was_needed_first_comes_first,
        the_rest_keeps_no_guest_from_its_work,
    ];
    let trials = trials(reason.map(str::to_owned), tests);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Whether something is mounted there, see proc_pid_mountinfo(5).
fn is_mount_point(path: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points.any(|point| point == path)
}

/// A VM whose guest has a file of random bytes in memory.
struct Machine {
    name: &'static str,
    directory: TempDir,
    /// For its memory, and for its sockets, whose paths must be short.
    memory: TempDir,
    sum: String,
}

impl Machine {
    fn new(name: &'static str) -> Self {
        Self::with(name, 100)
    }

    /// A VM with a file of `size` MiB in its memory.
    fn with(name: &'static str, size: u32) -> Self {
        let directory = TempDir::with_prefix_in("lazy-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Who serves it is found by its name, also by tests of another directory.
        let name = format!("{name}-{}", std::process::id()).leak();
        let memory = in_memory("lazy-");
        let mut machine = Self {
            name,
            directory,
            memory,
            sum: String::new(),
        };
        machine.ok(&["create", name, "--memory", "256M"]);
        machine.ok(&["start", name]);
        let fill = format!(
            "mkdir /m && mount -t tmpfs none /m && \
             dd if=/dev/urandom of=/m/x bs=1M count={size} 2>/dev/null && sha256sum /m/x"
        );
        machine.sum = machine.ok(&["exec", name, "--", "sh", "-c", &fill]);
        assert!(machine.sum.ends_with("  /m/x\n"), "{}", machine.sum);
        machine
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.command(words);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        until("brisk ends", || child.try_wait().unwrap());
        child.wait_with_output().unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let path = |name: &str| self.directory.path().join(name);
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        command
            .arg("vm")
            .args(words)
            .env("BRISK_CONFIG_DIR", path("config"))
            .env("BRISK_STATE_DIR", path("state"))
            .env("BRISK_RUNTIME_DIR", self.memory.path().join("run"))
            .env("BRISK_WARM_DIR", self.memory.path())
            .env("BRISK_CACHE_DIR", cache);
        command
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{words:?}: {error}\n{}",
            self.log()
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `brisk vm`, which must succeed with this message.
    #[track_caller]
    fn says(&self, words: &[&str], text: &str) {
        let output = self.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(text), "{words:?}: {stderr}\n{}", self.log());
    }

    fn state(&self, name: &str) -> PathBuf {
        self.directory
            .path()
            .join("state/vm")
            .join(self.name)
            .join(name)
    }

    fn image(&self, ending: &str) -> PathBuf {
        self.state(&format!("{}.brisk{ending}", self.name))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.state("log")).unwrap_or_default()
    }

    /// Waits for a line of the log with these words and returns the last one.
    fn logs(&self, words: &str) -> String {
        until(words, || {
            let log = self.log();
            let line = log.lines().rfind(|line| line.contains(words));
            line.map(str::to_owned)
        })
    }

    /// What the log says of the pages that came after so many resumes.
    fn counts(&self, resumes: usize) -> Counts {
        let words = "VM has all of its memory";
        let line = until(words, || {
            let log = self.log();
            let line = log.lines().filter(|line| line.contains(words));
            line.map(str::to_owned).nth(resumes - 1)
        });
        let numbers: Vec<u64> = line
            .split([' ', ','])
            .filter_map(|word| word.parse().ok())
            .collect();
        let [_, first, asked] = numbers[..] else {
            panic!("{line}");
        };
        Counts { first, asked }
    }

    /// Resumes it so that the guest runs at once.
    #[track_caller]
    fn runs_at_once(&self) {
        self.says(&["resume", self.name], "come as it needs them");
    }

    /// Waits until it does not need its image any more.
    #[track_caller]
    fn has_all(&self) {
        until("the image is used up", || {
            (!self.image(".resumed").exists()).then_some(())
        });
    }

    #[track_caller]
    fn is_whole(&self) {
        assert_eq!(self.ok(&self.summing()), self.sum);
    }

    /// To sum the file up, which does not take that long if its memory comes.
    fn summing(&self) -> Vec<&str> {
        let words = ["exec", "--timeout", "250s", self.name];
        [&words[..], &["--", "sha256sum", "/m/x"]].concat()
    }

    /// Makes a stretch of the image something else, and returns what was there.
    fn damage(&self) -> (u64, Vec<u8>) {
        let image = File::options()
            .read(true)
            .write(true)
            .open(self.image(""))
            .unwrap();
        // In the middle of it is the file, which is most of the memory.
        let at = image.metadata().unwrap().len() / 2;
        let mut bytes = vec![0; 1 << 20];
        image.read_exact_at(&mut bytes, at).unwrap();
        let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
        image.write_all_at(&other, at).unwrap();
        (at, bytes)
    }
}

/// Processes of brisk that resume or serve a VM, the first one first.
fn servers(name: &str) -> Vec<Pid> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let server = |entry: fs::DirEntry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = words.split(|byte| *byte == 0);
        let ours = words.any(|word| word == b"fill") && words.any(|word| word == name.as_bytes());
        ours.then(|| Pid::from_raw(number))?
    };
    let mut servers: Vec<_> = all.filter_map(server).collect();
    servers.sort_by_key(|server| server.as_raw_nonzero());
    servers
}

/// Kills so many of them, and returns how many there were.
fn kill_servers(name: &str, most: usize) -> usize {
    let servers = servers(name);
    for server in servers.iter().take(most) {
        // Fails only if it has ended meanwhile.
        let _ = kill_process(*server, Signal::KILL);
    }
    servers.len().min(most)
}

/// How many pages came because they were needed first before, and when they were asked for.
#[derive(Debug)]
struct Counts {
    first: u64,
    asked: u64,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.run(&["kill", self.name]);
    }
}

fn memory_comes_as_the_guest_asks_for_it() {
    let machine = Machine::new("lazy-asks");
    for resumes in 1..=2 {
        machine.ok(&["suspend", machine.name]);
        machine.runs_at_once();
        machine.is_whole();
        // Because it asked for them now, or did the last time.
        let counts = machine.counts(resumes);
        assert!(counts.first + counts.asked > 0, "{counts:?}");
        machine.has_all();
        // All of it, with nobody who serves pages.
        machine.is_whole();
    }
    // And what came that way can be loaded at once the next time.
    machine.ok(&["suspend", machine.name]);
    machine.says(&["resume", "--eager", machine.name], "of memory loaded");
    machine.is_whole();
}

fn a_guest_stands_still_while_its_image_cannot_be_read() {
    let machine = Machine::new("lazy-stands");
    machine.ok(&["suspend", machine.name]);
    let (at, bytes) = machine.damage();
    machine.runs_at_once();
    machine.logs("does not pass authentication");
    until("the guest stands still", || {
        let list = machine.ok(&["list"]);
        (list.contains("paused") || list.contains("busy")).then_some(())
    });
    let reason =
        || Some(machine.ok(&["info", machine.name])).filter(|it| it.contains("# reason: "));
    let info = until("info says why", reason);
    let place = format!(
        ": {} is damaged; write a good copy",
        machine.image(".resumed").display()
    );
    assert!(
        info.contains("# reason: guest memory 0x") && info.contains(&place),
        "{info}"
    );
    machine.says(
        &["suspend", machine.name],
        "cannot be suspended, as it lacks memory",
    );
    for words in [
        &["resume", machine.name][..],
        &["resume", "--eager", machine.name],
    ] {
        machine.says(words, "stands still: guest memory 0x");
    }
    let image = File::options()
        .write(true)
        .open(machine.image(".resumed"))
        .unwrap();
    image.write_all_at(&bytes, at).unwrap();
    machine.logs("VM has all of its memory");
    until("the guest goes on", || {
        machine.ok(&["list"]).contains("running").then_some(())
    });
    machine.is_whole();
    let info = machine.ok(&["info", machine.name]);
    assert!(!info.contains("# reason"), "{info}");
}

fn a_machine_that_lacks_memory_can_be_ended() {
    let machine = Machine::new("lazy-lacks");
    machine.ok(&["suspend", machine.name]);
    machine.damage();
    machine.runs_at_once();
    machine.logs("does not pass authentication");
    machine.ok(&["kill", machine.name]);
    machine.logs("VM ended before it had all of its memory");
    machine.has_all();
    assert!(machine.ok(&["list"]).contains("off"));
}

fn a_file_where_the_next_image_would_be_changes_nothing() {
    let machine = Machine::new("lazy-file");
    machine.ok(&["suspend", machine.name]);
    machine.runs_at_once();
    // The memory still comes, or has come: the same either way.
    let image = machine.image("");
    fs::write(&image, "precious").unwrap();
    let in_the_way = format!("{} exists already", image.display());
    machine.says(&["suspend", machine.name], &in_the_way);
    assert!(machine.ok(&["list"]).contains("running"));
    machine.has_all();
    machine.says(&["suspend", machine.name], &in_the_way);
    machine.is_whole();
    assert_eq!(fs::read(&image).unwrap(), b"precious");
    fs::remove_file(&image).unwrap();
    machine.ok(&["suspend", machine.name]);
    machine.runs_at_once();
    machine.is_whole();
}

/// Where it was killed: before the guest ran, when somebody else took over, and when nobody was
/// left to.
fn whoever_serves_is_killed_anywhere() {
    let machine = Machine::with("lazy-killed", 40);
    machine.ok(&["suspend", machine.name]);
    let begun = Instant::now();
    machine.ok(&["resume", machine.name]);
    machine.has_all();
    let life = begun.elapsed();
    // Where in the life of a resume, and whether once or until nobody is left.
    let points = times(16, 200) as u32;
    let mut seen = [0; 3];
    // How long a life is differs. What was not met is looked for again, but not without end.
    for point in (0..points).cycle().take(4 * points as usize) {
        if point == 0 && seen.iter().all(|count| *count > 0) {
            break;
        }
        // Closer at its start: the guest runs after a small part of it.
        let after = life * (point * point) / (points * points);
        seen[killed(&machine, after, point % 2 == 1)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    assert!(machine.log().contains("going on with that"));
}

/// Resumes it, kills who serves it after that time, once or until nobody is left, and finds it
/// whole. Where that was.
fn killed(machine: &Machine, after: Duration, all: bool) -> usize {
    machine.ok(&["suspend", machine.name]);
    let mut resume = machine.command(&["resume", machine.name]).spawn().unwrap();
    // No wait for anything: the points are all over the time it takes.
    thread::sleep(after);
    let mut killed = kill_servers(machine.name, if all { usize::MAX } else { 1 });
    while all && !servers(machine.name).is_empty() {
        killed += kill_servers(machine.name, usize::MAX);
    }
    resume.wait().unwrap();
    // A QEMU that was not ready yet ends with who was killed.
    let list = until("what it is doing is known", || {
        Some(machine.ok(&["list"])).filter(|list| !list.contains("busy"))
    });
    let suspended = list.contains("suspended");
    if suspended {
        machine.ok(&["resume", machine.name]);
    }
    machine.is_whole();
    machine.has_all();
    assert!(!machine.image("").exists());
    match (suspended, killed) {
        (true, _) => 0,
        (false, 0 | 1) => 1,
        _ => 2,
    }
}

/// Suspends and resumes it, and kills who serves it before it has all; nobody else can while the
/// claim is held.
fn lacking(machine: &Machine) -> Claim {
    until("it is left with memory missing", || {
        machine.ok(&["suspend", machine.name]);
        machine.runs_at_once();
        while !servers(machine.name).is_empty() {
            kill_servers(machine.name, usize::MAX);
        }
        Claim::inherit(&machine.image("")).unwrap()
    })
}

/// Its memory comes from where it was, whatever its definition says by then.
fn the_next_image_may_be_elsewhere() {
    let machine = Machine::with("lazy-elsewhere", 40);
    let claim = lacking(&machine);
    let next = machine.image("").with_file_name("next.brisk");
    let set = ["set", machine.name, "--suspend-path"];
    machine.ok(&[&set[..], &[next.to_str().unwrap()]].concat());
    drop(claim);
    machine.ok(&["suspend", machine.name]);
    machine.logs("going on with that");
    // What it came from is of no use there.
    let left = fs::read_dir(next.parent().unwrap()).unwrap().flatten();
    let left = left.map(|file| file.file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.contains(".brisk")).collect();
    assert_eq!(left, ["next.brisk"]);
    let away = [&set[..], &["default"]].concat();
    machine.says(&away, "would not be found elsewhere");
    machine.runs_at_once();
    machine.is_whole();
    machine.ok(&away);
    machine.ok(&["stop", machine.name]);
    assert!(!next.with_file_name("next.brisk.base-0").exists());
}

/// A process that was killed holds its claim until it has ended.
fn a_command_that_waits_has_memory_served() {
    let machine = Machine::with("lazy-waits", 40);
    let claim = lacking(&machine);
    let mut command = machine.command(&machine.summing());
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let command = command.spawn().unwrap();
    let files = PathBuf::from(format!("/proc/{}/fd", command.id()));
    until("it is past where it looks who serves", || {
        let mut files = fs::read_dir(&files).unwrap().flatten();
        let named =
            |file: fs::DirEntry| Some(fs::read_link(file.path()).ok()?.ends_with("port0.lock"));
        files.find_map(|file| named(file).filter(|found| *found))
    });
    drop(claim);
    let output = command.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        machine.sum,
        "{}",
        machine.log()
    );
    machine.logs("going on with that");
    machine.has_all();
}

fn what_was_needed_first_comes_first() {
    let machine = Machine::with("lazy-order", 40);
    // How long it waits for them is a matter of time; that they come first is not.
    let mut first = [0_u64; 2];
    for (first, resumes) in first.iter_mut().zip(1..) {
        machine.ok(&["suspend", machine.name]);
        machine.runs_at_once();
        machine.is_whole();
        *first = machine.counts(resumes).first;
        machine.has_all();
    }
    assert_eq!(first[0], 0);
    assert!(first[1] > 0, "{first:?}");
}

fn the_rest_keeps_no_guest_from_its_work() {
    let machine = Machine::new("lazy-busy");
    let work = "while :; do :; done > /dev/null 2>&1 & echo $! > /busy";
    machine.ok(&["exec", machine.name, "--", "sh", "-c", work]);
    machine.ok(&["suspend", machine.name]);
    machine.runs_at_once();
    let line = machine.logs("VM has all of its memory");
    // That it goes without anything else for a second holds on a host of any speed.
    let seconds: f64 = line.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(seconds >= 1.0, "{line}");
    machine.has_all();
    machine.ok(&["exec", machine.name, "--", "sh", "-c", "kill $(cat /busy)"]);
    machine.is_whole();
}
