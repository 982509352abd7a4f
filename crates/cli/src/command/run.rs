//! `brisk run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use brisk_tools::run::{self as tool, Ending, Options, RootOption, Session, Terminal, Timing};
use brisk_vm::cache::Cache;
use clap::ValueEnum;

use super::run_output;
use crate::exit;
use crate::ui::{Spinner, Ui};

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
    /// Kernel, root and modules.
    #[command(flatten)]
    pub guest: GuestArgs,

    /// Virtual CPUs, 1 to 255.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub cpus: u32,

    /// Memory: bytes with a suffix K, M, G (powers of 1024); a bare number is MiB. Default: 256M
    /// with --root none, else 512M.
    #[arg(long, short, value_name = "SIZE")]
    pub memory: Option<String>,

    /// What executes the guest: KVM where a trial run shows that it works, else TCG.
    #[arg(long, value_enum, default_value_t = Accel::Auto)]
    pub accel: Accel,

    /// Firmware. `auto` is qboot where the machine type can use it and it is installed.
    #[arg(long, value_enum, default_value_t = Firmware::Auto)]
    pub firmware: Firmware,

    /// CPU model of QEMU, with its flags. Default: `host` with KVM; with TCG a generic x86-64-v2,
    /// which boots faster than `max`.
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,

    /// Show a directory of this machine at a path of the guest; `:ro` forbids writing.
    #[arg(long, value_name = "HOST:GUEST[:ro]")]
    pub share: Vec<String>,

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

    /// Guest memory as a private mapping, or as a named shared file that other processes can
    /// map. `auto` shares where virtiofs needs it.
    #[arg(long, value_enum, default_value_t = Ram::Auto)]
    pub ram: Ram,

    /// Terminal for the command. `auto`: if standard input and output both are one.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    pub tty: When,

    /// Show when what happened, from the start of QEMU to its end, on stderr or in FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
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

    /// Command and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What decides about the kernel and the modules of a guest.
