//! Options of a guest, as the user gives them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use brisk_vm::qemu::DiskFormat;
use brisk_vm::virtiofs::Access;
use serde::{Deserialize, Serialize};

use super::optimisations::Optimisations;

/// Least memory of a guest, MiB: with 64 Debian's kernels 6.1 panic, for want of room for
/// themselves and an initramfs.
pub const LEAST_MEMORY: u64 = 96;

/// See `brisk run --help`, whose options these are. The default is a shell on the host's root with
/// TCG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The kernel, its modules, parameters and initramfs.
    pub kernel: KernelOptions,
    /// Root file system.
    pub root: RootOptions,
    /// Machine type and devices.
    pub hardware: HardwareOptions,
    /// The command and its surroundings.
    pub command: CommandOptions,
    /// Host name; none: the kernel's, `(none)`.
    pub host_name: Option<String>,
    /// Optimisations of the boot.
    pub optimisations: Optimisations,
    /// Whether a second processor, of which the kernel does not know, may have its code translated
    /// ahead.
    pub pretranslate: Pretranslate,
    /// Whether the guest is restored from a template.
    pub warm: Warm,
    /// Whether the VM is persistent: then the host can use the guest's free memory, where the
    /// kernel reports it, and a program in the guest may load a policy for a security module.
    pub persistent: bool,
    /// Whether the guest may power off, for which its kernel needs ACPI.
    pub powers_off: bool,
    /// When to give up.
    pub timeout: Option<Duration>,
    /// Whether the console is shown.
    pub console: bool,
    /// Whether the guest is kept after a panic.
    pub keep_going_on_panic: bool,
    /// Whether init logs its steps to the kernel's log, the kernel its initcalls, and both are
    /// sent to brisk at the end.
    pub trace: bool,
    /// Whether the guest's time is its count of instructions.
    pub instructions: bool,
}

/// The kernel and what is loaded with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelOptions {
    /// Release or path.
    pub image: Option<String>,
    /// Modules, where they are not in the usual place.
    pub modules: Option<PathBuf>,
    /// More parameters.
    pub append: Vec<String>,
    /// Whether no initcall is left out.
    pub all_initcalls: bool,
    /// More modules to load.
    pub extra_modules: Vec<String>,
    /// Whether modules keep their signatures.
    pub signed_modules: bool,
    /// An archive that is unpacked over the initramfs.
    pub extra_initramfs: Option<PathBuf>,
    /// Whether the initramfs is compressed with gzip, as those of distributions are, for boots that
    /// are measured.
    pub gzip_initramfs: bool,
}

/// The root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootOptions {
    /// `--root`.
    pub source: RootOption,
    /// Format of its image, if it is known.
    pub format: Option<DiskFormat>,
    /// Whether the command may change it.
    pub access: Access,
    /// Whether a container image stays packed: the plan is only shown.
    pub unread: bool,
}

/// The VM's hardware, its devices, and the QEMU that makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareOptions {
    /// Virtual CPUs.
    pub cpus: u32,
    /// CPU model.
    pub cpu: Option<String>,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Where memory lies.
    pub ram: Ram,
    /// Whether QEMU's memory, with the guest's, is locked (mlockall(2)), so that none of it gets to
    /// this host's swap.
    pub lock_memory: bool,
    /// Whether the guest gives no free memory back to this host while it runs.
    pub keep_memory: bool,
    /// Accelerator.
    pub accel: Accel,
    /// Machine type.
    pub machine: Machine,
    /// Firmware.
    pub firmware: Firmware,
    /// Disks besides the root.
    pub disks: Vec<ExtraDisk>,
    /// Shared directories.
    pub shares: Vec<Share>,
    /// Network.
    pub net: Net,
    /// QEMU.
    pub qemu: String,
    /// More words for QEMU.
    pub qemu_args: Vec<String>,
}

/// The command and its surroundings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOptions {
    /// The command; empty: a shell.
    pub words: Vec<OsString>,
    /// `NAME=VALUE` for it.
    pub env: Vec<OsString>,
    /// Working directory.
    pub workdir: Option<String>,
    /// Its user.
    pub user: Option<User>,
    /// Size of the terminal that it runs on, rows and columns; none: pipes.
    pub terminal: Option<(u16, u16)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kernel: KernelOptions::default(),
            root: RootOptions::default(),
            hardware: HardwareOptions::default(),
            command: CommandOptions::default(),
            host_name: None,
            optimisations: Optimisations::All,
            pretranslate: Pretranslate::Never,
            warm: Warm::No,
            persistent: false,
            powers_off: false,
            timeout: None,
            console: false,
            keep_going_on_panic: false,
            trace: false,
            instructions: false,
        }
    }
}

impl Default for RootOptions {
    fn default() -> Self {
        Self {
            source: RootOption::Host,
            format: None,
            access: Access::ReadOnly,
            unread: false,
        }
    }
}

