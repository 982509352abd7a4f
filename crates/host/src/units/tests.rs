//! Trees as installations and administrators leave them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::{are_there, obstacle};

const SERVICE: &str = "brisk-reboot.service";
const COMMAND: &str = "reboot note after";
const UNITS: &str = "usr/lib/systemd/system";

/// Part of the reason, and what brings it about.
type Case = (&'static str, fn(&System));

/// A system on which a service is installed and enabled.
struct System(TempDir);

impl System {
    fn new() -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        let unit = "# Concludes.\n[Unit]\nConditionPathExists=!/proc/vmcore\n[Service]\n\
                    Type=oneshot\nExecStart=-/usr/bin/brisk reboot note after\n\
                    ExecStop=-/usr/bin/brisk reboot note going-down\n";
        for (name, text) in [
            (SERVICE, unit),
            ("graphical.target", "[Unit]\nRequires=multi-user.target\n"),
            ("multi-user.target", "[Unit]\nRequires=basic.target\n"),
            ("basic.target", "[Unit]\nRequires=sysinit.target\n"),
            ("sysinit.target", "[Unit]\nConflicts=emergency.target\n"),
            ("rescue.target", "[Unit]\nRequires=sysinit.target\n"),
            ("emergency.target", "[Unit]\n"),
        ] {
            system.file(&format!("{UNITS}/{name}"), text);
        }
        system.link(&format!("{UNITS}/default.target"), "graphical.target");
        system.enable("etc/systemd/system", "multi-user.target");
        system.file("usr/bin/brisk", "#!/bin/sh\n");
        system.mode("usr/bin/brisk", 0o755);
        system
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.root().join(path)).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        let path = self.root().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// What `systemctl enable` makes, in a directory.
    fn enable(&self, directory: &str, target: &str) {
        let link = format!("{directory}/{target}.wants/{SERVICE}");
        self.link(&link, &format!("/{UNITS}/{SERVICE}"));
    }

    fn disable(&self) {
        self.remove(&format!(
            "etc/systemd/system/multi-user.target.wants/{SERVICE}"
        ));
    }

    fn obstacle(&self, cmdline: &str) -> Option<String> {
        obstacle(self.root(), SERVICE, COMMAND, cmdline)
    }
}

#[test]
fn an_enabled_service_runs() {
    let system = System::new();
    assert_eq!(system.obstacle("root=/dev/vda1 quiet"), None);
    assert!(are_there(system.root()));
    assert!(!are_there(&system.root().join("usr/bin")));
}

#[test]
fn whatever_keeps_a_service_from_running_is_named() {
    let not_enabled = "is not enabled: nothing that default.target reaches wants it";
    let cases: [Case; 18] = [
        (not_enabled, System::disable),
        (
            "is enabled below /run, until this machine goes down",
            |it| {
                it.disable();
                it.enable("run/systemd/system", "multi-user.target");
            },
        ),
        ("is masked", |it| {
            it.link("etc/systemd/system/brisk-reboot.service", "/dev/null")
        }),
        ("is masked", |it| {
            it.file("etc/systemd/system/brisk-reboot.service", "")
        }),
        ("is not installed", |it| {
            it.remove(&format!("{UNITS}/{SERVICE}"))
        }),
        // Its package is gone, and a link is left.
        ("is not installed", |it| {
            it.remove(&format!("{UNITS}/{SERVICE}"));
            it.link(
                "etc/systemd/system/brisk-reboot.service",
                "/opt/gone.service",
            );
        }),
        ("starts /usr/bin/brisk, which is not there", |it| {
            it.remove("usr/bin/brisk")
        }),
        (
            "starts /usr/bin/brisk, which is not there or no program",
            |it| {
                it.mode("usr/bin/brisk", 0o644);
            },
        ),
        ("does not start brisk reboot note after", |it| {
            let drop_in = "[Service]\nExecStart=\nExecStart=/bin/true\n";
            it.file(
                "etc/systemd/system/brisk-reboot.service.d/off.conf",
                drop_in,
            );
        }),
        ("a condition: ConditionACPower=true", |it| {
            let drop_in = "[Unit]\nConditionACPower=true\n";
            it.file(
                "usr/lib/systemd/system/brisk-.service.d/power.conf",
                drop_in,
            );
        }),
        // The link is in a target that this machine does not start.
        (not_enabled, |it| {
            it.disable();
            it.enable("etc/systemd/system", "custom.target");
        }),
        (not_enabled, |it| {
            it.link(
                "etc/systemd/system/default.target",
                "/usr/lib/systemd/system/rescue.target",
            )
        }),
        (not_enabled, |it| {
            it.disable();
            it.enable(UNITS, "multi-user.target");
            it.link(
                "etc/systemd/system/multi-user.target.wants/brisk-reboot.service",
                "/dev/null",
            );
        }),
        (not_enabled, |it| {
            it.link("etc/systemd/system/multi-user.target", "/dev/null")
        }),
        ("there is no default.target", |it| {
            it.link("etc/systemd/system/default.target", "gone.target");
        }),
        ("there is no default.target", |it| {
            it.link("etc/systemd/system/default.target", "default.target");
        }),
        ("there is no default.target", |it| {
            it.remove(&format!("{UNITS}/default.target"));
        }),
        // A preset enables it at the first boot, or not at all.
        (not_enabled, |it| {
            it.disable();
            it.file(
                "usr/lib/systemd/system-preset/90-brisk.preset",
                "enable brisk-*\n",
            );
        }),
    ];
    for (number, (words, change)) in cases.into_iter().enumerate() {
        let system = System::new();
        change(&system);
        let found = system.obstacle("quiet").unwrap_or_default();
        assert!(found.contains(words), "{number}: {words}: {found:?}");
    }
}

