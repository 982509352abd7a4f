//! Cache of files that are derived from others: extracted kernels, initramfs archives.
//!
//! Layout below the directory, whose `v1` changes whenever a format does:
//!
//! ```text
//! v1/index/HASH-OF-PATH.json   identity of a file (inode, size, times) and the hash of its content
//! v1/KIND/KEY                  a result
//! v1/KIND/KEY.json             its size and its description, written last
//! v1/KIND/KEY.lock             held by whoever builds it
//! ```
//!
//! Nothing is synced to disk: after a crash a short result is noticed by its size and built again.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use brisk_host::dirs::{self, Dirs};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: &str = "v1";
/// Variable that names the directory of the cache, before all defaults.
const DIR_VARIABLE: &str = "BRISK_CACHE_DIR";
/// Age up to which a file may change again without its times showing it: they change with the
/// kernel's tick, of up to 10 ms.
const SETTLED: Duration = Duration::from_millis(20);

/// Error of the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No directory can be derived from the environment.
    #[error("no directory for the cache: neither {DIR_VARIABLE}, XDG_CACHE_HOME nor HOME is set")]
    NoDirectory,
    /// Others can change it.
    #[error(transparent)]
    Unsafe(#[from] dirs::Unsafe),
    /// The cache cannot be written.
    #[error("cannot write the cache {}", path.display())]
    Write {
        /// File or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A source file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoDirectory | Self::Write { .. } => Some(format!(
                "set {DIR_VARIABLE} to a directory that you can write"
            )),
            Self::Unsafe(_) | Self::Read { .. } => None,
        }
    }
}

/// Identity of one state of a file, found without reading the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    path: PathBuf,
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Identity {
    /// The present identity of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be examined.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let read = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let path = std::path::absolute(path).map_err(read)?;
        let meta = fs::metadata(&path).map_err(read)?;
        Ok(Self::from_metadata(path, &meta))
    }

    /// The identity of the file with this metadata, which may be a symbolic link.
    #[must_use]
    pub fn from_metadata(path: PathBuf, meta: &Metadata) -> Self {
        Self {
            path,
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Whether the file is unchanged.
    #[must_use]
    pub fn holds(&self) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|meta| Self::from_metadata(self.path.clone(), &meta) == *self)
    }

    fn settled(&self, now: Duration) -> bool {
        let (seconds, nanos) = self.ctime;
        let changed = u64::try_from(seconds).unwrap_or(0);
        let changed = Duration::new(changed, u32::try_from(nanos).unwrap_or(0));
        now.checked_sub(changed).is_some_and(|age| age >= SETTLED)
    }
}

/// A directory of derived files.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
}

/// A result in the cache.
#[derive(Debug, Clone)]
pub struct Entry<M> {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Description by its builder.
    pub meta: M,
    /// Whether this call built it.
    pub fresh: bool,
}

