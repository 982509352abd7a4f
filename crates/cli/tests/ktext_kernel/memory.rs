//! Memory that is added to a running machine: far away, so that the kernel maps it by an entry of PGDs that
//! it had not before. And memory that is used although it is not, or no longer, what it is used as.

use brisk_testkit::{NumaKernel, NumaMachine};

use crate::copies::check_equal;
use crate::machine::{expect, machine, on_two, run, run_and_ask, variant};
use crate::{copies, failures, modules, storms};

/// Options of the kernel for memory hotplug and cpusets.
pub(super) const CONFIG: [&str; 2] = ["--config", "variants/memory.config"];

/// At 512 GiB, which is as much as one such entry maps, on the second node.
const ADDED: &str = "\
    object_add memory-backend-ram,id=more,size=1G\n\
    device_add pc-dimm,id=dimm,memdev=more,node=1,addr=0x8000000000\n";

/// PGDs that processes had are kept when memory is added. Then one that lives on, new ones, and one that
/// has a kept PGD use more of it on its node than there was before.
const USED: &str = "\
    storm 3 >/dev/null\n\
    section before; cat ktext_repl/verify\n\
    look\n\
    until [ $(awk '/MemTotal/ { print $2 }' /proc/meminfo) -gt 1000000 ]; do :; done\n\
    section after; cat ktext_repl/verify\n\
    taskset 4 dd if=/dev/zero of=/more bs=1M count=700 2>/dev/null; section used; echo $?\n\
    storm 5 >/dev/null; section storm; echo $?\n\
    section verify; cat ktext_repl/verify";

pub(super) fn check(kernel: &NumaKernel) -> Result<(), String> {
    let machine = NumaMachine {
        append: "nokaslr memhp_default_state=online_kernel",
        options: &["-m", "slots=1,maxmem=900G"],
        ..machine(kernel, 2)
    };
    let console = run_and_ask(&machine, USED, ADDED)?.console;
    check_equal(&console, "before")?;
    for section in ["after", "verify"] {
        check_equal(&console, section)?;
    }
    for section in ["used", "storm"] {
        let status = console.section(section).trim();
        expect(status == "0", format!("{section}: {status}"))?;
    }
    Ok(())
}

pub(super) fn is_added() {
    check(&variant("ktext-memory", &CONFIG)).unwrap();
}

/// In a cpuset that has memory of the first node alone, more processes than PGDs are kept, and then one on a
/// processor of the second.
const IN_CPUSET: &str = "\
    mkdir /cgroup; mount -t cgroup2 none /cgroup; echo +cpuset >/cgroup/cgroup.subtree_control\n\
    mkdir /cgroup/one; echo 0 >/cgroup/one/cpuset.mems; echo $$ >/cgroup/one/cgroup.procs\n\
    for process in $(seq 40); do sleep 1000 & done\n\
    taskset -c 2 sh -c 'echo >/runs; while :; do :; done' & last=$!\n\
    until [ -e /runs ]; do :; done\n\
    section mems; cat /cgroup/one/cpuset.mems.effective\n\
    section cpus; cat ktext_repl/cpus\n\
    kill $last";

/// PGDs are on their nodes although the cpuset of the process has others.
pub(super) fn check_cpuset(kernel: &NumaKernel) -> Result<(), String> {
    let machine = NumaMachine {
        append: "nokaslr",
        ..machine(kernel, 2)
    };
    let console = run(&machine, IN_CPUSET)?;
    let mems = console.section("mems").trim();
    expect(mems == "0", format!("memory of nodes {mems}"))?;
    let rows = console.rows("cpus", ["cpu", "node", "pgd_node", "verdict"]);
    let row = rows.into_iter().find(|row| row[0] == "2");
    let is_near = row == Some(["2", "1", "1", "own"].map(str::to_owned));
    expect(is_near, console.section("cpus"))
}

pub(super) fn is_near_in_cpusets() {
    check_cpuset(&variant("ktext-memory", &CONFIG)).unwrap();
}

/// What the kernel says when KASAN is at work.
const KASAN: &str = "section kasan; dmesg | grep -c 'KernelAddressSanitizer initialized'";

/// Modules, page tables of processes, hotplug, what modifies text and failing allocations, on a kernel with
/// KASAN, which maps no page that is free.
pub(super) fn is_used_rightly() {
    let kernel = variant("ktext-kasan", &["--config", "variants/kasan.config"]);
    let console = on_two(&kernel, KASAN).unwrap();
    assert_eq!(console.section("kasan").trim(), "1");
    modules::check(&kernel).unwrap();
    storms::check(&kernel, 10).unwrap();
    copies::check_poked(&kernel).unwrap();
    failures::check_boots_with_kasan(&kernel).unwrap();
}
