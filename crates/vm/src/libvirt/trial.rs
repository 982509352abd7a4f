//! A domain that runs once from another definition than its own, which stays as it is.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use brisk_host::files::in_memory;

use super::defined::Defined;
use super::domain::check;
use super::process::number_of_domain;
use super::shell::Shell;
use super::virsh::Error;

/// Time limit of libvirt to start or end a domain.
const ANSWER: Duration = Duration::from_secs(60);
/// Interval at which the end of a domain is noticed.
const GLANCE: Duration = Duration::from_millis(200);

/// A domain that runs from a definition of its own. It ends when this is dropped, or brisk ends.
#[derive(Debug)]
pub struct Trial {
    shell: Shell,
    uuid: String,
    /// Number of the process of its QEMU.
    pub pid: u32,
}

impl Defined {
    /// Starts the domain from `xml`, without defining it: libvirt keeps its definition.
    ///
    /// # Errors
    /// If it is not shut off or has a saved state, or libvirt refuses the XML.
    pub fn try_out(&self, xml: &str, stopped: &mut dyn FnMut() -> bool) -> Result<Trial, Error> {
        check(self.name(), &self.info_now()?)?;
        let watch = |source| Error::Watch {
            what: "give virsh a definition",
            source,
        };
        // In memory: there may be passwords in it.
        let file = in_memory("domain", xml.as_bytes()).map_err(watch)?;
        let mut shell = Shell::open(self.virsh())?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        shell.call(
            &format!("create --autodestroy --file {path}"),
            ANSWER,
            stopped,
        )?;
        let pid = number_of_domain(self.uuid()).map_err(|source| Error::Watch {
            what: "find the process of the domain",
            source,
        })?;
        Ok(Trial {
            shell,
            uuid: self.uuid().to_owned(),
            pid,
        })
    }
}

impl Trial {
    /// Asks the guest to shut down, and cuts its power if it has not after `patience`.
    ///
    /// # Errors
    /// If libvirt cannot end it.
    pub fn end(mut self, patience: Duration) -> Result<(), Error> {
        let asked = Instant::now();
        let mut go_on = || false;
        let uuid = self.uuid.clone();
        let shutdown = format!("shutdown --domain {uuid}");
        if patience > Duration::ZERO && self.shell.call(&shutdown, ANSWER, &mut go_on).is_ok() {
            while asked.elapsed() < patience {
                let state = format!("domstate --domain {uuid}");
                match self.shell.call(&state, ANSWER, &mut go_on) {
                    Ok(state) if state.trim() != "shut off" => std::thread::sleep(GLANCE),
                    _ => return Ok(()),
                }
            }
        }
        let destroy = format!("destroy --domain {uuid}");
        self.shell.call(&destroy, ANSWER, &mut go_on).map(drop)
    }
}
