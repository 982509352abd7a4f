//! A domain that runs.

use super::console::Console;
use super::definition::console_path;
use super::domain::of_domain;
use super::info::Info;
use super::process::number_of_domain;
use super::statistics::DomainStatistics;
use super::virsh::{Error, Virsh};

/// A domain that runs, with its libvirt connection. It is only looked at.
#[derive(Debug, Clone)]
pub struct RunningDomain {
    virsh: Virsh,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Process number of its QEMU.
    pub pid: u32,
}

impl RunningDomain {
    /// Finds a domain by name, UUID or number.
    ///
    /// # Errors
    /// If there is none, if it does not run, or if its process cannot be seen.
    pub fn find(name: &str, uri: Option<&str>) -> Result<Self, Error> {
        let virsh = Virsh::connect(uri)?;
        let info = Info::parse(&of_domain(&virsh, &["dominfo"], name)?);
        if !matches!(
            &*info.state,
            "running" | "idle" | "paused" | "in shutdown" | "pmsuspended"
        ) {
            return Err(Error::State {
                name: name.to_owned(),
                what: format!("is {}", info.state),
                hint: format!("start it: virsh start {name}"),
            });
        }
        let pid = number_of_domain(&info.uuid).map_err(|source| Error::Watch {
            what: "find its process",
            source,
        })?;
        let called = virsh.call(&["domname", "--domain", &info.uuid])?;
        Ok(Self {
            name: called.trim().to_owned(),
            uuid: info.uuid,
            virsh,
            pid,
        })
    }

    /// Opens its first console that is a pseudo-terminal; none if it has none.
    ///
    /// # Errors
    /// If `virsh` fails, or the console cannot be opened.
    pub fn console(&self) -> Result<Option<Console>, Error> {
        let xml = self.virsh.call(&["dumpxml", "--domain", &self.uuid])?;
        let path = console_path(&xml).map_err(|source| Error::Definition {
            name: self.name.clone(),
            source,
        })?;
        let opened = path.map(|path| Console::open(&path, &self.virsh, &self.uuid));
        opened.transpose().map_err(|source| Error::Watch {
            what: "open its console",
            source,
        })
    }

    /// Whether its guest agent answers.
    ///
    /// # Errors
    /// If it does not, or `virsh` fails.
    pub fn ping_agent(&self) -> Result<(), Error> {
        self.agent(&serde_json::json!({ "execute": "guest-ping" }))
    }

    /// Has its guest agent start a script of `sh`, which goes on by itself.
    ///
    /// # Errors
    /// If it does not answer or may not do that, or `virsh` fails.
    pub fn start_by_agent(&self, script: &str) -> Result<(), Error> {
        self.agent(&serde_json::json!({
            "execute": "guest-exec",
            "arguments": { "path": "/bin/sh", "arg": ["-c", script] },
        }))
    }

    fn agent(&self, command: &serde_json::Value) -> Result<(), Error> {
        let command = command.to_string();
        let words = [
            "qemu-agent-command",
            "--timeout",
            "5",
            "--domain",
            &*self.uuid,
        ];
        self.virsh.call(&[&words[..], &[&*command]].concat())?;
        Ok(())
    }

    /// Counters of KVM, as libvirt has them from QEMU. The domain is not marked as tainted.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn statistics(&self) -> Result<Option<DomainStatistics>, Error> {
        Ok(DomainStatistics::of_all(&self.virsh)?
            .into_iter()
            .find(|domain| domain.name == self.name))
    }
}
