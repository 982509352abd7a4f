//! The steps, in their order. Pure.

use super::fallback;
use super::openssl;
use super::{Answer, Outcome, Route, Step, Subject, explain};
use crate::crypto::Algorithm;
use crate::crypto::kernel::{Driver, Setting, State};
use crate::crypto::list::{Consumer, May, Place, needs_admin, restriction};
use brisk_lint::Fix;

/// From the device to OpenSSL.
pub const STEPS: &[Step] = &[
    Step {
        id: "device",
        question: "is there a device that does cryptography?",
        check: device,
    },
    Step {
        id: "module",
        question: "does a module drive it?",
        check: module,
    },
    Step {
        id: "algorithm",
        question: "does its driver have the algorithm?",
        check: algorithm,
    },
    Step {
        id: "self-test",
        question: "did the driver pass its self-test?",
        check: self_test,
    },
    Step {
        id: "consumer",
        question: "does this kernel have the consumer, and does that use the algorithm?",
        check: consumer,
    },
    Step {
        id: "flags",
        question: "does the consumer accept the driver's flags?",
        check: flags,
    },
    Step {
        id: "af-alg-restrict",
        question: "does the kernel allow the algorithm to AF_ALG?",
        check: af_alg_restrict,
    },
    Step {
        id: "capability",
        question: "has this process the capability that AF_ALG asks for?",
        check: capability,
    },
    Step {
        id: "priority",
        question: "has the driver the highest priority?",
        check: priority,
    },
    Step {
        id: "key-size",
        question: "does the driver take keys of this size?",
        check: key_size,
    },
    Step {
        id: "fallback",
        question: "does the driver have its device do the work?",
        check: fallback::done_by_device,
    },
    Step {
        id: "openssl",
        question: "does OpenSSL hand the work on?",
        check: openssl::handed_on,
    },
    Step {
        id: "fips",
        question: "does FIPS mode allow it?",
        check: openssl::fips,
    },
];

const NOTHING: &str = "no driver of a device to look at";
const QEMU: &str = "none on this machine: the CPU's instructions are what there is. A guest of QEMU \
                    has one with -object cryptodev-backend-builtin,id=c0 -device \
                    virtio-crypto-pci,cryptodev=c0";

pub(super) fn advice(text: impl Into<String>) -> Fix {
    Fix::Advice(text.into())
}

pub(super) fn command(text: impl Into<String>) -> Fix {
    Fix::Command(text.into())
}

/// Drivers on devices, of any algorithm.
fn all_offloads<'a>(subject: &Subject<'a>) -> Vec<&'a Driver> {
    let on_device = |driver: &&Driver| subject.runs(driver).place == Place::Device;
    subject.drivers().iter().filter(on_device).collect()
}

/// The driver, if no step before is in the way of looking at it.
pub(super) fn with_driver(subject: &Subject<'_>, check: impl Fn(&Driver) -> Outcome) -> Outcome {
    if openssl::reaches_device(subject).is_some() {
        return Outcome::yes("OpenSSL reaches the device without the kernel's crypto API");
    }
    match subject.offload() {
        Some(driver) => check(driver),
        None => Outcome::unknown(NOTHING),
    }
}

fn device(subject: &Subject<'_>) -> Outcome {
    let devices = &subject.kernel().devices;
    let names: Vec<_> = devices
        .iter()
        .map(|device| format!("{} {} ({})", device.bus, device.name, device.what))
        .collect();
    if !names.is_empty() {
        return Outcome::yes(format!("/sys/bus: {}", names.join(", ")));
    }
    if let Some(driver) = all_offloads(subject).first() {
        return Outcome::yes(format!("/proc/crypto: {} runs on one", driver.driver));
    }
    if let Some(driver) = subject.unknown() {
        return Outcome::unknown(format!(
            "/proc/crypto: {} of {} has the highest priority, {}, and is chosen; on which device it \
             runs, if on one, is not known",
            driver.driver, driver.module, driver.priority
        ));
    }
    let (has_bus, has_list) = (subject.kernel().has_bus, subject.kernel().drivers.is_some());
    if !has_bus || !has_list {
        let missing = match (has_bus, has_list) {
            (false, false) => "/sys/bus and /proc/crypto cannot be read",
            (false, _) => "/sys/bus cannot be read; /proc/crypto: none",
            _ => "/sys/bus/virtio, pci and platform: none; /proc/crypto cannot be read",
        };
        return Outcome::unknown(missing);
    }
    Outcome::no(
        "/sys/bus/virtio, pci and platform; /proc/crypto: none",
        "There is no device that does cryptography.",
        advice(QEMU),
    )
}

