//! Calls of the program `virsh`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use brisk_host::program::{self, Program};

use super::output;

/// Error of booting or watching a domain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not installed.
    #[error("libvirt is driven by virsh; apt install libvirt-clients (Debian)")]
    NoVirsh(#[source] program::Error),
    /// It failed.
    #[error("virsh cannot do this")]
    Virsh(#[source] program::Error),
    /// The connection is not to the host, or there is none.
    #[error("{0}")]
    Connect(String),
    /// There is no such domain.
    #[error(
        "libvirt at {uri} has no domain {name}; virsh list --all shows what there is, and \
         --connect qemu:///system or qemu:///session chooses another libvirt"
    )]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// URI of the libvirt.
        uri: String,
    },
    /// The domain cannot be booted in its state.
    #[error("domain {name} {what}; {hint}")]
    State {
        /// The domain.
        name: String,
        /// Reason.
        what: String,
        /// Hint for the user.
        hint: String,
    },
    /// `virsh` refused a command.
    #[error("virsh {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// Message of `virsh`.
        reason: String,
    },
    /// The domain's XML cannot be used.
    #[error("domain {name} has a definition that cannot be read")]
    Definition {
        /// The domain.
        name: String,
        /// The defect.
        source: crate::hardware::XmlError,
    },
    /// A pipe, a terminal or a process failed.
    #[error("cannot watch the domain: {what}")]
    Watch {
        /// The action.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// It took too long.
    #[error("virsh {0} took too long")]
    TimedOut(String),
    /// The user interrupted the command.
    #[error("interrupted")]
    Interrupted,
}

/// The program `virsh`, with its connection.
#[derive(Debug, Clone)]
pub struct Virsh {
    program: Program,
    uri: String,
    /// Time that an answer may take.
    limit: Option<Duration>,
}

impl Virsh {
    /// Finds the program and connects; without `uri` to the default of `virsh`.
    ///
    /// # Errors
    /// If there is no `virsh`, no connection, or one to another host.
    pub fn connect(uri: Option<&str>) -> Result<Self, Error> {
        Self::connect_as(uri, None)
    }

    /// As [`Self::connect`], for who cannot wait for a libvirt that does not answer: each command
    /// has so much time.
    ///
    /// # Errors
    /// As of [`Self::connect`], and if it takes too long.
    pub fn connect_within(uri: Option<&str>, limit: Duration) -> Result<Self, Error> {
        Self::connect_as(uri, Some(limit))
    }

    fn connect_as(uri: Option<&str>, limit: Option<Duration>) -> Result<Self, Error> {
        let program = Program::find("virsh").map_err(Error::NoVirsh)?;
        here(uri.unwrap_or_default())?;
        let mut virsh = Self {
            program: program.set("LC_ALL", "C"),
            uri: String::new(),
            limit,
        };
        if let Some(uri) = uri {
            virsh.program = virsh.program.args(["-c", uri]);
        }
        let reply = virsh.call(&["uri"]).map_err(|error| match error {
            Error::Virsh(program::Error::Failed { stderr, .. }) => Error::Connect(format!(
                "no connection to libvirt{}: {}; is its daemon running, and may this user use it? \
                 (systemctl start libvirtd, usermod -aG libvirt USER, or --connect \
                 qemu:///session)",
                uri.map_or_else(String::new, |uri| format!(" at {uri}")),
                stderr.replace("error: ", "").replace('\n', ": "),
            )),
            Error::TimedOut(_) => Error::Connect(format!(
                "libvirt{} does not answer; is its daemon well? (systemctl status libvirtd)",
                uri.map_or_else(String::new, |uri| format!(" at {uri}")),
            )),
            error => error,
        })?;
        reply.trim().clone_into(&mut virsh.uri);
        here(&virsh.uri)?;
        if uri.is_none() {
            virsh.program = virsh.program.args(["-c", &virsh.uri]);
        }
        Ok(virsh)
    }

    /// URI of the connection.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Runs one command to its end; the result is its output.
    ///
    /// # Errors
    /// If it fails.
    pub fn call(&self, words: &[&str]) -> Result<String, Error> {
        let program = self.program.clone().arg("-q").args(words);
        let output = match self.limit {
            Some(_) => {
                let name = words.first().copied().unwrap_or_default();
                output::of(program.command(), name, self.limit, &mut || {})?
            }
            None => program.run().map_err(Error::Virsh)?,
        };
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Runs one command to its end with text on its standard input; the result is its output.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn call_with(&self, words: &[&str], input: &[u8]) -> Result<String, Error> {
        let program = self.program.clone().arg("-q").args(words);
        let output = program.run_with(input).map_err(Error::Virsh)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// A command that runs while a boot is watched. It ends with brisk, and does not get the
    /// terminal's Ctrl-C.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.program.clone().args(words).command();
        command.process_group(0);
        brisk_sys::die_with_parent(&mut command);
        command
    }
}

fn here(uri: &str) -> Result<(), Error> {
    if is_remote(uri) {
        return Err(Error::Connect(format!(
            "{uri} is another host's: brisk works where QEMU runs; run it there"
        )));
    }
    Ok(())
}

/// Whether a URI has a host in it (<https://libvirt.org/uri.html>).
fn is_remote(uri: &str) -> bool {
    let host = uri
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let name = host.unwrap_or_default();
    let name = name.rsplit_once('@').map_or(name, |(_, name)| name);
    let name = name.split(':').next().unwrap_or_default();
    !matches!(name, "" | "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_known_by_the_host_in_the_uri() {
        for here in [
            "qemu:///system",
            "qemu:///session",
            "qemu+unix:///session?socket=/run/x/y",
            "qemu+ssh://root@localhost:22/system",
        ] {
            assert!(!is_remote(here), "{here}");
        }
        for there in ["qemu+ssh://me@host/system", "qemu://10.0.0.1:16514/system"] {
            assert!(is_remote(there), "{there}");
        }
    }
}
