//! `brisk overhead fix`.

use brisk_tools::overhead::guest;

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
    fix::change(&args.change, &OVERHEAD, ui)
}
