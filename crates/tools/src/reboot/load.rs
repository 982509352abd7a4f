//! Loading of the kernel that a warm reboot starts. This is what changes the machine: nothing else
//! here does.

mod older;
mod refusal;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use brisk_host::{files, sysfs};
use brisk_sys::{kexec_file_load, kexec_file_unload};
use brisk_vm::kernel::{MAX_SIZE, Reason, Uki};
use rustix::fs::{MemfdFlags, memfd_create};

use super::target::Target;
pub use refusal::{Course, REFUSALS, Refusal};

/// Error of loading a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A unified kernel image is none.
    #[error("cannot use {} as a unified kernel image", path.display())]
    Uki {
        /// The image.
        path: PathBuf,
        /// The defect.
        source: Reason,
    },
    /// The command line has a NUL.
    #[error("the command line has a NUL byte; remove it")]
    CommandLine,
    /// Files cannot be put together in memory.
    #[error("cannot put the initial RAM disks together in memory; free some")]
    Memory(#[source] io::Error),
    /// An image is loaded that this process did not load.
    #[error(
        "a kernel is loaded already, by another program; unload it with kexec --unload, or start it \
         with systemctl kexec"
    )]
    Occupied,
    /// The kernel refuses, by the newer call, or for want of memory by the older one.
    #[error("the running kernel does not load it: {0}")]
    Refused(Refusal),
    /// Neither call loads it.
    #[error(
        "kexec_file_load failed: {refusal}; the older kexec_load is made by kexec of kexec-tools"
    )]
    Older {
        /// Error of the newer call.
        refusal: Refusal,
        /// Error of kexec.
        source: brisk_host::program::Error,
    },
    /// What was loaded cannot be unloaded again.
    #[error(
        "the kernel that was loaded cannot be unloaded: {refusal}; the next reboot may start it: \
         unload it with kexec --unload"
    )]
    Stays {
        /// Error of the newer call.
        refusal: Refusal,
        /// Error of kexec, if the older call failed, too.
        source: Option<brisk_host::program::Error>,
    },
}

/// A call that loads kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// kexec_file_load(2).
    Newer,
    /// kexec_load(2), as the newer call has refused.
    Older(Refusal),
}

/// What kexec_file_load(2) is given, open.
#[derive(Debug)]
pub struct Loadable {
    kernel: File,
    initrd: Option<File>,
    cmdline: CString,
}

impl Loadable {
    /// Opens the files of a target, takes a unified kernel image apart, and puts several initial
    /// RAM disks together in memory.
    ///
    /// # Errors
    /// If a file cannot be read, or is not what the target says it is.
    pub fn open(target: &Target) -> Result<Self, LoadError> {
        let cmdline = CString::new(&*target.cmdline).map_err(|_| LoadError::CommandLine)?;
        let (kernel, own) = match target.is_uki {
            true => parts(&target.kernel)?,
            false => (open(&target.kernel)?, None),
        };
        let files = target.initrds.iter().map(|path| Ok((open(path)?, &**path)));
        let mut files = files.collect::<Result<Vec<_>, LoadError>>()?;
        if let Some(own) = own {
            files.insert(0, (own, &target.kernel));
        }
        let initrd = match files.len() {
            0 | 1 => files.pop().map(|(file, _)| file),
            _ => Some(joined(files)?),
        };
        Ok(Self {
            kernel,
            initrd,
            cmdline,
        })
    }

    /// The kernel, and what it gets as its initial RAM disk.
    #[must_use]
    pub fn into_files(self) -> (File, Option<File>) {
        (self.kernel, self.initrd)
    }

    /// Loads it, if nothing is loaded. What another program loads between the look and the call is
    /// replaced: the kernel has no call that would not.
    ///
    /// # Errors
    /// [`LoadError::Occupied`] or [`LoadError::Refused`].
    pub fn load(&self) -> Result<(), LoadError> {
        if is_loaded(Path::new("/")) == Some(true) {
            return Err(LoadError::Occupied);
        }
        kexec_file_load(&self.kernel, self.initrd.as_ref(), &self.cmdline)
            .map_err(|error| LoadError::Refused(Refusal::of(&error)))
    }

    /// Loads it by [`Self::load`], and where that says that it cannot, but refuses nothing, by the
    /// older call, if that may be used.
    ///
    /// # Errors
    /// As of [`Self::load`]; [`LoadError::Older`] if the older call fails, too.
    pub fn load_by_either_call(&self, may_use_older: bool) -> Result<Call, LoadError> {
        match self.load() {
            Err(LoadError::Refused(refusal))
                if may_use_older && refusal.course() == Course::OlderCall =>
            {
                older::load(self, refusal).map(|()| Call::Older(refusal))
            }
            result => result.map(|()| Call::Newer),
        }
    }

