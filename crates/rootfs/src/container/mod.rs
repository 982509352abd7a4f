//! Container images as roots: the layers of an image become one read-only erofs image.
//!
//! The layers are read twice. The first pass puts names and attributes into a [`Tree`] in memory,
//! so paths never meet a file system of the host; then the place of everything in the image is
//! known, and the second pass copies the content that won into it. So the memory used grows with
//! the number of files, not with their size, and nothing that an upper layer replaced is written.

mod accounts;
mod archive;
mod cache;
mod compression;
mod erofs;
mod flatten;
mod manifest;
mod model;
mod new_file;
mod room;
mod source;
mod stream;
#[cfg(test)]
mod tests;
mod tree;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use model::{Accounts, Container, ContainerConfig, ContainerRoot, Form};

pub(super) use archive::{Reader, Skip};
pub(super) use compression::{Compression, decompress};

use crate::{Error, Fault};
use cache::Cache;
use model::Limits;
use room::{Filling, Room};
use source::Source;

/// Makes the root file system of `found`, or finds it in `cache_dir` where an earlier call left
/// it. `progress` gets the bytes done and in all; it is not called when the image is in the cache.
///
/// # Errors
///
/// The image is damaged, has a wrong digest, is for another platform, has several images of which
/// none was chosen, or exceeds a limit; or a file cannot be read or written.
pub fn container(
    found: &Container,
    cache_dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ContainerRoot, Error> {
    unpack(found, cache_dir, Limits::default(), progress)
}

/// What [`container()`] would make of `found`, without unpacking it: where that was not done before,
/// there is no image at the path yet, and how a compressed archive wants to be run is not known.
///
/// # Errors
///
/// As of [`container()`], as far as that is noticed without unpacking.
pub fn container_unread(found: &Container, cache_dir: &Path) -> Result<ContainerRoot, Error> {
    let fault = |fault| Error::Container {
        path: found.path.clone(),
        fault,
    };
    let cache = Cache::existing(cache_dir);
    let identity = cache::identity(found).map_err(|error| fault(error.into()))?;
    if let Some(root) = identity.and_then(|identity| cache.by_identity(&identity)) {
        return Ok(root);
    }
    let nothing = Limits {
        content: 0,
        ..Limits::default()
    };
    let Ok(source) = Source::open(found, cache_dir, nothing) else {
        return Ok(cache.root("unread", ContainerConfig::default()));
    };
    let image = manifest::select(&source, found).map_err(fault)?;
    let key = image.key.unwrap_or_else(|| "unread".into());
    let known = cache.by_key(&key);
    Ok(known.unwrap_or_else(|| cache.root(&key, image.config)))
}

fn unpack(
    found: &Container,
    cache_dir: &Path,
    limits: Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ContainerRoot, Error> {
    let fault = |fault| Error::Container {
        path: found.path.clone(),
        fault,
    };
    let cache = Cache::open(cache_dir)?;
    let identity = cache::identity(found).map_err(|error| fault(error.into()))?;
    if let Some(root) = identity
        .as_deref()
        .and_then(|identity| cache.by_identity(identity))
    {
        return Ok(root);
    }
    let source = Source::open(found, cache_dir, limits).map_err(fault)?;
    let mut image = manifest::select(&source, found).map_err(fault)?;
    let mut root = image.key.as_deref().and_then(|key| cache.by_key(key));
    if root.is_none() {
        let total = 2 * source.length(&image.layers).map_err(fault)?;
        let mut done = 0;
        let mut tick = |bytes: u64| {
            done += bytes;
            progress(done.min(total), total);
        };
        let mut flattened =
            flatten::read(&source, &image.layers, limits, &mut tick).map_err(fault)?;
        if found.form == Form::Tarball {
            flattened.tree.enter_system();
        }
        let key = image.key.take().unwrap_or(flattened.digest);
        root = cache.by_key(&key);
        if root.is_none() {
            let layout = erofs::Layout::new(&flattened.tree).map_err(fault)?;
            let new = cache.temporary()?;
            let file = new.file();
            let mut room = Room::beside(file, limits).map_err(|error| fault(error.into()))?;
            write_metadata(file, &mut room, &layout).map_err(fault)?;
            let mut fill = |bytes: &[u8], at| room.write(file, bytes, at);
            flatten::copy(&source, &image.layers, &layout, &mut fill, &mut tick).map_err(fault)?;
            let accounts = accounts::read(&flattened.tree, &layout, file);
            image.config.accounts = Some(accounts.map_err(|error| fault(error.into()))?);
            write_superblock(file, &layout, &key).map_err(|error| fault(error.into()))?;
            root = Some(cache.store(new, &key, &image.config)?);
        }
        // What is read must be what was looked at when the identity was taken.
        if cache::identity(found).map_err(|error| fault(error.into()))? != identity {
            return Err(fault(Fault::Changed));
        }
        image.key = Some(key);
    }
    if let (Some(identity), Some(key)) = (&identity, &image.key) {
        cache.remember(identity, key)?;
    }
    root.ok_or_else(|| fault(Fault::Changed))
}

fn write_metadata(file: &File, room: &mut Room, layout: &erofs::Layout<'_>) -> Result<(), Fault> {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, Filling::new(room, file));
    layout.write_metadata(&mut out)?;
    out.flush()?;
    drop(out);
    Ok(file.set_len(layout.length())?)
}

/// Writes the superblock last: its checksum covers the whole first block, and without it no reader
/// takes the file for an image.
fn write_superblock(
    file: &std::fs::File,
    layout: &erofs::Layout<'_>,
    key: &str,
) -> std::io::Result<()> {
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(key.as_bytes().chunks(2)) {
        let text = std::str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(text, 16).unwrap_or_default();
    }
    let mut first = [0; erofs::BLOCK];
    file.read_exact_at(&mut first, 0)?;
    layout.write_superblock(&mut first, uuid);
    file.write_all_at(&first, 0)
}
