//! Small file systems, and disks that break. Only root mounts them.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brisk_sys::Sharing;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create, statvfs};

use crate::program::{capture, tool};

/// A file system that is there until this is dropped.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// A tmpfs on a new directory; `size` as of mount(8): `size=8m`.
    #[must_use]
    pub fn tmpfs(path: PathBuf, size: &str) -> Self {
        let options = format!("{size},mode=755");
        Self::new(path, &["-t", "tmpfs", "-o", &options, "tmpfs"])
    }

    /// An ext4 file system of so many bytes on a new directory, on a disk of that name with `.disk`.
    /// A piece of data takes 64 KiB of it at least, so that a file with many holes can take much
    /// more than its data.
    #[must_use]
    pub fn coarse(path: PathBuf, size: u64) -> Self {
        let words = ["-q", "-F", "-O", "bigalloc", "-C", "65536"];
        Self::on_disk(path, size, "mkfs.ext4", &words)
    }

    /// A btrfs file system of so many bytes, at least 110 MiB, on a new directory, on a disk of that
    /// name with `.disk`: files can share blocks there.
    #[must_use]
    pub fn sharing(path: PathBuf, size: u64) -> Self {
        Self::on_disk(path, size, "mkfs.btrfs", &["-q"])
    }

    /// A block device on a new directory.
    #[must_use]
    pub fn of(path: PathBuf, device: &str) -> Self {
        Self::new(path, &[device])
    }

    fn on_disk(path: PathBuf, size: u64, mkfs: &str, words: &[&str]) -> Self {
        let disk = path.with_extension("disk");
        File::create_new(&disk).unwrap().set_len(size).unwrap();
        let name = disk.to_str().unwrap();
        capture(&tool(mkfs), &[words, &[name]].concat());
        Self::new(path, &["-o", "loop", name])
    }

    fn new(path: PathBuf, words: &[&str]) -> Self {
        fs::create_dir(&path).unwrap();
        let words = [words, &[path.to_str().unwrap()]].concat();
        capture(&tool("mount"), &words);
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// An ext4 file system of so many bytes on a new directory, on a disk of that name with `.disk`,
    /// which becomes read-only when it [fails](Self::fail).
    #[must_use]
    pub fn failing(path: PathBuf, size: u64) -> Self {
        let words = ["-q", "-F", "-e", "remount-ro"];
        Self::on_disk(path, size, "mkfs.ext4", &words)
    }

    /// Has an ext4 file system fail, as by an error of its disk (ext4(5), `abort`).
    pub fn fail(&self) {
        let words = ["-o", "remount,abort", self.0.to_str().unwrap()];
        capture(&tool("mount"), &words);
    }

    /// Bytes that are free in it.
    #[must_use]
    pub fn free(&self) -> u64 {
        let stat = statvfs(&self.0).unwrap();
        stat.f_bavail * stat.f_frsize
    }

    /// Names of the files in it, and of the directories.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let list = fs::read_dir(&self.0).unwrap();
        let names = list.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Takes all of its room but so many bytes, in a file of this name.
    pub fn fill(&self, name: &str, but: u64) {
        let file = File::create(self.0.join(name)).unwrap();
        let block = vec![1; 1 << 16];
        let mut at = 0;
        while self.free() >= but + block.len() as u64 {
            // Somebody else may be writing, too.
            match file.write_at(&block, at) {
                Ok(count) => at += count as u64,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        capture(&tool("umount"), &["-l", self.0.to_str().unwrap()]);
    }
}

/// A block device whose blocks are those of a file, until this is dropped.
#[derive(Debug)]
pub struct Loop(String);

impl Loop {
    /// Of an image.
    #[must_use]
    pub fn new(image: &Path) -> Self {
        let words = ["--find", "--show", image.to_str().unwrap()];
        let output = capture(&tool("losetup"), &words);
        Self(output.trim().to_owned())
    }

    /// Its node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        capture(&tool("losetup"), &["--detach", &self.0]);
    }
}

/// A disk image that another process has locked for itself alone, as QEMU and qemu-img do, until
/// this is dropped.
#[derive(Debug)]
pub struct Taken {
    _locked: File,
}

impl Taken {
    /// Locked from now on.
    ///
    /// # Panics
    /// If somebody has locked it already.
    #[must_use]
    #[track_caller]
    pub fn new(image: &Path) -> Self {
        Self::try_new(image).unwrap()
    }

    /// With the lock of who writes to it, as anybody can take who may read it.
    ///
    /// # Panics
    /// If it cannot be taken.
    #[must_use]
    #[track_caller]
    pub fn by_a_reader(image: &Path) -> Self {
        // `RAW_LOCK_PERM_BASE` of QEMU, and the bit of `BLK_PERM_WRITE`.
        let file = File::open(image).unwrap();
        assert!(brisk_sys::try_lock_byte(&file, 101, Sharing::Shared).unwrap());
        Self { _locked: file }
    }

    /// Locked from now on; none if somebody has locked it already.
    #[must_use]
    pub fn try_new(image: &Path) -> Option<Self> {
        let file = File::options().read(true).write(true).open(image).unwrap();
        brisk_sys::try_lock(&file, Sharing::Exclusive)
            .unwrap()
            .then_some(Self { _locked: file })
    }
}

/// A disk with an ext4 file system that can break: each access to it is an I/O error then.
#[derive(Debug)]
pub struct Breaking {
    /// The file system. First, so that it goes before its disk.
    pub mount: Mount,
    memory: File,
    size: u64,
}

impl Breaking {
    /// A disk of so many bytes, mounted on a new directory.
    #[must_use]
    pub fn new(path: PathBuf, size: u64) -> Self {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory: OwnedFd = memfd_create("breaking", flags).unwrap();
        let memory = File::from(memory);
        memory.set_len(size).unwrap();
        let name = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
        // Without a journal, whose abort would make it read-only before the error is seen.
        let words = ["-q", "-F", "-O", "^has_journal", &name];
        capture(&tool("mkfs.ext4"), &words);
        Self {
            mount: Mount::new(path, &["-o", "loop", &name]),
            memory,
            size,
        }
    }

    /// Nothing can be written to it any more: the seal lets the loop device fail.
    pub fn refuse_writes(&self) {
        fcntl_add_seals(&self.memory, SealFlags::WRITE).unwrap();
    }

    /// Nothing behind its first `bytes` can be read, while the value lives.
    #[must_use]
    pub fn cut(&self, bytes: u64) -> Cut<'_> {
        let mut behind = vec![0; (self.size - bytes) as usize];
        self.memory.read_exact_at(&mut behind, bytes).unwrap();
        self.memory.set_len(bytes).unwrap();
        Cut {
            disk: self,
            at: bytes,
            behind,
        }
    }
}

/// The part of a disk that cannot be read. It can when this is dropped.
#[derive(Debug)]
pub struct Cut<'a> {
    disk: &'a Breaking,
    at: u64,
    behind: Vec<u8>,
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.disk.memory.set_len(self.disk.size).unwrap();
        let memory = &self.disk.memory;
        memory.write_all_at(&self.behind, self.at).unwrap();
    }
}
