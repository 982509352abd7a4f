//! Paths of VMs: definitions, state, and runtime files.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use brisk_host::dirs::Dirs;
use brisk_host::files::{self, Durability};
use brisk_vm::launch::RuntimeFiles;
use brisk_vm::qemu::VmConfig;

use super::definition::{Definition, DefinitionError};
use super::error::{Error, file};
use crate::guest::Options;
use crate::reservation::PROCESS;

/// Most bytes of a record of a VM.
pub(super) const LARGEST: u64 = 16 << 20;

/// The directories of all VMs of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirs {
    /// Definitions, `NAME.toml`.
    pub config: PathBuf,
    /// Logs and images, one directory for each VM.
    pub state: PathBuf,
    /// Sockets, one directory for each VM; empty after the host has restarted.
    pub runtime: PathBuf,
    /// File of the host's key for images.
    pub key: PathBuf,
}

impl StateDirs {
    /// Directories from the environment: `BRISK_CONFIG_DIR`, `BRISK_STATE_DIR` and
    /// `BRISK_RUNTIME_DIR`, else `/etc/brisk`, `/var/lib/brisk` and `/run/brisk` for root and the
    /// XDG directories for others.
    ///
    /// # Errors
    /// The variable that is missing.
    pub fn of_environment(
        root: bool,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, String> {
        let dirs = Dirs::new(root, variable);
        let config = dirs
            .config()
            .ok_or("no directory for definitions: neither BRISK_CONFIG_DIR nor HOME is set")?;
        let state = dirs
            .state()
            .ok_or("no directory for VMs: neither BRISK_STATE_DIR nor HOME is set")?;
        let runtime = dirs.runtime().ok_or(
            "no directory for sockets: neither BRISK_RUNTIME_DIR nor XDG_RUNTIME_DIR is set, as \
             after su -; log in (ssh, machinectl shell USER@), or set XDG_RUNTIME_DIR to \
             /run/user/UID if that is there, else BRISK_RUNTIME_DIR to a directory of your own",
        )?;
        Ok(Self {
            config: config.join("vm"),
            key: brisk_image::host_key_path(&state),
            state: state.join("vm"),
            runtime: runtime.join("vm"),
        })
    }

    /// The directories of this user.
    ///
    /// # Errors
    /// If the environment names no place for one of them.
    pub fn here() -> Result<Self, Error> {
        let root = rustix::process::geteuid().is_root();
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        Self::of_environment(root, variable).map_err(Error::Nowhere)
    }

    /// The names of all VMs, in order. What else is in their directory, such as the lock of an editor,
    /// is none.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.definitions(|name| self.vm(name).is_ok())
    }

    /// Files of definitions whose names cannot be those of VMs, without their ending. Hidden ones are
    /// left out.
    #[must_use]
    pub fn misnamed(&self) -> Vec<String> {
        self.definitions(|name| !name.starts_with('.') && self.vm(name).is_err())
    }

    fn definitions(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let list = fs::read_dir(&self.config).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(".toml")?;
            is_wanted(name).then(|| name.to_owned())
        };
        let mut names: Vec<_> = list.filter_map(name).collect();
        names.sort();
        names
    }

    /// The names of VMs that have files and no definition: it was renamed or removed by hand.
    #[must_use]
    pub fn undefined(&self) -> Vec<String> {
        let defined = self.names();
        let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        let found = list(&self.state).chain(list(&self.runtime));
        let names = found.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names
            .filter(|name| !defined.contains(name) && self.vm(name).is_ok())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Paths of a VM, whether it exists or not.
    ///
    /// # Errors
    /// If the name is not allowed.
    pub fn vm(&self, name: &str) -> Result<VmPaths, Error> {
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts || name.len() > 64 || !name.chars().all(good) {
            return Err(Error::Name {
                name: name.to_owned(),
            });
        }
        Ok(VmPaths {
            name: name.to_owned(),
            dirs: self.clone(),
        })
    }
}

/// The files of one VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmPaths {
    /// Name of the VM.
    pub name: String,
    dirs: StateDirs,
}

