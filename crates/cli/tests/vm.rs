//! Persistent VMs: their life, and commands in them.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use brisk_testkit::{Machines, Signal, brisk_of, capture, ext4, tool, tree, until};

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn a_refusal_changes_nothing() {
    let all = machines();
    // Messages are in transcripts.rs.
    for words in [
        &["start", "nosuch"][..],
        &["set", "nosuch"],
        &["create", "a", "--cpus", "0"],
        &["create", "a", "--root", "host", "--rw"],
    ] {
        all.refuses(words, &[]);
    }
    assert!(!all.state_dir("nosuch").exists());
    assert!(!all.definition("a").exists());
    let _ = all.does(&["create", "a", "--memory", "128M"]);
    for command in ["create", "stop", "kill", "suspend", "exec", "resume"] {
        all.refuses(&[command, "a"], &[]);
    }
    assert_eq!(all.doing("a"), "off");
    let _ = all.does(&["rm", "a"]);
    assert!(!all.definition("a").exists() && !all.state_dir("a").exists());
}

#[test]
fn memory_is_looked_for_only_by_who_needs_it() {
    let all = machines();
    let dir = all.dir().to_owned();
    fs::write(dir.join("file"), "").unwrap();
    let with = |words: &[&str]| all.vm(words).env("BRISK_WARM_DIR", dir.join("file"));
    for words in [
        &["create", "a", "--memory", "128M"][..],
        &["list"],
        &["info", "a"],
        &["autostart"],
        &["autostop"],
        &["rm", "a"],
    ] {
        let _ = with(words).exits(0);
    }
}

#[test]
fn a_definition_is_set_and_edited() {
    let all = machines();
    let _ = all.does(&["create", "a"]);
    let relative = ["set", "a", "--suspend-path", "%{name}.image", "--cpus", "2"];
    let _ = all.vm(&relative).current_dir(all.dir()).exits(0);
    let info = all.does(&["info", "a", "--format", "json"]).text();
    let image = all.dir().join("a.image");
    assert!(info.contains(image.to_str().unwrap()), "{info}");
    assert!(info.contains("\"cpus\": 2"), "{info}");
    settings(&all);
    fs::write(all.definition("a"), "cpus = 1\nmemroy = \"1G\"\n").unwrap();
    let path = all.definition("a").display().to_string();
    for words in [&["info", "a"][..], &["start", "a"], &["set", "a"]] {
        all.refuses(words, &[&path, "line 2, column 1", "memroy", "memory"]);
    }
    let list = all.does(&["list", "--format", "csv"]).explains(&["line 2"]);
    assert!(list.text().contains("\"a\",\"wrong\""), "{}", list.text());
    fs::write(all.definition("a"), "cpus = 1\n").unwrap();
    assert_eq!(all.doing("a"), "off");
}

