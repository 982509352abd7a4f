//! Images that the next one is based on: what a machine was resumed from stays until then, and
//! the next image has only what is different.
//!
//! They lie beside the image and have its name with `.base-0`, the full one, `.base-1` and so on.
//! Which one a machine was resumed from is known as long as it runs. A list that has become long
//! or large ends with the next image, which is a full one again.

use std::fs;
use std::path::{Path, PathBuf};

use brisk_image::{Claim, Image, Keys, Secret};

use super::definition::Definition;
use super::error::Error;
use super::paths::VmPaths;
use super::suspend_record::owns;
use super::unlock::host_keys;

/// Most images that are based on each other: each is looked into for what is missing in the next.
const LONGEST: usize = 6;
/// All but the full one are together at most so large a part of it: a half.
const LARGEST: u64 = 2;

/// The image has been read to its end: it stays for the next one, or goes.
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
    // One that a machine left which was started anew since is of no use.
    remove_own(paths, &path);
    let is_taken = path.symlink_metadata().is_ok();
    if !useful || is_taken || is_enough(image) {
        claim.finish()?;
        remove(paths, &was, None);
        return Ok(());
    }
    let noted = path
        .to_str()
        .map(|text| fs::write(paths.base(), text).is_ok());
    if noted != Some(true) {
        return Ok(claim.finish()?);
    }
    Ok(claim.keep(&path)?)
}

/// The image that a machine was resumed from, if the next one can be based on it.
pub(super) fn of(paths: &VmPaths, next: &Path) -> Option<Image> {
    let path = PathBuf::from(fs::read_to_string(paths.base()).ok()?);
    if image_of(&path)? != next {
        return None;
    }
    let keys = host_keys(paths).ok()?;
    let image = Image::open(&path, &keys).ok()?;
    let image = image.with_parents(&keys, &[]).ok()?;
    (!is_enough(&image)).then_some(image)
}

/// Whether an image and all that it is based on are locked for the same as the next one: who opens
/// that must be able to open all of them, and nobody else.
pub(super) fn is_locked_so(
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

/// Whether no more images shall be based on each other.
fn is_enough(image: &Image) -> bool {
    let (mut changes, mut last) = (0, image);
    while let Some(parent) = last.parent() {
        changes += last.header().file_len();
        last = parent;
    }
    image.depth() >= LONGEST || changes > last.header().file_len() / LARGEST
}

/// Removes the images of this machine beside `path` that nothing is based on any more: all but
/// those of `used`. No guest runs that needs one. Images of other machines stay, and so do those of
/// which it cannot be told whose they are.
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

/// Removes what an earlier resume of this machine has left beside the image at `path`, which is
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

/// Removes all images of a machine that does not run, which its runtime directory still tells of.
/// Where neither its definition nor that directory says anything, they are not known.
pub(super) fn forget(paths: &VmPaths) {
    let usual = paths.image_now().ok();
    for image in usual.into_iter().chain(noted(paths)) {
        remove(paths, &image, None);
    }
}

/// The image, by its usual name, that a machine which runs was resumed from, if that stays for the
/// next one. Its definition may say meanwhile that it is to be elsewhere.
pub(super) fn noted(paths: &VmPaths) -> Option<PathBuf> {
    image_of(Path::new(&fs::read_to_string(paths.base()).ok()?))
}

const BASE: &str = ".base-";

fn with_number(image: &Path, number: usize) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(format!("{BASE}{number}"));
    name.into()
}

/// The image that a base belongs to.
fn image_of(base: &Path) -> Option<PathBuf> {
    let (image, _) = base.to_str()?.rsplit_once(BASE)?;
    Some(image.into())
}
