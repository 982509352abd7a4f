//! The area of RAM in which guest memory outlives a kernel.
//!
//! `memmap=SIZE!START` on the kernel's command line takes a range out of the kernel's use, and has
//! the driver `nd_e820` make a block device of it, `/dev/pmem0`
//! (`Documentation/admin-guide/kernel-parameters.txt`). A file of an ext4 or XFS there that is mounted
//! with `dax` is that RAM when it is mapped.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brisk_host::{files, sysfs};
use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fchmod, fstat};

/// An area that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// Where its file system is mounted, or a directory in it.
    pub directory: PathBuf,
    /// Physical addresses.
    pub range: Range<u64>,
}

impl Area {
    /// Examines a directory.
    ///
    /// # Errors
    /// Reason why memory in it would not outlive the kernel, or would outlive the host, and what to
    /// try.
    pub fn open(directory: &Path) -> Result<Self, String> {
        Self::below(directory, Path::new("/"))
    }

    fn below(directory: &Path, root: &Path) -> Result<Self, String> {
        let shown = directory.display();
        let meta = fs::symlink_metadata(directory)
            .map_err(|error| format!("cannot look at {shown}: {error}"))?;
        let own = rustix::process::geteuid().as_raw();
        let others = meta.mode() & 0o077;
        if !meta.is_dir() || meta.uid() != own || others & 0o022 != 0 {
            return Err(format!(
                "{shown} is no directory that only root can write to; chmod 0700 it"
            ));
        }
        let range = range_of(root, meta.dev())
            .map_err(|reason| format!("{shown} is not in an area of RAM: {reason}"))?;
        let line = files::text(&root.join("proc/cmdline")).unwrap_or_default();
        // A new file system's directory is 0755: it is closed when memory is about to be made there.
        if others != 0 && !is_mount_point(directory).unwrap_or(false) {
            return Err(format!("others can look into {shown}; chmod 0700 it"));
        }
        let area = Self {
            directory: directory.to_owned(),
            range,
        };
        if !area.is_reserved_by(&line) {
            return Err(format!(
                "the device of {shown} is not in a memmap=SIZE!START of the kernel's command line: it \
                 may be one that keeps memory without power, where it would be in clear"
            ));
        }
        match is_dax(directory) {
            Ok(true) => Ok(area),
            Ok(false) => Err(format!(
                "files in {shown} are cached: mount the file system with -o dax"
            )),
            Err(error) => Err(format!("cannot make a file in {shown}: {error}")),
        }
    }

    /// Closes the directory to others; whether it was not closed before.
    ///
    /// # Errors
    /// If its mode cannot be changed.
    pub(in crate::vm) fn close(&self) -> io::Result<bool> {
        let directory = open(&self.directory)?;
        if fstat(&directory)?.st_mode & 0o077 == 0 {
            return Ok(false);
        }
        fchmod(&directory, Mode::RWXU)?;
        Ok(true)
    }

    /// Whether a kernel with this command line leaves the area alone.
    #[must_use]
    pub fn is_reserved_by(&self, cmdline: &str) -> bool {
        let mut ranges = reserved(cmdline);
        ranges.any(|range| range.start <= self.range.start && self.range.end <= range.end)
    }
}

