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

/// An accelerator, or what has to be tried for it.
pub(super) enum Choice {
    /// This accelerator, with the reason.
    Decided(Accelerator, String),
    /// KVM is to be tried; the outcome goes into the cache under this key.
    Untried {
        /// Key of an entry of [`KIND`].
        key: String,
    },
}

/// The accelerator, as far as it can be known without a boot.
pub(super) fn known(
    options: &Options,
    qemu: &Path,
    package: &str,
    cache: &Cache,
) -> Result<Choice, Error> {
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
            Ok(Choice::Decided(Accelerator::Tcg, reason))
        };
    }
    if forced {
        let reason = "asked for with --accel kvm".into();
        return Ok(Choice::Decided(Accelerator::Kvm, reason));
    }
    let Some(boot) = Procfs::default().boot_id() else {
        let reason = "this host does not show its boot_id".into();
        return Ok(Choice::Decided(Accelerator::Tcg, reason));
    };
    let identity = format!("{boot} {} {package}", qemu.display());
    let key = format!("kvm-{}", brisk_vm::cache::key(identity.as_bytes()));
    Ok(match cache.get::<Option<u64>>(KIND, &key) {
        Some(entry) => {
            let (accelerator, reason) = outcome(entry.meta);
            Choice::Decided(accelerator, reason)
        }
        None => Choice::Untried { key },
    })
}

/// The accelerator after a trial that took so many milliseconds, or did not reach init in time.
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
