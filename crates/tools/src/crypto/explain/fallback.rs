//! The step about drivers that do work in software. Pure.

use super::steps::{advice, command, with_driver};
use super::{Outcome, Subject};
use crate::crypto::kernel::{Driver, Flags};
use crate::crypto::trial::Tried;

/// Modules whose source gives no driver `NEED_FALLBACK`, for kernels that do not tell flags.
const WITHOUT: [&str; 1] = ["virtio_crypto"];

pub(super) fn done_by_device(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| {
        let trial = subject.trial.filter(|trial| trial.driver == driver.driver);
        let falls_back = driver
            .flags
            .map(|flags| !flags.common(Flags::NEED_FALLBACK).is_empty());
        let to_try = || {
            command(format!(
                "brisk crypto explain {} --try",
                subject.algorithm.name
            ))
        };
        match (trial.map(|trial| &trial.seen), falls_back) {
            (Some(Ok(seen)), _) => tried(driver, seen, falls_back),
            (_, Some(false)) => Outcome::yes("NETLINK_CRYPTO: no NEED_FALLBACK"),
            (Some(Err(reason)), _) => Outcome::unknown(format!("it was tried in vain: {reason}")),
            (None, Some(true)) => Outcome {
                fix: Some(to_try()),
                ..Outcome::unknown(format!(
                    "NETLINK_CRYPTO: NEED_FALLBACK: {} hands some requests to software",
                    driver.driver
                ))
            },
            (None, None) if WITHOUT.contains(&&*driver.module) => {
                Outcome::yes(format!("the source of {}: no NEED_FALLBACK", driver.module))
            }
            (None, None) => Outcome {
                fix: Some(to_try()),
                ..Outcome::unknown("/proc/crypto, without flags: it may hand requests to software")
            },
        }
    })
}

/// What interrupts of the device tell, if the driver may fall back to software.
fn tried(driver: &Driver, seen: &[Tried], falls_back: Option<bool>) -> Outcome {
    let name = &driver.driver;
    let (by_device, by_software): (Vec<_>, Vec<_>) =
        seen.iter().partition(|tried| tried.is_by_device());
    let sizes = |some: &[&Tried]| {
        let sizes: Vec<_> = some.iter().map(|tried| tried.bytes.to_string()).collect();
        sizes.join(", ")
    };
    if by_software.is_empty() {
        return Outcome::yes(format!(
            "interrupts of its device at {} bytes",
            sizes(&by_device)
        ));
    }
    if !by_device.is_empty() {
        return Outcome::yes(format!(
            "interrupts of its device at {} bytes, and none at {}: those are done in software",
            sizes(&by_device),
            sizes(&by_software)
        ));
    }
    let operations: f64 = seen.iter().map(|tried| tried.operations).sum();
    let looked_at =
        format!("no interrupt of its device in {operations:.0} requests of 16 to 65536 bytes");
    match falls_back {
        // Some drivers look again and again at their device, which then raises none.
        None | Some(false) => Outcome {
            fix: falls_back
                .is_none()
                .then(|| command("modprobe crypto_user")),
            ..Outcome::unknown(format!(
                "{looked_at}: it may be polled, or software does all"
            ))
        },
        Some(true) => Outcome::no(
            looked_at,
            format!("{name} does all requests in software: its device does nothing."),
            advice(format!(
                "look for what the driver says of its device (dmesg | grep -e {} -e crypto), and \
                 which sizes and alignments it takes",
                driver.module
            )),
        ),
    }
}
