//! Whether copies could bring anything nearer.

use super::{Findings, Rule, advice};
use crate::ktext::check::consequence::Consequence;
use crate::ktext::check::machine::Machine;
use crate::ktext::check::nodes::{Node, farthest};
use brisk_lint::Applies;

/// Distance up to which other memory counts as near: that of the parts of one socket. The memory of
/// another socket has 20 or more.
const NEAR: u32 = 12;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "one-node",
        applies: Applies::Host,
        why: "all memory is equally near, and a copy would be no nearer",
        source: "Linux: Documentation/mm/numa.rst",
        check: one_node,
    },
    Rule {
        id: "one-node-with-cpus",
        applies: Applies::Host,
        why: "its CPUs gain only if the kernel was loaded into the memory of another node",
        source: "Linux: kaslr.c of arch/x86/boot/compressed chooses any memory",
        check: one_with_cpus,
    },
    Rule {
        id: "near-nodes",
        applies: Applies::Host,
        why: "fetching instructions from there costs little more",
        source: "ACPI 6.5, 5.2.17, System Locality Information Table: 10 is local",
        check: near,
    },
    Rule {
        id: "virtual-machine",
        applies: Applies::Host,
        why: "the nodes of a guest are near and far only where its host keeps CPUs and memory in place",
        source: "libvirt: Format of domain XML, NUMA node tuning",
        check: virtual_machine,
    },
    Rule {
        id: "mixed-results",
        applies: Applies::Host,
        why: "on one such processor another implementation made more slower than faster",
        source: "linux-mm, thread of the x86 series of December 2023, measured again on an EPYC 7713: kill −54.2 % \
                 with cold caches, open −6.8 % with hot ones and +4.6 % with cold ones",
        check: mixed,
    },
];

fn one_node(on: &Machine, findings: &mut Findings) {
    if on.nodes.is_empty() {
        if on.has_sysfs {
            findings.add_with_evidence(
                Consequence::NoGain,
                "the kernel shows no NUMA nodes",
                "/sys/devices/system/node: no nodes",
                advice("a kernel with CONFIG_NUMA=y would show them, if the machine has any"),
            );
        } else {
            unknown(
                findings,
                "the NUMA nodes",
                "/sys/devices/system is not there",
            );
        }
        return;
    }
    let (with, maybe) = split(&on.nodes, Node::has_memory);
    if with.len() + maybe.len() < 2 {
        let (what, evidence) = match &*with {
            [] => (
                "no NUMA node has memory for the kernel",
                "on none".to_owned(),
            ),
            nodes => (
                "only one NUMA node has memory for the kernel",
                format!("on {}", names(nodes)),
            ),
        };
        findings.add_with_evidence(
            Consequence::NoGain,
            what,
            format!("/sys/devices/system/node: has_normal_memory, meminfo: {evidence}"),
            advice(
                "nothing, unless the firmware interleaves the memory of several sockets (Node \
                 Interleaving) or hides nodes (NPS, Sub-NUMA Clustering), the kernel's command line has \
                 numa=off, or memory is movable alone (movable_node, daxctl(1))",
            ),
        );
    } else if with.len() < 2 {
        let what = "which NUMA nodes have memory";
        unknown(findings, what, &format!("no meminfo of {}", names(&maybe)));
    }
}

fn one_with_cpus(on: &Machine, findings: &mut Findings) {
    let (memory, _) = split(&on.nodes, Node::has_memory);
    let (with, maybe) = split(&on.nodes, Node::is_served);
    // Other cases are the first rule's.
    if memory.len() < 2 || with.len() > 1 {
        return;
    }
    if !maybe.is_empty() {
        let what = "which NUMA nodes have CPUs";
        unknown(findings, what, &format!("no cpulist of {}", names(&maybe)));
        return;
    }
    let without: Vec<_> = memory
        .into_iter()
        .filter(|node| node.is_served() == Some(false))
        .collect();
    if with.is_empty() {
        findings.add_with_evidence(
            Consequence::Refuse,
            "no NUMA node has memory and CPUs",
            format!(
                "/sys/devices/system/node: memory without CPUs on {}",
                names(&without)
            ),
            advice("put memory into the slots of nodes that have CPUs"),
        );
        return;
    }
    findings.add_with_evidence(
        Consequence::Warn,
        "only one NUMA node has memory and CPUs",
        format!(
            "/sys/devices/system/node: CPUs on {}, none on {}",
            names(&with),
            names(&without)
        ),
        advice("see where it is: brisk ktext draw, or Kernel code in /proc/iomem"),
    );
}

fn near(on: &Machine, findings: &mut Findings) {
    let Some(distance) = farthest(&on.nodes).filter(|distance| *distance <= NEAR) else {
        return;
    };
    findings.add_with_evidence(
        Consequence::Warn,
        "the memory of other nodes is hardly farther away than that of their own",
        format!("/sys/devices/system/node/node*/distance: at most {distance}; 10 is local"),
        advice("measure: nodes of one socket share its caches"),
    );
}

fn virtual_machine(on: &Machine, findings: &mut Findings) {
    if on.has("hypervisor") {
        findings.add_with_evidence(
            Consequence::Warn,
            "this is a virtual machine",
            "/proc/cpuinfo: flags have hypervisor",
            advice(
                "have the host pin CPUs and memory of each node to one of its own (vcpupin, memnode), \
                 or measure on the host",
            ),
        );
    }
}

fn mixed(on: &Machine, findings: &mut Findings) {
    if on.processors.vendor == "AuthenticAMD" {
        findings.add_with_evidence(
            Consequence::Warn,
            format!("the processors are AMD's: {}", on.processors.model),
            "/proc/cpuinfo: vendor_id is AuthenticAMD",
            advice("measure both sides in one boot: brisk ktext off and on"),
        );
    }
}

/// Nodes that have something, and those of which that is not known.
fn split(nodes: &[Node], has: fn(&Node) -> Option<bool>) -> (Vec<&Node>, Vec<&Node>) {
    let of = |wanted| {
        nodes
            .iter()
            .filter(move |node| has(node) == wanted)
            .collect()
    };
    (of(Some(true)), of(None))
}

/// A finding that something which decides cannot be read.
pub(super) fn unknown(findings: &mut Findings, what: &str, evidence: &str) {
    findings.add_with_evidence(
        Consequence::Unknown,
        format!("{what}: not known"),
        evidence,
        advice("check the machine itself, or a copy of its /proc and /sys that has those files"),
    );
}

/// `node 2`, or `nodes 0, 2-3`.
pub(super) fn names(nodes: &[&Node]) -> String {
    let numbers: Vec<_> = nodes.iter().map(|node| node.number).collect();
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", crate::ktext::ranges(&numbers))
}

/// `node 2 has`, or `nodes 0, 2-3 have`.
pub(super) fn have(nodes: &[&Node]) -> String {
    let verb = if nodes.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", names(nodes))
}
