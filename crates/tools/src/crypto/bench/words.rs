//! Sentences about measurements.

use crate::crypto::algorithm::Algorithm;
use crate::crypto::implementation::Implementation;
use crate::crypto::measure::Proof;

/// What shows that a driver was at work, for people.
pub(super) fn proven(proof: &Proof, operations: f64) -> String {
    let drivers = match &proof.drivers[..] {
        [] => return "no driver was in use more than before: not proven".to_owned(),
        drivers => drivers.join(" and "),
    };
    let few = |count: u64| (count as f64) < operations * FEW;
    let others = proof.shared_with.as_deref();
    match proof.device_interrupts {
        // Its own line, if it has one too, may still prove it.
        count if count.is_none_or(few) && others.is_some() => {
            let shared = shared(others.unwrap_or_default());
            format!("{drivers} was in use; {shared}")
        }
        None => format!("{drivers} was in use; it has no device"),
        Some(count) if few(count) => format!(
            "{drivers} was in use, but its device raised {count} interrupts in {operations:.0} \
             operations: not proven, software may have done them"
        ),
        Some(count) => format!(
            "{drivers} was in use, and its device raised {:.2} interrupts an operation",
            count as f64 / operations
        ),
    }
}

/// That interrupts show nothing.
pub(in crate::crypto) fn shared(others: &str) -> String {
    format!("its device shares its interrupt line with {others}{NOTHING}")
}

const NOTHING: &str = ", so that interrupts show nothing";

/// What a proof shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crypto) enum Shown {
    /// That the driver did the work.
    AtWork,
    /// That software may have done it.
    NotAtWork,
    /// Neither.
    Nothing,
}

/// What the text of a proof shows.
pub(in crate::crypto) fn shown(proof: &str) -> Shown {
    match proof {
        proof if proof.contains("not proven") => Shown::NotAtWork,
        proof if proof.ends_with(NOTHING) => Shown::Nothing,
        _ => Shown::AtWork,
    }
}

/// That an implementation is measured without its results being known to be right.
pub(in crate::crypto) fn unchecked(
    implementation: &Implementation,
    algorithm: &Algorithm,
    reason: &str,
) -> String {
    let name = algorithm.name;
    format!("{implementation} was not checked by a published test vector of {name}: {reason}")
}

/// Why an implementation gave no answer to an operation, as far as that is known.
///
/// The driver of virtio-crypto gives each page with all that follow it, so that a buffer of n pages
/// takes n(n+1)/2 descriptors, and QEMU stops a device that is given more than 1024 of them:
/// `virtio: too many write descriptors in indirect table`. Seen with Linux 6.1 and 6.12.
pub(super) fn no_answer(implementation: &Implementation, bytes: usize, reason: &str) -> String {
    let hint = match implementation {
        Implementation::Driver(name) if name.starts_with("virtio_crypto") => {
            "QEMU stops a virtio-crypto device that is given more than 31 pages at once; start the \
             guest again, and name sizes up to 64K"
        }
        _ => "the device may need a reset, or the machine a restart",
    };
    format!("no answer to {bytes} B: {reason}: {hint}")
}

/// Interrupts an operation that are too few for a device that does all of them. Drivers that
/// coalesce interrupts raise one for some tens of operations.
pub(in crate::crypto) const FEW: f64 = 0.005;
