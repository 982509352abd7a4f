//! Disks besides the root: images in their order, what is kept of what is written to them, and
//! block devices of the host, which are roots as well.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::path::PathBuf;

use brisk_testkit::{Brisk, Loop, Mount, brisk, capture, ext4, lacks, qcow2, tool, tree, trial};
use libtest_mimic::{Arguments, Trial};
use tempfile::{TempDir, tempdir};

fn main() {
    let loops = || lacks("CAP_SYS_ADMIN", 21);
    let here = |name: &str, test: fn()| trial(name, None::<String>, test);
    let trials: Vec<Trial> = vec![
        here("they_follow_the_root_in_their_order", order),
        here("what_is_written_is_kept_unless_it_is_forbidden", kept),
        here("what_is_left_mounted_is_unmounted", unmounted),
        here("what_is_no_disk_is_refused", no_disk),
        here("a_raw_disk_stays_one", pretends),
        trial("a_block_device_is_a_disk_and_a_root", loops(), devices),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// So many MiB of zeros.
    fn blank(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path
    }

    /// An ext4 with a small system.
    fn system(&self, name: &str) -> PathBuf {
        fs::create_dir(self.path("tree")).unwrap();
        tree(&self.path("tree"));
        ext4(&self.path("tree"), &self.path(name));
        self.path(name)
    }

    fn run(&self) -> Brisk {
        brisk!["--root", "none"].current_dir(self.0.path())
    }
}

fn order() {
    let home = Home::new();
    home.system("root.img");
    home.blank("a.img", 3);
    qcow2(&home.blank("b.raw", 5), &home.path("b.qcow2"));
    home.blank("c:odd,name.img", 7);
    let sizes = "cat /sys/block/vd*/size /sys/block/vd*/ro";
    let disks = [
        "--disk",
        "a.img",
        "--disk",
        "b.qcow2:ro",
        "--disk",
        "c:odd,name.img",
    ];
    let mib = |number: u64| number << 20 >> 9;
    let (a, b, c) = (mib(3), mib(5), mib(7));
    let run = home.run().args(disks).script(sizes).exits(0);
    assert_eq!(run.text(), format!("{a}\n{b}\n{c}\n0\n1\n0\n"));
    // Devices in memory are found in another order than those on a bus.
    let run = brisk!["--root", "root.img", "--machine", "microvm"].current_dir(home.0.path());
    let run = run.args(disks).script(sizes).exits(0);
    let root = mib(32);
    assert_eq!(run.text(), format!("{root}\n{a}\n{b}\n{c}\n1\n0\n1\n0\n"));
}

fn kept() {
    let home = Home::new();
    let image = home.blank("a.img", 1);
    let write = "echo written > /dev/vda && cat /dev/vda | busybox head -n 1";
    let run = home.run().args(["--disk", "a.img"]).script(write);
    assert_eq!(run.exits(0).text(), "written\n");
    let before = fs::read(&image).unwrap();
    assert!(before.starts_with(b"written\n"));
    let run = home.run().args(["--disk", "a.img:ro"]);
    let run = run.script("echo other > /dev/vda || busybox head -n 1 /dev/vda");
    assert_eq!(run.exits(0).text(), "written\n");
    assert!(fs::read(&image).unwrap() == before, "it has changed");
}

/// A command mounts a disk, writes there, stays in it and leaves a process that does.
fn unmounted() {
    let home = Home::new();
    home.system("data.img");
    for (root, device) in [("none", "vda"), ("host", "vda"), ("root.img", "vdb")] {
        if root == "root.img" {
            fs::copy(home.path("data.img"), home.path("root.img")).unwrap();
        }
        let leave = format!(
            "PATH=$PATH:/usr/sbin:/sbin; mkdir -p '/tmp/m x' && mount -t ext4 /dev/{device} '/tmp/m x' \
             && cd '/tmp/m x' && echo of {root} > srv/{root} \
             && (exec sleep 1000 <&- >&- 2>&- &)"
        );
        let run = brisk!["--root", root, "--disk", "data.img"].current_dir(home.0.path());
        run.script(&leave).exits(0);
    }
    // Without the journal: what it had is in its place.
    let look = "mkdir -p /m && mount -t ext4 -o ro,noload /dev/vda /m && cat /m/srv/*";
    let run = home.run().args(["--disk", "data.img:ro"]).script(look);
    assert_eq!(run.exits(0).text(), "of host\nof none\nof root.img\n");
}

fn no_disk() {
    let home = Home::new();
    home.blank("a.img", 1);
    File::create(home.path("empty")).unwrap();
    fs::write(
        home.path("v.vmdk"),
        [b"KDMV".as_slice(), &[0; 4096]].concat(),
    )
    .unwrap();
    let refused = |disks: &[&str], parts: &[&str]| {
        let disks = disks.iter().flat_map(|disk| ["--disk", disk]);
        home.run()
            .args(disks)
            .script("true")
            .exits(125)
            .explains(parts);
    };
    refused(&["nosuch"], &["nosuch does not exist", "qemu-img create"]);
    refused(&["."], &["is a directory", "--share"]);
    refused(
        &["/dev/null"],
        &["/dev/null", "neither a file nor a block device"],
    );
    refused(&["empty"], &["empty is empty", "truncate -s"]);
    refused(&["v.vmdk"], &["VMDK", "qemu-img convert"]);
    home.system("root.img");
    for name in ["overlay.img", "overlay.qcow2"] {
        let path = home.path(name);
        let words = ["create", "-q", "-f", "qcow2", "-b", "root.img", "-F", "raw"];
        let words = [&words[..], &[path.to_str().unwrap()]].concat();
        capture(&tool("qemu-img"), &words);
    }
    let disguised = [
        "overlay.img begins as a qcow2 image",
        "format=qcow2 or format=raw",
    ];
    refused(&["overlay.img:ro"], &disguised);
    let disk = ["--disk", "overlay.img:ro,format=qcow2"];
    home.run().args(disk).script("true").exits(0);
    foreign(&home);
    let root = |name| brisk!["--root", name].current_dir(home.0.path());
    let run = root("overlay.img").script("true");
    run.exits(125).explains(&disguised);
    root("overlay.qcow2").script("true").exits(0);
    refused(&["a.img", "a.img:ro"], &["a.img is there twice"]);
    refused(&["a.img:ro"; 17], &["17 disks", "16 at most"]);
}

/// Images that name files which QEMU would open as whoever runs it.
fn foreign(home: &Home) {
    let create = |name: &str, format: &str, backing: &str| {
        let path = home.path(name);
        let words = [
            "create", "-q", "-u", "-f", "qcow2", "-F", format, "-b", backing,
        ];
        let words = [&words[..], &[path.to_str().unwrap(), "1M"]].concat();
        capture(&tool("qemu-img"), &words);
    };
    home.blank("secret", 1);
    // A VMDK image can be a text that names any file.
    let text = format!(
        "# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\n\
         RW 2048 FLAT \"{}\" 0\n",
        home.path("secret").display()
    );
    fs::write(home.path("names.vmdk"), text).unwrap();
    create("vmdk.qcow2", "vmdk", "names.vmdk");
    create(
        "json.qcow2",
        "raw",
        "json:{\"driver\":\"file\",\"filename\":\"secret\"}",
    );
    create("nbd.qcow2", "raw", "nbd://localhost/x");
    for (name, text) in [
        ("vmdk.qcow2", "only raw and qcow2 are allowed"),
        ("json.qcow2", "not in its directory"),
        ("nbd.qcow2", "not in its directory"),
    ] {
        for disk in [name.to_owned(), format!("{name}:ro,format=qcow2")] {
            let run = home.run().args(["--disk", &disk]).script("true");
            run.exits(125).explains(&[name, text]);
        }
        let run = brisk!["--root", name].current_dir(home.0.path());
        run.script("true").exits(125).explains(&[name, text]);
    }
}

/// A guest writes the header of a qcow2 image with a terabyte to its raw disk.
fn pretends() {
    let home = Home::new();
    let image = home.blank("a.img", 3);
    let pretence = home.path("b.qcow2");
    let words = [
        "create",
        "-q",
        "-f",
        "qcow2",
        pretence.to_str().unwrap(),
        "1T",
    ];
    capture(&tool("qemu-img"), &words);
    let head = fs::read(&pretence).unwrap()[..4096].to_vec();
    let write = "busybox dd of=/dev/vda bs=4096 count=1 conv=notrunc 2>/dev/null";
    let run = home.run().args(["--disk", "a.img,format=raw"]).stdin(head);
    run.script(write).exits(0);
    assert!(fs::read(&image).unwrap().starts_with(b"QFI\xfb"));
    let size = "cat /sys/block/vda/size";
    let run = home.run().args(["--disk", "a.img"]).script(size);
    run.exits(125)
        .explains(&["begins as a qcow2 image", "format=raw"]);
    let run = home.run().args(["--disk", "a.img,format=raw"]).script(size);
    assert_eq!(run.exits(0).text(), "6144\n");
    // A name cannot make it one either.
    fs::rename(&image, home.path("a.qcow2")).unwrap();
    let run = home
        .run()
        .args(["--disk", "a.qcow2,format=raw"])
        .script(size);
    assert_eq!(run.exits(0).text(), "6144\n");
}

fn devices() {
    let home = Home::new();
    let image = home.system("root.img");
    let device = Loop::new(&image);
    for machine in ["auto", "microvm", "q35"] {
        let run = brisk!["--root"].args([device.name(), "--machine", machine]);
        assert_eq!(
            run.script("cat /etc/origin").exits(0).text(),
            "the test's tree\n"
        );
    }
    let run = brisk!["--rw", "--root"].arg(device.name());
    run.script("echo changed > /etc/origin").exits(0);
    let read = "mkdir -p /m && mount -o ro /dev/vda /m && cat /m/etc/origin";
    let run = home
        .run()
        .args(["--disk", &format!("{}:ro", device.name())]);
    assert_eq!(run.script(read).exits(0).text(), "changed\n");
    let mount = Mount::of(home.path("mounted"), device.name());
    let in_use = [device.name(), "is in use on this host"];
    let run = home.run().args(["--disk", device.name()]).script("true");
    run.exits(125).explains(&in_use);
    drop(mount);
    home.run()
        .args(["--disk", device.name()])
        .script("true")
        .exits(0);
}
