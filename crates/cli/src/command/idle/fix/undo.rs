//! `brisk idle undo`.

use anyhow::bail;
use brisk_tools::idle::backup::{Backup, Backups};
use brisk_tools::idle::{domain, vm};
use brisk_vm::libvirt::Defined;

use super::explain;
use crate::command::vm::named;
use crate::exit;
use crate::output::printable;
use crate::ui::Ui;

/// Restore the definition that a domain or VM had before brisk idle fix --apply.
///
/// Changes are undone one after another, the last first. What somebody changed since is left as it
/// is, unless --force is given.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("guest").required(true).args(["domain", "vm", "all"]))]
pub struct UndoArgs {
    /// A domain of libvirt's.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    domain: Option<String>,

    /// A persistent VM of brisk's.
    #[arg(long, value_name = "NAME", conflicts_with = "connect")]
    vm: Option<String>,

    /// All that brisk idle fix --all --apply changed last.
    #[arg(long, conflicts_with = "connect")]
    all: bool,

    /// The libvirt that has the domain, such as qemu:///system. Default: as virsh chooses.
    #[arg(long, value_name = "URI")]
    connect: Option<String>,

    /// Restore it even if it was changed since; those changes are lost.
    #[arg(long)]
    force: bool,
}

/// Restores a definition, or all that were changed together.
///
/// # Errors
/// If there is none, or one cannot be restored. Of several, the others are restored.
pub(in crate::command) fn undo(args: &UndoArgs, ui: &Ui) -> anyhow::Result<u8> {
    let spinner = ui.spinner("restoring the definition");
    let backups = Backups::open()?;
    if args.all {
        drop(spinner);
        return undo_all(&backups, args.force, ui);
    }
    let (kind, backup) = match (&args.domain, &args.vm) {
        (_, Some(name)) => ("VM", of_vm(name, &backups, args.force)?),
        (domain, None) => {
            let name = domain.as_deref().unwrap_or_default();
            let domain = Defined::find(name, args.connect.as_deref())?;
            ("domain", domain::undo(&domain, &backups, args.force)?)
        }
    };
    drop(spinner);
    tell(kind, &backup, ui);
    Ok(exit::OK)
}

fn of_vm(name: &str, backups: &Backups, force: bool) -> anyhow::Result<Backup> {
    let paths = named::paths(name)?;
    vm::undo(&paths, backups, force).map_err(explain)
}

fn tell(kind: &str, backup: &Backup, ui: &Ui) {
    ui.note(&printable(&format!(
        "{kind} {} is defined as it was before {} (rules {})",
        backup.name,
        backup.time,
        backup.rules.join(", ")
    )));
}

fn undo_all(backups: &Backups, force: bool, ui: &Ui) -> anyhow::Result<u8> {
    let batch = backups.last_batch()?;
    if batch.last.is_empty() && batch.covered.is_empty() {
        bail!(
            "there is nothing to undo: brisk idle fix --all --apply has changed nothing, or it was undone"
        );
    }
    let mut status = exit::OK;
    for backup in &batch.covered {
        ui.note(&printable(&format!(
            "{} was changed once more since {}: undo that first, and then this",
            backup.name, backup.time
        )));
        status = exit::BRISK;
    }
    for backup in &batch.last {
        let (kind, undone) = match vm::is_of_vm(backup) {
            true => ("VM", of_vm(&backup.name, backups, force)),
            false => ("domain", of_domain(backup, backups, force)),
        };
        match undone {
            Ok(backup) => tell(kind, &backup, ui),
            Err(error) => {
                let name = printable(&backup.name);
                ui.error(&error.context(format!("{kind} {name} stays as it is")));
                status = exit::BRISK;
            }
        }
    }
    Ok(status)
}

fn of_domain(backup: &Backup, backups: &Backups, force: bool) -> anyhow::Result<Backup> {
    let domain = Defined::find(&backup.uuid, Some(&backup.uri))?;
    Ok(domain::undo(&domain, backups, force)?)
}
