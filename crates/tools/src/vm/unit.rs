//! systemd units of VMs: QEMU belongs neither to the session nor to the service that started it,
//! and does not end with them.

use std::fs;
use std::path::{Component, Path, PathBuf};

use brisk_host::files;
use brisk_host::program::{Error, Program};

use super::paths::VmPaths;
use super::process;

/// Service that starts and stops VMs with the host. Units of VMs come before it, so that they are
/// stopped after it.
const SERVICE: &str = "brisk-vms.service";
/// Slice of all units of VMs.
const SLICE: &str = "brisk.slice";
const SCOPE: &str = ".scope";
const PREFIX: &str = "brisk-vm-";

/// systemd manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    /// The system manager, for root.
    System,
    /// The manager of a user.
    User,
}

/// The manager for VMs of a user, if there is a lasting one: that of a user who does not linger
/// ends when the user logs out (loginctl(1), `enable-linger`).
fn manager(root: &Path, user: u32) -> Option<Manager> {
    // As sd_booted(3).
    if !root.join("run/systemd/system").is_dir() {
        return None;
    }
    if user == 0 {
        return Some(Manager::System);
    }
    let users = files::text(&root.join("etc/passwd"))?;
    let name = name_of(&users, user)?;
    let lingers = root.join("var/lib/systemd/linger").join(name);
    lingers.exists().then_some(Manager::User)
}

/// Name of a user (passwd(5)).
fn name_of(users: &str, user: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    })
}

/// Name of a VM's unit. It has no characters that systemd would escape.
fn unit(name: &str) -> String {
    format!("{PREFIX}{name}{SCOPE}")
}

/// Arguments of busctl(1) that make a unit of these processes: `StartTransientUnit` of
/// org.freedesktop.systemd1(5).
fn words(manager: Manager, name: &str, processes: &[u32], files: &[PathBuf]) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut all: Vec<String> = owned(match manager {
        Manager::System => &["--system"],
        Manager::User => &["--user"],
    });
    all.extend(owned(&[
        "--quiet",
        "--timeout=10",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
    ]));
    let mut properties: Vec<Vec<String>> = vec![
        vec!["Description".into(), "s".into(), format!("brisk VM {name}")],
        owned(&["Slice", "s", SLICE]),
        owned(&["CollectMode", "s", "inactive-or-failed"]),
    ];
    if manager == Manager::System {
        properties.push(owned(&["Before", "as", "1", SERVICE]));
        // Their file systems are unmounted after it: one with nofail would be at any time.
        let mut mounts = owned(&["RequiresMountsFor", "as"]);
        let files: Vec<_> = files.iter().filter(|file| is_taken(file)).collect();
        mounts.push(files.len().to_string());
        mounts.extend(files.iter().map(|file| file.display().to_string()));
        properties.push(mounts);
    }
    let mut members = owned(&["PIDs", "au"]);
    members.push(processes.len().to_string());
    members.extend(processes.iter().map(ToString::to_string));
    properties.push(members);
    all.extend([unit(name), "fail".into(), properties.len().to_string()]);
    all.extend(properties.into_iter().flatten());
    // No other units with it.
    all.push("0".into());
    all
}

/// Whether systemd takes a path for that: it makes no unit with one that has `..`.
fn is_taken(file: &Path) -> bool {
    let goes_up = |part| part == Component::ParentDir;
    file.is_absolute() && !file.components().any(goes_up) && !file.starts_with("/proc")
}

/// Makes a unit of a VM's processes where that is possible; a VM without a unit runs, too. `files`:
/// what it reads and writes as long as it runs, and when it is suspended.
pub(super) fn enter(paths: &VmPaths, processes: &[u32], files: &[PathBuf]) {
    let user = rustix::process::geteuid().as_raw();
    let Some(manager) = manager(Path::new("/"), user) else {
        return;
    };
    let made = Program::find("busctl").and_then(|busctl| {
        busctl
            .args(words(manager, &paths.name, processes, files))
            .run()
    });
    match made {
        Ok(_) => paths.note(&format!("VM is in {}", unit(&paths.name))),
        Err(error) => {
            let reason = match error {
                Error::Failed { stderr, .. } => stderr.lines().next_back().map(str::to_owned),
                other => Some(other.to_string()),
            };
            let reason = reason.unwrap_or_default();
            paths.note(&format!("VM is in no unit of its own: {reason}"));
        }
    }
}

/// The unit that a running VM is in, if it is the VM's own.
#[must_use]
pub fn unit_of(paths: &VmPaths) -> Option<String> {
    let pid = process::pid(paths)?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    own(&groups).map(str::to_owned)
}

/// Finds the unit in cgroups(7): a line `0::/brisk.slice/brisk-vm-db1.scope`, others with version
/// 1.
fn own(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let unit = line.rsplit('/').next()?;
        (unit.starts_with(PREFIX) && unit.ends_with(SCOPE)).then_some(unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_unit_stops_after_the_service_that_suspends() {
        let line = words(
            Manager::System,
            "db1",
            &[4711],
            &["/srv/db1.qcow2", "/srv/../db2", "/proc/self/fd/3"].map(PathBuf::from),
        )
        .join(" ");
        insta::assert_snapshot!(line, @"--system --quiet --timeout=10 call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) brisk-vm-db1.scope fail 6 Description s brisk VM db1 Slice s brisk.slice CollectMode s inactive-or-failed Before as 1 brisk-vms.service RequiresMountsFor as 1 /srv/db1.qcow2 PIDs au 1 4711 0");
    }

    #[test]
    fn a_user_unit_has_who_serves_its_memory_with_it() {
        let line = words(
            Manager::User,
            "db1",
            &[4711, 4712],
            &["/srv/db1.qcow2".into()],
        )
        .join(" ");
        insta::assert_snapshot!(line, @"--user --quiet --timeout=10 call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) brisk-vm-db1.scope fail 4 Description s brisk VM db1 Slice s brisk.slice CollectMode s inactive-or-failed PIDs au 2 4711 4712 0");
    }

    #[test]
    fn units_are_for_where_systemd_runs_and_stays() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).unwrap();
        let managers = || [0, 1000, 1001].map(|user| manager(root.path(), user));
        assert_eq!(managers(), [None, None, None]);
        make("run/systemd");
        assert_eq!(managers(), [None, None, None]);
        make("run/systemd/system");
        assert_eq!(managers(), [Some(Manager::System), None, None]);
        make("etc");
        let users = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n\n#\n";
        fs::write(root.path().join("etc/passwd"), users).unwrap();
        assert_eq!(managers(), [Some(Manager::System), None, None]);
        make("var/lib/systemd/linger/ada");
        assert_eq!(
            managers(),
            [Some(Manager::System), Some(Manager::User), None]
        );
    }

    #[test]
    fn only_a_unit_of_its_own_is_named() {
        let own = |groups| own(groups).map(str::to_owned);
        let unit = Some(unit("db-1.x"));
        assert_eq!(own("0::/brisk.slice/brisk-vm-db-1.x.scope\n"), unit);
        let user = "0::/user.slice/user-1000.slice/user@1000.service/brisk.slice/\
                    brisk-vm-db-1.x.scope\n";
        assert_eq!(own(user), unit);
        assert_eq!(own("0::/user.slice/user-0.slice/session-3.scope\n"), None);
        assert_eq!(own("0::/\n"), None);
        assert_eq!(own(""), None);
    }
}
