//! Kinds of targets, each with a real one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

mod domains;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_host::cgroup::Group;
use brisk_testkit::{
    Brisk, Machines, Mount, Signal, brisk_of, capture, missing, not_root, samples, tool, trial,
    trials, until,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn main() {
    let plain: [(_, fn()); 9] = [
        (
            "a_qemu_ends_with_a_brisk_that_is_killed",
            a_qemu_ends_with_a_brisk_that_is_killed,
        ),
        (
            "files_without_an_end_are_refused",
            files_without_an_end_are_refused,
        ),
        (
            "an_interrupt_of_packing_leaves_nothing",
            an_interrupt_of_packing_leaves_nothing,
        ),
        (
            "an_engine_that_hangs_is_not_waited_for",
            an_engine_that_hangs_is_not_waited_for,
        ),
        (
            "targets_of_a_file_are_measured",
            targets_of_a_file_are_measured,
        ),
        (
            "any_qemu_is_logged_in_to_and_counted",
            any_qemu_is_logged_in_to_and_counted,
        ),
        (
            "what_fixes_of_a_command_line_are_worth_is_measured",
            what_fixes_of_a_command_line_are_worth_is_measured,
        ),
        ("a_target_says_what_it_lacks", a_target_says_what_it_lacks),
        (
            "a_vm_that_runs_is_counted_and_left_as_it_was",
            a_vm_that_runs_is_counted_and_left_as_it_was,
        ),
    ];
    let mut all = trials(None, plain);
    let of =
        |name: &str, program: &str, test: fn()| -> Trial { trial(name, missing(program), test) };
    all.extend([
        of("runc_sees_all_mounts_read_only", "runc", || {
            all_mounts_are_seen_read_only("runc:");
        }),
        of("gvisor_sees_all_mounts_read_only", "runsc", || {
            all_mounts_are_seen_read_only("gvisor:");
        }),
        of(
            "gvisor_is_counted_on_the_host",
            "runsc",
            gvisor_is_counted_on_the_host,
        ),
        of(
            "a_container_of_podman_is_counted_and_removed",
            "podman",
            a_container_of_podman_is_counted_and_removed,
        ),
    ]);
    all.extend(domains::trials());
    all.push(trial(
        "nothing_is_removed_where_no_work_directory_can_be_made",
        not_root(),
        nothing_is_removed_where_no_work_directory_can_be_made,
    ));
    all.push(trial(
        "what_the_work_has_mounted_is_not_removed",
        not_root(),
        what_the_work_has_mounted_is_not_removed,
    ));
    all.push(trial(
        "what_works_in_the_background_ends_without_groups",
        not_root(),
        what_works_in_the_background_ends_without_groups,
    ));
    // One after another: each measures on one processor.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// A report of one round of a command in targets.
struct Measured {
    report: Value,
    _directory: TempDir,
}

/// `brisk overhead run` of a command in one round.
fn overhead(directory: &Path, command: &str) -> Brisk {
    brisk_of![
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=1",
        "--workload=command"
    ]
    .arg("--output")
    .arg(directory.join("report.json"))
    .arg(format!("--command={command}"))
}

fn measure(command: &str, words: &[&str]) -> Measured {
    measure_with(|brisk| brisk, command, words)
}

/// `with` says where the command finds what it measures.
fn measure_with(with: impl Fn(Brisk) -> Brisk, command: &str, words: &[&str]) -> Measured {
    let directory = tempdir().unwrap();
    with(overhead(directory.path(), command).args(words)).exits(0);
    let report = fs::read(directory.path().join("report.json")).unwrap();
    Measured {
        report: serde_json::from_slice(&report).unwrap(),
        _directory: directory,
    }
}

impl Measured {
    /// Samples of a target in a metric: the warm-up and the one that counts.
    fn samples(&self, target: &str, metric: &str) -> Vec<Value> {
        samples(&self.report, target, metric)
    }

    /// Value of the run that counts. A run that failed shows its reason.
    #[track_caller]
    fn value(&self, target: &str, metric: &str) -> f64 {
        let samples = self.samples(target, metric);
        let last = samples.last().unwrap_or(&Value::Null);
        last["value"]
            .as_f64()
            .unwrap_or_else(|| panic!("{target}: {metric}: {last}"))
    }

    fn fact(&self, name: &str) -> &str {
        let facts = &self.report["environment"]["extra"];
        facts[name].as_str().unwrap_or_default()
    }
}

/// A loop of a shell that takes a while everywhere.
const LOOP: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";

/// The CPU time of a target is nearly all of its time, as that of a loop is.
#[track_caller]
fn is_counted(measured: &Measured, target: &str) {
    let (cpu, time) = (
        measured.value(target, "CPU of the host"),
        measured.value(target, "time"),
    );
    let waiting = measured.samples(target, "waiting");
    let waiting = waiting.last().and_then(|sample| sample["value"].as_f64());
    let rest = measured.value(target, "rest");
    // What other programs had is in `waiting`, or in `rest` where that is not counted.
    let other = waiting.unwrap_or_default() + rest.max(0.0);
    assert!(
        cpu > 0.0 && cpu <= time * 1.05 + 0.02 && cpu + other >= time * 0.5,
        "{target}: {cpu} of {time}, {waiting:?}, {rest}"
    );
}

fn all_mounts_are_seen_read_only(kind: &str) {
    let dir = TempDir::with_prefix_in("brisk-mounts-", "/var/tmp").unwrap();
    let mount = Mount::tmpfs(dir.path().join("one two"), "size=1m");
    fs::write(mount.path().join("file"), "seen").unwrap();
    let file = mount.path().join("file").display().to_string();
    // In the container only, a file on that mount cannot be made, nor one elsewhere.
    let command = format!(
        "grep -q seen '{file}' || exit 3; [ $(uname -n) = brisk ] || exit 0; \
         if echo >'{file}.new'; then exit 4; fi; if echo >/var/tmp/brisk-new; then exit 5; fi"
    );
    let measured = measure(&command, &["--target", &format!("x={kind}")]);
    assert!(measured.value("x", "time") > 0.0);
    assert_eq!(mount.names(), ["file"]);
}

fn gvisor_is_counted_on_the_host() {
    let measured = measure(LOOP, &["--target=x=gvisor:ptrace"]);
    is_counted(&measured, "x");
    // Its own kernel answers.
    assert_ne!(measured.fact("x: kernel"), measured.fact("host: kernel"));
    assert_eq!(measured.fact("x: cpus"), "1");
}

/// Names of the files below a directory of podman, in which each container has one.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.len() == 64).collect()
}

fn a_container_of_podman_is_counted_and_removed() {
    let dir = tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(tool("busybox"), root.join("bin/busybox")).unwrap();
    let tools = "sh nproc uname stat cat head tar mkdir rm tail true";
    for name in tools.split(' ') {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    let image = dir.path().join("image.tar");
    let (root, image) = (root.to_str().unwrap(), image.to_str().unwrap());
    capture(&tool("tar"), &["-C", root, "-cf", image, "."]);
    // Images and containers of the test's own.
    let storage = dir.path().join("storage.conf");
    let (graph, run) = (dir.path().join("graph"), dir.path().join("run"));
    let text = format!(
        "[storage]\ndriver = \"vfs\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
        graph.display(),
        run.display()
    );
    fs::write(&storage, text).unwrap();
    let mut import = Command::new("podman");
    import.env("CONTAINERS_STORAGE_CONF", &storage);
    let import = import.args(["import", image, "local:1"]).output().unwrap();
    assert!(import.status.success(), "{import:?}");
    let with = |brisk: Brisk| brisk.env("CONTAINERS_STORAGE_CONF", &storage);
    // Where root may not raise limits, podman's default ones are refused.
    let limits = "--ulimit nofile=1000:1000 --ulimit nproc=1000:1000 --network none";
    let target = format!("x=podman:{limits} localhost/local:1");
    let measured = measure_with(with, LOOP, &["--target", &target]);
    is_counted(&measured, "x");
    assert_eq!(measured.fact("x: cpus"), "1");
    // After an interrupt nothing is left of it.
    let words = ["--target", &*target];
    let command = "[ -e /bin/bash ] || exec sleep 4321";
    let running = with(overhead(dir.path(), command).args(words)).spawn();
    let containers = graph.join("vfs-containers");
    until("there is a container", || {
        (!names(&containers).is_empty()).then_some(())
    });
    running.signal(Signal::INT);
    running.wait().exited(130);
    assert_eq!(names(&containers), [""; 0]);
}

/// Processors that each thread of a process may run on.
fn allowed(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut all: Vec<_> = tasks
        .map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = text.lines().find(|line| line.starts_with("Cpus_allowed:"));
            line.unwrap().to_owned()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn a_vm_that_runs_is_counted_and_left_as_it_was() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    all.does(&["create", "a", "--memory=128M"]);
    let dir = tempdir().unwrap();
    let run = |target: &str| all.with(overhead(dir.path(), "true").args(["--target", target]));
    run("x=vm:b")
        .exits(125)
        .explains(&["target x: there is no VM b"]);
    run("x=vm:a").exits(125).explains(&["brisk vm start a"]);
    all.does(&["start", "a"]);
    let qemu = all.processes("qemu")[0].pid;
    let before = allowed(qemu);
    // Threads of QEMU are on one processor in the meantime.
    let command = format!(
        "{LOOP}; ! [ -e /proc/{qemu}/task/{qemu}/status ] || \
         grep -h Cpus_allowed: /proc/{qemu}/task/*/status >{}/allowed",
        dir.path().display()
    );
    let measured = measure_with(|brisk| all.with(brisk), &command, &["--target=x=vm:a"]);
    is_counted(&measured, "x");
    assert_ne!(measured.fact("x: accelerators"), "");
    let meanwhile = fs::read_to_string(dir.path().join("allowed")).unwrap();
    let ones = meanwhile.lines().map(|line| {
        let mask = line.split_whitespace().last().unwrap().replace(',', "");
        u128::from_str_radix(&mask, 16).unwrap().count_ones()
    });
    assert!(ones.clone().count() > 1 && ones.clone().all(|ones| ones == 1));
    assert_eq!(allowed(qemu), before);
    assert_eq!(all.output("a", "ls -A /tmp"), "");
    all.does(&["kill", "a"]);
}

fn kernel() -> PathBuf {
    let kernels = fs::read_dir("/boot").unwrap();
    let paths = kernels.map(|entry| entry.unwrap().path());
    let kernels = paths.filter(|path| path.display().to_string().contains("/vmlinuz-"));
    kernels.max().unwrap()
}

/// An initramfs with the programs of busybox, `/etc/passwd` with root, who has no password, and the
/// script `init`; `more` adds to the tree, whose path is its directory.
fn initramfs(directory: &Path, init: &str, more: &str) -> PathBuf {
    let script = r#"
set -e
mkdir -p "$1/bin" "$1/etc" "$1/dev" "$1/proc" "$1/root" "$1/tmp"
cp "$BUSYBOX" "$1/bin/busybox"
cd "$1"
for name in $(bin/busybox --list); do [ -e "bin/$name" ] || ln -s busybox "bin/$name"; done
echo 'root::0:0:root:/root:/bin/sh' >etc/passwd
printf '%s' "$INIT" >init
chmod 755 init
eval "$MORE"
find . | bin/busybox cpio -o -H newc >../initramfs
"#;
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(directory.join("tree"))
        .env("BUSYBOX", tool("busybox"))
        .env("INIT", init)
        .env("MORE", more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    directory.join("initramfs")
}

/// An initramfs with a login prompt on the serial port, for root without a password.
fn login_initramfs(directory: &Path) -> PathBuf {
    let init = "#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
while :; do setsid getty 0 ttyS0 vt100; done
";
    initramfs(directory, init, "")
}

/// A guest with a login prompt on its serial port, as options of QEMU.
fn with_login(directory: &Path) -> String {
    format!(
        "-accel tcg -m 256M -nographic -append console=ttyS0 -kernel {} -initrd {}",
        kernel().display(),
        login_initramfs(directory).display()
    )
}

fn what_fixes_of_a_command_line_are_worth_is_measured() {
    let dir = tempdir().unwrap();
    let disk = dir.path().join("disk.raw");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let target = format!(
        "x=qemu:qemu-system-x86_64 {} -drive file={},if=virtio,format=raw,cache=unsafe",
        with_login(dir.path()),
        disk.display()
    );
    let run = overhead(dir.path(), LOOP).args(["--timeout=100s", "--ablate=fix", "--target"]);
    let text = run.arg(&target).exits(0).text();
    let note = text.lines().find(|line| line.ends_with("[unsafe-cache]"));
    assert!(note.unwrap().starts_with("Note: x: with caveat"), "{text}");
    let changed = text.split("one thing changed").nth(1).unwrap();
    let line = changed
        .lines()
        .find(|line| line.starts_with("x with its fixes"));
    let ratio = line.unwrap().split_whitespace().nth(4).unwrap();
    let ratio: f64 = ratio.parse().unwrap();
    // What the disk's cache is worth to a loop without a disk.
    assert!((0.2..5.0).contains(&ratio), "{text}");
}

fn any_qemu_is_logged_in_to_and_counted() {
    let dir = tempdir().unwrap();
    let target = format!("x=qemu:qemu-system-x86_64 {}", with_login(dir.path()));
    // What comes to no prompt says so before the test is given up.
    let measured = measure(LOOP, &["--timeout=100s", "--target", &target]);
    is_counted(&measured, "x");
    assert_eq!(measured.fact("x: cpus"), "1");
    assert_eq!(measured.fact("x: accelerators"), "tcg");
    let refused = |line: &str, text: &str| {
        let target = format!("x=qemu:{line}");
        let run = overhead(dir.path(), "true").args(["--target", &target]);
        run.exits(125).explains(&["target x: ", text]);
    };
    refused("qemu-system-x86_64 -daemonize", "take it out");
    refused("qemu-system-none -m 1G", "qemu-system-none");
}

fn targets_of_a_file_are_measured() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("targets.toml");
    let path = file.to_str().unwrap();
    let entry = "[[target]]\nname = 'kind'\nkind = 'command'\narguments = ['env', 'X=1 2']\n";
    fs::write(&file, entry).unwrap();
    // It gets the words as they are in the file.
    let command = "[ -z \"$X\" ] || [ \"$X\" = '1 2' ]";
    let words = ["--targets", path, "--target=second=host"];
    let measured = measure(command, &words);
    assert!(measured.value("kind", "time") > 0.0);
    assert!(measured.value("second", "time") > 0.0);
    assert_eq!(measured.fact("target kind"), "command:env 'X=1 2'");
    let refused = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        let run = overhead(dir.path(), "true").args(["--targets", path]);
        run.exits(125).explains(&[path, expected]);
    };
    refused(&format!("{entry}prefix = 'env'\n"), "line 5");
    refused(
        &entry.replace("command'", "xen'"),
        "line 1: xen: no such kind",
    );
}

fn a_target_says_what_it_lacks() {
    let dir = tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let (target, package) = ("x=gvisor:", "runsc");
    let lacks = overhead(dir.path(), "true").args(["--target", target]);
    let lacks = lacks.env("PATH", &nowhere).env("HOME", &nowhere);
    lacks.exits(125).explains(&[
        "target x: there is no",
        &format!("apt-get install {package}"),
    ]);
}

fn nothing_is_removed_where_no_work_directory_can_be_made() {
    let dir = tempdir().unwrap();
    // A work directory has a directory of this name.
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("file"), "mine").unwrap();
    let log = dir.path().join("log");
    let command = format!("pwd >>{}", log.display());
    let target = |name: &str, places: &str| {
        format!(
            "{name}=command:env NAME={name} unshare --mount sh -c 'for p in {places}; do mount -t \
             tmpfs -o ro tmpfs $p || exit; done; exec \"$@\"' sh"
        )
    };
    let words = [
        "--target",
        &target("second", "/dev/shm"),
        "--target",
        &target("none", "/dev/shm /tmp"),
    ];
    let in_it = |brisk: Brisk| brisk.current_dir(dir.path()).env("TMPDIR", "/tmp");
    let command = format!("[ -z \"$NAME\" ] || {command}");
    let measured = measure_with(in_it, &command, &words);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "mine");
    assert!(!Path::new("/out").exists());
    assert!(measured.value("second", "time") > 0.0);
    let samples = measured.samples("none", "time");
    let reason = samples[0]["reason"].as_str().unwrap_or_default();
    let expected = "no work directory can be made in /dev/shm or /tmp";
    assert!(reason.contains(expected), "{reason}");
    let places = fs::read_to_string(log).unwrap();
    for place in places.lines() {
        assert!(place.starts_with("/tmp/brisk-overhead-"), "{place}");
        assert!(!Path::new(place).exists(), "{place} was left");
    }
    assert_eq!(places.lines().count(), 2);
}

