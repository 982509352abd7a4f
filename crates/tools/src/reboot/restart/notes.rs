//! Notes that units take while the machine goes down and comes up.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use brisk_host::files;
use brisk_host::program::Program;
use brisk_host::sysfs;
use rustix::time::{ClockId, clock_gettime};

use super::boot::Boot;
use super::census::Census;
use super::conclude::{Conclusion, conclude};
pub use super::live::now;
use super::live::{is_going_down, systemctl};
use super::record::{Down, Record, Restart, Stage, Times};
use super::store::{Store, StoreError};

/// Memory of the kernel that panicked, in a kernel of kdump.
const CRASH: &str = "/proc/vmcore";
/// Seconds after which a kernel that panicked restarts the machine.
const PANIC: &str = "/proc/sys/kernel/panic";

/// Notes that the root's init runs, and loads the driver of a watchdog that runs on.
///
/// # Errors
/// If the note cannot be written.
pub fn up(store: &Store) -> Result<(), StoreError> {
    // The kernel of a crash dump, which starts without firmware, too.
    if Path::new(CRASH).exists() {
        return Ok(());
    }
    let boot = Boot::read(Path::new("/"));
    let Some(mut restart) = store.pending() else {
        return Ok(());
    };
    if restart.from.id == boot.id || boot.is_kexec != Some(true) {
        return Ok(());
    }
    if let Some(module) = restart
        .watch
        .as_ref()
        .and_then(|watch| watch.module.clone())
    {
        load_module(&module);
    }
    // A second kexec must not pass for the one that was asked for.
    if restart.up.is_some() || restart.stage < Stage::Restart {
        return Ok(());
    }
    restart.stage = Stage::Up;
    restart.up = Some(boot);
    store.set_pending(&restart)
}

/// Notes that the machine begins to go down, if it does: units also stop for other reasons.
///
/// # Errors
/// If the note cannot be written.
pub fn going_down(store: &Store) -> Result<(), StoreError> {
    note_down(store, |down| down.asked = Some(now()))
}

/// Notes that all services are stopped.
///
/// # Errors
/// If the note cannot be written.
pub fn down(store: &Store) -> Result<(), StoreError> {
    note_down(store, |down| down.at = Some(now()))
}

fn note_down(store: &Store, change: impl FnOnce(&mut Down)) -> Result<(), StoreError> {
    if is_going_down() != Some(true) {
        return Ok(());
    }
    let boot = Boot::read(Path::new("/"));
    let before = store.down().filter(|down| down.boot.id == boot.id);
    let mut note = before.unwrap_or_else(|| Down {
        boot,
        at: None,
        asked: None,
        target: String::new(),
    });
    let jobs = systemctl(&["list-jobs", "--no-legend", "--plain", "--no-pager"]);
    if let Some(target) = jobs.ok().as_deref().and_then(target) {
        note.target = target.to_owned();
    }
    change(&mut note);
    store.set_down(&note)
}

/// Target that jobs of systemd lead to.
fn target(jobs: &str) -> Option<&'static str> {
    let has = |unit: &str| {
        let words = jobs.lines().map(|line| line.split_whitespace());
        words
            .into_iter()
            .any(|mut words| words.any(|word| word == unit))
    };
    let targets = [
        ("kexec.target", "kexec"),
        ("soft-reboot.target", "soft-reboot"),
        ("reboot.target", "reboot"),
        ("poweroff.target", "poweroff"),
        ("halt.target", "halt"),
    ];
    let found = targets.into_iter().find(|(unit, _)| has(unit));
    found.map(|(_, name)| name)
}

