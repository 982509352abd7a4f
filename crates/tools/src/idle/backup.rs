//! Definitions of domains as they were before they were changed, in the directory of the state.
//! Passwords are not in them: they stay where libvirt keeps them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use brisk_host::dirs::Dirs;
use brisk_host::files::{self, Durability};
use brisk_sys::{Sharing, try_lock};
use serde::{Deserialize, Serialize};

/// Version of the files.
const SCHEMA: &str = "brisk.idle.backup/1";

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
    /// What was changed together with others has the same text here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
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
    #[error("{path} is no backup of brisk's")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

/// The backups of all domains. No other brisk uses them while this lives.
#[derive(Debug)]
pub struct Backups {
    dir: PathBuf,
    /// What those that are added now belong to.
    batch: Option<String>,
    _lock: File,
}

/// What was changed together, last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Those that can be restored.
    pub last: Vec<Backup>,
    /// Those that were changed again since.
    pub covered: Vec<Backup>,
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
            batch: None,
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
        let path = dir.join("lock");
        let lock = files::open_lock(&path).map_err(file("open", &path))?;
        match try_lock(&lock, Sharing::Exclusive).map_err(file("lock", &path))? {
            true => Ok(Self {
                dir: dir.to_owned(),
                batch: None,
                _lock: lock,
            }),
            false => Err(Error::Busy),
        }
    }

    /// Has the changes from now on belong together.
    pub fn begin_batch(&mut self, time: &str) {
        self.batch = Some(format!("{time} {}", std::process::id()));
    }

    /// The domains and VMs that were changed together, last.
    ///
    /// # Errors
    /// If backups cannot be read.
    pub fn last_batch(&self) -> Result<Batch, Error> {
        let mut found: Vec<(Backup, bool)> = Vec::new();
        let entries = fs::read_dir(&self.dir).map_err(file("read", &self.dir))?;
        for entry in entries {
            let entry = entry.map_err(file("read", &self.dir))?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let Some(key) = entry
                .file_name()
                .to_str()
                .filter(|_| is_directory)
                .map(str::to_owned)
            else {
                continue;
            };
            let numbers = self.numbers(&key)?;
            for number in &numbers {
                let path = self.path(&key, *number);
                found.push((Self::read(&path)?, Some(number) == numbers.last()));
            }
        }
        found.retain(|(backup, _)| backup.batch.is_some());
        let newest = found
            .iter()
            .map(|(backup, _)| (&backup.time, &backup.batch));
        let newest = newest.max().and_then(|(_, batch)| batch.clone());
        found.retain(|(backup, _)| backup.batch == newest);
        found.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        let mut batch = Batch::default();
        for (backup, is_last) in found {
            match is_last {
                true => batch.last.push(backup),
                false => batch.covered.push(backup),
            }
        }
        Ok(batch)
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
        let next = self
            .numbers(&backup.uuid)?
            .last()
            .map_or(1, |last| last + 1);
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
            ..backup.clone()
        };
        let written = serde_json::to_vec_pretty(&backup)
            .map_err(io::Error::from)
            .and_then(|bytes| files::replace(path, &bytes, Durability::Durable));
        written.map_err(file("write", path))
    }

    /// The last backup of a domain, and its file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn last(&self, uuid: &str) -> Result<Option<(PathBuf, Backup)>, Error> {
        let Some(last) = self.numbers(uuid)?.pop() else {
            return Ok(None);
        };
        let path = self.path(uuid, last);
        let backup = Self::read(&path)?;
        Ok(Some((path, backup)))
    }

    fn path(&self, uuid: &str, number: u32) -> PathBuf {
        self.dir.join(uuid).join(format!("{number}.json"))
    }

    fn read(path: &Path) -> Result<Backup, Error> {
        let bytes = fs::read(path).map_err(file("read", path))?;
        let backup: Option<Backup> = serde_json::from_slice(&bytes).ok();
        let backup = backup.filter(|backup| backup.schema == SCHEMA);
        let path = path.to_owned();
        backup.ok_or(Error::Foreign { path })
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
        let mut numbers: Vec<u32> = entries
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                name.strip_suffix(".json")?.parse().ok()
            })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn backup(before: &str) -> Backup {
        Backup::new("qemu:///session", "u-1", "web", "now".into(), before.into())
    }

    #[test]
    fn the_last_backup_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("idle");
        let backups = Backups::open_in(&dir).unwrap();
        assert_eq!(backups.last("u-1").unwrap(), None);
        let first = backups.add(&backup("a")).unwrap();
        for number in 2..=11 {
            backups.add(&backup(&format!("b{number}"))).unwrap();
        }
        let (path, last) = backups.last("u-1").unwrap().unwrap();
        assert_eq!(last, backup("b11"));
        assert_eq!(backups.last("u-2").unwrap(), None);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&path)), (0o700, 0o600));
        for _ in 2..=11 {
            let (path, _) = backups.last("u-1").unwrap().unwrap();
            backups.remove(&path).unwrap();
        }
        assert_eq!(backups.last("u-1").unwrap().unwrap().0, first);
    }

    #[test]
    fn what_was_changed_together_is_found_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut backups = Backups::open_in(dir.path()).unwrap();
        let of = |name: &str, time: &str| {
            let uuid = format!("u-{name}");
            Backup::new("qemu:///session", &uuid, name, time.into(), String::new())
        };
        backups.add(&of("alone", "3")).unwrap();
        assert_eq!(backups.last_batch().unwrap(), Batch::default());
        for (time, names) in [("1", ["web", "old"]), ("2", ["web", "db"])] {
            backups.begin_batch(time);
            for name in names {
                backups.add(&of(name, time)).unwrap();
            }
        }
        backups.batch = None;
        backups.add(&of("db", "4")).unwrap();
        let names = |list: &[Backup]| -> Vec<String> {
            list.iter()
                .map(|one| format!("{} {}", one.name, one.time))
                .collect()
        };
        let batch = backups.last_batch().unwrap();
        assert_eq!(names(&batch.last), ["web 2"]);
        assert_eq!(names(&batch.covered), ["db 2"]);
        // The one before comes next.
        for uuid in ["u-web", "u-db", "u-db"] {
            let (path, _) = backups.last(uuid).unwrap().unwrap();
            backups.remove(&path).unwrap();
        }
        assert_eq!(
            names(&backups.last_batch().unwrap().last),
            ["old 1", "web 1"]
        );
        fs::write(dir.path().join("u-old/9.json"), "{}").unwrap();
        assert!(matches!(backups.last_batch(), Err(Error::Foreign { .. })));
    }

    #[test]
    fn only_one_brisk_changes_domains() {
        let dir = tempfile::tempdir().unwrap();
        let one = Backups::open_in(dir.path()).unwrap();
        assert!(matches!(Backups::open_in(dir.path()), Err(Error::Busy)));
        drop(one);
        assert!(Backups::open_in(dir.path()).is_ok());
    }

    #[test]
    fn other_files_are_no_backups() {
        let dir = tempfile::tempdir().unwrap();
        let backups = Backups::open_in(dir.path()).unwrap();
        let path = backups.add(&backup("a")).unwrap();
        for text in ["", "{}", "[1]", r#"{"schema":"other"}"#] {
            fs::write(&path, text).unwrap();
            let error = backups.last("u-1").unwrap_err().to_string();
            assert!(error.contains("1.json is no backup"), "{error}");
        }
    }
}
