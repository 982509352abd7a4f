//! What each rule finds, and what it does not.

use super::scene::{RELEASE, Scene};
use crate::ktext::check::Consequence;
use Consequence::{NoGain, Note, Refuse, Unknown, Warn};

/// What a rule finds, and what it does not.
pub(super) struct Case {
    /// Name of the rule.
    pub(super) rule: &'static str,
    /// Part of what it finds.
    pub(super) words: &'static str,
    /// What follows.
    pub(super) consequence: Consequence,
    /// Makes it find something.
    pub(super) bad: fn(&Scene),
    /// Makes it nearly find something.
    pub(super) near: fn(&Scene),
}

fn cmdline(scene: &Scene, text: &str) {
    scene.file("proc/cmdline", &format!("root=/dev/sda2 {text}\n"));
}

/// A kernel from before the files and flags that later ones have.
fn old_kernel(scene: &Scene) {
    scene.file("proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64\n");
}

fn remove(scene: &Scene, path: &str) {
    std::fs::remove_file(scene.root().join(path)).unwrap();
}

/// The directory of a node in sysfs.
fn of_node(name: &str) -> String {
    format!("sys/devices/system/node/{name}")
}

const MELTDOWN: &str = "sys/devices/system/cpu/vulnerabilities/meltdown";
const ITS: &str = "sys/devices/system/cpu/vulnerabilities/indirect_target_selection";

fn flags(scene: &Scene, text: &str) {
    scene.processor("GenuineIntel", &format!("fpu lm {text} nx"));
}