fn what_the_work_has_mounted_is_not_removed() {
    let dir = tempdir().unwrap();
    let mine = dir.path().join("mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("file"), "mine").unwrap();
    let log = dir.path().join("log");
    // The first run mounts a directory of the user's, and the second finds it there. The target
    // that is killed does not remove anything by itself.
    let command = format!(
        "[ -n \"$NAME\" ] || exit 0; pwd >>{}; mkdir -p out/x && mount --bind {} out/x || exit; [ \
         $NAME = ends ] || kill -KILL $PPID",
        log.display(),
        mine.display()
    );
    let words = [
        "--target=ends=command:env NAME=ends",
        "--target=killed=command:env NAME=killed",
    ];
    let measured = measure(&command, &words);
    assert_eq!(fs::read_to_string(mine.join("file")).unwrap(), "mine");
    let samples = measured.samples("ends", "time");
    let reason = samples[1]["reason"].as_str().unwrap();
    let expected = "out/x is mounted; have the command unmount it";
    assert!(reason.contains(expected), "{reason}");
    let places = fs::read_to_string(log).unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    for place in places.lines() {
        assert!(!Path::new(place).exists(), "{place} was left");
        assert!(!mounts.contains(place), "{place} is still mounted");
    }
    assert!(places.lines().count() >= 2, "{places}");
}

fn an_engine_that_hangs_is_not_waited_for() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    let podman = dir.path().join("podman");
    let text = format!(
        "#!/bin/sh\ncase $1 in run) exec sh;; inspect) exec sleep 4321;; rm) echo $3 >>{};; esac\n",
        log.display()
    );
    fs::write(&podman, text).unwrap();
    fs::set_permissions(&podman, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", dir.path().display());
    let with = |brisk: Brisk| brisk.env("PATH", &path);
    let words = ["--timeout=2s", "--target=x=podman:image"];
    let measured = measure_with(with, "true", &words);
    let samples = measured.samples("x", "time");
    let reason = samples[0]["reason"].as_str().unwrap();
    assert!(reason.contains("killed: no end within 2 s"), "{reason}");
    // What it had started was removed each time.
    let removed = fs::read_to_string(log).unwrap();
    assert_eq!(removed.matches("brisk-overhead-").count(), 2, "{removed}");
}

fn files_without_an_end_are_refused() {
    let dir = tempdir().unwrap();
    let refused = |words: &[&str]| {
        let run = overhead_of("kernel").args(["--rounds=1", "--target=x=host"]);
        run.args(words)
            .exits(125)
            .explains(&["it is not a regular file"]);
    };
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let tree = dir.path().join("tree");
    kernel_source(&tree);
    let tree = ["--tree", tree.to_str().unwrap()];
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        refused(&["--targets", path]);
        refused(&["--config", path]);
        refused(&[&["--continue", path], &tree[..]].concat());
    }
}