/// Concludes what came of a restart, after this boot: disarms what watched over it, writes the
/// record, and bars what failed.
///
/// `vms` finds the names of VMs that run; it is called only if this boot is one after a restart.
///
/// # Errors
/// If something cannot be written; what can be is.
pub fn after(
    store: &Store,
    vms: impl FnOnce() -> Vec<String>,
) -> Result<Option<Conclusion>, StoreError> {
    let root = Path::new("/");
    let boot = Boot::read(root);
    let pending = store.pending();
    let down = store.down();
    if let Some(restart) = pending.as_ref().filter(|it| it.from.id != boot.id) {
        release(restart, &boot);
    }
    let seen = || {
        let times = times();
        settle();
        (times, census(vms()))
    };
    let conclusion = conclude(pending.as_ref(), down.as_ref(), &boot, seen);
    if let Some(conclusion) = &conclusion {
        keep(store, conclusion)?;
    }
    if down.is_some_and(|down| down.boot.id != boot.id) {
        store.clear_down()?;
    }
    Ok(conclusion)
}

/// Keeps a conclusion. What could not be barred is concluded again, by the unit or after the next
/// boot.
fn keep(store: &Store, conclusion: &Conclusion) -> Result<(), StoreError> {
    let barred = conclusion.barred.clone().map(|barred| store.bar(barred));
    let added = store.add(&conclusion.record);
    barred.unwrap_or(Ok(()))?;
    added.and(store.clear_pending())
}

/// What runs now; `vms` are the names of VMs that run.
#[must_use]
pub fn census(vms: Vec<String>) -> Census {
    Census {
        failed: failed_units(),
        vms,
        ..Census::of_devices(Path::new("/"))
    }
}

/// Counts once more what runs after a restart, if this is still the boot after it: drivers of slow
/// devices, links and VMs come later than the end of the boot.
pub fn look_again(history: &mut [Record], vms: impl FnOnce() -> Vec<String>) {
    let now = Boot::read(Path::new("/")).id;
    if let Some(last) = history.last_mut().filter(|last| last.to.id == now) {
        last.after = census(vms());
    }
}

/// Waits until udev has found drivers for the devices that it knows of.
fn settle() {
    if let Ok(udevadm) = Program::find("udevadm") {
        // Whether it took too long is seen by what has no driver.
        let _ = udevadm.args(["settle", "--timeout=60"]).run();
    }
}

/// Times of this boot.
fn times() -> Times {
    let monotonic = clock_gettime(ClockId::Boottime);
    let since = monotonic.tv_sec as f64 + monotonic.tv_nsec as f64 / 1e9;
    let kernel = now() - since;
    let of = |unit: &[&str], property: &str| {
        let property = format!("--property={property}");
        let words = [&["show", &*property, "--value"], unit].concat();
        let micros: f64 = systemctl(&words).ok()?.trim().parse().ok()?;
        (micros > 0.0).then(|| kernel + micros / 1e6)
    };
    Times {
        kernel: Some(kernel),
        userspace: of(&[], "UserspaceTimestampMonotonic"),
        up: of(&["multi-user.target"], "ActiveEnterTimestampMonotonic").or(Some(now())),
        ..Times::default()
    }
}

/// Units that have failed.
fn failed_units() -> Option<Vec<String>> {
    let words = [
        "list-units",
        "--failed",
        "--no-legend",
        "--plain",
        "--no-pager",
    ];
    let text = systemctl(&words).ok()?;
    let units = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Some(units.map(str::to_owned).collect())
}

fn load_module(module: &str) {
    // One that is no longer there has no watchdog to stop either; its limit says so soon enough.
    if let Ok(modprobe) = Program::find("modprobe") {
        let _ = modprobe.args(["--quiet", module]).run();
    }
}

/// Ends the watch over a restart.
fn release(restart: &Restart, now: &Boot) {
    let Some(watch) = &restart.watch else { return };
    let is_as_added = |panic: u32| {
        let text = files::text(Path::new(PANIC)).unwrap_or_default();
        text.trim() == panic.to_string()
    };
    if may_last(restart, now) && watch.panic.is_some_and(is_as_added) {
        // panic= of the command line was for this boot's start. sysctl.d(5) may have set another
        // value meanwhile, which stays.
        let _ = fs::write(PANIC, watch.panic_before.unwrap_or(0).to_string());
    }
    let runs = watch.watchdog.is_some() && may_last(restart, now) && can_be_stopped(Path::new("/"));
    if runs && !systemd_feeds() {
        // Magic Close: Documentation/watchdog/watchdog-api.rst. It fails if another program has the
        // device, which then feeds it.
        let device = OpenOptions::new().write(true).open("/dev/watchdog0");
        let _ = device.and_then(|mut device| device.write_all(b"V"));
    }
}

