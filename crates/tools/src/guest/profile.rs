//! Profile of this host: the best configuration that tuning found, for `brisk run`.

use std::path::{Path, PathBuf};

use brisk_host::dirs::Dirs;
use brisk_host::files::{self, Durability};
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::optimisations::Optimisations;
use super::options::{Firmware, Machine, Options};

/// Version of the file's format.
const SCHEMA: &str = "brisk.profile/1";

/// A configuration, with the facts that it is valid for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    schema: String,
    /// Version of QEMU, with the distribution's.
    pub qemu: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Accelerator.
    pub accelerator: String,
    /// Machine type.
    pub machine: Machine,
    /// Firmware.
    pub firmware: Firmware,
    /// Optimisations to use.
    #[serde(alias = "levers")]
    pub optimisations: Optimisations,
    /// Further kernel parameters.
    pub append: Vec<String>,
}

/// Error of saving a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It cannot be written.
    #[error("cannot write the profile {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl Profile {
    /// The profile of options that were found best with these facts.
    #[must_use]
    pub fn of(options: &Options, facts: &Facts) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            qemu: facts.capabilities.package.clone(),
            kernel: facts.kernel.version.clone(),
            accelerator: facts.accelerator.0.name().to_owned(),
            machine: options.hardware.machine,
            firmware: options.hardware.firmware,
            optimisations: options.optimisations.clone(),
            append: options.kernel.append.clone(),
        }
    }

    /// The profile without some kernel parameters.
    #[must_use]
    pub fn without(mut self, parameters: &[String]) -> Self {
        self.append.retain(|kept| !parameters.contains(kept));
        self
    }

    /// Path of the profile; `None` if the environment names no directory.
    #[must_use]
    pub fn path() -> Option<PathBuf> {
        Some(Dirs::here().state()?.join("profile.json"))
    }

    /// Loads the profile; `None` if there is none, or it is of another version of brisk.
    #[must_use]
    pub fn load(path: &Path) -> Option<Self> {
        let text = std::fs::read(path).ok()?;
        let profile: Self = serde_json::from_slice(&text).ok()?;
        (profile.schema == SCHEMA).then_some(profile)
    }

    /// Saves the profile atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ProfileError> {
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            files::replace(path, &text, Durability::Synced)
        };
        write().map_err(|source| ProfileError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Whether the profile was found with this QEMU, kernel and accelerator, and the options leave
    /// the choice to brisk.
    #[must_use]
    pub fn fits(&self, options: &Options, facts: &Facts) -> bool {
        options.hardware.machine == Machine::Auto
            && options.hardware.firmware == Firmware::Auto
            && options.optimisations == Optimisations::All
            && options.hardware.cpu.is_none()
            && options.hardware.cpus == 1
            && !options.instructions
            && !options.kernel.all_initcalls
            && self.qemu == facts.capabilities.package
            && self.kernel == facts.kernel.version
            && self.accelerator == facts.accelerator.0.name()
    }

    /// Applies the profile to options; the user's kernel parameters override the profile's.
    pub fn apply(&self, options: &mut Options) {
        options.hardware.machine = self.machine;
        options.hardware.firmware = self.firmware;
        options.optimisations = self.optimisations.clone();
        let own = std::mem::take(&mut options.kernel.append);
        options.kernel.append = self.append.iter().cloned().chain(own).collect();
    }

    /// The profile as options of `brisk run`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--machine".into(), self.machine.name().to_owned()];
        if self.firmware != Firmware::Auto {
            words.extend(["--firmware".into(), self.firmware.name().to_owned()]);
        }
        words.extend(["--optimisations".into(), self.optimisations.to_string()]);
        for text in &self.append {
            words.extend(["--append".into(), text.clone()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state/profile.json");
        assert_eq!(Profile::load(&path), None);
        let mut profile = Profile {
            schema: SCHEMA.to_owned(),
            qemu: "10.0".into(),
            kernel: "6.12".into(),
            accelerator: "tcg".into(),
            machine: Machine::Microvm,
            firmware: Firmware::Qboot,
            optimisations: Optimisations::parse("quiet,tsc"),
            append: vec!["nowatchdog".into()],
        };
        profile.save(&path).expect("it is saved");
        assert_eq!(Profile::load(&path), Some(profile.clone()));
        assert_eq!(
            profile.words().join(" "),
            "--machine microvm --firmware qboot --optimisations quiet,tsc --append nowatchdog"
        );
        let append = |parameters: &[&str]| {
            let all = ["a=1", "nowatchdog"].map(str::to_owned).to_vec();
            let profile = Profile {
                append: all,
                ..profile.clone()
            };
            let parameters: Vec<_> = parameters.iter().map(|&text| text.to_owned()).collect();
            profile.without(&parameters).append
        };
        assert_eq!(append(&["a=1", "b"]), ["nowatchdog"]);
        assert_eq!(append(&[]), ["a=1", "nowatchdog"]);
        profile.schema = "brisk.profile/2".into();
        profile.save(&path).expect("it is saved");
        assert_eq!(Profile::load(&path), None);
    }

    #[test]
    fn the_user_has_the_last_word() {
        let mut options = Options::default();
        options.kernel.append = vec!["quiet".into()];
        let profile = Profile {
            schema: SCHEMA.to_owned(),
            qemu: String::new(),
            kernel: String::new(),
            accelerator: String::new(),
            machine: Machine::Q35,
            firmware: Firmware::Auto,
            optimisations: Optimisations::All,
            append: vec!["loglevel=7".into()],
        };
        profile.apply(&mut options);
        assert_eq!(options.kernel.append, ["loglevel=7", "quiet"]);
        assert_eq!(options.hardware.machine, Machine::Q35);
    }
}
