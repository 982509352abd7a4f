//! Persistent VMs: the files and pages that hold their memory.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::MetadataExt;

use brisk_testkit::{Brisk, Machines, brisk, brisk_of, lacks, qemu_is_before, tool, trial, until};
use libtest_mimic::Arguments;

const TARGET: &str = env!("CARGO_TARGET_TMPDIR");

fn main() {
    let old = qemu_is_before(8, 2);
    let mount = lacks("CAP_SYS_ADMIN", 21)
        .or_else(|| lacks("CAP_SYS_PTRACE", 19))
        .or_else(no_huge_pages);
    let drop = lacks("CAP_SETPCAP", 8);
    let root = lacks("CAP_SETUID", 7);
    let tests = vec![
        trial("no_two_qemus_are_one_user", root.clone(), users),
        trial("a_core_dump_has_no_guest", None::<String>, core),
        trial("a_host_without_users_for_it_is_reported", root, nobody),
        trial(
            "locked_memory_stays_locked",
            old.clone().or_else(not_root),
            locked,
        ),
        trial("memory_goes_with_its_machine", old.clone(), goes),
        trial("memory_comes_in_huge_pages", old.clone().or(mount), huge),
        trial("memory_has_a_name_where_it_must", old.or(drop), named),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// The reason not to look for huge pages, if this host's kernel gives none to a tmpfs that asks.
fn no_huge_pages() -> Option<String> {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let modes = fs::read_to_string(path).unwrap_or_else(|_| "[deny]".to_owned());
    modes
        .contains("[deny]")
        .then(|| format!("without huge pages ({path})"))
}

fn not_root() -> Option<String> {
    let root = rustix::process::geteuid().is_root();
    (!root).then(|| "only root may lock any amount of memory".to_owned())
}

/// How much of a VM's QEMU is locked, MiB.
fn locked_mib(all: &Machines, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid(all, name))).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib >> 10
}

fn locked() {
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    all.boot("a", &["--lock-memory"]);
    assert!(locked_mib(&all, "a") >= 128);
    assert_ne!(user(&all, "a"), 0);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a"]);
    // As long as its memory comes from the image, nothing is.
    until("all is locked again", || {
        (locked_mib(&all, "a") >= 128).then_some(())
    });
    assert_eq!(all.output("a", "echo on"), "on\n");
    all.boot("b", &[]);
    assert_eq!(locked_mib(&all, "b"), 0);
    let _ = brisk!["--root", "none", "--lock-memory"]
        .command(["true"])
        .exits(0);
}

/// The files with memory of VMs.
fn files(all: &Machines) -> Vec<String> {
    let files = fs::read_dir(all.memory()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("vm-")).collect()
}

fn pid(all: &Machines, name: &str) -> String {
    let pid = fs::read_to_string(all.memory().join("run/vm").join(name).join("pid")).unwrap();
    pid.split_once(' ').unwrap().0.to_owned()
}

/// The user of a VM's QEMU.
fn user(all: &Machines, name: &str) -> u32 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid(all, name))).unwrap();
    let line = |title: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(title));
        let words = line.unwrap().split_whitespace();
        words.map(|word| word.parse().unwrap()).collect::<Vec<_>>()
    };
    let (users, groups) = (line("Uid:"), line("Gid:"));
    assert_eq!(users, [users[0]; 4]);
    assert_eq!(groups, users);
    assert_eq!(line("Groups:"), [0_u32; 0]);
    users[0]
}

/// The files of a VM's memory are its QEMU's alone.
fn owns_its_memory(all: &Machines, name: &str) {
    const RAM: u32 = 6;
    let meta = fs::metadata(format!("/proc/{}/fd/{RAM}", pid(all, name))).unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o777), (user(all, name), 0o600));
}

fn users() {
    const NOBODY: u32 = 65534;
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    all.boot("a", &[]);
    all.boot("b", &["--huge-pages=false"]);
    let (a, b) = (user(&all, "a"), user(&all, "b"));
    assert_ne!(a, b);
    assert!(![0, NOBODY].iter().any(|other| [a, b].contains(other)));
    owns_its_memory(&all, "a");
    owns_its_memory(&all, "b");
    // As long as it runs, whoever started it.
    fn one_only() -> Brisk {
        brisk_of!["vm"].env("BRISK_UID_RANGE", "2000600000-2000600000")
    }
    let one = Machines::new(one_only, TARGET);
    one.boot("a", &[]);
    assert_eq!(user(&one, "a"), 2_000_600_000);
    let _ = one.does(&["create", "b", "--memory", "128M"]);
    one.refuses(&["start", "b"], &["2000600000", "BRISK_UID_RANGE"]);
}

