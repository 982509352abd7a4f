//! The descriptors that QEMU inherits, and its command.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_host::program::Program;
use brisk_sys::Credentials;
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::memory::{self, Filling};
use super::tb_trace::TbTrace;
use super::user::User;
use super::{Error, Unprivileged, faults, inputs};
use crate::qemu::{Disk, Fds, Filesystem, Firmware, Ram, VmConfig, argv};
use crate::virtiofs::Access;

/// Descriptors and options that QEMU gets.
pub(super) struct Wiring {
    plan: VmConfig,
    /// User of QEMU, if it differs from brisk's.
    user: Option<User>,
    mappings: Vec<FdMapping>,
    /// File that is executed, if not the program by its name.
    program: Option<PathBuf>,
    /// Thread that fills the memory, if one does.
    pub(super) filling: Option<Filling>,
    /// Trace of the boot, if the boot is traced for TB pretranslation.
    pub(super) tb_trace: Option<TbTrace>,
}

pub(super) fn prepare(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Prepare { what, source }
}

pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<OwnedFd, Error> {
    let path = path.to_owned();
    match options.open(&path) {
        Ok(file) => Ok(file.into()),
        Err(source) => Err(Error::Open { path, source }),
    }
}

/// Most address space of a QEMU besides the guest's memory, bytes: half of it is room for
/// translations (`tcg_init_machine`), and all counts where all is locked.
const LOCKED_BESIDES: u64 = 3 << 30;

/// Whether QEMU may lock `needed` bytes: as a user that brisk makes it, or by the limit that it
/// inherits, which does not count for those with `CAP_IPC_LOCK` (mlock(2)).
fn may_lock(needed: u64) -> Result<(), Error> {
    let free = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::IPC_LOCK));
    let limit = getrlimit(Resource::Memlock);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match free || allowed >= needed && setrlimit(Resource::Memlock, raised).is_ok() {
        true => Ok(()),
        false => Err(Error::Locked {
            needed: needed >> 20,
            allowed: allowed >> 20,
        }),
    }
}

