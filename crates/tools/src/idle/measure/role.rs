//! Role of a QEMU thread, from its name.
//!
//! QEMU names its threads with `-name debug-threads=on`, which libvirt sets. Names are those of
//! QEMU 7.2 to 10.2: `accel/*/*-accel-ops*.c` and `accel/kvm` for virtual CPUs, `iothread.c`,
//! `util/thread-pool.c`, `util/rcu.c`, `ui/vnc-jobs.c`, `migration/`; `server/red-worker.cpp` of
//! SPICE, `drivers/vhost/vhost.c`, `arch/x86/kvm/i8254.c`, `arch/x86/kvm/mmu/mmu.c` and `io_uring/`
//! of the kernel. A name is cut to 15 bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a thread of a QEMU, or a thread of the kernel that belongs to one, is there for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A virtual CPU: its index.
    Vcpu(u32),
    /// All virtual CPUs in one thread (TCG with `thread=single` or `-icount`).
    AllVcpus,
    /// The main loop: timers, and devices without an iothread.
    Main,
    /// An iothread: its id, as far as it fits.
    Iothread(String),
    /// Thread pool, or a worker of io_uring: disk accesses that block.
    Worker,
    /// vhost: packets of a network card.
    Vhost,
    /// VNC, SPICE or another display.
    Display,
    /// Migration.
    Migration,
    /// RCU: frees memory in the background.
    Rcu,
    /// A thread of the kernel's for this guest, such as `kvm-pit/4711`.
    Kernel(String),
    /// A process beside QEMU, such as `swtpm`.
    Helper(String),
    /// The thread has no name of its own: QEMU runs without `debug-threads=on`.
    Unnamed,
    /// Another thread: its name.
    Other(String),
}

/// Bytes of a thread's name that the kernel keeps (`TASK_COMM_LEN` without the NUL).
const NAME: usize = 15;

impl Role {
    /// The role of a thread of a QEMU.
    ///
    /// `process` has the names that a thread without a name of its own inherits: that of the main
    /// thread, and the file name of the program.
    #[must_use]
    pub fn of_thread(name: &str, is_main: bool, process: &[&str]) -> Self {
        if is_main {
            return Self::Main;
        }
        if let Some(index) = vcpu(name) {
            return Self::Vcpu(index);
        }
        if let Some(id) = name.strip_prefix("IO ") {
            return Self::Iothread(id.to_owned());
        }
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match name {
            "ALL CPUs/TCG" => Self::AllVcpus,
            // glib's thread pool, which GTK and usbredir use, is none of QEMU's.
            "worker" => Self::Worker,
            "call_rcu" => Self::Rcu,
            "vnc_worker" | "SPICE Worker" => Self::Display,
            _ if starts(&["iou-wrk-", "iou-sqp-"]) => Self::Worker,
            // Part of the process since Linux 6.4 (`kernel/vhost_task.c`).
            _ if starts(&["vhost-"]) => Self::Vhost,
            _ if starts(&["kvm-"]) => Self::Kernel(name.to_owned()),
            // `mig/src/main`, `mig/dst/recv_0` (9.1); `live_migration`, `multifdsend_0` before.
            _ if starts(&["mig/", "live_migration", "multifd", "postcopy/", "colo"]) => {
                Self::Migration
            }
            _ if process.iter().any(|own| same_name(own, name)) => Self::Unnamed,
            _ => Self::Other(name.to_owned()),
        }
    }

    /// The role of a thread of the kernel, and the QEMU it belongs to, if its name says so.
    #[must_use]
    pub fn of_kernel_thread(name: &str) -> Option<(u32, Self)> {
        let (start, pid) = name.rsplit_once(['-', '/'])?;
        // Digits only: no sign.
        let pid = Some(pid).filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))?;
        let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
        match start {
            "vhost" => Some((pid, Self::Vhost)),
            _ if start.starts_with("kvm-") => Some((pid, Self::Kernel(start.to_owned()))),
            _ => None,
        }
    }

    /// Whether it runs the guest's code.
    #[must_use]
    pub fn is_vcpu(&self) -> bool {
        matches!(self, Self::Vcpu(_) | Self::AllVcpus)
    }
}

/// `CPU 0/KVM`, `CPU 0/TCG` and those of other accelerators.
fn vcpu(name: &str) -> Option<u32> {
    let (index, accelerator) = name.strip_prefix("CPU ")?.split_once('/')?;
    let digits = index.bytes().all(|byte| byte.is_ascii_digit());
    // Cut in a guest of very many virtual CPUs.
    (digits && !accelerator.is_empty()).then(|| index.parse().ok())?
}

