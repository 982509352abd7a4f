//! Looking at a machine. Files are read below a root that tests put elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::beside;
use brisk_host::cpu::Cpu;
use brisk_host::kernel as installed;
use brisk_host::proc::Procfs;
use brisk_host::sysfs;
use brisk_vm::cache::Cache;
use brisk_vm::elf;
use brisk_vm::hardware::GuestHardware;
use brisk_vm::kernel;
use brisk_vm::launch::why_one_user;
use brisk_vm::qemu::{self, Accelerator, Capabilities, Older};
use brisk_vm::virtiofs::Virtiofsd;

use crate::crypto::Machine;
use crate::guest::plan::lacks_driver;
use crate::guest::{self, Accel, Options, RootOption};
use crate::vm::{self, StateDirs};
use brisk_host::chain;
use brisk_lint::Kvm;

/// Everything that findings are made from.
#[derive(Debug, Clone)]
pub struct Facts {
    /// KVM.
    pub kvm: Kvm,
    /// Whether the processor has virtualisation (vmx or svm).
    pub vmx: bool,
    /// Whether this machine is itself virtual.
    pub virtualised: bool,
    /// QEMUs that are not used, and what this one does not resume.
    pub others: Others,
    /// QEMU, or why there is none.
    pub qemu: Result<Capabilities, String>,
    /// Release of the running kernel.
    pub running: String,
    /// Releases that are installed, newest first.
    pub kernels: Vec<String>,
    /// Those of them without modules.
    pub without_modules: BTreeSet<String>,
    /// Whether the kernel that would boot has a PVH entry, and its release; or why it cannot be
    /// read.
    pub kernel: Result<(String, bool), String>,
    /// Whether there is a virtiofsd.
    pub virtiofsd: bool,
    /// Whether there is a static busybox.
    pub busybox: bool,
    /// Whether brisk runs as root.
    pub privileged: bool,
    /// Why all QEMUs of root are one user, if they are.
    pub one_user: Option<String>,
    /// Policy for huge pages of shared memory.
    pub shmem_huge: Option<String>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Clock source of the kernel.
    pub clocksource: Option<String>,
    /// Load of the last minute, and processors.
    pub load: Option<(f64, usize)>,
    /// Devices for cryptography and what uses them; None if that was not looked at.
    pub crypto: Option<Machine>,
    /// A guest to look at.
    pub guest: Option<GuestHardware>,
}

/// QEMUs beside the one that is used, and images of other ones.
#[derive(Debug, Clone, Default)]
pub struct Others {
    /// A newer QEMU beside the system's that is used, and the system's that is not.
    pub beside: Option<(PathBuf, Older)>,
    /// Newer QEMUs that are not used because others can change them.
    pub untrusted: Vec<PathBuf>,
    /// Suspended VMs that the QEMU which is installed does not resume, and why.
    pub stranded: Vec<(String, String)>,
}

/// Looks at the machine below `root` (`/` but for tests).
#[must_use]
pub fn gather(root: &Path, program: &str, kernel: Option<&str>) -> Facts {
    let cpu = Cpu::below(root);
    let flags = cpu.flags();
    let found = installed::installed(root);
    let cache = Cache::open();
    let mut chosen = None;
    let mut capabilities = || -> Result<Capabilities, String> {
        let cache = cache.as_ref().map_err(ToString::to_string)?;
        let choice = qemu::choose(program, cache).map_err(|error| chain(&error))?;
        chosen = choice.instead.map(|older| (choice.path, older));
        Ok(choice.capabilities)
    };
    let image = || -> Result<(String, bool), String> {
        let running = installed::running();
        let chosen = installed::resolve(root, kernel, &running).map_err(|e| chain(&e))?;
        let cache = cache.as_ref().map_err(ToString::to_string)?;
        let image = kernel::vmlinux(&chosen.image, cache).map_err(|e| chain(&e))?;
        if chosen.modules.is_none() {
            let needed = ["virtio_pci", "virtio_console"];
            let missing = kernel::missing_driver(&image.path, needed).map_err(|e| chain(&e))?;
            if let Some(driver) = missing {
                return Err(lacks_driver(&chosen.version, driver).to_string());
            }
        }
        Ok((chosen.version, image.pvh))
    };
    let qemu = capabilities();
    let busybox = ["usr/bin/busybox", "bin/busybox", "usr/sbin/busybox"];
    let here = StateDirs::here().ok().filter(|_| root == Path::new("/"));
    let vms = here.zip(cache.as_ref().ok());
    Facts {
        kvm: kvm(root, program, kernel),
        vmx: flags.contains("vmx") || flags.contains("svm"),
        virtualised: flags.contains("hypervisor"),
        qemu,
        others: Others {
            beside: chosen,
            untrusted: beside::untrusted(qemu::USUAL),
            stranded: vms.map_or_else(Vec::new, |(dirs, cache)| vm::stranded(&dirs, cache)),
        },
        running: installed::running(),
        without_modules: found
            .iter()
            .filter(|kernel| kernel.modules.is_none())
            .map(|kernel| kernel.version.clone())
            .collect(),
        kernels: found.into_iter().map(|kernel| kernel.version).collect(),
        kernel: image(),
        virtiofsd: cache.as_ref().is_ok_and(|c| Virtiofsd::find(c).is_ok()),
        busybox: busybox
            .iter()
            .any(|path| elf::is_static(&root.join(path)).unwrap_or(false)),
        privileged: rustix::process::geteuid().is_root(),
        one_user: rustix::process::geteuid()
            .is_root()
            .then(why_one_user)
            .flatten(),
        shmem_huge: sysfs::chosen(root, "kernel/mm/transparent_hugepage/shmem_enabled"),
        governor: cpu.governor(),
        clocksource: sysfs::line(
            root,
            "devices/system/clocksource/clocksource0/current_clocksource",
        ),
        load: Procfs::below(root).load().and_then(|load| {
            let processors = std::thread::available_parallelism().ok()?.get();
            Some((load.minute, processors))
        }),
        crypto: Some(Machine::at(root, Some("openssl"))),
        guest: None,
    }
}

fn kvm(root: &Path, qemu: &str, kernel: Option<&str>) -> Kvm {
    let device = root.join("dev/kvm");
    match fs::OpenOptions::new().read(true).write(true).open(&device) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Kvm::Absent,
        Err(_) => return Kvm::Forbidden,
        Ok(_) => {}
    }
    let mut options = Options::default();
    options.hardware.qemu = qemu.to_owned();
    options.hardware.accel = Accel::Auto;
    options.kernel.image = kernel.map(str::to_owned);
    options.root.source = RootOption::None;
    let cache = match Cache::open() {
        Ok(cache) => cache,
        Err(error) => return Kvm::Untried(error.to_string()),
    };
    match guest::gather_and_probe(&options, &cache, &mut |_| {}) {
        Err(error) => Kvm::Untried(chain(&error)),
        Ok(facts) => match facts.accelerator {
            (Accelerator::Kvm, _) => Kvm::Works,
            (Accelerator::Tcg, why) => Kvm::Useless(why),
        },
    }
}