fn module(subject: &Subject<'_>) -> Outcome {
    if let Some(driver) = all_offloads(subject).first() {
        let looked_at = format!("/proc/crypto: {} of {}", driver.driver, driver.module);
        return Outcome::yes(looked_at);
    }
    if openssl::reaches_device(subject).is_some() {
        return Outcome::yes("OpenSSL reaches the device without the kernel's crypto API");
    }
    let kernel = subject.kernel();
    let Some(device) = kernel.devices.first() else {
        return Outcome::unknown("no device to drive");
    };
    // Without the list of aliases the class of the device has to do.
    let usual = ["virtio_crypto".to_owned()];
    let candidates = match (device.modules.is_empty(), device.bus) {
        (true, "virtio") => &usual[..],
        _ => &device.modules[..],
    };
    if kernel.drivers.is_none() {
        return Outcome::unknown("/proc/crypto cannot be read");
    }
    let states = candidates.iter();
    let states: Vec<_> = states.map(|it| (it, kernel.modules.state(it))).collect();
    let in_state = |state| states.iter().find(|it| it.1 == state).map(|it| it.0);
    if let Some(module) = in_state(State::Present) {
        let fix = match module.starts_with("qat_") {
            // Documentation/ABI/testing/sysfs-driver-qat.
            true => advice(
                "look at qat/state and qat/cfg_services of the device: it is to be up, with sym",
            ),
            false => command(format!("dmesg | grep -e {module} -e crypto")),
        };
        return Outcome::no(
            format!("/proc/modules: {module}; /proc/crypto: nothing of it"),
            format!("The module {module} is loaded, but registered no algorithm."),
            fix,
        );
    }
    if let Some(module) = in_state(State::Loadable) {
        return Outcome::no(
            format!(
                "modules of {}: {module}; not in /proc/modules",
                kernel.release
            ),
            format!("The module {module} for the {} is not loaded.", device.what),
            command(format!("modprobe {module}")),
        );
    }
    let is_excluded =
        device.bus == "virtio" && kernel.setting("CONFIG_CRYPTO_DEV_VIRTIO") == Some(Setting::No);
    if !kernel.modules.is_known && !is_excluded {
        return Outcome::unknown(format!(
            "the kernel's modules cannot be read: whether one is for the {} is not known",
            device.what
        ));
    }
    let names = match candidates.is_empty() {
        true => String::new(),
        false => format!(": no {}", candidates.join(", ")),
    };
    Outcome::no(
        format!("modules of {}{names}", kernel.release),
        format!(
            "The kernel {} has no driver for the {}.",
            kernel.release, device.what
        ),
        advice(
            "boot a kernel that has one: kernels for clouds often leave drivers below \
             drivers/crypto out",
        ),
    )
}

fn algorithm(subject: &Subject<'_>) -> Outcome {
    let name = subject.algorithm.kernel;
    if openssl::reaches_device(subject).is_some() {
        return Outcome::yes("OpenSSL reaches the device without the kernel's crypto API");
    }
    if let Some(driver) = subject.offload() {
        return Outcome::yes(format!("/proc/crypto: {} for {name}", driver.driver));
    }
    let others = all_offloads(subject);
    let Some(first) = others.first() else {
        return Outcome::unknown(NOTHING);
    };
    let mut names: Vec<_> = others.iter().map(|driver| &*driver.name).collect();
    names.sort_unstable();
    names.dedup();
    // `kernel` is what is built in, and no driver's name.
    let driver = match &*first.module {
        "kernel" => &first.driver,
        module => module,
    };
    let usable = |other: &&&str| is_instead(subject, other);
    let others: Vec<_> = names.iter().filter(usable).copied().collect();
    let fix = match others.is_empty() {
        true => {
            "keep to the CPU: what the driver has is weaker, for something else, or refused by \
                 the consumer"
                .to_owned()
        }
        false => format!("use an algorithm that it has: {}", others.join(", ")),
    };
    Outcome::no(
        format!("/proc/crypto: {driver} has {}", names.join(", ")),
        format!("The driver {driver} does not have {name}."),
        advice(fix),
    )
}