fn settings(all: &Machines) {
    let info = |name: &str| {
        let text = all.does(&["info", "a", "--format", "csv"]).text();
        let start = format!("\"{name}\",");
        let values = text.lines().filter_map(|line| line.strip_prefix(&start));
        values.collect::<Vec<_>>().join("|")
    };
    let uuid = info("uuid").trim_matches('"').to_owned();
    let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let path = "/images/%{uuid}.brisk";
    for (words, name, value) in [
        (&["--rw"][..], "rw", "true"),
        (&["--rw=false"], "rw", "false"),
        (&["--autoboot"], "autoboot", "true"),
        (&["--autoboot=false"], "autoboot", "false"),
        (&["--autoshutdown", "suspend"], "autoshutdown", "suspend"),
        (&["--autoshutdown", "off"], "autoshutdown", "off"),
        (&["--suspend-path", path], "suspend.path", path),
        (&["--compression", "lz4"], "suspend.compression", "lz4"),
        (&["--recipient", key], "suspend.recipients", key),
        (&["--host-key=false"], "suspend.host-key", "false"),
        (&["--passphrase"], "suspend.passphrase", "true"),
        (&["--no-recipients"], "suspend.recipients", ""),
        (&["--threads", "7"], "suspend.threads", "7"),
        (&["--user", "ada:7"], "user", "ada:7"),
        (&["--user", "root"], "user", ""),
        (&["--bandwidth", "200M"], "suspend.bandwidth", "200M"),
        (&["--bandwidth", "none"], "suspend.bandwidth", "none"),
    ] {
        let _ = all.does(&[&["set", "a"], words].concat());
        assert_eq!(info(name).trim_matches('"'), value, "{words:?}");
        let text = all.does(&["info", "a"]).text();
        assert!(text.contains(value), "{text}");
    }
    // A name is never taken for the value of what comes before it.
    let _ = all.does(&["set", "--rw", "a"]);
    assert_eq!(info("rw"), "\"true\"");
    let _ = all.does(&["set", "a", "--rw=false"]);
    assert_eq!(info("uuid").trim_matches('"'), uuid);
    assert_eq!(info("image"), format!("\"/images/{uuid}.brisk\""));
    let _ = all.does(&["set", "a", "--suspend-path", "default"]);
    let usual = all.state_dir("a").join("a.brisk");
    assert_eq!(info("image"), format!("\"{}\"", usual.display()));
    all.refuses(
        &["set", "a", "--autoshutdown", "suspend"],
        &["suspend.passphrase = \"true\": nobody types it"],
    );
    all.refuses(
        &["set", "a", "--passphrase=false"],
        &["suspend.host-key = \"false\": nobody could open"],
    );
    all.refuses(
        &["set", "a", "--user", "ada:"],
        &["user = \"ada:\"", ":GROUP"],
    );
    let fast = all.vm(&["set", "a", "--bandwidth", "fast"]);
    let _ = fast.exits(2).explains(&["--bandwidth", "200M"]);
}