pub(super) const CASES: &[Case] = &[
    Case {
        rule: "one-node",
        words: "only one NUMA node has memory for the kernel",
        consequence: NoGain,
        bad: |scene| scene.memory(1, 0),
        near: |scene| scene.memory(1, 4),
    },
    Case {
        rule: "one-node",
        words: "only one NUMA node has memory for the kernel",
        consequence: NoGain,
        // The other one's is movable alone.
        bad: |scene| scene.file(&of_node("has_normal_memory"), "0\n"),
        near: |scene| scene.file(&of_node("has_normal_memory"), "0-1\n"),
    },
    Case {
        rule: "one-node",
        words: "no NUMA node has memory",
        consequence: NoGain,
        bad: |scene| scene.file(&of_node("has_normal_memory"), "\n"),
        near: |scene| scene.file(&of_node("has_normal_memory"), "x\n"),
    },
    Case {
        rule: "one-node",
        words: "which NUMA nodes have memory: not known",
        consequence: Unknown,
        bad: |scene| {
            remove(scene, &of_node("node0/meminfo"));
            scene.file(&of_node("node1/meminfo"), "Node 1 MemTotal: many kB\n");
        },
        near: |scene| {
            remove(scene, &of_node("node1/meminfo"));
            scene.file(&of_node("has_normal_memory"), "0-1\n");
        },
    },
    Case {
        rule: "one-node",
        words: "the NUMA nodes: not known",
        consequence: Unknown,
        bad: |scene| std::fs::remove_dir_all(scene.root().join("sys")).unwrap(),
        near: |_| {},
    },
    Case {
        rule: "one-node",
        words: "shows no NUMA nodes",
        consequence: NoGain,
        bad: |scene| std::fs::remove_dir_all(scene.root().join("sys/devices/system/node")).unwrap(),
        near: |_| {},
    },
    Case {
        rule: "one-node-with-cpus",
        words: "only one NUMA node has memory and CPUs",
        consequence: Warn,
        bad: |scene| scene.node(1, "", "66044900", "0", "21 10"),
        // One node without memory is another rule's.
        near: |scene| scene.memory(1, 0),
    },
    Case {
        rule: "one-node-with-cpus",
        words: "no NUMA node has memory and CPUs",
        consequence: Refuse,
        bad: |scene| {
            scene.node(0, "", "66044900", "0", "10 21");
            scene.node(1, "", "66044900", "0", "21 10");
            scene.node(2, "0-7", "0", "0", "21 21");
        },
        // CPUs that are offline may come back.
        near: |scene| {
            for node in 0..2 {
                scene.node(node, "", "66044900", "0", "10 21");
                scene.directory(&of_node(&format!("node{node}/cpu{node}")));
            }
        },
    },
    Case {
        rule: "one-node-with-cpus",
        words: "which NUMA nodes have CPUs: not known",
        consequence: Unknown,
        bad: |scene| remove(scene, &of_node("node1/cpulist")),
        near: |scene| {
            remove(scene, &of_node("node1/cpulist"));
            scene.file(&of_node("node1/cpumap"), "00000000,0000ff00\n");
        },
    },
    Case {
        rule: "near-nodes",
        words: "hardly farther away",
        consequence: Warn,
        bad: |scene| {
            scene.node(0, "0-7", "65842384", "0", "10 12");
            scene.node(1, "8-15", "66044900", "0", "11 10");
        },
        // One way is enough.
        near: |scene| scene.node(0, "0-7", "65842384", "0", "10 12"),
    },
    Case {
        rule: "virtual-machine",
        words: "virtual machine",
        consequence: Warn,
        bad: |scene| flags(scene, "hypervisor"),
        near: |scene| flags(scene, "hypervisor_x"),
    },
    Case {
        rule: "mixed-results",
        words: "AMD's: Some AuthenticAMD 8000",
        consequence: Warn,
        bad: |scene| scene.processor("AuthenticAMD", "lm"),
        near: |scene| scene.processor("HygonGenuine", "lm"),
    },
    Case {
        rule: "not-x86-64",
        words: "no x86-64 machine",
        consequence: Refuse,
        bad: |scene| scene.file("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n"),
        near: |_| {},
    },
    Case {
        rule: "not-x86-64",
        words: "no x86-64 machine",
        consequence: Refuse,
        bad: |scene| scene.processor("GenuineIntel", "fpu pae nx"),
        near: |_| {},
    },
    Case {
        rule: "not-x86-64",
        words: "the processors: not known",
        consequence: Unknown,
        bad: |scene| remove(scene, "proc/cpuinfo"),
        near: |_| {},
    },
    Case {
        rule: "rodata-off",
        words: "can be written",
        consequence: Refuse,
        bad: |scene| cmdline(scene, "rodata=on rodata=off rodata=full"),
        near: |scene| cmdline(scene, "rodata=off xrodata=off rodata=on"),
    },
    Case {
        rule: "xen-pv",
        words: "paravirtualised guest of Xen",
        consequence: Refuse,
        bad: |scene| {
            scene.file("sys/hypervisor/type", "xen\n");
            scene.file("sys/hypervisor/guest_type", "PV\n");
        },
        near: |scene| {
            scene.file("sys/hypervisor/type", "xen\n");
            scene.file("sys/hypervisor/guest_type", "PVH\n");
        },
    },
    Case {
        rule: "hyper-v",
        words: "guest of Hyper-V",
        consequence: Refuse,
        bad: |scene| scene.directory("sys/bus/vmbus/devices"),
        near: |scene| scene.directory("sys/bus/vmbus_x"),
    },
    Case {
        rule: "hyper-v",
        words: "guest of Hyper-V",
        consequence: Refuse,
        bad: |scene| {
            scene.file(
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
                "hyperv_clocksource_tsc_page acpi_pm\n",
            );
        },
        near: |scene| {
            scene.file(
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
                "kvm-clock tsc\n",
            );
        },
    },
    Case {
        rule: "memory-encryption",
        words: "(SME)",
        consequence: Refuse,
        bad: |scene| flags(scene, "sme"),
        near: |scene| {
            flags(scene, "sme");
            cmdline(scene, "mem_encrypt=on mem_encrypt=off");
        },
    },
    Case {
        rule: "memory-encryption",
        words: "(SME)",
        consequence: Refuse,
        // The configuration decides; Linux 6.1 and later say what is so.
        bad: |scene| {
            flags(scene, "sme");
            old_kernel(scene);
            scene.file(
                "boot/config-3.10.0-1160.el7.x86_64",
                "CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT=y\n",
            );
        },
        near: |scene| {
            flags(scene, "sme");
            old_kernel(scene);
            scene.file("boot/config-3.10.0-1160.el7.x86_64", "CONFIG_NUMA=y\n");
        },
    },
    Case {
        rule: "memory-encryption",
        words: "may be encrypted (SME)",
        consequence: Warn,
        bad: |scene| {
            flags(scene, "sme");
            old_kernel(scene);
        },
        near: |scene| {
            flags(scene, "sme");
            old_kernel(scene);
            cmdline(scene, "mem_encrypt=off");
        },
    },
    Case {
        rule: "memory-encryption",
        words: "guest whose memory is encrypted",
        consequence: Refuse,
        bad: |scene| flags(scene, "tdx_guest"),
        // The processor could encrypt guests.
        near: |scene| flags(scene, "sev sev_es"),
    },
    Case {
        rule: "memory-encryption",
        words: "guest whose memory is encrypted",
        consequence: Refuse,
        bad: |scene| scene.directory("sys/devices/platform/sev-guest"),
        near: |scene| scene.directory("sys/devices/platform/serial8250"),
    },
    Case {
        rule: "la57",
        words: "5-level page tables",
        consequence: Refuse,
        bad: |scene| flags(scene, "la57"),
        near: |scene| cmdline(scene, "no5lvl"),
    },
    Case {
        rule: "page-table-isolation",
        words: "isolates page tables",
        consequence: Refuse,
        bad: |scene| flags(scene, "pti"),
        near: |scene| flags(scene, "ptixy"),
    },
    Case {
        rule: "page-table-isolation",
        words: "isolates page tables",
        consequence: Refuse,
        // Kernels of distributions that are older than the flag.
        bad: |scene| {
            old_kernel(scene);
            scene.file(MELTDOWN, "Mitigation: PTI\n");
        },
        near: |scene| {
            old_kernel(scene);
            scene.file(MELTDOWN, "Vulnerable\n");
        },
    },
    Case {
        rule: "page-table-isolation",
        words: "because of Meltdown: not known",
        consequence: Unknown,
        bad: |scene| {
            old_kernel(scene);
            remove(scene, MELTDOWN);
        },
        near: |scene| remove(scene, MELTDOWN),
    },
    Case {
        rule: "page-table-isolation",
        words: "because of Meltdown: not known",
        consequence: Unknown,
        bad: |scene| {
            remove(scene, "proc/sys/kernel/osrelease");
            remove(scene, MELTDOWN);
        },
        near: |scene| {
            old_kernel(scene);
            remove(scene, MELTDOWN);
            scene.processor("AuthenticAMD", "lm");
        },
    },
    Case {
        rule: "page-table-isolation",
        words: "because of Meltdown: not known",
        consequence: Unknown,
        bad: |scene| {
            remove(scene, "proc/sys/kernel/osrelease");
            scene.file("proc/version", "Linux version 4.14.9-1 (a@b) #1 SMP\n");
            remove(scene, MELTDOWN);
        },
        near: |scene| {
            remove(scene, "proc/sys/kernel/osrelease");
            scene.file("proc/version", "Linux version 4.15.0 (a@b) #1 SMP\n");
            remove(scene, MELTDOWN);
        },
    },
    Case {
        rule: "memory-cost",
        words: "node 1 has 1000.0 MB",
        consequence: Warn,
        bad: |scene| scene.memory(1, 1_024_000),
        near: |scene| scene.memory(1, 1_500_000),
    },
    Case {
        rule: "memory-cost",
        words: "node 1 has 1000.0 MB",
        consequence: Warn,
        bad: |scene| scene.memory(1, 1_024_000),
        // A node that gets no copy.
        near: |scene| scene.node(2, "", "1024", "0", "21 21 10"),
    },
    Case {
        rule: "node-without-cpus",
        words: "nodes 2-3 have memory and no CPUs",
        consequence: Note,
        bad: |scene| {
            scene.node(2, "", "4096", "0", "21 21 10");
            scene.node(3, "", "4096", "0", "21 21 21 10");
        },
        near: |scene| scene.node(2, "16", "4096", "0", "21 21 10"),
    },
    Case {
        rule: "node-without-memory",
        words: "node 2 has CPUs and no memory",
        consequence: Note,
        bad: |scene| scene.node(2, "16", "0", "0", "21 21 10"),
        near: |scene| scene.node(2, "", "0", "0", "21 21 10"),
    },
    Case {
        rule: "its-thunks",
        words: "go through thunks",
        consequence: Note,
        bad: |scene| scene.file(ITS, "Mitigation: Aligned branch/return thunks\n"),
        near: |scene| scene.file(ITS, "Mitigation: Retpolines, Stuffing RSB\n"),
    },
    Case {
        rule: "hibernation",
        words: "set up to hibernate",
        consequence: Warn,
        bad: |scene| scene.file("sys/power/resume", "259:2\n"),
        near: |scene| scene.file("sys/power/resume", "0:0\n"),
    },
    Case {
        rule: "kernel-without",
        words: "Linux 6.12.117 was built without",
        consequence: Note,
        bad: |scene| scene.file(&format!("boot/config-{RELEASE}"), "CONFIG_NUMA=y\n"),
        // Not known is another thing.
        near: |scene| std::fs::remove_file(scene.root().join("boot/config-6.12.117")).unwrap(),
    },
    Case {
        rule: "replication-off",
        words: "does not: fewer than two nodes",
        consequence: Note,
        bad: |scene| scene.stats("0", "fewer than two nodes"),
        near: |scene| scene.stats("1", ""),
    },
    Case {
        rule: "replication-off",
        words: "brisk ktext on",
        consequence: Note,
        bad: |scene| scene.stats("0", ""),
        // A file that is none of the kernel's.
        near: |scene| scene.file("sys/kernel/debug/ktext_repl/stats", "active 0\n"),
    },
];