impl Default for HardwareOptions {
    fn default() -> Self {
        Self {
            cpus: 1,
            cpu: None,
            memory_mib: 512,
            ram: Ram::Auto,
            lock_memory: false,
            keep_memory: false,
            accel: Accel::Tcg,
            machine: Machine::Auto,
            firmware: Firmware::Auto,
            disks: Vec::new(),
            shares: Vec::new(),
            net: Net::None,
            qemu: "qemu-system-x86_64".to_owned(),
            qemu_args: Vec::new(),
        }
    }
}

/// Use of TB pretranslation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pretranslate {
    /// Never; nothing is recorded for later boots, either.
    Never,
    /// If a processor of the host is idle.
    WhenIdle,
    /// Whenever it is possible.
    Always,
}

/// Use of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Warm {
    /// Always boot.
    #[default]
    No,
    /// Restore a template; if there is none, boot and keep one.
    Yes,
    /// Always boot, and keep a new template.
    New,
    /// As `Yes`, and leave a guest in the warm pool for the next run.
    Ready,
}

/// Value of `--root`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootOption {
    /// Only the initramfs.
    None,
    /// The host's own.
    Host,
    /// A directory, an image, an archive.
    Path(String),
}

/// Value of `--accel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// Chosen by trial.
    Auto,
    /// KVM or nothing.
    Kvm,
    /// TCG.
    Tcg,
}

/// Value of `--machine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// The quickest for accelerator, processors and firmware.
    Auto,
    /// microvm.
    Microvm,
    /// pc without ACPI.
    PcNoAcpi,
    /// q35.
    Q35,
    /// pc.
    Pc,
}

/// Value of `--firmware`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firmware {
    /// qboot where it fits.
    Auto,
    /// qboot.
    Qboot,
    /// The machine type's own.
    Seabios,
}

/// Value of `--net`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Net {
    /// Loopback only.
    None,
    /// QEMU's user network.
    User,
}

/// Value of `--ram`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ram {
    /// Shared where something needs it.
    Auto,
    /// Anonymous.
    Private,
    /// A named file.
    Shared,
}

/// Splits `:ro` off; whether it is missing: the guest may write then.
fn mode(text: &str) -> (&str, bool) {
    match text.strip_suffix(":ro") {
        Some(rest) => (rest, false),
        None => (text, true),
    }
}

/// Value of `--disk`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraDisk {
    /// Image or block device of the host.
    pub path: PathBuf,
    /// Whether the guest may write.
    pub writable: bool,
    /// Its format, if it is known.
    pub format: Option<DiskFormat>,
}

impl ExtraDisk {
    /// Parses `PATH` or `PATH:ro`, with `,format=raw` or `,format=qcow2` behind it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        const FORMAT: &str = ",format=";
        let known = [DiskFormat::Raw, DiskFormat::Qcow2]
            .into_iter()
            .find_map(|format| {
                let text = text.strip_suffix(format.driver())?.strip_suffix(FORMAT)?;
                Some((text, format))
            });
        let (path, writable) = mode(known.map_or(text, |(text, _)| text));
        Self {
            path: path.into(),
            writable,
            format: known.map(|(_, format)| format),
        }
    }
}

impl std::fmt::Display for ExtraDisk {
    /// Formats it so that [`Self::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if !self.writable {
            f.write_str(":ro")?;
        }
        match self.format {
            Some(format) => write!(f, ",format={}", format.driver()),
            None => Ok(()),
        }
    }
}

/// Value of `--share`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Directory of the host.
    pub host: PathBuf,
    /// Path in the guest.
    pub guest: String,
    /// Whether the guest may write.
    pub access: Access,
}

impl Share {
    /// Parses `HOST:GUEST`, `HOST:GUEST:ro` or `HOST:GUEST,suid`, where GUEST is an absolute path.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (paths, access) = match text.strip_suffix(",suid") {
            Some(paths) => (paths, Access::SetId),
            None => {
                let (paths, writable) = mode(text);
                (paths, Access::of(writable))
            }
        };
        let (host, guest) = paths.rsplit_once(':')?;
        let is_guest =
            guest.starts_with('/') && !(access == Access::SetId && guest.ends_with(":ro"));
        (is_guest && !host.is_empty()).then(|| Self {
            host: host.into(),
            guest: guest.to_owned(),
            access,
        })
    }
}

/// Value of `--user`, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Name or number.
    pub user: String,
    /// Name or number of the group.
    pub group: Option<String>,
}

impl User {
    /// Parses `USER[:GROUP]`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        Self {
            user: user.into(),
            group: group.map(Into::into),
        }
    }
}

impl Machine {
    /// Name, as the option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Microvm => "microvm",
            Self::PcNoAcpi => "pc-no-acpi",
            Self::Q35 => "q35",
            Self::Pc => "pc",
        }
    }
}

impl Firmware {
    /// Name, as the option has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Qboot => "qboot",
            Self::Seabios => "seabios",
        }
    }
}