/// Whether a thread that inherited `own` is called so.
fn same_name(own: &str, name: &str) -> bool {
    let kept = own.bytes().take(NAME);
    !name.is_empty() && kept.eq(name.bytes())
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vcpu(index) => write!(formatter, "vCPU {index}"),
            Self::AllVcpus => formatter.write_str("all vCPUs"),
            Self::Main => formatter.write_str("main"),
            Self::Iothread(id) => write!(formatter, "iothread {id}"),
            Self::Worker => formatter.write_str("worker"),
            Self::Vhost => formatter.write_str("vhost"),
            Self::Display => formatter.write_str("display"),
            Self::Migration => formatter.write_str("migration"),
            Self::Rcu => formatter.write_str("RCU"),
            Self::Kernel(name) => write!(formatter, "kernel: {name}"),
            Self::Helper(name) => formatter.write_str(name),
            Self::Unnamed => formatter.write_str("unnamed"),
            Self::Other(name) => write!(formatter, "other: {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn role(name: &str) -> Role {
        Role::of_thread(name, false, &["qemu-system-x86_64"])
    }

    #[test]
    fn names_of_qemu_and_of_the_kernel_have_roles() {
        let cases = [
            ("CPU 0/KVM", Role::Vcpu(0)),
            ("CPU 17/TCG", Role::Vcpu(17)),
            ("ALL CPUs/TCG", Role::AllVcpus),
            ("IO iothread0", Role::Iothread("iothread0".into())),
            ("IO mon_iothread", Role::Iothread("mon_iothread".into())),
            ("worker", Role::Worker),
            ("iou-wrk-4711", Role::Worker),
            ("vnc_worker", Role::Display),
            ("SPICE Worker", Role::Display),
            ("call_rcu", Role::Rcu),
            ("vhost-4711", Role::Vhost),
            ("kvm-nx-lpage-re", Role::Kernel("kvm-nx-lpage-re".into())),
            ("mig/src/main", Role::Migration),
            ("live_migration", Role::Migration),
            ("qemu-system-x86", Role::Unnamed),
            ("gmain", Role::Other("gmain".into())),
            ("CPU x/KVM", Role::Other("CPU x/KVM".into())),
            ("CPU 0/", Role::Other("CPU 0/".into())),
            ("CPU +1/KVM", Role::Other("CPU +1/KVM".into())),
            ("", Role::Other(String::new())),
        ];
        for (name, expected) in cases {
            assert_eq!(role(name), expected, "{name}");
        }
        // The main thread is known by its number, whatever its name.
        assert_eq!(Role::of_thread("CPU 0/KVM", true, &[]), Role::Main);
        assert_eq!(Role::of_thread("web", false, &["web"]), Role::Unnamed);
    }

    #[test]
    fn a_thread_of_the_kernel_names_its_qemu() {
        let pit = Role::Kernel("kvm-pit".into());
        let pages = Role::Kernel("kvm-nx-lpage-recovery".into());
        let cases = [
            ("vhost-4711", Some((4711, Role::Vhost))),
            ("kvm-pit/4711", Some((4711, pit))),
            ("kvm-nx-lpage-recovery-4711", Some((4711, pages))),
            // Cut, so that the number is not there.
            ("kvm-nx-lpage-re", None),
            ("kvm-irqfd-clean", None),
            ("kworker/0:1-events", None),
            ("vhost-0", None),
            ("vhost-+5", None),
            ("vhost-", None),
            ("scsi_eh_0", None),
        ];
        for (name, expected) in cases {
            assert_eq!(Role::of_kernel_thread(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_has_a_role(name in "\\PC{0,15}", process in "\\PC{0,20}") {
            let role = Role::of_thread(&name, false, &[&process]);
            prop_assert_ne!(role, Role::Main);
            let _ = Role::of_kernel_thread(&name);
        }

        #[test]
        fn indices_and_numbers_are_read_back(index: u32, pid in 1_u32..) {
            prop_assert_eq!(role(&format!("CPU {index}/KVM")), Role::Vcpu(index));
            let (found, _) = Role::of_kernel_thread(&format!("kvm-pit/{pid}")).unwrap();
            prop_assert_eq!(found, pid);
        }

        #[test]
        fn a_thread_without_a_name_has_that_of_its_process(process in "[a-z][a-z0-9-]{0,30}") {
            let kept: String = process.chars().take(NAME).collect();
            prop_assume!(role(&kept) == Role::Other(kept.clone()));
            prop_assert_eq!(Role::of_thread(&kept, false, &[&process]), Role::Unnamed);
        }
    }
}
