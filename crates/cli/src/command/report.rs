//! Options for reports, and their output on the screen and in files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_measure::Report;
use brisk_measure::render::{self, BarPanel, CurvePanel, Lead};

use crate::output::Format;
use crate::ui::Ui;

/// Output of a report.
#[derive(Debug, clap::Args)]
pub struct OutputArgs {
    /// Format of the report on standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Write the report as JSON to this file, saved after every round. Default: a new file below
    /// /var/lib/brisk/reports for root, ~/.local/state/brisk/reports for others; BRISK_STATE_DIR
    /// moves it.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Write a picture to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Write an HTML page with picture, tables and samples to this file; the page needs no other
    /// file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Reason why no report can be saved, and what to try.
pub(crate) const NO_STATE: &str =
    "there is no directory to keep this in: HOME is not set; set HOME or BRISK_STATE_DIR";

impl OutputArgs {
    /// Path of the report, whose directory exists.
    pub(crate) fn file(&self, kind: &str) -> anyhow::Result<PathBuf> {
        for path in [&self.output, &self.svg, &self.html].into_iter().flatten() {
            // It is told before anything is measured, not after.
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            if let Some(directory) = directory.filter(|it| !it.is_dir()) {
                anyhow::bail!(
                    "cannot write {}: there is no directory {}; create it, or name another",
                    path.display(),
                    directory.display()
                );
            }
        }
        if let Some(path) = &self.output {
            return Ok(path.clone());
        }
        let directory = brisk_host::dirs::Dirs::here().state();
        let directory = directory.context(NO_STATE)?.join("reports");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        // Colons are of no use in names of files.
        let now = crate::output::now().replace(':', "");
        let process = std::process::id();
        Ok(directory.join(format!("{now}-{process}-{kind}.json")))
    }

    /// Prints the report and writes the other forms that were asked for.
    pub(crate) fn show(&self, report: &Report, saved: &Path, ui: &Ui) -> anyhow::Result<()> {
        self.print(report, ui)?;
        self.files(report, saved, ui)
    }

    /// Prints the report.
    pub(crate) fn print(&self, report: &Report, ui: &Ui) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Table => render::table(report),
            Format::Json => render::json(report),
            Format::Csv => render::csv(report),
        };
        ui.data(&text)
    }

    /// Writes the pictures and pages that were asked for.
    pub(crate) fn files(&self, report: &Report, saved: &Path, ui: &Ui) -> anyhow::Result<()> {
        self.files_with_bars(report, &[], saved, ui)
    }

    /// Likewise, of a report that is drawn as bars.
    pub(crate) fn files_with_bars(
        &self,
        report: &Report,
        panels: &[BarPanel],
        saved: &Path,
        ui: &Ui,
    ) -> anyhow::Result<()> {
        self.files_with_lead(report, panels, &Lead::default(), saved, ui)
    }

    /// Likewise, with a page that begins with the answer.
    pub(crate) fn files_with_lead(
        &self,
        report: &Report,
        panels: &[BarPanel],
        lead: &Lead,
        saved: &Path,
        ui: &Ui,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.svg {
            let picture = match panels {
                [] => render::svg(report),
                panels => render::svg_of_bars(report, panels),
            };
            write(path, &picture)?;
        }
        if let Some(path) = &self.html {
            write(path, &render::html_with_lead(report, panels, lead))?;
        }
        ui.note(&format!("report in {}", saved.display()));
        Ok(())
    }

    /// Likewise, of a report that is drawn as curves.
    pub(crate) fn files_with_curves(
        &self,
        report: &Report,
        panels: &[CurvePanel],
        saved: &Path,
        ui: &Ui,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.svg {
            write(path, &render::svg_of_curves(report, panels))?;
        }
        if let Some(path) = &self.html {
            write(path, &render::html_with_curves(report, panels))?;
        }
        ui.note(&format!("report in {}", saved.display()));
        Ok(())
    }
}

pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
