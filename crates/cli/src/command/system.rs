//! The system that commands look at.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::output::printable_line;

/// Where the system is.
#[derive(Debug, clap::Args)]
pub(crate) struct RootArgs {
    /// Look in another system's tree, of which only files are read.
    #[arg(long, alias = "sysroot", value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

impl RootArgs {
    /// The root.
    ///
    /// # Errors
    /// If there is no such directory.
    pub(crate) fn checked(&self) -> anyhow::Result<&Path> {
        ensure!(
            self.root.is_dir(),
            "--root {}: there is no such directory",
            printable_line(&self.root.display().to_string())
        );
        Ok(&self.root)
    }

    /// Whether it is the system that runs.
    pub(crate) fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }
}
