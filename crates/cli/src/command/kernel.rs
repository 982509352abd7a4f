//! `brisk kernel`.

use crate::ui::Ui;

/// TODO
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List.
    List,
}

/// Runs it.
///
/// # Errors
/// None yet.
pub fn run(_command: &Command, _ui: &Ui) -> anyhow::Result<u8> {
    anyhow::bail!("not yet")
}
