//! KVM or TCG, as far as that is known without a boot; [`super::probe`] makes one.
//!
//! That `/dev/kvm` opens says little: inside some virtual machines it does and yet runs a
//! guest's kernel hundreds of times slower than TCG.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use brisk_host::proc::Procfs;
use brisk_vm::cache::Cache;
use brisk_vm::qemu::Accelerator;

use super::error::Error;
use super::options::{Accel, Options};

/// Kind of the entries in the cache that hold the outcomes of trials.
pub(super) const KIND: &str = "host";
/// A boot that has not reached init by then is slower than TCG.
pub(super) const LIMIT: Duration = Duration::from_millis(2500);

/// The accelerator, as far as it can be known without a boot; TCG where a trial is still to be made.
pub(super) fn known(
    options: &Options,
    qemu: Qemu<'_>,
    cache: &Cache,
) -> Result<(Accelerator, String), Error> {
    let choice = match without_trial(options)? {
        Trial::Decided(accelerator, reason) => (accelerator, reason),
        Trial::Needed { boot } => match cache.get::<Option<u64>>(KIND, &qemu.key(&boot)) {
            Some(entry) => outcome(entry.meta),
            None => (Accelerator::Tcg, "KVM was not tried yet".into()),
        },
    };
    Ok(choice)
}

/// Result that is known without a trial.
pub(super) enum Trial {
    /// This accelerator, with the reason.
    Decided(Accelerator, String),
    /// No result: a trial is needed.
    Needed {
        /// ID of this boot of the host.
        boot: String,
    },
}

pub(super) fn without_trial(options: &Options) -> Result<Trial, Error> {
    let forced = options.hardware.accel == Accel::Kvm;
    // Permission can change at any time, so this is not cached.
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        let reason = format!("/dev/kvm cannot be opened: {error}");
        return if forced {
            Err(Error::unfit(
                reason,
                "load kvm_intel or kvm_amd, add yourself to the group kvm, or use --accel tcg",
            ))
        } else {
            Ok(Trial::Decided(Accelerator::Tcg, reason))
        };
    }
    if forced {
        let reason = "asked for with --accel kvm".into();
        return Ok(Trial::Decided(Accelerator::Kvm, reason));
    }
    Ok(match Procfs::default().boot_id() {
        Some(boot) => Trial::Needed { boot },
        None => Trial::Decided(
            Accelerator::Tcg,
            "this machine does not tell its boot_id".into(),
        ),
    })
}

/// A QEMU that a trial is made with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Qemu<'a> {
    /// Its binary.
    pub(super) path: &'a Path,
    /// Its version, with the distribution's.
    pub(super) package: &'a str,
}

impl Qemu<'_> {
    /// Names the outcome of a trial in the cache, for this boot of the host.
    pub(super) fn key(self, boot: &str) -> String {
        let identity = format!("{boot} {} {}", self.path.display(), self.package);
        format!("kvm-{}", brisk_vm::cache::key(identity.as_bytes()))
    }
}

/// What a trial decides that took so many milliseconds, or did not reach init in time.
pub(super) fn outcome(millis: Option<u64>) -> (Accelerator, String) {
    match millis {
        Some(millis) => (Accelerator::Kvm, format!("a trial boot took {millis} ms")),
        None => (
            Accelerator::Tcg,
            format!(
                "a trial boot with KVM did not reach init within {} ms",
                LIMIT.as_millis()
            ),
        ),
    }
}
