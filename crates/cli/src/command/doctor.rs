//! `brisk doctor`.

use std::ffi::OsString;
use std::path::Path;

use brisk_tools::doctor::{Line, Severity, findings, gather};

use super::run::Format;
use super::run_output::csv_field;
use crate::exit;
use crate::ui::Ui;

/// Find what makes boots slow or impossible on this machine, with the fix for each.
///
/// With a QEMU command line after `--`, that is looked at, too; it is not run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Exit status: 0, or 1 if something is impossible as things are.")]
pub struct Args {
    /// Kernel to look at, as in brisk run.
    #[arg(long, short, value_name = "PATH|VERSION")]
    pub kernel: Option<String>,

    /// QEMU to look at.
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "BRISK_QEMU",
        default_value = "qemu-system-x86_64"
    )]
    pub qemu: String,

    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// A QEMU command line to look at.
    #[arg(last = true, value_name = "QEMU")]
    pub qemu_command: Vec<OsString>,
}

/// Looks.
///
/// # Errors
/// If nothing can be printed.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let line = (!args.qemu_command.is_empty()).then(|| Line::parse(&args.qemu_command));
    let spinner = ui.spinner("looking");
    let facts = gather(Path::new("/"), &args.qemu, args.kernel.as_deref(), line);
    drop(spinner);
    let list = findings(&facts);
    match args.format {
        Format::Json => {
            let value = serde_json::json!({ "schema": "brisk.doctor/1", "findings": list });
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Format::Csv => {
            let mut text = "severity,what,effect,fix\n".to_owned();
            for finding in &list {
                let fields = [&*finding.what, &finding.effect, &finding.fix];
                let fields: Vec<_> = fields.into_iter().map(csv_field).collect();
                text.push_str(&format!(
                    "{},{}\n",
                    finding.severity.name(),
                    fields.join(",")
                ));
            }
            ui.data(&text)?;
        }
        Format::Table if list.is_empty() => ui.data("Nothing to mend.\n")?,
        Format::Table => {
            let mut text = String::new();
            for finding in &list {
                text.push_str(&format!(
                    "{}: {}\n    so:  {}\n    fix: {}\n",
                    finding.severity.name(),
                    finding.what,
                    finding.effect,
                    finding.fix
                ));
            }
            ui.data(&text)?;
        }
    }
    let impossible = list.iter().any(|f| f.severity == Severity::Impossible);
    Ok(if impossible { exit::FOUND } else { exit::OK })
}
