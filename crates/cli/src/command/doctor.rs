//! `brisk doctor`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use brisk_host::files;
use brisk_lint::{Finding, Severity};
use brisk_tools::doctor::{Facts, findings, gather};
use brisk_tools::idle::text::Text;
use brisk_vm::hardware::GuestHardware;
use brisk_vm::libvirt::Domain;
use brisk_vm::qemu::cmdline::CommandLine;

use crate::exit;
use crate::hint::of_process;
use crate::output::{Format, csv_field};
use crate::ui::Ui;

/// Most bytes of a description of a guest.
const LARGEST: u64 = 16 << 20;

/// Find what makes boots slow or impossible on the host, with the fix for each.
///
/// A guest is looked at, too, if there is one: a QEMU command line after `--`, a domain of
/// libvirt's, or a QEMU that runs. Nothing is run. Each finding has the name of its rule; the
/// chapter Rules of the book has them all.
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

    /// A description of a guest to look at: the XML of a libvirt domain, as virsh dumpxml prints it,
    /// or a script with a command line of QEMU.
    #[arg(value_name = "FILE", conflicts_with_all = ["domain", "pid", "qemu_command"])]
    pub definition: Option<PathBuf>,

    /// A domain of libvirt's to look at; it may run.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "qemu_command"])]
    pub domain: Option<String>,

    /// A QEMU that runs to look at, by the number of its process, whoever started it.
    #[arg(long, value_name = "PID", conflicts_with = "qemu_command")]
    pub pid: Option<u32>,

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
/// If a guest cannot be read, or nothing can be printed.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let spinner = ui.spinner("looking");
    let guest = guest(args)?;
    let facts = Facts {
        guest,
        ..gather(Path::new("/"), &args.qemu, args.kernel.as_deref())
    };
    drop(spinner);
    let list = findings(&facts);
    match args.format {
        Format::Json => {
            let value = serde_json::json!({ "schema": "brisk.doctor/1", "findings": list });
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
        Format::Csv => ui.data(&csv(&list))?,
        Format::Table if list.is_empty() => ui.data("No problems found.\n")?,
        Format::Table => ui.data(&table(&list))?,
    }
    let impossible = list.iter().any(|f| f.severity == Severity::Impossible);
    Ok(if impossible { exit::FOUND } else { exit::OK })
}

fn csv(list: &[Finding]) -> String {
    let lines = list.iter().map(|finding| {
        let fix = finding.fix.to_string();
        let fields = [&*finding.what, finding.effect, &fix].map(csv_field);
        let (severity, rule) = (finding.severity.name(), finding.rule);
        format!("{severity},{},{rule}\n", fields.join(","))
    });
    let first = "severity,what,effect,fix,rule\n".to_owned();
    std::iter::once(first).chain(lines).collect()
}

fn table(list: &[Finding]) -> String {
    let lines = list.iter().map(|finding| {
        format!(
            "{}: {} [{}]\n    so:  {}\n    fix: {}\n",
            finding.severity.name(),
            finding.what,
            finding.rule,
            finding.effect,
            finding.fix
        )
    });
    lines.collect()
}

/// The guest to look at, if there is one.
fn guest(args: &Args) -> anyhow::Result<Option<GuestHardware>> {
    if let Some(pid) = args.pid {
        let running = GuestHardware::of_process(Path::new("/"), pid);
        return running.map(Some).map_err(of_process);
    }
    if !args.qemu_command.is_empty() {
        let line = CommandLine::with_program(&args.qemu_command);
        return Ok(Some(GuestHardware::of_arguments(&line)));
    }
    if let Some(path) = &args.definition {
        let failed = || format!("cannot read {}", path.display());
        let bytes = files::read_regular(path, LARGEST).with_context(failed)?;
        let text = Text::of_file(&bytes, path).with_context(failed)?;
        return text.hardware().map(Some).with_context(failed);
    }
    let Some(name) = &args.domain else {
        return Ok(None);
    };
    let xml = Domain::xml(name, args.connect.as_deref())?;
    let hardware = GuestHardware::of_xml(&xml);
    hardware
        .map(Some)
        .with_context(|| format!("cannot read {name}"))
}
