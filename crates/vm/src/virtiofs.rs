//! virtiofsd: serves a directory of the host to a guest over a socket.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use brisk_host::beside;
use brisk_host::program::{self, Program};
use command_fds::{CommandFdExt, FdMapping};
use serde::{Deserialize, Serialize};

use crate::cache::{self, Cache, Identity};

mod sandbox;
mod sockets;

pub use sandbox::Sandbox;
use sockets::sockets;

/// A virtiofsd that is installed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Virtiofsd {
    /// The program.
    pub path: PathBuf,
    flavour: Flavour,
    identity: Identity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Flavour {
    /// The one in Rust; whether it has `--readonly`, `--no-announce-submounts` and
    /// `--migration-on-error`.
    Rust {
        readonly: bool,
        submounts: bool,
        migration: bool,
    },
    /// The one in C that came with QEMU up to 7.2; needs root.
    C,
}

/// Extent to which a guest may write to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Access {
    /// Not at all.
    #[default]
    ReadOnly,
    /// With the rights of its owner, without set-user-ID and set-group-ID bits.
    Writable,
    /// With the rights of the calling user, and those bits.
    SetId,
}

/// Name of [`Access::SetId`].
const SET_ID: &str = "suid";

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Writable(bool),
    Named(String),
}

impl From<Access> for Form {
    fn from(access: Access) -> Self {
        match access {
            Access::SetId => Self::Named(SET_ID.into()),
            other => Self::Writable(other.is_writable()),
        }
    }
}

impl TryFrom<Form> for Access {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        match form {
            Form::Writable(writable) => Ok(Self::of(writable)),
            Form::Named(name) => name.parse(),
        }
    }
}

impl std::str::FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "false" => Ok(Self::ReadOnly),
            "true" => Ok(Self::Writable),
            SET_ID => Ok(Self::SetId),
            _ => Err(format!("{text:?} is not true, false or {SET_ID}")),
        }
    }
}

impl Access {
    /// Without set-ID bits.
    #[must_use]
    pub const fn of(writable: bool) -> Self {
        match writable {
            true => Self::Writable,
            false => Self::ReadOnly,
        }
    }

    /// Whether the guest may write.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        !matches!(self, Self::ReadOnly)
    }
}

/// Error of serving a directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No virtiofsd.
    #[error(transparent)]
    Missing(#[from] program::Error),
    /// The socket between virtiofsd and QEMU failed.
    #[error("cannot make a socket for virtiofsd")]
    Socket {
        /// Error of the system.
        source: io::Error,
    },
    /// It could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// A guest would write as root to a directory of another user.
    #[error(
        "it belongs to the user {owner}, where the guest would write as root, because {reason}"
    )]
    OtherOwner {
        /// Its owner's number.
        owner: u32,
        /// Why virtiofsd cannot be that user.
        reason: &'static str,
    },
}

impl Error {
    /// What to try, where there is something.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OtherOwner { .. } => Some(
                "share it read-only (:ro), a directory of root's, or one that is closed to \
                 others (chmod go= DIR); or allow it everything with :GUEST,suid",
            ),
            _ => None,
        }
    }
}

/// A daemon and QEMU's end of its socket.
#[derive(Debug)]
pub struct Served {
    /// The daemon; it ends when QEMU does.
    pub daemon: Child,
    /// QEMU's end of the socket.
    pub socket: OwnedFd,
}

impl Virtiofsd {
    /// Finds the installed virtiofsd; its features come from the cache if the program is unchanged.
    ///
    /// # Errors
    /// If there is none, or it cannot be asked.
    pub fn find(cache: &Cache) -> Result<Self, Error> {
        let system = Program::find("virtiofsd").map_err(Error::from);
        let system = system.and_then(|program| Self::ask(program.path(), cache));
        if system.as_ref().is_ok_and(Self::keeps_state) {
            return system;
        }
        // One that can do more may be beside the system.
        let others = beside::find("virtiofsd").into_iter();
        let mut others = others.filter_map(|path| Self::ask(&path, cache).ok());
        others.find(Self::keeps_state).map_or(system, Ok)
    }

