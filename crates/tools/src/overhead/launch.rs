//! The command line that starts a shell in a target, and the files that it needs. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use brisk_host::cpu;
use serde_json::{Value, json};

use super::target::{Engine, Kind};

/// Where the bundle of a container has its root.
const ROOT: &str = "root";
/// Memory of user-mode Linux, unless its command line says otherwise.
const UML_MEMORY: &str = "mem=1G";

/// Where and on what a target runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// A directory of the target alone, on the host.
    pub(super) directory: &'a Path,
    /// Name of the target's containers and groups, unique on the host.
    pub(super) id: &'a str,
    /// Processors of the host.
    pub(super) cpus: &'a [usize],
    /// The program brisk.
    pub(super) brisk: &'a Path,
    /// Path of the group that a runtime of containers makes.
    pub(super) group: Option<&'a str>,
    /// A directory on a disk of the host that the target is to have as `/var/tmp`; it is made if
    /// the target does not see the host's. None if it is not needed.
    pub(super) disk: Option<&'a Path>,
}

/// What starts a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    /// The program and its arguments. The shell reads commands on standard input.
    pub(super) words: Vec<OsString>,
    /// Directories that have to be made before.
    pub(super) directories: Vec<PathBuf>,
    /// Files that have to be written before: path, content and mode.
    pub(super) files: Vec<(PathBuf, String, u32)>,
    /// What removes whatever is left when the target was killed.
    pub(super) cleanup: Option<Vec<OsString>>,
    /// Whether its program makes the group of [`Place::group`] itself.
    pub(super) makes_group: bool,
    /// Whether its shell reads a terminal, and sees the host's files. It answers the request 0 by
    /// itself when it can take more: what is written before is lost; and the terminal of user-mode
    /// Linux stops when much is written to it at once.
    pub(super) on_terminal: bool,
    /// Whether the kernel is to give its processes no huge pages.
    pub(super) has_small_pages: bool,
}

/// Programs that a kind of target needs, each with the Debian package that has it.
pub(super) fn needs(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Host | Kind::Command(_) | Kind::Brisk(_) => &[],
        Kind::Runc => &[("runc", "runc"), ("unshare", "util-linux")],
        Kind::Uml(_) => &[("linux.uml", "user-mode-linux")],
        Kind::Container { engine, .. } => match engine {
            Engine::Podman => &[("podman", "podman")],
            Engine::Docker => &[("docker", "docker.io")],
        },
    }
}

/// Plans the start of a target.
pub(super) fn launch(kind: &Kind, place: &Place<'_>) -> Launch {
    let plain = |words: Vec<OsString>| Launch {
        words,
        directories: Vec::new(),
        files: Vec::new(),
        cleanup: None,
        makes_group: false,
        on_terminal: false,
        has_small_pages: false,
    };
    match kind {
        Kind::Host => plain(vec!["sh".into()]),
        Kind::Command(prefix) => {
            let prefix = prefix.iter().map(OsString::from);
            plain(prefix.chain(["sh".into()]).collect())
        }
        Kind::Container { engine, image } => {
            let set = format!("--cpuset-cpus={}", cpu::list(place.cpus));
            let words = [
                engine.program(),
                "run",
                "-i",
                "--rm",
                "--name",
                place.id,
                &set,
            ];
            let words = words
                .into_iter()
                .chain([&**image, "sh"])
                .map(OsString::from);
            let remove = [engine.program(), "rm", "--force", place.id];
            Launch {
                cleanup: Some(remove.map(OsString::from).into()),
                ..plain(words.collect())
            }
        }
        Kind::Runc => runc(place),
        Kind::Uml(options) => uml(options, place),
        Kind::Brisk(options) => Launch {
            directories: place.disk.map(Path::to_owned).into_iter().collect(),
            ..plain(brisk(options, place))
        },
    }
}

