//! Domains of libvirt that go down and come up with the host.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use brisk_host::files::{self, Durability};
use brisk_image::Progress;
use brisk_sys::{Sharing, lock};
use brisk_vm::libvirt::{self, Activity, ManagedDomain};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::budget::Load;
use super::gate::Gate;
use super::turn::Action;
use crate::vm::describe::{identify, is_unchanged};
use crate::vm::error::{Error, file};
use crate::vm::paths::StateDirs;

/// Bytes that a note may have.
const LARGEST: u64 = 64 << 10;
/// Time in which a save ends that is given up.
const SAVE: Duration = Duration::from_secs(60);

/// Domains of one libvirt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domains {
    /// The libvirt, such as `qemu:///system`; `None`: as `virsh` chooses.
    pub uri: Option<String>,
    /// Names of the domains.
    pub names: Vec<String>,
}

/// Note that a domain was saved with the host, and is to be started with it.
///
/// It is void if the domain has no managed save, or one of another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) name: String,
    uuid: String,
    uri: String,
    /// Digest of the XML in the managed save; none while it is being made.
    xml: Option<String>,
    /// The file of the managed save, where it is known.
    image: Option<brisk_image::Disk>,
}

impl Domains {
    /// Name of a domain beside those of VMs.
    #[must_use]
    pub fn label(name: &str) -> String {
        format!("libvirt:{name}")
    }

    /// Labels of those that run, as far as libvirt answers. One that does not is asked once: each
    /// question takes half a minute then.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let mut running = Vec::new();
        for name in &self.names {
            let now = self.find(name).and_then(|domain| Ok(domain.activity()?));
            match now {
                Ok(Activity::Off) | Err(Error::Libvirt(libvirt::Error::Unknown { .. })) => {}
                Ok(_) => running.push(Self::label(name)),
                Err(_) => break,
            }
        }
        running
    }

    fn find(&self, name: &str) -> Result<ManagedDomain, Error> {
        Ok(ManagedDomain::find(name, self.uri.as_deref())?)
    }

    /// Whether a domain runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        let activity = self.find(name).and_then(|domain| Ok(domain.activity()?));
        activity.is_ok_and(|now| now != Activity::Off)
    }

    /// Saves a domain if it runs.
    pub(super) fn save(
        &self,
        dirs: &StateDirs,
        name: &str,
        gate: &Gate<'_>,
    ) -> Result<Option<Action>, Error> {
        let domain = self.find(name)?;
        if domain.activity()? == Activity::Off {
            Note::forget_void(dirs, &domain);
            return Ok(None);
        }
        let pass = gate.enter(Load {
            bytes: domain.memory(),
            is_limited: false,
        })?;
        // Before anything is done: libvirt saves it to the end, whatever becomes of this process.
        let note = Note::of(&domain);
        let _saving = note.lock(dirs)?;
        note.write(dirs)?;
        let saved = domain.save(pass.cancel(), &mut |job| {
            pass.did(Progress {
                done: job.processed,
                total: job.processed.saturating_add(job.remaining),
                stored: 0,
            });
        });
        if let Err(error) = saved {
            if domain.activity().is_ok_and(|now| now == Activity::On) {
                note.forget(dirs);
            }
            return Err(pass.explain(error.into()));
        }
        drop(pass);
        // If it cannot be written, the one before is there.
        let _ = note.finish(dirs, &domain);
        Ok(Some(Action::Suspend))
    }

    /// Asks a domain to shut down, and waits for that.
    pub(super) fn stop(&self, name: &str, limit: Duration) -> Result<(), Error> {
        Ok(self.find(name)?.shut_down(limit)?)
    }
}

impl Note {
    /// A note that a domain that runs is to be started with the host, whatever ends this process after
    /// it is written.
    fn of(domain: &ManagedDomain) -> Self {
        Self {
            name: domain.name().to_owned(),
            uuid: domain.uuid().to_owned(),
            uri: domain.uri().to_owned(),
            xml: None,
            image: None,
        }
    }

    /// The lock of whoever saves or restores the domain, until the file is dropped. Waits for another
    /// process that has it: a save that is under way looks like one whose process was killed.
    fn lock(&self, dirs: &StateDirs) -> Result<File, Error> {
        let path = self.path(dirs).with_extension("lock");
        let locked = || {
            fs::create_dir_all(directory(dirs))?;
            let file = files::open_lock(&path)?;
            lock(&file, Sharing::Exclusive)?;
            Ok(file)
        };
        locked().map_err(file("lock", &path))
    }

