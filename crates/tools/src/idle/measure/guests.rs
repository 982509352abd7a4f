//! QEMUs of this host.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use brisk_host::proc::Procfs;
use brisk_host::tasks::Task;
use brisk_vm::hardware::{GuestHardware, process};
use serde::{Deserialize, Serialize};

use super::helpers::Helpers;
use super::role::Role;
use crate::vm::{self, StateDirs, vcpu_threads};

/// What manages a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// libvirt: a domain.
    Domain,
    /// brisk: a persistent VM of this user.
    Vm,
    /// Something else, or nothing.
    Qemu,
}

/// A guest whose QEMU runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Process number of its QEMU.
    pub pid: u32,
    /// Its name; None if QEMU was given none.
    pub name: Option<String>,
    /// What manages it.
    pub kind: Kind,
    /// File name of the program.
    pub program: String,
    /// `kvm` or `tcg`, or another accelerator in QEMU's spelling: the first that QEMU was told to
    /// try.
    pub accelerator: String,
    /// Roles of threads by number, where they are known from elsewhere than from names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<u32, Role>,
    /// Processes beside QEMU that work for it, if they were looked for.
    #[serde(default, skip_serializing_if = "Helpers::is_empty")]
    pub helpers: Helpers,
}

impl Guest {
    /// Name for people.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("QEMU {}", self.pid),
        }
    }

    /// Whether the processor runs the guest's code itself.
    #[must_use]
    pub fn uses_kvm(&self) -> bool {
        self.accelerator == "kvm"
    }

    /// The guest of a process. `vms` has the persistent VMs that run, by process number.
    ///
    /// # Errors
    /// If there is no such process, or it is not a QEMU.
    pub fn of_process(
        root: &Path,
        pid: u32,
        vms: &BTreeMap<u32, String>,
    ) -> Result<Self, process::Error> {
        let hardware = GuestHardware::of_process(root, pid)?;
        let program = hardware.emulator.as_deref().and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy().into_owned();
        let name = vms.get(&pid).cloned().or(hardware.name.clone());
        let kind = match vms.get(&pid) {
            Some(_) => Kind::Vm,
            None if is_domain(&hardware) => Kind::Domain,
            None => Kind::Qemu,
        };
        // Programs of these names try KVM first (`system/vl.c`).
        let usual = if program.ends_with("kvm") {
            "kvm"
        } else {
            "tcg"
        };
        let told = hardware.accelerators.first();
        Ok(Self {
            pid,
            name,
            kind,
            accelerator: told.map_or_else(|| usual.to_owned(), Clone::clone),
            program,
            roles: BTreeMap::new(),
            helpers: Helpers::default(),
        })
    }

    /// All of this host that can be seen, in the order of their process numbers.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn all(root: &Path, vms: &BTreeMap<u32, String>) -> io::Result<Vec<Self>> {
        let mut pids = Procfs::below(root).processes()?;
        pids.sort_unstable();
        let guests = pids.into_iter().map(|pid| Self::of_process(root, pid, vms));
        // Most processes are no QEMU, and some end meanwhile.
        Ok(guests.filter_map(Result::ok).collect())
    }

    /// Asks for the roles of threads where names do not say them. Only brisk's own VMs are asked:
    /// the control channels of others are their managers'.
    pub fn ask_roles(&mut self, root: &Path) {
        let (Kind::Vm, Some(name)) = (self.kind, &self.name) else {
            return;
        };
        let process = Procfs::below(root).tasks(self.pid, None);
        let is_named = |task: &Task| Role::of_thread(&task.name, false, &[]).is_vcpu();
        if process.is_ok_and(|process| process.tasks.iter().any(is_named)) {
            return;
        }
        let paths = StateDirs::here().and_then(|dirs| dirs.vm(name));
        // Without an answer the threads are unnamed, which the table says.
        if let Ok(threads) = paths.and_then(|paths| vcpu_threads(&paths)) {
            // With one thread for all, each index has that thread.
            let is_single = threads.len() > 1 && threads.windows(2).all(|pair| pair[0] == pair[1]);
            for (index, tid) in (0..).zip(threads) {
                let role = if is_single {
                    Role::AllVcpus
                } else {
                    Role::Vcpu(index)
                };
                self.roles.insert(tid, role);
            }
        }
    }
}

/// Whether libvirt started it: that gives each QEMU a monitor of this name, or a key for secrets
/// (`src/qemu/qemu_command.c` and `qemu_domain.c` of libvirt).
fn is_domain(hardware: &GuestHardware) -> bool {
    let ids = ["charmonitor", "masterKey0"];
    let mut backends = hardware.backends.iter();
    backends.any(|backend| ids.contains(&backend.id.as_str()))
}

/// Names of this user's persistent VMs that run, by process number.
#[must_use]
pub fn running_vms() -> BTreeMap<u32, String> {
    let Ok(dirs) = StateDirs::here() else {
        return BTreeMap::new();
    };
    let names = dirs.names().into_iter();
    let found = names.filter_map(|name| {
        let paths = dirs.vm(&name).ok()?;
        Some((vm::pid(&paths)?, name))
    });
    found.collect()
}
