//! A domain that is saved by libvirt and started from there: `virsh managedsave`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::domain::of_domain;
use super::info::Info;
use super::job::Job;
use super::output;
use super::virsh::{Error, Virsh};

/// Time in which libvirt answers a question.
const ANSWER: Duration = Duration::from_secs(30);
/// Interval at which the progress of a save is asked for.
const PROGRESS: Duration = Duration::from_secs(1);
/// Interval at which it is looked whether a domain has shut down.
const LOOK: Duration = Duration::from_millis(500);

/// Activity of a domain (virsh(1), `list`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Shut off, or crashed.
    Off,
    /// It runs, or is paused.
    On,
    /// It is shutting down.
    Stopping,
}

impl Activity {
    fn of(state: &str) -> Self {
        match state {
            "shut off" | "crashed" => Self::Off,
            "in shutdown" | "dying" => Self::Stopping,
            _ => Self::On,
        }
    }
}

/// A domain, with its libvirt connection.
#[derive(Debug, Clone)]
pub struct ManagedDomain {
    virsh: Virsh,
    name: String,
    info: Info,
}

impl ManagedDomain {
    /// Finds a domain by name or UUID. libvirt has half a minute for each answer.
    ///
    /// # Errors
    /// If there is no such domain, no `virsh`, or libvirt does not answer.
    pub fn find(name: &str, uri: Option<&str>) -> Result<Self, Error> {
        let virsh = Virsh::connect_within(uri, ANSWER)?;
        let info = Info::parse(&of_domain(&virsh, &["dominfo"], name)?);
        let named = virsh.call(&["domname", "--domain", &info.uuid])?;
        Ok(Self {
            name: named.trim().to_owned(),
            virsh,
            info,
        })
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

    /// Its activity now.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn activity(&self) -> Result<Activity, Error> {
        Ok(Activity::of(&self.info_now()?.state))
    }

    /// Whether it has a managed save.
    ///
    /// # Errors
    /// If `virsh` fails.
    pub fn is_saved(&self) -> Result<bool, Error> {
        Ok(self.info_now()?.managed_save)
    }

    fn info_now(&self) -> Result<Info, Error> {
        Ok(Info::parse(&self.call(&["dominfo"])?))
    }