    fn ask(path: &Path, cache: &Cache) -> Result<Self, Error> {
        let path = path.to_owned();
        let program = Program::at(&path);
        let key = cache::key(path.as_os_str().as_encoded_bytes());
        let valid = |meta: &Self| meta.identity.holds();
        let entry = cache.get_valid_or_build("virtiofsd", &key, valid, |_| {
            let help = program.arg("--help").run()?;
            let help = String::from_utf8_lossy(&help);
            let flavour = if help.contains("--shared-dir") {
                Flavour::Rust {
                    readonly: help.contains("--readonly"),
                    submounts: help.contains("--no-announce-submounts"),
                    migration: help.contains("--migration-on-error"),
                }
            } else {
                Flavour::C
            };
            Ok::<_, Error>(Self {
                identity: Identity::of(&path)?,
                path: path.clone(),
                flavour,
            })
        })?;
        Ok(entry.meta)
    }

    /// The arguments that serve `dir`; the socket is descriptor 3. With `persistent`, for a persistent
    /// VM, the guest looks again after a second whether something has changed on the host.
    fn args(&self, dir: &Path, access: Access, sandbox: Sandbox, persistent: bool) -> Vec<String> {
        let cache = if persistent { "auto" } else { "always" };
        let dir = dir.to_string_lossy();
        // Without CAP_FSETID a file that is written to loses its set-ID bits.
        let without = match access {
            Access::SetId => "-mknod",
            _ => "-mknod:-fsetid",
        };
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match self.flavour {
            Flavour::Rust {
                readonly,
                submounts,
                migration,
            } => {
                let mut args: Vec<String> = words(&["--fd=3", "--shared-dir", &dir]);
                args.push(format!("--cache={cache}"));
                args.extend(words(&["--thread-pool-size=0", "--log-level=error"]));
                // overlayfs takes no lower directory that may turn into another file system.
                if submounts {
                    args.push("--no-announce-submounts".into());
                }
                // A file that is gone when a kept guest goes on is an error when that uses it.
                if migration {
                    args.push("--migration-on-error=guest-error".into());
                }
                if !access.is_writable() && readonly {
                    args.push("--readonly".into());
                }
                args.push(format!("--sandbox={}", sandbox.name()));
                args.push(format!("--modcaps={without}"));
                args
            }
            Flavour::C => {
                // A comma begins another option, such as another source.
                let dir = dir.replace('\\', "\\\\").replace(',', "\\,");
                let source = format!(
                    "source={dir},cache={cache},sandbox=chroot,log_level=err,modcaps={without}"
                );
                words(&["--fd=3", "-o", &source, "--thread-pool-size=0"])
            }
        }
    }

    /// Whether a new virtiofsd can continue from the state of one that served the same directory.
    #[must_use]
    pub fn keeps_state(&self) -> bool {
        matches!(
            self.flavour,
            Flavour::Rust {
                migration: true,
                ..
            }
        )
    }

    /// Whether it needs a read-only view of the file tree to serve read-only.
    fn needs_view(&self) -> bool {
        !matches!(self.flavour, Flavour::Rust { readonly: true, .. })
    }

    /// Starts serving `dir`.
    ///
    /// # Errors
    /// If the socket cannot be made or the daemon not started.
    pub fn serve(&self, dir: &Path, access: Access) -> Result<Served, Error> {
        self.start(dir, access, None)
    }

