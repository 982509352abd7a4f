//! `brisk ktext info`.

use brisk_tools::ktext::{Status, info};

use crate::command::system::RootArgs;
use crate::exit;
use crate::output::Form;
use crate::ui::Ui;

/// Show which memory each NUMA node maps kernel text to, and which CPU runs on which page tables.
///
/// For each node with memory it lists where kernel text and read-only data are: virtual and physical
/// address, size, the node that has the memory, the size of the pages, and whether it is a copy or the
/// master, which is the kernel as it was loaded. Then come the counts of RedHawk's ktrinfo, the CPUs
/// with the page tables they run on, and what has no copy although its node should have one.
///
/// The verdict on a CPU is "own" if it runs on its node's page tables, "master" if it does not,
/// "fallback" if the process that runs there has none for them, and "wrong" if it runs on another
/// node's, which is a bug of the kernel.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show modules: text and read-only data of each, and how much of it each node has. A dash is the
    /// node on which the module was loaded first.
    #[arg(short, long)]
    modules: bool,

    /// Show each range. Otherwise adjacent pages of 4 kB are one line.
    #[arg(long, conflicts_with = "modules")]
    all: bool,

    /// Form of what is printed. JSON has everything, modules too.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    #[command(flatten)]
    root: RootArgs,
}

/// Shows.
///
/// # Errors
/// If there is no such tree, the kernel's files cannot be used, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let status = Status::read(args.root.checked()?)?;
    let text = match args.format {
        Form::Json => serde_json::to_string_pretty(&info::json(&status))? + "\n",
        Form::Table if args.modules => info::modules(&status),
        Form::Table => info::text(&status, args.all),
    };
    ui.data(&text)?;
    Ok(exit::OK)
}
