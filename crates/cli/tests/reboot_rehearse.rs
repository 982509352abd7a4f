//! Rehearsals of restarts with an installed kernel: what each says, and that disks stay as they are.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use brisk_host::kernel::{self, Installed};
use brisk_testkit::{Finished, Loop, Signal, brisk_of, busybox, capture, disk, lacks, tool, trial};
use brisk_vm::initramfs::cpio::{DIR, FILE, Writer};
use brisk_vm::initramfs::{self, Content, Request, Signatures, Tree, Wanted};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const UUID: &str = "6c9fd5a8-2d52-4f33-a7a4-0c5a2a3f6b10";

/// Finds and mounts the root as initramfs-tools does, and says what it says.
const INIT: &str = r#"#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod $module; done < /modules
type=ext4
for word in $($b cat /proc/cmdline); do
    case $word in
        root=*) root=${word#root=} ;;
        rootfstype=*) type=${word#rootfstype=} ;;
        init=*) init=${word#init=} ;;
        passphrase) printf 'Please unlock disk vda_crypt: '; $b sleep 1000 ;;
    esac
done
tries=0
while :; do
    case $root in UUID=*) device=$($b findfs $root) ;; *) device=$root ;; esac
    [ -b "$device" ] && break
    tries=$((tries + 1))
    if [ $tries = 20 ]; then
        echo "ALERT!  $root does not exist.  Dropping to a shell!"
        printf '(initramfs) '
        $b sleep 1000
    fi
    $b sleep 0.1
done
$b mount -t $type $device /root || exit
exec $b switch_root /root ${init:-/sbin/init}
"#;

/// Writes to its disk and says what systemd says.
const ROOT_INIT: &str = r#"#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
echo written > /written && $b sync
echo 'systemd[1]: Reached target sysinit.target - System Initialization.' > /dev/kmsg
echo 'systemd[1]: Reached target multi-user.target - Multi-User System.' > /dev/kmsg
exec $b sleep 1000
"#;