    /// Starts serving `dir` to a QEMU that outlives brisk; the daemon's messages go to the file
    /// `says`.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub fn serve_persistent(
        &self,
        dir: &Path,
        access: Access,
        says: File,
    ) -> Result<Served, Error> {
        self.start(dir, access, Some(says))
    }

    /// Starts the daemon; with a file for its messages, it outlives brisk.
    fn start(&self, dir: &Path, access: Access, says: Option<File>) -> Result<Served, Error> {
        let (sandbox, owner) = self.confinement(dir, access)?;
        let (listener, client) = sockets().map_err(|source| Error::Socket { source })?;
        let start = |source| Error::Start {
            program: self.path.clone(),
            source,
        };
        let arguments = self.args(dir, access, sandbox, says.is_some());
        let mut command = self.command(arguments, listener, owner).map_err(start)?;
        if !access.is_writable() && self.needs_view() {
            brisk_sys::read_only_view(&mut command);
        }
        match says {
            Some(says) => brisk_sys::own_session(command.stderr(says)),
            // Ctrl-C on the terminal is for brisk to forward, as with QEMU.
            None => brisk_sys::die_with_parent(command.process_group(0).stderr(Stdio::piped())),
        };
        if access == Access::Writable {
            // openat2(2) keeps one that is not confined within the directory.
            let openat2 = sandbox != Sandbox::None;
            brisk_sys::refuse_set_id(&mut command, openat2).map_err(start)?;
        }
        let daemon = command.spawn().map_err(start)?;
        Ok(Served {
            daemon,
            socket: client,
        })
    }

    fn command(
        &self,
        arguments: Vec<String>,
        listener: OwnedFd,
        owner: Option<Owner>,
    ) -> io::Result<Command> {
        let mut command = Program::at(&self.path).args(arguments).command();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(Owner { user, group }) = owner {
            command.uid(user).gid(group);
        }
        let mapping = FdMapping {
            parent_fd: listener,
            child_fd: 3,
        };
        command
            .fd_mappings(vec![mapping])
            .map_err(io::Error::other)?;
        Ok(command)
    }

    /// Confinement of a daemon for a directory, and the user that it is to be instead of root: a
    /// guest that may write to somebody else's directory does it as that user.
    fn confinement(&self, dir: &Path, access: Access) -> Result<(Sandbox, Option<Owner>), Error> {
        let usual = Sandbox::possible().for_directory(dir);
        let is_root = rustix::process::geteuid().is_root();
        let whole = dir == Path::new("/");
        if access != Access::Writable || whole {
            return Ok((usual, None));
        }
        let owner = dir.metadata().ok().filter(|found| found.uid() != 0);
        let owner = owner.filter(|_| is_root).map(|found| Owner {
            user: found.uid(),
            group: found.gid(),
        });
        let is_c = self.flavour == Flavour::C;
        if !is_c && (!is_root || owner.is_some()) && self.has_namespaces(dir, owner) {
            return Ok((Sandbox::Namespace, owner));
        }
        match owner {
            Some(Owner { user, .. }) if !is_closed(dir) => Err(Error::OtherOwner {
                owner: user,
                reason: match is_c {
                    true => "this virtiofsd is always root",
                    false => "virtiofsd can have no namespaces as that user",
                },
            }),
            _ => Ok((usual, None)),
        }
    }

    /// Whether a daemon that is an ordinary user can have namespaces of its own: one is started, and
    /// ends in order when its client goes away.
    fn has_namespaces(&self, dir: &Path, owner: Option<Owner>) -> bool {
        let Ok((listener, client)) = sockets() else {
            return false;
        };
        drop(client);
        let arguments = self.args(dir, Access::Writable, Sandbox::Namespace, false);
        let command = self.command(arguments, listener, owner);
        command.is_ok_and(|mut command| {
            let command = brisk_sys::die_with_parent(command.stderr(Stdio::null()));
            command.status().is_ok_and(|status| status.success())
        })
    }
}

/// Whether only root and owners get to a directory: nobody else may search it or one above it.
fn is_closed(dir: &Path) -> bool {
    let mut above = dir.ancestors();
    above.any(|dir| dir.metadata().is_ok_and(|found| found.mode() & 0o011 == 0))
}

/// Owner of a directory.
#[derive(Debug, Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_closed_where_others_cannot_search_it_or_one_above() {
        let above = tempfile::tempdir().unwrap();
        let below = above.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        set(&below, 0o755);
        set(above.path(), 0o700);
        assert!(is_closed(&below));
        set(above.path(), 0o755);
        assert!(!is_closed(&below));
        set(&below, 0o710);
        assert!(!is_closed(&below));
        set(&below, 0o700);
        assert!(is_closed(&below));
    }

    #[test]
    fn a_comma_in_a_name_begins_no_other_option() {
        let daemon = Virtiofsd {
            path: "/bin/true".into(),
            flavour: Flavour::C,
            identity: Identity::of(Path::new("/bin/true")).unwrap(),
        };
        let dir = Path::new("/srv/a,source=/etc/b\\c");
        let args = daemon.args(dir, Access::ReadOnly, Sandbox::Chroot, false);
        let source = "source=/srv/a\\,source=/etc/b\\\\c,cache=always,";
        assert!(args.iter().any(|arg| arg.starts_with(source)), "{args:?}");
    }
}
