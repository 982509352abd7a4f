//! Options of all commands that boot guests.

use std::path::PathBuf;

use brisk_tools::guest::{self as tool, Optimisations, Options, RootOption};
use brisk_vm::qemu::DiskFormat;
use brisk_vm::virtiofs::Access;
use clap::ValueEnum;

use crate::parse::guest_memory;

/// Options for the kernel, the root and the modules of a guest.
#[derive(Debug, clap::Args)]
pub struct GuestArgs {
    /// Kernel: an installed release (or an unambiguous part of one), or the path of a bzImage,
    /// vmlinux or unified kernel image. Default: the running release if it is installed, else the
    /// newest.
    #[arg(long, short, value_name = "PATH|VERSION")]
    pub kernel: Option<String>,

    /// Directory with the modules of the kernel, where it is not /lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,

    /// Root file system.
    ///
    /// `none` (only an initramfs, with busybox if it is installed), `host`, a directory, a disk
    /// image (raw, qcow2; ext4, erofs, xfs, btrfs, squashfs; partitioned or not), an OCI layout, a
    /// docker archive or a tar of a root file system.
    #[arg(long, short, value_name = "ROOT", default_value = "host")]
    pub root: String,

    /// Format of the root's disk image. Default: qcow2 if its name ends in .qcow2 and its content
    /// is qcow2, else raw; required where name and content do not agree.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub root_format: Option<ImageFormat>,

    /// Let the command change the root: the directory or the image itself instead of an overlay in
    /// memory.
    ///
    /// In a directory it sets no set-user-ID and set-group-ID bits, unless it is `--rw=suid`.
    #[arg(long, value_name = "BOOL|suid", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    pub rw: Access,

    /// Machine type. `auto` is the quickest for the accelerator, --cpus and --firmware.
    #[arg(long, value_enum, default_value_t = Machine::Auto)]
    pub machine: Machine,

    /// Network: none but loopback, or QEMU's user network (outgoing only).
    #[arg(long, value_enum, default_value_t = Net::None)]
    pub net: Net,

    /// Load further modules, in this order, before the command.
    #[arg(long = "module", value_name = "NAME")]
    pub extra_modules: Vec<String>,

    /// Keep the signatures of modules, for kernels that refuse unsigned ones. Costs time.
    #[arg(long)]
    pub signed_modules: bool,

    /// QEMU to use: a name in PATH or a path.
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "BRISK_QEMU",
        default_value = "qemu-system-x86_64"
    )]
    pub qemu: String,
}

/// Options for the VM that a guest runs in.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// Virtual CPUs, 1 to 255.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: u32,

    /// Memory: bytes with a suffix K, M, G (powers of 1024); a bare number is MiB. Default: 256M
    /// with --root none, else 512M.
    #[arg(long, short, value_name = "SIZE", value_parser = guest_memory)]
    pub memory: Option<u64>,

    /// Accelerator: KVM where a trial run shows that it works, else TCG.
    #[arg(long, value_enum, default_value_t = Accel::Auto)]
    pub accel: Accel,

    /// Firmware. `auto` is qboot where the machine type can use it and it is installed.
    #[arg(long, value_enum, default_value_t = Firmware::Auto)]
    pub firmware: Firmware,

    /// CPU model of QEMU, with its flags. Default: `host` with KVM; with TCG a generic x86-64-v2,
    /// which boots faster than `max`.
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,

    /// Append parameters to the kernel's command line, where they override earlier ones.
    /// Repeatable.
    #[arg(long, short, value_name = "PARAMETERS")]
    pub append: Vec<String>,

    /// Keep every initcall of the kernel.
    ///
    /// By default some self-tests and tracing tables that only cost time are left out; --dry-run
    /// names them with reasons.
    #[arg(long)]
    pub all_initcalls: bool,

    /// Optimisations to use: `all`, `none`, or names with commas, as `brisk boot tune` lists them.
    ///
    /// A name is that of a kernel parameter, initcall:NAME for an initcall that is left out,
    /// vmlinux for decompressing the kernel on the host, or cpu for a CPU model that is quick to
    /// emulate.
    #[arg(long, value_name = "LIST", default_value = "all", alias = "levers")]
    pub optimisations: String,

    /// Guest memory as a private mapping, or as a file that other processes can map.
    ///
    /// `auto` shares where virtiofs needs it, and under emulation where huge pages are allowed, as
    /// they are to root, because brisk can then have the memory allocated while QEMU starts.
    #[arg(long, value_enum, default_value_t = Ram::Auto)]
    pub ram: Ram,

    /// More options for QEMU, one word each.
    #[arg(long = "qemu-arg", value_name = "WORD", allow_hyphen_values = true)]
    pub qemu_args: Vec<String>,
}

