//! `brisk reboot report`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_measure::render::{html_with_bars, svg_of_bars};
use brisk_tools::reboot::restart::{Store, history, notes};

use super::options::Form;
use crate::exit;
use crate::output::now;
use crate::ui::Ui;

/// Show what restarts took, and what the warm ones saved.
///
/// All restarts are noted if brisk-reboot.service is enabled, also those that brisk was not asked
/// for: the cold ones are what a warm one is compared with.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Show the last N restarts only.
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..))]
    last: u16,

    /// Form of the report.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    /// Write a picture of the phases to this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write a page with the picture to this HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Shows the report.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn run(args: &ReportArgs, ui: &Ui) -> anyhow::Result<u8> {
    let store = Store::of_system();
    store
        .may_be_read()
        .context("the history is root's here; try: sudo brisk reboot report")?;
    let mut all = store.history();
    let barred = store.barred().unwrap_or_else(|error| {
        ui.note(&format!("{error}: no kernel is shown as barred"));
        Vec::new()
    });
    // Others see neither root's VMs nor its domains.
    if rustix::process::geteuid().is_root() {
        notes::look_again(&mut all, super::carried::running);
    }
    let last = usize::from(args.last);
    match args.format {
        Form::Table => ui.data(&history::text(&all, last, &barred))?,
        Form::Json => {
            let value = history::json(&all, last, &barred);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    let (report, panel) = history::picture(&all, last, &now());
    let panels = [panel];
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &args.svg {
        write(path, svg_of_bars(&report, &panels))?;
    }
    if let Some(path) = &args.html {
        write(path, html_with_bars(&report, &panels))?;
    }
    Ok(exit::OK)
}