    /// Bytes of the host's memory that its QEMU has (`virsh dommemstat`, `rss`); 0 if unknown.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let text = self.call(&["dommemstat"]).unwrap_or_default();
        resident(&text).unwrap_or(0)
    }

    /// The XML in its managed save, without passwords.
    ///
    /// # Errors
    /// If it has none, or `virsh` fails.
    pub fn saved_xml(&self) -> Result<String, Error> {
        self.call(&["managedsave-dumpxml"])
    }

    /// Path of the file of its managed save, if this process can know that: the directories of
    /// libvirt are those of its distributions (`virQEMUDriverConfigNew()`), and a user's libvirt has
    /// this process's environment.
    #[must_use]
    pub fn image(&self) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        saved_in(self.uri(), variable).map(|dir| dir.join(format!("{}.save", self.name)))
    }

    /// Saves it, which ends it; the next start goes on from there. When `cancel` is true, libvirt is
    /// asked to give up, and the domain runs on.
    ///
    /// # Errors
    /// `Interrupted` when it was given up; if it cannot be saved.
    pub fn save(&self, cancel: &AtomicBool, progress: &mut dyn FnMut(Job)) -> Result<(), Error> {
        let command = self.command(&["managedsave"]);
        let (mut asked, mut aborted) = (Instant::now(), false);
        let saved = output::of(command, "managedsave", None, &mut || {
            if cancel.load(Ordering::Relaxed) {
                if !aborted {
                    // There may be nothing to abort yet, or any more.
                    aborted = self.call(&["domjobabort"]).is_ok();
                }
            } else if asked.elapsed() >= PROGRESS {
                asked = Instant::now();
                if let Some(job) = self
                    .call(&["domjobinfo"])
                    .ok()
                    .and_then(|it| Job::parse(&it))
                {
                    progress(job);
                }
            }
        });
        match saved {
            Ok(_) => Ok(()),
            Err(_) if aborted => Err(Error::Interrupted),
            Err(error) => Err(error),
        }
    }

    /// Ends a save that goes on though the process that asked for it has ended: libvirt knows
    /// nothing of that. Afterwards the domain runs on, or is saved.
    ///
    /// # Errors
    /// If it goes on for so long, or `virsh` fails.
    pub fn end_save(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        while self.activity()? == Activity::On && has_job(&self.call(&["domjobinfo"])?) {
            if Instant::now() >= deadline {
                return Err(Error::State {
                    name: self.name.clone(),
                    what: "is still being saved".to_owned(),
                    hint: format!("virsh domjobinfo {} shows how far that is", self.name),
                });
            }
            // It may have come to its end meanwhile.
            let _ = self.call(&["domjobabort"]);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Starts it, from its managed save if it has one.
    ///
    /// # Errors
    /// If libvirt refuses.
    pub fn restore(&self) -> Result<(), Error> {
        // As long as it takes to read its memory.
        output::of(self.command(&["start"]), "start", None, &mut || {}).map(drop)
    }

    /// Asks it to shut down, and waits for that.
    ///
    /// # Errors
    /// If it does not in this time, or libvirt refuses.
    pub fn shut_down(&self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let now = self.info_now()?;
        if now.state == "paused" {
            self.call(&["resume"])?;
        }
        if Activity::of(&now.state) == Activity::On {
            self.call(&["shutdown"])?;
        }
        while self.activity()? != Activity::Off {
            if Instant::now() >= deadline {
                return Err(Error::State {
                    name: self.name.clone(),
                    what: format!("did not shut down within {} s", limit.as_secs()),
                    hint: format!("virsh destroy {} ends it", self.name),
                });
            }
            thread::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn call(&self, words: &[&str]) -> Result<String, Error> {
        let words = [words, &["--domain", self.uuid()]].concat();
        self.virsh.call(&words)
    }

    fn command(&self, words: &[&str]) -> Command {
        let words = [&["-q"], words, &["--domain", self.uuid()]].concat();
        self.virsh.command(&words)
    }
}

/// Whether `virsh domjobinfo` tells of a job.
fn has_job(text: &str) -> bool {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let kind = fields.find(|(name, _)| name.trim() == "Job type");
    kind.is_some_and(|(_, kind)| !matches!(kind.trim(), "None" | ""))
}

/// Directory of managed saves of a libvirt on this host.
fn saved_in(uri: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let (_, place) = uri.split_once("://")?;
    let (_, path) = place.split_once('/')?;
    let base = match path.split('?').next()? {
        "system" => PathBuf::from("/var/lib"),
        "session" => {
            let home = || variable("HOME").map(|home| home.join(".config"));
            variable("XDG_CONFIG_HOME").or_else(home)?
        }
        _ => return None,
    };
    Some(base.join("libvirt/qemu/save"))
}

/// Bytes of `rss` in `virsh dommemstat`, KiB there.
fn resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("rss "))?;
    line.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_is_paused_is_on() {
        for (state, activity) in [
            ("running", Activity::On),
            ("idle", Activity::On),
            ("paused", Activity::On),
            ("pmsuspended", Activity::On),
            ("in shutdown", Activity::Stopping),
            ("shut off", Activity::Off),
            ("crashed", Activity::Off),
        ] {
            assert_eq!(Activity::of(state), activity, "{state}");
        }
    }

    #[test]
    fn a_job_has_a_kind() {
        assert!(has_job("Job type:         Unbounded   \nOperation: Save\n"));
        for none in ["Job type:         None        \n\n", "", "error: x\n"] {
            assert!(!has_job(none), "{none}");
        }
    }

    #[test]
    fn resident_memory_is_in_kibibytes() {
        let text = "actual 524288\nlast_update 0\nrss 131072\n\n";
        assert_eq!(resident(text), Some(128 << 20));
        for none in ["", "actual 5\n", "rss x\n", "rss 18446744073709551615\n"] {
            assert_eq!(resident(none), None, "{none}");
        }
    }

    #[test]
    fn managed_saves_are_where_libvirt_keeps_them() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        let system = Some("/var/lib/libvirt/qemu/save".into());
        assert_eq!(saved_in("qemu:///system", home), system);
        let session = Some("/h/.config/libvirt/qemu/save".into());
        assert_eq!(saved_in("qemu+unix:///session?socket=/x/y", home), session);
        let config = |_: &str| Some(PathBuf::from("/c"));
        let session = Some("/c/libvirt/qemu/save".into());
        assert_eq!(saved_in("qemu:///session", config), session);
        assert_eq!(saved_in("qemu:///session", |_| None), None);
        for other in ["", "qemu:///embed?root=/x", "xen://"] {
            assert_eq!(saved_in(other, config), None, "{other}");
        }
    }
}
