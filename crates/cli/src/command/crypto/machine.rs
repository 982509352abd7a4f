//! The machine that `brisk crypto` looks at.

use std::path::PathBuf;

use brisk_tools::crypto::Machine;

/// Where to look.
#[derive(Debug, clap::Args)]
pub struct MachineArgs {
    /// OpenSSL's program to ask about its library.
    #[arg(long, value_name = "PROGRAM", default_value = "openssl")]
    pub openssl: String,

    /// Look in another system's tree, of which only files are read.
    ///
    /// Of the kernel that are proc, sys, boot and lib/modules. OpenSSL's program is not run.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub sysroot: PathBuf,
}

impl MachineArgs {
    /// Looks. OpenSSL is asked if somebody wants to know.
    pub(super) fn look(&self, with_openssl: bool) -> Machine {
        Machine::at(&self.sysroot, with_openssl.then_some(&*self.openssl))
    }
}
