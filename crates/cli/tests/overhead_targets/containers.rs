//! Containers as targets: runc, gVisor, podman and docker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use brisk_testkit::{Brisk, Mount, Signal, capture, tool, until};
use tempfile::{TempDir, tempdir};

use super::{LOOP, is_counted, measure, measure_with, measured_with, overhead};

pub(super) fn all_mounts_are_seen_read_only(kind: &str) {
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

pub(super) fn gvisor_is_counted_on_the_host() {
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

pub(super) fn a_container_of_podman_is_counted_and_removed() {
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

pub(super) fn an_engine_that_hangs_is_not_waited_for() {
    let dir = tempdir().unwrap();
    let log = dir.path().join("log");
    let podman = dir.path().join("podman");
    let text = format!(
        "#!/bin/sh\ncase $1 in run) exec sh;; inspect) exec sleep 4321;; rm) echo $3 >>{};; esac\n",
        log.display()
    );
    brisk_testkit::script(&podman, &text);
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", dir.path().display());
    let with = |brisk: Brisk| brisk.env("PATH", &path);
    let words = ["--timeout=2s", "--target=x=podman:image"];
    let measured = measured_with(with, "true", &words, 125);
    let samples = measured.samples("x", "time");
    let reason = samples[0]["reason"].as_str().unwrap();
    assert!(reason.contains("killed: no end within 2 s"), "{reason}");
    // What it had started was removed each time.
    let removed = fs::read_to_string(log).unwrap();
    assert_eq!(removed.matches("brisk-overhead-").count(), 2, "{removed}");
}