#[test]
fn a_machine_lives() {
    let all = machines();
    all.boot("a", &[]);
    assert_eq!(all.doing("a"), "running");
    all.refuses(&["start", "a"], &["a runs already"]);
    all.refuses(&["resume", "a"], &["a runs already"]);
    all.refuses(&["rm", "a"], &["a is running", "brisk vm stop"]);
    streams(&all);
    signals(&all);
    lost(&all);
    ports(&all);
    terminal(&all);
    users(&all);
    let _ = all.does(&["stop", "a"]);
    assert_eq!((all.doing("a").as_str(), all.count()), ("off", 0));
    let log = all.does(&["log", "a"]).text();
    for line in [
        "Processing command start, for user ",
        "VM running",
        "Processing command stop, for user ",
        "VM halted",
    ] {
        assert!(log.contains(line), "{log}");
    }
    let console = all.does(&["console", "a"]).text();
    assert!(console.contains("Linux version"), "{console}");
    // Another life, and a power cut. A definition that became wrong is not in the way.
    let _ = all.does(&["start", "a"]);
    assert_eq!(all.output("a", "ls /tmp"), "");
    fs::write(all.definition("a"), "root = \"elsewhere\"").unwrap();
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    let left: Vec<_> = fs::read_dir(all.memory()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

fn streams(all: &Machines) {
    let input: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let run = all.exec("a", "cat; echo error >&2; exit 7");
    let run = run.stdin(input.clone()).exits(7).explains(&["error\n"]);
    assert_eq!(run.stdout, input);
    let _ = all.exec("a", "kill -9 $$").exits(137);
    let nosuch = all.vm(&["exec", "a"]).command(["/nosuch"]);
    let _ = nosuch.exits(127).explains(&["/nosuch: command not found"]);
    let words = ["exec", "a", "--env", "A=b c", "--workdir", "/tmp"];
    let run = all.vm(&words).script("echo $A; pwd; hostname").exits(0);
    assert_eq!(run.text(), "b c\n/tmp\na\n");
    // Not by a shell, which would hide that a variable is there twice.
    let run = all.vm(&["exec", "a", "--env", "PATH=/bin", "--env", "A=1"]);
    let text = run.command(["busybox", "env"]).exits(0).text();
    let mut set: Vec<_> = text.lines().collect();
    set.sort_unstable();
    assert_eq!(set, ["A=1", "HOME=/root", "PATH=/bin", "TERM=linux"]);
    for index in 0..10 {
        assert_eq!(
            all.output("a", &format!("echo {index}")),
            format!("{index}\n")
        );
    }
    let late = all.vm(&["exec", "a", "--timeout", "500ms"]);
    let _ = late.script("exec sleep 1000").exits(124);
}

fn signals(all: &Machines) {
    for (signal, status) in [(Signal::INT, 3), (Signal::TERM, 4), (Signal::HUP, 5)] {
        let script = "trap 'exit 3' INT; trap 'exit 4' TERM; trap 'exit 5' HUP; \
                      sleep 1000 & echo up; wait";
        let run = all.spawns("a", script);
        run.signal(signal);
        let _ = run.wait().exited(status);
    }
}

fn lost(all: &Machines) {
    let script = "trap 'echo hung up > /tmp/lost; exit' HUP; sleep 1000 & echo up; wait";
    for _ in 0..5 {
        let run = all.spawns("a", script);
        run.signal(Signal::KILL);
        assert_eq!(run.wait().signal(), Some(9));
        let wait = "until test -s /tmp/lost; do sleep 0.01; done; cat /tmp/lost; rm /tmp/lost";
        assert_eq!(all.output("a", wait), "hung up\n");
    }
}

fn ports(all: &Machines) {
    let runs: Vec<_> = (0..4)
        .map(|_| all.spawns("a", "echo up; exec sleep 1000"))
        .collect();
    let mut fifth = all.exec("a", "exit 7").spawn();
    fifth.says("waiting: a runs as many commands as it can at once");
    for (index, run) in runs.into_iter().enumerate() {
        // A port is free again at once, however its user ended.
        let signal = [Signal::TERM, Signal::KILL][index % 2];
        run.signal(signal);
        let _ = run.wait();
        assert_eq!(all.output("a", "echo well"), "well\n");
    }
    let _ = fifth.wait().exited(7);
}

fn terminal(all: &Machines) {
    let run = all.exec("a", "tty; stty size; read line; echo got $line; exit 5");
    let (mut run, mut window) = run.on_terminal(30, 90);
    run.shows("/dev/pts/");
    run.shows("30 90");
    window.types("word\r");
    run.shows("got word");
    let _ = run.wait().exited(5);
    assert!(!window.is_raw());
}

/// By the files of the VM as they are, whatever was there when it was started.
fn users(all: &Machines) {
    let who = "id -u; id -g; echo $HOME; : > /tmp/of-$(id -u); stat -c %u /tmp/of-$(id -u)";
    let by = |words: &[&str]| {
        let words = [&["exec", "a"], words].concat();
        all.vm(&words).script(who)
    };
    all.refuses(
        &["exec", "a", "--user", "ada", "--", "id"],
        &["has no user \"ada\"", "a number"],
    );
    assert_eq!(by(&["-u", "77"]).exits(0).text(), "77\n77\n/\n77\n");
    let script = "chmod 1777 /tmp; mkdir -p /etc; echo ada:x:1001:1002::/home/ada:/bin/sh > /etc/passwd; \
                  echo kvm:x:107:ada > /etc/group";
    assert_eq!(all.output("a", script), "");
    let ada = "1001\n1002\n/home/ada\n1001\n";
    for name in ["ada", "1001"] {
        assert_eq!(by(&["--user", name]).exits(0).text(), ada);
    }
    let _ = all.does(&["set", "a", "--user", "ada:kvm"]);
    assert_eq!(by(&[]).exits(0).text(), ada.replace("1002", "107"));
    assert_eq!(by(&["-u", "root:5"]).exits(125).text(), "");
    assert_eq!(by(&["-u", "0"]).exits(0).text(), "0\n0\n/\n0\n");
    all.refuses(
        &["exec", "a", "-u", "ada:wheel", "--", "id"],
        &["has no group \"wheel\""],
    );
    // A list that is longer than what init sends.
    let script = "i=0; while test $i -lt 2000; do echo long$i:x:$i:1:::; i=$((i+1)); done > /etc/passwd; \
                  echo bob:x:9:9::/: >> /etc/passwd";
    assert_eq!(by(&["-u", "0"]).exits(0).text().lines().count(), 4);
    let _ = all.vm(&["exec", "a", "-u", "0"]).script(script).exits(0);
    assert!(by(&["-u", "long9"]).exits(0).text().starts_with("9\n1\n"));
    all.refuses(
        &["exec", "a", "-u", "bob", "--", "id"],
        &["in the first 32 KiB"],
    );
    // Whether a number behind that has an account is not known.
    all.refuses(
        &["exec", "a", "-u", "1999", "--", "id"],
        &["in the first 32 KiB", "USER:GROUP"],
    );
    assert!(
        by(&["-u", "1999:7"])
            .exits(0)
            .text()
            .starts_with("1999\n7\n/\n")
    );
    // Nobody waits for a pipe, nor for its guest.
    let pipe = "rm /etc/passwd && mkfifo /etc/passwd";
    let _ = all.vm(&["exec", "a", "-u", "1:1"]).script("true").exits(0);
    let _ = all.does(&["set", "a", "--user", "root"]);
    assert_eq!(all.output("a", pipe), "");
    // A shell would wait for it by itself.
    let run = all.vm(&["exec", "a", "-u", "78"]);
    let _ = run.command(["busybox", "true"]).exits(0);
    let run = all.vm(&["exec", "a"]);
    let _ = run.command(["busybox", "rm", "/etc/passwd"]).exits(0);
    // Root needs no account; the last number is nobody's.
    assert!(
        by(&["-u", "root"])
            .exits(0)
            .text()
            .starts_with("0\n0\n/root\n")
    );
    all.refuses(
        &["exec", "a", "-u", "4294967295", "--", "id"],
        &["has no user"],
    );
    for user in ["-1", "\u{1b}[31m", "a b"] {
        all.refuses(
            &["set", "a", &format!("--user={user}")],
            &["a name or a number"],
        );
    }
    // As many at once as there are ports: each asks for the file.
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let run = all.vm(&["exec", "a", "-u", &number.to_string()]);
                assert_eq!(run.script("id -u").exits(0).text(), format!("{number}\n"));
            });
        }
    });
}