fn brisk(options: &[String], place: &Place<'_>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![place.brisk.into(), "run".into()];
    let has = |name: &str| {
        let is = |word: &String| {
            let rest = word.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        options.iter().any(is)
    };
    if !has("--cpus") {
        words.extend(["--cpus".into(), place.cpus.len().to_string().into()]);
    }
    if let Some(disk) = place.disk {
        let mut share = disk.as_os_str().to_owned();
        share.push(":/var/tmp");
        words.extend(["--share".into(), share]);
    }
    words.extend(options.iter().map(OsString::from));
    words.extend(["--", "sh"].map(OsString::from));
    words
}

fn runc(place: &Place<'_>) -> Launch {
    let state = place.directory.join("state");
    let words = |command: &[&str]| {
        let mut words: Vec<OsString> = vec!["runc".into(), "--root".into(), state.clone().into()];
        words.extend(command.iter().map(OsString::from));
        words
    };
    // The kernel cannot make `/` itself the root of a container (pivot_root(2)): it is mounted once
    // more, where nobody else sees it.
    let mut run: Vec<OsString> = Vec::new();
    let script = "mount --bind / \"$1\" && shift && exec \"$@\"";
    run.extend(["unshare", "--mount", "sh", "-c", script, "sh"].map(OsString::from));
    run.push(place.directory.join(ROOT).into());
    run.extend(words(&["run", "--bundle"]));
    run.extend([place.directory.into(), OsString::from(place.id)]);
    let bundle = bundle(place);
    Launch {
        words: run,
        directories: std::iter::once(place.directory.join(ROOT))
            .chain(place.disk.map(Path::to_owned))
            .collect(),
        files: vec![(
            place.directory.join("config.json"),
            bundle.to_string(),
            0o600,
        )],
        cleanup: Some(words(&["delete", "--force", place.id])),
        makes_group: place.group.is_some(),
        on_terminal: false,
        has_small_pages: false,
    }
}

/// The bundle's configuration (`config.md` of the OCI runtime specification).
fn bundle(place: &Place<'_>) -> Value {
    let mount = |destination: &str, kind: &str, options: &[&str]| {
        json!({
            "destination": destination, "type": kind, "source": kind, "options": options,
        })
    };
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
        mount("/dev/shm", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
    ];
    mounts.extend(place.disk.map(|disk| {
        json!({
            "destination": "/var/tmp", "type": "bind", "source": disk.to_string_lossy(),
            "options": ["bind", "nosuid", "nodev", "rw"],
        })
    }));
    let mut linux = json!({ "namespaces": namespaces });
    if let Some(group) = place.group {
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

/// PID 1 of user-mode Linux: mounts, and a shell on the serial line that brisk reads and writes.
/// Debian's user-mode Linux has no initramfs and mounts devtmpfs by itself. A shell whose standard
/// error is no terminal is not interactive. At its end the kernel panics, and user-mode Linux ends.
const UML_INIT: &str = "\
#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TMPDIR=/dev/shm
[ -z \"$disk\" ] || mount -t hostfs -o \"$disk\" none /var/tmp
exec </dev/ttyS0 >/dev/ttyS0 2>/dev/null
stty raw -echo
echo \"$token-0 0\"
exec sh
";

fn uml(options: &[String], place: &Place<'_>) -> Launch {
    let init = place.directory.join("init");
    let mut words: Vec<OsString> = vec!["linux.uml".into(), UML_MEMORY.into()];
    let fixed = [
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "con=null",
        "ssl0=fd:0,fd:1",
        "umid=guest",
    ];
    words.extend(fixed.map(OsString::from));
    let assigned = |name: &str, path: &Path| {
        let mut word = OsString::from(name);
        word.push(path);
        word
    };
    words.push(assigned("uml_dir=", place.directory));
    words.push(assigned("init=", &init));
    words.extend(options.iter().map(OsString::from));
    let disk = place.disk.map(Path::to_string_lossy).unwrap_or_default();
    let text = UML_INIT.replace("$token", place.id).replace("$disk", &disk);
    Launch {
        words,
        directories: place.disk.map(Path::to_owned).into_iter().collect(),
        files: vec![(init, text, 0o700)],
        cleanup: None,
        makes_group: false,
        on_terminal: true,
        has_small_pages: false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::Target;
    use super::*;

    fn planned(target: &str) -> Launch {
        let target: Target = format!("x={target}").parse().unwrap();
        let place = Place {
            directory: Path::new("/run/place"),
            id: "brisk-7",
            cpus: &[1, 3],
            brisk: Path::new("/bin/brisk"),
            group: Some("/own/brisk-7"),
            disk: None,
        };
        launch(&target.kind, &place)
    }

    #[test]
    fn each_kind_is_started_by_a_command() {
        let line = |target: &str| {
            let words = planned(target).words;
            let words = words.iter().map(|word| brisk_host::program::quote(word));
            words.collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<_> = [
            "host",
            "command:ssh 'a b' --",
            "runc:",
            "podman:gcc:12",
            "docker:gcc",
            "uml:mem=2G",
            "brisk:--memory 1G",
            "brisk:--cpus=4",
        ]
        .map(line)
        .into();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        sh
        ssh 'a b' -- sh
        unshare --mount sh -c 'mount --bind / "$1" && shift && exec "$@"' sh /run/place/root runc --root /run/place/state run --bundle /run/place brisk-7
        podman run -i --rm --name brisk-7 --cpuset-cpus=1,3 gcc:12 sh
        docker run -i --rm --name brisk-7 --cpuset-cpus=1,3 gcc sh
        linux.uml mem=1G root=/dev/root rootfstype=hostfs rootflags=/ ro quiet con=null ssl0=fd:0,fd:1 umid=guest uml_dir=/run/place init=/run/place/init mem=2G
        /bin/brisk run --cpus 2 --memory 1G -- sh
        /bin/brisk run --cpus=4 -- sh
        "#);
    }

    #[test]
    fn a_container_of_runc_cannot_write_to_the_host_and_has_its_group() {
        let launch = planned("runc:");
        let (path, text, _) = &launch.files[0];
        assert_eq!(path, Path::new("/run/place/config.json"));
        let bundle: Value = serde_json::from_str(text).unwrap();
        assert_eq!(bundle["root"]["readonly"], true);
        assert_eq!(bundle["linux"]["cgroupsPath"], "/own/brisk-7");
        assert!(launch.makes_group);
        let words = [
            "runc",
            "--root",
            "/run/place/state",
            "delete",
            "--force",
            "brisk-7",
        ];
        assert_eq!(launch.cleanup.unwrap(), words.map(OsString::from));
    }
}
