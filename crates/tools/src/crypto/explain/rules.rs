//! Rules about offload on a machine, and about figures that mislead there. Pure.

use super::{Answer, Route, Subject, explain, routes};
use crate::crypto::kernel::Driver;
use crate::crypto::list::{Consumer, May, Place, Runs, kernel_names, restriction};
use crate::crypto::{Algorithm, Machine};
use brisk_lint::{Applies, Description, Finding, Findings, Fix, Rule, Severity};

/// Rules about offload: what `brisk doctor` shows.
pub const OFFLOAD: &[Rule<Machine>] = &[
    Rule {
        id: "crypto-offload-unused",
        applies: Applies::Host,
        why: "a device for cryptography does nothing",
        source: "brisk: the steps of brisk crypto explain",
        check: unused,
    },
    Rule {
        id: "crypto-offload-refused",
        applies: Applies::Host,
        why: "a disk or directory is encrypted by the CPU, whatever cryptsetup benchmark shows",
        source: "Linux: drivers/md/dm-crypt.c, fs/crypto/fscrypt_private.h",
        check: refused,
    },
    Rule {
        id: "crypto-af-alg-restricted",
        applies: Applies::Host,
        why: "programs do not reach the device by AF_ALG",
        source: "Linux: Documentation/admin-guide/sysctl/crypto.rst, af_alg_restrict",
        check: restricted,
    },
    Rule {
        id: "crypto-virtio-large",
        applies: Applies::Host,
        why: "QEMU stops a virtio-crypto device that is given more than 1024 descriptors at once, \
              and a program that waits for it cannot be ended",
        source: "Linux: virtio_crypto_skcipher_algs.c gives each page with all that follow it: n \
                 pages are n(n+1)/2 descriptors; QEMU: hw/virtio/virtio.c; measured with 6.1 and 6.12",
        check: virtio_large,
    },
    Rule {
        id: "crypto-engine-gone",
        applies: Applies::Host,
        why: "OpenSSL does not use what its configuration names",
        source: "OpenSSL 4.0: engines are removed (ossl-guide-migration(7ossl))",
        check: engine_gone,
    },
];

/// Figures that do not mean what they seem.
pub const FIGURES: &[Rule<Machine>] = &[
    Rule {
        id: "cryptsetup-benchmark",
        applies: Applies::Host,
        why: "cryptsetup benchmark hands over 64 KiB by AF_ALG and waits for the answer; dm-crypt \
              hands over sectors, many at once, and may refuse the driver",
        source: "cryptsetup: lib/crypto_backend/cipher_check.c and crypto_cipher_kernel.c; Linux: \
                 drivers/md/dm-crypt.c",
        check: cryptsetup_benchmark,
    },
    Rule {
        id: "openssl-speed-elapsed",
        applies: Applies::Host,
        why: "without -elapsed the divisor is the process's CPU time, which an offload hardly uses: \
              2194 MB/s were shown where 53 MB/s were real",
        source: "OpenSSL: apps/speed.c; measured",
        check: speed_elapsed,
    },
    Rule {
        id: "openssl-speed-evp",
        applies: Applies::Host,
        why: "up to OpenSSL 1.1.1 engines are bypassed without -evp; 3 and later fetch either way",
        source: "OpenSSL: apps/speed.c of 1.1.1 and 3.0",
        check: speed_evp,
    },
    Rule {
        id: "openssl-speed-count",
        applies: Applies::Host,
        why: "\"ops in 3 s\" counts CPU seconds, and the time behind it may be 0.13 s",
        source: "OpenSSL: issue 23017",
        check: speed_count,
    },
];

/// What the rules about offload find.
#[must_use]
pub fn findings(machine: &Machine) -> Vec<Finding> {
    brisk_lint::check(OFFLOAD, machine)
}

/// What the rules about figures find.
#[must_use]
pub fn figures(machine: &Machine) -> Vec<Finding> {
    brisk_lint::check(FIGURES, machine)
}

/// Descriptions of the rules about offload.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    brisk_lint::descriptions(&[OFFLOAD])
}

/// Descriptions of the rules about figures.
#[must_use]
pub fn figure_descriptions() -> Vec<Description> {
    brisk_lint::descriptions(&[FIGURES])
}

