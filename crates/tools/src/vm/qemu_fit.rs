//! Whether the QEMU that is installed can continue a guest that another one has saved.
//!
//! QEMU keeps the state of a versioned machine type loadable by later releases, and by all
//! distribution updates of one release (docs/devel/migration/main.rst, "Backwards compatibility").
//! So an image is resumed by any QEMU of its release with its machine type, and by others only where
//! the administrator wants that: a type without versions (microvm) has no such promise between
//! releases, and devices may differ in details.

use std::path::{Path, PathBuf};

use brisk_vm::cache::Cache;
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::{Capabilities, Firmware, Machine, USUAL, VmConfig, choose, release};
use serde_json::json;

use super::error::Error;
use super::paths::VmPaths;
use super::process;
use super::running::Running;
use brisk_host::chain;

/// First QEMU that continues a guest from a file.
pub(super) const FIRST: (u32, u32) = (8, 2);

/// What may be expected of a QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is the one that saved the guest.
    Same,
    /// It is of the same release.
    Alike,
    /// It is of another release, which may continue the guest: the reason to ask.
    Doubtful(String),
    /// It cannot continue the guest.
    Impossible(String),
}

impl Fit {
    /// Why the guest is not resumed, and what to try.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Same | Self::Alike => String::new(),
            Self::Doubtful(reason) => format!(
                "{reason}; install the QEMU that made it, or try this one with brisk vm resume \
                 --accept-qemu"
            ),
            Self::Impossible(reason) => {
                format!("{reason}; install the QEMU that made it, or a later one")
            }
        }
    }
}

/// The QEMU that is installed for a guest: where it was, or if nothing is there, the usual one.
///
/// # Errors
/// If there is none, or it cannot be asked.
pub(super) fn installed(saved: &Running, cache: &Cache) -> Result<(PathBuf, Capabilities), String> {
    let program = &saved.machine.program;
    if program.exists() {
        let capabilities = Capabilities::of(program, cache).map_err(|error| chain(&error))?;
        return Ok((program.clone(), capabilities));
    }
    let chosen = choose(USUAL, cache).map_err(|error| chain(&error))?;
    Ok((chosen.path, chosen.capabilities))
}

/// Compares an installed QEMU with the one of this version and package that saved a guest.
pub(super) fn fit(saved: &Running, installed: &Capabilities) -> Fit {
    let now = &installed.package;
    let what = format!("it was made by QEMU {}, and this is {now}", saved.qemu);
    if installed.version < FIRST {
        let (major, minor) = FIRST;
        return Fit::Impossible(format!(
            "{what}, which is older than {major}.{minor} and continues no guest from a file"
        ));
    }
    let wanted = machine_type(&saved.machine);
    if !installed.machines.contains(&wanted) {
        return Fit::Impossible(format!("{what}, which has no machine type {wanted}"));
    }
    if saved.qemu == *now {
        return Fit::Same;
    }
    if saved.machine.version != installed.version {
        return Fit::Doubtful(format!("{what}, another release"));
    }
    match saved.machine.machine_version {
        // Where no version is known, the name must mean that of the release, as it did.
        None if installed.versioned(saved.machine.machine.name()) != wanted => {
            Fit::Doubtful(format!(
                "{what}, whose {} is not {wanted}",
                saved.machine.machine.name()
            ))
        }
        _ => Fit::Alike,
    }
}

/// Has a guest find its firmware, which QEMU opens although the guest is past it, where an update has
/// moved that.
pub(super) fn replace_firmware(saved: &mut Running, installed: &Capabilities) {
    if let (Firmware::Qboot(path), Some(qboot)) = (&mut saved.machine.firmware, &installed.qboot) {
        if !path.exists() {
            path.clone_from(qboot);
        }
    }
}

/// Has a guest that another QEMU saved continue in this one.
pub(super) fn adopt(saved: &mut Running, installed: &Capabilities) {
    let wanted = machine_type(&saved.machine);
    if wanted != saved.machine.machine.name() {
        saved.machine.machine_version = Some(wanted);
    }
    saved.qemu.clone_from(&installed.package);
    saved.machine.version = installed.version;
}

/// Checks that the QEMU which was started for a guest is of the release that was compared: a script
/// starts what it likes, and facts are cached by the script.
///
/// # Errors
/// If it is of another release, or does not say.
pub(super) fn check_started(
    paths: &VmPaths,
    saved: &mut Running,
    qmp: &mut Control<'_>,
) -> Result<(), Error> {
    let (version, package) = release(&qmp.execute("query-version", &json!(null))?);
    if package == saved.qemu {
        return Ok(());
    }
    forget(&saved.machine.program);
    if version != saved.machine.version {
        return Err(Error::state(
            &paths.name,
            format!(
                "was not resumed: {} is QEMU {package} now, and was {} when it was last asked",
                saved.machine.program.display(),
                saved.qemu
            ),
            "try again",
        ));
    }
    paths.note(&format!(
        "QEMU {package} continues what QEMU {} saved",
        saved.qemu
    ));
    saved.qemu = package;
    saved.save(paths)
}

/// Records which QEMU runs a guest that has just been booted.
pub(super) fn note_started(paths: &VmPaths, running: &mut Running) -> Result<(), Error> {
    let stream = process::connect(paths)?.ok_or_else(|| Error::has_ended(&paths.name))?;
    let answer = process::control(&stream)?.execute("query-version", &json!(null))?;
    let (version, package) = release(&answer);
    if package != running.qemu {
        forget(&running.machine.program);
        running.machine.version = version;
        running.qemu = package;
    }
    Ok(())
}

