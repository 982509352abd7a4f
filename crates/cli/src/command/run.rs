//! `brisk run`.

use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;

use crate::ui::Ui;

/// Boot a distribution's kernel in a virtual machine and run a command in it.
///
/// The kernel is one that is installed here, or any image given with --kernel; it is not
/// changed. The command sees the root file system chosen with --root: by default this
/// machine's own, read-only beneath a layer of memory, so that nothing it does is kept.
/// Standard input, output and error are carried byte for byte, signals go in, and brisk exits
/// with the command's status.
///
/// Without a command an interactive shell is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_STATUS)]
pub struct Args {
    /// Kernel: a release (or an unambiguous part of one) that is installed, or the path of a
    /// bzImage, vmlinux or unified kernel image. Default: the running release if it is
    /// installed, else the newest.
    #[arg(long, short, value_name = "PATH|VERSION")]
    pub kernel: Option<String>,

    /// Directory with the modules of the kernel, where it is not /lib/modules/VERSION.
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,

    /// Root file system: `none` (only an initramfs, with busybox if it is installed), `host`,
    /// a directory, a disk image (raw, qcow2; ext4, erofs, xfs, btrfs, squashfs; partitioned or
    /// not), an OCI layout, a docker archive or a tar of a root file system.
    #[arg(long, short, value_name = "ROOT", default_value = "host")]
    pub root: String,

    /// Let the command change the root: the directory or the image itself instead of a layer
    /// in memory.
    #[arg(long)]
    pub rw: bool,

    /// Virtual CPUs, 1 to 255.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: u32,

    /// Memory: bytes with a suffix K, M, G (powers of 1024); a bare number is MiB.
    #[arg(long, short, default_value = "512M", value_name = "SIZE")]
    pub memory: String,

    /// What executes the guest: KVM where a trial run shows that it works, else TCG.
    #[arg(long, value_enum, default_value_t = Accel::Auto)]
    pub accel: Accel,

    /// Machine type. `auto` is microvm where QEMU has it.
    #[arg(long, value_enum, default_value_t = Machine::Auto)]
    pub machine: Machine,

    /// Firmware. `auto` is qboot where the machine type can use it and it is installed.
    #[arg(long, value_enum, default_value_t = Firmware::Auto)]
    pub firmware: Firmware,

    /// CPU model of QEMU, with its flags.
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,

    /// Show a directory of this machine at a path of the guest; `:ro` forbids writing.
    #[arg(long, value_name = "HOST:GUEST[:ro]")]
    pub share: Vec<String>,

    /// Network: none but loopback, or QEMU's user network (outgoing only).
    #[arg(long, value_enum, default_value_t = Net::None)]
    pub net: Net,

    /// Set a variable of the command's environment, or pass on this machine's value of it.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,

    /// Working directory of the command. Default: the current one with --root host, else the
    /// image's or `/`.
    #[arg(long, short, visible_alias = "pwd", value_name = "DIR")]
    pub workdir: Option<String>,

    /// User that the command runs as, a number or a name in the root's /etc/passwd, with an
    /// optional group.
    #[arg(long, short, value_name = "USER[:GROUP]")]
    pub user: Option<String>,

    /// Append to the kernel's command line; repeatable, and the last word on a parameter.
    #[arg(long, short, value_name = "PARAMETERS")]
    pub append: Vec<String>,

    /// Keep every initcall of the kernel. By default some self-tests and tracing tables that
    /// only cost time are left out; --dry-run names them with reasons.
    #[arg(long)]
    pub all_initcalls: bool,

    /// Load further modules, in this order, before the command.
    #[arg(long = "module", value_name = "NAME")]
    pub extra_modules: Vec<String>,

    /// Keep the signatures of modules, for kernels that refuse unsigned ones. Costs time.
    #[arg(long)]
    pub signed_modules: bool,

    /// Guest memory as a private mapping, or as a named shared file that other processes can
    /// map. `auto` shares where virtiofs needs it.
    #[arg(long, value_enum, default_value_t = Ram::Auto)]
    pub ram: Ram,

    /// Terminal for the command. `auto`: if standard input and output both are one.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    pub tty: When,

    /// Show when what happened, from the start of QEMU to its end, on stderr or in FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(
        clippy::option_option,
        reason = "absent, bare, and with a file are three things"
    )]
    pub timing: Option<Option<PathBuf>>,

    /// Form of --timing and --dry-run.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Give up after this long, for example 90, 90s or 5m. Covers boot and command.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,

    /// Show the kernel's console on stderr.
    #[arg(long)]
    pub console: bool,

    /// After a kernel panic keep the guest, for a debugger, instead of ending with status 121.
    #[arg(long, value_enum, default_value_t = YesNo::No, num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub keep_going_on_panic: YesNo,

    /// Print QEMU's command line and why each part is there, and run nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// More options for QEMU, one word each.
    #[arg(long = "qemu-arg", value_name = "WORD", allow_hyphen_values = true)]
    pub qemu_args: Vec<String>,

    /// QEMU to use: a name in PATH or a path.
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "BRISK_QEMU",
        default_value = "qemu-system-x86_64"
    )]
    pub qemu: String,

    /// Command and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// See [`Args::accel`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Accel {
    /// KVM if it works here, else TCG.
    Auto,
    /// Hardware virtualisation.
    Kvm,
    /// Emulation.
    Tcg,
}

/// See [`Args::machine`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Machine {
    /// microvm if QEMU has it, else q35.
    Auto,
    /// Few devices, quick to boot.
    Microvm,
    /// A PCI Express chipset.
    Q35,
    /// The i440FX chipset.
    Pc,
}

/// See [`Args::firmware`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Firmware {
    /// qboot for microvm, SeaBIOS otherwise.
    Auto,
    /// Small firmware that only starts kernels.
    Qboot,
    /// QEMU's default BIOS.
    Seabios,
}

/// See [`Args::net`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Net {
    /// Loopback only.
    None,
    /// QEMU's user network.
    User,
}

/// See [`Args::ram`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Ram {
    /// Shared where something needs it.
    Auto,
    /// Anonymous memory of QEMU.
    Private,
    /// A named file.
    Shared,
}

/// See [`Args::tty`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum When {
    /// If standard input and output are terminals.
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum YesNo {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
    /// For spreadsheets.
    Csv,
}

const EXIT_STATUS: &str = "Exit status:
  0-119    the command's own
  120      QEMU ended by itself
  121      the guest's kernel panicked
  122      the guest could not prepare what was asked for (a module, a mount, a device)
  124      the time limit of --timeout passed
  125      brisk failed before the guest ran
  126      the command cannot be executed
  127      there is no such command
  128+N    signal N ended the command
A command may itself exit with any of these; brisk then says nothing on stderr.";

/// Runs the command.
///
/// # Errors
/// What kept the guest from running.
pub fn run(_args: &Args, _ui: &Ui, _started: Instant) -> anyhow::Result<u8> {
    anyhow::bail!("not yet")
}
