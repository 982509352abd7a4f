//! What each rule finds, and what it does not.

use super::scene::{RELEASE, Scene};
use crate::ktext::check::Consequence;
use Consequence::{NoGain, Note, Refuse, Warn};

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

fn flags(scene: &Scene, text: &str) {
    scene.processor("GenuineIntel", &format!("fpu lm {text} nx"));
}

pub(super) const CASES: &[Case] = &[
    Case {
        rule: "one-node",
        words: "only one NUMA node has memory",
        consequence: NoGain,
        bad: |scene| scene.memory(1, 0),
        near: |scene| scene.memory(1, 4),
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
        rule: "memory-cost",
        words: "node 1 has 1000.0 MB",
        consequence: Warn,
        bad: |scene| scene.memory(1, 1_024_000),
        near: |scene| scene.memory(1, 1_500_000),
    },
    Case {
        rule: "node-without-cpus",
        words: "node 2-3 has memory and no CPUs",
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
