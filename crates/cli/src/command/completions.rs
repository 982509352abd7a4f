//! `brisk completions`: shell completions for packages.

use clap_complete::Shell;

use crate::ui::Ui;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell to print them for.
    shell: Shell,
}

/// Prints the completions; the result is the exit status.
///
/// # Errors
/// If stdout cannot be written.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "brisk", &mut text);
    ui.data(&String::from_utf8_lossy(&text))?;
    Ok(0)
}
