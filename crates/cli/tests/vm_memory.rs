//! Machines that stay: where their memory is.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;

use brisk_testkit::{Brisk, Machines, brisk_of, lacks, qemu_is_before, tool, trial};
use libtest_mimic::Arguments;

const TARGET: &str = env!("CARGO_TARGET_TMPDIR");

fn main() {
    let old = qemu_is_before(8, 2);
    let mount = lacks("CAP_SYS_ADMIN", 21)
        .or_else(|| lacks("CAP_SYS_PTRACE", 19))
        .or_else(no_huge_pages);
    let drop = lacks("CAP_SETPCAP", 8);
    let tests = vec![
        trial("memory_goes_with_its_machine", old.clone(), goes),
        trial("memory_comes_in_huge_pages", old.clone().or(mount), huge),
        trial("memory_has_a_name_where_it_must", old.or(drop), named),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// The reason not to look for huge pages, if this host's kernel gives none to a tmpfs that asks.
fn no_huge_pages() -> Option<String> {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let said = fs::read_to_string(path).unwrap_or_else(|_| "[deny]".to_owned());
    said.contains("[deny]")
        .then(|| format!("without huge pages ({path})"))
}

/// The files with memory of machines.
fn files(all: &Machines) -> Vec<String> {
    let files = fs::read_dir(all.memory()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("vm-")).collect()
}

/// KiB of a machine's memory that its QEMU has in huge pages.
fn in_huge_pages(all: &Machines, name: &str) -> u64 {
    let pid = fs::read_to_string(all.memory().join("run/vm").join(name).join("pid")).unwrap();
    let (pid, _since) = pid.split_once(' ').unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let sizes = maps.lines().filter_map(|line| {
        let size = line.strip_prefix("ShmemPmdMapped:")?;
        size.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    sizes.sum()
}

/// It goes on as it was, from a suspend to a resume of both kinds.
fn stays_the_same(all: &Machines, name: &str) {
    let _ = all.tells(name, "echo kept > /run/file");
    for how in [&["--eager"][..], &[]] {
        let _ = all.does(&["suspend", name]);
        assert!(files(all).is_empty(), "{:?}", files(all));
        let _ = all.does(&[&["resume", name], how].concat());
        assert_eq!(all.tells(name, "cat /run/file"), "kept\n");
    }
}

fn goes() {
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    all.boot("a", &["--huge-pages=false"]);
    assert_eq!(in_huge_pages(&all, "a"), 0);
    assert!(files(&all).is_empty(), "{:?}", files(&all));
    stays_the_same(&all, "a");
    let _ = all.does(&["kill", "a"]);
}

fn huge() {
    let all = Machines::new(|| brisk_of!["vm"], TARGET);
    all.boot("a", &[]);
    // What the kernel itself takes.
    assert!(in_huge_pages(&all, "a") > 16 << 10);
    stays_the_same(&all, "a");
    // A lazy resume fills small pages.
    assert_eq!(in_huge_pages(&all, "a"), 0);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    assert!(in_huge_pages(&all, "a") > 16 << 10);
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
    stays_the_same(&all, "a");
    assert_eq!(files(&all).len(), 1);
    let _ = all.does(&["kill", "a"]);
    assert!(files(&all).is_empty());
}
