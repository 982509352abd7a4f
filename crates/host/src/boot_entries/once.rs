//! Choices for the boot loader's next run alone, which it takes back as it runs: a restart that leaves
//! the boot loader out has to take them back itself, or a later boot is started by them.
//!
//! GRUB writes its environment block in place (`save_env` in `grub-core/commands/loadenv.c`). So is it
//! written here, and not by grub-editenv, which cuts the file off before it writes it: the block may
//! have the command line of all kernels, and GRUB reads no journals. systemd-boot deletes an EFI
//! variable (`efivar_unset` in `src/boot/boot.c`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, StatVfsMountFlags, ioctl_getflags, ioctl_setflags, statvfs, syncfs};
use serde::{Deserialize, Serialize};

use super::environment;
use crate::tree::Tree;

/// Bytes of an environment block at most; GRUB makes one of 1024.
const LONGEST_BLOCK: u64 = 64 << 10;

/// A choice for the boot loader's next run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Once {
    /// Variables of GRUB's environment block, as GRUB changes them.
    Environment {
        /// The block, a path of the system.
        file: PathBuf,
        /// Its variables.
        changes: Vec<Change>,
    },
    /// An EFI variable, which the boot loader deletes.
    Variable {
        /// Its file, a path of the system.
        file: PathBuf,
        /// Attributes, and the value.
        content: Vec<u8>,
    },
}

/// A variable that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Name.
    pub name: String,
    /// Value that chooses; empty is none.
    pub before: String,
    /// Value after it.
    pub after: String,
}

/// Reason why a choice was not taken back, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// It was changed meanwhile.
    #[error("{} was changed meanwhile, as by grub-reboot or bootctl", .0.display())]
    Changed(PathBuf),
    /// It is no environment block, or has no room.
    #[error("{}: {reason}", path.display())]
    Block {
        /// The block.
        path: PathBuf,
        /// Its defect.
        reason: &'static str,
    },
    /// The system refused.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Once {
    /// For people: what it is, and where.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Environment { file, changes } => {
                let names: Vec<_> = changes.iter().map(|it| &*it.name).collect();
                format!("{} in {}", names.join(" and "), file.display())
            }
            Self::Variable { file, .. } => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let name = name.split('-').next().unwrap_or_default();
                format!("the EFI variable {name}")
            }
        }
    }

    /// Why root could not take it back, as far as that is known before; nothing is changed.
    #[must_use]
    pub fn obstacle(&self, root: &Path) -> Option<String> {
        let path = Tree::new(root).host(self.file())?;
        let refused = match self {
            Self::Environment { .. } => OpenOptions::new().write(true).open(&path).err(),
            Self::Variable { .. } => {
                let flags = statvfs(&path).map(|it| it.f_flag);
                let is_read_only = flags.is_ok_and(|it| it.contains(StatVfsMountFlags::RDONLY));
                is_read_only
                    .then(|| io::Error::from_raw_os_error(rustix::io::Errno::ROFS.raw_os_error()))
            }
        };
        // Another user than root is told nothing by that.
        let refused = refused
            .filter(|it| it.raw_os_error() != Some(rustix::io::Errno::ACCESS.raw_os_error()));
        refused.map(|error| format!("{} cannot be written: {error}", self.file().display()))
    }

    /// Takes it back as the boot loader does, on the disk.
    ///
    /// # Errors
    /// If it was changed or taken back meanwhile, or cannot be written.
    pub fn consume(&self, root: &Path) -> Result<(), OnceError> {
        let path = self.path(root)?;
        match self {
            Self::Environment { changes, .. } => {
                let turn = |it: &Change| (it.before.clone(), it.after.clone());
                write(&path, changes, turn, true)
            }
            Self::Variable { content, .. } => match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(OnceError::Changed(path))
                }
                Ok(found) if found != *content => Err(OnceError::Changed(path)),
                read => read.and_then(|_| delete(&path)).map_err(of(&path)),
            },
        }
    }

    /// Restores what [`Self::consume`] took back, unless somebody has chosen again meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn restore(&self, root: &Path) -> Result<(), OnceError> {
        let path = self.path(root)?;
        match self {
            Self::Environment { changes, .. } => {
                let turn = |it: &Change| (it.after.clone(), it.before.clone());
                write(&path, changes, turn, false)
            }
            Self::Variable { content, .. } => {
                let made = OpenOptions::new().write(true).create_new(true).open(&path);
                match made {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    // One call: efivarfs takes a variable whole.
                    made => made
                        .and_then(|mut file| file.write_all(content))
                        .map_err(of(&path)),
                }
            }
        }
    }

    fn file(&self) -> &Path {
        match self {
            Self::Environment { file, .. } | Self::Variable { file, .. } => file,
        }
    }

    fn path(&self, root: &Path) -> Result<PathBuf, OnceError> {
        let path = Tree::new(root).host(self.file());
        path.ok_or_else(|| of(self.file())(rustix::io::Errno::LOOP.into()))
    }
}

fn of(path: &Path) -> impl FnOnce(io::Error) -> OnceError + use<> {
    let path = path.to_owned();
    |source| OnceError::Write { path, source }
}

