//! `brisk ktext draw`.

use std::path::PathBuf;

use brisk_measure::{Environment, Report, render};
use brisk_tools::ktext::{Status, draw};

use crate::command::system::RootArgs;
use crate::exit;
use crate::output;
use crate::ui::Ui;

/// Draw from which node's memory each 2 MB of kernel text and read-only data come, for each node.
///
/// Each character is 2 MB of addresses, and its digit the node that has the memory: with replication a
/// node's line has its own number, without it the number of the node that has the kernel.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write the drawing as a picture (SVG) to this file, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    #[command(flatten)]
    root: RootArgs,
}

/// Draws.
///
/// # Errors
/// If there is no such tree, the kernel's files cannot be used, or nothing can be written.
pub(super) fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    let status = Status::read(args.root.checked()?)?;
    let parts = draw::parts(&status);
    if let Some(path) = &args.svg {
        let environment = Environment {
            host_kernel: Some(status.release.clone()).filter(|release| !release.is_empty()),
            ..Environment::default()
        };
        let report = Report::new("ktext draw", output::now(), environment);
        let svg = render::svg_of_cells(&report, &draw::panels(&parts));
        output::write_whole(path, svg.as_bytes())?;
    }
    ui.data(&draw::text(&parts))?;
    Ok(exit::OK)
}
