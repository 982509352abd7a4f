//! `brisk reboot --dry-run`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_host::boot_entries::{self, Entry};
use brisk_host::{files, kernel};
use brisk_measure::Unit;
use brisk_measure::render::clean;
use brisk_tools::reboot::plan::{self, Cmdline, Difference, Plan, Request, Running};

use super::Form;
use super::list::RootArgs;
use crate::exit;
use crate::ui::Ui;

/// Kernel to start, and what it is started with.
#[derive(Debug, clap::Args)]
pub(super) struct TargetArgs {
    /// Start this entry: its identifier, its title, or its number in brisk reboot list.
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["kernel", "same"])]
    pub(super) entry: Option<String>,

    /// Start this kernel: a release that is installed, or the path of an image with a / in it.
    #[arg(long, value_name = "KERNEL", conflicts_with = "same")]
    pub(super) kernel: Option<String>,

    /// Start the kernel that runs now, as its own entry does.
    #[arg(long)]
    pub(super) same: bool,

    /// Take this initial RAM disk in place of the entry's. Several are loaded one after the other.
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
        let boot = boot_entries::read(root);
        let release = match self.root.is_running() {
            true => kernel::running(),
            false => text(root, "proc/sys/kernel/osrelease"),
        };
        let running = Running {
            release,
            cmdline: text(root, "proc/cmdline"),
        };
        let plan = plan::plan(&boot, &running, &request(self)?, &System(root))?;
        Ok((plan, running))
    }
}

/// A restart that is planned.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Show what would be started, and why, and start nothing.
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    target: TargetArgs,

    /// Format of the plan.
    #[arg(long, value_enum, default_value_t = Form::Table, requires = "dry_run")]
    format: Form,
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

/// Shows the plan.
///
/// # Errors
/// If there is no such tree, or no plan.
pub(super) fn run(args: &PlanArgs, ui: &Ui) -> anyhow::Result<u8> {
    let (plan, running) = args.target.plan()?;
    let root = &args.target.root.root;
    match args.format {
        Form::Json => {
            let mut value = serde_json::to_value(&plan)?;
            value["schema"] = "brisk.reboot.plan/1".into();
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Form::Table => ui.data(&shown(&plan, &running, |path| {
            boot_entries::size(root, path)
        }))?,
    }
    Ok(exit::OK)
}

fn text(root: &Path, path: &str) -> String {
    files::text(&root.join(path))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn request(args: &TargetArgs) -> anyhow::Result<Request> {
    let absolute = |path: &Path| {
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

/// The plan for a terminal.
fn shown(plan: &Plan, running: &Running, size: impl Fn(&Path) -> Option<u64>) -> String {
    let target = &plan.target;
    let file = |path: &Path| match size(path) {
        Some(size) => format!("{}, {}", path.display(), Unit::Bytes.format(size as f64)),
        None => path.display().to_string(),
    };
    let mut lines = Vec::new();
    if let Some(entry) = &plan.entry {
        lines.push(("Entry", entry.title.clone()));
    }
    lines.push(("Why", plan.reason.clone()));
    let release = match &*target.release {
        "" => "release not known",
        release => release,
    };
    let kind = if target.is_uki {
        ", unified kernel image"
    } else {
        ""
    };
    lines.push((
        "Kernel",
        format!("{release}{kind}: {}", file(&target.kernel)),
    ));
    for initrd in &target.initrds {
        lines.push(("Initial RAM disk", file(initrd)));
    }
    if target.initrds.is_empty() && !target.is_uki {
        lines.push(("Initial RAM disk", "none".to_owned()));
    }
    lines.push((
        "Command line",
        format!("of {}: {}", plan.cmdline_from.text(), target.cmdline),
    ));
    if !running.cmdline.is_empty() {
        lines.push(("Against now", changes(&plan.difference)));
    }
    let mut text = String::new();
    for (name, value) in lines {
        let _ = writeln!(text, "{:<18}{}", format!("{name}:"), clean(&value));
    }
    text
}

fn changes(difference: &Difference) -> String {
    let part = |what: &str, words: &[String]| match words {
        [] => None,
        words => Some(format!("{what} {}", words.join(" "))),
    };
    let parts = [
        part("with", &difference.added),
        part("without", &difference.removed),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    match parts[..] {
        [] => "the same words as the running kernel's".to_owned(),
        _ => parts.join("; "),
    }
}
