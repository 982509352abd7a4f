//! Files that QEMU opens by name as it starts, where QEMU is another user than brisk.
//!
//! A name below `/proc/self/fd` leads to a file whatever directory that is in, but to open it the
//! user must have the permission to read it (proc(5)).

use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;

use super::Error;
use super::user::User;
use crate::qemu::cmdline;

/// Bits of a mode that let every user read a file, execute it, or pass through a directory.
const READ: u32 = 0o4;
const EXECUTE: u32 = 0o1;

fn grants(meta: &Metadata, bits: u32) -> bool {
    meta.mode() & bits == bits
}

/// Opens a file for reading, so that `user` can open the descriptor's name. A file that only others
/// may read is copied to memory of that user's own.
///
/// # Errors
/// If it cannot be read.
pub(super) fn open(path: &Path, user: Option<&User>) -> Result<OwnedFd, Error> {
    let file = File::open(path).and_then(|file| accessible(file, user));
    file.map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })
}

/// The file whose name `user` can open: this one, or where only others may read it, a copy in
/// memory.
pub(super) fn accessible(mut file: File, user: Option<&User>) -> io::Result<OwnedFd> {
    let meta = file.metadata()?;
    match user {
        Some(user) if meta.is_file() && !grants(&meta, READ) => copy(&mut file, user),
        _ => Ok(file.into()),
    }
}

fn copy(from: &mut File, user: &User) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("brisk-input", MemfdFlags::CLOEXEC)?;
    let mut to = File::from(memory);
    io::copy(from, &mut to)?;
    to.rewind()?;
    let to = OwnedFd::from(to);
    user.own(&to)?;
    Ok(to)
}

/// Whether every user can read a file by its name.
pub(super) fn is_readable(path: &Path) -> bool {
    allows(path, READ)
}

/// Whether every user can execute a program by its name.
pub(super) fn is_executable(path: &Path) -> bool {
    allows(path, READ | EXECUTE)
}

fn allows(path: &Path, bits: u32) -> bool {
    let (Ok(named), Ok(real)) = (std::path::absolute(path), path.canonicalize()) else {
        return false;
    };
    let has = |path: &Path, bits| path.metadata().is_ok_and(|meta| grants(&meta, bits));
    // A link and what it leads to may lie in different directories.
    let mut dirs = named.ancestors().skip(1).chain(real.ancestors().skip(1));
    has(&real, bits) && dirs.all(|dir| has(dir, EXECUTE))
}

/// Path of the file with code for the guest (firmware, option ROM) that the value of a QEMU option
/// names, and its place in the value.
pub(super) fn rom(option: &str, value: &str) -> Option<(Range<usize>, PathBuf)> {
    let option = cmdline::option_name(option)?;
    let (range, path) = match option {
        "bios" => (0..value.len(), value.to_owned()),
        "option-rom" | "device" => {
            let fields = cmdline::fields(option, value).ok()?;
            let field = fields.field("romfile")?;
            (field.value_bytes.clone()?, field.value.clone())
        }
        _ => return None,
    };
    // An empty one means none.
    (!path.is_empty()).then(|| (range, path.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_of_options_are_found() {
        let found = |option, value: &str| {
            let (range, path) = rom(option, value)?;
            Some((value[range].to_owned(), path.display().to_string()))
        };
        let same = |text: &str| Some((text.to_owned(), text.to_owned()));
        assert_eq!(found("-bios", "/a,b"), same("/a,b"));
        assert_eq!(found("--bios", "x"), same("x"));
        assert_eq!(found("-option-rom", "/a.rom,bootindex=1"), same("/a.rom"));
        assert_eq!(found("-option-rom", "bootindex=1,romfile=/a"), same("/a"));
        assert_eq!(
            found("-device", "e1000,romfile=/a,,b,id=n"),
            Some(("/a,,b".into(), "/a,b".into()))
        );
        for none in ["e1000,romfile=", "e1000", "", "e1000,id=romfile"] {
            assert_eq!(found("-device", none), None, "{none}");
        }
        assert_eq!(found("-kernel", "romfile=/a"), None);
        assert_eq!(found("bios", "/a"), None);
    }

    #[test]
    fn what_every_user_can_reach_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(&file, 0o755);
        mode(dir.path(), 0o700);
        assert!(!is_readable(&file) && !is_executable(&file));
        mode(dir.path(), 0o711);
        assert!(is_readable(&file) && is_executable(&file));
        mode(&file, 0o744);
        assert!(is_readable(&file) && !is_executable(&file));
        mode(&file, 0o640);
        assert!(!is_readable(&file));
        assert!(!is_readable(&dir.path().join("gone")));
    }
}
