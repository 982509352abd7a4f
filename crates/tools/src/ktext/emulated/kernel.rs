//! A kernel with replication, and what was built with it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use brisk_host::{beside, files};

use super::EmulationError;

/// Name of the directory that `setup/ktext-kernel` makes.
const NAME: &str = "ktext-kernel";
/// Bytes of `System.map` at most; a distribution's has about 10 MiB.
const LONGEST_MAP: u64 = 64 << 20;
/// Bytes of all modules at most.
const MODULES: u64 = 256 << 20;
/// Modules that are loaded for their own sake: their code runs when a file of theirs is read.
const RUN: [&str; 1] = ["lkdtm"];

/// A directory with `bzImage`, `System.map`, `modules` and the plugin `liblocality.so`, as
/// `setup/ktext-kernel` leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltKernel {
    directory: PathBuf,
}

/// A module of its.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    /// Name without `.ko`.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl BuiltKernel {
    /// The one in a directory, or the one that set-up has built.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(directory: Option<&Path>) -> Result<Self, EmulationError> {
        let directory = match directory {
            Some(directory) => directory.to_owned(),
            None => {
                let places = beside::dirs().into_iter().map(|dir| dir.join(NAME));
                let built = places.into_iter().find(|dir| dir.join("bzImage").exists());
                built.ok_or(EmulationError::NoKernel)?
            }
        };
        let kernel = Self { directory };
        kernel.open("bzImage")?;
        Ok(kernel)
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn failed(&self, name: &str) -> impl FnOnce(io::Error) -> EmulationError + use<> {
        let path = self.directory.join(name);
        move |source| EmulationError::File { path, source }
    }

    pub(super) fn open(&self, name: &str) -> Result<File, EmulationError> {
        files::open_regular(&self.directory.join(name)).map_err(self.failed(name))
    }

    /// The plugin that counts. QEMU runs it.
    pub(super) fn plugin(&self) -> Result<File, EmulationError> {
        let name = "liblocality.so";
        let file = self.open(name)?;
        let path = self.directory.join(name);
        match beside::is_trusted(&path, rustix::process::geteuid().as_raw()) {
            true => Ok(file),
            false => Err(EmulationError::Untrusted(path)),
        }
    }

    /// Text of `System.map`.
    pub(in super::super) fn map(&self) -> Result<String, EmulationError> {
        let path = self.directory.join("System.map");
        let text = files::start(&path, LONGEST_MAP).map_err(self.failed("System.map"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Its modules, in order of their names; none if there is no directory of them.
    pub(super) fn modules(&self) -> Result<Vec<Module>, EmulationError> {
        let directory = self.directory.join("modules");
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("modules")(error)),
        };
        let mut modules = Vec::new();
        let mut left = MODULES;
        for entry in entries {
            let path = entry.map_err(self.failed("modules"))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.and_then(|name| name.strip_suffix(".ko")) else {
                continue;
            };
            let content = files::start(&path, left.saturating_add(1));
            let content = content.map_err(self.failed(&format!("modules/{name}.ko")))?;
            left = left.checked_sub(content.len() as u64).ok_or_else(|| {
                EmulationError::Unfit(format!(
                    "the modules in {} have more than {} MiB",
                    directory.display(),
                    MODULES >> 20
                ))
            })?;
            let name = name.to_owned();
            modules.push(Module { name, content });
        }
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(modules)
    }

    /// Names of modules that are to be loaded before something is counted.
    pub(in super::super) fn loaded(&self) -> Vec<&'static str> {
        let is_there = |name: &&str| {
            let file = format!("modules/{name}.ko");
            self.directory.join(file).exists()
        };
        RUN.into_iter().filter(is_there).collect()
    }
}
