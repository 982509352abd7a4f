//! The file of a guest's memory in an area, and its names.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use brisk_host::files;
use brisk_image::{Control, Header, Image, Kept, digest};
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::super::definition::Definition;
use super::super::error::{self, Error};
use super::super::memory::Fresh;
use super::super::paths::VmPaths;
use super::again;
use super::area::Area;
use crate::reboot::config::Config;
use crate::reboot::restart::Boot;

/// Digits at the end of the name of memory that is kept: those of an image's identity.
const DIGITS: usize = 32;

/// Why memory that was kept cannot be used.
#[derive(Debug)]
pub(in crate::vm) enum Loss {
    /// The memory is not there, or not what it was.
    Lost(String),
    /// The user cancelled.
    Cancelled,
}

impl VmPaths {
    /// The area that the memory of this VM is in, if its definition wants that.
    ///
    /// # Errors
    /// Reason why there is none.
    pub(in crate::vm) fn area(&self, definition: &Definition) -> Result<Option<Area>, String> {
        if !definition.keep_memory {
            return Ok(None);
        }
        let config = Config::read(&self.configuration()).map_err(|error| error.to_string())?;
        match config.vms.keep {
            Some(directory) => Area::open(&directory).map(Some),
            None => Err("reboot.toml has no keep in its section [vms]".to_owned()),
        }
    }

    /// Makes memory in the area, if the definition wants that and it is possible.
    pub(in crate::vm) fn make_memory_in_area(
        &self,
        bytes: u64,
        definition: &Definition,
    ) -> Option<Fresh> {
        let made = match self.area(definition) {
            Ok(None) => return None,
            Ok(Some(area)) => self
                .make_in(&area, bytes)
                .map_err(|error| format!("{}: {error}", area.directory.display())),
            Err(reason) => Err(reason),
        };
        match made {
            Ok(file) => Some(Fresh::of(file)),
            Err(reason) => {
                self.note_outside(&reason);
                None
            }
        }
    }

    fn make_in(&self, area: &Area, bytes: u64) -> io::Result<File> {
        if area.close()? {
            let directory = area.directory.display();
            self.note(&format!("{directory} is closed to others than root"));
        }
        make(&area.directory.join(self.memory_name()), bytes)
    }

    /// Notes why the memory is not in the area that it should be in.
    pub(in crate::vm) fn note_outside(&self, reason: &str) {
        self.note(&format!("Its memory cannot be kept in RAM: {reason}"));
    }

    /// Notes why memory that was kept is not used, but that of the image, which has it, too.
    pub(in crate::vm) fn note_unused(&self, reason: &str) {
        self.note(&format!(
            "The memory that was kept in RAM is not used, but the image's: {reason}"
        ));
    }

    /// Removes the memory from the area that this VM had while it ran; none that is kept.
    pub(in crate::vm) fn forget_running_memory(&self) {
        if let Some(directory) = self.directory_of_area() {
            let _ = fs::remove_file(directory.join(self.memory_name()));
        }
    }

    /// Removes all memory of this VM from its area, also what is kept: nothing needs it.
    pub(in crate::vm) fn forget_memory(&self) {
        if let Some(directory) = self.directory_of_area() {
            remove(&directory, &self.memory_name(), None);
        }
    }

    /// Whether memory of a suspended VM of this name is in the area.
    pub(in crate::vm) fn has_kept_memory(&self) -> bool {
        let files = self.directory_of_area().map(fs::read_dir);
        let mut files = files.and_then(Result::ok).into_iter().flatten().flatten();
        let name = self.memory_name();
        files.any(|entry| {
            let file = entry.file_name();
            file.to_str()
                .is_some_and(|file| file != name && is_of(file, &name))
        })
    }

    fn directory_of_area(&self) -> Option<PathBuf> {
        Config::read(&self.configuration()).ok()?.vms.keep
    }
}

/// A file of `bytes`, all of them allocated: a guest whose memory cannot be found when it touches it
/// is killed.
fn make(path: &Path, bytes: u64) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    let allocated = fallocate(&file, FallocateFlags::empty(), 0, bytes);
    if let Err(error) = allocated {
        let _ = fs::remove_file(path);
        return Err(error.into());
    }
    Ok(file)
}

/// Removes files with the memory of a VM, except one.
fn remove(directory: &Path, name: &str, except: Option<&Path>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let is_own = file.to_str().is_some_and(|file| is_of(file, name));
        if is_own && except != Some(&*entry.path()) {
            // It takes room until the host is restarted.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a file has memory of the VM whose memory has this name while it runs.
fn is_of(file: &str, name: &str) -> bool {
    match file.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }),
        None => false,
    }
}