    /// Notes which managed save it is about.
    fn finish(mut self, dirs: &StateDirs, domain: &ManagedDomain) -> Result<(), Error> {
        self.xml = Some(digest(&domain.saved_xml()?));
        let image = domain.image();
        self.image = image.and_then(|image| identify(&image, false).ok());
        self.write(dirs)
    }

    fn write(&self, dirs: &StateDirs) -> Result<(), Error> {
        let path = self.path(dirs);
        let write = || {
            fs::create_dir_all(directory(dirs))?;
            let text = serde_json::to_vec(self)?;
            files::replace(&path, &text, Durability::Durable)
        };
        write().map_err(file("write", &path))
    }

    /// All notes. What is none is left out.
    pub(super) fn all(dirs: &StateDirs) -> Vec<Self> {
        let list = fs::read_dir(directory(dirs))
            .into_iter()
            .flatten()
            .flatten();
        let read = |entry: fs::DirEntry| {
            let text = files::start(&entry.path(), LARGEST).ok()?;
            let note: Self = serde_json::from_slice(&text).ok()?;
            (note.path(dirs) == entry.path()).then_some(note)
        };
        let mut notes: Vec<_> = list.filter_map(read).collect();
        notes.sort_by(|a, b| a.name.cmp(&b.name));
        notes
    }

    /// Starts the domain from its managed save. If the note is void, there is nothing to do. It is
    /// kept if libvirt does not answer, or refuses.
    pub(super) fn restore(&self, dirs: &StateDirs) -> Result<Option<Action>, Error> {
        let _restoring = self.lock(dirs)?;
        // Another process may have had it, and written or removed the note.
        let now = Self::all(dirs)
            .into_iter()
            .find(|note| note.uuid == self.uuid);
        now.map_or(Ok(None), |note| note.restore_locked(dirs))
    }

    fn restore_locked(&self, dirs: &StateDirs) -> Result<Option<Action>, Error> {
        let domain = match ManagedDomain::find(&self.uuid, Some(&self.uri)) {
            Err(error @ libvirt::Error::Unknown { .. }) => {
                self.forget(dirs);
                return Err(error.into());
            }
            found => found?,
        };
        if self.xml.is_none() {
            domain.end_save(SAVE)?;
        }
        if !self.holds(&domain)? {
            self.forget(dirs);
            return Ok(None);
        }
        domain.restore()?;
        self.forget(dirs);
        Ok(Some(Action::Resume))
    }

    /// Whether the domain has the managed save that this is about.
    fn holds(&self, domain: &ManagedDomain) -> Result<bool, Error> {
        let is_saved = domain.activity()? == Activity::Off && domain.is_saved()?;
        // While it was being made the domain ran, so it has no other one.
        let Some(xml) = self.xml.as_ref().filter(|_| is_saved) else {
            return Ok(is_saved);
        };
        if digest(&domain.saved_xml()?) != *xml {
            return Ok(false);
        }
        self.image.as_ref().map_or(Ok(true), is_unchanged)
    }

    /// Removes the note of a domain that does not run, if it is void.
    fn forget_void(dirs: &StateDirs, domain: &ManagedDomain) {
        let notes = Self::all(dirs).into_iter();
        for note in notes.filter(|note| note.uuid == domain.uuid()) {
            if let Ok(false) = note.holds(domain) {
                note.forget(dirs);
            }
        }
    }

    fn forget(&self, dirs: &StateDirs) {
        // One that stays is void.
        let _ = fs::remove_file(self.path(dirs));
    }

    fn path(&self, dirs: &StateDirs) -> PathBuf {
        let plain = |c: &char| c.is_ascii_hexdigit() || *c == '-';
        let name: String = self.uuid.chars().filter(plain).take(36).collect();
        directory(dirs).join(format!("{name}.json"))
    }
}

/// Directory of the notes, beside that of the VMs.
fn directory(dirs: &StateDirs) -> PathBuf {
    dirs.state.with_file_name("domains")
}

fn digest(xml: &str) -> String {
    let bytes = Sha256::digest(xml.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
