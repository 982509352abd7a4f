//! Building of an archive from a plan: modules are read, decompressed and stripped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use brisk_host::files;

use super::cpio::{self, Writer};
use super::explain::{Contents, FileRow, ModuleRow};
use super::files::Node;
use super::plan::{Plan, Planned};
use super::strip::strip;
use super::{Content, Error, MODULES_LIST, Signatures};
use crate::kernel::Compression;

/// Far above any module: the largest of a distribution, amdgpu, is about 30 MB.
const MAX_MODULE: usize = 512 << 20;

/// Builds the archive of a plan. Equal plans and files give equal bytes.
///
/// # Errors
///
/// If a file cannot be read, is not a module where one should be, or is too large.
pub fn build(plan: &Plan) -> Result<(Vec<u8>, Contents), Error> {
    let mut modules = BTreeMap::new();
    let mut rows = Vec::new();
    let mut list = String::new();
    for module in &plan.modules {
        let bytes = load(module, plan.signatures)?;
        rows.push(ModuleRow::new(module, bytes.len() as u64));
        list += &format!("/{}\n", module.path);
        modules.insert(module.path.as_str(), bytes);
    }

    let mut writer = Writer::default();
    let mut files = Vec::new();
    for (path, node) in &plan.files {
        let (mode, device, data) = entry(path, node, &list)?;
        add(&mut writer, path, mode, device, &data)?;
        if mode & 0o170_000 != cpio::DIR {
            files.push(FileRow {
                path: path.clone(),
                size: data.len() as u64,
                mode,
            });
        }
    }
    for (path, bytes) in &modules {
        add(&mut writer, path, cpio::FILE | 0o444, (0, 0), bytes)?;
    }
    let archive = writer.finish().map_err(|source| Error::Write { source })?;
    let contents = Contents {
        release: plan.release.clone(),
        modules: rows,
        builtin: plan.builtin.clone(),
        skipped: plan.skipped.clone(),
        files,
        total: archive.len() as u64,
    };
    Ok((archive, contents))
}

type Parts<'a> = (u32, (u32, u32), Cow<'a, [u8]>);

fn entry<'a>(path: &str, node: &'a Node, list: &'a str) -> Result<Parts<'a>, Error> {
    Ok(match node {
        Node::File(_, mode) if path == MODULES_LIST => {
            (cpio::FILE | mode, (0, 0), list.as_bytes().into())
        }
        Node::File(content, mode) => {
            let data = match content {
                Content::Bytes(bytes) => Cow::Borrowed(bytes.as_slice()),
                Content::File(path) => Cow::Owned(read(path)?),
            };
            (cpio::FILE | mode & 0o7777, (0, 0), data)
        }
        Node::Dir(mode) => (cpio::DIR | mode & 0o7777, (0, 0), Cow::default()),
        Node::Symlink(target) => (cpio::SYMLINK | 0o777, (0, 0), target.as_bytes().into()),
        Node::Device { mode, major, minor } => {
            (cpio::CHARACTER | mode, (*major, *minor), Cow::default())
        }
    })
}

fn add(
    writer: &mut Writer,
    path: &str,
    mode: u32,
    device: (u32, u32),
    data: &[u8],
) -> Result<(), Error> {
    writer
        .add(path, mode, device, data)
        .map_err(|_| Error::TooLarge {
            path: path.to_owned(),
        })
}

fn load(module: &Planned, signatures: Signatures) -> Result<Vec<u8>, Error> {
    let path = &module.source;
    let file = read(path)?;
    let bytes = match Compression::of(&file) {
        None => file,
        Some(compression) => compression
            .decompress_within(&file, None, MAX_MODULE)
            .map_err(|source| Error::Unpack {
                path: path.clone(),
                source,
            })?,
    };
    let stripped = strip(&bytes).ok_or_else(|| Error::NotModule { path: path.clone() })?;
    Ok(match signatures {
        Signatures::Drop => stripped,
        Signatures::Keep => bytes,
    })
}

/// Largest file of an initramfs, bytes.
const LARGEST: u64 = 1 << 30;

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    files::read_regular(path, LARGEST).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
