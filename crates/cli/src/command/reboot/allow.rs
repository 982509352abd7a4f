//! `brisk reboot allow`.

use anyhow::{Context, bail, ensure};
use brisk_tools::reboot::restart::Store;

use crate::exit;
use crate::output::printable_line;
use crate::ui::Ui;

/// Permit warm reboots into a kernel that failed before.
///
/// A kernel with its initrd and command line that did not come up after a warm reboot is restarted
/// into through the firmware from then on. Without an argument, show what is barred.
#[derive(Debug, clap::Args)]
pub(super) struct AllowArgs {
    /// Kernel that is permitted again: the first digits of its hash, as brisk reboot report shows them.
    #[arg(value_name = "HASH", conflicts_with = "all",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    hash: Option<String>,

    /// Permit all of them.
    #[arg(long)]
    all: bool,
}

/// Permits what was barred.
///
/// # Errors
/// If nothing is called so, or it cannot be written.
pub(super) fn run(args: &AllowArgs, ui: &Ui) -> anyhow::Result<u8> {
    let store = Store::of_system();
    let barred = match store.barred() {
        // What cannot be read cannot be named, but removed.
        Err(error) if args.all => {
            ui.note(&format!("{error}: it is removed"));
            store.allow_all()?;
            return Ok(exit::OK);
        }
        barred => barred.context("to permit everything: sudo brisk reboot allow --all")?,
    };
    if barred.is_empty() {
        ui.note("nothing is barred");
    }
    let hash = match (&args.hash, args.all) {
        (Some(hash), _) => hash.as_str(),
        (None, true) => "",
        (None, false) => {
            for barred in &barred {
                let line = format!(
                    "{} {} failed {}",
                    barred.combination,
                    barred.release,
                    barred.phase.text()
                );
                ui.data(&(printable_line(&line) + "\n"))?;
            }
            return Ok(exit::OK);
        }
    };
    let meant: Vec<_> = barred
        .iter()
        .filter(|one| one.combination.starts_with(hash))
        .collect();
    match meant.len() {
        0 if !args.all => {
            bail!("nothing that is barred begins with {hash}; see brisk reboot allow")
        }
        1 => {}
        _ => ensure!(
            args.all,
            "{hash} is the beginning of more than one; give more digits"
        ),
    }
    for allowed in store.allow(hash)? {
        ui.note(&format!(
            "{} is permitted again: {}",
            allowed.release, allowed.combination
        ));
    }
    Ok(exit::OK)
}
