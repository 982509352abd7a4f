//! A machine below a directory: one that passes all rules, to be changed.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::ktext::check::Machine;

/// Release of the running kernel.
pub(super) const RELEASE: &str = "6.12.117";

/// A machine with two nodes.
pub(super) struct Scene(TempDir);

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.12.117\n"),
            ("proc/cmdline", "root=/dev/sda2 ro quiet\n"),
            (
                "proc/iomem",
                "00100000-bfffffff : System RAM\n  01000000-02000000 : Kernel code\n  \
                 02200000-027fffff : Kernel rodata\n  02800000-029fffff : Kernel data\n",
            ),
            (
                "proc/modules",
                "ext4 2097152 1 - Live 0x0000000000000000\nnvme 1048576 2 - Live 0x0000000000000000\n",
            ),
            ("proc/1/stat", "1 (init)\n"),
            ("proc/42/stat", "42 (sh)\n"),
            ("proc/self-not/stat", "\n"),
            (
                "boot/config-6.12.117",
                "CONFIG_NUMA=y\nCONFIG_KTEXT_REPLICATION=y\n",
            ),
            (
                "sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            ),
            ("sys/power/resume", "0:0\n"),
            (
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
                "tsc hpet acpi_pm\n",
            ),
        ] {
            scene.file(path, text);
        }
        scene.processor("GenuineIntel", "fpu lm nx pge");
        scene.node(0, "0-7", "65842384", "60842384", "10 21");
        scene.node(1, "8-15", "66044900", "61044900", "21 10");
        scene
    }

    pub(super) fn read(&self) -> Machine {
        Machine::read(self.0.path())
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn directory(&self, path: &str) {
        fs::create_dir_all(self.root().join(path)).unwrap();
    }

    pub(super) fn processor(&self, vendor: &str, flags: &str) {
        let text = format!(
            "processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: Some {vendor} 8000\n\
             flags\t\t: {flags}\n"
        );
        self.file("proc/cpuinfo", &text);
    }

    /// A node: its CPUs, its memory and what is free of that in KiB, and distances.
    pub(super) fn node(&self, number: u32, cpus: &str, all: &str, free: &str, distances: &str) {
        let place = format!("sys/devices/system/node/node{number}");
        self.file(&format!("{place}/cpulist"), &format!("{cpus}\n"));
        self.file(&format!("{place}/distance"), &format!("{distances}\n"));
        let meminfo = format!(
            "Node {number} MemTotal:       {all} kB\nNode {number} MemFree:        {free} kB\n"
        );
        self.file(&format!("{place}/meminfo"), &meminfo);
    }

    /// Memory of a node that has CPUs, KiB.
    pub(super) fn memory(&self, number: u32, all: u64) {
        let (cpus, distances) = match number {
            0 => ("0-7", "10 21"),
            _ => ("8-15", "21 10"),
        };
        self.node(number, cpus, &all.to_string(), "0", distances);
    }

    /// The kernel's counts.
    pub(super) fn stats(&self, active: &str, reason: &str) {
        let text = format!(
            "name\tvalue\nactive\t{active}\noff_reason\t{reason}\nslots\t1\nresident_pages\t512\n\
             module_pages\t0\npage_table_pages\t9\npage_alloc_failures\t0\npgtbl_alloc_failures\t0\n\
             pgd_alloc_failures\t0\n"
        );
        self.file("sys/kernel/debug/ktext_repl/stats", &text);
    }
}
