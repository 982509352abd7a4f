//! This host's key, which opens the images of its VMs.

use std::path::Path;

use brisk_image::{Header, Recipient, SlotKind, host_key, resumable, resumed_name};

use super::error::Error;
use super::paths::{StateDirs, VmPaths};
use super::suspend_record::SuspendRecord;

/// This host's key as a recipient of a new image.
#[derive(Debug)]
pub struct HostRecipient {
    /// The recipient.
    pub recipient: Recipient,
    /// Whether the key was made for it.
    pub is_new: bool,
}

impl HostRecipient {
    /// A host's key in a file, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be read or made.
    pub fn of(key: &Path) -> Result<Self, brisk_image::Error> {
        let is_new = key.symlink_metadata().is_err();
        let made = host_key(key, is_new)?;
        Ok(Self {
            recipient: Recipient::Host(made.to_public()),
            is_new,
        })
    }

    /// Advice about a key that was made.
    #[must_use]
    pub fn advice(key: &Path) -> String {
        format!(
            "made {}: back it up; images that are encrypted to this host alone are lost without it",
            key.display()
        )
    }
}

impl StateDirs {
    /// This host's key, for a new image. It is made if there is none, and no suspended VM needs one: a
    /// new key would not open their images, and would be in the place of the backup that does.
    ///
    /// # Errors
    /// If it is lost, cannot be read, or cannot be made.
    pub fn host_recipient(&self) -> Result<HostRecipient, Error> {
        if self.key.symlink_metadata().is_err() {
            let needing = self.needing_host_key();
            if !needing.is_empty() {
                return Err(Error::KeyLost {
                    key: self.key.clone(),
                    names: needing.join(", "),
                });
            }
        }
        Ok(HostRecipient::of(&self.key)?)
    }

    /// Names of VMs that have an image which is encrypted to this host's key.
    fn needing_host_key(&self) -> Vec<String> {
        let names = self.names().into_iter().chain(self.undefined());
        names
            .filter(|name| self.vm(name).is_ok_and(|paths| needs_host_key(&paths)))
            .collect()
    }
}

/// Whether a VM has an image that is encrypted to this host's key, or may have one that is not there.
fn needs_host_key(paths: &VmPaths) -> bool {
    let usual = paths.image_now().ok();
    let noted = SuspendRecord::read(paths).map(|noted| noted.image);
    let is_noted = noted.is_some();
    let places: Vec<_> = usual.into_iter().chain(noted).collect();
    let names = places.iter().flat_map(|place| {
        let resumed = Some(resumed_name(place)).filter(|name| name.symlink_metadata().is_ok());
        resumable(place).into_iter().chain(resumed)
    });
    let headers: Vec<_> = names.filter_map(|name| Header::read(&name).ok()).collect();
    if headers.is_empty() {
        return is_noted && paths.definition().map_or(true, |it| it.suspend.host_key);
    }
    let mut slots = headers.iter().flat_map(|header| &header.slots);
    slots.any(|slot| slot.kind() == SlotKind::HostKey)
}
