//! `brisk overhead fix`.

use brisk_host::program::quote;
use brisk_tools::overhead::guest;
use clap::Parser;

use crate::command::idle::fix::{self, Topic};
use crate::ui::Ui;

/// Change what makes a guest of QEMU slower than it has to be, or its times too good.
///
/// Rules look at the model of the processor, huge pages, pinning and caches of disks. The change is
/// shown as a diff. The XML of a domain and the definition of a VM of brisk's keep every other
/// byte; with --apply they are changed, that of a domain by libvirt, which validates it, and brisk
/// overhead undo restores what was there. Of a command line the changed one is shown. What needs
/// more of the host, or may have been chosen on purpose, is changed only if its rule is named.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    change: fix::Args,

    /// Measure what the changes are worth: compile in the guest of a command line as it is and as
    /// it would be, in rounds. The guest has to offer a shell on its first serial port, and a
    /// compiler; its images are not written. brisk overhead run --ablate fix has more options.
    #[arg(long = "try", conflicts_with_all = ["apply", "output", "domain", "vm", "pid"])]
    tries: bool,
}

/// Arguments of a measurement.
#[derive(Debug, Parser)]
struct Parsed {
    #[command(flatten)]
    args: super::run::Args,
}

const OVERHEAD: Topic = Topic {
    command: "brisk overhead",
    schema: "brisk.overhead.fix/1",
    look: guest::findings,
    rules: guest::descriptions,
    more: None,
};

/// Shows or makes changes.
///
/// # Errors
/// If the guest cannot be read or changed.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let ended = fix::change(&args.change, &OVERHEAD, ui)?;
    if !args.tries {
        return Ok(ended);
    }
    let words = args.change.command_line()?;
    let words: Vec<_> = words.iter().map(|word| quote(word)).collect();
    let target = format!("guest=qemu:{}", words.join(" "));
    let ablation = match args.change.rules() {
        [] => "fix".to_owned(),
        rules => format!("fix={}", rules.join("+")),
    };
    let words = ["run", "--target", &target, "--ablate", &ablation];
    super::run::run(&Parsed::try_parse_from(words)?.args, ui)
}
