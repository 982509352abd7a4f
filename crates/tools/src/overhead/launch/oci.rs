//! Containers of OCI runtimes, whose root is the host's, read-only. Pure.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};

use super::start::{Launch, Place};

/// Where the bundle of a container has its root.
const ROOT: &str = "root";

/// Mounts the host's root at `$1`, with all that is mounted below it, read-only, and becomes the
/// rest of the words. The kernel cannot make `/` itself the root of a container (pivot_root(2));
/// the mount namespace is its own, so that nobody else sees these mounts. A mount that cannot be
/// made read-only is left out. `/proc/self/mountinfo` has spaces as `\040` (proc_pid_mountinfo(5)).
pub(super) const WITH_ROOT: &str = "\
root=$1; shift; mount --rbind / \"$root\" || exit; \
while read -r _ _ _ _ p o _; do case $p in \"$root\" | \"$root\"/*) \
p=$(printf %b \"$p\"); mount -o \"remount,bind,$o,ro\" \"$p\" || umount -l \"$p\" || exit;; \
esac; done </proc/self/mountinfo; exec \"$@\"";

/// A container of runc.
pub(super) fn runc(place: &Place<'_>) -> Launch {
    Launch {
        makes_group: place.group.is_some(),
        ..container("runc", &[], place, place.group)
    }
}

/// A container of gVisor's runsc, with further global options of runsc.
pub(super) fn gvisor(options: &[String], place: &Place<'_>) -> Launch {
    // Its own groups are of version 1 or need controllers. What it starts stays in the group that
    // it is started in.
    let fixed = ["--network=none", "--ignore-cgroups"];
    let fixed = fixed.into_iter().map(str::to_owned);
    let options: Vec<String> = fixed.chain(options.iter().cloned()).collect();
    container("runsc", &options, place, None)
}

fn container(runtime: &str, options: &[String], place: &Place<'_>, group: Option<&str>) -> Launch {
    let words = |command: &[&str]| {
        let mut words: Vec<OsString> = vec![runtime.into(), "--root".into()];
        words.push(place.directory.join("state").into());
        words.extend(options.iter().map(OsString::from));
        words.extend(command.iter().map(OsString::from));
        words
    };
    let mut run: Vec<OsString> = Vec::new();
    run.extend(["unshare", "--mount", "sh", "-c", WITH_ROOT, "sh"].map(OsString::from));
    run.push(place.directory.join(ROOT).into());
    run.extend(words(&["run", "--bundle"]));
    run.extend([place.directory.into(), OsString::from(place.id)]);
    let config = place.directory.join("config.json");
    Launch {
        directories: std::iter::once(place.directory.join(ROOT))
            .chain(place.disk.map(Path::to_owned))
            .collect(),
        files: vec![(config, bundle(group, place).to_string().into_bytes(), 0o600)],
        cleanup: Some(words(&["delete", "--force", place.id])),
        ..Launch::of(run)
    }
}

/// The bundle's configuration (`config.md` of the OCI runtime specification).
fn bundle(group: Option<&str>, place: &Place<'_>) -> Value {
    let mount = |destination: &str, kind: &str, options: &[&str]| {
        json!({
            "destination": destination, "type": kind, "source": kind, "options": options,
        })
    };
    // Without a size, each may take half of the host's memory (tmpfs(5)).
    let size = place.limit.map(|limit| format!("size={limit}"));
    let mut in_memory = vec!["nosuid", "nodev", "mode=1777"];
    in_memory.extend(size.as_deref());
    let namespaces = ["pid", "ipc", "uts", "mount", "network"];
    let namespaces = namespaces.map(|kind| json!({ "type": kind }));
    let mut mounts = vec![
        mount("/proc", "proc", &[]),
        mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755"]),
        mount(
            "/dev/pts",
            "devpts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666"],
        ),
        mount("/dev/shm", "tmpfs", &in_memory),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/tmp", "tmpfs", &in_memory),
    ];
    mounts.extend(place.disk.map(|disk| {
        json!({
            "destination": "/var/tmp", "type": "bind", "source": disk.to_string_lossy(),
            "options": ["bind", "nosuid", "nodev", "rw"],
        })
    }));
    let mut linux = json!({ "namespaces": namespaces });
    if let Some(group) = group {
        linux["cgroupsPath"] = group.into();
    }
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["sh"],
            "cwd": "/",
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "noNewPrivileges": true,
        },
        "root": { "path": ROOT, "readonly": true },
        "hostname": "brisk",
        "mounts": mounts,
        "linux": linux,
    })
}
