//! Guests that go on from one that booted before: the same behaviour, a life of their own.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_testkit::{
    Brisk, Finished, Running, Signal, brisk, capture, ext4, in_memory, qemu_is_before, times, tool,
    tree, trial, trials, until, virtiofsd_keeps_nothing,
};
use libtest_mimic::Arguments;
use tempfile::{TempDir, tempdir};

/// A place for templates.
struct Store(TempDir);

impl Store {
    fn new() -> Self {
        Self(in_memory("warm-"))
    }

    fn run(&self) -> Brisk {
        self.run_with("--warm")
    }

    fn run_with(&self, warm: &str) -> Brisk {
        brisk![warm, "--timing"].env("BRISK_WARM_DIR", self.0.path())
    }

    /// Names of all files, whole templates and others.
    fn files(&self) -> Vec<String> {
        let list = fs::read_dir(self.0.path().join("v1/warm"));
        let names = list
            .into_iter()
            .flatten()
            .map(|file| file.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn templates(&self) -> BTreeSet<String> {
        self.files()
            .into_iter()
            .filter(|name| !name.contains('.'))
            .collect()
    }
}

/// Goes on from a template, and that took no boot.
#[track_caller]
fn resumed(finished: Finished) -> Finished {
    let finished = finished.explains(&["guest resumed"]);
    assert!(
        !finished.stderr.contains("kernel entry"),
        "{}",
        finished.stderr
    );
    finished
}

fn main() {
    let arguments = Arguments::from_args();
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 10] = [
        ("places_that_are_not_private_memory_are_refused", places),
        ("streams_and_statuses_are_as_after_a_boot", streams),
        ("guests_at_once_have_an_identity_each", identities),
        ("the_clock_is_right", clock),
        ("what_one_guest_writes_no_other_sees", apart),
        ("other_options_are_another_template", options),
        ("every_machine_type_goes_on", machines),
        ("an_image_that_changed_boots_again", image),
        ("ctrl_c_while_booting_leaves_nothing", interrupted),
        (
            "a_template_that_is_damaged_is_an_error_and_new_mends_it",
            damaged,
        ),
    ];
    let boots: fn() = if old.is_some() { self::old } else { written };
    let served: [(&str, fn()); 3] = [
        ("the_hosts_root_is_there", hosts_root),
        ("served_directories_are_as_they_are_now", directories),
        ("a_shell_that_was_replaced_is_the_new_one", replaced),
    ];
    let mut all = trials(old.clone(), tests);
    all.extend(trials(old.or_else(virtiofsd_keeps_nothing), served));
    let name = "what_cannot_go_on_boots_and_says_why";
    all.push(trial(name, None::<String>, boots));
    libtest_mimic::run(&arguments, all).exit();
}

fn streams() {
    let store = Store::new();
    let script = "cat; echo error >&2; exit 7";
    for _ in 0..2 {
        let input: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let run = store.run().args(["--root", "none"]).stdin(input.clone());
        let run = resumed(run.script(script).exits(7)).explains(&["error\n"]);
        assert_eq!(run.stdout, input);
    }
    assert_eq!(store.templates().len(), 1);
    let run = store.run().args(["--root", "none"]).script("kill -9 $$");
    resumed(run.exits(137));
    let run = store.run().args(["--root", "none"]).command(["/nosuch"]);
    resumed(run.exits(127)).explains(&["/nosuch: command not found"]);
    // The process that it runs in was there before; what it does there is its own all the same.
    let script = "cd /tmp; echo $(busybox readlink /proc/1/cwd) $PWD $PPID";
    let run = store.run().args(["--root", "none"]).script(script);
    assert_eq!(resumed(run.exits(0)).text(), "/ /tmp 1\n");
    let run = store.run().args(["--root", "none", "--user", "7:7"]);
    assert_eq!(resumed(run.script("busybox id -u").exits(0)).text(), "7\n");
    let mut run = store
        .run()
        .args(["--root", "none"])
        .script("echo up; exec sleep 1000")
        .spawn();
    run.shows("up\n");
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
}

/// So many at once.
const CLONES: usize = 20;

fn identities() {
    let store = Store::new();
    let script = "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid; \
                  busybox mktemp -u; \
                  head -c 16 /dev/urandom | busybox hexdump -e '16/1 \"%02x\" \"\\n\"'; \
                  echo up; cat";
    let mut seen = BTreeSet::new();
    for _ in 0..times(1, 10) {
        // The first makes the template; the others wait for it. All are there until the last one is.
        let mut all: Vec<_> = (0..CLONES)
            .map(|_| store.run().args(["--root", "none"]).crowding())
            .map(|run| run.script(script).stdin_held().spawn())
            .collect();
        all.iter_mut().for_each(|run| run.shows("up\n"));
        all.iter_mut().for_each(Running::close_stdin);
        for run in all {
            let finished = resumed(run.wait().exited(0));
            let lines: Vec<_> = finished.text().lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), 5, "{lines:?}");
            for line in &lines[..4] {
                assert!(seen.insert(line.clone()), "{line} twice");
            }
        }
    }
    assert_eq!(store.templates().len(), 1);
}