fn main() {
    let here = |name: &str, test: fn()| trial(name, None::<String>, test);
    let loops = || lacks("CAP_SYS_ADMIN", 21);
    let trials: Vec<Trial> = vec![
        here("a_good_target_reaches_the_roots_init", good),
        here("a_unit_of_the_root_is_waited_for", unit),
        here("a_truncated_initial_ram_disk_is_seen", truncated),
        here("a_missing_file_system_is_seen", without_file_system),
        here("a_missing_driver_of_the_disk_is_seen", without_driver),
        here("a_wrong_uuid_is_seen", wrong_uuid),
        here("a_damaged_kernel_is_seen", damaged),
        here("a_wrong_init_is_seen", wrong_init),
        here("a_question_for_a_passphrase_decides_nothing", passphrase),
        here("what_cannot_be_rehearsed_is_refused", refused),
        here("an_interrupt_ends_a_qemu_that_is_not_root", interrupted),
        trial("a_block_device_is_read_alone", loops(), device),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The kernel that brisk boots.
fn installed() -> Installed {
    kernel::resolve(Path::new("/"), None, &kernel::running()).unwrap()
}

/// A disk, an initial RAM disk in two parts, and a kernel.
struct Scene {
    home: TempDir,
    kernel: PathBuf,
    initrds: Vec<PathBuf>,
    disk: PathBuf,
    cmdline: String,
}

impl Scene {
    fn new() -> Self {
        Self::of(&["virtio_pci", "virtio_blk", "ext4", "erofs"])
    }

    /// One whose initial RAM disk has these modules.
    fn of(modules: &[&str]) -> Self {
        let home = tempdir().unwrap();
        let tree = home.path().join("tree");
        for dir in ["bin", "sbin", "dev"] {
            fs::create_dir_all(tree.join(dir)).unwrap();
        }
        fs::copy(busybox(), tree.join("bin/busybox")).unwrap();
        fs::write(tree.join("sbin/init"), ROOT_INIT).unwrap();
        for program in ["bin/busybox", "sbin/init"] {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(tree.join(program), mode).unwrap();
        }
        let scene = Self {
            disk: home.path().join("disk.img"),
            kernel: installed().image,
            initrds: vec![
                home.path().join("modules.img"),
                home.path().join("init.img"),
            ],
            cmdline: format!("root=UUID={UUID} ro quiet"),
            home,
        };
        let (tree, disk) = (tree.to_str().unwrap(), scene.disk.to_str().unwrap());
        let words = ["-q", "-U", UUID, "-d", tree, disk, "32M"];
        capture(&tool("mkfs.ext4"), &words);
        fs::write(&scene.initrds[0], self::modules(modules)).unwrap();
        fs::write(&scene.initrds[1], programs()).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Packs the second part, so that its end is known to the kernel.
    fn packed(&self) -> PathBuf {
        let packed = self.path("init.img.gz");
        let script = "gzip -c \"$1\" > \"$2\"";
        let paths = [&self.initrds[1], &packed].map(|path| path.to_str().unwrap());
        let words = ["-c", script, "sh", paths[0], paths[1]];
        capture(Path::new("/bin/sh"), &words);
        packed
    }

    fn words(&self) -> Vec<String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut words = vec!["--kernel".to_owned(), text(&self.kernel)];
        for initrd in &self.initrds {
            words.extend(["--initrd".to_owned(), text(initrd)]);
        }
        words.extend(["--cmdline".to_owned(), self.cmdline.clone()]);
        words.extend(["--disk".to_owned(), text(&self.disk)]);
        words
    }

    /// Rehearses, and looks whether the disk is as it was.
    fn rehearse(&self, more: &[&str], status: i32) -> Finished {
        let before = fs::read(&self.disk).unwrap();
        let run = brisk_of!["reboot", "rehearse"]
            .args(self.words())
            .args(more);
        let finished = run.exits(status);
        let after = fs::read(&self.disk).unwrap();
        assert!(before == after, "the disk has changed");
        finished
    }

    fn verdict(&self, more: &[&str], status: i32) -> Value {
        let words = [&["--format", "json"], more].concat();
        let finished = self.rehearse(&words, status);
        let verdict: Value = serde_json::from_str(&finished.text()).unwrap();
        assert_eq!(verdict["schema"], "brisk.reboot.rehearsal/1");
        verdict
    }
}

/// The part of an initial RAM disk with modules, and the list of them.
fn modules(names: &[&str]) -> Vec<u8> {
    let installed = installed();
    let tree = Tree::read(installed.modules.as_ref().unwrap(), &installed.version).unwrap();
    let wanted = names.iter().map(|&module| Wanted {
        module: module.to_owned(),
        reason: "the root".to_owned(),
    });
    let request = Request {
        init: Content::Bytes(Vec::new()),
        modules: wanted.collect(),
        deny: Vec::new(),
        files: Vec::new(),
        signatures: Signatures::Keep,
    };
    let plan = initramfs::plan(&request, &tree).unwrap();
    initramfs::build(&plan).unwrap().0
}

/// The part with the init and its program.
fn programs() -> Vec<u8> {
    let mut writer = Writer::default();
    for dir in ["root", "proc", "bin"] {
        writer.add(dir, DIR | 0o755, (0, 0), &[]).unwrap();
    }
    let busybox = fs::read(busybox()).unwrap();
    for (path, bytes) in [("bin/busybox", &*busybox), ("init", INIT.as_bytes())] {
        writer.add(path, FILE | 0o755, (0, 0), bytes).unwrap();
    }
    writer.finish().unwrap()
}

fn cause(verdict: &Value) -> &str {
    verdict["causes"][0]["cause"].as_str().unwrap()
}

fn good() {
    let scene = Scene::new();
    // An image that reads from another one, both as they were.
    let image = scene.path("image.qcow2");
    let (raw, layer) = (scene.disk.to_str().unwrap(), image.to_str().unwrap());
    let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", raw, layer];
    capture(&tool("qemu-img"), &words);
    let base = fs::read(&scene.disk).unwrap();
    let scene = Scene {
        disk: image,
        cmdline: format!("root=UUID={UUID} rw quiet"),
        ..scene
    };
    let verdict = scene.verdict(&[], 0);
    assert!(
        base == fs::read(scene.path("disk.img")).unwrap(),
        "it was written to"
    );
    assert_eq!(verdict["judgement"], "passed");
    assert_eq!(verdict["outcome"], "reached");
    assert_eq!(verdict["stage"], "root");
    assert_eq!(verdict["init"], "/sbin/init");
    assert_eq!(verdict["target"]["cmdline"], scene.cmdline);
    assert_eq!(verdict["vm"]["disks"][0]["bus"], "virtio-blk");
    assert_eq!(verdict["vm"]["departures"].as_array().unwrap().len(), 5);
}

fn unit() {
    let mut scene = Scene::new();
    scene.cmdline = format!("root=UUID={UUID} rw quiet");
    let text = scene.rehearse(&["--until", "multi-user.target"], 0).text();
    assert!(text.contains("Passed after "), "{text}");
    assert!(
        text.contains("systemd has started multi-user.target of the root"),
        "{text}"
    );
    assert!(
        text.contains("and here     console=ttyS0,115200: "),
        "{text}"
    );
}

fn truncated() {
    let mut scene = Scene::new();
    let packed = scene.packed();
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
    scene.initrds[1] = packed;
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["judgement"], "failed");
    assert_eq!(verdict["outcome"], "panicked", "{verdict:#}");
    assert_eq!(cause(&verdict), "initramfs");
    let advice = verdict["advice"].as_str().unwrap();
    assert!(
        advice.contains("make the initial RAM disk again"),
        "{advice}"
    );
}

fn without_file_system() {
    // The root is of a kind that no kernel of a distribution has built in.
    let mut scene = Scene::of(&["virtio_pci", "virtio_blk"]);
    let image = scene.path("root.erofs");
    disk("erofs", &scene.path("tree"), &image);
    scene.disk = image;
    scene.cmdline = "root=/dev/vda rootfstype=erofs ro".to_owned();
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["outcome"], "panicked", "{verdict:#}");
    assert_eq!(cause(&verdict), "file-system");
    assert_eq!(verdict["stage"], "initramfs");
    // It is the module that was missing.
    scene.initrds[0] = scene.path("more.img");
    let more = modules(&["virtio_pci", "virtio_blk", "erofs"]);
    fs::write(&scene.initrds[0], more).unwrap();
    assert_eq!(scene.verdict(&[], 0)["stage"], "root");
}