impl VmPaths {
    /// Path of its definition.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dirs.config.join(format!("{}.toml", self.name))
    }

    /// Paths of another VM of the same user.
    ///
    /// # Errors
    /// If the name is not allowed.
    pub(crate) fn beside(&self, name: &str) -> Result<Self, Error> {
        self.dirs.vm(name)
    }

    /// Directory of brisk's configuration, which has that of definitions.
    pub(super) fn configuration(&self) -> PathBuf {
        let config = &self.dirs.config;
        config.parent().unwrap_or(config).to_owned()
    }

    /// Directory of its state.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dirs.state.join(&self.name)
    }

    /// Path of its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state().join("log")
    }

    /// Directory of its runtime files.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.dirs.runtime.join(&self.name)
    }

    /// Name of the file with its memory, while it runs, if the file has a name. VMs of other
    /// directories may have the same name.
    pub(in crate::vm) fn memory_name(&self) -> String {
        let runtime = self.dirs.runtime.as_os_str().as_encoded_bytes();
        let hash = runtime
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("vm-{}-{hash:016x}.ram", self.name)
    }

    /// Path of the record of the running VM.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.runtime().join("plan.json")
    }

    /// Path of the file with QEMU's process number, while it runs.
    #[must_use]
    pub fn pid(&self) -> PathBuf {
        self.runtime().join("pid")
    }

    /// Path of the file with QEMU's process number in the state directory, where it is found if the
    /// runtime directory is gone.
    pub(super) fn process(&self) -> PathBuf {
        self.state().join(PROCESS)
    }

    /// Path of the file with the console's length at the start, in bytes.
    pub(super) fn console_start(&self) -> PathBuf {
        self.runtime().join("console-start")
    }

    /// Path of the file that names the image which the next one can be based on, while it runs.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.runtime().join("base")
    }

    /// Path of the host's key for images.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.dirs.key
    }

    /// Path of its image. Where the definition names a symbolic link, the file that it leads to: an
    /// image is known by its name beside others.
    #[must_use]
    pub fn image(&self, definition: &Definition) -> PathBuf {
        let named = definition
            .image(&self.name)
            .unwrap_or_else(|| self.state().join(format!("{}.brisk", self.name)));
        brisk_image::real_path(named)
    }

    /// Names the image of the suspended VM.
    pub(super) fn suspended(&self) -> PathBuf {
        self.state().join("suspended")
    }

    /// Path of the copy of the suspend record that is beside the definition, for when the state
    /// directory is not mounted.
    pub(super) fn suspended_copy(&self) -> PathBuf {
        self.dirs.config.join(format!("{}.suspended", self.name))
    }

    /// Path of the record of what memory that was kept in RAM is since a resume that was refused.
    pub(super) fn kept_again(&self) -> PathBuf {
        self.state().join("kept-memory")
    }

    /// Path of the reason why QEMU has stopped the guest.
    pub(super) fn disk_error(&self) -> PathBuf {
        self.runtime().join("disk-error")
    }

    /// Path of the reason why memory of the running VM cannot be read from its image.
    pub(super) fn unreadable(&self) -> PathBuf {
        self.runtime().join("image-unreadable")
    }

    /// Path of the reason why memory of the running VM will not be read from its image, which is
    /// damaged.
    pub(super) fn damaged(&self) -> PathBuf {
        self.runtime().join("image-damaged")
    }

    /// The directories of all VMs.
    pub(super) fn dirs(&self) -> &StateDirs {
        &self.dirs
    }

    /// Names the image that counts while the VM's QEMU is there: the one that it is being suspended to,
    /// or resumed from.
    pub(super) fn in_image(&self) -> PathBuf {
        self.runtime().join("in-image")
    }

    /// Path of the note that the VM is to be resumed with the host.
    pub(super) fn carried(&self) -> PathBuf {
        self.state().join("resume-with-host")
    }

    /// Path of its working set of the last resume, which the next image will include.
    #[must_use]
    pub fn working_set(&self) -> PathBuf {
        self.state().join("working-set")
    }

    /// Paths of its channels.
    #[must_use]
    pub fn runtime_files(&self) -> RuntimeFiles {
        RuntimeFiles {
            dir: self.runtime(),
            console: self.state().join("console.log"),
            errors: self.state().join("qemu.log"),
        }
    }

    /// Its definition, read and checked.
    ///
    /// # Errors
    /// If there is none, or it is wrong.
    pub fn definition(&self) -> Result<Definition, Error> {
        self.parse(&self.text()?)
    }

    /// The text of its definition.
    ///
    /// # Errors
    /// If there is none.
    pub fn text(&self) -> Result<String, Error> {
        let path = self.file();
        match files::read_regular_text(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.undefined().unwrap_or_else(|| Error::Unknown {
                    name: self.name.clone(),
                }))
            }
            other => Ok(other.map_err(file("read", &path))?),
        }
    }

    /// Whether it has a state directory or a runtime directory.
    pub(super) fn has_directory(&self) -> bool {
        let mut directories = [self.state(), self.runtime()].into_iter();
        directories.any(|path| path.symlink_metadata().is_ok())
    }

    /// The error that a VM of this name has files and no definition, if that is so.
    fn undefined(&self) -> Option<Error> {
        let is_there = self.has_directory() || self.has_kept_memory();
        is_there.then(|| Error::Undefined {
            name: self.name.clone(),
            path: self.file(),
        })
    }

    /// Checks that there is nothing of a VM of this name, whose definition may be away.
    ///
    /// # Errors
    /// If there is.
    pub fn must_be_new(&self) -> Result<(), Error> {
        if self.file().symlink_metadata().is_ok() {
            return Err(self.exists());
        }
        self.undefined().map_or(Ok(()), Err)
    }

    /// Options of `brisk run` that give the VM of a definition.
    ///
    /// # Errors
    /// If the definition is wrong.
    pub fn options(&self, definition: &Definition) -> Result<Options, Error> {
        definition.options().map_err(|source| self.wrong(source))
    }

    /// A definition of this VM from the text of a file, checked.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn parse(&self, text: &str) -> Result<Definition, Error> {
        Definition::parse(text).map_err(|source| self.wrong(source))
    }

    /// Writes a definition atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn define(&self, definition: &Definition, only_new: bool) -> Result<(), Error> {
        let text = definition.text().map_err(|source| self.wrong(source))?;
        self.define_text(&text, only_new)
    }

    /// Writes the text of a definition atomically. A file that is there keeps its owner and mode,
    /// and the links that lead to it.
    ///
    /// # Errors
    /// If it is wrong, or cannot be written.
    pub fn define_text(&self, text: &str, only_new: bool) -> Result<(), Error> {
        let path = self.file();
        if only_new && path.exists() {
            return Err(self.exists());
        }
        // What is written must be what is read.
        self.parse(text)?;
        make_dir(&self.dirs.config, 0o755)?;
        match files::replace_keeping(&path, text.as_bytes(), 0o600, Durability::Durable, only_new) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(self.exists()),
            written => written.map_err(file("write", &path)),
        }
    }

    /// Name of another VM whose image would be the same file.
    #[must_use]
    pub fn shares_image_with(&self, definition: &Definition) -> Option<String> {
        let image = self.image(definition);
        let others = self.dirs.names().into_iter();
        let homes = others.filter(|name| *name != self.name);
        let mut homes = homes.filter_map(|name| self.dirs.vm(&name).ok());
        let other = homes.find(|other| {
            let theirs = other
                .definition()
                .map(|definition| other.image(&definition));
            theirs.is_ok_and(|theirs| theirs == image)
        });
        other.map(|other| other.name)
    }

    /// An error of its definition.
    pub(super) fn wrong(&self, source: DefinitionError) -> Error {
        Error::Definition {
            path: self.file(),
            source,
        }
    }

    /// The error that there is such a VM already.
    pub(super) fn exists(&self) -> Error {
        Error::Exists {
            name: self.name.clone(),
        }
    }

    /// Makes the directory of a VM of which there is nothing, for this process alone.
    ///
    /// # Errors
    /// If there is something of it, or it cannot be made.
    pub(super) fn make_new(&self) -> Result<(), Error> {
        self.must_be_new()?;
        make_dir(&self.dirs.state, 0o700)?;
        let state = self.state();
        match DirBuilder::new().mode(0o700).create(&state) {
            // Another command was quicker.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => self.must_be_new(),
            other => other.map_err(file("make", &state)),
        }
    }

    /// Makes the directories of a VM that is to run.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        make_dir(&self.state(), 0o700)?;
        make_dir(&self.runtime(), 0o700)
    }

    /// Copies a file into the VM's directory, so that the original may be removed.
    pub(super) fn keep(&self, name: &str, from: &Path) -> Result<PathBuf, Error> {
        let to = self.state().join(name);
        let _ = fs::remove_file(&to);
        let kept = fs::hard_link(from, &to).or_else(|_| fs::copy(from, &to).map(drop));
        kept.map_err(file("keep a copy of", from))?;
        Ok(to)
    }

    /// Syncs the copies of [`Self::keep`], without which an image cannot be resumed.
    pub(super) fn sync_kept(&self, machine: &VmConfig) -> Result<(), Error> {
        let sync = |path: &Path| {
            let synced = File::open(path).and_then(|file| file.sync_all());
            synced.map_err(file("write", path))
        };
        sync(&machine.boot.kernel)?;
        sync(&machine.boot.initramfs)?;
        sync(&self.state())
    }

    /// Appends a line to the VM's log.
    pub fn note(&self, text: &str) {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let line = format!("{now} {text}\n");
        // A log that cannot be written must not keep a VM from being saved.
        let _ = files::append(&self.log()).and_then(|mut log| log.write_all(line.as_bytes()));
    }

    /// Records in the log which command begins, and for whom.
    pub(super) fn processing(&self, command: &str, with: &str) {
        let with = if with.is_empty() {
            String::new()
        } else {
            format!(" {with}")
        };
        let user = rustix::process::getuid().as_raw();
        let process = std::process::id();
        self.note(&format!(
            "Processing command {command}{with}, for user {user}, process {process}"
        ));
    }
}

pub(super) fn make_dir(path: &Path, mode: u32) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(file("make", path))
}