fn clock() {
    let store = Store::new();
    let run = || {
        store
            .run()
            .args(["--root", "none"])
            .command(["date", "+%s"])
    };
    let _ = run().exits(0);
    let before = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let time: u64 = resumed(run().exits(0)).text().trim().parse().unwrap();
    let after = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    // Set when the guest goes on: at most what a second is cut to is missing.
    assert!(
        (before - 1..=after).contains(&time),
        "{before} {time} {after}"
    );
}

fn apart() {
    let store = Store::new();
    let script = "ls /tmp; echo mine > /tmp/file; busybox free >/dev/null; cat /tmp/file";
    for _ in 0..3 {
        let run = store.run().args(["--root", "none"]).script(script);
        assert_eq!(resumed(run.exits(0)).text(), "mine\n");
    }
}

fn options() {
    let store = Store::new();
    let run = |words: &[&str]| {
        let run = store.run().args(["--root", "none"]).args(words);
        resumed(run.command(["cat", "/proc/cmdline"]).exits(0)).text()
    };
    assert!(!run(&[]).contains("brisk.test"));
    assert!(run(&["--append", "brisk.test=1"]).contains("brisk.test=1"));
    assert!(!run(&[]).contains("brisk.test"));
    assert_eq!(store.templates().len(), 2);
    // No more than four are kept, those used last.
    let first = store.templates();
    for index in 0..3 {
        run(&["--append", &format!("brisk.more={index}")]);
        run(&[]);
    }
    let kept = store.templates();
    assert_eq!(kept.len(), 4);
    assert_eq!(kept.intersection(&first).count(), 1);
}

fn machines() {
    let store = Store::new();
    for words in [
        &["--machine", "microvm"][..],
        &["--machine", "q35"],
        &["--machine", "pc", "--cpus", "2"],
        &["--net", "user"],
    ] {
        let script = "busybox sleep 0.01; busybox grep -c ^processor /proc/cpuinfo";
        let run = store
            .run()
            .args(["--root", "none"])
            .args(words)
            .script(script);
        let cpus = if words.contains(&"2") { "2\n" } else { "1\n" };
        assert_eq!(resumed(run.exits(0)).text(), cpus, "{words:?}");
    }
}

fn image() {
    let store = Store::new();
    let home = tempdir().unwrap();
    let (dir, image) = (home.path().join("tree"), home.path().join("image"));
    tree(&dir);
    let run = |image: &Path| {
        let run = store.run().arg("--root").arg(image);
        let run = run.script("cat /etc/origin; touch /srv/new; ls /srv");
        resumed(run.exits(0)).text()
    };
    ext4(&dir, &image);
    for _ in 0..2 {
        assert_eq!(run(&image), "the test's tree\nnew\n");
    }
    assert_eq!(store.templates().len(), 1);
    fs::write(dir.join("etc/origin"), "another tree\n").unwrap();
    fs::remove_file(&image).unwrap();
    ext4(&dir, &image);
    assert_eq!(run(&image), "another tree\nnew\n");
}

