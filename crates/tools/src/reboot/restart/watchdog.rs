//! The watchdog that a restart is watched by.
//!
//! systemd arms a watchdog device as it shuts down for kexec if `KExecWatchdogSec=` is set
//! (systemd-system.conf(5)), feeds it until the jump, and leaves it running. A driver in the new
//! kernel takes it over; without one it resets the machine, which then boots through its firmware.
//!
//! Most drivers stop their device when the machine is restarted, also by kexec
//! (`watchdog_stop_on_reboot()` of iTCO_wdt, sp5100_tco, i6300esb). `stop_on_reboot=0` of the module
//! watchdog keeps them from that; it counts for drivers that are loaded later.

use std::path::Path;

use brisk_host::sysfs;
use serde::{Deserialize, Serialize};

/// Names of watchdogs that end with the kernel, as `/sys/class/watchdog/*/identity` has them.
const OF_THE_KERNEL: &[&str] = &["Software Watchdog"];

/// A watchdog device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dog {
    /// Name in `/sys/class/watchdog`.
    pub name: String,
    /// What its driver calls it.
    pub identity: String,
    /// Longest time limit, seconds; none if the driver does not say.
    pub longest: Option<u32>,
    /// Module of its driver; none if that is built in.
    pub module: Option<String>,
    /// Its driver; none if that is not known.
    pub driver: Option<String>,
    /// Whether it is known to run on when the kernel ends.
    pub stays: bool,
}

impl Dog {
    /// The watchdog that systemd takes: `/dev/watchdog0`. None if there is none that outlives the
    /// kernel.
    #[must_use]
    pub fn find(root: &Path) -> Option<Self> {
        let name = "watchdog0";
        let line = |file: &str| sysfs::line(root, &format!("class/watchdog/{name}/{file}"));
        let identity = line("identity")?;
        if OF_THE_KERNEL.contains(&&*identity) {
            return None;
        }
        let policy = sysfs::line(root, "module/watchdog/parameters/stop_on_reboot");
        // ipmi_watchdog has no part in that, and lets its device run as the machine restarts.
        let stays = policy.as_deref() == Some("0") || identity == "IPMI";
        let longest = line("max_timeout").and_then(|text| text.parse().ok());
        Some(Self {
            name: name.to_owned(),
            identity,
            stays,
            longest: longest.filter(|longest| *longest > 0),
            module: sysfs::link_name(root, &format!("class/watchdog/{name}/device/driver/module")),
            driver: sysfs::link_name(root, &format!("class/watchdog/{name}/device/driver")),
        })
    }

    /// The time limit to set, of one that is wanted, both seconds.
    #[must_use]
    pub fn limit(&self, wanted: u32) -> u32 {
        self.longest.map_or(wanted, |longest| wanted.min(longest))
    }
}

/// What watches over a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Time limit of the watchdog, seconds; none if no device outlives the kernel.
    pub watchdog: Option<u32>,
    /// Whether its driver is known to leave it running.
    #[serde(default)]
    pub stays: bool,
    /// Module of the watchdog's driver, which the next boot is to load: without its driver nothing
    /// would stop it.
    #[serde(default)]
    pub module: Option<String>,
    /// What `panic=` was added to the command line, seconds; none if the command line has its own.
    pub panic: Option<u32>,
    /// The kernel's own value before, `kernel.panic`, which is set again after the boot.
    #[serde(default)]
    pub panic_before: Option<i32>,
}

/// Seconds after which a kernel that panicked resets the machine: long enough to read its last
/// lines.
const PANIC: u32 = 10;

/// Command line with `panic=`, unless it says itself what a panic leads to, and whether it was
/// added. `panic=0`, which waits for ever, is kept, too: it is what an administrator wants who
/// reads panics on a screen.
#[must_use]
pub fn with_panic(cmdline: &str) -> (String, Option<u32>) {
    let mut kernel = cmdline
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    if kernel.any(|word| word.starts_with("panic=")) {
        return (cmdline.to_owned(), None);
    }
    let word = format!("panic={PANIC}");
    // What comes after -- is for init.
    let cmdline = match cmdline.find(" -- ") {
        Some(at) => format!("{} {word}{}", &cmdline[..at], &cmdline[at..]),
        None if cmdline.is_empty() => word,
        None => format!("{cmdline} {word}"),
    };
    (cmdline, Some(PANIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dog(files: &[(&str, &str)]) -> Option<Dog> {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/class/watchdog/watchdog0");
        let policy = root.path().join("sys/module/watchdog/parameters");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::create_dir_all(&policy).unwrap();
        for (name, text) in files {
            let dir = if *name == "stop_on_reboot" {
                &policy
            } else {
                &dir
            };
            std::fs::write(dir.join(name), text).unwrap();
        }
        Dog::find(root.path())
    }

    #[test]
    fn a_watchdog_has_to_outlive_the_kernel() {
        let found = dog(&[("identity", "i6300ESB timer\n"), ("max_timeout", "1023\n")]).unwrap();
        assert_eq!((found.limit(120), found.limit(5000)), (120, 1023));
        let unlimited = dog(&[("identity", "iTCO_wdt\n"), ("max_timeout", "0\n")]).unwrap();
        assert_eq!(unlimited.limit(5000), 5000);
        assert_eq!(dog(&[("identity", "Software Watchdog\n")]), None);
        assert_eq!(dog(&[]), None);
    }

    #[test]
    fn drivers_stop_most_watchdogs_at_a_restart() {
        for (identity, policy, stays) in [
            ("i6300ESB timer\n", Some("-1\n"), false),
            ("i6300ESB timer\n", Some("1\n"), false),
            ("i6300ESB timer\n", Some("0\n"), true),
            ("i6300ESB timer\n", None, false),
            ("IPMI\n", Some("-1\n"), true),
        ] {
            let policy = policy.map(|text| ("stop_on_reboot", text));
            let files: Vec<_> = [("identity", identity)].into_iter().chain(policy).collect();
            assert_eq!(dog(&files).unwrap().stays, stays, "{files:?}");
        }
    }

    #[test]
    fn a_panic_ends_in_a_reset_unless_the_command_line_says_otherwise() {
        for (cmdline, expected, added) in [
            ("root=/dev/vda quiet", "root=/dev/vda quiet panic=10", true),
            ("", "panic=10", true),
            ("quiet panic=0", "quiet panic=0", false),
            ("panic=-1 quiet", "panic=-1 quiet", false),
            ("quiet -- panic=5", "quiet panic=10 -- panic=5", true),
            ("panic_on_oops=1", "panic_on_oops=1 panic=10", true),
        ] {
            let (result, panic) = with_panic(cmdline);
            assert_eq!((&*result, panic.is_some()), (expected, added), "{cmdline}");
        }
    }
}
