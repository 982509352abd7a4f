//! Guests that wait for a command: handed over once, with an identity of their own, and gone when
//! nobody wants them.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_testkit::{
    BackgroundProcesses, Brisk, Finished, Process, Running, Signal, brisk, ext4, in_memory,
    qemu_is_before, tree, trials, until, virtiofsd_keeps_nothing,
};
use libtest_mimic::Arguments;
use tempfile::{TempDir, tempdir};

/// Where templates are, and the guests that wait.
struct Place {
    // First, so that it ends before the directory is removed.
    background: BackgroundProcesses,
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            background: BackgroundProcesses::new(),
            dir: in_memory("warm-"),
        }
    }

    fn run(&self, warm: &str) -> Brisk {
        brisk![warm, "--timing"]
            .leaving(&self.background)
            .env("BRISK_WARM_DIR", self.dir.path())
            // Longer than any test.
            .env("BRISK_READY_SECONDS", "3600")
    }

    fn bare(&self, warm: &str) -> Brisk {
        self.run(warm).args(["--root", "none"])
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let list = fs::read_dir(self.dir.path().join("v1/ready"));
        list.into_iter()
            .flatten()
            .map(|file| file.unwrap().path())
            .collect()
    }

    /// Returns when a guest waits.
    #[track_caller]
    fn has_one(&self) -> PathBuf {
        until("a guest is ready", || self.sockets().pop())
    }

    fn pool_processes(&self) -> Vec<Process> {
        let mut all = self.background.processes();
        all.retain(|process| {
            process
                .words
                .iter()
                .any(|word| word.starts_with("--pool-process"))
        });
        all
    }

    #[track_caller]
    fn is_empty(&self) {
        until("nobody is left", || {
            self.background.processes().is_empty().then_some(())
        });
        assert_eq!(self.sockets(), Vec::<PathBuf>::new());
    }
}

/// Took a guest that was ready.
#[track_caller]
fn taken(finished: Finished) -> Finished {
    let finished = finished.explains(&["ready guest taken"]);
    assert!(
        !finished.stderr.contains("QEMU executed"),
        "{}",
        finished.stderr
    );
    finished
}

fn main() {
    let arguments = Arguments::from_args();
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 9] = [
        ("streams_and_statuses_are_as_after_a_boot", streams),
        ("each_has_an_identity_and_the_time", identities),
        ("a_warm_up_leaves_nothing", warm_up),
        ("it_runs_on_a_terminal", terminal),
        ("only_ready_leaves_one_and_new_ends_it", left),
        ("who_is_killed_takes_the_guest_along", killed),
        ("it_ends_when_nobody_comes", idle),
        ("it_ends_with_its_socket", removed),
        ("an_image_is_not_held", image),
    ];
    let served: [(&str, fn()); 1] = [("served_directories_are_as_they_are_now", directories)];
    let mut all = trials(old.clone(), tests);
    all.extend(trials(old.or_else(virtiofsd_keeps_nothing), served));
    libtest_mimic::run(&arguments, all).exit();
}

fn streams() {
    let place = Place::new();
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    let input: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    place.has_one();
    let run = place.bare("--warm=ready").stdin(input.clone());
    let run = taken(run.script("cat; echo error >&2; exit 7").exits(7)).explains(&["error\n"]);
    assert_eq!(run.stdout, input);
    place.has_one();
    let run = place.bare("--warm=ready").script("kill -9 $$");
    let _ = taken(run.exits(137));
    place.has_one();
    let run = place.bare("--warm=ready").command(["/nosuch"]);
    let _ = taken(run.exits(127)).explains(&["/nosuch: command not found"]);
    place.has_one();
    let run = place.bare("--warm=ready").args(["--user", "7:7"]);
    let run = run.args(["--env", "A=b", "--workdir", "/tmp"]);
    let run = taken(run.script("busybox id -u; echo $A $PWD").exits(0));
    assert_eq!(run.text(), "7\nb /tmp\n");
    place.has_one();
    let run = place.bare("--warm=ready").args(["--timeout", "1"]);
    let _ = run.script("exec sleep 1000").exits(124);
    place.has_one();
    let mut run = place
        .bare("--warm=ready")
        .script("echo up; exec sleep 1000")
        .spawn();
    run.shows("up\n");
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
}

fn identities() {
    let place = Place::new();
    let script = "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid; \
                  busybox mktemp -u; date +%s";
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.unwrap().as_secs()
        };
        let before = now();
        let run = place.bare("--warm=ready").script(script).exits(0);
        let run = if round == 0 { run } else { taken(run) };
        let text = run.text();
        let lines: Vec<_> = text.lines().collect();
        for line in &lines[..3] {
            assert!(seen.insert((*line).to_owned()), "{line} twice");
        }
        let time: u64 = lines[3].parse().unwrap();
        assert!((before - 1..=now()).contains(&time), "{before} {time}");
        place.has_one();
    }
}

/// A warm-up changes nothing in a guest but the numbers of later processes.
fn warm_up() {
    let place = Place::new();
    // init has the other end of the command's input until the input ends.
    let script = "cat; ls /proc/1/fd; ls -a / /tmp /run; cat /proc/[0-9]*/cmdline; \
                  busybox ps -o stat | busybox grep -c Z; ls /proc/self/fd; env";
    let fresh = place.bare("--warm=ready").script(script).exits(0);
    place.has_one();
    let ready = taken(place.bare("--warm").script(script).exits(0));
    assert_eq!(ready.text(), fresh.text());
}