/// Names of algorithms that a driver of a device has, as OpenSSL has them.
fn offloaded(machine: &Machine) -> Vec<&'static Algorithm> {
    let drivers = machine.kernel.drivers.iter().flatten();
    let on_device: Vec<_> = drivers
        .filter(|driver| Runs::of(driver, &machine.kernel.modules).place == Place::Device)
        .map(|driver| &*driver.name)
        .collect();
    kernel_names()
        .iter()
        .filter(|name| on_device.contains(&&***name))
        .filter_map(|name| Algorithm::find(name))
        .collect()
}

fn ask(machine: &Machine, algorithm: &'static Algorithm, consumer: Consumer) -> super::Explanation {
    explain(&Subject::new(machine, algorithm, Route::Kernel(consumer)))
}

/// Steps whose causes other rules report.
const ELSEWHERE: [&str; 2] = ["flags", "af-alg-restrict"];

fn unused(machine: &Machine, findings: &mut Findings) {
    let algorithms = offloaded(machine);
    let mut devices = machine.kernel.devices.iter();
    if !devices.any(|device| device.is_certain()) && algorithms.is_empty() {
        return;
    }
    let usual = Algorithm::find("aes-128-cbc");
    let Some(algorithm) = algorithms.first().copied().or(usual) else {
        return;
    };
    let subject = |route| Subject::new(machine, algorithm, route);
    let all = routes().into_iter().map(subject);
    if all
        .map(|subject| explain(&subject))
        .any(|one| one.is_used == Answer::Yes)
    {
        return;
    }
    let explanation = ask(machine, algorithm, Consumer::AfAlg);
    let cause = explanation.cause();
    let Some(step) = cause.filter(|step| !ELSEWHERE.contains(&step.id)) else {
        return;
    };
    if let (Some(cause), Some(fix)) = (&step.outcome.cause, &step.outcome.fix) {
        findings.add(Severity::Note, cause.trim_end_matches('.'), fix.clone());
    }
}

fn refused(machine: &Machine, findings: &mut Findings) {
    for algorithm in offloaded(machine) {
        for consumer in [Consumer::DmCrypt, Consumer::Fscrypt] {
            let explanation = ask(machine, algorithm, consumer);
            let Some(step) = explanation.cause().filter(|step| step.id == "flags") else {
                continue;
            };
            if let (Some(cause), Some(fix)) = (&step.outcome.cause, &step.outcome.fix) {
                findings.add(Severity::Note, cause.trim_end_matches('.'), fix.clone());
            }
        }
    }
}

fn restricted(machine: &Machine, findings: &mut Findings) {
    let level = restriction(&machine.kernel);
    if level == 0 || machine.kernel.devices.is_empty() && offloaded(machine).is_empty() {
        return;
    }
    let what = match level {
        1 => "crypto.af_alg_restrict is 1: AF_ALG has a list of algorithms, and no driver by name",
        _ => "crypto.af_alg_restrict is 2: there is no AF_ALG",
    };
    let advice = "use another consumer; crypto.af_alg_restrict=0 restores drivers of the CPU alone";
    findings.add(Severity::Note, what, Fix::Advice(advice.into()));
}

fn virtio_large(machine: &Machine, findings: &mut Findings) {
    let mut drivers = machine.kernel.drivers.iter().flatten();
    if drivers.any(|driver| driver.module == "virtio_crypto") {
        findings.add(
            Severity::Faulty,
            "virtio_crypto can be given operations of 128 KiB and more, which stop its device",
            Fix::Advice(
                "encrypt 64 KiB at most at once, or leave the driver out: echo blacklist \
                 virtio_crypto > /etc/modprobe.d/virtio_crypto.conf"
                    .into(),
            ),
        );
    }
}

fn engine_gone(machine: &Machine, findings: &mut Findings) {
    let Ok(library) = &machine.library else {
        return;
    };
    if library.version.major.is_none() || library.version.has_engines() {
        return;
    }
    let configured = library.configuration.iter().flat_map(|it| &it.engines);
    for engine in configured {
        let what = format!(
            "openssl.cnf names the engine {}, and {} has no engines",
            engine.name, library.version.library
        );
        let fix = Fix::Advice("remove it from openssl.cnf; use a provider if there is one".into());
        findings.add(Severity::Low, what, fix);
    }
}

/// Algorithms of disks that `cryptsetup benchmark` shows.
const OF_DISKS: [&str; 2] = ["aes-128-cbc", "aes-256-xts"];