#[derive(Debug, clap::Args)]
pub struct GuestArgs {
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

/// See [`GuestArgs::machine`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Machine {
    /// With TCG and one CPU a pc without ACPI; else microvm if QEMU has it and qboot; else q35.
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

/// See [`GuestArgs::net`].
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
pub fn run(args: &Args, ui: &Ui, started: Instant) -> anyhow::Result<u8> {
    let options = options(args)?;
    let cache = Cache::open()?;
    let mut spinner: Option<Spinner> = None;
    let mut progress = |text: &str| {
        spinner = (!text.is_empty()).then(|| ui.spinner(text));
    };
    let facts = tool::gather(&options, &cache, &mut progress).map_err(explain)?;
    let plan = tool::plan(&options, &facts).map_err(explain)?;
    progress("");
    for note in &facts.notes {
        ui.note(note);
    }
    if args.dry_run {
        ui.data(&run_output::dry_run(&plan, &facts, args.format)?)?;
        return Ok(0);
    }
    let environment = run_output::environment(&plan, &facts);
    let timing = Timing::new(started);
    let session = Session::start(plan, &facts, &cache, timing, &mut progress).map_err(explain)?;
    drop(spinner);
    let (ending, timing) = session
        .run(options.timeout, options.console)
        .map_err(explain)?;
    if let Some(file) = &args.timing {
        let text = run_output::timing(&timing, environment, args.format)?;
        match file {
            None => ui.plain(&text),
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?,
        }
    }
    Ok(conclude(&ending, &options, ui))
}

/// With what to try as part of the message.
pub(super) fn explain(error: tool::Error) -> anyhow::Error {
    let hint = error.hint();
    let error = anyhow::Error::new(error);
    match hint {
        None => error,
        Some(hint) => anyhow::anyhow!("{}; {hint}", chain(&error)),
    }
}

fn chain(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let terminal = match args.tty {
        When::No => None,
        When::Auto => Terminal::size(),
        When::Yes => match Terminal::size() {
            Some(size) => Some(size),
            None => bail!("--tty yes needs a terminal at standard input and output"),
        },
    };
    Ok(Options {
        cpus: args.cpus,
        memory_mib: match &args.memory {
            Some(text) => memory(text)?,
            None if args.guest.root == "none" => 256,
            None => 512,
        },
        accel: match args.accel {
            Accel::Auto => tool::Accel::Auto,
            Accel::Kvm => tool::Accel::Kvm,
            Accel::Tcg => tool::Accel::Tcg,
        },
        firmware: match args.firmware {
            Firmware::Auto => tool::Firmware::Auto,
            Firmware::Qboot => tool::Firmware::Qboot,
            Firmware::Seabios => tool::Firmware::Seabios,
        },
        cpu: args.cpu.clone(),
        shares: args
            .share
            .iter()
            .map(|text| share(text))
            .collect::<anyhow::Result<_>>()?,
        env: args.env.iter().filter_map(|text| variable(text)).collect(),
        workdir: args.workdir.clone(),
        user: args.user.as_deref().map(user),
        append: args.append.clone(),
        all_initcalls: args.all_initcalls,
        ram: match args.ram {
            Ram::Auto => tool::Ram::Auto,
            Ram::Private => tool::Ram::Private,
            Ram::Shared => tool::Ram::Shared,
        },
        terminal,
        timeout: args
            .timeout
            .as_deref()
            .map(|text| duration("--timeout", text))
            .transpose()?,
        console: args.console,
        keep_going_on_panic: args.keep_going_on_panic == YesNo::Yes,
        qemu_args: args.qemu_args.clone(),
        command: args.command.clone(),
        ..args.guest.options()
    })
}

impl GuestArgs {
    /// With everything else at its default.
    pub(crate) fn options(&self) -> Options {
        Options {
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            root: match self.root.as_str() {
                "none" => RootOption::None,
                "host" => RootOption::Host,
                path => RootOption::Path(path.to_owned()),
            },
            writable: self.rw,
            machine: match self.machine {
                Machine::Auto => tool::Machine::Auto,
                Machine::Microvm => tool::Machine::Microvm,
                Machine::Q35 => tool::Machine::Q35,
                Machine::Pc => tool::Machine::Pc,
            },
            net: match self.net {
                Net::None => tool::Net::None,
                Net::User => tool::Net::User,
            },
            extra_modules: self.extra_modules.clone(),
            signed_modules: self.signed_modules,
            qemu: self.qemu.clone(),
            ..Options::default()
        }
    }
}

/// MiB.
fn memory(text: &str) -> anyhow::Result<u64> {
    let wrong =
        || anyhow::anyhow!("--memory {text}: not a size; write for example 512M, 2G or 512 (MiB)");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let mib = match text[digits.len()..]
        .to_ascii_uppercase()
        .trim_end_matches("IB")
    {
        "" | "M" => Some(number),
        "K" => Some(number / 1024),
        "G" => number.checked_mul(1024),
        "T" => number.checked_mul(1024 * 1024),
        _ => None,
    }
    .ok_or_else(wrong)?;
    if mib < 64 {
        bail!("--memory {text}: a distribution's kernel does not boot in less than 64M");
    }
    Ok(mib)
}

fn share(text: &str) -> anyhow::Result<tool::Share> {
    let (text_without_mode, writable) = match text.strip_suffix(":ro") {
        Some(rest) => (rest, false),
        None => (text, true),
    };
    let Some((host, guest)) = text_without_mode
        .rsplit_once(':')
        .filter(|(_, guest)| guest.starts_with('/'))
    else {
        bail!("--share {text}: write HOST:GUEST or HOST:GUEST:ro, GUEST an absolute path");
    };
    let host = std::fs::canonicalize(host)
        .with_context(|| format!("--share {text}: cannot use {host}"))?;
    if !host.is_dir() {
        bail!("--share {text}: {} is not a directory", host.display());
    }
    Ok(tool::Share {
        host,
        guest: guest.to_owned(),
        writable,
    })
}

/// A bare name passes this machine's value on; one that is not set here is left out.
fn variable(text: &str) -> Option<OsString> {
    if text.contains('=') {
        return Some(text.into());
    }
    let value = std::env::var_os(text)?;
    let mut variable = OsString::from(text);
    variable.push("=");
    variable.push(value);
    Some(variable)
}

fn user(text: &str) -> tool::User {
    match text.split_once(':') {
        Some((user, group)) => tool::User {
            user: user.into(),
            group: Some(group.into()),
        },
        None => tool::User {
            user: text.into(),
            group: None,
        },
    }
}

/// `90`, `1.5s`, `500ms`, `5m`, `1h`.
pub(crate) fn duration(option: &str, text: &str) -> anyhow::Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => bail!("{option} {text}: write for example 90, 90s, 500ms or 5m"),
    };
    digits
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * unit).ok())
        .filter(|duration| !duration.is_zero())
        .with_context(|| format!("{option} {text}: not a duration; write for example 90s or 5m"))
}

