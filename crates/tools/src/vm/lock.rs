//! The lock of a VM: one command at a time works on it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use brisk_host::files;
use brisk_host::proc::Procfs;
use brisk_host::trust::{Untrusted, own_directory};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::{Error, file};
use super::paths::{VmPaths, make_dir};
use super::suspend_record;

/// Lock of the command that works on a VM.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl VmPaths {
    /// Keeps all other commands from this VM while the lock lives.
    ///
    /// # Errors
    /// [`Error::Busy`] if another command works on it.
    pub fn lock(&self, command: &str) -> Result<Lock, Error> {
        if self.must_be_new().is_ok() {
            return Err(Error::Unknown {
                name: self.name.clone(),
            });
        }
        suspend_record::check_away(self)?;
        let mut opened = match self.lock_state() {
            // A VM must stop, too, when the disk or the server of its state fails, and then it does
            // so for all commands.
            Err(error) if !matches!(error, Error::Busy { .. }) => {
                let runtime = self.runtime();
                let directory = File::open(&runtime).map_err(|_| error)?;
                self.lock_file(directory, &runtime)?
            }
            locked => locked?,
        };
        let line = format!("brisk vm {command}, process {}\n", std::process::id());
        // For messages alone: on a full disk, too, a VM can be saved and stopped.
        let _ = opened
            .set_len(0)
            .and_then(|()| opened.rewind())
            .and_then(|()| opened.write_all(line.as_bytes()));
        Ok(Lock { _file: opened })
    }

    /// Checks that only root and this user can change what a suspend believes: which memory is written,
    /// to which place, and for whom. What ends VMs looks at them wherever they are.
    ///
    /// # Errors
    /// If others can.
    pub(super) fn must_be_own(&self) -> Result<(), Error> {
        let definition = self.file();
        let definitions = definition.parent().unwrap_or(&definition);
        for dir in [definitions, &self.state(), &self.runtime()] {
            own_directory(dir).map_err(|reason| {
                let (what, hint) = match &reason {
                    Untrusted::Way(_) => (
                        format!("cannot be suspended: {reason}"),
                        "see where its symbolic links lead",
                    ),
                    _ => (
                        format!(
                            "cannot be suspended: others can change {}: {reason}",
                            dir.display()
                        ),
                        "close it to others (chmod go-w, chown)",
                    ),
                };
                Error::state(&self.name, what, hint)
            })?;
        }
        Ok(())
    }

    fn lock_state(&self) -> Result<File, Error> {
        make_dir(&self.state(), 0o700)?;
        let path = self.state().join("lock");
        let opened = open_lock(&path).map_err(file("open", &path))?;
        self.lock_file(opened, &path)
    }

    fn lock_file(&self, mut opened: File, path: &Path) -> Result<File, Error> {
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(opened),
            // NFS locks only what is open for writing, and here nothing can be. A VM must stop all the
            // same.
            Err(Errno::BADF) => Ok(opened),
            Err(Errno::WOULDBLOCK) => Err(Error::Busy {
                name: self.name.clone(),
                holder: holder(&mut opened),
            }),
            Err(errno) => Err(file("lock", path)(errno.into())),
        }
    }
}

/// Opens the file of a VM's lock. In a file system that became read-only, or whose quota is used up,
/// VMs can be stopped, too: there the file is locked as it is, and its directory where there is none.
fn open_lock(path: &Path) -> std::io::Result<File> {
    match files::open_lock(path) {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::ROFS | Errno::DQUOT | Errno::NOSPC)
            ) =>
        {
            let directory = path.parent().unwrap_or(path);
            File::open(path).or_else(|_| File::open(directory))
        }
        other => other,
    }
}

/// Command that has a lock, from the lock's file, where it is written right after locking.
fn holder(lock: &mut File) -> String {
    const TRIES: u32 = 100;
    let mut text = String::new();
    for _ in 0..TRIES {
        let _ = lock.rewind().and_then(|()| lock.read_to_string(&mut text));
        if text.ends_with('\n') {
            break;
        }
        text.clear();
        thread::sleep(Duration::from_millis(1));
    }
    let text = text.trim();
    let process = text.rsplit(' ').next().and_then(|word| word.parse().ok());
    match process.map(|process| (process, Procfs::default().stat(process))) {
        Some((process, Ok(stat))) if matches!(stat.state, 'T' | 't') => {
            format!("{text}, which is stopped (kill -CONT {process} has it go on)")
        }
        _ => text.to_owned(),
    }
}
