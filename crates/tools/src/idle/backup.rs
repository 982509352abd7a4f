//! Definitions of domains as they were before they were changed, in the directory of the state.
//! Passwords are not in them: they stay where libvirt keeps them.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use brisk_host::dirs::Dirs;
use brisk_host::files::{self, Durability};
use brisk_host::trust::{self, Untrusted};
use brisk_sys::{Sharing, try_lock};
use serde::{Deserialize, Serialize};

/// Version of the files.
const SCHEMA: &str = "brisk.idle.backup/1";
/// Most bytes of a file.
const LARGEST: u64 = 16 << 20;

/// A definition before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Version of the file.
    schema: String,
    /// The libvirt that has the domain.
    pub uri: String,
    /// The domain's UUID.
    pub uuid: String,
    /// Its name at that time.
    pub name: String,
    /// Time of the change, in UTC.
    pub time: String,
    /// Rules whose fixes were made.
    pub rules: Vec<String>,
    /// The definition before, as libvirt prints it without passwords.
    pub before: String,
    /// The definition after. Empty as long as it is not known to be defined.
    pub after: String,
    /// The definition that libvirt was to get, as long as it is not known to have it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planned: String,
    /// What was changed together with others has the same text here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Greater than that of every backup before, whatever the clock says; 0 in files of older
    /// versions.
    #[serde(default)]
    pub sequence: u64,
}

/// A backup, with its file's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The file.
    pub path: PathBuf,
    /// The definition before and after.
    pub backup: Backup,
}

/// A backup that cannot be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no directory for it.
    #[error("there is no directory for backups; set HOME or BRISK_STATE_DIR")]
    Nowhere,
    /// Another brisk changes domains.
    #[error("another brisk is changing domains; wait for it")]
    Busy,
    /// A file or directory cannot be used.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file is not a backup.
    #[error("{path} is no backup of brisk's: look at it, and move it to another directory")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Others could have put something there.
    #[error(
        "others can change the backups in {dir}: {reason}; see what is in it, and close it to them \
         (chmod go-w, chown)"
    )]
    Unsafe {
        /// The directory.
        dir: PathBuf,
        /// How.
        reason: Untrusted,
    },
    /// There is no greater number.
    #[error("{path} has the greatest number that there is: move it to another directory")]
    Full {
        /// The file, or the directory of which one has it.
        path: PathBuf,
    },
}

/// The backups of all domains. No other brisk uses them while this lives.
#[derive(Debug)]
pub struct Backups {
    dir: PathBuf,
    /// What those that are added now belong to.
    batch: Option<String>,
    /// Number of those that are added now.
    sequence: OnceCell<u64>,
    _lock: File,
}

/// What was changed together, last.
#[derive(Debug, Default)]
pub struct Batch {
    /// The backups, in the order of their names.
    pub kept: Vec<Kept>,
    /// Files and directories that cannot be read.
    pub damaged: Vec<Error>,
}

impl Backup {
    /// A backup of a definition that is about to change.
    #[must_use]
    pub fn new(uri: &str, uuid: &str, name: &str, time: String, before: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            uri: uri.to_owned(),
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            time,
            rules: Vec::new(),
            before,
            after: String::new(),
            planned: String::new(),
            batch: None,
            sequence: 0,
        }
    }
}

fn file<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File {
        action,
        path: path.to_owned(),
        source,
    }
}

impl Backups {
    /// Those of this user.
    ///
    /// # Errors
    /// If there is no directory for them, or another brisk uses it.
    pub fn open() -> Result<Self, Error> {
        let state = Dirs::here().state().ok_or(Error::Nowhere)?;
        Self::open_in(&state.join("idle"))
    }