/// Says what went wrong, if anything, and gives the exit status.
fn conclude(ending: &Ending, options: &Options, ui: &Ui) -> u8 {
    match ending {
        Ending::Command(exit) => match exit {
            brisk_vm::guest::Exit::Status(code) => *code,
            brisk_vm::guest::Exit::Signal(signal) => 128 + (signal & 0x7f),
        },
        Ending::Guest {
            stage,
            errno,
            subject,
            console,
        } => {
            use brisk_vm::guest::Stage;
            let reason = std::io::Error::from_raw_os_error(*errno);
            let reason = reason.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            let doing = run_output::doing(*stage);
            match stage {
                Stage::NotFound => {
                    ui.note(&format!("error: {subject}: command not found in the guest"));
                    return exit::NOT_FOUND;
                }
                Stage::Execute => {
                    ui.note(&format!(
                        "error: cannot execute {subject} in the guest: {reason}"
                    ));
                    return exit::NOT_EXECUTABLE;
                }
                _ => ui.note(&format!(
                    "error: the guest cannot {doing} {subject}: {reason}"
                )),
            }
            show_console(console, ui);
            exit::GUEST
        }
        Ending::Panic { console } => {
            ui.note("error: the guest's kernel gave up; --console shows all that it says");
            show_console(console, ui);
            exit::PANIC
        }
        Ending::QemuEnded { stderr, console } => {
            ui.note("error: QEMU ended before the command did");
            if !stderr.trim().is_empty() {
                ui.plain(&format!("it said:\n{}\n", stderr.trim()));
            }
            show_console(console, ui);
            exit::QEMU
        }
        Ending::TimedOut { started, console } => {
            let limit = options.timeout.unwrap_or_default().as_secs_f64();
            let what = if *started {
                "the command did not end"
            } else {
                "the guest did not boot"
            };
            ui.note(&format!("error: {what} within {limit} s"));
            show_console(console, ui);
            exit::TIMEOUT
        }
        Ending::Interrupted(signal) => 128 + (signal.0 & 0x7f) as u8,
    }
}

fn show_console(console: &str, ui: &Ui) {
    if !console.is_empty() {
        ui.plain(&format!("last lines of its console:\n{console}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_mib() {
        for (text, mib) in [
            ("512", 512),
            ("512M", 512),
            ("2G", 2048),
            ("1GiB", 1024),
            ("65536k", 64),
        ] {
            assert_eq!(memory(text).unwrap(), mib, "{text}");
        }
        for text in ["", "M", "-1G", "12Q", "63M", "99999999999999999T"] {
            let error = memory(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("1.5s", 1500),
            ("500ms", 500),
            ("5m", 300_000),
        ] {
            assert_eq!(
                duration("--timeout", text).unwrap(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
        for text in ["", "s", "0", "-3s", "5d", "infs"] {
            assert!(duration("--timeout", text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_name_both_sides() {
        let dir = std::env::temp_dir();
        let dir = std::fs::canonicalize(dir).unwrap();
        let text = |tail: &str| format!("{}{tail}", dir.display());
        let parsed = share(&text(":/mnt:ro")).unwrap();
        assert_eq!(
            (parsed.host.clone(), &*parsed.guest, parsed.writable),
            (dir.clone(), "/mnt", false)
        );
        assert!(share(&text(":/mnt")).unwrap().writable);
        assert!(share(&text("")).is_err());
        assert!(share(&text(":mnt")).is_err());
        assert!(
            share("/does/not/exist:/mnt")
                .unwrap_err()
                .to_string()
                .contains("/does/not/exist")
        );
    }
}