/// Threads that hash memory.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn kept_name(name: &str, image: &[u8; 16]) -> String {
    let digits: String = image.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}.{digits}")
}

impl Area {
    /// Whether the memory of a guest is in this area.
    ///
    /// # Errors
    /// If not.
    pub(in crate::vm) fn has(&self, memory: &File) -> Result<(), String> {
        match self.path_of(memory) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "it is not in {}, but will be from the next start or resume on",
                self.directory.display()
            )),
        }
    }

    /// Path of a file in this area.
    fn path_of(&self, memory: &File) -> io::Result<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        let (own, found) = (memory.metadata()?, fs::symlink_metadata(&path)?);
        let is_same = (own.dev(), own.ino()) == (found.dev(), found.ino());
        match is_same && path.parent() == Some(&*self.directory) {
            true => Ok(path),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Memory that is about to be kept; it gets back its name of before when this is dropped.
#[derive(Debug)]
pub(in crate::vm) struct Keeping {
    before: PathBuf,
    now: PathBuf,
    /// Its place and content.
    pub(in crate::vm) kept: Kept,
    stays: bool,
}

impl Keeping {
    /// Keeps the memory of a guest that stands still, for an image of this identity.
    ///
    /// # Errors
    /// Reason why that is not possible.
    pub(in crate::vm) fn begin(
        paths: &VmPaths,
        area: &Area,
        memory: &File,
        image: &[u8; 16],
        control: Control<'_>,
    ) -> Result<Self, Error> {
        let before = area
            .path_of(memory)
            .map_err(error::file("find", "its memory"))?;
        let failed = || error::file("keep", before.clone());
        let size = memory.metadata().map_err(failed())?.len();
        let digest = digest(memory, &before, size, threads(), control)?;
        let now = area.directory.join(kept_name(&paths.memory_name(), image));
        memory.sync_all().map_err(failed())?;
        fs::rename(&before, &now).map_err(failed())?;
        let keeping = Self {
            before,
            kept: Kept {
                path: now.clone(),
                start: area.range.start,
                size: area.range.end - area.range.start,
                boot: Boot::read(Path::new("/")).id,
                digest,
            },
            now,
            stays: false,
        };
        files::sync_directory(&area.directory)
            .map_err(error::file("write", area.directory.clone()))?;
        Ok(keeping)
    }

    /// Lets it have its name, now that the image is durable, and removes what is left of others.
    pub(in crate::vm) fn stay(mut self, paths: &VmPaths) {
        self.stays = true;
        if let Some(directory) = self.now.parent() {
            remove(directory, &paths.memory_name(), Some(&self.now));
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.stays {
            // Its guest goes on with it whatever its name is.
            let _ = fs::rename(&self.now, &self.before);
        }
    }
}

/// Memory that was kept and is what it was.
#[derive(Debug)]
pub(in crate::vm) struct Found {
    file: File,
    path: PathBuf,
}

impl Found {
    /// The memory for a QEMU.
    pub(in crate::vm) fn memory(&self) -> io::Result<Fresh> {
        self.file.try_clone().map(Fresh::of)
    }

    /// Records what it is now that a QEMU which had it has ended, before its guest ran.
    pub(in crate::vm) fn note_again(&self, paths: &VmPaths, image: &Image) {
        note_again(paths, &self.file, &self.path, image.header());
    }

    /// Gives it the name that memory of a guest has which runs, so that no image finds it again.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(in crate::vm) fn runs(self, paths: &VmPaths) -> io::Result<()> {
        let name = paths.memory_name();
        let Some(directory) = self.path.parent() else {
            return Ok(());
        };
        let running = directory.join(&name);
        fs::rename(&self.path, &running)?;
        remove(directory, &name, Some(&running));
        files::sync_directory(directory)
    }
}

/// Records what memory that was kept for an image is now that the QEMU of a killed resume, which was
/// given it as it had been, has been ended before its guest ran.
pub(in crate::vm) fn note_kept_again(paths: &VmPaths, header: &Header) {
    let Some(directory) = paths.directory_of_area() else {
        return;
    };
    let path = directory.join(kept_name(&paths.memory_name(), &header.id));
    if let Ok(file) = files::open_regular(&path) {
        note_again(paths, &file, &path, header);
    }
}

fn note_again(paths: &VmPaths, file: &File, path: &Path, header: &Header) {
    let now = digest(file, path, header.memory, threads(), Control::none());
    let noted = now
        .map_err(|error| brisk_host::chain(&error))
        .and_then(|now| again::note(paths, &header.id, now).map_err(|error| error.to_string()));
    if let Err(reason) = noted {
        paths.note(&format!(
            "What its memory in RAM is now was not recorded, so that it may not be used: {reason}"
        ));
    }
}

/// The memory that was kept for an image; none if none was.
///
/// # Errors
/// If it cannot be used any more.
pub(in crate::vm) fn find(
    paths: &VmPaths,
    image: &Image,
    control: Control<'_>,
) -> Result<Option<Found>, Loss> {
    let now = Boot::read(Path::new("/"));
    find_in(&Area::open, &now, paths, image, control)
}

fn find_in(
    open: &dyn Fn(&Path) -> Result<Area, String>,
    now: &Boot,
    paths: &VmPaths,
    image: &Image,
    control: Control<'_>,
) -> Result<Option<Found>, Loss> {
    let Some(kept) = &image.head().kept else {
        return Ok(None);
    };
    let area = place(open, now, kept).map_err(Loss::Lost)?;
    let name = kept_name(&paths.memory_name(), &image.header().id);
    let again = again::digest_of(paths, &image.header().id);
    let is_known = |found| found == kept.digest || Some(found) == again;
    check(&area.directory.join(name), image, &is_known, control).map(Some)
}

/// Whether memory was kept for an image and may still be there, as far as that shows without a look
/// at it.
///
/// # Errors
/// Reason why it cannot be used any more.
pub(in crate::vm) fn may_be_found(image: &Image) -> Result<bool, String> {
    let Some(kept) = &image.head().kept else {
        return Ok(false);
    };
    place(&Area::open, &Boot::read(Path::new("/")), kept).map(|_| true)
}

/// The area that memory was kept in, if it may still be there.
fn place(
    open: &dyn Fn(&Path) -> Result<Area, String>,
    now: &Boot,
    kept: &Kept,
) -> Result<Area, String> {
    is_reachable(kept, now)?;
    let directory = kept.path.parent().unwrap_or(Path::new("/"));
    let area = open(directory)?;
    match area.range == (kept.start..kept.start.saturating_add(kept.size)) {
        true => Ok(area),
        false => Err(format!(
            "{} is in another place of the RAM",
            directory.display()
        )),
    }
}

/// Whether the RAM may still have what it had when the guest was suspended.
fn is_reachable(kept: &Kept, now: &Boot) -> Result<(), String> {
    // A kexec says so; several of them in a row keep the memory, too, which its digest shows.
    match kept.boot == now.id || now.is_kexec == Some(true) {
        true => Ok(()),
        false => Err("the host has been through its firmware since".to_owned()),
    }
}

/// Opens the memory, and looks at each byte.
fn check(
    path: &Path,
    image: &Image,
    is_known: &dyn Fn([u8; 32]) -> bool,
    control: Control<'_>,
) -> Result<Found, Loss> {
    let shown = path.display();
    let lost = |reason: String| Loss::Lost(format!("{shown}: {reason}"));
    let mut options = File::options();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let options = options.read(true).write(true).custom_flags(flags);
    let file = options
        .open(path)
        .map_err(|error| lost(error.to_string()))?;
    let meta = file.metadata().map_err(|error| lost(error.to_string()))?;
    let size = image.header().memory;
    if !meta.is_file() || meta.len() != size {
        return Err(lost(format!("it is no file of {size} bytes")));
    }
    match digest(&file, path, size, threads(), control) {
        Ok(found) if is_known(found) => Ok(Found {
            file,
            path: path.to_owned(),
        }),
        Ok(_) => Err(lost("it is not what it was".to_owned())),
        Err(brisk_image::Error::Cancelled) => Err(Loss::Cancelled),
        Err(error) => Err(lost(brisk_host::chain(&error))),
    }
}

impl Loss {
    /// The error of a VM whose memory was kept alone.
    pub(in crate::vm) fn error(self, paths: &VmPaths) -> Error {
        match self {
            Self::Cancelled => Error::Interrupted,
            Self::Lost(reason) => Error::state(
                &paths.name,
                format!("cannot use its memory, which was kept in RAM alone: {reason}"),
                "mount its area if only that is missing, and resume it again; if it is lost, brisk \
                 vm discard gives it up, and brisk vm start boots the VM from its disks",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
