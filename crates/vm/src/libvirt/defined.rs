//! A domain whose definition can be changed, whether it runs or not.

use super::domain::of_domain;
use super::info::Info;
use super::virsh::{Error, Virsh};
use crate::hardware::GuestHardware;

/// A domain that is defined, with its libvirt connection.
#[derive(Debug, Clone)]
pub struct Defined {
    virsh: Virsh,
    name: String,
    info: Info,
}

impl Defined {
    /// Finds a domain by name, UUID or number.
    ///
    /// # Errors
    /// If there is no such domain, or it is gone when it is shut off.
    pub fn find(name: &str, uri: Option<&str>) -> Result<Self, Error> {
        Self::find_at(Virsh::connect(uri)?, name)
    }

    /// As [`Self::find`], at a libvirt that is known.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_at(virsh: Virsh, name: &str) -> Result<Self, Error> {
        let info = Info::parse(&of_domain(&virsh, &["dominfo"], name)?);
        let name = match virsh.call(&["domname", "--domain", &info.uuid]) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => name.to_owned(),
        };
        if !info.persistent {
            return Err(Error::State {
                name,
                what: "is not persistent: it has no definition that could be changed".into(),
                hint: "change what made it".into(),
            });
        }
        Ok(Self { virsh, name, info })
    }

    /// Names of all domains that are defined.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn names(virsh: &Virsh) -> Result<Vec<String>, Error> {
        let text = virsh.call(&["list", "--all", "--persistent", "--name"])?;
        let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    pub(super) fn virsh(&self) -> &Virsh {
        &self.virsh
    }

    /// What libvirt says of it now.
    pub(super) fn info_now(&self) -> Result<Info, Error> {
        let words = ["dominfo", "--domain", self.uuid()];
        Ok(Info::parse(&self.virsh.call(&words)?))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UUID.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.info.uuid
    }

    /// URI of the libvirt connection.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.virsh.uri()
    }

    /// Whether it is shut off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.info.state == "shut off"
    }

    /// The definition that the next start uses, without passwords.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn xml(&self) -> Result<String, Error> {
        self.virsh
            .call(&["dumpxml", "--inactive", "--domain", self.uuid()])
    }

    /// The definition that the next start uses, with passwords: those that are left out of what is
    /// defined are gone.
    ///
    /// # Errors
    /// If `virsh` fails, or the connection is read-only.
    pub fn xml_with_passwords(&self) -> Result<String, Error> {
        let words = ["dumpxml", "--inactive", "--security-info", "--domain"];
        self.virsh.call(&[&words[..], &[self.uuid()]].concat())
    }

    /// Replaces the definition, which libvirt validates first. It counts from the next start on.
    ///
    /// # Errors
    /// If there is a managed save, which has the old hardware; or if libvirt refuses the XML.
    pub fn define(&self, xml: &str) -> Result<(), Error> {
        if self.info_now()?.managed_save {
            return Err(Error::State {
                name: self.name.clone(),
                what: "has a saved state, which has the hardware of now".into(),
                hint: format!(
                    "start it and shut it down: virsh start {0}, virsh shutdown {0}; or discard \
                     the state: virsh managedsave-remove {0}",
                    self.name
                ),
            });
        }
        let words = ["define", "--validate", "--file", "/dev/stdin"];
        self.virsh.call_with(&words, xml.as_bytes()).map(drop)
    }

    /// What its hypervisor can do here (`virsh domcapabilities`).
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn capabilities(&self, guest: &GuestHardware) -> Result<String, Error> {
        let emulator = guest.emulator.as_deref().map(|path| path.to_string_lossy());
        let kind = match guest.accelerators.first().map(String::as_str) {
            Some("tcg") => "qemu",
            _ => "kvm",
        };
        let mut words = vec!["domcapabilities", "--virttype", kind];
        let pairs = [
            ("--emulatorbin", emulator.as_deref().unwrap_or_default()),
            ("--arch", &guest.machine.arch),
            ("--machine", &guest.machine.kind),
        ];
        for (option, value) in pairs {
            if !value.is_empty() {
                words.extend([option, value]);
            }
        }
        self.virsh.call(&words)
    }
}