/// Whether an algorithm of a driver can take the place of the one that is asked for: it is not
/// weaker, and the consumer gets the device by it.
fn is_instead(subject: &Subject<'_>, name: &str) -> bool {
    let Some(algorithm) = Algorithm::find(name) else {
        return false;
    };
    let rank = |name: &str| match name.split('(').next() {
        Some("xts" | "gcm" | "ccm" | "rfc7539") => 2,
        Some("ecb") => 0,
        _ => 1,
    };
    let is_weaker = rank(name) < rank(subject.algorithm.kernel);
    let is_alike = algorithm.kind == subject.algorithm.kind;
    let other = Subject {
        algorithm,
        trial: None,
        ..*subject
    };
    is_alike && !is_weaker && explain(&other).is_used != Answer::No
}

fn self_test(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| match driver.is_tested {
        true => Outcome::yes(format!("/proc/crypto: {}: selftest passed", driver.driver)),
        false => Outcome::no(
            format!("/proc/crypto: {}: selftest unknown", driver.driver),
            format!(
                "The self-test of {} has not passed, so that nothing may use it.",
                driver.driver
            ),
            command("dmesg | grep 'alg:'"),
        ),
    })
}

fn consumer(subject: &Subject<'_>) -> Outcome {
    let consumer = subject.route.consumer();
    let (name, kind) = (subject.algorithm.kernel, subject.algorithm.kind);
    if openssl::reaches_device(subject).is_some() {
        return Outcome::yes("OpenSSL reaches the device without the kernel's crypto API");
    }
    if !consumer.uses(name, kind) {
        return Outcome::no(
            format!("algorithms of {}", consumer.name()),
            format!("{} does not use {name}.", consumer.name()),
            advice("ask for an algorithm that it uses"),
        );
    }
    match consumer.is_there(subject.kernel(), kind) {
        May::Yes => Outcome::yes("the kernel's configuration and modules"),
        May::Unknown(reason) => Outcome::unknown(reason),
        May::No(why) => match subject.kernel().has_cryptodev {
            Some(true) if subject.route == Route::Openssl => Outcome::yes("/dev/crypto"),
            None if subject.route == Route::Openssl => Outcome::unknown(format!(
                "{}: {}; whether there is /dev/crypto is not known",
                why.source, why.reason
            )),
            _ => Outcome::no(
                why.source,
                format!("{} is not there: {}.", consumer.name(), why.reason),
                advice("boot a kernel with that option"),
            ),
        },
    }
}

fn flags(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| {
        if subject.is_by_cryptodev() {
            return Outcome::yes("/dev/crypto: cryptodev refuses no driver");
        }
        let consumer = subject.route.consumer();
        let told = match driver.flags {
            Some(_) => "NETLINK_CRYPTO",
            None => "/proc/crypto, without flags",
        };
        // The self-test has a step of its own.
        let tested = Driver {
            is_tested: true,
            ..driver.clone()
        };
        match consumer.may_use(subject.kernel(), &tested, subject.runs(driver)) {
            May::Yes => Outcome::yes(told),
            May::Unknown(reason) => Outcome {
                fix: Some(command("modprobe crypto_user")),
                ..Outcome::unknown(format!("{told}: {reason}"))
            },
            May::No(why) => Outcome::no(
                format!("{told}; {}", why.source),
                format!(
                    "{} refuses {}: {}.",
                    consumer.name(),
                    driver.driver,
                    why.reason
                ),
                advice("none: another consumer may use the driver (brisk crypto list)"),
            ),
        }
    })
}

/// Whether AF_ALG is on the way.
fn is_by_af_alg(subject: &Subject<'_>) -> bool {
    let is_direct = openssl::reaches_device(subject).is_some();
    subject.route.consumer() == Consumer::AfAlg && !is_direct && !subject.is_by_cryptodev()
}

fn setting(subject: &Subject<'_>) -> String {
    match subject.kernel().af_alg_restrict {
        Some(level) => format!("crypto.af_alg_restrict = {level}"),
        None if restriction(subject.kernel()) > 0 => {
            "no crypto.af_alg_restrict yet; 1 when AF_ALG is loaded".to_owned()
        }
        None => "no crypto.af_alg_restrict".to_owned(),
    }
}