    fn open_in(dir: &Path) -> Result<Self, Error> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir).map_err(file("make", dir))?;
        must_be_own(dir)?;
        let path = dir.join("lock");
        let lock = files::open_lock(&path).map_err(file("open", &path))?;
        match try_lock(&lock, Sharing::Exclusive).map_err(file("lock", &path))? {
            true => Ok(Self {
                dir: dir.to_owned(),
                batch: None,
                sequence: OnceCell::new(),
                _lock: lock,
            }),
            false => Err(Error::Busy),
        }
    }

    /// Has the changes from now on belong together.
    pub fn begin_batch(&mut self, time: &str) {
        self.batch = Some(format!("{time} {}", std::process::id()));
    }

    /// The domains and VMs that were changed together, last. What cannot be read is left out of
    /// them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn last_batch(&self) -> Result<Batch, Error> {
        let (mut kept, damaged) = self.all()?;
        kept.retain(|kept| kept.backup.batch.is_some());
        let order = |kept: &Kept| {
            let backup = &kept.backup;
            (backup.sequence, backup.time.clone(), backup.batch.clone())
        };
        if let Some((sequence, _, batch)) = kept.iter().map(order).max() {
            kept.retain(|Kept { backup, .. }| {
                (backup.sequence, &backup.batch) == (sequence, &batch)
            });
        }
        kept.sort_by(|one, other| one.backup.name.cmp(&other.backup.name));
        Ok(Batch { kept, damaged })
    }

    /// All backups, and what cannot be read.
    fn all(&self) -> Result<(Vec<Kept>, Vec<Error>), Error> {
        let (mut kept, mut damaged) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(&self.dir).map_err(file("read", &self.dir))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(file("read", &self.dir))?.file_name());
        }
        names.sort();
        for name in names {
            let path = self.dir.join(&name);
            // A link may lead to a directory, too.
            match fs::metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => continue,
                Err(error) => {
                    damaged.push(file("read", &path)(error));
                    continue;
                }
            }
            let Some(key) = name.to_str() else {
                damaged.push(Error::Foreign { path });
                continue;
            };
            match self.numbers(key) {
                Err(error) => damaged.push(error),
                Ok(numbers) => {
                    for number in numbers {
                        match self.read(key, number) {
                            Ok(one) => kept.push(one),
                            Err(error) => damaged.push(error),
                        }
                    }
                }
            }
        }
        Ok((kept, damaged))
    }

    /// Number of the changes of now.
    fn sequence(&self) -> Result<u64, Error> {
        if let Some(known) = self.sequence.get() {
            return Ok(*known);
        }
        let (kept, _) = self.all()?;
        let last = kept.iter().max_by_key(|kept| kept.backup.sequence);
        let next = match last {
            None => 1,
            Some(Kept { path, backup }) => backup
                .sequence
                .checked_add(1)
                .ok_or_else(|| Error::Full { path: path.clone() })?,
        };
        Ok(*self.sequence.get_or_init(|| next))
    }

    /// Adds a backup, which is on the disk then. The result is its file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, backup: &Backup) -> Result<PathBuf, Error> {
        let dir = self.dir.join(&backup.uuid);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&dir).map_err(file("make", &dir))?;
        let next = match self.numbers(&backup.uuid)?.last() {
            None => 1,
            Some(last) => last.checked_add(1).ok_or_else(|| Error::Full {
                path: self.path(&backup.uuid, *last),
            })?,
        };
        let path = self.path(&backup.uuid, next);
        self.write(&path, backup)?;
        files::sync_directory(&self.dir).map_err(file("sync", &self.dir))?;
        Ok(path)
    }

    /// Replaces a backup.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path, backup: &Backup) -> Result<(), Error> {
        let batch = self.batch.clone();
        let backup = Backup {
            batch,
            sequence: self.sequence()?,
            ..backup.clone()
        };
        let written = serde_json::to_vec_pretty(&backup)
            .map_err(io::Error::from)
            .and_then(|bytes| files::replace(path, &bytes, Durability::Durable));
        written.map_err(file("write", path))
    }

    /// The last backup of a domain or VM.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn last(&self, key: &str) -> Result<Option<Kept>, Error> {
        self.last_where(key, |_| true)
    }

    /// The last backup with this key that is wanted.
    ///
    /// # Errors
    /// If one of those that are looked at, from the last one on, cannot be read.
    pub fn last_where(
        &self,
        key: &str,
        is_wanted: impl Fn(&Backup) -> bool,
    ) -> Result<Option<Kept>, Error> {
        for number in self.numbers(key)?.into_iter().rev() {
            let kept = self.read(key, number)?;
            if is_wanted(&kept.backup) {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// The last of all backups that is wanted, whatever its key. What cannot be read is left out.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn last_of_all(&self, is_wanted: impl Fn(&Backup) -> bool) -> Result<Option<Kept>, Error> {
        let (mut kept, _) = self.all()?;
        kept.retain(|kept| is_wanted(&kept.backup));
        // Those of one key are in order.
        kept.sort_by_key(|kept| (kept.backup.sequence, kept.backup.time.clone()));
        Ok(kept.pop())
    }

    fn path(&self, uuid: &str, number: u32) -> PathBuf {
        self.dir.join(uuid).join(format!("{number}.json"))
    }

    fn read(&self, key: &str, number: u32) -> Result<Kept, Error> {
        let path = self.path(key, number);
        let bytes = files::read_own(&path, LARGEST).map_err(file("read", &path))?;
        let backup: Option<Backup> = serde_json::from_slice(&bytes).ok();
        // A copy is none either: what is in it would be restored twice.
        match backup.filter(|backup| backup.schema == SCHEMA && backup.uuid == key) {
            Some(backup) => Ok(Kept { path, backup }),
            None => Err(Error::Foreign { path }),
        }
    }

    /// Puts a backup aside, whose guest is no more, so that it is kept and not found. The result is
    /// its new name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn put_aside(&self, path: &Path) -> Result<PathBuf, Error> {
        // An earlier one may have had the same number.
        let names = (1_u32..).map(|count| path.with_extension(format!("gone-{count}")));
        let mut free = names.filter(|name| name.symlink_metadata().is_err());
        let aside = free.next().ok_or_else(|| Error::Full {
            path: path.to_owned(),
        })?;
        fs::rename(path, &aside).map_err(file("rename", path))?;
        Ok(aside)
    }

    /// Removes a backup that was restored.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        fs::remove_file(path).map_err(file("remove", path))
    }

    /// Numbers of a domain's backups, in order.
    fn numbers(&self, uuid: &str) -> Result<Vec<u32>, Error> {
        let dir = self.dir.join(uuid);
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(file("read", &dir))?,
        };
        must_be_own(&dir)?;
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(file("read", &dir))?.file_name();
            numbers.extend(name.to_str().and_then(number));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Number in the name of a backup's file; None if it is none.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".json")?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    is_number.then(|| digits.parse().ok())?
}

/// Refuses a directory that others can change: backups become definitions, and say which libvirt
/// is asked.
fn must_be_own(dir: &Path) -> Result<(), Error> {
    trust::own_directory(dir).map_err(|reason| Error::Unsafe {
        dir: dir.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests;
