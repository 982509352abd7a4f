//! `brisk doctor`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_tools::doctor::{Facts, Line, Severity, findings, gather};

use brisk_vm::libvirt::{Definition, Domain};

use crate::exit;
use crate::output::Format;
use crate::output::csv_field;
use crate::ui::Ui;

/// Find what makes boots slow or impossible on this machine, with the fix for each.
///
/// With a QEMU command line after `--`, or a domain of libvirt's, that is looked at, too; nothing
/// is run.
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

    /// The definition of a domain of libvirt's to look at, as virsh dumpxml prints it.
    #[arg(value_name = "XML", conflicts_with_all = ["domain", "qemu_command"])]
    pub definition: Option<PathBuf>,

    /// A domain of libvirt's to look at; it may run.
    #[arg(long, value_name = "NAME", conflicts_with = "qemu_command")]
    pub domain: Option<String>,

    /// The libvirt that has the domain, such as qemu:///system. Default: as virsh chooses.
    #[arg(long, value_name = "URI", requires = "domain")]
    pub connect: Option<String>,

    /// A QEMU command line to look at.
    #[arg(last = true, value_name = "QEMU")]
    pub qemu_command: Vec<OsString>,
}

/// Looks.
///
/// # Errors
/// If a domain cannot be read, or nothing can be printed.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let spinner = ui.spinner("looking");
    let domain = domain(args)?;
    let facts = Facts {
        line: (!args.qemu_command.is_empty()).then(|| Line::parse(&args.qemu_command)),
        domain,
        ..gather(Path::new("/"), &args.qemu, args.kernel.as_deref())
    };
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

fn domain(args: &Args) -> anyhow::Result<Option<Definition>> {
    let (name, xml) = match (&args.definition, &args.domain) {
        (Some(path), _) => {
            let name = path.display().to_string();
            let xml = std::fs::read_to_string(path);
            (
                name.clone(),
                xml.with_context(|| format!("cannot read {name}"))?,
            )
        }
        (None, Some(name)) => (name.clone(), Domain::xml(name, args.connect.as_deref())?),
        (None, None) => return Ok(None),
    };
    let definition = Definition::parse(&xml);
    Ok(Some(
        definition.with_context(|| format!("cannot read {name}"))?,
    ))
}
