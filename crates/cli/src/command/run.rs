//! `brisk run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::{Context, bail};
use brisk_tools::guest::{self as tool, Options, Plan, Profile};
use brisk_tools::run::{Ending, Session, Start, Terminal, Timing, WarmPool, ready_time, warm};
use brisk_vm::cache::Cache;
use clap::ValueEnum;

use super::guest::{GuestArgs, MachineArgs};
use super::{run_output, warm_pool};
use crate::ending::conclude;
use crate::output::{Format, explain};
use crate::parse::duration;
use crate::parse::{host_name, share, variable};
use crate::ui::{Spinner, Ui};

/// Run a command in another kernel, in a virtual machine.
///
/// brisk boots a kernel that is installed here, or any image given with --kernel, without changes
/// to it. The command sees the root file system chosen with --root: by default the host's own,
/// read-only beneath an overlay in memory, so that nothing it does is kept. Standard input, output
/// and error are carried byte for byte, signals are passed on, and brisk exits with the command's
/// status.
///
/// Without a command an interactive shell is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_STATUS)]
pub struct Args {
    /// Kernel, root and modules.
    #[command(flatten)]
    pub guest: GuestArgs,

    /// Processors, memory, accelerator.
    #[command(flatten)]
    pub machine: MachineArgs,

    /// Attach a disk, a raw or qcow2 image or a block device; `:ro` forbids writing.
    ///
    /// The disk is /dev/vda in the guest, or /dev/vdb where the root is an image; further ones
    /// follow. Modules for the file systems on it are loaded.
    #[arg(long, value_name = "IMAGE[:ro][,format=raw|qcow2]")]
    pub disk: Vec<String>,

    /// Share a directory of the host at a path of the guest; `:ro` forbids writing.
    ///
    /// Files get no set-user-ID and set-group-ID bits there, unless `,suid` allows them.
    #[arg(long, value_name = "HOST:GUEST[:ro|,suid]")]
    pub share: Vec<String>,

    /// Host name of the guest: letters, digits, - and ., up to 64.
    #[arg(long, value_name = "NAME", default_value = "brisk", value_parser = host_name)]
    pub hostname: String,

    /// Set a variable of the command's environment, or pass on the host's value of it.
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

    /// Restore a booted guest from a template in memory instead of booting.
    ///
    /// The first run boots and keeps a template, as does one with other options, another kernel or
    /// another QEMU; `new` always does. `ready` also leaves a restored guest in the warm pool,
    /// which the next run takes without waiting; it ends after a minute without a run.
    #[arg(long, value_enum, default_value_t = Warm::No, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "yes", hide_possible_values = true)]
    pub warm: Warm,

    /// Lock the guest's memory, so that nothing of it gets to this host's swap. All of it is
    /// allocated when QEMU starts.
    #[arg(long, conflicts_with = "warm")]
    pub lock_memory: bool,

    /// Pretranslate the kernel's code under emulation (TCG).
    ///
    /// A second processor of the guest, which its kernel does not know of, has QEMU translate the
    /// kernel's code before the first one reaches it. `auto`: if the host has an idle
    /// processor. The first boot of a kernel, and the first run from a template, record which code
    /// that is.
    #[arg(long, value_enum, default_value_t = Pretranslate::Auto, value_name = "WHEN", alias = "translate-ahead")]
    pub pretranslate: Pretranslate,

    /// Terminal for the command. `auto`: if standard input and output both are one.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    pub tty: When,

    /// Show the events of the run with their times, from the start of QEMU to its end, on stderr or
    /// in FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub timing: Option<Option<PathBuf>>,

    /// Format of --timing and --dry-run.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Time limit of boot and command together, for example 90, 90s or 5m.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,

    /// Show the kernel's console on stderr.
    #[arg(long)]
    pub console: bool,

    /// Keep the guest after a kernel panic, for a debugger, instead of ending with status 121.
    #[arg(long, value_enum, default_value_t = YesNo::No, num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub keep_going_on_panic: YesNo,

    /// Print QEMU's command line with the reason for each part, and run nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Restore a guest for the warm pool, and keep it until it is used.
    #[arg(long, alias = "keeper", value_enum, hide = true)]
    pub pool_process: Option<WarmUp>,

    /// Command and its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Values of [`Args::tty`].
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

/// Values of [`Args::pretranslate`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Pretranslate {
    /// If it is possible, and a processor of the host is idle.
    Auto,
    /// If it is possible.
    Yes,
    /// Never; nothing is recorded for later boots, either.
    No,
}

/// Values of [`Args::warm`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Warm {
    /// Boot.
    No,
    /// Restore a template if there is one, else boot and keep one.
    Yes,
    /// Boot, and keep a new template.
    New,
    /// As yes, and leave a guest in the warm pool for the next run.
    Ready,
}

/// Warm-up of a guest of the warm pool, for [`Args::pool_process`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum WarmUp {
    /// For commands on pipes.
    Pipes,
    /// For commands on a terminal.
    Terminal,
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

