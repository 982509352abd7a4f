//! The step about drivers that do work in software. Pure.

use std::ops::RangeInclusive;

use super::steps::{advice, command, with_driver};
use super::{Answer, Outcome, Route, Subject};
use crate::crypto::kernel::{Driver, Flags};
use crate::crypto::list::Consumer;
use crate::crypto::trial::{Doer, Trial, Tried};

/// Modules whose source gives no driver `NEED_FALLBACK`, for kernels that do not tell flags.
const WITHOUT: [&str; 1] = ["virtio_crypto"];

/// Bytes of the requests that a route sends: sectors of disks, blocks of files, records of TLS,
/// packets.
const fn sent(route: Route) -> RangeInclusive<usize> {
    match route {
        Route::Openssl | Route::Kernel(Consumer::AfAlg) => 1..=usize::MAX,
        Route::Kernel(Consumer::DmCrypt) => 512..=4096,
        Route::Kernel(Consumer::Fscrypt) => 16..=4096,
        Route::Kernel(Consumer::Ktls) => 1..=16384,
        Route::Kernel(Consumer::Ipsec) => 1..=1500,
    }
}

pub(super) fn done_by_device(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| {
        let untried = untried(subject, driver);
        let trial = subject.trial.filter(|trial| trial.driver == driver.driver);
        match trial {
            None => untried,
            Some(trial) if trial.tried.is_empty() => {
                let reason = trial.ended.as_deref().unwrap_or("no size was tried");
                Outcome {
                    fix: None,
                    ..told(untried, &format!("it was tried in vain: {reason}"))
                }
            }
            Some(trial) => judged(subject, driver, trial, untried),
        }
    })
}

/// Whether a driver may hand requests to software; none if its flags are not known.
fn falls_back(driver: &Driver) -> Option<bool> {
    match driver.flags {
        Some(flags) => Some(!flags.common(Flags::NEED_FALLBACK).is_empty()),
        None => WITHOUT.contains(&&*driver.module).then_some(false),
    }
}

/// What flags tell.
fn untried(subject: &Subject<'_>, driver: &Driver) -> Outcome {
    let try_it = format!("brisk crypto explain {} --try", subject.algorithm.name);
    // It uses a driver of the machine that it runs on.
    let to_try = match subject.machine.is_here {
        true => command(try_it),
        false => advice(format!("run {try_it} on the machine itself")),
    };
    match (falls_back(driver), driver.flags) {
        (Some(false), Some(_)) => Outcome::yes("NETLINK_CRYPTO: no NEED_FALLBACK"),
        (Some(false), None) => {
            Outcome::yes(format!("the source of {}: no NEED_FALLBACK", driver.module))
        }
        (Some(true), _) => Outcome {
            fix: Some(to_try),
            ..Outcome::unknown(format!(
                "NETLINK_CRYPTO: NEED_FALLBACK: {} may hand requests to software",
                driver.driver
            ))
        },
        (None, _) => Outcome {
            fix: Some(to_try),
            ..Outcome::unknown("/proc/crypto, without flags: it may hand requests to software")
        },
    }
}

/// An outcome that something more was looked at for.
fn told(outcome: Outcome, more: &str) -> Outcome {
    Outcome {
        looked_at: format!("{}; {more}", outcome.looked_at),
        ..outcome
    }
}

/// What interrupts of the device tell about the requests that the route sends.
fn judged(subject: &Subject<'_>, driver: &Driver, trial: &Trial, untried: Outcome) -> Outcome {
    let name = &driver.driver;
    let of = |doer| -> Vec<&Tried> {
        let all = trial.tried.iter();
        all.filter(|tried| tried.doer() == doer).collect()
    };
    let (device, software) = (of(Doer::Device), of(Doer::Software));
    let looked_at = looked_at(trial);
    let sent = sent(subject.route);
    let is_sent = |tried: &&&Tried| sent.contains(&tried.bytes);
    if device.iter().any(|tried| is_sent(&tried)) {
        return Outcome::yes(looked_at);
    }
    let of_route = trial
        .tried
        .iter()
        .filter(|tried| sent.contains(&tried.bytes));
    if of_route.clone().any(|tried| tried.doer() == Doer::Unclear) || of_route.count() == 0 {
        return Outcome::unknown(looked_at);
    }
    if !device.is_empty() {
        let consumer = subject.route.consumer().name();
        let largest = software
            .iter()
            .filter(is_sent)
            .map(|tried| tried.bytes)
            .max();
        let cause = format!(
            "{name} does requests of {} bytes and less in software, and {consumer} sends none of \
             more than {}.",
            largest.unwrap_or_default(),
            sent.end()
        );
        let none = "none: the driver decides; another consumer may send larger requests";
        return Outcome::no(looked_at, cause, advice(none));
    }
    match falls_back(driver) {
        Some(true) => Outcome::no(
            looked_at,
            format!("{name} does all requests in software: its device does nothing."),
            advice(format!(
                "look for what the driver says of its device (dmesg | grep -e {} -e crypto), and \
                 which sizes and alignments it takes",
                driver.module
            )),
        ),
        // A driver may look at its device again and again, which then raises none.
        Some(false) => told(untried, &format!("{looked_at}: it may be polled")),
        None => Outcome {
            answer: Answer::Unknown,
            fix: Some(command("modprobe crypto_user")),
            ..told(
                untried,
                &format!("{looked_at}: it may be polled, or software does all"),
            )
        },
    }
}

/// Sizes by what did them, and why there are no more of them.
fn looked_at(trial: &Trial) -> String {
    let sizes = |doer| {
        let all = trial.tried.iter().filter(|tried| tried.doer() == doer);
        let sizes: Vec<_> = all.map(|tried| tried.bytes.to_string()).collect();
        sizes.join(", ")
    };
    let mut parts = Vec::new();
    for (doer, text) in [
        (Doer::Device, "interrupts of its device at"),
        (Doer::Software, "none, so software, at"),
        (Doer::Unclear, "too few to tell at"),
    ] {
        let sizes = sizes(doer);
        if !sizes.is_empty() {
            parts.push(format!("{text} {sizes} bytes"));
        }
    }
    if sizes(Doer::Device).is_empty() && sizes(Doer::Unclear).is_empty() {
        let operations: f64 = trial.tried.iter().map(|tried| tried.operations).sum();
        let bytes = || trial.tried.iter().map(|tried| tried.bytes);
        parts = vec![format!(
            "no interrupt of its device in {operations:.0} requests of {} to {} bytes",
            bytes().min().unwrap_or_default(),
            bytes().max().unwrap_or_default()
        )];
    }
    parts.extend(trial.ended.clone());
    parts.join("; ")
}
