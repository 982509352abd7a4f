//! Persistent VMs: suspend to an image and resume.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_testkit::{Machines, brisk_of, capture, ext4, qemu_is_before, tool, tree, trials, until};
use libtest_mimic::Arguments;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 10] = [
        ("a_guest_goes_on_where_it_was", goes_on),
        ("nothing_of_a_guest_is_in_clear_on_disk", encrypted),
        ("what_does_not_fit_is_refused_and_can_be_mended", refused),
        ("a_disk_that_changed_is_refused", disk),
        ("an_emptied_cache_is_not_missed", cache),
        ("an_image_has_what_changed", incremental),
        ("cache_and_free_memory_are_left_out", cache_left_out),
        ("a_suspended_machine_can_be_thrown_away", thrown_away),
        ("a_passphrase_opens_an_image", passphrase),
        ("an_image_is_bound_to_its_machine", bound),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials(old, tests)).exit();
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap().as_secs()
}

fn image(all: &Machines) -> String {
    let (dir, image) = (all.dir().join("tree"), all.dir().join("image"));
    tree(&dir);
    ext4(&dir, &image);
    image.into_os_string().into_string().unwrap()
}

fn goes_on() {
    let all = machines();
    let root = image(&all);
    all.boot("a", &[]);
    all.boot("b", &["--net", "user", "--root", &root, "--rw"]);
    for (name, compression) in [("a", "zstd"), ("a", "lz4"), ("a", "none"), ("b", "lz4")] {
        let _ = all.does(&["set", name, "--compression", compression]);
        let counter = "cd /run; echo same > file; rm -f n; busybox setsid sh -c \
             'echo $$ > loop; n=0; while :; do n=$((n+1)); echo $n > n.new; busybox mv n.new n; done' \
             < /dev/null > /dev/null 2>&1 & \
             until test -s /run/n; do busybox sleep 0.01; done";
        let _ = all.output(name, counter);
        let who = "cat /proc/sys/kernel/random/boot_id /run/file";
        let (before, same) = (all.output(name, "cat /run/n"), all.output(name, who));
        let suspend = all.does(&["suspend", name]);
        let _ = suspend.explains(&["raw: ", "compressed: ", "cpu: read "]);
        assert_eq!(all.doing(name), "suspended");
        let info = all.does(&["info", name]).text();
        assert!(info.contains(&format!("{name} is suspended")), "{info}");
        let memory = format!("vm-{name}-");
        let left = fs::read_dir(all.memory()).unwrap();
        let mut left = left.map(|file| file.unwrap().file_name().into_string().unwrap());
        assert!(left.all(|file| !file.starts_with(&memory)));
        for command in ["suspend", "stop", "exec"] {
            let hint = "brisk vm resume goes on from there";
            all.refuses(&[command, name], &["is suspended", hint]);
        }
        all.refuses(&["start", name], &["is suspended", "brisk vm resume"]);
        all.refuses(&["rm", name], &["is suspended"]);
        let earliest = now();
        let runs = || {
            all.does(&["log", name])
                .text()
                .matches("VM running")
                .count()
        };
        let before_it = runs();
        let _ = all.does(&["resume", name]).explains(&["runs again after"]);
        // On a slow host it returns before the clock is set, and that is reported then.
        until("its clock is set", || (runs() > before_it).then_some(()));
        let time: u64 = all.output(name, "busybox date +%s").trim().parse().unwrap();
        assert!((earliest - 1..=now()).contains(&time), "{earliest} {time}");
        assert_eq!(all.doing(name), "running");
        assert_eq!(all.output(name, who), same);
        let before: u64 = before.trim().parse().unwrap();
        let on = format!(
            "until test $(cat /run/n) -gt {}; do busybox sleep 0.01; done; loop=$(cat /run/loop); \
             kill $loop; while test -d /proc/$loop; do busybox sleep 0.01; done; echo on",
            before + 10
        );
        assert_eq!(all.output(name, &on), "on\n", "{compression}");
        assert!(!all.state_dir(name).join(format!("{name}.brisk")).exists());
    }
    let _ = all.output("b", "echo kept > /srv/file");
    let _ = all.does(&["stop", "b"]);
    let _ = capture(&tool("e2fsck"), &["-f", "-n", &root]);
    let kept = capture(&tool("debugfs"), &["-R", "cat /srv/file", &root]);
    assert_eq!(kept, "kept\n");
}

