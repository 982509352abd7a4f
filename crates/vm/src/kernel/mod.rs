//! Kernel images: their kind, and the `vmlinux` inside that QEMU can enter by PVH.
//!
//! QEMU starts an ELF with a PVH note directly in 32-bit protected mode. That skips the firmware's
//! loading of a bzImage through fw_cfg and the kernel's own decompressor, which under TCG are
//! most of a second.

mod bzimage;
mod compression;
mod drivers;
pub(crate) mod elf;
mod entry;
mod error;
mod payload;
mod signature;
mod uki;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use brisk_host::files;
use brisk_host::kernel::{banner, image_version};

use crate::cache::Cache;

pub use bzimage::BzImage;
pub use compression::Compression;
pub use drivers::{missing_driver, option_of};
pub use elf::{pvh_entry, slim};
pub use entry::{Entry, entry};
pub use error::{Error, Reason};
pub use payload::MAX_SIZE;
pub(crate) use payload::lz4_blocks;
pub use signature::Signed;
pub use uki::Uki;

/// A kernel image, recognised by its content.
#[derive(Debug)]
#[non_exhaustive]
pub enum Image<'a> {
    /// The x86 boot protocol's image: real-mode setup code, decompressor, compressed vmlinux.
    BzImage(BzImage<'a>),
    /// The kernel as linked: an x86-64 ELF.
    Vmlinux(&'a [u8]),
    /// A unified kernel image: a PE file holding a bzImage, an initrd and a command line.
    Uki(Uki<'a>),
    /// A compressed file whose content may be any of the others.
    Compressed(Compression, &'a [u8]),
}

impl<'a> Image<'a> {
    /// Recognises an image.
    ///
    /// # Errors
    ///
    /// A [`Reason`] that says what the bytes are instead.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Reason> {
        Self::recognise(bytes).map_err(|reason| error::named(bytes, reason))
    }

    fn recognise(bytes: &'a [u8]) -> Result<Self, Reason> {
        if bytes.is_empty() {
            return Err(Reason::Empty);
        }
        if let Some(arch) = elf::foreign_image(bytes) {
            return Err(Reason::Foreign(arch));
        }
        if bzimage::is(bytes) {
            return BzImage::parse(bytes).map(Self::BzImage);
        }
        if bytes.starts_with(b"MZ") {
            return Uki::parse(bytes).map(Self::Uki);
        }
        if bytes.starts_with(b"\x7fELF") {
            return elf::check(bytes).map(|()| Self::Vmlinux(bytes));
        }
        match Compression::of(bytes) {
            Some(compression) => Ok(Self::Compressed(compression, bytes)),
            None => Err(Reason::NotKernel(error::looks_like(bytes))),
        }
    }

    /// The vmlinux inside, checked to be a 64-bit x86 kernel.
    ///
    /// # Errors
    ///
    /// If the content is truncated, corrupt, larger than [`MAX_SIZE`] or another architecture's.
    pub fn vmlinux(&self) -> Result<Cow<'a, [u8]>, Reason> {
        match self {
            Self::Vmlinux(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::BzImage(image) => image.vmlinux(),
            Self::Uki(uki) => BzImage::parse(uki.linux)?.vmlinux(),
            Self::Compressed(compression, bytes) => {
                let inner = compression.decompress(bytes, None)?;
                match Image::parse(&inner) {
                    Ok(Image::Vmlinux(_)) => {}
                    Ok(Image::BzImage(image)) => {
                        return Ok(Cow::Owned(image.vmlinux()?.into_owned()));
                    }
                    Ok(_) => return Err(Reason::NotKernel("a file compressed more than once")),
                    Err(Reason::NotKernel(what)) => {
                        return Err(Reason::NotKernelInside(*compression, what));
                    }
                    Err(reason) => return Err(reason),
                }
                Ok(Cow::Owned(inner))
            }
        }
    }
}

/// Form of a kernel image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// `bzImage`, `vmlinux` or `unified kernel image`.
    pub name: &'static str,
    /// Compression of the kernel in it; `None` of one that is as it is.
    pub compression: Option<Compression>,
}

/// The form of the kernel image in a file.
///
/// # Errors
///
/// As [`extract`].
pub fn form(image: &Path) -> Result<Form, Error> {
    let bytes = read(image)?;
    form_of(&bytes).map_err(|source| Error::Image {
        path: image.to_owned(),
        source,
    })
}

fn form_of(bytes: &[u8]) -> Result<Form, Reason> {
    let form = |name, compression| Form { name, compression };
    Ok(match Image::parse(bytes)? {
        Image::BzImage(image) => form("bzImage", image.compression()),
        Image::Vmlinux(_) => form("vmlinux", None),
        Image::Uki(uki) => form(
            "unified kernel image",
            BzImage::parse(uki.linux)?.compression(),
        ),
        Image::Compressed(compression, bytes) => {
            let inner = form_of(&compression.decompress(bytes, None)?)?;
            form(inner.name, Some(compression))
        }
    })
}

/// The vmlinux in a file's bytes; see [`Image::vmlinux`].
///
/// # Errors
///
/// See [`Image::parse`] and [`Image::vmlinux`].
pub fn extract_bytes(bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    Ok(Image::parse(bytes)?.vmlinux()?.into_owned())
}

/// The vmlinux in a kernel image of any kind.
///
/// # Errors
///
/// If the file cannot be read or is not an x86-64 kernel.
pub fn extract(image: &Path) -> Result<Vec<u8>, Error> {
    let bytes = read(image)?;
    extract_bytes(&bytes).map_err(|source| Error::Image {
        path: image.to_owned(),
        source,
    })
}

/// A vmlinux in the cache, ready for QEMU's `-kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// The file.
    pub path: PathBuf,
    /// Release of the kernel, empty if the image does not have it.
    pub version: String,
    /// Whether it has a PVH entry point. Without one QEMU can only start the original image.
    pub pvh: bool,
    /// Whether this call wrote it.
    pub fresh: bool,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Meta {
    version: String,
    pvh: bool,
}

/// Finds the vmlinux of an image in the cache, or extracts it.
///
/// Only what QEMU loads is kept (see [`slim`]). When the cache has the vmlinux, nothing but the
/// index entry and the description of the result is read.
///
/// # Errors
///
/// If the image cannot be read or is not an x86-64 kernel, or the cache cannot be written.
pub fn vmlinux(image: &Path, cache: &Cache) -> Result<Extracted, Error> {
    // The cache would only know that it cannot hash a directory.
    let meta = fs::metadata(image).map_err(|source| Error::Read {
        path: image.to_owned(),
        source,
    })?;
    if meta.is_dir() {
        return Err(Error::Directory {
            path: image.to_owned(),
        });
    }
    let hash = cache
        .content_hash(image)
        .map_err(|error| Error::from_hashing(image, error))?;
    let entry = cache.get_or_build("vmlinux", &hash, |file| build(image, file))?;
    Ok(Extracted {
        path: entry.path,
        version: entry.meta.version,
        pvh: entry.meta.pvh,
        fresh: entry.fresh,
    })
}

fn build(image: &Path, file: &mut File) -> Result<Meta, Error> {
    let at = |source| Error::Image {
        path: image.to_owned(),
        source,
    };
    let bytes = read(image)?;
    let parsed = Image::parse(&bytes).map_err(at)?;
    let vmlinux = parsed.vmlinux().map_err(at)?;
    let pvh = pvh_entry(&vmlinux).is_some();
    let slim = slim(&vmlinux).map_err(at)?;
    file.write_all(&slim)
        .map_err(|source| Error::Write { source })?;
    let version = match parsed {
        Image::Compressed(..) => banner(&vmlinux).map(str::to_owned),
        _ => None,
    };
    let version = match version {
        Some(version) => version,
        None => image_version(image)
            .map_err(|source| Error::Read {
                path: image.to_owned(),
                source,
            })?
            .unwrap_or_default(),
    };
    Ok(Meta { version, pvh })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::IsADirectory => Error::Directory {
            path: path.to_owned(),
        },
        _ => Error::Read {
            path: path.to_owned(),
            source,
        },
    };
    let mut bytes = Vec::new();
    let file = files::open_regular(path).map_err(failed)?;
    file.take(MAX_SIZE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > MAX_SIZE {
        return Err(Error::Image {
            path: path.to_owned(),
            source: Reason::TooLarge,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
