//! The command line that starts a shell in a target, and the files that it needs. Pure.

use std::ffi::OsString;
use std::path::Path;

use brisk_host::cpu;

use super::target::{Engine, Kind, Via};

mod oci;
pub(super) mod qemu;
mod start;
pub(super) mod uml;

pub(super) use start::{Channel, Launch, Place};

/// Programs that a kind of target needs, each with the Debian package that has it.
pub(super) fn needs(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Host | Kind::Command(_) | Kind::Brisk(_) | Kind::Vm(_) | Kind::Qemu(_) => &[],
        Kind::Runc => &[("runc", "runc"), ("unshare", "util-linux")],
        Kind::Gvisor(_) => &[("runsc", "runsc"), ("unshare", "util-linux")],
        Kind::Uml(_) => &[("linux.uml", "user-mode-linux")],
        Kind::Libvirt { via, .. } => match via {
            Via::Console | Via::Agent => &[("virsh", "libvirt-clients")],
            Via::Ssh(_) => &[("virsh", "libvirt-clients"), ("ssh", "openssh-client")],
        },
        Kind::Container { engine, .. } => match engine {
            Engine::Podman => &[("podman", "podman")],
            Engine::Docker => &[("docker", "docker.io")],
        },
    }
}

/// Plans the start of a target.
pub(super) fn launch(kind: &Kind, place: &Place<'_>) -> Launch {
    match kind {
        Kind::Host => Launch::of(vec!["sh".into()]),
        Kind::Command(prefix) => {
            let prefix = prefix.iter().map(OsString::from);
            Launch::of(prefix.chain(["sh".into()]).collect())
        }
        Kind::Container {
            engine,
            options,
            image,
        } => container(*engine, options, image, place),
        Kind::Runc => oci::runc(place),
        Kind::Gvisor(options) => oci::gvisor(options, place),
        Kind::Uml(options) => uml::launch(options, place),
        Kind::Brisk(options) => Launch {
            directories: place.disk.map(Path::to_owned).into_iter().collect(),
            ..Launch::of(brisk(options, place))
        },
        Kind::Qemu(words) => qemu::launch(words),
        Kind::Libvirt { via, .. } => match via {
            // Its console is open already: there is no program.
            Via::Console => Launch {
                channel: Channel::Console,
                ..Launch::of(Vec::new())
            },
            Via::Agent => Launch {
                channel: Channel::ConsoleOfAgent,
                ..Launch::of(Vec::new())
            },
            Via::Ssh(host) => Launch::of(["ssh", "--", host, "sh"].map(OsString::from).into()),
        },
        Kind::Vm(name) => {
            let words = ["vm", "exec", "--no-tty", name, "--", "sh"].map(OsString::from);
            let brisk = place.brisk.into();
            Launch::of(std::iter::once(brisk).chain(words).collect())
        }
    }
}

fn container(engine: Engine, options: &[String], image: &str, place: &Place<'_>) -> Launch {
    let words = |words: &[&str]| -> Vec<OsString> {
        let program = std::iter::once(engine.program());
        let words = program.chain(words.iter().copied());
        words.map(OsString::from).collect()
    };
    // The daemon of an engine, or its monitor, starts the container: neither the processors nor the
    // group of the client are the container's.
    let set = format!("--cpuset-cpus={}", cpu::list(place.cpus));
    let mut run = words(&["run", "-i", "--rm", "--name", place.id, &set]);
    run.extend(options.iter().map(OsString::from));
    run.extend([image, "sh"].map(OsString::from));
    Launch {
        cleanup: Some(words(&["rm", "--force", place.id])),
        process: Some(words(&[
            "inspect",
            "--format",
            "{{.State.Pid}} {{.Id}}",
            place.id,
        ])),
        ..Launch::of(run)
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
        words.extend(["--cpus".into(), place.count.to_string().into()]);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::target::Target;
    use super::*;

    fn planned(target: &str) -> Launch {
        let target: Target = format!("x={target}").parse().unwrap();
        let place = Place {
            directory: Path::new("/run/place"),
            id: "brisk-7",
            cpus: &[1, 3],
            count: 2,
            brisk: Path::new("/bin/brisk"),
            group: Some("/own/brisk-7"),
            disk: None,
            limit: Some(1 << 30),
        };
        launch(&target.kind, &place)
    }

    #[test]
    fn each_kind_is_started_by_a_command() {
        let line = |target: &str| {
            let words = planned(target).words;
            let words = words.iter().map(|word| brisk_host::program::quote(word));
            let words: Vec<_> = words.collect();
            let script = brisk_host::program::quote(oci::WITH_ROOT.as_ref());
            words.join(" ").replace(&script, "SCRIPT")
        };
        let lines: Vec<_> = [
            "host",
            "command:ssh 'a b' --",
            "runc:",
            "gvisor:ptrace",
            "podman:gcc:12",
            "docker:--memory 1g gcc",
            "uml:mem=2G",
            "brisk:--memory 1G",
            "brisk:--cpus=4",
            "vm:shop",
            "libvirt:web,via=ssh:root@web",
        ]
        .map(line)
        .into();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        sh
        ssh 'a b' -- sh
        unshare --mount sh -c SCRIPT sh /run/place/root runc --root /run/place/state run --bundle /run/place brisk-7
        unshare --mount sh -c SCRIPT sh /run/place/root runsc --root /run/place/state --network=none --ignore-cgroups --platform=ptrace run --bundle /run/place brisk-7
        podman run -i --rm --name brisk-7 --cpuset-cpus=1,3 gcc:12 sh
        docker run -i --rm --name brisk-7 --cpuset-cpus=1,3 --memory 1g gcc sh
        linux.uml mem=1G root=/dev/root rootfstype=hostfs rootflags=/ ro quiet con=null ssl0=fd:0,fd:1 umid=guest uml_dir=/run/place init=/run/place/init mem=2G
        /bin/brisk run --cpus 2 --memory 1G -- sh
        /bin/brisk run --cpus=4 -- sh
        /bin/brisk vm exec --no-tty shop -- sh
        ssh -- root@web sh
        "#);
    }

    #[test]
    fn a_container_of_runc_cannot_write_to_the_host_and_has_its_group() {
        let launch = planned("runc:");
        let (path, text, _) = &launch.files[0];
        assert_eq!(path, Path::new("/run/place/config.json"));
        let bundle: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert_eq!(bundle["root"]["readonly"], true);
        assert_eq!(bundle["linux"]["cgroupsPath"], "/own/brisk-7");
        assert!(launch.makes_group);
        // It cannot fill the host's memory.
        for place in ["/dev/shm", "/tmp"] {
            let mut mounts = bundle["mounts"].as_array().unwrap().iter();
            let mount = mounts.find(|mount| mount["destination"] == place).unwrap();
            let options = mount["options"].as_array().unwrap();
            assert!(options.contains(&"size=1073741824".into()), "{mount}");
        }
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
