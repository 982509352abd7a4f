//! A user of its own for each QEMU that root starts.
//!
//! A guest that breaks out of its QEMU finds no other process and no file of its user. The users
//! are numbers of a reserved range that have no account. A number is taken by a lock on a byte of a
//! file. QEMU inherits the lock, and the number is taken as long as any process has it: a QEMU can
//! give up a lock, but not its user.

use std::fs::{DirBuilder, File};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use brisk_sys::{Sharing, try_lock_byte};
use rustix::fs::{OFlags, fchmod, fchown};
use rustix::process::{Gid, Uid, getpriority_user};

use super::{Error, Unprivileged};

/// Variable that names another range than the default.
const RANGE_VARIABLE: &str = "BRISK_UID_RANGE";
/// Default range: above the numbers of accounts, subordinate users, containers and directory
/// services (systemd's `UIDS-GIDS`, `sssd-ldap(5)`), and below 2^31.
const RANGE: RangeInclusive<u32> = 2_100_000_000..=2_100_065_535;
/// Directory of the locks for all brisk processes of root, whatever their other directories are.
const DIRECTORY: &str = "/run/brisk";
/// Files that list numbers with an owner, and the fields: a single number, or the first number and
/// their count.
const OWNED: [(&str, usize, Option<usize>); 4] = [
    ("passwd", 2, None),
    ("group", 2, None),
    ("subuid", 1, Some(2)),
    ("subgid", 1, Some(2)),
];

/// The user of one QEMU.
#[derive(Debug)]
pub(super) struct User {
    pub(super) ids: Unprivileged,
    /// Lock that reserves the number. QEMU inherits it.
    pub(super) lock: Option<OwnedFd>,
}

impl User {
    /// Takes a user that no process has; `shared` where this host has none to give.
    pub(super) fn take(shared: Unprivileged) -> Result<Self, Error> {
        match Users::here()? {
            Ok(users) => users.take(),
            Err(_) => Ok(Self {
                ids: shared,
                lock: None,
            }),
        }
    }

    /// Makes a file this user's alone.
    pub(super) fn own(&self, file: &OwnedFd) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(self.ids.user), Gid::from_raw(self.ids.group));
        fchmod(file, 0o600.into())?;
        Ok(fchown(file, Some(user), Some(group))?)
    }
}

/// Reason why all QEMUs that root starts here have one user, if they have.
#[must_use]
pub fn why_one_user() -> Option<String> {
    match Users::here() {
        Ok(users) => users.err(),
        Err(error) => Some(error.to_string()),
    }
}

/// Numbers to choose from.
#[derive(Debug)]
struct Users {
    range: RangeInclusive<u32>,
    /// Directory with the lists of accounts.
    accounts: PathBuf,
    /// File of locks, with a byte for each number.
    locks: File,
}

impl Users {
    /// The numbers of this host, or the reason why there are none.
    fn here() -> Result<Result<Self, String>, Error> {
        let range = match std::env::var(RANGE_VARIABLE) {
            Ok(text) if !text.is_empty() => parse(&text).ok_or(Error::Range { text })?,
            _ => RANGE,
        };
        for map in ["/proc/self/uid_map", "/proc/self/gid_map"] {
            let text = std::fs::read_to_string(map).unwrap_or_default();
            if !is_mapped(&text, &range) {
                let (first, last) = range.into_inner();
                return Ok(Err(format!(
                    "the users {first} to {last} are not all in {map}; set {RANGE_VARIABLE} to \
                     some that are"
                )));
            }
        }
        let locks = open_locks(Path::new(DIRECTORY));
        Ok(locks
            .map(|locks| Self {
                range,
                accounts: "/etc".into(),
                locks,
            })
            .map_err(|error| format!("{DIRECTORY}/users cannot be had: {error}")))
    }

    fn take(self) -> Result<User, Error> {
        let prepare = |source| Error::Prepare {
            what: "a user",
            source,
        };
        let owned = owned(&self.accounts);
        let (first, last) = self.range.clone().into_inner();
        let mut random = [0; 4];
        getrandom::fill(&mut random)
            .map_err(|error| prepare(io::Error::other(error.to_string())))?;
        // Where /run is not shared, as between containers, two are unlikely to choose the same.
        let count = u64::from(last - first) + 1;
        let start = u64::from(u32::from_ne_bytes(random)) % count;
        for step in 0..count {
            let at = (start + step) % count;
            let number = first + u32::try_from(at).unwrap_or(0);
            let is_owned = owned.iter().any(|range| range.contains(&number));
            if is_owned
                || !try_lock_byte(&self.locks, u64::from(number), Sharing::Exclusive)
                    .map_err(prepare)?
            {
                continue;
            }
            match getpriority_user(Uid::from_raw(number)) {
                // No process has it.
                Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(prepare(error.into())),
                // That this QEMU has its byte as well harms nobody.
                Ok(_) => continue,
            }
            return Ok(User {
                ids: Unprivileged {
                    user: number,
                    group: number,
                },
                lock: Some(self.locks.into()),
            });
        }
        Err(Error::NoUser { first, last })
    }
}

