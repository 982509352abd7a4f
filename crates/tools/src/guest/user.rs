//! Users in the guest, by name or number.

use std::io;
use std::path::Path;

use brisk_host::files;

use super::error::Error;
use super::options::User;
use super::root::Root;

/// Bytes of a list of users; one with 100,000 has 7 MB.
const LONGEST: u64 = 64 << 20;

/// Numbers of a user and of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) home: Option<String>,
}

/// Looks names up in the root's own `/etc/passwd` and `/etc/group` (passwd(5), group(5)).
///
/// A number without an account has the group of the same number, and in a container image the group
/// 0, as by the OCI image specification (config.md, `User`).
pub(crate) fn resolve(who: &User, root: &Root) -> Result<Identity, Error> {
    let accounts = match root {
        Root::Disk { image, .. } => image.accounts.as_ref(),
        _ => None,
    };
    let read = |file: &str| match (root, accounts) {
        (Root::Directory { path, .. }, _) => read(path, file),
        (_, Some(accounts)) if file == "passwd" => Ok(accounts.passwd.clone()),
        (_, Some(accounts)) => Ok(accounts.group.clone()),
        _ => Ok(String::new()),
    };
    let unknown = |kind: &str, name: &str| match (root, accounts) {
        (Root::Disk { .. }, None) => Error::unfit(
            format!("the {kind} {name:?} is not known: the image's /etc has not been read"),
            "give its number; names are looked up in directories and in unpacked container images",
        ),
        _ => Error::unfit(
            format!("there is no {kind} {name:?} in the root's /etc"),
            "give one that is there, or a number",
        ),
    };
    let lone = match accounts {
        Some(_) => Lone::Root,
        None => Lone::Same,
    };
    find(who, &read("passwd")?, || read("group"), lone, unknown)
}

/// The group of a number without an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lone {
    /// That of the same number.
    Same,
    /// That of root.
    Root,
    /// It is not known whether there is an account: the list is not whole.
    NotKnown,
}

/// Looks names up in the texts of passwd(5) and group(5).
pub(crate) fn find<E>(
    who: &User,
    passwd: &str,
    group: impl FnOnce() -> Result<String, E>,
    lone: Lone,
    unknown: impl Fn(&str, &str) -> E,
) -> Result<Identity, E> {
    // The last number means "as it is" to setuid(2).
    let number = who.user.parse().ok().filter(|number| *number != u32::MAX);
    let account = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user: u32 = fields.nth(1)?.parse().ok()?;
        let group: u32 = fields.next()?.parse().ok()?;
        let home = fields
            .nth(1)
            .filter(|home| !home.contains('\0'))?
            .to_owned();
        (name == who.user || number == Some(user)).then_some((user, group, home))
    });
    let (user, own_group, home) = match (account, number) {
        (Some((user, group, home)), _) => (user, group, Some(home)),
        (None, Some(number)) => match (lone, &who.group) {
            (Lone::Same, _) | (Lone::NotKnown, Some(_)) => (number, number, None),
            (Lone::Root, _) => (number, 0, None),
            (Lone::NotKnown, None) => return Err(unknown("user", &who.user)),
        },
        (None, None) => return Err(unknown("user", &who.user)),
    };
    let group = match &who.group {
        None => own_group,
        Some(name) => match name.parse() {
            Ok(number) => number,
            Err(_) => {
                let groups = group()?;
                let group = groups.lines().find_map(|line| {
                    let mut fields = line.split(':');
                    (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
                });
                group.ok_or_else(|| unknown("group", name))?
            }
        },
    };
    Ok(Identity { user, group, home })
}

/// A file in `/etc` of a root, which somebody else may have made; empty if there is none.
fn read(root: &Path, file: &str) -> Result<String, Error> {
    let path = Path::new("etc").join(file);
    match files::read_regular_below(root, &path, LONGEST) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::unfit(
            format!("cannot read {} of the root: {error}", path.display()),
            "give the number of the user and of the group",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1001:1002:,,,:/home/ada:/bin/sh\n";
        fs::write(dir.path().join("etc/passwd"), passwd).unwrap();
        fs::write(dir.path().join("etc/group"), "root:x:0:\nkvm:x:107:ada\n").unwrap();
        dir
    }

    fn resolved(text: &str) -> Result<Identity, Error> {
        let dir = tree();
        resolve(
            &User::parse(text),
            &Root::Directory {
                path: dir.path().into(),
                host: false,
            },
        )
    }

    #[test]
    fn names_and_numbers_mean_the_same() {
        let ada = Identity {
            user: 1001,
            group: 1002,
            home: Some("/home/ada".into()),
        };
        assert_eq!(resolved("ada").unwrap(), ada);
        assert_eq!(resolved("1001").unwrap(), ada);
        assert_eq!(resolved("ada:kvm").unwrap().group, 107);
        assert_eq!(resolved("ada:5").unwrap().group, 5);
    }

    #[test]
    fn a_number_needs_no_account() {
        assert_eq!(
            resolved("77").unwrap(),
            Identity {
                user: 77,
                group: 77,
                home: None
            }
        );
    }

    #[test]
    fn a_list_is_a_file_within_the_root() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let passwd = dir.path().join("etc/passwd");
        let resolved = || {
            let path = dir.path().into();
            resolve(&User::parse("root"), &Root::Directory { path, host: false })
        };
        symlink("/dev/zero", &passwd).unwrap();
        assert!(resolved().unwrap_err().to_string().contains("\"root\""));
        fs::create_dir(dir.path().join("dev")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("dev/zero"), fifo, mode, 0).unwrap();
        let error = resolved().unwrap_err().to_string();
        assert!(
            error.contains("etc/passwd of the root: it is not a regular file"),
            "{error}"
        );
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(resolved("bob").unwrap_err().to_string().contains("\"bob\""));
        assert!(
            resolved("ada:wheel")
                .unwrap_err()
                .to_string()
                .contains("\"wheel\"")
        );
        assert!(resolve(&User::parse("ada"), &Root::None).is_err());
    }
}