/// What can be read again and what was used and is free is in no image, and nothing else is missing.
fn cache_left_out() {
    let all = machines();
    let root = image(&all);
    let size = |command: &[&str]| {
        let _ = all.does(command);
        let image = all.state_dir("a").join("a.brisk");
        let size = fs::metadata(image).unwrap().len() >> 20;
        let _ = all.does(&["resume", "a"]);
        size
    };
    capture(&tool("truncate"), &["-s", "256M", &root]);
    capture(&tool("resize2fs"), &[&root]);
    let _ = all.does(&["create", "a", "--root", &root, "--rw", "--memory", "256M"]);
    let _ = all.does(&["set", "a", "--threads", "2", "--incremental=false"]);
    let _ = all.does(&["start", "a"]);
    let fill = "dd if=/dev/urandom of=/srv/big bs=1M count=60 2>/dev/null; sync; md5sum /srv/big";
    let sum = all.output("a", fill);
    let whole = size(&["suspend", "a"]);
    assert!(whole > 65, "{whole}");
    assert_eq!(all.output("a", "md5sum /srv/big"), sum);
    until("all of the memory", || {
        let image = all.state_dir("a").join("a.brisk.resumed");
        (!image.exists()).then_some(())
    });
    let used = "dd if=/srv/big of=/run/big bs=1M 2>/dev/null; rm /run/big; \
         dd if=/dev/urandom of=/run/kept bs=1M count=20 2>/dev/null; md5sum /run/kept";
    let kept = all.output("a", used);
    let small = size(&["suspend", "--drop-cache", "a"]);
    assert!(small < 45, "{small}");
    // Its kernel's lists were understood: nobody had to wait.
    let log = fs::read_to_string(all.state_dir("a").join("log")).unwrap();
    assert!(log.contains(" MB, found in "), "{log}");
    // Some of what it has was written before it stood still.
    assert!(log.contains(" MB are written"), "{log}");
    assert_eq!(all.output("a", "md5sum /srv/big"), sum);
    // What was free is given to files, what was not is as it was.
    let again = "dd if=/dev/urandom of=/run/more bs=1M count=60 2>/dev/null; rm /run/more";
    let _ = all.output("a", again);
    assert_eq!(all.output("a", "md5sum /run/kept; rm /run/kept"), kept);
    let _ = all.does(&["set", "a", "--drop-cache", "--incremental"]);
    let small = size(&["suspend", "a"]);
    assert!(small < 45, "{small}");
    assert_eq!(all.output("a", "md5sum /srv/big"), sum);
}

