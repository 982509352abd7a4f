//! QEMU's command line for a machine of several nodes. Pure.

use brisk_vm::qemu::{Fds, SANDBOX};

use super::{EmulationError, MOST_CPUS, NODES};

/// Memory of the nodes, each a file.
pub(super) const MEMORY: i32 = Fds::FILESYSTEMS;
/// The plugin, the symbols that it counts by, and the table that it writes.
pub(super) const PLUGIN: i32 = 48;
pub(super) const SYMBOLS: i32 = 49;
pub(super) const TABLE: i32 = 50;

/// Memory of a node at least, MiB: the kernel of the tests takes 60 MiB of the first one.
const LEAST_MEMORY: u64 = 96;
/// Memory of all nodes at most, MiB: QEMU has a hole above, which the plugin would have to know.
const MOST_MEMORY: u64 = 2048;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Number of nodes.
    pub nodes: u32,
    /// CPUs of each node.
    pub cpus_of_node: u32,
    /// Memory of each node, MiB.
    pub memory_of_node: u64,
    /// Words of the kernel's command line beside those it needs.
    pub cmdline: String,
    /// Whether time is the number of instructions: CPUs then take turns, and a tick of the TSC is an
    /// instruction of one of them.
    pub counts: bool,
}

impl Plan {
    /// # Errors
    /// If the kernel or QEMU cannot have such a machine.
    pub(super) fn check(&self) -> Result<(), EmulationError> {
        let unfit = |text: String| Err(EmulationError::Unfit(text));
        if !NODES.contains(&self.nodes) || self.cpus_of_node == 0 {
            return unfit(format!(
                "a machine has {} to {} nodes of at least one CPU",
                NODES.start(),
                NODES.end()
            ));
        }
        let cpus = self.nodes.saturating_mul(self.cpus_of_node);
        if cpus > MOST_CPUS {
            return unfit(format!(
                "{cpus} CPUs: a machine has at most {MOST_CPUS}; fewer with --cpus"
            ));
        }
        let memory = u64::from(self.nodes).saturating_mul(self.memory_of_node);
        if self.memory_of_node < LEAST_MEMORY || memory > MOST_MEMORY {
            return unfit(format!(
                "{} MiB for each of {} nodes: a node has at least {LEAST_MEMORY} MiB, and all have \
                 at most {MOST_MEMORY} MiB",
                self.memory_of_node, self.nodes
            ));
        }
        Ok(())
    }

    /// CPUs of a node, numbered from 0.
    pub(in super::super) fn cpus(&self, node: u32) -> std::ops::Range<u32> {
        let first = node * self.cpus_of_node;
        first..first + self.cpus_of_node
    }

    /// Node of a CPU.
    pub(in super::super) const fn node_of(&self, cpu: u32) -> u32 {
        cpu / self.cpus_of_node
    }

    /// All CPUs.
    pub(in super::super) const fn all_cpus(&self) -> u32 {
        self.nodes * self.cpus_of_node
    }
}

/// Name of a node's memory, as the maps of QEMU have it.
pub(super) fn memory_name(node: u32) -> String {
    format!("brisk-node{node}")
}

