//! Facts about the host: the only part of planning that does I/O.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brisk_host::kernel::{self as installed, Installed};
use brisk_host::proc::Procfs;
use brisk_vm::cache::Cache;
use brisk_vm::kernel::Extracted;
use brisk_vm::qemu::{self, Accelerator, Capabilities, Older};
use brisk_vm::virtiofs::Virtiofsd;
use brisk_vm::{elf, kernel, launch};

use super::accelerator::{self, Choice};
use super::error::Error;
use super::options::{Accel, Options, Warm};
use super::pretranslation::{self, Known};
use super::readahead::{self, Common};
use super::root::{self, Attached, Root};

/// Time over which the time-stamp counter is measured, once in a boot of the host.
const TSC_SPAN: Duration = Duration::from_millis(20);

/// Everything but the options that the plan depends on.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The kernel and where its modules are.
    pub kernel: Installed,
    /// Its vmlinux.
    pub image: Extracted,
    /// Names of built-in modules, with `_` for `-`; `None`: unknown, all modules are taken to be
    /// built in.
    pub builtin: Option<BTreeSet<String>>,
    /// Names of the modules that can be loaded, looked up only where a guest can do without one.
    pub loadable: BTreeSet<String>,
    /// The QEMU binary.
    pub qemu: PathBuf,
    /// The older QEMU that was not chosen, if there is one.
    pub instead: Option<Older>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The accelerator, with the reason.
    pub accelerator: (Accelerator, String),
    /// Key of the trial of KVM that is still to be made, in the cache.
    pub(super) untried: Option<String>,
    /// Rate of the time-stamp counter, kHz.
    pub tsc_khz: Option<u64>,
    /// virtiofsd, if there is one.
    pub virtiofsd: Option<Virtiofsd>,
    /// The root.
    pub root: Root,
    /// The disks besides it.
    pub disks: Vec<Attached>,
    /// A static busybox of the host.
    pub busybox: Option<PathBuf>,
    /// Current directory.
    pub current_dir: PathBuf,
    /// Whether brisk runs as root.
    pub privileged: bool,
    /// Whether shared memory may have huge pages.
    pub huge_pages: bool,
    /// Known facts about the kernel's code, where TB pretranslation is allowed and possible.
    pub pretranslation: Option<Known>,
    /// Files of the root for readahead, looked up only for a guest that becomes a template.
    pub common: Vec<Common>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Checks that what is to be shared are directories.
pub(crate) fn check_shares(options: &Options) -> Result<(), Error> {
    let shares = options.hardware.shares.iter();
    match shares.map(|share| &share.host).find(|host| !host.is_dir()) {
        None => Ok(()),
        Some(path) => Err(Error::Share {
            path: path.clone(),
            source: std::io::ErrorKind::NotADirectory.into(),
        }),
    }
}

/// Gathers the facts, and boots nothing: where only a trial could show whether KVM works, and there
/// was none yet, the accelerator is TCG until [`Facts::probe`].
///
/// # Errors
/// If the kernel, QEMU or the root cannot be used.
pub fn gather(
    options: &Options,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<Facts, Error> {
    let running = installed::running();
    let mut kernel = installed::resolve(Path::new("/"), options.kernel.image.as_deref(), &running)
        .map_err(Error::FindKernel)?;
    if let Some(modules) = &options.kernel.modules {
        kernel.modules = Some(modules.clone());
    }
    progress("extracting the kernel");
    let image = kernel::vmlinux(&kernel.image, cache)?;
    let builtin = kernel.modules.as_deref().and_then(builtin);
    progress("asking QEMU what it can do");
    let choice = qemu::choose(&options.hardware.qemu, cache)?;
    let capabilities = choice.capabilities;
    let (root, notes) = root::find(options, cache, progress)?;
    let serves = matches!(root, Root::Directory { .. }) || !options.hardware.shares.is_empty();
    check_shares(options)?;
    let disks = root::attach(options, &root)?;
    let known = disks.iter().any(|disk| !disk.modules.is_empty());
    let needs_modules = serves || options.persistent || known;
    let modules = kernel.modules.as_deref().filter(|_| needs_modules);
    let mut facts = Facts {
        loadable: modules.and_then(loadable).unwrap_or_default(),
        builtin,
        accelerator: (Accelerator::Tcg, "asked for with --accel tcg".into()),
        untried: None,
        tsc_khz: tsc_khz(cache),
        virtiofsd: serves.then(|| Virtiofsd::find(cache).ok()).flatten(),
        disks,
        busybox: busybox(),
        current_dir: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        privileged: rustix::process::geteuid().is_root(),
        huge_pages: launch::has_huge_pages(),
        pretranslation: pretranslation::known(&image.path, options, &capabilities, cache),
        common: match &root {
            Root::Directory { path, .. } if options.warm != Warm::No => readahead::find(path),
            _ => Vec::new(),
        },
        notes,
        root,
        kernel,
        image,
        qemu: choice.path,
        instead: choice.instead,
        capabilities,
    };
    if options.hardware.accel != Accel::Tcg {
        let package = &facts.capabilities.package;
        match accelerator::known(options, &facts.qemu, package, cache)? {
            Choice::Decided(accelerator, reason) => facts.accelerator = (accelerator, reason),
            Choice::Untried { key } => {
                facts.accelerator.1 = "KVM was not tried yet".into();
                facts.untried = Some(key);
            }
        }
    }
    Ok(facts)
}

impl Facts {
    /// Whether a module is built into the kernel, or nothing is known of that.
    pub(super) fn is_builtin(&self, module: &str) -> bool {
        self.builtin
            .as_ref()
            .is_none_or(|names| names.contains(module))
    }

    /// Whether the kernel has a module, built in or to be loaded.
    pub(super) fn is_in_kernel(&self, module: &str) -> bool {
        self.is_builtin(module) || self.loadable.contains(module)
    }
}

fn busybox() -> Option<PathBuf> {
    [
        "/usr/bin/busybox",
        "/bin/busybox",
        "/usr/sbin/busybox",
        "/sbin/busybox",
    ]
    .into_iter()
    .map(PathBuf::from)
    .find(|path| elf::is_static(path).unwrap_or(false))
}

/// The rate, measured once in a boot of the host: it does not change before the next.
fn tsc_khz(cache: &Cache) -> Option<u64> {
    let boot = Procfs::default().boot_id()?;
    let key = format!("tsc-{boot}");
    let build = |_: &mut fs::File| Ok::<_, brisk_vm::cache::Error>(brisk_sys::tsc_khz(TSC_SPAN));
    cache
        .get_or_build("host", &key, build)
        .ok()
        .map(|entry| entry.meta)
}

/// Names in `modules.builtin`, whose lines are paths.
fn builtin(modules: &Path) -> Option<BTreeSet<String>> {
    let text = fs::read_to_string(modules.join("modules.builtin")).ok()?;
    Some(text.lines().filter_map(module_name).collect())
}

/// Names in `modules.dep`, whose lines are a path, a colon and dependencies.
fn loadable(modules: &Path) -> Option<BTreeSet<String>> {
    let text = fs::read_to_string(modules.join("modules.dep")).ok()?;
    let paths = text.lines().filter_map(|line| line.split_once(':'));
    Some(paths.filter_map(|(path, _)| module_name(path)).collect())
}

/// `kernel/fs/9p/9p.ko.xz` → `9p`.
fn module_name(path: &str) -> Option<String> {
    let (name, _) = path.rsplit('/').next()?.split_once(".ko")?;
    Some(name.replace('-', "_"))
}