fn af_alg_restrict(subject: &Subject<'_>) -> Outcome {
    if !is_by_af_alg(subject) {
        return Outcome::yes("not by AF_ALG");
    }
    let kernel = subject.kernel();
    if kernel.af_alg_restrict.is_none() && kernel.version.is_none() {
        return Outcome::unknown(
            "neither crypto.af_alg_restrict nor the kernel's version is known",
        );
    }
    let looked_at = setting(subject);
    let unrestricted = || command("sysctl crypto.af_alg_restrict=0");
    match restriction(kernel) {
        0 => Outcome::yes(looked_at),
        1 if needs_admin(subject.algorithm.kernel).is_some() => {
            Outcome::yes(format!("{looked_at}: on the kernel's list"))
        }
        1 => Outcome::no(
            looked_at,
            format!(
                "crypto.af_alg_restrict is 1, and {} is not on the kernel's list.",
                subject.algorithm.kernel
            ),
            unrestricted(),
        ),
        level => Outcome::no(
            looked_at,
            format!("crypto.af_alg_restrict is {level}, which switches AF_ALG off."),
            unrestricted(),
        ),
    }
}

fn capability(subject: &Subject<'_>) -> Outcome {
    if !is_by_af_alg(subject) || restriction(subject.kernel()) != 1 {
        return Outcome::yes("none is asked for");
    }
    let looked_at = "CapEff of /proc/self/status";
    match (
        needs_admin(subject.algorithm.kernel),
        subject.kernel().capabilities,
    ) {
        (Some(true), None) => Outcome::unknown("/proc/self/status cannot be read"),
        (Some(true), Some(own)) if !own.is_admin() => Outcome::no(
            looked_at,
            "AF_ALG asks for CAP_NET_ADMIN or CAP_SYS_ADMIN, and this process has neither.",
            advice("run it as root, or with CAP_NET_ADMIN in the initial user namespace"),
        ),
        _ => Outcome::yes(looked_at),
    }
}

fn priority(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| {
        let consumer = subject.route.consumer();
        let own = format!("{} {}", driver.driver, driver.priority);
        let Some(choice) = subject.choice() else {
            return Outcome::unknown(format!("/proc/crypto: {own}; nothing is accepted"));
        };
        if subject.runs(choice).place == Place::Device {
            return Outcome::yes(format!(
                "/proc/crypto: {} {} is chosen",
                choice.driver, choice.priority
            ));
        }
        let looked_at = format!("/proc/crypto: {own}, {} {}", choice.driver, choice.priority);
        if choice.priority < driver.priority {
            // It is not the priority that is in the way.
            return Outcome::yes(looked_at);
        }
        let name = &driver.driver;
        let then = match (consumer, restriction(subject.kernel())) {
            (Consumer::AfAlg, 0) if subject.route != Route::Openssl => {
                format!("then have the program ask for {name} by name, as brisk crypto bench does")
            }
            (Consumer::DmCrypt, _) => {
                format!("then cryptsetup --cipher capi:{name}-plain64, on a disk that is made anew")
            }
            _ => format!("then unload {}, if it is a module", choice.module),
        };
        Outcome::no(
            looked_at,
            format!(
                "{} has the higher priority ({}, and {name} {}).",
                choice.driver, choice.priority, driver.priority
            ),
            advice(format!(
                "measure first: the CPU is often faster (brisk crypto bench); {then}"
            )),
        )
    })
}

fn key_size(subject: &Subject<'_>) -> Outcome {
    with_driver(subject, |driver| {
        let bytes = subject.algorithm.key;
        let (Some(least), Some(most)) = (driver.min_key, driver.max_key) else {
            return Outcome::yes("/proc/crypto: no sizes of keys");
        };
        let looked_at = format!("/proc/crypto: {}: {least} to {most} bytes", driver.driver);
        match driver.takes_key(bytes) {
            true => Outcome::yes(looked_at),
            false => Outcome::no(
                looked_at,
                format!(
                    "{} takes keys of {least} to {most} bytes, and {} has {bytes}.",
                    driver.driver, subject.algorithm.name
                ),
                advice("use a key of a size that it takes"),
            ),
        }
    })
}
