//! Directories of this host that a VM sees, and the virtiofsd processes that serve them.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use brisk_host::files::append;
use brisk_vm::cache::Cache;
use brisk_vm::qemu::FILESYSTEM;
use brisk_vm::qemu::control::Control;
use brisk_vm::virtiofs::{Access, Virtiofsd};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::{Error, file};
use crate::guest;

/// Directories of a VM, with virtiofsd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directories {
    daemon: Virtiofsd,
    /// Paths, and whether the guest may write there.
    list: Vec<(PathBuf, Access)>,
    /// Some of the names in each of them.
    #[serde(default)]
    names: Vec<Vec<String>>,
}

/// Most names of a directory that are recorded.
const NAMES: usize = 64;

/// Daemons that have been started: they end when QEMU does.
#[derive(Default)]
pub(super) struct Served {
    /// Process numbers.
    pub(super) processes: Vec<u32>,
    /// QEMU's ends of the sockets.
    pub(super) sockets: Vec<OwnedFd>,
}

impl Directories {
    /// The directories of a plan, if virtiofsd serves any.
    pub(super) fn of(plan: &guest::Plan, facts: &guest::Facts) -> Option<Self> {
        let daemon = facts.virtiofsd.clone();
        daemon
            .filter(|_| !plan.served.is_empty())
            .map(|daemon| Self {
                daemon,
                list: plan.served.clone(),
                names: Vec::new(),
            })
    }

    /// Records names in the directories.
    pub(super) fn look(&mut self) {
        let names = |(path, _): &(PathBuf, Access)| {
            let files = fs::read_dir(path).into_iter().flatten().flatten();
            let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
            names.take(NAMES).collect()
        };
        self.names = self.list.iter().map(names).collect();
    }

    /// The first directory that the guest may write to.
    pub(super) fn written(&self) -> Option<&Path> {
        let mut list = self.list.iter();
        list.find_map(|(path, access)| access.is_writable().then_some(path.as_path()))
    }

    /// Whether a new virtiofsd can continue from the state of this one.
    pub(super) fn can_be_kept(&self) -> bool {
        self.daemon.keeps_state()
    }

    /// Uses the virtiofsd that is installed now, which continues from the state of another one.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub(super) fn again(&mut self, cache: &Cache) -> Result<(), String> {
        let gone = |path: &PathBuf| !path.is_dir();
        if let Some((path, _)) = self.list.iter().find(|(path, _)| gone(path)) {
            return Err(format!(
                "its directory {} is not there any more",
                path.display()
            ));
        }
        let is_another = |(path, names): &(&PathBuf, &Vec<String>)| {
            let there = |name: &String| path.join(name).symlink_metadata().is_ok();
            !names.is_empty() && !names.iter().any(there)
        };
        let paths = self.list.iter().map(|(path, _)| path);
        if let Some((path, _)) = paths.zip(&self.names).find(is_another) {
            return Err(format!(
                "its directory {} has nothing of what was in it; is its file system mounted?",
                path.display()
            ));
        }
        let daemon = Virtiofsd::find(cache).map_err(|error| {
            format!("virtiofsd serves its directories, and there is none: {error}")
        })?;
        if !daemon.keeps_state() {
            return Err(format!(
                "{} cannot go on where another one left off, virtiofsd 1.11 can",
                daemon.path.display()
            ));
        }
        self.daemon = daemon;
        Ok(())
    }

    /// Starts the daemons; their messages are appended to `errors`.
    pub(super) fn serve(&self, errors: &Path) -> Result<Served, Error> {
        let mut served = Served {
            processes: Vec::new(),
            sockets: Vec::new(),
        };
        for (path, access) in &self.list {
            let says = append(errors).map_err(file("open", errors))?;
            let one = self.daemon.serve_persistent(path, *access, says);
            let one = one.map_err(|source| guest::Error::Serve {
                path: path.clone(),
                source,
            })?;
            served.processes.push(one.daemon.id());
            served.sockets.push(one.socket);
        }
        Ok(served)
    }
}

/// Whether a virtiofsd of a VM has ended. QEMU continues without it, and the guest waits for its
/// files, but QEMU ends when it is to be suspended.
pub(super) fn one_has_ended(qmp: &mut Control<'_>) -> Result<bool, Error> {
    let channels = qmp.execute("query-chardev", &json!(null))?;
    let text = |channel: &Value, name: &str| channel[name].as_str().unwrap_or_default().to_owned();
    let gone = |channel: &Value| {
        text(channel, "label").starts_with(FILESYSTEM)
            && text(channel, "filename").starts_with("disconnected:")
    };
    Ok(channels.as_array().is_some_and(|all| all.iter().any(gone)))
}