/// `FIRST-LAST`.
fn parse(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-')?;
    let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
    // 0 is root; the last one means no user to the kernel.
    let good = !range.is_empty() && *range.start() > 0 && *range.end() < u32::MAX;
    good.then_some(range)
}

/// Whether a map of user_namespaces(7) has all of a range in one of its lines.
fn is_mapped(map: &str, range: &RangeInclusive<u32>) -> bool {
    let has = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        first <= u64::from(*range.start()) && u64::from(*range.end()) < first + count
    };
    map.lines().any(has)
}

/// Numbers of accounts, groups and subordinate users. Those of a directory service are not seen.
fn owned(etc: &Path) -> Vec<RangeInclusive<u32>> {
    let mut list = Vec::new();
    for (name, first, count) in OWNED {
        let text = std::fs::read(etc.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        list.extend(text.lines().filter_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let number = |index: usize| fields.get(index)?.trim().parse::<u32>().ok();
            let first = number(first)?;
            let count = count.map_or(Some(1), number)?;
            Some(first..=first.saturating_add(count.checked_sub(1)?))
        }));
    }
    list
}

/// The file of locks, opened anew: each opening has locks of its own.
fn open_locks(dir: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(dir.join("users"))?;
    let meta = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.uid() != own || meta.mode() & 0o022 != 0 {
        return Err(io::Error::other("somebody else can write it"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn users(dir: &Path, range: RangeInclusive<u32>) -> Users {
        Users {
            range,
            accounts: dir.to_owned(),
            locks: open_locks(dir).unwrap(),
        }
    }

    /// No other test has these.
    const FIRST: u32 = 2_000_500_000;

    #[test]
    fn no_two_have_one_user_as_long_as_a_descriptor_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let take = || users(dir.path(), FIRST..=FIRST + 1).take();
        let one = take().unwrap();
        let other = take().unwrap();
        assert_ne!(one.ids, other.ids);
        let error = take().unwrap_err().to_string();
        assert!(error.contains("2000500000"), "{error}");
        // QEMU's.
        let inherited = one.lock.as_ref().unwrap().try_clone().unwrap();
        let number = one.ids;
        drop(one);
        take().unwrap_err();
        drop(inherited);
        assert_eq!(take().unwrap().ids, number);
    }

    #[test]
    fn numbers_of_accounts_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs::write(dir.path().join(name), text).unwrap();
        write("passwd", format!("a:x:{FIRST}:1::/:/bin/sh\nbroken\n"));
        write("group", format!("g:x:{}:\n", FIRST + 1));
        write("subuid", format!("a:{}:3\n", FIRST + 2));
        write("subgid", "a:5:0\n".to_owned());
        let taken = users(dir.path(), FIRST..=FIRST + 5).take().unwrap();
        assert_eq!(taken.ids.user, FIRST + 5);
    }

    #[test]
    fn who_runs_keeps_his_number_without_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid();
        // As another user where that is possible, else as this one.
        let number = if own.is_root() {
            FIRST + 10
        } else {
            own.as_raw()
        };
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        if own.is_root() {
            command.uid(number).gid(number);
        }
        let mut child = command.spawn().unwrap();
        users(dir.path(), number..=number).take().unwrap_err();
        drop(child.stdin.take());
        child.wait().unwrap();
        if own.is_root() {
            users(dir.path(), number..=number).take().unwrap();
        }
    }

    #[test]
    fn ranges_and_maps_are_read() {
        assert_eq!(parse("61184-65519"), Some(61184..=65519));
        for wrong in ["", "5", "0-5", "7-6", "a-b", "1-4294967295"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, &RANGE));
        let container = "0 1000 1\n1 100000 65536\n";
        assert!(!is_mapped(container, &RANGE));
        assert!(is_mapped(container, &(61184..=65519)));
        assert!(!is_mapped(container, &(61184..=65537)));
        assert!(!is_mapped("", &RANGE));
    }

    #[test]
    fn a_file_of_locks_that_is_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("users")).unwrap();
        open_locks(dir.path()).unwrap_err();
    }
}
