//! Texts and JSON of findings.

use super::scene::Scene;
use crate::ktext::check::{json, text};

fn bad() -> Scene {
    let scene = Scene::new();
    scene.processor("GenuineIntel", "lm la57 hypervisor");
    scene.file("boot/config-6.12.117", "");
    scene.file("proc/sys/kernel/osrelease", "6.12.117\n");
    scene.file("proc/iomem", "");
    scene.file("sys/power/resume", "8:\u{1b}[2J3\n");
    scene
}

#[test]
fn findings_are_shown_with_evidence_the_worst_first() {
    let machine = bad().read();
    insta::assert_snapshot!(text(&machine, &machine.findings()), @"
    Kernel      6.12.117, built without replication (/boot/config-6.12.117)
    Processors  Some GenuineIntel 8000
    Memory cost on 1 node not known: text not known, read-only data not known, modules at most 3.0 MB, page tables not known, and of processes at most 8 kB
            cpus  memory   free     distances
    node 0  0-7   62.8 GB  58.0 GB  10 21
    node 1  8-15  63.0 GB  58.2 GB  21 10
    refuse: the kernel uses 5-level page tables [la57]
        seen: /proc/cpuinfo: flags have la57
        so:   the series copies 4-level page tables
        fix:  boot with no5lvl
    warn: this is a virtual machine [virtual-machine]
        seen: /proc/cpuinfo: flags have hypervisor
        so:   the nodes of a guest are near and far only where its host keeps CPUs and memory in place
        fix:  have the host pin CPUs and memory of each node to one of its own (vcpupin, memnode), or measure on the host
    warn: the machine is set up to hibernate [hibernation]
        seen: /sys/power/resume is 8:�[2J3
        so:   the kernel refuses to hibernate while it has copies
        fix:  suspend to RAM, or boot without ktext_repl=on where it has to hibernate
    note: Linux 6.12.117 was built without replication [kernel-without]
        seen: /boot/config-6.12.117: no CONFIG_KTEXT_REPLICATION=y
        so:   whether this machine gains can be measured only with such a kernel
        fix:  boot a kernel with the patch series, and measure both sides in one boot
    Not read: size of the kernel: /proc/iomem shows it to root alone
    Refused: a kernel with the patch series would not replicate its text on this machine as it was booted (1 finding).
    ");
}

#[test]
fn a_machine_that_could_gain_is_described() {
    let scene = Scene::new();
    scene.stats("1", "");
    let machine = scene.read();
    insta::assert_snapshot!(text(&machine, &machine.findings()), @"
    Kernel      6.12.117, built with replication (/boot/config-6.12.117)
    Replication on, 1 slot beside the master
    Processors  Some GenuineIntel 8000
    Memory cost on 1 node up to 25.1 MB: text 16.0 MB, read-only data 6.0 MB, modules at most 3.0 MB, page tables 68 kB, and of processes at most 8 kB
            cpus  memory   free     distances
    node 0  0-7   62.8 GB  58.0 GB  10 21
    node 1  8-15  63.0 GB  58.2 GB  21 10
    Could gain: measure it with a kernel that has the patch series.
    ");
}

#[test]
fn programs_get_the_verdict_and_each_rule() {
    let machine = bad().read();
    let mut value = json(&machine, &machine.findings());
    let rules = value["rules"].as_array_mut().unwrap();
    assert_eq!(rules.len(), super::descriptions().len());
    rules.retain(|rule| rule["result"] != "pass");
    let mut taken = |name: &str| value.as_object_mut().unwrap().remove(name).unwrap();
    assert_eq!(taken("processors")["model"], "Some GenuineIntel 8000");
    let nodes = taken("nodes");
    let node = |number: usize, name: &str| nodes[number][name].to_string();
    assert_eq!(node(1, "cpus"), "[8,9,10,11,12,13,14,15]");
    assert_eq!(node(1, "distances"), "[21,10]");
    assert_eq!(node(0, "memory"), "67422601216");
    assert_eq!(node(0, "free"), "62302601216");
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap(), @r#"
    {
      "built_with_replication": false,
      "command_line": "root=/dev/sda2 ro quiet",
      "cost": {
        "of": {
          "modules": 3145728,
          "nodes": 1,
          "page_tables": null,
          "processes": 8192,
          "rodata": null,
          "text": null
        },
        "on_a_node": null
      },
      "findings": [
        {
          "consequence": "refuse",
          "effect": "the series copies 4-level page tables",
          "evidence": "/proc/cpuinfo: flags have la57",
          "fix": "boot with no5lvl",
          "rule": "la57",
          "what": "the kernel uses 5-level page tables",
          "where": null
        },
        {
          "consequence": "warn",
          "effect": "the nodes of a guest are near and far only where its host keeps CPUs and memory in place",
          "evidence": "/proc/cpuinfo: flags have hypervisor",
          "fix": "have the host pin CPUs and memory of each node to one of its own (vcpupin, memnode), or measure on the host",
          "rule": "virtual-machine",
          "what": "this is a virtual machine",
          "where": null
        },
        {
          "consequence": "warn",
          "effect": "the kernel refuses to hibernate while it has copies",
          "evidence": "/sys/power/resume is 8:\u001b[2J3",
          "fix": "suspend to RAM, or boot without ktext_repl=on where it has to hibernate",
          "rule": "hibernation",
          "what": "the machine is set up to hibernate",
          "where": null
        },
        {
          "consequence": "note",
          "effect": "whether this machine gains can be measured only with such a kernel",
          "evidence": "/boot/config-6.12.117: no CONFIG_KTEXT_REPLICATION=y",
          "fix": "boot a kernel with the patch series, and measure both sides in one boot",
          "rule": "kernel-without",
          "what": "Linux 6.12.117 was built without replication",
          "where": null
        }
      ],
      "replication": {
        "absent": "the kernel 6.12.117 does not replicate its text: /boot/config-6.12.117 has no CONFIG_KTEXT_REPLICATION=y; boot a kernel with the patch series, if brisk ktext check finds that it could be worth it"
      },
      "rules": [
        {
          "result": "warn",
          "rule": "virtual-machine",
          "source": "libvirt: Format of domain XML, NUMA node tuning"
        },
        {
          "result": "refuse",
          "rule": "la57",
          "source": "the patch series; Linux: Documentation/arch/x86/x86_64/5level-paging.rst"
        },
        {
          "result": "warn",
          "rule": "hibernation",
          "source": "the patch series: hibernation_available of kernel/power/hibernate.c"
        },
        {
          "result": "note",
          "rule": "kernel-without",
          "source": "Linux: /proc/config.gz, /boot/config-RELEASE"
        }
      ],
      "running": "6.12.117",
      "schema": "brisk.ktext.check/1",
      "unread": [
        "size of the kernel: /proc/iomem shows it to root alone"
      ],
      "verdict": "refused"
    }
    "#);
}
