//! Initramfs of a guest: brisk's init, the modules it needs in load order, and extra files.
//!
//! The archive is an uncompressed newc cpio, because the guest unpacks it emulated. It has:
//!
//! - `/init`, the program that the kernel starts;
//! - `/lib/modules/NAME.ko`, decompressed;
//! - `/modules`, one line for each module in the order of loading: its absolute path. If a module
//!   fails to load, init reports it and continues: soft dependencies such as `crc32c_intel` refuse
//!   CPUs that they are not for;
//! - `/dev/console`, `/dev/null` and the extra files of the request.

mod bootconfig;
mod build;
pub mod cpio;
mod error;
mod explain;
mod files;
mod limits;
mod modules;
mod plan;
mod strip;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Identity};

pub use bootconfig::{BOOTCONFIG_TAIL, bootconfig_size};
pub use build::build;
pub use error::Error;
pub use explain::{Contents, FileRow, ModuleRow};
pub use modules::{Module, Softdep, Tree};
pub use plan::{Builtin, Plan, Planned, Skipped, plan};
pub use strip::strip;
pub use verify::{Defect, Listed, MAX_UNPACKED, Verified, is_built_in, list, verify};

/// Path in the archive of the list of modules.
pub const MODULES_LIST: &str = "modules";
/// Version of the archive: changes whenever an unchanged request makes another archive.
const FORMAT: u32 = 1;

/// A module that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its name; `-` and `_` are the same.
    pub module: String,
    /// Purpose of the module, such as `writable root`.
    pub reason: String,
}

/// Source of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A file of the host.
    File(PathBuf),
}

/// An addition to the archive. Paths are from the root of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extra {
    /// A file; missing parent directories are made.
    File {
        /// Path in the guest.
        path: String,
        /// Its content.
        content: Content,
        /// Permission bits.
        mode: u32,
    },
    /// A directory.
    Dir {
        /// Path in the guest.
        path: String,
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Path in the guest.
        path: String,
        /// Target of the link.
        target: String,
    },
}

/// Treatment of the signatures of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Signatures {
    /// Drop it and what only debuggers read: see [`strip()`]. The kernel then need not hash the
    /// module, marks itself tainted (`E`), and refuses it where signatures are enforced.
    #[default]
    Drop,
    /// Keep the file as it was signed, for `module.sig_enforce=1` and lockdown.
    Keep,
}

/// Request for an initramfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `/init`.
    pub init: Content,
    /// Modules to load.
    pub modules: Vec<Wanted>,
    /// Modules not to load, as names with `*` and `?`, even as dependencies of others.
    pub deny: Vec<String>,
    /// Other files.
    pub files: Vec<Extra>,
    /// Treatment of module signatures.
    pub signatures: Signatures,
}

/// An initramfs in the cache.
#[derive(Debug, Clone)]
pub struct Built {
    /// The archive.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Its contents with their reasons.
    pub contents: Contents,
    /// Whether this call built it.
    pub fresh: bool,
}

#[derive(Serialize, Deserialize)]
struct Meta {
    sources: Vec<Identity>,
    contents: Contents,
}

/// Finds the initramfs of a request in the cache, or builds it.
///
/// `modules` is the modules directory of kernel `release`. Without one (a kernel from a build tree)
/// all modules are taken to be built in. A cached archive is used as long as every file it was made
/// from has its inode, size and times; none is read.
///
/// # Errors
///
/// If a module is missing, a file cannot be read, or the cache cannot be written.
pub fn initramfs(
    request: &Request,
    release: &str,
    modules: Option<&Path>,
    cache: &Cache,
) -> Result<Built, Error> {
    let key = key(request, release, modules)?;
    let current = |meta: &Meta| meta.sources.iter().all(Identity::holds);
    let entry = cache.get_valid_or_build("initramfs", &key, current, |file| {
        let mut sources = Vec::new();
        let tree = match modules {
            Some(dir) => {
                for path in Tree::files(dir) {
                    // An absent index is an empty one; the modules it would name are then missing.
                    sources.extend(Identity::of(&path).ok());
                }
                Tree::read(dir, release)?
            }
            None => Tree::assume_builtin(release),
        };
        let plan = plan(request, &tree)?;
        for path in plan.sources() {
            sources.push(Identity::of(path)?);
        }
        let (archive, contents) = build(&plan)?;
        file.write_all(&archive)
            .map_err(|source| Error::Write { source })?;
        Ok::<_, Error>(Meta { sources, contents })
    })?;
    Ok(Built {
        path: entry.path,
        size: entry.size,
        contents: entry.meta.contents,
        fresh: entry.fresh,
    })
}

/// The key of a request: everything that decides about the archive but the content of host files.
fn key(request: &Request, release: &str, modules: Option<&Path>) -> Result<String, Error> {
    #[derive(Serialize)]
    enum Named<'a> {
        Hash(String),
        File(&'a Path),
    }
    fn named(content: &Content) -> Named<'_> {
        match content {
            Content::Bytes(bytes) => Named::Hash(blake3::hash(bytes).to_hex().to_string()),
            Content::File(path) => Named::File(path),
        }
    }
    let files: Vec<_> = request
        .files
        .iter()
        .map(|extra| match extra {
            Extra::File {
                path,
                content,
                mode,
            } => (path, Some(named(content)), *mode, None),
            Extra::Dir { path, mode } => (path, None, *mode, None),
            Extra::Symlink { path, target } => (path, None, 0, Some(target)),
        })
        .collect();
    let parts = (
        FORMAT,
        release,
        modules,
        named(&request.init),
        &request.modules,
        &request.deny,
        files,
        request.signatures,
    );
    let text = serde_json::to_vec(&parts).map_err(|_| Error::Path {
        path: format!("{modules:?}"),
    })?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

#[cfg(test)]
mod tests;
