//! `brisk ktext on` and `brisk ktext off`.

use std::path::PathBuf;

use anyhow::ensure;
use brisk_tools::ktext::switch;

use crate::exit;
use crate::ui::Ui;

/// Where to switch.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Switch in the tree below this directory; for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Switches.
///
/// # Errors
/// If the kernel's files cannot be used, it has no copies, or it refuses.
pub(super) fn run(args: &Args, on: bool, ui: &Ui) -> anyhow::Result<u8> {
    ensure!(
        args.root.is_dir(),
        "--root {}: there is no such directory",
        args.root.display()
    );
    switch(&args.root, on)?;
    ui.note(match on {
        true => "CPUs run on the copies of their nodes",
        false => "all CPUs run on the master",
    });
    Ok(exit::OK)
}