#[test]
fn a_machine_stops_whatever_runs_in_it() {
    let all = machines();
    all.boot("a", &["--cpus", "2"]);
    let runs: Vec<_> = (0..4)
        .map(|_| all.spawns("a", "echo up; exec sleep 1000"))
        .collect();
    let _ = all.does(&["stop", "a"]);
    for run in runs {
        let finished = run.wait();
        let code = finished.status.code();
        assert!(matches!(code, Some(143 | 120)), "{code:?}");
    }
    assert_eq!(all.doing("a"), "off");
}

#[test]
fn start_that_is_interrupted_leaves_nothing() {
    let all = machines();
    let _ = all.does(&["create", "a", "--memory", "128M"]);
    let mut run = all.vm(&["start", "a"]).spawn();
    until("QEMU runs", || (all.count() == 1).then_some(()));
    run.signal(Signal::INT);
    run.says("interrupted; the VM is off");
    let _ = run.wait().exited(130);
    assert_eq!((all.doing("a").as_str(), all.count()), ("off", 0));
    // One that is killed leaves a VM that can be ended.
    let run = all.vm(&["start", "a"]).spawn();
    until("QEMU runs", || (all.count() == 1).then_some(()));
    run.signal(Signal::KILL);
    let _ = run.wait();
    let _ = all.does(&["kill", "a"]);
    assert_eq!((all.doing("a").as_str(), all.count()), ("off", 0));
    let _ = all.does(&["start", "a"]);
    assert_eq!(all.output("a", "echo well"), "well\n");
}