/// Gives variables of a block the second of two values if they have the first one. One that has
/// neither is an error if it `must` have one of them, and stays as it is.
fn write(
    path: &Path,
    changes: &[Change],
    turn: impl Fn(&Change) -> (String, String),
    must: bool,
) -> Result<(), OnceError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(of(path))?;
    let mut block = Vec::new();
    (&file)
        .take(LONGEST_BLOCK)
        .read_to_end(&mut block)
        .map_err(of(path))?;
    let malformed = |reason| OnceError::Block {
        path: path.to_owned(),
        reason,
    };
    // An empty one is being written by another program.
    if !environment::is_block(&block) {
        return Err(malformed("it is no environment block of GRUB"));
    }
    let mut is_changed = false;
    for change in changes {
        let (from, to) = turn(change);
        let text = String::from_utf8_lossy(&block);
        let variables = environment::variables(&text);
        let found = variables
            .iter()
            .rev()
            .find(|(name, _)| *name == change.name);
        match found.map_or("", |(_, value)| value) {
            value if value == from => {
                block = environment::with(&block, &change.name, &to).map_err(malformed)?;
                is_changed = true;
            }
            _ if must => return Err(OnceError::Changed(path.to_owned())),
            _ => {}
        }
    }
    if !is_changed {
        return Ok(());
    }
    let written = file.write_all_at(&block, 0).and_then(|()| file.sync_all());
    written.map_err(of(path))?;
    // fsync(2) of a file system may only write its log, which GRUB does not read, as that of Btrfs.
    syncfs(&file).map_err(|error| of(path)(error.into()))
}

/// Deletes an EFI variable, whose file the kernel protects from that
/// (`Documentation/filesystems/efivarfs.rst`).
fn delete(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    if let Ok(flags) = ioctl_getflags(&file) {
        if flags.contains(IFlags::IMMUTABLE) {
            ioctl_setflags(&file, flags - IFlags::IMMUTABLE)?;
        }
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn block(lines: &str) -> String {
        format!("{:#<1024}", format!("# GRUB Environment Block\n{lines}"))
    }

    fn once() -> Once {
        let change = |name: &str, before: &str, after: &str| Change {
            name: name.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        Once::Environment {
            file: "/boot/grub/grubenv".into(),
            changes: vec![change("next_entry", "1>2", "")],
        }
    }

    #[test]
    fn a_block_is_written_in_place_and_restored() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("boot/efi/EFI/debian/grubenv");
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::create_dir_all(root.path().join("boot/grub")).unwrap();
        let before = block("saved_entry=a\\\\b\nnext_entry=1>2\nkernelopts=root=/dev/x \n");
        fs::write(&real, &before).unwrap();
        // As Fedora has it.
        symlink(
            "/boot/efi/EFI/debian/grubenv",
            root.path().join("boot/grub/grubenv"),
        )
        .unwrap();
        let inode = fs::metadata(&real).unwrap().ino();
        let once = once();
        assert_eq!(once.obstacle(root.path()), None);
        once.consume(root.path()).unwrap();
        let after = block("saved_entry=a\\\\b\nnext_entry=\nkernelopts=root=/dev/x \n");
        assert_eq!(fs::read_to_string(&real).unwrap(), after);
        for _ in 0..2 {
            once.restore(root.path()).unwrap();
            assert_eq!(fs::read_to_string(&real).unwrap(), before);
        }
        assert_eq!(fs::metadata(&real).unwrap().ino(), inode);
    }

    #[test]
    fn what_somebody_else_chose_meanwhile_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("boot/grub/grubenv");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let other = block("next_entry=7\n");
        fs::write(&path, &other).unwrap();
        let once = once();
        let error = once.consume(root.path()).unwrap_err();
        assert!(matches!(error, OnceError::Changed(_)), "{error}");
        once.restore(root.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), other);
        fs::write(&path, "saved_entry=0\n").unwrap();
        assert!(matches!(
            once.consume(root.path()),
            Err(OnceError::Block { .. })
        ));
        fs::remove_file(&path).unwrap();
        assert!(matches!(
            once.consume(root.path()),
            Err(OnceError::Write { .. })
        ));
        assert!(
            once.obstacle(root.path())
                .unwrap()
                .starts_with("/boot/grub/grubenv cannot be")
        );
    }

    #[test]
    fn a_variable_is_deleted_and_made_again() {
        let root = tempfile::tempdir().unwrap();
        let file =
            "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
        let path = root.path().join(&file[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = b"\x07\0\0\0a\0\0\0".to_vec();
        fs::write(&path, &content).unwrap();
        let once = Once::Variable {
            file: file.into(),
            content: content.clone(),
        };
        assert_eq!(once.describe(), "the EFI variable LoaderEntryOneShot");
        once.consume(root.path()).unwrap();
        assert!(!path.exists());
        assert!(once.consume(root.path()).is_err());
        for _ in 0..2 {
            once.restore(root.path()).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        fs::write(&path, b"\x07\0\0\0b\0\0\0").unwrap();
        assert!(matches!(
            once.consume(root.path()),
            Err(OnceError::Changed(_))
        ));
        once.restore(root.path()).unwrap();
        assert_ne!(fs::read(&path).unwrap(), content);
    }
}
