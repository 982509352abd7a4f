//! What a root shows, what is kept of changes to it, and what stays as it was.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Finished, Image, brisk, busybox, capture, disk, docker_archive, ext4, oci_layout, partitioned,
    qcow2, tool, tree,
};
use tempfile::{TempDir, tempdir};

/// Reads a file of the tree, then changes that and adds another.
const CHANGE: &str = "set -e; cat /etc/origin; echo changed > /etc/origin; echo new > /srv/new
    cat /etc/origin /srv/new; test -e /proc/self && test -c /dev/null; touch /run/it /dev/shm/it";
const CHANGED: &str = "the test's tree\nchanged\nnew\n";

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempdir().unwrap());
        fs::create_dir(home.path("tree")).unwrap();
        tree(&home.path("tree"));
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, image: &str, options: &[&str]) -> Finished {
        let run = brisk!["--root"].arg(self.path(image)).args(options);
        let run = run.script(CHANGE).exits(0);
        assert_eq!((run.text().as_str(), run.stderr.as_str()), (CHANGED, ""));
        run
    }

    /// Runs on an image, which must be the same afterwards.
    fn run_unchanged(&self, image: &str) {
        let before = fs::read(self.path(image)).unwrap();
        self.run(image, &[]);
        let same = fs::read(self.path(image)).unwrap() == before;
        assert!(same, "{image} has changed");
    }

    fn ext4(&self) {
        ext4(&self.path("tree"), &self.path("ext4"));
    }
}

#[test]
fn a_root_has_no_commands_but_its_own() {
    let home = Home::new();
    // It has a busybox, which could do that.
    let run = brisk!["--root"].arg(home.path("tree")).command(["cksum"]);
    run.exits(127)
        .explains(&["cksum: command not found in the guest"]);
}

#[test]
fn the_hosts_root_is_seen_from_the_same_directory_and_never_changed() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("mark"), "of the host\n").unwrap();
    let outside = format!("/run/of-the-host-{}", std::process::id());
    fs::write(&outside, "").unwrap();
    let script =
        "pwd; cat mark; echo guest > mark; cat mark; ls /run; echo new > /etc/brisk-test; uname -r";
    let run = brisk!["--root", "host"]
        .current_dir(home.path())
        .script(script)
        .output();
    fs::remove_file(&outside).unwrap();
    let run = run.exited(0);
    let directory = fs::canonicalize(home.path()).unwrap();
    let start = format!("{}\nof the host\nguest\n", directory.display());
    // Nothing of the host's /run lies between.
    let release = run
        .text()
        .strip_prefix(&start)
        .map(|rest| rest.lines().count());
    assert_eq!(release, Some(1), "{}", run.text());
    assert_eq!(
        fs::read(home.path().join("mark")).unwrap(),
        b"of the host\n"
    );
    assert!(!Path::new("/etc/brisk-test").exists());
}

#[test]
fn a_directory_is_kept_from_changes() {
    let home = Home::new();
    home.run("tree", &[]);
    let origin = fs::read_to_string(home.path("tree/etc/origin")).unwrap();
    assert_eq!(origin, "the test's tree\n");
    assert!(!home.path("tree/srv/new").exists());
}

#[test]
fn a_writable_directory_keeps_changes() {
    let home = Home::new();
    home.run("tree", &["--rw"]);
    let read = |name| fs::read_to_string(home.path(name)).unwrap();
    assert_eq!(read("tree/etc/origin"), "changed\n");
    assert_eq!(read("tree/srv/new"), "new\n");
}

#[test]
fn an_ext4_image_is_kept_from_changes() {
    let home = Home::new();
    home.ext4();
    home.run_unchanged("ext4");
}

#[test]
fn a_writable_ext4_image_keeps_changes_and_is_clean() {
    let home = Home::new();
    home.ext4();
    home.run("ext4", &["--rw"]);
    let image = home.path("ext4");
    let image = image.to_str().unwrap();
    // -n: repair nothing; an unclean journal or any error gives a status.
    let checked = capture(&tool("e2fsck"), &["-f", "-n", image]);
    assert!(!checked.contains("recover"), "{checked}");
    let state = capture(&tool("dumpe2fs"), &["-h", image]);
    assert!(
        state.contains("Filesystem state:         clean\n"),
        "{state}"
    );
    assert!(!state.contains("needs_recovery"), "{state}");
    let new = capture(&tool("debugfs"), &["-R", "cat /srv/new", image]);
    assert_eq!(new, "new\n");
}

#[test]
fn a_qcow2_image_keeps_changes_only_if_asked_to() {
    let home = Home::new();
    home.ext4();
    qcow2(&home.path("ext4"), &home.path("disk.qcow2"));
    home.run_unchanged("disk.qcow2");
    home.run("disk.qcow2", &["--rw"]);
    let run = brisk!["--root"]
        .arg(home.path("disk.qcow2"))
        .command(["cat", "/etc/origin"]);
    assert_eq!(run.exits(0).text(), "changed\n");
}