/// Has a program asked again that turned out to be another one.
fn forget(program: &Path) {
    // Where there is no cache, nothing is kept in it.
    if let Ok(cache) = Cache::open() {
        Capabilities::forget(program, &cache);
    }
}

/// The versioned machine type of a guest; as QEMU names it where an older brisk did not record it.
fn machine_type(machine: &VmConfig) -> String {
    let (major, minor) = machine.version;
    machine
        .machine_version
        .clone()
        .unwrap_or_else(|| match machine.machine {
            Machine::Microvm { .. } => machine.machine.name().to_owned(),
            Machine::Q35 => format!("pc-q35-{major}.{minor}"),
            Machine::Pc { .. } => format!("pc-i440fx-{major}.{minor}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(machine: Machine, machine_version: Option<&str>) -> Running {
        let all = json!({
            "machine": {
                "program": "/usr/bin/qemu-system-x86_64", "version": [10, 0], "machine": machine,
                "machine_version": machine_version, "firmware": "Default", "accelerator": "Tcg",
                "cpu": "max", "cpus": 1, "instructions": false, "memory_mib": 128, "ram": "Shared",
                "kernel": "/kernel", "initramfs": "/initramfs", "parameters": [], "state": null,
                "disks": [], "filesystems": [], "network": "None",
                "channels": { "Listening": { "ports": 4 } }, "firmware_log": false,
                "sandbox": true, "stopped": false, "exit_on_reset": true, "extra": [],
            },
            "unprivileged": null, "kernel": "6.1", "qemu": "10.0.2 Debian 1",
        });
        serde_json::from_value(all).unwrap()
    }

    fn qemu(version: (u32, u32), package: &str, machines: &[&str], q35: &str) -> Capabilities {
        let all = json!({
            "version": version, "package": package, "machines": machines, "aliases": { "q35": q35 },
            "devices": [], "qboot": null, "identities": [],
        });
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn an_update_of_the_release_fits_and_another_release_is_asked_about() {
        let q35 = &saved(Machine::Q35, Some("pc-q35-10.0"));
        let machines = ["pc-q35-10.0", "pc-q35-9.2", "microvm", "pc-i440fx-10.0"];
        let of = |version, package| qemu(version, package, &machines, "pc-q35-10.0");
        assert_eq!(fit(q35, &of((10, 0), "10.0.2 Debian 1")), Fit::Same);
        assert_eq!(fit(q35, &of((10, 0), "10.0.9 Debian 2")), Fit::Alike);
        for version in [(10, 1), (9, 2), (11, 0)] {
            let other = fit(q35, &of(version, "other"));
            assert!(matches!(other, Fit::Doubtful(_)), "{other:?}");
            assert!(other.advice().contains("--accept-qemu"));
        }
        let old = fit(q35, &of((7, 2), "7.2.22"));
        assert!(
            matches!(&old, Fit::Impossible(text) if text.contains("older than 8.2")),
            "{old:?}"
        );
        let lacks = qemu((12, 0), "12.0", &["pc-q35-12.0"], "pc-q35-12.0");
        let lacks = fit(q35, &lacks);
        let text = "no machine type pc-q35-10.0";
        assert!(
            matches!(&lacks, Fit::Impossible(why) if why.contains(text)),
            "{lacks:?}"
        );
        let microvm = &saved(Machine::Microvm { pcie: false }, None);
        assert_eq!(fit(microvm, &of((10, 0), "10.0.9 Debian 2")), Fit::Alike);
        assert!(matches!(
            fit(microvm, &of((10, 1), "10.1")),
            Fit::Doubtful(_)
        ));
    }

    #[test]
    fn firmware_that_has_moved_is_found() {
        let mut saved = saved(Machine::Microvm { pcie: false }, None);
        let mut now = qemu((10, 0), "10.0.9 Debian 2", &["microvm"], "q35");
        now.qboot = Some("/proc/self/exe".into());
        let firmware = |path: &str| Firmware::Qboot(path.into());
        for (before, after) in [
            (
                firmware("/nonexistent/qboot.rom"),
                firmware("/proc/self/exe"),
            ),
            (firmware("/proc/version"), firmware("/proc/version")),
            (Firmware::Default, Firmware::Default),
        ] {
            saved.machine.firmware = before;
            replace_firmware(&mut saved, &now);
            assert_eq!(saved.machine.firmware, after);
        }
    }

    #[test]
    fn an_image_of_an_older_brisk_is_of_the_type_that_the_name_meant() {
        let old = &mut saved(Machine::Q35, None);
        let machines = ["pc-q35-10.0", "pc-q35-vendor"];
        let same = qemu((10, 0), "10.0.9 Debian 2", &machines, "pc-q35-10.0");
        assert_eq!(fit(old, &same), Fit::Alike);
        // A distribution gave the name to a type of its own.
        let vendor = qemu((10, 0), "10.0.9 Vendor", &machines, "pc-q35-vendor");
        assert!(matches!(fit(old, &vendor), Fit::Doubtful(_)));
        adopt(old, &same);
        assert_eq!(old.machine.machine_version.as_deref(), Some("pc-q35-10.0"));
        assert_eq!(old.qemu, "10.0.9 Debian 2");
    }
}