fn cryptsetup_benchmark(machine: &Machine, findings: &mut Findings) {
    for algorithm in OF_DISKS.iter().filter_map(|name| Algorithm::find(name)) {
        if let Some(what) = misleading(machine, algorithm) {
            let fix = format!(
                "measure dm-crypt itself, as root: brisk crypto bench {} --impl dm-crypt",
                algorithm.name
            );
            findings.add(Severity::Note, what, Fix::Advice(fix));
        }
    }
}

/// What `cryptsetup benchmark` shows of an algorithm that is not what dm-crypt does; none if it shows
/// that, or nothing.
fn misleading(machine: &Machine, algorithm: &'static Algorithm) -> Option<String> {
    let kernel = &machine.kernel;
    let name = algorithm.kernel;
    let is_no = |may: May| matches!(may, May::No(_));
    let is_missing = |consumer: Consumer| {
        is_no(consumer.is_there(kernel, algorithm.kind)) || is_no(consumer.may_name(kernel, name))
    };
    let [by_socket, by_disk] = [Consumer::AfAlg, Consumer::DmCrypt];
    if is_missing(by_socket) || is_missing(by_disk) {
        return None;
    }
    let subject = |consumer| Subject::new(machine, algorithm, Route::Kernel(consumer));
    let (shown, used) = (subject(by_socket).choice()?, subject(by_disk).choice()?);
    let may = |consumer: Consumer, driver| {
        consumer.may_use(kernel, driver, Runs::of(driver, &kernel.modules))
    };
    let (a, b) = (&shown.driver, &used.driver);
    if a != b {
        let is_certain = may(by_socket, shown) == May::Yes && may(by_disk, used) == May::Yes;
        return Some(match is_certain {
            true => format!("cryptsetup benchmark measures {a} for {name}, and dm-crypt uses {b}"),
            false => format!(
                "cryptsetup benchmark measures another driver for {name} than dm-crypt uses: {a} \
                 and, as far as is known, {b}"
            ),
        });
    }
    let sectors = || {
        format!(
            "cryptsetup benchmark hands {a} 64 KiB at once for {name}, one request after the other; \
             dm-crypt hands over sectors of 512 to 4096 bytes, many at once"
        )
    };
    is_asynchronous(machine, shown).then(|| match may(by_disk, used) {
        May::Unknown(reason) => format!("{}, if it uses that driver: {reason}", sectors()),
        _ => sectors(),
    })
}

/// Whether an implementation does its work elsewhere, so that the size of requests and their number
/// at once matter: on a device, or in threads of cryptd. The wrappers of the CPU's instructions are
/// asynchronous, too, and do the work at once.
fn is_asynchronous(machine: &Machine, driver: &Driver) -> bool {
    match Runs::of(driver, &machine.kernel.modules).place {
        Place::Device => true,
        Place::Unknown => driver.is_async == Some(true),
        Place::Cpu => driver.driver.starts_with("cryptd("),
    }
}

/// Whether OpenSSL can hand work on here.
fn has_engines(machine: &Machine) -> bool {
    let library = machine.library.as_ref();
    library.is_ok_and(|library| {
        let engines = &library.installed_engines;
        engines.iter().any(|it| it == "afalg" || it == "devcrypto")
            || !library.installed_providers.is_empty()
    })
}

fn speed_elapsed(machine: &Machine, findings: &mut Findings) {
    if has_engines(machine) {
        findings.add(
            Severity::Note,
            "openssl speed without -elapsed divides by CPU time",
            Fix::Command("openssl speed -elapsed -evp aes-128-cbc".into()),
        );
    }
}

fn speed_evp(machine: &Machine, findings: &mut Findings) {
    let library = machine.library.as_ref();
    let is_old = library.is_ok_and(|it| it.version.major.is_some_and(|major| major < 3));
    if is_old && has_engines(machine) {
        findings.add(
            Severity::Note,
            "openssl speed aes-128-cbc, without -evp, measures libcrypto's own code",
            Fix::Command("openssl speed -elapsed -evp aes-128-cbc".into()),
        );
    }
}

fn speed_count(machine: &Machine, findings: &mut Findings) {
    if has_engines(machine) {
        findings.add(
            Severity::Note,
            "\"Doing AES-128-CBC for 3s\" of openssl speed is followed by the time that counts",
            Fix::Advice("read the number behind \"in\", or use -mr: +R:count:name:seconds".into()),
        );
    }
}
