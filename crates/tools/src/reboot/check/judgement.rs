//! What the rules say, and whether a trial load is made.

use std::cmp::Reverse;

use super::consequence::{Consequence, Verdict};
use super::preflight::Preflight;
use super::rules;
use super::trial::Trial;
use crate::lint::{self, Finding};
use crate::reboot::load::Loadable;

/// Memory that is left to programs beside a trial load, bytes.
const SPARE: u64 = 32 << 20;

impl Preflight {
    /// Findings of all rules, those with the worst consequence first.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding<Consequence>> {
        let mut found = lint::check_all(rules::RULES, self);
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
        if kexec.loads_left == Some(1) {
            return Some(
                "it would take the only load that kernel.kexec_load_limit_reboot permits".into(),
            );
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
        let found = lint::check_all(rules::RULES, self);
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
            None => {
                let may_use_older = self.may_use_older_call();
                let files = Loadable::open(&self.target);
                Trial::of(files.and_then(|files| files.try_load(may_use_older)))
            }
        };
    }

    /// Whether the older call, kexec_load(2), would be no way around what a kernel enforces, and goes
    /// to the kernel: below Xen, kexec asks Xen.
    #[must_use]
    pub fn may_use_older_call(&self) -> bool {
        let machine = &self.machine;
        let is_locked = machine.kexec.is_locked_down() || machine.firmware.has_secure_boot;
        !is_locked && machine.platform.xen.is_none() && !machine.platform.has_tdx_erratum()
    }
}