/// Format of a disk image.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ImageFormat {
    /// The bytes of the disk.
    Raw,
    /// QEMU's qcow2.
    Qcow2,
}

impl From<ImageFormat> for DiskFormat {
    fn from(format: ImageFormat) -> Self {
        match format {
            ImageFormat::Raw => Self::Raw,
            ImageFormat::Qcow2 => Self::Qcow2,
        }
    }
}

/// Values of [`MachineArgs::accel`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Accel {
    /// KVM if it works here, else TCG.
    Auto,
    /// Hardware virtualisation.
    Kvm,
    /// Emulation.
    Tcg,
}

/// Values of [`GuestArgs::machine`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Machine {
    /// With TCG and one CPU a pc without ACPI; else microvm if QEMU has it and qboot; else q35.
    Auto,
    /// Few devices, quick to boot.
    Microvm,
    /// The i440FX chipset without ACPI; one processor.
    PcNoAcpi,
    /// A PCI Express chipset.
    Q35,
    /// The i440FX chipset.
    Pc,
}

/// Values of [`MachineArgs::firmware`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Firmware {
    /// qboot for microvm, SeaBIOS otherwise.
    Auto,
    /// Small firmware that only starts kernels.
    Qboot,
    /// QEMU's default BIOS.
    Seabios,
}

/// Values of [`GuestArgs::net`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Net {
    /// Loopback only.
    None,
    /// QEMU's user network.
    User,
}

/// Values of [`MachineArgs::ram`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Ram {
    /// Shared where something needs it.
    Auto,
    /// Anonymous memory of QEMU.
    Private,
    /// A named file.
    Shared,
}

impl GuestArgs {
    /// Options of the guest, with everything else at its default.
    pub(crate) fn options(&self) -> Options {
        Options {
            kernel: tool::KernelOptions {
                image: self.kernel.clone(),
                modules: self.modules.clone(),
                extra_modules: self.extra_modules.clone(),
                signed_modules: self.signed_modules,
                ..tool::KernelOptions::default()
            },
            root: tool::RootOptions {
                source: match self.root.as_str() {
                    "none" => RootOption::None,
                    "host" => RootOption::Host,
                    path => RootOption::Path(path.to_owned()),
                },
                format: self.root_format.map(DiskFormat::from),
                access: self.rw,
                unread: false,
            },
            hardware: tool::HardwareOptions {
                machine: match self.machine {
                    Machine::Auto => tool::Machine::Auto,
                    Machine::Microvm => tool::Machine::Microvm,
                    Machine::PcNoAcpi => tool::Machine::PcNoAcpi,
                    Machine::Q35 => tool::Machine::Q35,
                    Machine::Pc => tool::Machine::Pc,
                },
                net: match self.net {
                    Net::None => tool::Net::None,
                    Net::User => tool::Net::User,
                },
                qemu: self.qemu.clone(),
                ..tool::HardwareOptions::default()
            },
            ..Options::default()
        }
    }
}

impl MachineArgs {
    /// Options of the VM and of its guest, with everything else at its default.
    ///
    /// # Errors
    /// If a value cannot be parsed.
    pub(crate) fn options(&self, guest: &GuestArgs) -> anyhow::Result<Options> {
        let usual = guest.options();
        let hardware = tool::HardwareOptions {
            cpus: self.cpus,
            memory_mib: match self.memory {
                Some(mib) => mib,
                None if guest.root == "none" => 256,
                None => 512,
            },
            accel: match self.accel {
                Accel::Auto => tool::Accel::Auto,
                Accel::Kvm => tool::Accel::Kvm,
                Accel::Tcg => tool::Accel::Tcg,
            },
            firmware: match self.firmware {
                Firmware::Auto => tool::Firmware::Auto,
                Firmware::Qboot => tool::Firmware::Qboot,
                Firmware::Seabios => tool::Firmware::Seabios,
            },
            cpu: self.cpu.clone(),
            ram: match self.ram {
                Ram::Auto => tool::Ram::Auto,
                Ram::Private => tool::Ram::Private,
                Ram::Shared => tool::Ram::Shared,
            },
            qemu_args: self.qemu_args.clone(),
            ..usual.hardware
        };
        Ok(Options {
            kernel: tool::KernelOptions {
                append: self.append.clone(),
                all_initcalls: self.all_initcalls,
                ..usual.kernel
            },
            hardware,
            optimisations: Optimisations::parse(&self.optimisations),
            ..usual
        })
    }
}