fn interrupted() {
    let store = Store::new();
    // The processor is never started.
    let run = store.run().args(["--root", "none", "--qemu-arg=-S"]);
    let run = run.command(["true"]).spawn();
    run.process("qemu-system");
    until("the template is being made", || {
        store
            .files()
            .iter()
            .any(|name| name.ends_with(".tmp"))
            .then_some(())
    });
    run.signal(Signal::INT);
    let _ = run.wait().exited(130);
    let left: Vec<_> = store
        .files()
        .into_iter()
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn damaged() {
    let store = Store::new();
    let run = |warm| {
        store
            .run_with(warm)
            .args(["--root", "none"])
            .command(["echo", "well"])
    };
    let _ = run("--warm").exits(0);
    let template = store
        .0
        .path()
        .join("v1/warm")
        .join(store.templates().first().unwrap());
    let size = fs::metadata(&template).unwrap().len();
    let state = size - size / (1 << 20) * (1 << 20);
    fs::set_permissions(&template, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(&template).unwrap();
    let start = bytes.len() - state as usize;
    bytes[start..].fill(0);
    fs::write(&template, bytes).unwrap();
    let _ = run("--warm")
        .exits(120)
        .explains(&["QEMU ended before the command did", "--warm=new"]);
    for warm in ["--warm=new", "--warm"] {
        assert_eq!(resumed(run(warm).exits(0)).text(), "well\n");
    }
}

fn places() {
    let run = |dir: &Path| {
        let run = brisk!["--warm", "--root", "none"].env("BRISK_WARM_DIR", dir);
        run.command(["true"]).exits(125)
    };
    let disk = tempdir().unwrap();
    let open = in_memory("warm-");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let _ = run(open.path()).explains(&["others can reach it", "set BRISK_WARM_DIR"]);
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let on_disk = capture(
        &tool("stat"),
        &["-f", "-c", "%T", disk.path().to_str().unwrap()],
    );
    if on_disk.trim() != "tmpfs" {
        let _ = run(disk.path()).explains(&["not in memory (tmpfs)"]);
    }
    let _ =
        run(Path::new("/nonexistent/dir")).explains(&["cannot keep guests in /nonexistent/dir"]);
}

fn hosts_root() {
    let store = Store::new();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    for _ in 0..2 {
        let run = store.run().args(["--root", "host"]);
        let run = run.script("cat /etc/passwd; echo gone > /etc/passwd");
        assert_eq!(resumed(run.exits(0)).text(), passwd);
    }
    assert_eq!(fs::read_to_string("/etc/passwd").unwrap(), passwd);
    assert_eq!(store.templates().len(), 1);
}

/// A restored guest sees directories as they are now, not as they were when its template was made.
fn directories() {
    let store = Store::new();
    let home = tempdir().unwrap();
    let [root, share] = ["root", "share"].map(|name| home.path().join(name));
    tree(&root);
    fs::create_dir(&share).unwrap();
    fs::write(share.join("file"), "first\n").unwrap();
    let shared = format!("{}:/mnt", share.display());
    let run = |root: &Path| {
        let run = store.run().args(["--share", &shared, "--root"]).arg(root);
        run.script("cat /etc/origin /mnt/file; ls /srv; echo $$ >> /mnt/said; echo up; cat")
    };
    let finished = resumed(run(&root).exits(0));
    assert_eq!(finished.text(), "the test's tree\nfirst\nup\n");
    fs::write(root.join("etc/origin"), "changed since\n").unwrap();
    fs::write(root.join("srv/new"), "").unwrap();
    fs::remove_dir_all(root.join("home")).unwrap();
    fs::remove_file(share.join("file")).unwrap();
    fs::write(share.join("file"), "second\n").unwrap();
    // Two at once, each with servers of its own.
    let mut all = [(); 2].map(|()| run(&root).crowding().stdin_held().spawn());
    all.iter_mut()
        .for_each(|run| run.shows("changed since\nsecond\nnew\nup\n"));
    all.iter_mut().for_each(Running::close_stdin);
    for run in all {
        let _ = resumed(run.wait().exited(0));
    }
    let lines = fs::read_to_string(share.join("said")).unwrap();
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(store.templates().len(), 1);
    // Another directory is another guest.
    let other = home.path().join("other");
    tree(&other);
    let finished = resumed(run(&other).exits(0));
    assert_eq!(finished.text(), "the test's tree\nsecond\nup\n");
    assert_eq!(store.templates().len(), 2);
}

/// The guest that was kept has read its shell, so it is of no use when there is another one.
fn replaced() {
    let store = Store::new();
    let root = tempdir().unwrap();
    tree(root.path());
    let shell = root.path().join("bin/sh");
    let bytes = || fs::metadata(&shell).unwrap().len();
    let seen = || {
        let run = store.run().arg("--root").arg(root.path());
        let text = resumed(run.script("wc -c < /bin/sh").exits(0)).text();
        text.trim().parse::<u64>().unwrap()
    };
    assert_eq!(seen(), bytes());
    fs::write(root.path().join("bin/new"), "").unwrap();
    assert_eq!(seen(), bytes());
    assert_eq!(store.templates().len(), 1);

    let other = root.path().join("other");
    let before = fs::copy(&shell, &other).unwrap();
    let mut file = fs::File::options().append(true).open(&other).unwrap();
    file.write_all(b"more").unwrap();
    drop(file);
    fs::rename(&other, &shell).unwrap();
    assert_eq!((seen(), bytes()), (before + 4, before + 4));
    assert_eq!(store.templates().len(), 2);
}

fn written() {
    let store = Store::new();
    let home = tempdir().unwrap();
    tree(home.path());
    let run = store.run().args(["--rw", "--root"]).arg(home.path());
    let run = run.command(["echo", "booted"]).exits(0).explains(&[
        "--warm boots this guest",
        "--rw",
        "kernel entry",
    ]);
    assert_eq!(run.text(), "booted\n");
    assert!(store.templates().is_empty());
}

fn old() {
    let store = Store::new();
    let run = store
        .run()
        .args(["--root", "none"])
        .command(["echo", "booted"]);
    let run = run
        .exits(0)
        .explains(&["--warm boots this guest", "8.2", "kernel entry"]);
    assert_eq!(run.text(), "booted\n");
}