    /// Loads it, and unloads it again. A caller keeps signals from ending the process meanwhile, such
    /// as by an [`Interrupt`](brisk_host::interrupt::Interrupt): what stays loaded is what some versions
    /// of systemd start at the next reboot.
    ///
    /// # Errors
    /// As of [`Self::load_by_either_call`] and [`unload`].
    pub fn try_load(&self, may_use_older: bool) -> Result<Call, LoadError> {
        let call = self.load_by_either_call(may_use_older)?;
        unload().map(|()| call)
    }
}

/// Whether a kernel is loaded for kexec; none where the kernel does not say so.
///
/// `/sys/kernel/kexec/loaded` is the newer name of `/sys/kernel/kexec_loaded`
/// (`Documentation/ABI/testing/sysfs-kernel-kexec-kdump`).
#[must_use]
pub fn is_loaded(root: &Path) -> Option<bool> {
    let paths = ["kernel/kexec/loaded", "kernel/kexec_loaded"];
    let text = paths.iter().find_map(|path| sysfs::line(root, path))?;
    Some(text != "0")
}

/// Unloads what was loaded, by the older call where the kernel has no other.
///
/// # Errors
/// [`LoadError::Stays`].
pub fn unload() -> Result<(), LoadError> {
    let Err(error) = kexec_file_unload() else {
        return Ok(());
    };
    let refusal = Refusal::of(&error);
    match refusal.course() {
        Course::OlderCall => older::unload(refusal),
        _ => Err(LoadError::Stays {
            refusal,
            source: None,
        }),
    }
}

fn open(path: &Path) -> Result<File, LoadError> {
    files::open_regular(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Kernel and initial RAM disk of a unified kernel image, each in a file in memory.
fn parts(path: &Path) -> Result<(File, Option<File>), LoadError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(MAX_SIZE as u64).read_to_end(&mut bytes);
    read.map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let uki = Uki::parse(&bytes).map_err(|source| LoadError::Uki {
        path: path.to_owned(),
        source,
    })?;
    let file = |name, bytes| files::in_memory(name, bytes).map_err(LoadError::Memory);
    let initrd = uki.initrd.map(|bytes| file("initrd", bytes)).transpose()?;
    Ok((file("kernel", uki.linux)?, initrd))
}

/// Files one after the other in a file in memory. Each begins at a multiple of 4, as archives that
/// are not compressed do (`Documentation/driver-api/early-userspace/buffer-format.rst`).
fn joined(files: Vec<(File, &Path)>) -> Result<File, LoadError> {
    let created = memfd_create("initrd", MemfdFlags::CLOEXEC);
    let mut all = File::from(created.map_err(|error| LoadError::Memory(error.into()))?);
    let mut size = 0;
    for (mut file, path) in files {
        let padding = [0; 3];
        let gap = size % 4;
        let gap = if gap == 0 { 0 } else { 4 - gap as usize };
        all.write_all(&padding[..gap]).map_err(LoadError::Memory)?;
        let copied = io::copy(&mut file, &mut all).map_err(|source| LoadError::Read {
            path: path.to_owned(),
            source,
        })?;
        size += gap as u64 + copied;
    }
    all.rewind().map_err(LoadError::Memory)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path, initrds: &[(&str, &[u8])]) -> Target {
        std::fs::write(dir.join("kernel"), b"kernel").unwrap();
        let paths = initrds.iter().map(|(name, bytes)| {
            let path = dir.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        });
        Target {
            release: String::new(),
            kernel: dir.join("kernel"),
            initrds: paths.collect(),
            cmdline: "root=/dev/vda".to_owned(),
            is_uki: false,
        }
    }

    fn content(file: Option<File>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        file?.read_to_end(&mut bytes).unwrap();
        Some(bytes)
    }

    #[test]
    fn several_initial_ram_disks_become_one_of_aligned_parts() {
        let dir = tempfile::tempdir().unwrap();
        let none = Loadable::open(&target(dir.path(), &[])).unwrap();
        assert_eq!(content(none.initrd), None);
        let one = Loadable::open(&target(dir.path(), &[("a", b"12345")])).unwrap();
        assert_eq!(content(one.initrd).unwrap(), b"12345");
        let parts: [(&str, &[u8]); 4] = [("a", b"12345"), ("b", b"6789"), ("c", b""), ("d", b"x")];
        let several = Loadable::open(&target(dir.path(), &parts)).unwrap();
        assert_eq!(content(several.initrd).unwrap(), b"12345\0\0\x006789x");
        assert_eq!(several.cmdline.to_bytes(), b"root=/dev/vda");
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let good = target(dir.path(), &[("a", b"1")]);
        let mut missing = good.clone();
        missing.initrds.push("/nonexistent/initrd".into());
        let error = Loadable::open(&missing).unwrap_err().to_string();
        assert_eq!(error, "cannot read /nonexistent/initrd");
        let mut nul = good.clone();
        nul.cmdline.push('\0');
        assert!(matches!(Loadable::open(&nul), Err(LoadError::CommandLine)));
        let uki = Target {
            is_uki: true,
            ..good
        };
        assert!(matches!(Loadable::open(&uki), Err(LoadError::Uki { .. })));
    }
}
