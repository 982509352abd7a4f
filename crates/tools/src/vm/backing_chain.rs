//! Base images: the image that a VM was resumed from is kept, and the VM's next image has only what
//! has changed.
//!
//! Base images are beside the image and have its name with `.base-0` for the full one, `.base-1`
//! and so on. The image that a VM was resumed from is recorded as long as the VM runs. When a
//! backing chain has become long or large, the next image is a full one again.

use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use brisk_image::{Claim, Image, Keys, Secret};

use super::definition::Definition;
use super::error::Error;
use super::paths::VmPaths;
use super::suspend_record::owns;
use super::unlock::host_keys;

/// Most images of a backing chain: each is searched for chunks that the next one lacks.
const LONGEST: usize = 6;
/// All incremental images together are at most 1 / `LARGEST` of the full one: a half.
const LARGEST: u64 = 2;

/// Keeps an image that has been read to its end as a base image, or removes it.
///
/// # Errors
/// If it can be neither renamed nor removed.
pub(super) fn keep(paths: &VmPaths, claim: Claim, image: &Image) -> Result<(), Error> {
    let was = claim.image().to_owned();
    // One that cannot be read says nothing of another place.
    let useful = paths
        .definition()
        .is_ok_and(|definition| definition.suspend.incremental && paths.image(&definition) == was);
    let path = with_number(&was, image.depth() - 1);
    // One that a VM left which was started anew since is of no use.
    remove_own(paths, &path);
    let is_taken = path.symlink_metadata().is_ok();
    if !useful || is_taken || image.header().kept || is_enough(image) {
        claim.finish()?;
        remove(paths, &was, None);
        return Ok(());
    }
    let noted = path
        .to_str()
        .map(|text| files::replace(&paths.base(), text.as_bytes(), Durability::Atomic).is_ok());
    if noted != Some(true) {
        return Ok(claim.finish()?);
    }
    Ok(claim.keep(&path)?)
}

/// The image that a VM was resumed from, if the next one can be based on it.
pub(super) fn of(paths: &VmPaths, next: &Path) -> Option<Image> {
    let path = PathBuf::from(files::read_regular_text(&paths.base()).ok()?);
    if image_of(&path)? != next {
        return None;
    }
    let keys = host_keys(paths).ok()?;
    let image = Image::open(&path, &keys).ok()?;
    let image = image.with_parents(&keys, &[]).ok()?;
    (!is_enough(&image)).then_some(image)
}

/// Whether an image and its base images are encrypted to the recipients of the next image: its
/// recipients must be able to open all of the chain, and nobody else.
pub(super) fn has_same_recipients(
    image: &Image,
    definition: &Definition,
    passphrase: Option<&Secret>,
) -> bool {
    let locks = definition.suspend.locks();
    let mut chain = std::iter::successors(Some(image), |image| image.parent());
    if !chain.all(|image| image.description().locks == locks) {
        return false;
    }
    // It may have been another one.
    passphrase.is_none_or(|secret| {
        let keys = Keys::new().with_passphrase(secret.clone());
        Image::open(image.path(), &keys).is_ok()
    })
}

/// Whether the backing chain is long or large enough for a full image.
fn is_enough(image: &Image) -> bool {
    let (mut changes, mut last) = (0, image);
    while let Some(parent) = last.parent() {
        changes += last.header().file_len();
        last = parent;
    }
    image.depth() >= LONGEST || changes > last.header().file_len() / LARGEST
}

/// Removes the VM's base images beside `path` that no image is based on any more: all but those of
/// `used`. No guest runs that needs one. Images of other VMs are kept, and images whose VM is
/// unknown.
pub(super) fn remove(paths: &VmPaths, path: &Path, used: Option<&Image>) {
    if owns(paths, &brisk_image::resumed_name(path)) == Some(true) {
        // What cannot be removed is in nobody's way.
        let _ = brisk_image::remove_resumed(path);
    }
    let used: Vec<_> = std::iter::successors(used, |image| image.parent())
        .map(|image| image.path().to_owned())
        .collect();
    for path in (0..LONGEST).map(|number| with_number(path, number)) {
        if !used.contains(&path) {
            remove_own(paths, &path);
        }
    }
}

/// Removes images that an earlier resume of this VM has left beside the image at `path`, which is
/// about to be resumed.
pub(super) fn remove_left(paths: &VmPaths, path: &Path) {
    let left = brisk_image::resumed_name(path);
    if brisk_image::resumable(path).is_some() && owns(paths, &left) == Some(true) {
        // If it cannot be removed, the resume says so.
        let _ = brisk_image::remove_resumed(path);
    }
}

fn remove_own(paths: &VmPaths, path: &Path) {
    if owns(paths, path) == Some(true) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_file(path);
    }
}

/// Removes all base images of a VM that does not run, as recorded in its runtime directory. Where
/// neither its definition nor that directory has a record, they are unknown.
pub(super) fn forget(paths: &VmPaths) {
    let usual = paths.image_now().ok();
    for image in usual.into_iter().chain(noted(paths)) {
        remove(paths, &image, None);
    }
}

/// The image, by its usual name, that a running VM was resumed from, if it is kept for the next
/// one. The definition may name another place by now.
pub(super) fn noted(paths: &VmPaths) -> Option<PathBuf> {
    image_of(Path::new(&files::read_regular_text(&paths.base()).ok()?))
}

const BASE: &str = ".base-";

fn with_number(image: &Path, number: usize) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(format!("{BASE}{number}"));
    name.into()
}

/// Path of the image that a base image belongs to.
fn image_of(base: &Path) -> Option<PathBuf> {
    let (image, _) = base.to_str()?.rsplit_once(BASE)?;
    Some(image.into())
}
