//! `brisk idle undo`.

use anyhow::bail;
use brisk_tools::idle::backup::{Backup, Backups, Kept};
use brisk_tools::idle::{domain, vm};
use brisk_tools::vm::{Error, StateDirs};
use brisk_vm::libvirt::{self, Defined};

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
        (_, Some(name)) => {
            let undone = vm::undo(&named::paths(name)?, &backups, None, args.force);
            ("VM", undone.map_err(explain)?)
        }
        (domain, None) => {
            let name = domain.as_deref().unwrap_or_default();
            let domain = Defined::find(name, args.connect.as_deref())?;
            ("domain", domain::undo(&domain, &backups, None, args.force)?)
        }
    };
    drop(spinner);
    tell(kind, &backup, ui);
    Ok(exit::OK)
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
    if batch.kept.is_empty() && batch.damaged.is_empty() {
        bail!(
            "there is nothing to undo: brisk idle fix --all --apply has changed nothing, or it was undone"
        );
    }
    let mut status = exit::OK;
    let mut stay = Vec::new();
    for error in batch.damaged {
        ui.error(&anyhow::Error::from(error).context("a backup is left out"));
        status = exit::BRISK;
    }
    for kept in &batch.kept {
        let is_of_vm = vm::is_of_vm(&kept.backup);
        let kind = if is_of_vm { "VM" } else { "domain" };
        let undone = match is_of_vm {
            true => of_vm(kept, backups, force),
            false => of_domain(kept, backups, force),
        };
        let name = printable(&kept.backup.name);
        match undone {
            Ok(Some(backup)) => {
                tell(kind, &backup, ui);
                continue;
            }
            // What was changed before comes next.
            Ok(None) => {
                let aside = backups.put_aside(&kept.path)?;
                ui.note(&printable(&format!(
                    "there is no {kind} {name} any more: its definition from before is kept in \
                     {}, under \"before\"",
                    aside.display()
                )));
            }
            Err(error) => {
                ui.error(&error.context(format!("{kind} {name} stays as it is")));
                stay.push(kept.path.display().to_string());
            }
        }
        status = exit::BRISK;
    }
    if !stay.is_empty() {
        ui.note(&printable(&format!(
            "earlier changes come next once these backups are restored, or moved to another \
             directory: {}",
            stay.join(", ")
        )));
    }
    Ok(status)
}

/// Restores a VM of several; None if there is no such VM any more.
fn of_vm(kept: &Kept, backups: &Backups, force: bool) -> anyhow::Result<Option<Backup>> {
    let dirs = StateDirs::here().map_err(named::explain)?;
    let paths = vm::of_backup(&dirs, &kept.backup);
    let undone = paths.and_then(|paths| vm::undo(&paths, backups, Some(&kept.path), force));
    match undone {
        Ok(backup) => Ok(Some(backup)),
        Err(vm::Error::Vm(Error::Unknown { .. })) => Ok(None),
        Err(error) => Err(explain(error)),
    }
}

/// Restores a domain of several; None if there is no such domain any more.
fn of_domain(kept: &Kept, backups: &Backups, force: bool) -> anyhow::Result<Option<Backup>> {
    let domain = match Defined::find(&kept.backup.uuid, Some(&kept.backup.uri)) {
        Err(libvirt::Error::Unknown { .. }) => return Ok(None),
        found => found?,
    };
    Ok(Some(domain::undo(
        &domain,
        backups,
        Some(&kept.path),
        force,
    )?))
}
