//! Units of systemd that processes belong to, and sessions of users.

use std::path::Path;

use brisk_host::files;
use serde::Serialize;

use crate::reboot::config::is_unit;

/// Sessions that are looked at.
const SESSIONS: usize = 4096;
/// Bytes of the file of one that are read.
const LONGEST: u64 = 16 << 10;

/// Unit of the system's manager that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A service of the system.
    Service(String),
    /// A session of a user: its number, of `session-2.scope`.
    Session(String),
    /// Services of a user, below `user@1000.service`: the user's number.
    User(u32),
    /// Another unit, such as the scope of a container.
    Other(String),
}

impl Unit {
    /// Name of the unit.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Service(name) | Self::Other(name) => name.clone(),
            Self::Session(id) => format!("session-{id}.scope"),
            Self::User(uid) => format!("user@{uid}.service"),
        }
    }

    /// The unit of a process, from the text of `/proc/PID/cgroup` (cgroups(7)): below slices, the
    /// first name in its path, as `cg_path_get_unit` of systemd has it.
    #[must_use]
    pub fn of(cgroup: &str) -> Option<Self> {
        let hierarchy = |start: &str| cgroup.lines().find_map(|line| line.strip_prefix(start));
        let unified = hierarchy("0::").filter(|path| !path.trim_matches('/').is_empty());
        let path = unified.or_else(|| {
            let mut lines = cgroup.lines().filter_map(|line| line.split_once(':'));
            lines.find_map(|(_, rest)| rest.strip_prefix("name=systemd:"))
        })?;
        let mut names = path.split('/').filter(|name| !name.is_empty());
        let name = names.find(|name| !name.ends_with(".slice"))?;
        // systemd puts this in front of names that the kernel uses itself.
        let name = name.strip_prefix('_').unwrap_or(name);
        if !is_unit(name) {
            return None;
        }
        let between = |start, end| name.strip_prefix(start)?.strip_suffix(end);
        if let Some(id) = between("session-", ".scope") {
            return Some(Self::Session(id.to_owned()));
        }
        if let Some(uid) = between("user@", ".service").and_then(|uid| uid.parse().ok()) {
            return Some(Self::User(uid));
        }
        Some(match name.ends_with(".service") {
            true => Self::Service(name.to_owned()),
            false => Self::Other(name.to_owned()),
        })
    }
}

/// A session of a user (sd-login(3)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Number.
    pub id: String,
    /// Number of the user.
    pub uid: u32,
    /// Name of the user.
    pub user: String,
    /// Whether a display manager has started it, for a graphical desktop or its own screen.
    pub is_graphical: bool,
    /// Whether the user's manager has it for itself; it ends with the others.
    pub is_manager: bool,
}

/// Sessions, as systemd-logind writes them down (`session_save` of `src/login/logind-session.c`).
pub(super) fn sessions(root: &Path) -> Vec<Session> {
    let directory = root.join("run/systemd/sessions");
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.take(SESSIONS).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_none());
    paths.sort();
    let session = |path: &std::path::PathBuf| {
        let text = files::text_within(path, LONGEST)?;
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let found = lines.find(|(key, _)| *key == name);
            found.map_or("", |(_, value)| value)
        };
        let is_desktop = ["x11", "wayland", "mir"].contains(&field("TYPE"));
        // One that was started by hand after a login on a terminal is not the display manager's.
        let by_hand = ["login", "sshd", "su", "sudo"].contains(&field("SERVICE"));
        Some(Session {
            id: path.file_name()?.to_str()?.to_owned(),
            uid: field("UID").parse().ok()?,
            user: field("USER").to_owned(),
            is_graphical: is_desktop && !by_hand,
            is_manager: field("CLASS").starts_with("manager"),
        })
    };
    paths.iter().filter_map(session).collect()
}

/// Name of the service of the display manager, of the link `display-manager.service`
/// (systemd.special(7)).
pub(super) fn display_manager(root: &Path) -> Option<String> {
    let link = root.join("etc/systemd/system/display-manager.service");
    let target = std::fs::read_link(link).ok()?;
    let name = target.file_name()?.to_str()?.to_owned();
    is_unit(&name).then_some(name)
}

/// Whether a user's manager runs without a session (loginctl(1), enable-linger).
pub(super) fn lingers(root: &Path, user: &str) -> bool {
    let is_name = !user.is_empty() && !user.contains('/') && user != "." && user != "..";
    is_name && root.join("var/lib/systemd/linger").join(user).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_first_name_below_slices() {
        let service = |name: &str| Some(Unit::Service(name.to_owned()));
        let other = |name: &str| Some(Unit::Other(name.to_owned()));
        let user = "user.slice/user-1000.slice";
        for (text, unit) in [
            ("0::/system.slice/gdm.service\n", service("gdm.service")),
            (
                "0::/system.slice/system-getty.slice/getty@tty1.service",
                service("getty@tty1.service"),
            ),
            (
                "0::/system.slice/docker.service/payload",
                service("docker.service"),
            ),
            (
                "0::/system.slice/_cgroup.service",
                service("cgroup.service"),
            ),
            (
                &format!("0::/{user}/session-2.scope"),
                Some(Unit::Session("2".to_owned())),
            ),
            (
                &format!("0::/{user}/user@1000.service/session.slice/pipewire.service"),
                Some(Unit::User(1000)),
            ),
            (
                "0::/machine.slice/libpod-1f.scope/container",
                other("libpod-1f.scope"),
            ),
            ("0::/init.scope", other("init.scope")),
            (
                "4:cpu:/\n1:name=systemd:/system.slice/a.service\n0::/\n",
                service("a.service"),
            ),
            ("0::/\n", None),
            ("0::/a\nb", None),
            ("0::/system.slice/--force", None),
            ("0::/kubepods/besteffort/pod1", None),
            ("", None),
        ] {
            assert_eq!(Unit::of(text), unit, "{text}");
        }
        assert_eq!(Unit::User(7).name(), "user@7.service");
        assert_eq!(Unit::Session("c1".into()).name(), "session-c1.scope");
    }
}
