//! Whether something stops the watchdog after a restart: else it would reset a machine that has come up.

use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::boot_entries::words;
use brisk_host::{files, units};

use super::watchdog::Dog;
use crate::reboot::Target;
use crate::reboot::device::device_path;

/// Services that note how a boot goes and stop the watchdog, with what they call brisk for.
const SERVICES: [(&str, &str); 2] = [
    ("brisk-reboot-early.service", "reboot note up"),
    ("brisk-reboot.service", "reboot note after"),
];
/// What enables them.
const ENABLE: &str = "sudo systemctl enable brisk-reboot.service brisk-reboot-early.service";
/// Words of the command line that name the root, and what of it.
const OF_ROOT: [&str; 2] = ["root", "rootflags"];
/// Bytes of a list of modules that are read.
const LONGEST: u64 = 4 << 20;

/// Why nothing would stop the watchdog after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unattended {
    /// A brisk service would not run.
    Service(String),
    /// The root is not known to be the one that runs, which has these services.
    Root(String),
    /// The new kernel is not known to have the driver of the watchdog.
    Driver(String),
}

impl Unattended {
    /// The reason why nothing would stop the watchdog after a restart of the system below `root` into
    /// a target; none if something would, as far as files say.
    #[must_use]
    pub fn find(root: &Path, target: &Target, dog: Option<&Dog>) -> Option<Self> {
        let line = |path: &str| {
            let text = files::text(&root.join(path)).unwrap_or_default();
            text.trim().to_owned()
        };
        let service = SERVICES
            .iter()
            .find_map(|(name, command)| units::obstacle(root, name, command, &target.cmdline))
            .map(Self::Service);
        let running = line("proc/cmdline");
        let release = line("proc/sys/kernel/osrelease");
        service
            .or_else(|| other_root(root, &target.cmdline, &running).map(Self::Root))
            .or_else(|| without_driver(root, target, &release, dog?).map(Self::Driver))
    }

    /// The reason, a sentence without its end.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Service(text) | Self::Root(text) | Self::Driver(text) => text,
        }
    }

    /// What to try.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Service(text) if text.ends_with("is masked") => {
                "sudo systemctl unmask brisk-reboot.service brisk-reboot-early.service, and enable them"
            }
            Self::Service(text) if text.ends_with("is not installed") => {
                "install brisk as a package or by make install, and sudo systemctl enable brisk-reboot.service"
            }
            Self::Service(text) if text.contains("enabled") => ENABLE,
            Self::Service(_) => "systemctl cat brisk-reboot.service brisk-reboot-early.service",
            Self::Root(_) => "compare the two: findmnt /, blkid",
            Self::Driver(_) => {
                "see that somebody can reset the machine, or start a kernel that has the driver"
            }
        }
    }
}

/// The reason if the root of a command line is not known to be the one that runs.
fn other_root(root: &Path, cmdline: &str, running: &str) -> Option<String> {
    OF_ROOT.into_iter().find_map(|name| {
        let [new, old] = [cmdline, running].map(|line| last(line, name));
        let device = |value: Option<&str>| device(root, value?);
        let is_same = new == old || name == "root" && device(new).is_some() && device(new) == device(old);
        let shown = |value: Option<&str>| value.map_or(format!("no {name}="), |it| format!("{name}={it}"));
        (!is_same).then(|| {
            format!(
                "the command line has {}, and the running kernel's {}: whether brisk's services are \
                 enabled there is not known",
                shown(new),
                shown(old)
            )
        })
    })
}

/// The last value of a word.
fn last<'a>(cmdline: &'a str, name: &str) -> Option<&'a str> {
    let words = words(cmdline).into_iter().rev();
    let mut values = words.filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values.next()
}

/// The device that a root is, with links followed; none if it is not there.
fn device(root: &Path, name: &str) -> Option<PathBuf> {
    fs::canonicalize(root.join(device_path(name)?)).ok()
}

