//! Keys that open a VM's image.

use std::path::PathBuf;

use brisk_image::{Error as ImageError, Header, Image, Keys, SlotKind, host_key, resumable};

use super::error::Error;
use super::paths::VmPaths;

/// This host's key alone.
pub(super) fn host_keys(paths: &VmPaths) -> Result<Keys, ImageError> {
    Ok(Keys::new().with_identity(host_key(paths.key(), false)?))
}

/// This host's key and others. Where others are given or needed, this host's may be missing.
pub(super) fn with_host_key(paths: &VmPaths, others: &Keys) -> Result<Keys, Error> {
    let needed = others.is_empty() && paths.definition()?.suspend.host_key;
    match host_key(paths.key(), false) {
        Ok(key) => Ok(others.clone().with_identity(key)),
        Err(_) if !needed => Ok(others.clone()),
        Err(error) => Err(error.into()),
    }
}

/// Path of the image of a suspended VM, if `others` and this host's key do not open it and a
/// passphrase would.
///
/// # Errors
/// If the VM's definition is wrong. Defects of the image are found by the resume.
pub fn needs_passphrase(paths: &VmPaths, others: &Keys) -> Result<Option<PathBuf>, Error> {
    let image = paths.image(&paths.definition()?);
    let asks = |path: &PathBuf| {
        let slots = Header::read(path).map(|header| header.slots);
        let mut kinds = slots.iter().flatten().map(|slot| slot.kind());
        if !kinds.any(|kind| kind == SlotKind::Passphrase) {
            return false;
        }
        let keys = with_host_key(paths, others).unwrap_or_default();
        matches!(Image::open(path, &keys), Err(ImageError::NoKey { .. }))
    };
    Ok(resumable(&image).filter(asks))
}
