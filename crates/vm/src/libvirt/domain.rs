//! A domain that can be booted.

use brisk_host::program::Error::Failed;

use super::definition::Definition;
use super::info::Info;
use super::virsh::{Error, Virsh};

/// A domain that is shut off, with its libvirt connection.
#[derive(Debug, Clone)]
pub struct Domain {
    pub(super) virsh: Virsh,
    /// UUID, which identifies the domain to `virsh` whatever its name is.
    pub(super) uuid: String,
    /// Definition that the next start will use.
    pub definition: Definition,
}

impl Domain {
    /// Finds a domain by name, UUID or number.
    ///
    /// # Errors
    /// If there is none, or it is not shut off, or would not boot when started.
    pub fn find(name: &str, uri: Option<&str>) -> Result<Self, Error> {
        let virsh = Virsh::connect(uri)?;
        let info = of_domain(&virsh, &["dominfo"], name)?;
        let info = Info::parse(&info);
        check(name, &info)?;
        let xml = virsh.call(&["dumpxml", "--inactive", "--domain", &info.uuid])?;
        let definition = Definition::parse(&xml).map_err(|source| Error::Definition {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            virsh,
            uuid: info.uuid,
            definition,
        })
    }

    /// URI of the libvirt connection.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.virsh.uri()
    }

    /// XML that the next start will use.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn xml(name: &str, uri: Option<&str>) -> Result<String, Error> {
        let virsh = Virsh::connect(uri)?;
        of_domain(&virsh, &["dumpxml", "--inactive"], name)
    }
}

/// Runs a command of `virsh` on a domain that may not exist.
pub(super) fn of_domain(virsh: &Virsh, words: &[&str], name: &str) -> Result<String, Error> {
    let words = [words, &["--domain", name]].concat();
    virsh.call(&words).map_err(|error| match &error {
        Error::Virsh(Failed { stderr, .. }) if says_unknown(stderr) => Error::Unknown {
            name: name.to_owned(),
            uri: virsh.uri().to_owned(),
        },
        _ => error,
    })
}

/// Whether a message of `virsh` is about a domain that does not exist, and says nothing else: it is
/// the first line, too, where a domain could not be looked for, as when the connection broke.
fn says_unknown(stderr: &str) -> bool {
    let is_known = |line: &str| line.contains("failed to get domain");
    // `VIR_ERR_NO_DOMAIN`, of some versions.
    let is_reason = |line: &str| line.contains("Domain not found");
    let mut lines = stderr.lines().filter(|line| !line.trim().is_empty());
    stderr.lines().any(is_known) && lines.all(|line| is_known(line) || is_reason(line))
}

/// Checks that the domain can be booted repeatedly without a lasting change to it.
pub(super) fn check(name: &str, info: &Info) -> Result<(), Error> {
    let state = |what: String, hint: String| {
        Err(Error::State {
            name: name.to_owned(),
            what,
            hint,
        })
    };
    if info.state != "shut off" {
        return state(
            format!(
                "is {}, and boots can be measured only of one that is shut off",
                info.state
            ),
            format!("shut it down: virsh shutdown {name}"),
        );
    }
    if info.managed_save {
        return state(
            "has a saved state, which would be restored instead of booting".into(),
            format!(
                "discard it: virsh managedsave-remove {name}; or start it and shut it down: \
                 virsh start {name}, virsh shutdown {name}"
            ),
        );
    }
    if !info.persistent {
        return state(
            "is not persistent and would be gone after a boot".into(),
            "define it: virsh define".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> Info {
        Info {
            uuid: "u".into(),
            state: "shut off".into(),
            persistent: true,
            managed_save: false,
        }
    }

    #[test]
    fn a_domain_that_cannot_be_looked_for_may_exist() {
        for (reasons, is_unknown) in [
            ("", true),
            (
                "error: Domain not found: no domain with matching name 'x'\n",
                true,
            ),
            (
                "error: End of file while reading data: Input/output error\n",
                false,
            ),
            (
                "error: Disconnected from qemu:///system due to end of file\n",
                false,
            ),
        ] {
            let text = format!("error: failed to get domain 'x'\n\n{reasons}");
            assert_eq!(says_unknown(&text), is_unknown, "{text}");
        }
        assert!(!says_unknown("error: operation failed\n"));
    }

    #[test]
    fn only_what_is_shut_off_and_would_boot_is_booted() {
        assert!(check("x", &info()).is_ok());
        for (info, part) in [
            (
                Info {
                    state: "running".into(),
                    ..info()
                },
                "virsh shutdown x",
            ),
            (
                Info {
                    state: "paused".into(),
                    ..info()
                },
                "is paused",
            ),
            (
                Info {
                    managed_save: true,
                    ..info()
                },
                "virsh managedsave-remove x",
            ),
            (
                Info {
                    persistent: false,
                    ..info()
                },
                "virsh define",
            ),
        ] {
            let text = check("x", &info).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