#[derive(Serialize, Deserialize)]
struct Indexed {
    identity: Identity,
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct Described<M> {
    size: u64,
    meta: M,
}

impl Cache {
    /// A cache in the given directory, which is created when something is stored.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into().join(VERSION),
        }
    }

    /// The cache of this user: see [`Dirs::cache`].
    ///
    /// # Errors
    ///
    /// [`Error::NoDirectory`] if the environment names none, [`Error::Unsafe`] if others can change it.
    pub fn open() -> Result<Self, Error> {
        let dirs = Dirs::here();
        let dir = dirs.cache().ok_or(Error::NoDirectory)?;
        dirs.check(&[dirs::CACHE])?;
        Ok(Self::new(dir))
    }

    /// Path of the cache's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The BLAKE3 hash of a file's content, from the index if the file has not changed.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or the index cannot be written.
    pub fn content_hash(&self, path: &Path) -> Result<String, Error> {
        let identity = Identity::of(path)?;
        let name = blake3::hash(identity.path.as_os_str().as_encoded_bytes()).to_hex();
        let index = self.dir.join("index");
        let file = index.join(format!("{name}.json"));
        if let Some(known) = read_json::<Indexed>(&file).filter(|known| known.identity == identity)
        {
            return Ok(known.hash);
        }
        let hash = hash_file(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        if identity.settled(now) && identity.holds() {
            make_dir(&index)?;
            write_json(
                &file,
                &Indexed {
                    identity,
                    hash: hash.clone(),
                },
            )?;
        }
        Ok(hash)
    }

    /// Finds a result; `None` if it is missing or incomplete.
    #[must_use]
    pub fn get<M: DeserializeOwned>(&self, kind: &str, key: &str) -> Option<Entry<M>> {
        let path = self.dir.join(kind).join(key);
        let described: Described<M> = read_json(&path.with_extension("json"))?;
        let meta = fs::metadata(&path).ok()?;
        (meta.is_file() && meta.len() == described.size).then_some(Entry {
            path,
            size: described.size,
            meta: described.meta,
            fresh: false,
        })
    }

    /// Removes a result; processes that have it open keep it.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn remove(&self, kind: &str, key: &str) -> Result<(), Error> {
        let path = self.dir.join(kind).join(key);
        for path in [path.with_extension("json"), path] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(write_error(&path, source));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds a result, or builds it if it is missing or incomplete. The key must have no dot or
    /// slash.
    ///
    /// Of several processes that want one result, one builds it and the others wait.
    ///
    /// # Errors
    ///
    /// Those of the builder, or if the cache cannot be written.
    pub fn get_or_build<M, E>(
        &self,
        kind: &str,
        key: &str,
        build: impl FnOnce(&mut File) -> Result<M, E>,
    ) -> Result<Entry<M>, E>
    where
        M: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.get_valid_or_build(kind, key, |_| true, build)
    }

    /// Finds or builds a result as [`Self::get_or_build`] does; a result that is not `valid` is
    /// built again.
    ///
    /// # Errors
    ///
    /// See [`Self::get_or_build`].
    pub fn get_valid_or_build<M, E>(
        &self,
        kind: &str,
        key: &str,
        valid: impl Fn(&M) -> bool,
        build: impl FnOnce(&mut File) -> Result<M, E>,
    ) -> Result<Entry<M>, E>
    where
        M: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let present = || self.get::<M>(kind, key).filter(|entry| valid(&entry.meta));
        if let Some(entry) = present() {
            return Ok(entry);
        }
        let path = self.dir.join(kind).join(key);
        make_dir(&self.dir.join(kind))?;
        let _lock = lock(&path.with_extension("lock"))?;
        if let Some(entry) = present() {
            return Ok(entry);
        }
        let (temporary, mut file) = create(&path)?;
        let meta = build(&mut file).inspect_err(|_| discard(&temporary))?;
        let size = file
            .metadata()
            .map_err(|source| write_error(&temporary, source))?
            .len();
        rename(&temporary, &path)?;
        let described = Described { size, meta };
        write_json(&path.with_extension("json"), &described)?;
        Ok(Entry {
            path,
            size,
            meta: described.meta,
            fresh: true,
        })
    }
}

/// A key made from any bytes that identify a result.
#[must_use]
pub fn key(identity: &[u8]) -> String {
    blake3::hash(identity).to_hex().to_string()
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let (temporary, file) = create(path)?;
    serde_json::to_writer(io::BufWriter::new(file), value)
        .map_err(|error| write_error(path, error.into()))
        .inspect_err(|_| discard(&temporary))?;
    rename(&temporary, path)
}

/// A new file beside `path`, with a name that no other process uses.
fn create(path: &Path) -> Result<(PathBuf, File), Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{count}.tmp", std::process::id()));
    // A crashed process with our id may have left one.
    discard(&temporary);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        // An unprivileged QEMU opens them again by descriptor; the directory, which only its owner
        // may enter, still keeps others away.
        .mode(0o644)
        .open(&temporary)
        .map_err(|source| write_error(&temporary, source))
        .map(|file| (temporary, file))
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to)
        .map_err(|source| write_error(to, source))
        .inspect_err(|_| discard(from))
}

fn discard(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Makes a directory that only its owner may read: an initramfs may have secret files.
fn make_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| write_error(path, source))
}

fn lock(path: &Path) -> Result<File, Error> {
    let failed = |source| write_error(path, source);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let file = file.map_err(failed)?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map(|()| file).map_err(|errno| failed(errno.into())),
        }
    }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