fn core() {
    fn unlimited() -> Brisk {
        brisk_of!["vm"].in_shell("ulimit -S -c $(ulimit -H -c);", "")
    }
    let all = Machines::new(unlimited, TARGET);
    all.boot("a", &[]);
    let proc = |file| fs::read_to_string(format!("/proc/{}/{file}", pid(&all, "a"))).unwrap();
    let limits = proc("limits");
    let mut lines = limits.lines();
    let core = lines.find_map(|line| line.strip_prefix("Max core file size"));
    let soft = core.unwrap().split_whitespace().next();
    assert!(matches!(soft, Some("0" | "1")), "{limits}");
    // "dd" is what madvise(2) with MADV_DONTDUMP sets.
    let maps = proc("smaps");
    let large = maps
        .split_inclusive("VmFlags:")
        .zip(maps.split("VmFlags:").skip(1));
    let mut guests = large.filter(|(map, _)| {
        let size = map.lines().find_map(|line| line.strip_prefix("Size:"));
        let size = size.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        size.is_some_and(|size| size >= 120 << 10 && map.contains("rw-s"))
    });
    let (_, flags) = guests.next().unwrap();
    let flags = flags.lines().next().unwrap();
    assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
}

/// As in a container with few users.
fn nobody() {
    const NOBODY: u32 = 65534;
    fn mapped() -> Brisk {
        // The map is written by who is outside, as soon as there is something to map.
        let script = "dir=$(mktemp -d)
            mkfifo $dir/made $dir/mapped
            unshare --user sh -c 'echo > $0/made; read _ < $0/mapped; exec \"$@\"' $dir \"$@\" &
            read _ < $dir/made
            echo 0 0 65536 > /proc/$!/gid_map
            echo 0 0 65536 > /proc/$!/uid_map
            echo > $dir/mapped
            rm -r $dir
            wait $!";
        Brisk::new(tool("sh").to_str().unwrap(), TARGET)
            .args(["-c", script, "sh"])
            .args([env!("CARGO_BIN_EXE_brisk"), "vm"])
    }
    let all = Machines::new(mapped, TARGET);
    all.boot("a", &[]);
    assert_eq!(user(&all, "a"), NOBODY);
    owns_its_memory(&all, "a");
    let log = fs::read_to_string(all.state_dir("a").join("log")).unwrap();
    let message = "QEMU has no user of its own: the users 2100000000 to 2100065535 are not all in";
    assert!(log.contains(message), "{log}");
}

/// KiB of a VM's memory that its QEMU has in huge pages.
fn in_huge_pages(all: &Machines, name: &str) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/smaps", pid(all, name))).unwrap();
    let sizes = maps.lines().filter_map(|line| {
        let size = line.strip_prefix("ShmemPmdMapped:")?;
        size.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    sizes.sum()
}

/// Times that this host had no huge page for a file that asked for one, since its boot.
fn huge_pages_missed() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap();
    let mut lines = counters.lines();
    let count = lines.find_map(|line| line.strip_prefix("thp_file_fallback "));
    count.unwrap().parse().unwrap()
}

/// After `act`, a VM has in huge pages at least what the guest's kernel takes; or the host, whose
/// memory may be fragmented, was asked for them and had none.
fn has_huge_pages(all: &Machines, name: &str, act: impl FnOnce()) {
    let before = huge_pages_missed();
    act();
    let missed = huge_pages_missed() - before;
    let got = in_huge_pages(all, name);
    assert!(got > 16 << 10 || missed > 0, "{got} KiB, {missed} missed");
}

/// It goes on as it was, from a suspend to a resume of both kinds.
fn keeps_its_memory(all: &Machines, name: &str) {
    let _ = all.output(name, "echo kept > /run/file");
    for how in [&["--eager"][..], &[]] {
        let _ = all.does(&["suspend", name]);
        assert!(files(all).is_empty(), "{:?}", files(all));
        let _ = all.does(&[&["resume", name], how].concat());
        assert_eq!(all.output(name, "cat /run/file"), "kept\n");
    }
}

fn goes() {
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    all.boot("a", &["--huge-pages=false"]);
    assert_eq!(in_huge_pages(&all, "a"), 0);
    assert!(files(&all).is_empty(), "{:?}", files(&all));
    keeps_its_memory(&all, "a");
    let _ = all.does(&["kill", "a"]);
}

fn huge() {
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    has_huge_pages(&all, "a", || all.boot("a", &[]));
    keeps_its_memory(&all, "a");
    // A lazy resume fills small pages.
    assert_eq!(in_huge_pages(&all, "a"), 0);
    let _ = all.does(&["suspend", "a"]);
    has_huge_pages(&all, "a", || {
        let _ = all.does(&["resume", "a", "--eager"]);
    });
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["set", "a", "--huge-pages=false"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    assert_eq!(in_huge_pages(&all, "a"), 0);
}

/// A root that may not look into other processes, as in many containers.
fn named() {
    fn confined() -> Brisk {
        let kept = ["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"];
        let setpriv = tool("setpriv");
        Brisk::new(setpriv.to_str().unwrap(), TARGET)
            .args(kept)
            .args([env!("CARGO_BIN_EXE_brisk"), "vm"])
    }
    let all = Machines::new(confined, TARGET);
    all.boot("a", &[]);
    assert_eq!(files(&all).len(), 1);
    keeps_its_memory(&all, "a");
    assert_eq!(files(&all).len(), 1);
    let _ = all.does(&["kill", "a"]);
    assert!(files(&all).is_empty());
}