/// Whether this boot may have been started by the jump over which the watch was: the firmware starts
/// without it. To open a watchdog that does not run would start it.
fn may_last(restart: &Restart, now: &Boot) -> bool {
    restart.stage >= Stage::Restart && now.is_kexec != Some(false)
}

/// Whether the watchdog can be stopped: with `nowayout`, one that was opened runs for ever, while the
/// kernel feeds one that runs and was never opened (`watchdog_dev.c`).
fn can_be_stopped(root: &Path) -> bool {
    sysfs::line(root, "class/watchdog/watchdog0/nowayout").is_none_or(|text| text != "1")
}

/// Whether systemd has the watchdog.
fn systemd_feeds() -> bool {
    let limit = systemctl(&["show", "--property=RuntimeWatchdogUSec", "--value"]);
    limit.is_ok_and(|limit| !matches!(limit.trim(), "" | "0" | "infinity"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reboot::restart::{Barred, Phase, Way, samples};

    fn restart(stage: Stage) -> Restart {
        samples::restart(Way::Warm, stage)
    }

    #[test]
    fn a_watchdog_is_opened_only_if_it_may_run() {
        let boot = |is_kexec| Boot {
            is_kexec,
            ..Boot::default()
        };
        for (stage, is_kexec, lasts) in [
            (Stage::Restart, Some(true), true),
            (Stage::Up, Some(true), true),
            (Stage::Up, None, true),
            // Through the firmware, by a power cut too.
            (Stage::Restart, Some(false), false),
            (Stage::Arm, Some(false), false),
            // Somebody else's kexec.
            (Stage::Vms, Some(true), false),
        ] {
            let may = may_last(&restart(stage), &boot(is_kexec));
            assert_eq!(may, lasts, "{stage:?} {is_kexec:?}");
        }
        let root = tempfile::tempdir().unwrap();
        assert!(can_be_stopped(root.path()));
        let dir = root.path().join("sys/class/watchdog/watchdog0");
        fs::create_dir_all(&dir).unwrap();
        for (text, can) in [("0\n", true), ("1\n", false)] {
            fs::write(dir.join("nowayout"), text).unwrap();
            assert_eq!(can_be_stopped(root.path()), can);
        }
    }

    #[test]
    fn what_cannot_be_barred_is_not_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        store.set_pending(&restart(Stage::Restart)).unwrap();
        let record = samples::record("1");
        let barred = Barred {
            combination: "c".to_owned(),
            release: String::new(),
            phase: Phase::Kernel,
            at: 0.0,
        };
        let conclusion = Conclusion {
            record: record.clone(),
            barred: Some(barred.clone()),
        };
        // As on a full disk.
        let place = dir.path().join("barred.json");
        fs::create_dir_all(place.join("x")).unwrap();
        assert!(keep(&store, &conclusion).is_err());
        assert_eq!(store.history(), std::slice::from_ref(&record));
        assert!(store.pending().is_some());
        fs::remove_dir_all(place).unwrap();
        keep(&store, &conclusion).unwrap();
        assert_eq!(
            (store.barred().unwrap(), store.history()),
            (vec![barred], vec![record])
        );
        assert_eq!(store.pending(), None);
    }

    #[test]
    fn the_target_is_told_by_its_job() {
        let kexec = "\
            412 systemd-kexec.service start waiting\n\
            401 kexec.target          start waiting\n\
            407 shutdown.target       start waiting\n";
        assert_eq!(target(kexec), Some("kexec"));
        assert_eq!(target("401 reboot.target start waiting\n"), Some("reboot"));
        assert_eq!(target("401 my-reboot.target.service start\n"), None);
        assert_eq!(target(""), None);
    }
}
