//! `brisk ktext verify`.

use brisk_tools::ktext::verify::Verification;

use crate::command::system::RootArgs;
use crate::exit;
use crate::output::Form;
use crate::ui::Ui;

/// Compare all copies of kernel text and read-only data with the master, byte by byte.
///
/// The kernel does it: it compares each page of each copy, those of modules too, with the page that it
/// was copied from, and each entry of the nodes' page tables with what follows from the master's.
/// Nothing can patch the kernel's text meanwhile. The first difference is shown with the symbol it is
/// in.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 all copies are equal; 1 something differs; 125 if there is \
                       nothing to compare, or brisk failed."
)]
pub struct Args {
    /// Form of what is printed.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    #[command(flatten)]
    root: RootArgs,
}

/// Compares.
///
/// # Errors
/// If there is no such tree, the kernel's files cannot be used, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let root = args.root.checked()?;
    let spinner = ui.spinner("comparing");
    let found = Verification::read(root);
    drop(spinner);
    let found = found?;
    match args.format {
        Form::Json => ui.data(&(serde_json::to_string_pretty(&found.json())? + "\n"))?,
        Form::Table => ui.data(&found.text())?,
    }
    Ok(match (found.is_equal(), &found.nothing) {
        (false, _) => exit::FOUND,
        (true, None) => exit::OK,
        (true, Some(_)) => exit::BRISK,
    })
}
