//! `brisk ktext check`.

use brisk_tools::ktext::check::{self, Machine, Verdict, descriptions};

use crate::command::rules::RulesArgs;
use crate::command::system::RootArgs;
use crate::exit;
use crate::output::Form;
use crate::ui::Ui;

/// Say whether this machine could gain from a kernel that copies its text to each NUMA node.
///
/// It works on any kernel, and reads /proc, /sys and the kernel's configuration alone. Rules look at
/// nodes and their distances, at what such a kernel refuses, and at what the copies cost. Each finding
/// has the name of its rule, what it was seen from, and what to do.
///
/// Whether the machine does gain is another question, which only a measurement answers. Without root
/// the size of the kernel is not known.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 it could gain; 1 it would not, the kernel would refuse, or what \
                       decides it cannot be read; 125 if brisk failed."
)]
pub struct Args {
    /// Form of the findings.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,

    #[command(flatten)]
    rules: RulesArgs,

    #[command(flatten)]
    root: RootArgs,
}

/// Checks.
///
/// # Errors
/// If there is no such tree or rule, or nothing can be printed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let asked = args
        .rules
        .answer(&descriptions(), 20, "brisk ktext check", args.format)?;
    if let Some(text) = asked {
        ui.data(&text)?;
        return Ok(exit::OK);
    }
    let machine = Machine::read(args.root.checked()?);
    let findings = machine.findings();
    match args.format {
        Form::Table => ui.data(&check::text(&machine, &findings))?,
        Form::Json => {
            let value = check::json(&machine, &findings);
            ui.data(&(serde_json::to_string_pretty(&value)? + "\n"))?;
        }
    }
    Ok(match Verdict::of(&findings) {
        Verdict::CouldGain => exit::OK,
        Verdict::NotKnown | Verdict::Refused | Verdict::NoGain => exit::FOUND,
    })
}