/// Images of what changed since the last one, a bounded number of them.
fn incremental() {
    let all = machines();
    all.boot("a", &["--compression", "none"]);
    let sum = all.output(
        "a",
        "dd if=/dev/urandom of=/run/x bs=1M count=20 2>/dev/null; busybox md5sum /run/x",
    );
    let image = all.state_dir("a").join("a.brisk");
    let base = |number| image.with_extension(format!("brisk.base-{number}"));
    let bases = || (0..9).filter(|number| base(*number).exists()).count();
    let suspend = || {
        let _ = all.does(&["suspend", "a"]);
        fs::metadata(&image).unwrap().len()
    };
    // By turns both ways; what serves the memory keeps the image when it is done.
    let resume = |round: usize| {
        let words = [&["resume", "a"][..], &["resume", "--eager", "a"]][round % 2];
        let _ = all.does(words);
        until("all of the memory", || {
            let resumed = image.with_extension("brisk.resumed");
            (!resumed.exists()).then_some(())
        });
    };
    let whole = suspend();
    let (mut most, mut full) = (0, 1);
    for round in 0..9 {
        resume(round);
        most = most.max(bases());
        let same = all.output("a", "busybox md5sum /run/x; cat /run/y 2>/dev/null; :");
        let noted = if round == 0 { "" } else { "kept\n" };
        assert_eq!(same, format!("{sum}{noted}"), "{round}");
        let _ = all.output("a", "echo kept > /run/y");
        let size = suspend();
        if size > whole / 2 {
            full += 1;
            assert_eq!(bases(), 0);
        } else {
            assert!(base(0).exists(), "{round}");
        }
    }
    assert!((2..=5).contains(&most), "{most}");
    assert!((2..=4).contains(&full), "{full}");
    // One whose base is missing is refused, and has not lost anything by that.
    resume(0);
    let _ = all.does(&["set", "a", "--incremental=false"]);
    assert!(suspend() > whole / 2);
    let _ = all.does(&["set", "a", "--incremental"]);
    resume(0);
    assert!(suspend() < whole / 2);
    let away = all.dir().join("away");
    fs::rename(base(0), &away).unwrap();
    all.refuses(&["resume", "a"], &["a.brisk", "based on"]);
    fs::rename(&away, base(0)).unwrap();
    resume(1);
    assert_eq!(all.output("a", "busybox md5sum /run/x"), sum);
    // One whose base is damaged by then is written whole.
    let mut bytes = fs::read(base(0)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(base(0), bytes).unwrap();
    assert!(suspend() > whole / 2);
    assert_eq!(bases(), 0);
    resume(0);
    assert_eq!(all.output("a", "busybox md5sum /run/x"), sum);
    assert_eq!(bases(), 1);
    let _ = all.does(&["stop", "a"]);
    assert_eq!(bases(), 0);
}

/// Nowhere in the files below a directory.
fn is_nowhere(dir: &Path, pattern: &[u8]) {
    for file in fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            is_nowhere(&path, pattern);
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let found = bytes.windows(pattern.len()).any(|part| part == pattern);
        assert!(!found, "in {}", path.display());
    }
}