/// A directory, and no link to one.
fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// Whether something is mounted at a directory.
fn is_mount_point(directory: &Path) -> io::Result<bool> {
    let directory = open(directory)?;
    let found = rustix::fs::statx(&directory, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Ranges that `memmap=SIZE!START` takes.
fn reserved(cmdline: &str) -> impl Iterator<Item = Range<u64>> {
    let words = cmdline
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    let values = words.filter_map(|word| word.strip_prefix("memmap="));
    values
        .flat_map(|value| value.split(','))
        .filter_map(|value| {
            let (size, start) = value.split_once('!')?;
            let (size, start) = (memparse(size)?, memparse(start)?);
            Some(start..start.checked_add(size)?)
        })
}

/// A number as `memparse()` of the kernel's `lib/cmdline.c` reads it: decimal, hexadecimal or octal,
/// with a power of 1024 behind it.
fn memparse(text: &str) -> Option<u64> {
    let end = text.len() - usize::from(text.ends_with(|c: char| "kmgtpeKMGTPE".contains(c)));
    let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    // E is a digit there.
    let (digits, unit) = match hexadecimal && text.ends_with(['e', 'E']) {
        true => (text, ""),
        false => text.split_at(end),
    };
    let number = match digits {
        _ if hexadecimal => u64::from_str_radix(&digits[2..], 16).ok()?,
        _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        _ => digits.parse().ok()?,
    };
    let power = "kmgtpe".find(&*unit.to_ascii_lowercase())?;
    let shift = if unit.is_empty() {
        0
    } else {
        10 * (power as u32 + 1)
    };
    number.checked_mul(1 << shift)
}

/// Physical addresses of the device of a file system.
fn range_of(root: &Path, device: u64) -> Result<Range<u64>, String> {
    let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = format!("dev/block/{}:{}", numbers.0, numbers.1);
    let place = fs::canonicalize(root.join("sys").join(&link))
        .map_err(|_| "its file system has no device of its own".to_owned())?;
    if !place
        .components()
        .any(|part| part.as_os_str() == "e820_pmem")
    {
        return Err("its device is none of memmap=SIZE!START".to_owned());
    }
    let number = |name: &str| {
        let text = sysfs::line(root, &format!("{link}/device/{name}"))?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let range = number("resource").zip(number("size"));
    let range = range.and_then(|(start, size)| Some(start..start.checked_add(size)?));
    range.ok_or_else(|| "sysfs does not say where its device is, or it is a partition".to_owned())
}

/// Whether new files in a directory are mapped without a cache.
fn is_dax(directory: &Path) -> io::Result<bool> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600))?;
    let found = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(found.stx_attributes.contains(StatxAttributes::DAX))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_kernels_words_are_read_as_it_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("64K", Some(64 << 10)),
            ("4G", Some(4 * GIB)),
            ("0x10g", Some(16 * GIB)),
            ("0x1E", Some(0x1e)),
            ("010M", Some(8 << 20)),
            ("2T", Some(2 << 40)),
            ("", None),
            ("G", None),
            ("4GB", None),
            ("0x", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("16E", None),
        ] {
            assert_eq!(memparse(text), number, "{text}");
        }
    }

    #[test]
    fn an_area_is_reserved_by_a_range_that_has_all_of_it() {
        let area = Area {
            directory: PathBuf::from("/a"),
            range: 4 * GIB..6 * GIB,
        };
        for (cmdline, is) in [
            ("quiet memmap=2G!4G", true),
            ("memmap=1G!1G,3G!4G root=/dev/vda", true),
            ("memmap=4G!0x80000000", true),
            ("memmap=2G!5G", false),
            ("memmap=1G!4G memmap=1G!5G", false),
            ("memmap=2G$4G memmap=2G@4G memmap=2G#4G", false),
            ("quiet -- memmap=2G!4G", false),
            ("xmemmap=2G!4G memmap=!4G memmap=2G!", false),
            ("memmap=16384P!4G memmap=0xffffffffffffffff!4G", false),
            ("", false),
        ] {
            assert_eq!(area.is_reserved_by(cmdline), is, "{cmdline}");
        }
    }

    /// A root with a pmem device that has the numbers of the directory's file system.
    fn scene(bus: &str, resource: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("area")).unwrap();
        fs::set_permissions(at("area"), fs::Permissions::from_mode(0o700)).unwrap();
        let device = fs::metadata(at("area")).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let namespace = at(&format!(
            "sys/devices/platform/{bus}/ndbus0/region0/namespace0.0"
        ));
        fs::create_dir_all(namespace.join("block/pmem0")).unwrap();
        fs::write(namespace.join("resource"), resource).unwrap();
        fs::write(namespace.join("size"), "2147483648\n").unwrap();
        symlink(&namespace, namespace.join("block/pmem0/device")).unwrap();
        fs::create_dir_all(at("sys/dev/block")).unwrap();
        symlink(
            namespace.join("block/pmem0"),
            at(&format!("sys/dev/block/{major}:{minor}")),
        )
        .unwrap();
        fs::create_dir(at("proc")).unwrap();
        fs::write(at("proc/cmdline"), "quiet memmap=2G!4G\n").unwrap();
        root
    }

    #[track_caller]
    fn refused(root: &tempfile::TempDir, why: &str) {
        let area = Area::below(&root.path().join("area"), root.path());
        let reason = area.unwrap_err();
        assert!(reason.contains(why), "{reason}");
    }

    #[test]
    fn what_is_no_area_is_refused_with_the_reason() {
        // All but DAX, which no file system of a test has.
        refused(&scene("e820_pmem", "0x100000000\n"), "-o dax");
        refused(&scene("e820_pmem", "0x200000000\n"), "memmap=SIZE!START of");
        refused(&scene("e820_pmem", "\n"), "does not say where");
        refused(
            &scene("e820_pmem", "0xfffffffffffffff0\n"),
            "does not say where",
        );
        refused(&scene("ACPI0012:00", "0x100000000\n"), "none of memmap");
        let open = scene("e820_pmem", "0x100000000\n");
        let area = open.path().join("area");
        for (mode, why) in [(0o755, "others can look into"), (0o770, "write to")] {
            fs::set_permissions(&area, Permissions::from_mode(mode)).unwrap();
            refused(&open, why);
        }
        fs::remove_dir(&area).unwrap();
        symlink("/tmp", &area).unwrap();
        refused(&open, "0700");
        fs::remove_file(&area).unwrap();
        refused(&open, "cannot look at");
        let none = scene("e820_pmem", "0x100000000\n");
        fs::remove_dir_all(none.path().join("sys/dev")).unwrap();
        refused(&none, "no device of its own");
    }

    #[test]
    fn a_new_file_system_is_closed_to_others() {
        let is_one = |path: &str| is_mount_point(Path::new(path));
        assert!(is_one("/proc").unwrap());
        assert!(!is_one("/proc/self/fd").unwrap());
        // A link to a process's directory.
        assert!(is_one("/proc/self").is_err());
        let area = Area {
            directory: tempfile::tempdir().unwrap().keep(),
            range: 0..1,
        };
        for mode in [0o755, 0o500] {
            fs::set_permissions(&area.directory, Permissions::from_mode(mode)).unwrap();
            assert_eq!(area.close().unwrap(), mode == 0o755);
            let now = fs::metadata(&area.directory).unwrap().mode() & 0o777;
            assert_eq!(now, if mode == 0o755 { 0o700 } else { mode });
        }
        fs::remove_dir(&area.directory).unwrap();
    }
}
