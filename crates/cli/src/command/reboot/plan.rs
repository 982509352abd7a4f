//! `brisk reboot --dry-run`.

use std::fmt::Write;
use std::path::Path;

use brisk_host::boot_entries;
use brisk_measure::Unit;
use brisk_measure::render::clean;
use brisk_tools::reboot::plan::{Difference, Plan, Running};

use super::options::{Form, TargetArgs};
use crate::exit;
use crate::ui::Ui;

/// A restart that is planned.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Show what would be started, and why, and start nothing.
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) target: TargetArgs,

    /// Format of the plan.
    #[arg(long, value_enum, default_value_t = Form::Table, requires = "dry_run")]
    format: Form,
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