fn overhead_of(workload: &str) -> Brisk {
    brisk_of!["overhead", "run", "--workload"].arg(workload)
}

/// A directory that is taken for the source of a kernel.
fn kernel_source(tree: &Path) {
    fs::create_dir(tree).unwrap();
    for name in ["Kconfig", "Makefile"] {
        fs::write(tree.join(name), "").unwrap();
    }
}

fn an_interrupt_of_packing_leaves_nothing() {
    let dir = tempdir().unwrap();
    let tree = dir.path().join("tree");
    kernel_source(&tree);
    // Without holes, which an archive does not have.
    fs::write(tree.join("big"), vec![1; 256 << 20]).unwrap();
    let place = dir.path().join("place");
    fs::create_dir(&place).unwrap();
    let run = overhead_of("kernel").args(["--target=x=host", "--tree", tree.to_str().unwrap()]);
    let running = run.env("TMPDIR", &place).spawn();
    until("the source is being packed", || {
        fs::read_dir(&place).unwrap().next().map(drop)
    });
    running.signal(Signal::INT);
    let ended = running.wait().exited(130);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

fn what_works_in_the_background_ends_without_groups() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    // A user who may make no groups, and a program that takes no SIGTERM.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Where that user finds it.
    let brisk = dir.path().join("brisk");
    fs::copy(env!("CARGO_BIN_EXE_brisk"), &brisk).unwrap();
    let words = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "env",
        "TMPDIR=/tmp",
        brisk.to_str().unwrap(),
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=1",
        "--workload=command",
        "--target=x=host",
    ];
    let command = format!(
        "(trap '' TERM; exec sleep 4321) & echo $! >>{}",
        log.display()
    );
    let ended = Command::new("setpriv")
        .args(words)
        .arg(format!("--command={command}"))
        .arg("--output")
        .arg(dir.path().join("report.json"))
        .env("BRISK_STATE_DIR", dir.path())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.lines().count() > 3, "{log}");
    for pid in log.lines() {
        // It was killed, and may not have ended yet.
        until("it has ended", || {
            let text = fs::read_to_string(format!("/proc/{pid}/cmdline"));
            text.map_or(true, |text| !text.starts_with("sleep"))
                .then_some(())
        });
    }
}

fn a_qemu_ends_with_a_brisk_that_is_killed() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    let qemu = dir.path().join("qemu");
    // As QEMU, it does not end by the end of its input.
    let text = format!(
        "#!/bin/sh\necho $$ >{log}.new; mv {log}.new {log}; exec sleep 4321\n",
        log = log.display()
    );
    fs::write(&qemu, text).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let place = dir.path().join("place");
    fs::create_dir(&place).unwrap();
    let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"))
        .args(["overhead", "run", "--workload=command", "--command=true"])
        .arg(format!("--target=x=qemu:{}", qemu.display()))
        .arg("--output")
        .arg(dir.path().join("report.json"))
        .env("TMPDIR", &place)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = until("it has started", || fs::read_to_string(&log).ok());
    brisk.kill().unwrap();
    brisk.wait().unwrap();
    until("it has ended", || {
        let text = fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
        text.map_or(true, |text| text.is_empty()).then_some(())
    });
    // The shells of the host end by the end of their input; their groups are left.
    for entry in fs::read_dir(&place).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let group = Group::below_own(name.trim_end_matches("-files"));
        let group = group.into_iter();
        group.for_each(|group| until("its group is removed", || group.remove().ok()));
    }
}
