//! Files in which restarts are kept: `/var/lib/brisk/reboot`.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::combination::combination;
use super::record::{Barred, Down, Record, Restart};
use crate::reboot::Target;

/// Bytes that are read of a file at most.
const LONGEST: u64 = 8 << 20;
/// Records that are kept.
const MOST: usize = 1000;

/// Error of the files.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}", path.display())]
pub struct StoreError {
    verb: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Files of restarts.
#[derive(Debug, Clone)]
pub struct Store(PathBuf);

impl Store {
    /// Files in a directory, which is made when something is written.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// Files of this system.
    #[must_use]
    pub fn of_system() -> Self {
        Self::below(Path::new("/"))
    }

    /// Files of the system below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self::new(root.join("var/lib/brisk/reboot"))
    }

    /// The restart that has begun; none if there is none, or the file is not one of brisk's.
    #[must_use]
    pub fn pending(&self) -> Option<Restart> {
        self.read("pending.json")
    }

    /// Writes the restart that has begun to the disk, so that a power cut leaves this or what was
    /// before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_pending(&self, restart: &Restart) -> Result<(), StoreError> {
        self.write("pending.json", restart)
    }

    /// Forgets the restart that has begun.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn clear_pending(&self) -> Result<(), StoreError> {
        self.remove("pending.json")
    }

    /// Mark of the last shutdown.
    #[must_use]
    pub fn down(&self) -> Option<Down> {
        self.read("down.json")
    }

    /// Writes the mark of a shutdown.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_down(&self, down: &Down) -> Result<(), StoreError> {
        self.write("down.json", down)
    }

    /// Forgets the mark of a shutdown.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn clear_down(&self) -> Result<(), StoreError> {
        self.remove("down.json")
    }

    /// Records, the oldest first. Lines that are not of brisk's are left out; of a file that is too
    /// long, the newest lines count.
    #[must_use]
    pub fn history(&self) -> Vec<Record> {
        let file = files::open(&self.0.join("history.jsonl"));
        let text = file.and_then(|file| files::tail(&file, LONGEST));
        let text = text.unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        records.collect()
    }

    /// Whether there are no files, or this user may read them.
    ///
    /// # Errors
    /// If this user may not.
    pub fn may_be_read(&self) -> Result<(), StoreError> {
        let path = self.0.join("history.jsonl");
        match files::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(cannot("read", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Adds a record, once: one whose boot is in the history already is left out.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, record: &Record) -> Result<(), StoreError> {
        let mut history = self.history();
        let is_same = |one: &Record| one.id == record.id && one.to.id == record.to.id;
        if history.iter().any(is_same) {
            return Ok(());
        }
        history.push(record.clone());
        let mut lines = Vec::new();
        let mut size = 0;
        for record in history.iter().rev().take(MOST) {
            // A map of strings and numbers, which JSON always has.
            let line = serde_json::to_string(record).unwrap_or_default() + "\n";
            size += line.len() as u64;
            // Machines have thousands of network interfaces.
            if size > LONGEST {
                break;
            }
            lines.push(line);
        }
        lines.reverse();
        self.put("history.jsonl", lines.concat().as_bytes())
    }

    /// Combinations that are not restarted into without the firmware.
    ///
    /// # Errors
    /// If the list cannot be read, or is not one of brisk's: then any combination may be barred.
    pub fn barred(&self) -> Result<Vec<Barred>, StoreError> {
        let path = self.0.join("barred.json");
        let bytes = match files::start(&path, LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            bytes => bytes.map_err(cannot("read", &path))?,
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| cannot("read", &path)(io::Error::from(error)))
    }

    /// Whether a combination of the system below `root` is barred. Files are read only if some
    /// combination is.
    ///
    /// # Errors
    /// If it cannot be known.
    pub fn barred_target(
        &self,
        root: &Path,
        target: &Target,
    ) -> Result<Option<Barred>, StoreError> {
        let barred = self.barred()?;
        if barred.is_empty() {
            return Ok(None);
        }
        // Files that cannot be read are a finding of their own.
        let Ok(combination) = combination(root, target) else {
            return Ok(None);
        };
        let mut barred = barred.into_iter();
        Ok(barred.find(|one| one.combination == combination))
    }

    /// Bars a combination.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn bar(&self, barred: Barred) -> Result<(), StoreError> {
        // A list that cannot be read says nothing any more, and this one must be said.
        let mut all = self.barred().unwrap_or_default();
        all.retain(|one| one.combination != barred.combination);
        all.push(barred);
        self.write("barred.json", &all)
    }

    /// Allows everything, also what cannot be read.
    ///
    /// # Errors
    /// If the list cannot be removed.
    pub fn allow_all(&self) -> Result<(), StoreError> {
        self.remove("barred.json")
    }

    /// Allows what was barred: combinations that begin with a text. The result is what was allowed.
    ///
    /// # Errors
    /// If the list cannot be read or written.
    pub fn allow(&self, beginning: &str) -> Result<Vec<Barred>, StoreError> {
        let is_meant = |one: &Barred| one.combination.starts_with(beginning);
        let (allowed, rest): (Vec<_>, Vec<_>) = self.barred()?.into_iter().partition(is_meant);
        if !allowed.is_empty() {
            self.write("barred.json", &rest)?;
        }
        Ok(allowed)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(&files::text_within(&self.0.join(name), LONGEST)?).ok()
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        self.put(name, text.as_bytes())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.0);
        made.map_err(cannot("make", &self.0))?;
        let path = self.0.join(name);
        // What ran, and when, is no secret; only root may change it.
        files::replace_with_mode(&path, bytes, 0o644, Durability::Durable)
            .map_err(cannot("write", &path))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.0.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(cannot("remove", &path)(source)),
            Ok(()) => files::sync_directory(&self.0).map_err(cannot("write", &self.0)),
        }
    }
}