/// QEMU's command line without the program's name. With a `mark`, the plugin counts, and a call of
/// that function ends a section.
pub(super) fn argv(plan: &Plan, mark: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
    add(&["-nodefaults", "-no-user-config", "-display", "none"]);
    add(&["-sandbox", SANDBOX]);
    // A reset is an end: the kernel has panicked.
    add(&["-no-reboot", "-M", "q35,usb=off,dump-guest-core=off"]);
    if plan.counts {
        add(&["-icount", "shift=0", "-accel", "tcg,thread=single"]);
    } else {
        add(&["-accel", "tcg,thread=multi"]);
    }
    // Not 5-level page tables, nor what is hidden from an AMD processor: page table isolation.
    add(&["-cpu", "qemu64,+smep,+smap"]);
    // A socket for each node: Linux warns of caches that two of them share.
    let sockets = plan.nodes;
    add(&["-smp", &format!("{},sockets={sockets}", plan.all_cpus())]);
    let memory = u64::from(plan.nodes) * plan.memory_of_node;
    add(&["-m", &format!("{memory}M")]);
    for node in 0..plan.nodes {
        add(&[
            "-object",
            &format!(
                "memory-backend-file,id=node{node},mem-path={},share=on,size={}M",
                Fds::path(MEMORY + node as i32),
                plan.memory_of_node
            ),
        ]);
        let cpus = plan.cpus(node);
        add(&[
            "-numa",
            &format!(
                "node,nodeid={node},memdev=node{node},cpus={}-{}",
                cpus.start,
                cpus.end - 1
            ),
        ]);
    }
    add(&["-chardev", &format!("socket,id=qmp,fd={}", Fds::QMP)]);
    add(&["-mon", "chardev=qmp,mode=control"]);
    let console = format!("socket,id=console,fd={}", Fds::CONSOLE);
    add(&["-chardev", &console, "-serial", "chardev:console"]);
    add(&["-kernel", &Fds::path(Fds::KERNEL)]);
    add(&["-initrd", &Fds::path(Fds::INITRAMFS)]);
    // The symbols are where they were linked. A busy host gives the timer's interrupt later than Linux
    // waits for it.
    let line = format!(
        "console=ttyS0 panic=-1 quiet nokaslr no_timer_check ktext_repl=on {}",
        plan.cmdline.trim()
    );
    add(&["-append", line.trim_end()]);
    if let Some(mark) = mark {
        let mut plugin = format!(
            "{},out={},symbols={},mark={mark},memory={}",
            Fds::path(PLUGIN),
            Fds::path(TABLE),
            Fds::path(SYMBOLS),
            plan.memory_of_node
        );
        for node in 0..plan.nodes {
            // As the kernel shows what has no name.
            plugin += &format!(",node=/memfd:{} (deleted)", memory_name(node));
        }
        add(&["-plugin", &plugin]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            nodes: 2,
            cpus_of_node: 2,
            memory_of_node: 256,
            cmdline: String::new(),
            counts: false,
        }
    }

    #[test]
    fn each_node_has_its_memory_and_its_cpus() {
        let words = argv(&plan(), Some("active_get"));
        let text = words.join(" ");
        for expected in [
            "-smp 4,sockets=2 -m 512M",
            "memory-backend-file,id=node1,mem-path=/proc/self/fd/33,share=on,size=256M",
            "-numa node,nodeid=1,memdev=node1,cpus=2-3",
            "-append console=ttyS0 panic=-1 quiet nokaslr no_timer_check ktext_repl=on -plugin",
            "/proc/self/fd/48,out=/proc/self/fd/50,symbols=/proc/self/fd/49,mark=active_get,memory=256,\
             node=/memfd:brisk-node0 (deleted),node=/memfd:brisk-node1 (deleted)",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("icount"));
        assert_eq!(plan().node_of(2), 1);
    }

    #[test]
    fn a_machine_that_counts_has_cpus_that_take_turns() {
        let counts = Plan {
            counts: true,
            cmdline: " ktext_repl=off ".into(),
            ..plan()
        };
        let text = argv(&counts, None).join(" ");
        assert!(text.contains("-icount shift=0 -accel tcg,thread=single"));
        // The last one counts.
        let line =
            "console=ttyS0 panic=-1 quiet nokaslr no_timer_check ktext_repl=on ktext_repl=off";
        assert!(text.ends_with(&format!("-append {line}")));
    }

    #[test]
    fn machines_have_bounds() {
        let refused = |plan: Plan| plan.check().unwrap_err().to_string();
        assert!(plan().check().is_ok());
        let nodes = refused(Plan { nodes: 9, ..plan() });
        assert!(nodes.contains("1 to 8 nodes"), "{nodes}");
        let cpus = refused(Plan {
            cpus_of_node: 9,
            ..plan()
        });
        assert!(cpus.contains("18 CPUs"), "{cpus}");
        for memory_of_node in [0, 95, 1025, u64::MAX] {
            let memory = refused(Plan {
                memory_of_node,
                ..plan()
            });
            assert!(memory.contains("at least 96 MiB"), "{memory}");
        }
    }
}