/// The reason if the kernel of a target is not known to have the driver of a watchdog.
fn without_driver(root: &Path, target: &Target, running: &str, dog: &Dog) -> Option<String> {
    let name = dog.module.as_deref().or(dog.driver.as_deref());
    let blocked = last(&target.cmdline, "module_blacklist").unwrap_or_default();
    let is_it = |it: &str| name.is_some_and(|name| normal(it) == normal(name));
    if blocked.split(',').any(is_it) {
        return Some(format!(
            "the command line has module_blacklist={blocked}, which has the driver of the watchdog"
        ));
    }
    if !running.is_empty() && target.release == running {
        return None;
    }
    let directory = root.join("lib/modules").join(&target.release);
    let has = |list: &str| {
        let text = files::text_within(&directory.join(list), LONGEST).unwrap_or_default();
        text.lines().any(|line| {
            let path = line.split(':').next().unwrap_or_default();
            let file = path.rsplit('/').next().unwrap_or_default();
            file.split_once(".ko").is_some_and(|(stem, _)| is_it(stem))
        })
    };
    let is_plain = !target.release.is_empty() && !target.release.contains('/');
    let has_it = is_plain && (has("modules.dep") || has("modules.builtin"));
    (!has_it).then(|| {
        format!(
            "the kernel {} is not known to have the driver of the watchdog, {}",
            match &*target.release {
                "" => "that is to be started",
                release => release,
            },
            name.unwrap_or("whose name is not known either")
        )
    })
}

fn normal(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a tree.
    fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn target(release: &str, cmdline: &str) -> Target {
        Target {
            release: release.to_owned(),
            kernel: "/boot/vmlinuz".into(),
            initrds: Vec::new(),
            cmdline: cmdline.to_owned(),
            is_uki: false,
        }
    }

    #[test]
    fn a_root_that_may_be_another_one_is_no_known_one() {
        let root = tempfile::tempdir().unwrap();
        file(root.path(), "dev/vda1", "");
        file(root.path(), "dev/vda2", "");
        fs::create_dir_all(root.path().join("dev/disk/by-uuid")).unwrap();
        std::os::unix::fs::symlink("../../vda1", root.path().join("dev/disk/by-uuid/5f3c"))
            .unwrap();
        for (new, old, is_other) in [
            (
                "root=UUID=5f3c ro",
                "BOOT_IMAGE=/x root=UUID=5f3c quiet",
                false,
            ),
            ("root=/dev/vda1", "root=UUID=5f3c", false),
            ("root=/dev/vda2", "root=UUID=5f3c", true),
            ("root=UUID=gone", "root=UUID=lost", true),
            ("ro", "ro", false),
            ("ro", "root=UUID=5f3c", true),
            (
                "root=UUID=5f3c rootflags=subvol=@old",
                "root=UUID=5f3c rootflags=subvol=@",
                true,
            ),
        ] {
            let found = other_root(root.path(), new, old);
            assert_eq!(found.is_some(), is_other, "{new} {old}: {found:?}");
        }
    }

    #[test]
    fn a_kernel_without_the_driver_is_told() {
        let root = tempfile::tempdir().unwrap();
        file(
            root.path(),
            "lib/modules/6.12-amd64/modules.dep",
            "kernel/drivers/watchdog/iTCO_wdt.ko.xz: kernel/drivers/watchdog/watchdog.ko.xz\n\
             kernel/drivers/watchdog/sp5100-tco.ko.xz:\n",
        );
        file(root.path(), "lib/modules/6.12-cloud-amd64/modules.dep", "");
        file(
            root.path(),
            "lib/modules/6.12-cloud-amd64/modules.builtin",
            "kernel/drivers/char/ipmi/ipmi_watchdog.ko\n",
        );
        let dog = |module: Option<&str>, driver: Option<&str>| Dog {
            name: "watchdog0".to_owned(),
            identity: String::new(),
            longest: None,
            module: module.map(str::to_owned),
            driver: driver.map(str::to_owned),
            stays: true,
        };
        for (release, cmdline, module, driver, has) in [
            ("6.12-amd64", "", Some("iTCO_wdt"), None, true),
            ("6.12-amd64", "", Some("sp5100_tco"), None, true),
            ("6.12-amd64", "", Some("i6300esb"), None, false),
            ("6.12-amd64", "", None, Some("sp5100-tco"), true),
            ("6.12-amd64", "", None, None, false),
            ("6.12-cloud-amd64", "", Some("iTCO_wdt"), None, false),
            ("6.12-cloud-amd64", "", Some("ipmi_watchdog"), None, true),
            ("6.1-amd64", "", Some("i6300esb"), None, true),
            ("6.1-amd64", "", None, None, true),
            (
                "6.1-amd64",
                "module_blacklist=nouveau,i6300esb",
                Some("i6300esb"),
                None,
                false,
            ),
            ("", "", Some("iTCO_wdt"), None, false),
        ] {
            let target = target(release, cmdline);
            let found = without_driver(root.path(), &target, "6.1-amd64", &dog(module, driver));
            assert_eq!(
                found.is_none(),
                has,
                "{release} {cmdline} {module:?}: {found:?}"
            );
        }
    }
}
