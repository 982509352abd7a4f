//! What is left behind, by the work, by brisk and by its end.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use brisk_host::cgroup::Group;
use brisk_testkit::{Brisk, Signal, copy_program, until};
use tempfile::tempdir;

use super::{kernel_source, measure_with, measured_with, overhead_of};

pub(super) fn nothing_is_removed_where_no_work_directory_can_be_made() {
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

pub(super) fn what_the_work_has_mounted_is_not_removed() {
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
    let measured = measured_with(|brisk| brisk, &command, &words, 125);
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

pub(super) fn what_works_in_the_background_ends_without_groups() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    // A user who may make no groups, and a program that takes no SIGTERM.
    chown(dir.path(), Some(65534), Some(65534)).unwrap();
    // Where that user finds it.
    let brisk = dir.path().join("brisk");
    copy_program(Path::new(env!("CARGO_BIN_EXE_brisk")), &brisk);
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

pub(super) fn a_qemu_ends_with_a_brisk_that_is_killed() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    let qemu = dir.path().join("qemu");
    // As QEMU, it does not end by the end of its input.
    let text = format!(
        "#!/bin/sh\necho $$ >{log}.new; mv {log}.new {log}; exec sleep 4321\n",
        log = log.display()
    );
    brisk_testkit::script(&qemu, &text);
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

pub(super) fn an_interrupt_of_packing_leaves_nothing() {
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
