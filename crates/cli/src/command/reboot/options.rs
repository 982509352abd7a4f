//! Options that subcommands have in common.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use brisk_host::boot_entries::{self, Entry, Once};
use brisk_host::kernel;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::plan::{self, Cmdline, Plan, PlanError, Request, Running};

pub(super) use crate::command::system::RootArgs;
pub(super) use crate::output::Form;

/// Kernel to start, and what it is started with.
#[derive(Debug, clap::Args)]
pub(super) struct TargetArgs {
    /// Start this entry: its identifier, its title, or its number in brisk reboot list.
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["kernel", "same"])]
    pub(super) entry: Option<String>,

    /// Start this kernel: a release that is installed, or the path of an image with a / in it, with
    /// --root one below DIR.
    #[arg(long, value_name = "KERNEL", conflicts_with = "same")]
    pub(super) kernel: Option<String>,

    /// Start the kernel that runs now, as its own entry does.
    #[arg(long)]
    pub(super) same: bool,

    /// Take this initial RAM disk in place of the entry's, with --root a path below DIR. Several are
    /// loaded one after the other.
    #[arg(long = "initrd", value_name = "FILE")]
    pub(super) initrds: Vec<PathBuf>,

    /// Take the command line of the running kernel (running), of the entry (entry), or this text.
    /// BOOT_IMAGE= and initrd= are left out. Default: of the entry, and of the running kernel if no
    /// entry has the kernel.
    #[arg(long, value_name = "running|entry|TEXT")]
    pub(super) cmdline: Option<String>,

    #[command(flatten)]
    pub(super) root: RootArgs,
}

impl TargetArgs {
    /// The plan, with what runs now.
    ///
    /// # Errors
    /// If there is no such tree, or no plan.
    pub(super) fn plan(&self) -> anyhow::Result<(Plan, Running)> {
        let root = self.root.checked()?;
        let running = self.running();
        let boot = boot_entries::read(root);
        let plan = plan::plan(&boot, &running, &request(self)?, &System(root))?;
        Ok((plan, running))
    }

    /// What would be started, and what the boot loader would take back for it, whatever is wrong with
    /// its files. Where nothing says what is next, it is the kernel that runs.
    ///
    /// # Errors
    /// If there is no such tree, or what is asked for is not there.
    pub(super) fn target(&self) -> anyhow::Result<(Target, Option<Once>)> {
        let root = self.root.checked()?;
        let running = self.running();
        let boot = boot_entries::read(root);
        let mut request = request(self)?;
        let found = plan::target(&boot, &running, &request, &System(root));
        if !matches!(found, Err(PlanError::NothingIsNext { .. })) {
            return Ok(found?);
        }
        ensure!(
            !running.release.is_empty(),
            "/proc/sys/kernel/osrelease does not say which kernel runs; name one with --kernel"
        );
        request.kernel = Some(format!("/boot/vmlinuz-{}", running.release));
        let (mut target, _) = plan::target(&boot, &running, &request, &System(root))?;
        if target.release.is_empty() {
            target.release = running.release;
        }
        Ok((target, None))
    }

    /// What runs now on the system below the root.
    fn running(&self) -> Running {
        let text = |path| text(&self.root.root, path);
        Running {
            release: match self.root.is_running() {
                true => kernel::running(),
                false => text("/proc/sys/kernel/osrelease"),
            },
            cmdline: text("/proc/cmdline"),
        }
    }
}

/// The system that is restarted.
struct System<'a>(&'a Path);

impl plan::Files for System<'_> {
    fn kernel(&self, path: &Path) -> Entry {
        boot_entries::kernel(self.0, path)
    }

    fn is_file(&self, path: &Path) -> bool {
        boot_entries::size(self.0, path).is_some()
    }
}

fn text(root: &Path, path: &str) -> String {
    boot_entries::text(root, Path::new(path))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn request(args: &TargetArgs) -> anyhow::Result<Request> {
    let absolute = |path: &Path| {
        // Another system's paths do not begin where this process is.
        if !args.root.is_running() {
            return Ok(Path::new("/").join(path));
        }
        let shown = || format!("{}: it has no absolute path", path.display());
        std::path::absolute(path).with_context(shown)
    };
    let kernel = match &args.kernel {
        Some(path) if path.contains('/') => {
            let path = absolute(Path::new(path))?;
            Some(path.display().to_string())
        }
        other => other.clone(),
    };
    let initrds = args.initrds.iter().map(|path| absolute(path));
    Ok(Request {
        kernel,
        initrds: initrds.collect::<anyhow::Result<_>>()?,
        cmdline: match args.cmdline.as_deref() {
            None => Cmdline::Automatic,
            Some("running") => Cmdline::Running,
            Some("entry") => Cmdline::Entry,
            Some(text) => Cmdline::Text(text.to_owned()),
        },
        is_same: args.same,
        entry: args.entry.clone(),
    })
}
