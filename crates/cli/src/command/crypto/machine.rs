//! The machine that `brisk crypto` looks at.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_tools::crypto::{Local, Machine};

use crate::output::printable_line;

/// This machine, to be measured until a signal comes.
///
/// # Errors
/// If the path of this program is not known.
pub(super) fn this_machine(interrupt: Interrupt) -> anyhow::Result<Local> {
    let program = std::env::current_exe().context("cannot find the program brisk itself")?;
    Ok(Local::new(interrupt).with_program(program))
}

/// Where to look.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// OpenSSL's program to ask about its library.
    #[arg(long, value_name = "PROGRAM", default_value = "openssl")]
    pub openssl: String,

    /// Look in another system's tree, of which only files are read. Default: this system.
    ///
    /// Of the kernel that are proc, sys, boot and lib/modules. OpenSSL's program is not run.
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

impl MachineArgs {
    /// The directory of the system.
    pub(super) fn root(&self) -> &Path {
        self.sysroot.as_deref().unwrap_or(Path::new("/"))
    }

    /// Looks. OpenSSL is asked if somebody wants to know.
    ///
    /// # Errors
    /// If there is no such tree.
    pub(super) fn look(&self, with_openssl: bool) -> anyhow::Result<Machine> {
        let root = self.root();
        ensure!(
            root.is_dir(),
            "--sysroot {}: there is no such directory",
            printable_line(&root.display().to_string())
        );
        let parts = ["proc", "sys", "boot", "lib/modules"];
        ensure!(
            parts.iter().any(|part| root.join(part).is_dir()),
            "--sysroot {}: it is no system's tree: it has none of {}",
            printable_line(&root.display().to_string()),
            parts.join(", ")
        );
        let openssl = with_openssl.then_some(&*self.openssl);
        Ok(Machine::at(root, openssl))
    }
}
