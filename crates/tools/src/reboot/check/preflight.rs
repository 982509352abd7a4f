//! Everything that is known before a warm reboot.

use std::path::Path;

use brisk_host::boot_entries::Once;

use super::images::Images;
use super::machine::{Machine, Resume};
use super::trial::Trial;
use crate::reboot::Target;
use crate::reboot::restart::{Barred, Dog, Store, Unattended};

/// Facts that the rules look at.
#[derive(Debug, Clone)]
pub struct Preflight {
    /// The machine.
    pub machine: Machine,
    /// What it is to be restarted into.
    pub target: Target,
    /// The files of that.
    pub images: Images,
    /// If it failed before, and was not permitted since; or why that cannot be known.
    pub barred: Result<Option<Barred>, String>,
    /// The watchdog that outlives the kernel.
    pub dog: Option<Dog>,
    /// Why nothing would stop it after the restart; none if something would.
    pub unattended: Option<Unattended>,
    /// What the boot loader would take back as it starts the target, and why that is not possible.
    pub once: Option<(Once, Option<String>)>,
    /// Device that the target resumes from.
    pub resume: Option<Resume>,
    /// The trial load, as far as it has come.
    pub trial: Trial,
}

impl Preflight {
    /// Looks at the system below `root`, and at the files of a target there, for which the boot loader
    /// would take something back. Nothing is loaded or changed.
    #[must_use]
    pub fn read(root: &Path, target: &Target, once: Option<Once>) -> Self {
        // Another system's tree is not what would be written to.
        let obstacle = |it: &Once| it.obstacle(root).filter(|_| root == Path::new("/"));
        let dog = Dog::find(root);
        Self {
            once: once.map(|it| (it.clone(), obstacle(&it))),
            unattended: Unattended::find(root, target, dog.as_ref()),
            dog,
            machine: Machine::read(root),
            images: Images::read(root, target),
            barred: barred(root, target),
            resume: Resume::read(root, &target.cmdline),
            target: target.clone(),
            trial: Trial::NotYet,
        }
    }
}

fn barred(root: &Path, target: &Target) -> Result<Option<Barred>, String> {
    let barred = Store::below(root).barred_target(root, target);
    barred.map_err(|error| {
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        reason.unwrap_or_default()
    })
}