fn encrypted() {
    let all = machines();
    all.boot("a", &["--compression", "none"]);
    let secret = b"0d9f-not-for-everybody-71c2";
    let keep = all.exec("a", "cat > /run/secret").stdin(*secret);
    let _ = keep.exits(0);
    let _ = all.does(&["suspend", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    assert!(fs::metadata(&image).unwrap().len() > 20 << 20);
    is_nowhere(all.dir(), secret);
    is_nowhere(all.memory(), secret);
    let _ = all.does(&["resume", "a"]);
    let output = all.output("a", "cat /run/secret");
    assert_eq!(output.as_bytes(), secret);
}

fn refused() {
    let all = machines();
    all.boot("a", &["--compression", "lz4"]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let refused_by = |words: &[&str], texts: &[&str]| {
        all.refuses(words, texts);
        assert_eq!((all.doing("a").as_str(), all.count()), ("suspended", 0));
    };
    let refused = |texts: &[&str]| {
        refused_by(&["resume", "--eager", "a"], texts);
        refused_by(&["resume", "a"], texts);
    };
    let image = all.state_dir("a").join("a.brisk");
    let path = image.to_str().unwrap();
    let bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    for at in [9, 200, middle, bytes.len() - 9] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&image, damaged).unwrap();
        if at == middle {
            // A chunk of memory, which a guest that runs at once may not need for long.
            // It is named as it is afterwards, not as while the resume tries it.
            let named = format!("{path} is damaged");
            refused_by(&["resume", "--eager", "a"], &[&named]);
        } else {
            refused(&[path]);
        }
    }
    fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
    refused(&[path]);
    fs::write(&image, &bytes).unwrap();
    let key = all.dir().join("state/suspend.key");
    let kept = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    refused(&["suspend.key"]);
    let other = machines();
    other.boot("a", &["--compression", "lz4"]);
    let _ = other.does(&["suspend", "a"]);
    fs::copy(other.dir().join("state/suspend.key"), &key).unwrap();
    refused(&[path]);
    fs::write(&key, kept).unwrap();
    for file in ["kernel", "initramfs"] {
        let file = all.state_dir("a").join(file);
        let away = file.with_extension("away");
        fs::rename(&file, &away).unwrap();
        refused(&[file.to_str().unwrap(), "is not there any more"]);
        fs::rename(&away, &file).unwrap();
    }
    // The image of another VM is none of this one.
    let _ = all.does(&["create", "b", "--memory", "128M", "--suspend-path", path]);
    all.refuses(&["resume", "b"], &[path, "it holds the VM a"]);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    // A file that is in the way stays as it is, and so does the guest, which may still read from
    // the image that was there.
    fs::write(&image, "precious").unwrap();
    all.refuses(&["suspend", "a"], &[path]);
    assert_eq!(fs::read(&image).unwrap(), b"precious");
    assert_eq!(all.doing("a"), "running");
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

fn disk() {
    let all = machines();
    let root = image(&all);
    all.boot("a", &["--root", &root, "--rw", "--compression", "lz4"]);
    let _ = all.output("a", "echo one > /srv/file");
    let _ = all.does(&["suspend", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    fs::copy(&image, all.dir().join("copy")).unwrap();
    let disk = fs::File::options().write(true).open(&root).unwrap();
    let modified = disk.metadata().unwrap().modified().unwrap();
    disk.set_modified(SystemTime::now()).unwrap();
    all.refuses(&["resume", "a"], &[&root, "has changed since"]);
    assert_eq!(all.doing("a"), "suspended");
    disk.set_modified(modified).unwrap();
    fs::rename(&root, all.dir().join("moved")).unwrap();
    all.refuses(&["resume", "a"], &[&root]);
    assert_eq!(all.doing("a"), "suspended");
    fs::rename(all.dir().join("moved"), &root).unwrap();
    let _ = all.does(&["resume", "a"]);
    let more = "cat /srv/file; echo two >> /srv/file; busybox sync";
    assert_eq!(all.output("a", more), "one\n");
    let _ = all.does(&["stop", "a"]);
    // A copy of an image that was used: its disk is not what it was.
    fs::rename(all.dir().join("copy"), &image).unwrap();
    all.refuses(&["resume", "a"], &[&root, "has changed since"]);
    let _ = all.does(&["discard", "a"]);
    let _ = capture(&tool("e2fsck"), &["-f", "-n", &root]);
    let kept = capture(&tool("debugfs"), &["-R", "cat /srv/file", &root]);
    assert_eq!(kept, "one\ntwo\n");
}

fn cache() {
    let all = machines();
    let cache = all.dir().join("cache");
    let vm = |words: &[&str]| {
        let run = all.vm(words).env("BRISK_CACHE_DIR", &cache);
        let _ = run.exits(0);
    };
    vm(&["create", "a", "--memory", "128M", "--compression", "lz4"]);
    vm(&["start", "a"]);
    vm(&["suspend", "a"]);
    fs::remove_dir_all(&cache).unwrap();
    vm(&["resume", "a"]);
    assert_eq!(all.output("a", "echo well"), "well\n");
}

fn thrown_away() {
    let all = machines();
    all.boot("a", &["--compression", "lz4"]);
    let image = all.state_dir("a").join("a.brisk");
    for claimed in [false, true] {
        let _ = all.does(&["suspend", "a"]);
        if claimed {
            // As a resume leaves it that is killed before the guest runs.
            fs::rename(&image, image.with_extension("brisk.resuming")).unwrap();
        }
        assert_eq!(all.doing("a"), "suspended");
        // As if its QEMU ended while it is asked.
        let runtime = all.memory().join("run/vm/a");
        fs::create_dir_all(&runtime).unwrap();
        let qemu = UnixListener::bind(runtime.join("qmp.sock")).unwrap();
        let ended = thread::spawn(move || qemu.accept().map(drop));
        assert_eq!(all.glance("a"), "suspended");
        ended.join().unwrap().unwrap();
        let _ = all.does(&["discard", "a"]);
        assert_eq!(all.doing("a"), "off");
        let _ = all.does(&["start", "a"]);
    }
    // Where its next image is to be, and was: neither is left, and nothing that is no image goes.
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    let base = image.with_extension("brisk.base-0");
    assert!(base.exists());
    let other = all.dir().join("other");
    fs::write(&other, "precious").unwrap();
    let elsewhere = ["set", "a", "--suspend-path", other.to_str().unwrap()];
    let _ = all.does(&elsewhere);
    let texts = [other.to_str().unwrap(), "exists already", "--suspend-path"];
    all.refuses(&["suspend", "a"], &texts);
    let _ = all.does(&["stop", "a"]);
    assert!(!base.exists());
    assert_eq!(all.doing("a"), "off");
    all.refuses(&["kill", "a"], &["does not run"]);
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    let _ = all.does(&["set", "a", "--suspend-path", "default"]);
    let _ = all.does(&["start", "a"]);
    let _ = all.does(&["stop", "a"]);
    let _ = all.does(&["rm", "a"]);
    assert!(!all.state_dir("a").exists());
}

fn passphrase() {
    let all = machines();
    let words = ["--passphrase", "--host-key=false", "--compression", "lz4"];
    all.boot("a", &words);
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = all.output("a", boot);
    let (right, wrong) = (all.dir().join("right"), all.dir().join("wrong"));
    let secret = "correct horse, wrong stable";
    fs::write(&right, format!("{secret}\n")).unwrap();
    fs::write(&wrong, "something else\n").unwrap();
    let missing = ["is encrypted to a passphrase", "--passphrase-file"];
    all.refuses(&["suspend", "a"], &missing);
    assert_eq!(all.doing("a"), "running");
    // By a descriptor, by a file, and by a terminal.
    let suspend = all.vm(&["suspend", "a", "--passphrase-file", "/dev/fd/3"]);
    let _ = suspend
        .in_shell("", &format!("3< '{}'", right.display()))
        .exits(0);
    fs::remove_file(&right).unwrap();
    is_nowhere(all.dir(), secret.as_bytes());
    fs::write(&right, format!("{secret}\n")).unwrap();
    let refused = |words: &[&str]| {
        all.refuses(&[&["resume", "a"], words].concat(), &["passphrase"]);
        assert_eq!((all.doing("a").as_str(), all.count()), ("suspended", 0));
    };
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    refused(&[]);
    refused(&["--passphrase-file", wrong]);
    let _ = all.does(&["resume", "a", "--passphrase-file", right]);
    assert_eq!(all.output("a", boot), before);
    let (mut run, mut window) = all.vm(&["suspend", "a"]).on_terminal(24, 80);
    for prompt in ["Passphrase for the image of a: ", "Again: "] {
        run.shows(prompt);
        window.types(&format!("{secret}\r"));
    }
    let _ = run.wait().exited(0);
    let (mut run, mut window) = all.vm(&["resume", "a"]).on_terminal(24, 80);
    run.shows("a.brisk: ");
    window.types(&format!("{secret}\r"));
    let _ = run.wait().exited(0);
    assert_eq!(all.output("a", boot), before);
    let log = all.does(&["log", "a"]).text();
    assert!(!log.contains(secret), "{log}");
}

fn bound() {
    let all = machines();
    let dir = all.dir().join("%{uuid}");
    let path = dir.with_extension("image");
    let words = ["--suspend-path", path.to_str().unwrap()];
    all.boot("a", &[&words[..], &["--compression", "lz4"]].concat());
    let _ = all.does(&["suspend", "a"]);
    let text = fs::read_to_string(all.definition("a")).unwrap();
    let uuid = text.split('"').nth(1).unwrap().to_owned();
    let image = all.dir().join(format!("{uuid}.image"));
    assert!(image.exists(), "{text}");
    // Another VM with its name, which has come by its image.
    let mut other = uuid.clone();
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    fs::write(all.definition("a"), text.replace(&uuid, &other)).unwrap();
    fs::rename(&image, all.dir().join(format!("{other}.image"))).unwrap();
    let texts = ["it holds another VM a", uuid.as_str(), other.as_str()];
    all.refuses(&["resume", "a"], &texts);
    assert_eq!((all.doing("a").as_str(), all.count()), ("off", 0));
    all.refuses(&["kill", "a"], &["does not run"]);
    fs::write(all.definition("a"), &text).unwrap();
    fs::rename(all.dir().join(format!("{other}.image")), &image).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "echo well"), "well\n");
}