/// Runs the command; the result is the exit status.
///
/// # Errors
/// If the guest cannot be started, or ends before the command does.
pub fn run(args: &Args, ui: &Ui, started: Instant) -> anyhow::Result<u8> {
    let mut options = options(args)?;
    options.root.unread = args.dry_run;
    let cache = Cache::open()?;
    let mut spinner: Option<Spinner> = None;
    let mut progress = |text: &str| {
        spinner = (!text.is_empty()).then(|| ui.spinner(text));
    };
    let facts = tool::gather_and_probe(&options, &cache, &mut progress).map_err(explain)?;
    let profile = Profile::path().and_then(|path| Profile::load(&path));
    let profile = profile.filter(|p| p.fits(&options, &facts));
    if let Some(profile) = &profile {
        profile.apply(&mut options);
    }
    let plan = tool::plan(&options, &facts).map_err(explain)?;
    progress("");
    for note in &facts.notes {
        ui.note(note);
    }
    if args.dry_run {
        ui.data(&run_output::dry_run(&plan, &facts, args.format)?)?;
        return Ok(0);
    }
    let (plan, pool) = if options.warm == tool::Warm::No {
        (plan, None)
    } else {
        match warm(plan, &options, &facts, &cache, &mut progress).map_err(explain)? {
            Start::Plan(plan, pool) => (*plan, Some(pool)),
            Start::Cold(plan, reason) => {
                ui.note(&format!("--warm boots this guest: {reason}"));
                (*plan, None)
            }
            Start::Ended(ending) => return Ok(conclude(&ending, options.timeout, ui)),
        }
    };
    if let Some(warm_up) = args.pool_process {
        let pool = pool.context("such a guest boots, and none is kept")?;
        let on_terminal = warm_up == WarmUp::Terminal;
        let kept = pool.keep(plan, on_terminal, &facts, &cache);
        return kept.map(|()| 0).map_err(explain);
    }
    let prepares = prepares(&options, &plan, pool.as_ref(), ui)?;
    let resumes = plan.machine.state.is_some();
    let environment = run_output::environment(&plan, &facts);
    let timing = Timing::new(started);
    let session = match pool.as_ref().and_then(WarmPool::take) {
        Some(ready) => Session::with(ready, &plan, timing),
        None => Session::start(plan, &facts, &cache, timing, &mut progress),
    };
    let session = session.map_err(explain)?;
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
    if resumes && matches!(ending, Ending::QemuEnded { .. }) {
        ui.note("if the guest that was kept is at fault: --warm=new boots and keeps another");
    } else if prepares && pool.is_some_and(|pool| pool.has_room()) {
        let warm_up = match options.command.terminal {
            None => WarmUp::Pipes,
            Some(_) => WarmUp::Terminal,
        };
        if let Err(error) = warm_pool::start(warm_up) {
            ui.note(&format!("no guest is made ready for the next run: {error}"));
        }
    }
    Ok(conclude(&ending, options.timeout, ui))
}

/// Whether a guest is restored for the warm pool after this run.
fn prepares(
    options: &Options,
    plan: &Plan,
    pool: Option<&WarmPool>,
    ui: &Ui,
) -> anyhow::Result<bool> {
    if options.warm != tool::Warm::Ready || pool.is_none() {
        return Ok(false);
    }
    ready_time().map_err(explain)?;
    let holds = !plan.machine.devices.disks.is_empty();
    if holds {
        ui.note("--warm=ready leaves no guest on an image, which it would keep in use");
    }
    Ok(!holds)
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let terminal = match args.tty {
        _ if args.pool_process.is_some() => None,
        When::No => None,
        When::Auto => Terminal::size(),
        When::Yes => match Terminal::size() {
            Some(size) => Some(size),
            None => bail!("--tty yes needs a terminal at standard input and output"),
        },
    };
    let usual = args.machine.options(&args.guest)?;
    let disks = args.disk.iter();
    Ok(Options {
        hardware: tool::HardwareOptions {
            disks: disks.map(|text| tool::ExtraDisk::parse(text)).collect(),
            shares: args
                .share
                .iter()
                .map(|text| share(text))
                .collect::<anyhow::Result<_>>()?,
            lock_memory: args.lock_memory,
            ..usual.hardware
        },
        command: tool::CommandOptions {
            words: args.command.clone(),
            env: args.env.iter().filter_map(|text| variable(text)).collect(),
            workdir: args.workdir.clone(),
            user: args.user.as_deref().map(tool::User::parse),
            terminal,
        },
        host_name: Some(args.hostname.clone()),
        timeout: args.timeout,
        console: args.console,
        warm: match args.warm {
            Warm::No => tool::Warm::No,
            Warm::Yes => tool::Warm::Yes,
            Warm::New => tool::Warm::New,
            Warm::Ready => tool::Warm::Ready,
        },
        pretranslate: match args.pretranslate {
            Pretranslate::Auto => tool::Pretranslate::WhenIdle,
            Pretranslate::Yes => tool::Pretranslate::Always,
            Pretranslate::No => tool::Pretranslate::Never,
        },
        keep_going_on_panic: args.keep_going_on_panic == YesNo::Yes,
        ..usual
    })
}
