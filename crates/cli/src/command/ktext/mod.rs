//! `brisk ktext`.

mod bench;
mod check;
mod draw;
mod emulation;
mod info;
mod locality;
mod switch;
mod verify;

use clap::Subcommand;

use crate::ui::Ui;

/// See and prove that CPUs run the copy of the kernel's text that is on their NUMA node.
///
/// That takes a kernel with the patch series that replicates its text, root, and debugfs. Some take none
/// of them: brisk ktext check says whether a machine could gain from such a kernel, brisk ktext locality
/// and brisk ktext bench --emulated boot one in QEMU.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Info(info::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Verify(verify::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Draw(draw::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Check(check::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Bench(bench::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Locality(locality::Args),
    /// Have CPUs run on the copies of their nodes.
    ///
    /// The copies are made at boot alone: where there are none, it says why.
    On(switch::Args),
    /// Have CPUs run on the kernel that was loaded, as without replication.
    ///
    /// The copies stay, and follow changes of the kernel's text, so that brisk ktext on can come back
    /// to them: both sides are measured in one boot.
    Off(switch::Args),
}

/// Runs a subcommand; the result is the exit status.
///
/// # Errors
/// Those of the subcommand.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Info(args) => info::run(args, ui),
        Command::Verify(args) => verify::run(args, ui),
        Command::Draw(args) => draw::run(args, ui),
        Command::Check(args) => check::run(args, ui),
        Command::Bench(args) => bench::run(args, ui),
        Command::Locality(args) => locality::run(args, ui),
        Command::On(args) => switch::run(args, true, ui),
        Command::Off(args) => switch::run(args, false, ui),
    }
}