#[test]
fn whatever_enables_a_service_is_found() {
    let cases: [fn(&System); 8] = [
        |it| it.enable(UNITS, "multi-user.target"),
        |it| it.enable("etc/systemd/system", "sysinit.target"),
        |it| it.enable("etc/systemd/system", "graphical.target"),
        |it| it.enable("etc/systemd/system", "default.target"),
        // An alias, which leads nowhere as a path.
        |it| {
            it.link("etc/systemd/system/default.target", "multi-user.target");
            it.enable("etc/systemd/system", "multi-user.target");
        },
        |it| {
            let drop_in = format!("[Unit]\nWants=other.service \\\n  {SERVICE}\n");
            it.file(
                "etc/systemd/system/multi-user.target.d/brisk.conf",
                &drop_in,
            );
        },
        |it| {
            it.link(
                &format!("etc/systemd/system/multi-user.target.requires/{SERVICE}"),
                "x",
            )
        },
        |it| {
            it.link(
                "etc/systemd/system/default.target",
                "/etc/systemd/system/kiosk.target",
            );
            it.file(
                "etc/systemd/system/kiosk.target",
                "[Unit]\nRequires=basic.target\n",
            );
            it.enable("etc/systemd/system", "kiosk.target");
        },
    ];
    for (number, change) in cases.into_iter().enumerate() {
        let system = System::new();
        system.disable();
        change(&system);
        assert_eq!(system.obstacle(""), None, "{number}");
    }
    // One in /etc comes before that of the package.
    let system = System::new();
    system.remove("usr/bin/brisk");
    system.file(
        "etc/systemd/system/brisk-reboot.service",
        "[Service]\nExecStart=/opt/brisk reboot note after\n",
    );
    system.file("opt/brisk", "");
    system.mode("opt/brisk", 0o755);
    assert_eq!(system.obstacle(""), None);
    // A mask below /run is gone at the next boot.
    let system = System::new();
    system.link("run/systemd/system/brisk-reboot.service", "/dev/null");
    assert_eq!(system.obstacle(""), None);
}

#[test]
fn the_command_line_counts() {
    let system = System::new();
    system.file("usr/lib/systemd/systemd", "");
    system.link("sbin/init", "/usr/lib/systemd/systemd");
    system.file("bin/bash", "");
    for (cmdline, words) in [
        ("single", Some("rescue.target")),
        (
            "quiet systemd.unit=emergency.target",
            Some("emergency.target"),
        ),
        ("rescue 3", None),
        (
            "systemd.unit=rescue.target systemd.wants=brisk-reboot.service",
            None,
        ),
        ("rd.systemd.unit=rescue.target", None),
        ("systemd.mask=brisk-reboot.service", Some("systemd.mask=")),
        ("systemd.mask=other.service", None),
        ("init=/bin/bash", Some("init=/bin/bash")),
        ("init=/bin/bash init=/sbin/init", None),
        ("init=/nix/store/abc-nixos/init", None),
        ("rdinit=/bin/bash", None),
    ] {
        let found = system.obstacle(cmdline);
        assert_eq!(found.is_some(), words.is_some(), "{cmdline}: {found:?}");
        let found = found.unwrap_or_default();
        assert!(
            found.contains(words.unwrap_or_default()),
            "{cmdline}: {found}"
        );
    }
}
