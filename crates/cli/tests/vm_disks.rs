//! Persistent VMs with disks besides their root.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use brisk_testkit::{
    Loop, Machines, Mount, brisk_of, capture, lacks, qcow2, qemu_is_before, tool, trial,
};
use libtest_mimic::Arguments;

fn main() {
    let old = || qemu_is_before(8, 2);
    let trials = vec![
        trial("disks_are_kept_refused_and_copied", old(), images),
        trial("a_list_of_disks_is_changed", None::<String>, list),
        trial("a_raw_disk_stays_one", None::<String>, pretends),
        trial(
            "qemu_opens_no_image_as_root",
            lacks("CAP_SYS_ADMIN", 21),
            unprivileged,
        ),
        trial("a_chain_of_images_is_suspended_and_resumed", old(), chain),
        trial(
            "a_block_device_that_was_written_to_is_refused",
            old().or_else(|| lacks("CAP_SYS_ADMIN", 21)),
            device,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

/// An empty ext4.
fn ext4(all: &Machines, name: &str) -> PathBuf {
    let path = all.dir().join(name);
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    capture(&tool("mkfs.ext4"), &["-q", path.to_str().unwrap()]);
    path
}

const MOUNT: &str = "mkdir -p /m && mount -t ext4 /dev/vda /m";

fn images() {
    let all = machines();
    let [data, read] = ["data", "read"].map(|name| ext4(&all, name));
    let small = all.dir().join("small.qcow2");
    qcow2(&read, &small);
    let [first, second] = [&data, &small].map(|path| path.to_str().unwrap().to_owned());
    let third = format!("{}:ro", read.display());
    all.boot(
        "a",
        &["--disk", &first, "--disk", &second, "--disk", &third],
    );
    let script = format!("{MOUNT}; echo mine > /m/file; cat /sys/block/vd?/ro");
    assert_eq!(all.output("a", &script), "0\n0\n1\n");
    let _ = all.does(&["suspend", "a"]);
    // Two that write to one disk destroy it.
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let own = all.state_dir("b").join("disk0.raw");
    let info = all.does(&["info", "b"]).text();
    let other = all.state_dir("b").join("disk1.qcow2");
    let own_raw = format!("{},format=raw", own.display());
    let own_qcow2 = format!("{},format=qcow2", other.display());
    for disk in [own_raw, own_qcow2, format!("{third},format=raw")] {
        assert!(info.contains(&format!("{disk:?}")), "{info}");
    }
    assert_eq!(
        all.output("b", "cat /m/file; echo theirs > /m/file"),
        "mine\n"
    );
    let _ = all.does(&["stop", "b"]);
    // Nor is it written to by another VM.
    let _ = all.does(&["create", "c", "--disk", &first]);
    let _ = all.does(&["resume", "a"]);
    let texts = ["QEMU ended", "lock", "has one of its disks"];
    all.refuses(&["start", "c"], &texts);
    let _ = all.does(&["suspend", "a"]);
    // What is not as it was is refused, and nothing is lost by that.
    let away = data.with_extension("away");
    fs::rename(&data, &away).unwrap();
    all.refuses(&["resume", "a"], &[&first, "No such file"]);
    fs::rename(&away, &data).unwrap();
    let modified = fs::metadata(&read).unwrap().modified().unwrap();
    let changed = File::options().append(true).open(&read).unwrap();
    changed.set_modified(std::time::UNIX_EPOCH).unwrap();
    let texts = [read.to_str().unwrap(), "has changed since"];
    all.refuses(&["resume", "a"], &texts);
    changed.set_modified(modified).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(
        all.output("a", "cat /m/file; echo more >> /m/file"),
        "mine\n"
    );
    // Stopped, it is unmounted; each has its own when it is started anew.
    let _ = all.does(&["stop", "a"]);
    for (name, text) in [("a", "mine\nmore\n"), ("b", "theirs\n")] {
        let _ = all.does(&["start", name]);
        let read = format!("{MOUNT} -o ro,noload && cat /m/file");
        assert_eq!(all.output(name, &read), text);
        let _ = all.does(&["kill", name]);
    }
    let _ = all.does(&["rm", "b"]);
    assert!(!own.exists() && data.exists());
}

fn list() {
    let all = machines();
    let definition = || fs::read_to_string(all.definition("a")).unwrap();
    let _ = all.does(&["create", "a"]);
    let _ = all.does(&[
        "set",
        "a",
        "--disk",
        "/images/one",
        "--disk",
        "/images/two:ro",
    ]);
    let both = r#"disks = ["/images/one", "/images/two:ro"]"#;
    assert!(definition().contains(both), "{}", definition());
    let _ = all.does(&["set", "a", "--no-disks", "--disk", "/images/three"]);
    assert!(definition().contains(r#"disks = ["/images/three"]"#));
    let texts = ["/images/three does not exist", "qemu-img create"];
    all.refuses(&["start", "a"], &texts);
    let _ = all.does(&["set", "a", "--no-disks"]);
    assert!(!definition().contains("disks"));
    let wrong = format!("disks = [\"three\"]\n{}", definition());
    fs::write(all.definition("a"), wrong).unwrap();
    all.refuses(&["start", "a"], &["disks", "three", "absolute path"]);
}

/// A guest writes the header of a qcow2 image with a terabyte to its raw disk.
fn pretends() {
    let all = machines();
    let disk = all.dir().join("disk.img");
    File::create(&disk).unwrap().set_len(3 << 20).unwrap();
    let pretence = all.dir().join("pretence.qcow2");
    let words = [
        "create",
        "-q",
        "-f",
        "qcow2",
        pretence.to_str().unwrap(),
        "1T",
    ];
    capture(&tool("qemu-img"), &words);
    all.boot("a", &["--disk", disk.to_str().unwrap()]);
    let definition = fs::read_to_string(all.definition("a")).unwrap();
    assert!(definition.contains("disk.img,format=raw"), "{definition}");
    let head = fs::read(&pretence).unwrap()[..4096].to_vec();
    let write = "busybox dd of=/dev/vda bs=4096 count=1 conv=notrunc 2>/dev/null; sync";
    let _ = all.exec("a", write).stdin(head).exits(0);
    let _ = all.does(&["stop", "a"]);
    assert!(fs::read(&disk).unwrap().starts_with(b"QFI\xfb"));
    let _ = all.does(&["start", "a"]);
    assert_eq!(all.output("a", "cat /sys/block/vda/size"), "6144\n");
    // Without the note nobody believes it.
    let _ = all.does(&["kill", "a"]);
    let forgotten = definition.replace(",format=raw", "");
    fs::write(all.definition("a"), forgotten).unwrap();
    all.refuses(&["start", "a"], &["begins as a qcow2 image", "format=raw"]);
}

/// A qcow2 image with a file behind it that is one, and one behind that, which only root may open.
fn top(all: &Machines) -> PathBuf {
    let base = ext4(all, "base.raw");
    let image = |name: &str, behind: &str, format: &str| {
        let path = all.dir().join(name);
        let words = ["create", "-q", "-f", "qcow2", "-F", format, "-b", behind];
        capture(
            &tool("qemu-img"),
            &[&words[..], &[path.to_str().unwrap()]].concat(),
        );
        path
    };
    let middle = image("middle.qcow2", "base.raw", "raw");
    let top = image("top.qcow2", "middle.qcow2", "qcow2");
    for path in [&base, &middle, &top] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    top
}

fn unprivileged() {
    let all = machines();
    let top = top(&all);
    all.boot("a", &["--disk", top.to_str().unwrap()]);
    let script = format!("{MOUNT}; echo mine > /m/file; sync; cat /m/file");
    assert_eq!(all.output("a", &script), "mine\n");
    let qemu = &all.processes("qemu")[0];
    let status = fs::read_to_string(format!("/proc/{}/status", qemu.pid)).unwrap();
    let users = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap();
    assert!(users.split_whitespace().all(|user| user != "0"), "{users}");
}

fn chain() {
    let all = machines();
    let top = top(&all);
    all.boot("a", &["--disk", top.to_str().unwrap()]);
    let _ = all.output("a", &format!("{MOUNT}; echo mine > /m/file"));
    for resume in [&["resume", "a"][..], &["resume", "--eager", "a"]] {
        let _ = all.does(&["suspend", "a"]);
        let _ = all.does(resume);
        assert_eq!(
            all.output("a", "cat /m/file; echo x > /m/other; sync"),
            "mine\n"
        );
    }
}

fn device() {
    let all = machines();
    let image = ext4(&all, "image");
    let device = Loop::new(&image);
    all.boot("a", &["--disk", device.name()]);
    let _ = all.output(
        "a",
        &format!("{MOUNT}; echo kept > /m/file; busybox umount /m"),
    );
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", &format!("{MOUNT}; cat /m/file")), "kept\n");
    let _ = all.does(&["suspend", "a"]);
    let texts = [device.name(), "is no file"];
    all.refuses(&["resume", "a", "--clone", "b"], &texts);
    // Whoever mounts it changes it.
    drop(Mount::of(all.dir().join("mounted"), device.name()));
    let texts = [device.name(), "has changed since"];
    all.refuses(&["resume", "a"], &texts);
    let _ = all.does(&["discard", "a"]);
}