fn without_driver() {
    let scene = Scene::of(&["ext4"]);
    let finished = scene.rehearse(&[], 10);
    let text = finished.text();
    assert!(
        text.contains("the initial RAM disk ends in a shell for repairs"),
        "{text}"
    );
    assert!(
        text.contains(&format!("| ALERT!  UUID={UUID} does not exist.")),
        "{text}"
    );
    assert!(
        text.contains("the initial RAM disk lacks the driver"),
        "{text}"
    );
}

fn wrong_uuid() {
    let mut scene = Scene::new();
    scene.cmdline = "root=UUID=00000000-2d52-4f33-a7a4-0c5a2a3f6b10 ro".to_owned();
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["outcome"], "shell", "{verdict:#}");
    assert_eq!(cause(&verdict), "root-missing");
}

fn damaged() {
    let mut scene = Scene::new();
    let mut bytes = fs::read(&scene.kernel).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0x55);
    scene.kernel = scene.path("vmlinuz");
    fs::write(&scene.kernel, &bytes).unwrap();
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["outcome"], "corrupt", "{verdict:#}");
    fs::write(&scene.kernel, &bytes[..middle]).unwrap();
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["outcome"], "no-kernel");
    assert!(
        verdict["line"].as_str().unwrap().contains("truncated"),
        "{verdict:#}"
    );
}

fn wrong_init() {
    let mut scene = Scene::new();
    // The kernel would restart at once.
    scene.cmdline += " init=/nonexistent panic=-1";
    let verdict = scene.verdict(&[], 10);
    assert_eq!(verdict["outcome"], "panicked", "{verdict:#}");
    assert_eq!(cause(&verdict), "init");
    let line = verdict["line"].as_str().unwrap();
    assert!(line.contains("Attempted to kill init"), "{line}");
}

fn passphrase() {
    let mut scene = Scene::new();
    scene.cmdline += " passphrase";
    let verdict = scene.verdict(&[], 12);
    assert_eq!(verdict["judgement"], "undecided");
    // What the kernel says at that moment may come behind it.
    let line = verdict["line"].as_str().unwrap();
    assert!(line.starts_with("Please unlock disk vda_crypt:"), "{line}");
}

fn refused() {
    let scene = Scene::new();
    for (words, status, texts) in [
        (
            vec!["--disk", "/nonexistent.img"],
            125,
            vec!["cannot open /nonexistent.img"],
        ),
        (
            vec!["--memory", "900G"],
            125,
            vec!["MiB are available", "--memory"],
        ),
        (vec!["--memory", "64M"], 2, vec!["128 MiB at least"]),
        (
            vec!["--timeout", "soon"],
            2,
            vec!["--timeout", "not a duration"],
        ),
        (
            vec!["--until", "multi-user"],
            2,
            vec!["is no goal of a rehearsal"],
        ),
    ] {
        let _ = scene.rehearse(&words, status).explains(&texts);
    }
    // A file of a format that QEMU would have to guess.
    let vmdk = scene.path("disk.vmdk");
    let (raw, image) = (scene.disk.to_str().unwrap(), vmdk.to_str().unwrap());
    capture(&tool("qemu-img"), &["convert", "-O", "vmdk", raw, image]);
    let _ = scene.rehearse(&["--disk", image], 125).explains(&["VMDK"]);
    let mut long = scene;
    long.cmdline = "x".repeat(2040);
    let _ = long.rehearse(&[], 125).explains(&["the kernel takes 2047"]);
}

fn interrupted() {
    let mut scene = Scene::new();
    scene.cmdline = "root=/dev/vdz ro".to_owned();
    let running = brisk_of!["reboot", "rehearse"].args(scene.words()).spawn();
    let qemu = running.process("qemu-system");
    if rustix::process::geteuid().is_root() {
        let status = fs::read_to_string(format!("/proc/{}/status", qemu.pid)).unwrap();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user: Vec<_> = user.unwrap().split_whitespace().collect();
        assert!(user.iter().all(|number| *number != "0"), "{user:?}");
    }
    running.signal(Signal::INT);
    // Nothing is left: that is looked at after each run.
    let _ = running.wait().exited(130).explains(&["interrupted"]);
}

fn device() {
    let mut scene = Scene::new();
    let attached = Loop::new(&scene.disk);
    let image = std::mem::replace(&mut scene.disk, attached.name().into());
    scene.cmdline = format!("root=UUID={UUID} rw quiet");
    let before = fs::read(&image).unwrap();
    let verdict = scene.verdict(&[], 0);
    assert_eq!(verdict["vm"]["disks"][0]["written_meanwhile"], 0);
    drop(attached);
    assert!(before == fs::read(&image).unwrap(), "the disk has changed");
}
