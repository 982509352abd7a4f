//! Domain of libvirt's as a boot target.

use std::time::{Duration, Instant};

use brisk_measure::Environment;
use brisk_vm::libvirt::{self, Stop, Wanted};

use super::ready_condition::ReadyCondition;
use super::running_vm::Domain as Machine;
use super::target::qemu_version;
use crate::guest::Error;

/// A domain that is shut off, and is shut off again after each boot.
#[derive(Debug)]
pub struct Domain {
    domain: libvirt::Domain,
    marker: Option<ReadyCondition>,
    stop: Stop,
    patience: Duration,
}

impl Domain {
    /// Finds a domain, and checks that it can be watched for the ready condition. `patience` is the
    /// time limit for its shutdown.
    ///
    /// # Errors
    /// If there is none, or it is not shut off, or cannot be watched.
    pub fn find(
        name: &str,
        uri: Option<&str>,
        marker: Option<ReadyCondition>,
        stop: Stop,
        patience: Duration,
    ) -> Result<Self, Error> {
        let domain = libvirt::Domain::find(name, uri)?;
        let definition = &domain.definition;
        match &marker {
            Some(ReadyCondition::Console(_)) if !definition.has_console() => {
                return Err(Error::unfit(
                    format!("domain {name} has no console that could be read"),
                    format!("add one: virt-xml {name} --add-device --console pty"),
                ));
            }
            Some(ReadyCondition::Agent) if !definition.has_agent() => {
                return Err(Error::unfit(
                    format!("domain {name} has no port for the guest agent"),
                    format!(
                        "add one: virt-xml {name} --add-device --channel \
                         unix,target.type=virtio,target.name=org.qemu.guest_agent.0"
                    ),
                ));
            }
            Some(ReadyCondition::Port(_)) => {
                return Err(Error::unfit(
                    "a port would have to be added to the domain, which is left as it is",
                    "use --ready console:REGEX, qmp:EVENT or agent",
                ));
            }
            _ => {}
        }
        Ok(Self {
            domain,
            marker,
            stop,
            patience,
        })
    }

    /// Whether its console can be read.
    #[must_use]
    pub fn has_console(&self) -> bool {
        self.domain.definition.has_console()
    }

    pub(crate) fn start(
        &self,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<(Machine, Instant), Error> {
        let wanted = Wanted {
            console: self.has_console(),
            agent: matches!(self.marker, Some(ReadyCondition::Agent)),
        };
        let started = self.domain.start(wanted, stopped)?;
        let asked = started.asked;
        let machine = Machine {
            started,
            marker: self.marker.clone(),
            stop: self.stop,
            patience: self.patience,
        };
        Ok((machine, asked))
    }

    /// Adds the domain's facts to an environment.
    pub(super) fn describe(&self, environment: &mut Environment) {
        let definition = &self.domain.definition;
        let hardware = &definition.hardware;
        environment.qemu_version = hardware.emulator.as_deref().and_then(qemu_version);
        environment.accelerator = hardware.accelerators.first().cloned();
        let mut add = |name: &str, value: Option<String>| {
            let value = value.filter(|value| !value.is_empty());
            let entry = value.map(|value| (name.to_owned(), value));
            environment.extra.extend(entry);
        };
        let (cpu, boot) = (&hardware.cpu, &hardware.boot);
        add("domain", Some(definition.name.clone()));
        add("libvirt", Some(self.domain.uri().to_owned()));
        add("machine", Some(hardware.machine.kind.clone()));
        add("firmware", boot.firmware.clone());
        let mode = cpu.mode.name().map(str::to_owned);
        add("CPU", cpu.model.clone().or(mode));
        add("CPUs", cpu.topology.cpus.map(|cpus| cpus.to_string()));
        let memory = hardware.memory.bytes;
        add(
            "guest memory",
            memory.map(|bytes| format!("{} MiB", bytes >> 20)),
        );
        add("kernel", boot.kernel.clone());
        add("kernel command line", Some(boot.append.clone()));
    }
}
