//! What the rules say, and whether a trial load is made.

use std::cmp::Reverse;

use super::consequence::{Consequence, Verdict};
use super::preflight::Preflight;
use super::rules::{self, values};
use super::trial::Trial;
use crate::reboot::load::Loadable;
use crate::reboot::restart::{DIRECTORY, Exchange};
use brisk_lint::Finding;

/// Calls of a trial and of a restart that is undone, if each loads by the older call after the newer
/// one: unloading is a call, too.
const LOADS: u32 = 6;
/// Memory that is left to programs beside a trial load, bytes.
const SPARE: u64 = 32 << 20;

impl Preflight {
    /// Findings of all rules, those with the worst consequence first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding<Consequence>> {
        let mut found = brisk_lint::check_all(rules::RULES, self);
        found.sort_by_key(|finding| Reverse(finding.severity));
        found
    }

    /// Why no trial load can be made, if it cannot.
    ///
    /// It is left out where it would be pointless, would take the last permitted load, or could
    /// have the kernel end other programs for want of memory.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        let kexec = &self.machine.kexec;
        if let Some(left @ 1..LOADS) = kexec.loads_left {
            return Some(format!(
                "kernel.kexec_load_limit_reboot permits {left} more calls, and a trial and a restart \
                 that is undone take {LOADS}"
            ));
        }
        let need = self.images.memory().saturating_add(SPARE);
        let available = self.machine.platform.available;
        if self.machine.platform.memory == 0 {
            return Some("/proc/meminfo does not say how much memory is available".into());
        }
        if available < need {
            let mib = |bytes: u64| bytes >> 20;
            return Some(format!(
                "it takes up to {} MiB, and {} MiB are available",
                mib(need),
                mib(available)
            ));
        }
        let found = brisk_lint::check_all(rules::RULES, self);
        match Verdict::of(&found) {
            Verdict::Warm => None,
            _ => Some("what was found decides without it".into()),
        }
    }

    /// Makes the trial load, unless there is an obstacle. A caller keeps signals from ending the
    /// process meanwhile.
    pub fn try_load(&mut self) {
        self.trial = match self.obstacle() {
            Some(reason) => Trial::LeftOut(reason),
            None => self.load_on_trial(),
        };
    }

    fn load_on_trial(&self) -> Trial {
        let _lock = match Exchange::of_system().try_lock_to_load() {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                return Trial::LeftOut("another restart or check loads a kernel".to_owned());
            }
            Err(error) => {
                return Trial::Failed(format!("cannot lock a file in {DIRECTORY}: {error}"));
            }
        };
        let may_use_older = self.may_use_older_call();
        let files = Loadable::open(&self.target);
        Trial::of(files.and_then(|files| files.try_load(may_use_older)))
    }

    /// Whether the older call, kexec_load(2), may be used: as far as is known the running kernel
    /// enforces no signatures, which that call does not have; kexec asks the kernel, as it does not
    /// below Xen; and it has all of the RAM, which it takes from the firmware's map, as this kernel
    /// does without `memmap=` and `mem=`.
    #[must_use]
    pub fn may_use_older_call(&self) -> bool {
        let (kexec, platform) = (&self.machine.kexec, &self.machine.platform);
        let enforces = kexec.is_locked_down()
            || kexec.forces_signatures
            || self.machine.firmware.has_secure_boot;
        let has_all = ["memmap", "mem"]
            .iter()
            .all(|name| values(&platform.cmdline, name).next().is_none());
        !enforces && has_all && platform.xen.is_none() && !platform.has_tdx_erratum()
    }
}