/// Opens a backing file by the path that was checked, in which there was no symbolic link: another
/// user who may write to a directory of it could have put one there since.
///
/// # Errors
/// If it cannot be opened, or there is a link.
pub fn open_backing(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let no_link = ResolveFlags::NO_SYMLINKS;
    match openat2(CWD, path, flags, Mode::empty(), no_link) {
        // Linux before 5.6, and filters of system calls that do not know it.
        Err(Errno::NOSYS | Errno::PERM) => {
            let flags = OFlags::NOFOLLOW.bits() as i32;
            open(path, File::options().read(true).custom_flags(flags))
        }
        opened => opened.map_err(|errno| Error::Open {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

/// Opens a disk. A block device that the guest writes to is reserved on this host (`O_EXCL` of
/// open(2)).
fn open_disk(disk: &Disk) -> Result<OwnedFd, Error> {
    let mut options = File::options();
    options.read(true).write(disk.writable);
    if disk.device && disk.writable {
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    match options.open(&disk.path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(Error::InUse {
            path: disk.path.clone(),
        }),
        Err(source) => Err(Error::Open {
            path: disk.path.clone(),
            source,
        }),
        Ok(file) => Ok(file.into()),
    }
}

/// Name of a descriptor in /proc: the cache may be where only its owner can go.
fn name(fd: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{fd}"))
}

impl Wiring {
    /// # Errors
    /// If there is no user for QEMU.
    pub(super) fn new(plan: &VmConfig, unprivileged: Option<Unprivileged>) -> Result<Self, Error> {
        let mut wiring = Self {
            plan: plan.clone(),
            user: unprivileged.map(User::take).transpose()?,
            mappings: Vec::new(),
            program: None,
            filling: None,
            tb_trace: None,
        };
        if let Some(lock) = wiring.user.as_mut().and_then(|user| user.lock.take()) {
            wiring.map(lock, Fds::USER);
        }
        Ok(wiring)
    }

    /// User of QEMU, if it differs from brisk's.
    pub(super) fn user(&self) -> Option<Unprivileged> {
        self.user.as_ref().map(|user| user.ids)
    }

    /// Makes a file with the guest's memory accessible to QEMU's user only.
    fn hand_to_user(&self, file: &OwnedFd) -> Result<(), Error> {
        match &self.user {
            Some(user) => user.own(file).map_err(prepare("memory")),
            None => Ok(()),
        }
    }

    /// Passes a descriptor to QEMU.
    pub(super) fn map(&mut self, parent_fd: OwnedFd, child_fd: i32) {
        self.mappings.push(FdMapping {
            parent_fd,
            child_fd,
        });
    }

    /// Passes one end of a new socket to QEMU; the result is the other end.
    pub(super) fn channel(&mut self, fd: i32) -> Result<UnixStream, Error> {
        let (ours, theirs) = UnixStream::pair().map_err(prepare("channels"))?;
        ours.set_nonblocking(true).map_err(prepare("channels"))?;
        self.map(theirs.into(), fd);
        Ok(ours)
    }

    /// Passes the files that the configuration names by path, and memory.
    pub(super) fn files(&mut self) -> Result<(), Error> {
        let reads = || File::options().read(true).clone();
        let bytes = self.plan.memory.mib << 20;
        // Read by others as well, and written by none.
        let template = match &self.plan.memory.ram {
            Ram::Template(path) | Ram::Copy(path) => Some(path.clone()),
            _ => None,
        };
        let ram = match &self.plan.memory.ram {
            Ram::Private => None,
            Ram::Shared => Some(memory::file(bytes).map_err(prepare("memory"))?),
            Ram::File(path) => Some(open(path, reads().write(true))?),
            Ram::Template(path) => {
                memory::head_start();
                Some(open(path, &mut reads())?)
            }
            Ram::Copy(path) => {
                let from = open(path, &mut reads())?;
                let copy = memory::copy(from, bytes, !self.crowded());
                let (file, filling) = copy.map_err(prepare("memory"))?;
                self.filling = Some(filling);
                Some(file)
            }
        };
        let is_template = matches!(self.plan.memory.ram, Ram::Template(_));
        if let Some(ram) = ram.as_ref().filter(|_| !is_template) {
            self.hand_to_user(ram)?;
        }
        if let (true, Some(ram)) = (self.plan.processors.traced, &ram) {
            let ram = ram.try_clone().map_err(prepare("memory"))?;
            let (tb_trace, trace) = TbTrace::of(ram).map_err(prepare("a trace"))?;
            self.hand_to_user(&trace)?;
            self.tb_trace = Some(tb_trace);
            self.map(trace, Fds::TRACE);
        }
        if let Some(pretranslator) = &self.plan.processors.pretranslator {
            let pretranslator = self.input(pretranslator)?;
            self.map(pretranslator, Fds::PRETRANSLATOR);
            self.plan.processors.pretranslator = Some(name(Fds::PRETRANSLATOR));
        }
        if let Some(ram) = ram {
            self.map(ram, Fds::RAM);
        }
        if let Some(state) = self.plan.state.clone() {
            let file = open(&state.path, &mut reads())?;
            if template != Some(state.path) {
                self.hand_to_user(&file)?;
            }
            self.map(file, Fds::STATE);
        }
        let mut backing_fds = Fds::BACKING..;
        for (fd, disk) in (Fds::DISKS..).zip(self.plan.devices.disks.clone()) {
            self.map(open_disk(&disk)?, fd);
            for (file, fd) in disk.backing.iter().zip(&mut backing_fds) {
                self.map(open_backing(&file.path)?, fd);
            }
        }
        let kernel = self.input(&self.plan.boot.kernel)?;
        self.map(kernel, Fds::KERNEL);
        self.plan.boot.kernel = name(Fds::KERNEL);
        let initramfs = self.input(&self.plan.boot.initramfs)?;
        self.map(initramfs, Fds::INITRAMFS);
        self.plan.boot.initramfs = name(Fds::INITRAMFS);
        self.roms()?;
        if self.user.is_some() && !inputs::is_executable(&self.plan.program) {
            let program = open(&self.plan.program, &mut reads())?;
            self.map(program, Fds::PROGRAM);
            self.program = Some(name(Fds::PROGRAM));
        }
        Ok(())
    }

    fn input(&self, path: &Path) -> Result<OwnedFd, Error> {
        inputs::open(path, self.user.as_ref())
    }

    /// Passes firmware and option ROMs that QEMU's user cannot read by their names.
    fn roms(&mut self) -> Result<(), Error> {
        if self.user.is_none() {
            return Ok(());
        }
        let mut fds = Fds::ROMS..128;
        if let Firmware::Qboot(path) = self.plan.firmware.clone() {
            if let Some(name) = self.rom(&path, &mut fds)? {
                self.plan.firmware = Firmware::Qboot(name);
            }
        }
        for at in 1..self.plan.extra.len() {
            let (option, value) = (&self.plan.extra[at - 1], &self.plan.extra[at]);
            let Some((range, path)) = inputs::rom(option, value) else {
                continue;
            };
            if let Some(name) = self.rom(&path, &mut fds)? {
                self.plan.extra[at].replace_range(range, &name.to_string_lossy());
            }
        }
        Ok(())
    }

    /// Name by which QEMU opens a file, if QEMU's user cannot use the file's own. A file that does
    /// not exist may be one of QEMU's own, which QEMU looks for in its directories.
    fn rom(&mut self, path: &Path, fds: &mut Range<i32>) -> Result<Option<PathBuf>, Error> {
        if !path.exists() || inputs::is_readable(path) {
            return Ok(None);
        }
        let file = self.input(path)?;
        Ok(fds.next().map(|fd| {
            self.map(file, fd);
            name(fd)
        }))
    }

    /// Whether a guest is restored from a template on a busy host: there are likely to be other
    /// such guests, and the memory that each of them takes matters more.
    const fn crowded(&self) -> bool {
        self.plan.state.is_some()
            && self.plan.processors.pretranslator.is_some()
            && !self.plan.processors.pretranslates
    }

    /// The command, without standard error.
    ///
    /// For a postcopy resume it gets the right to use userfaultfd, if that is possible; `cover` is
    /// then a directory that it cannot see.
    pub(super) fn command(self, cover: Option<&Path>) -> Result<Command, Error> {
        let unprivileged = self.user();
        let words = argv(&self.plan).into_iter().flat_map(|part| part.words);
        let program = self.program.as_ref().unwrap_or(&self.plan.program);
        let mut command = Program::at(program).args(words).command();
        command.arg0(&self.plan.program);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // A huge page for the translations of each processor is one too many for one that halts.
        if self.crowded() {
            brisk_sys::small_pages(&mut command);
        }
        if self.plan.memory.locked {
            let needed = (self.plan.memory.mib << 20) + LOCKED_BESIDES;
            may_lock(needed)?;
        }
        let granted = match (unprivileged, cover) {
            (Some(user), Some(cover)) if self.plan.memory.postcopy => {
                faults::grant(&mut command, user, cover, self.plan.memory.locked)
            }
            _ => false,
        };
        command
            .fd_mappings(self.mappings)
            .map_err(|error| Error::Start {
                program: self.plan.program.clone(),
                source: io::Error::other(error),
            })?;
        match unprivileged.filter(|_| !granted) {
            Some(Unprivileged { user, group }) if self.plan.memory.locked => {
                brisk_sys::as_user_that_locks(&mut command, Credentials { user, group });
            }
            Some(Unprivileged { user, group }) => {
                command.uid(user).gid(group);
            }
            None => {}
        }
        let is_written = |filesystem: &Filesystem| {
            matches!(
                filesystem,
                Filesystem::NineP {
                    access: Access::Writable,
                    ..
                }
            )
        };
        if self.plan.devices.filesystems.iter().any(is_written) {
            let refused = brisk_sys::refuse_set_id(&mut command, false);
            refused.map_err(prepare("a filter"))?;
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_backing_file_behind_a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("secret")).unwrap();
        std::fs::write(dir.join("secret/base"), "").unwrap();
        assert!(open_backing(&dir.join("secret/base")).is_ok());
        symlink(dir.join("secret"), dir.join("images")).unwrap();
        symlink(dir.join("secret/base"), dir.join("base")).unwrap();
        for name in ["images/base", "base"] {
            let error = open_backing(&dir.join(name)).unwrap_err();
            assert!(matches!(error, Error::Open { .. }), "{name}: {error}");
        }
    }
}
