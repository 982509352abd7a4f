//! Choice of QEMU: the system's, or a newer one beside it.

use std::fmt;
use std::path::PathBuf;

use brisk_host::beside;
use brisk_host::program::{self, Program};

use super::capabilities::{Capabilities, Error};
use crate::cache::Cache;

/// Name of the program that is chosen by default.
pub const USUAL: &str = "qemu-system-x86_64";
/// First version with all features that brisk uses, postcopy resume included.
const ENOUGH: (u32, u32) = (10, 0);
/// First version that can restore from a file: needed to suspend VMs and for templates.
const KEEPS: (u32, u32) = (8, 2);

/// A QEMU that was chosen.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Path of the program.
    pub path: PathBuf,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The older QEMU that was not chosen, if there is one.
    pub instead: Option<Older>,
}

/// A QEMU that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Older {
    /// Path of the program.
    pub path: PathBuf,
    /// Its version with its package.
    pub package: String,
    version: (u32, u32),
}

impl fmt::Display for Older {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacks = match self.version < KEEPS {
            true => "cannot suspend VMs or keep guests",
            false => "cannot load a VM's memory while it runs",
        };
        let (path, package) = (self.path.display(), &self.package);
        write!(f, "{path} is {package}, which {lacks}")
    }
}

/// Error of choosing a QEMU.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// None is installed.
    #[error(transparent)]
    Missing(#[from] program::Error),
    /// The capabilities of one are unknown.
    #[error(transparent)]
    Capabilities(#[from] Error),
}

/// Chooses the QEMU of a name or at a path. For [`USUAL`] that is the first in `PATH`, unless it is
/// too old for some features of brisk and a newer one is beside the system ([`beside`]).
///
/// # Errors
/// If there is none, or its capabilities cannot be found out.
pub fn choose(name: &str, cache: &Cache) -> Result<Choice, ChoiceError> {
    let found = Program::find(name);
    let ask = |path: PathBuf| {
        let capabilities = Capabilities::of(&path, cache)?;
        Ok::<_, Error>(Choice {
            path,
            capabilities,
            instead: None,
        })
    };
    if name != USUAL {
        return Ok(ask(found?.path().to_owned())?);
    }
    let system = match &found {
        Ok(program) => Some(ask(program.path().to_owned())),
        Err(_) => None,
    };
    if let Some(Ok(choice)) = &system {
        if choice.capabilities.version >= ENOUGH {
            return Ok(choice.clone());
        }
    }
    let others = beside::find(name).into_iter();
    let others = others.filter_map(|path| ask(path).ok());
    let system = match system {
        Some(Ok(choice)) => Some(choice),
        // A broken one is worse than another one.
        Some(Err(error)) => match newest(None, others) {
            Some(choice) => return Ok(choice),
            None => return Err(error.into()),
        },
        None => None,
    };
    match newest(system, others) {
        Some(choice) => Ok(choice),
        None => Err(found.err().map_or_else(
            || {
                ChoiceError::Missing(program::Error::NotFound {
                    name: name.to_owned(),
                })
            },
            ChoiceError::Missing,
        )),
    }
}

/// The newest of them; the system's unless another one is newer.
fn newest(system: Option<Choice>, others: impl Iterator<Item = Choice>) -> Option<Choice> {
    let version = |choice: &Choice| choice.capabilities.version;
    // Of two alike the first is taken: the user's own.
    let other = others.reduce(|best, next| match version(&next) > version(&best) {
        true => next,
        false => best,
    });
    match (system, other) {
        (Some(system), Some(other)) if version(&other) > version(&system) => Some(Choice {
            instead: Some(Older {
                version: version(&system),
                path: system.path,
                package: system.capabilities.package,
            }),
            ..other
        }),
        (Some(system), _) => Some(system),
        (None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn qemu(path: &str, version: (u32, u32)) -> Choice {
        let capabilities = json!({
            "version": version,
            "package": format!("{}.{}.1 Debian", version.0, version.1),
            "machines": [], "aliases": {}, "devices": [], "qboot": null, "identities": [],
        });
        Choice {
            path: path.into(),
            capabilities: serde_json::from_value(capabilities).unwrap(),
            instead: None,
        }
    }

    fn chosen(system: Option<(u32, u32)>, others: &[(u32, u32)]) -> Option<(String, String)> {
        let system = system.map(|version| qemu("/usr/bin/qemu", version));
        let others = others.iter().enumerate();
        let others = others.map(|(index, version)| qemu(&format!("/beside/{index}"), *version));
        let choice = newest(system, others)?;
        let why = choice.instead.map(|older| older.to_string());
        Some((choice.path.display().to_string(), why.unwrap_or_default()))
    }

    #[test]
    fn the_newest_is_taken_and_the_systems_where_it_is_as_new() {
        let is = |path: &str, why: &str| Some((path.to_owned(), why.to_owned()));
        let old = "/usr/bin/qemu is 7.2.1 Debian, which cannot suspend VMs or keep guests";
        assert_eq!(chosen(Some((7, 2)), &[(10, 0)]), is("/beside/0", old));
        assert_eq!(
            chosen(Some((7, 2)), &[(8, 0), (10, 0), (10, 0)]),
            is("/beside/1", old)
        );
        let late = "/usr/bin/qemu is 9.2.1 Debian, which cannot load a VM's memory while it \
                    runs";
        assert_eq!(chosen(Some((9, 2)), &[(10, 0)]), is("/beside/0", late));
        assert_eq!(chosen(Some((10, 0)), &[(10, 0)]), is("/usr/bin/qemu", ""));
        assert_eq!(chosen(Some((7, 2)), &[]), is("/usr/bin/qemu", ""));
        assert_eq!(chosen(None, &[(10, 0)]), is("/beside/0", ""));
        assert_eq!(chosen(None, &[]), None);
    }
}