/// Error of doing something to a file.
fn cannot(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError {
        verb,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::restart::Phase;
    use crate::reboot::restart::samples::record;

    #[test]
    fn the_history_keeps_each_restart_once_and_only_the_last_ones() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("reboot"));
        assert_eq!(store.history(), []);
        store.add(&record("a")).unwrap();
        store.add(&record("a")).unwrap();
        assert_eq!(store.history(), [record("a")]);
        let line = serde_json::to_string(&record("b")).unwrap() + "\n";
        let text = format!("not of brisk\n{}", line.repeat(MOST));
        fs::write(dir.path().join("reboot/history.jsonl"), text).unwrap();
        store.add(&record("c")).unwrap();
        let history = store.history();
        assert_eq!(history.len(), MOST);
        assert_eq!(history.last(), Some(&record("c")));
    }

    #[test]
    fn the_newest_records_stay_however_long_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let long = |id: &str| Record {
            reasons: vec!["x".repeat(3 << 20)],
            ..record(id)
        };
        for id in ["a", "b", "c", "d"] {
            store.add(&long(id)).unwrap();
        }
        let ids: Vec<_> = store.history().into_iter().map(|one| one.id).collect();
        assert_eq!(ids, ["c", "d"]);
        // Of a longer file, too, that something else has made.
        let path = dir.path().join("history.jsonl");
        let all = [long("e"), long("f"), long("g")];
        let lines = all.map(|one| serde_json::to_string(&one).unwrap() + "\n");
        fs::write(&path, lines.concat()).unwrap();
        let ids: Vec<_> = store.history().into_iter().map(|one| one.id).collect();
        assert_eq!(ids, ["f", "g"]);
    }

    #[test]
    fn what_is_barred_is_allowed_by_the_beginning_of_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let barred = |combination: &str| Barred {
            combination: combination.to_owned(),
            release: "6.12".to_owned(),
            phase: Phase::Kernel,
            at: 0.0,
        };
        store.bar(barred("abc")).unwrap();
        store.bar(barred("abc")).unwrap();
        store.bar(barred("def")).unwrap();
        assert_eq!(store.barred().unwrap(), [barred("abc"), barred("def")]);
        assert_eq!(store.allow("x").unwrap(), []);
        assert_eq!(store.allow("ab").unwrap(), [barred("abc")]);
        assert_eq!(store.barred().unwrap(), [barred("def")]);
        assert_eq!(store.allow("").unwrap(), [barred("def")]);
        assert_eq!(store.barred().unwrap(), []);
    }

    #[test]
    fn what_is_no_restart_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for text in ["", "{", "[]", "{\"id\": 5}"] {
            fs::write(dir.path().join("pending.json"), text).unwrap();
            assert_eq!(store.pending(), None, "{text}");
        }
        store.clear_pending().unwrap();
        store.clear_pending().unwrap();
        let file = Store::new("/dev/null/none");
        let error = file.add(&record("a")).unwrap_err().to_string();
        assert_eq!(error, "cannot make /dev/null/none");
    }
}