#[test]
fn an_erofs_image_cannot_be_written() {
    let home = Home::new();
    disk("erofs", &home.path("tree"), &home.path("erofs"));
    home.run_unchanged("erofs");
    brisk!["--root"]
        .arg(home.path("erofs"))
        .args(["--rw"])
        .command(["true"])
        .exits(125)
        .explains(&["erofs, which cannot be written", "leave out --rw"]);
}

#[test]
fn a_partition_is_found() {
    let home = Home::new();
    home.ext4();
    partitioned(&home.path("ext4"), &home.path("disk"));
    home.run_unchanged("disk");
}

#[test]
fn an_oci_layout_says_how_its_command_runs() {
    let home = Home::new();
    let image = Image {
        env: vec!["FROM=image", "BOTH=image"],
        entrypoint: vec!["/bin/sh", "-c", "echo \"entry $@\"; exec \"$@\"", "sh"],
        cmd: vec!["sh", "-c", "id -u; id -g; pwd; echo $FROM $BOTH"],
        workdir: "/srv",
        user: "1001:1002",
    };
    oci_layout(&home.path("tree"), &image, &home.path("oci"));
    let layout = home.path("oci");
    let run = brisk!["-e", "BOTH=user", "--root"].arg(&layout).exits(0);
    let entry = format!("entry {}\n", image.cmd.join(" "));
    assert_eq!(run.text(), format!("{entry}1001\n1002\n/srv\nimage user\n"));
    // The words of the command line take the place of the image's command, not of its entry.
    let run = brisk!["--user", "0", "--workdir", "/etc", "--root"]
        .arg(&layout)
        .command(["sh", "-c", "pwd; id -u"])
        .exits(0);
    assert_eq!(run.text(), "entry sh -c pwd; id -u\n/etc\n0\n");
}

#[test]
fn a_docker_archive_is_a_root() {
    let home = Home::new();
    let archive = home.path("docker.tar");
    docker_archive(&home.path("tree"), &Image::default(), &archive);
    home.run_unchanged("docker.tar");
}

#[test]
fn an_archive_of_one_directory_is_that_directory() {
    let home = Home::new();
    let words = ["-C", home.0.path().to_str().unwrap(), "-czf"];
    let archive = home.path("tree.tar.gz");
    let words = [&words[..], &[archive.to_str().unwrap(), "tree"]].concat();
    capture(&tool("tar"), &words);
    home.run_unchanged("tree.tar.gz");
}

#[test]
fn half_an_image_is_refused_before_it_boots() {
    let home = Home::new();
    home.ext4();
    qcow2(&home.path("ext4"), &home.path("whole.qcow2"));
    let bytes = fs::read(home.path("whole.qcow2")).unwrap();
    fs::write(home.path("half.qcow2"), &bytes[..bytes.len() / 2]).unwrap();
    let run = || brisk!["--root"].arg(home.path("half.qcow2"));
    let _ = run().command(["true"]).exits(125).explains(&[
        "half.qcow2 is damaged",
        "behind its end",
        "downloaded to the end",
    ]);
}

#[test]
fn names_of_users_are_looked_up_in_the_root() {
    let home = Home::new();
    let run = brisk!["--user", "ada", "--root"].arg(home.path("tree"));
    let run = run.script("id -u; id -g; echo $HOME").exits(0);
    assert_eq!(run.text(), "1001\n1002\n/home/ada\n");
}

#[test]
fn names_of_users_are_looked_up_in_a_container_image() {
    let home = Home::new();
    let ids = |user: &'static str| {
        let image = Image {
            cmd: vec!["sh", "-c", "id -u; id -g; echo $HOME"],
            user,
            ..Image::default()
        };
        let name = format!("oci-{user}");
        oci_layout(&home.path("tree"), &image, &home.path(&name));
        brisk!["--root"].arg(home.path(&name)).exits(0).text()
    };
    assert_eq!(ids("ada"), "1001\n1002\n/home/ada\n");
    assert_eq!(ids("1001"), "1001\n1002\n/home/ada\n");
    // As container runtimes have it.
    assert_eq!(ids("1500"), "1500\n0\n/\n");
    let unknown = brisk!["--user", "nobody-here", "--root"].arg(home.path("oci-ada"));
    let unknown = unknown.exits(125);
    let _ = unknown.explains(&["there is no user \"nobody-here\" in the root's /etc"]);
}

#[test]
fn the_smallest_root_has_a_shell() {
    let script = "ls -1 /; cat /proc/mounts | grep -c ' /proc '; echo x > /tmp/x; cat /tmp/x";
    let run = brisk!["--root", "none"].script(script).exits(0);
    assert!(busybox().exists());
    for name in ["bin", "dev", "proc", "sys", "tmp"] {
        assert!(
            run.text().lines().any(|line| line == name),
            "{}",
            run.text()
        );
    }
    assert!(run.text().ends_with("1\nx\n"), "{}", run.text());
}