/// A tree with an init, as an ext4 image.
fn image(all: &Machines, init: impl Fn(&Path)) -> PathBuf {
    let (dir, image) = (all.dir().join("tree"), all.dir().join("image"));
    tree(&dir);
    fs::create_dir(dir.join("sbin")).unwrap();
    init(&dir);
    ext4(&dir, &image);
    image
}

/// A file of an ext4 image, which must be clean.
fn content(image: &Path, file: &str) -> String {
    let image = image.to_str().unwrap();
    let _ = capture(&tool("e2fsck"), &["-f", "-n", image]);
    capture(&tool("debugfs"), &["-R", &format!("cat {file}"), image])
}

#[test]
fn what_is_written_to_an_image_is_there() {
    let all = machines();
    let image = image(&all, |_| ());
    let root = image.to_str().unwrap();
    all.boot("a", &["--root", root]);
    let _ = all.output("a", "echo lost > /srv/file");
    let _ = all.does(&["stop", "a"]);
    assert_eq!(content(&image, "/srv/file"), "");
    let _ = all.does(&["set", "a", "--rw"]);
    let _ = all.does(&["start", "a"]);
    assert_eq!(all.output("a", "cat /etc/origin"), "the test's tree\n");
    let _ = all.output("a", "echo kept > /srv/file");
    let _ = all.does(&["stop", "a"]);
    assert_eq!(content(&image, "/srv/file"), "kept\n");
}

#[test]
fn an_init_of_the_image_is_pid_1() {
    let all = machines();
    let image = image(&all, |dir| {
        symlink("../bin/busybox", dir.join("sbin/init")).unwrap();
        let table = "::sysinit:/bin/busybox touch /srv/up\n\
                     ::ctrlaltdel:/bin/busybox reboot\n\
                     ::shutdown:/bin/touch /srv/down\n\
                     ::shutdown:/bin/busybox umount -a -r\n";
        fs::write(dir.join("etc/inittab"), table).unwrap();
    });
    let root = image.to_str().unwrap();
    let _ = all.does(&["create", "a", "--root", root, "--rw", "--init", "/no/such"]);
    all.refuses(&["start", "a"], &["/no/such", "its console is in"]);
    let _ = all.does(&["set", "a", "--memory", "128M", "--init", "/sbin/init"]);
    let _ = all.does(&["start", "a"]);
    assert_eq!(
        // Until then it is brisk's own, /init.
        all.output("a", "busybox readlink /proc/1/exe; echo kept > /srv/file"),
        "/bin/busybox\n"
    );
    let _ = all.does(&["stop", "a"]);
    assert_eq!(content(&image, "/srv/file"), "kept\n");
    let files = capture(
        &tool("debugfs"),
        &["-R", "ls -p /srv", image.to_str().unwrap()],
    );
    assert!(
        files.contains("/up/") && files.contains("/down/"),
        "{files}"
    );
    // It turns itself off.
    let _ = all.does(&["start", "a"]);
    let _ = all.exec("a", "busybox poweroff").spawn().wait();
    until("it is off", || (all.doing("a") == "off").then_some(()));
}

#[test]
fn a_guest_ends_itself() {
    let all = machines();
    let _ = all.does(&["create", "a", "--memory", "128M"]);
    for command in ["poweroff", "reboot", "halt"] {
        let _ = all.does(&["start", "a"]);
        // Whether it gets the status of that is left to chance.
        let _ = all.exec("a", command).spawn().wait();
        until("it is off", || (all.doing("a") == "off").then_some(()));
    }
}

/// PID 1 gets its first signal while it still gets ready for signals, the likelier the busier the
/// host is.
#[test]
fn a_vm_can_be_stopped_as_soon_as_it_runs() {
    let all = machines();
    let names = ["a", "b", "c"];
    for name in names {
        let _ = all.does(&["create", name, "--memory", "128M"]);
    }
    std::thread::scope(|scope| {
        for name in names {
            let all = &all;
            let _ = scope.spawn(move || {
                for _ in 0..6 {
                    let _ = all.does(&["start", name]);
                    let _ = all.does(&["stop", name, "--timeout", "30s"]);
                }
            });
        }
    });
}