fn terminal() {
    let place = Place::new();
    for round in 0..2 {
        let run = place.bare("--warm=ready").script("tty; stty size");
        let (run, _window) = run.on_terminal(31, 97);
        let run = run.wait().exited(0);
        let text = run.text().replace('\r', "");
        assert!(text.contains("/dev/pts/0\n31 97\n"), "{round}: {text}");
        let pool_process = until("a pool process", || place.pool_processes().pop());
        assert!(
            pool_process
                .words
                .contains(&"--pool-process=terminal".to_owned())
        );
        place.has_one();
    }
    // It is one for commands on pipes, too.
    let run = taken(place.bare("--warm").script("echo well").exits(0));
    assert_eq!(run.text(), "well\n");
}

fn left() {
    let place = Place::new();
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    place.has_one();
    // Another guest than that.
    let other = place.bare("--warm").args(["--append", "brisk.test=1"]);
    let other = other.command(["true"]).exits(0);
    assert!(!other.stderr.contains("ready guest taken"));
    place.has_one();
    let _ = taken(place.bare("--warm").command(["true"]).exits(0));
    place.is_empty();
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    place.has_one();
    let run = place.bare("--warm=new").command(["true"]).exits(0);
    assert!(!run.stderr.contains("ready guest taken"));
    place.is_empty();
    let run = place
        .bare("--warm=ready")
        .env("BRISK_READY_SECONDS", "soon");
    let _ = run
        .command(["true"])
        .exits(125)
        .explains(&["BRISK_READY_SECONDS is soon", "number of seconds"]);
}

fn killed() {
    let place = Place::new();
    let held = |place: &Place| -> Running {
        let _ = place.bare("--warm=ready").command(["true"]).exits(0);
        place.has_one();
        let run = place.bare("--warm").script("echo up; exec sleep 1000");
        let mut run = run.spawn();
        run.shows("up\n");
        run
    };
    // The run: its pool process ends QEMU, which may be stuck.
    let run = held(&place);
    let machines = place.background.processes();
    let machine = machines.iter().find(|one| one.name().starts_with("qemu"));
    machine.unwrap().signal(Signal::STOP);
    run.signal(Signal::KILL);
    let _ = run.wait();
    place.is_empty();
    // The pool process: QEMU dies with it, and the run shows that.
    let run = held(&place);
    place.pool_processes().pop().unwrap().signal(Signal::KILL);
    let _ = run.wait().exited(120).explains(&["QEMU ended"]);
    place.is_empty();
    // The pool process of a guest that waits: the next run goes without, and clears up.
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    let socket = place.has_one();
    place.pool_processes().pop().unwrap().signal(Signal::KILL);
    until("its QEMU is gone", || {
        place.background.processes().is_empty().then_some(())
    });
    assert!(socket.exists());
    let run = place.bare("--warm").script("echo well").exits(0);
    assert_eq!(run.explains(&["guest resumed"]).text(), "well\n");
    place.is_empty();
    // A pool process ends at SIGTERM.
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    place.has_one();
    place.pool_processes().pop().unwrap().signal(Signal::TERM);
    place.is_empty();
}

fn idle() {
    let place = Place::new();
    let run = place.bare("--warm=ready").env("BRISK_READY_SECONDS", "1");
    let _ = run.command(["true"]).exits(0);
    place.is_empty();
    // There was one.
    assert!(place.dir.path().join("v1/ready").is_dir());
}

fn removed() {
    let place = Place::new();
    let _ = place.bare("--warm=ready").command(["true"]).exits(0);
    fs::remove_file(place.has_one()).unwrap();
    place.is_empty();
}

fn image() {
    let place = Place::new();
    let home = tempdir().unwrap();
    let (dir, image) = (home.path().join("tree"), home.path().join("image"));
    tree(&dir);
    ext4(&dir, &image);
    for _ in 0..2 {
        let run = place.run("--warm=ready").arg("--root").arg(&image);
        let run = run.command(["true"]).exits(0);
        let _ = run.explains(&["guest resumed", "leaves no guest on an image"]);
        place.is_empty();
    }
}

fn directories() {
    let place = Place::new();
    let home = tempdir().unwrap();
    let [root, share] = ["root", "share"].map(|name| home.path().join(name));
    tree(&root);
    fs::create_dir(&share).unwrap();
    let shared = format!("{}:/mnt", share.display());
    let run = || {
        let run = place
            .run("--warm=ready")
            .args(["--share", &shared, "--root"]);
        run.arg(&root)
            .script("cat /etc/origin /mnt/file; echo $$ >> /mnt/said")
            .exits(0)
    };
    fs::write(share.join("file"), "first\n").unwrap();
    assert_eq!(run().text(), "the test's tree\nfirst\n");
    place.has_one();
    fs::write(root.join("etc/origin"), "changed since\n").unwrap();
    fs::remove_file(share.join("file")).unwrap();
    fs::write(share.join("file"), "second\n").unwrap();
    assert_eq!(taken(run()).text(), "changed since\nsecond\n");
    let lines = fs::read_to_string(share.join("said")).unwrap();
    assert_eq!(lines.lines().count(), 2);
}
