mod elsewhere;
mod pieces;

use std::path::{Path, PathBuf};

use super::*;
use crate::crypto::captured::{FLAGS, NO_DEVICE, VIRTIO, bytes, edited, kernel};
use crate::crypto::kernel::parse_netlink;
use crate::crypto::libcrypto::{Configuration, Library, Provider, VersionInfo};
use crate::crypto::{Curve, Origin, Point};

/// Microseconds at 16, 1024, 4096, 16384 and 65536 bytes.
pub(super) type Times = [f64; 5];

const SIZES: [u64; 5] = [16, 1024, 4096, 16384, 65536];
/// Of `cbc(aes-generic)` and of virtio-crypto, in a guest with Linux 6.12.
pub(super) const GENERIC: Times = [33.0, 69.0, 174.0, 615.0, 2407.0];
pub(super) const VIRTIO_TIMES: Times = [163.0, 195.0, 196.0, 296.0, 617.0];
const TWICE: Times = [326.0, 390.0, 392.0, 592.0, 1234.0];

/// Debian's, as far as it matters.
const DEBIAN: &str = "openssl_conf = openssl_init\nconfig_diagnostics = 1\n[openssl_init]\n\
                      providers = provider_sect\n[provider_sect]\ndefault = default_sect\n\
                      [default_sect]\n# activate = 1\n";

pub(super) fn curve(name: &str, times: Times) -> Curve {
    let points = SIZES.iter().zip(times).map(|(bytes, time)| Point {
        bytes: *bytes,
        // Three runs without any noise.
        seconds: vec![time * 1e-6; 3],
    });
    Curve {
        name: name.to_owned(),
        points: points.collect(),
        ..Curve::default()
    }
}

fn compared(metric: Metric, software: Times, offload: Times) -> Compared {
    Compared {
        metric,
        crossover: Crossover::of(&curve("openssl", software), &curve("offload", offload)),
    }
}

/// The offload is faster above some size, by both quantities.
fn both(time: Times, cpu: Times) -> Vec<Compared> {
    vec![
        compared(Metric::Time, GENERIC, time),
        compared(Metric::WholeSystemCpu, GENERIC, cpu),
    ]
}

fn openssl(version: &str, configuration: &str) -> Library {
    let version = VersionInfo::parse(version);
    let has_engines = version.has_engines();
    Library {
        providers: Provider::parse(""),
        installed_engines: match has_engines {
            true => vec!["afalg".into(), "devcrypto".into(), "qatengine".into()],
            false => Vec::new(),
        },
        installed_providers: vec!["qatprovider".into()],
        configuration_path: Some(PathBuf::from("/etc/ssl/openssl.cnf")),
        configuration: Some(Configuration::parse(configuration)),
        ..Library::below(Path::new("/nonexistent"), version, None)
    }
}

fn three() -> Library {
    openssl(include_str!("../captured/openssl-3.0.txt"), DEBIAN)
}

fn four() -> Library {
    openssl(include_str!("../captured/openssl-4.0.txt"), DEBIAN)
}

/// A guest with virtio-crypto, which nothing on its CPU outranks and no consumer refuses.
fn machine(library: Library) -> Machine {
    let mut kernel = kernel(VIRTIO);
    for driver in kernel.drivers.iter_mut().flatten() {
        driver.flags = Some(crate::crypto::kernel::Flags::default());
    }
    Machine {
        kernel,
        library: Ok(library),
        is_here: true,
    }
}

/// As it is: with the flags that the kernel told.
fn as_captured(capture: &str) -> Machine {
    let mut kernel = kernel(capture);
    if capture != NO_DEVICE {
        kernel.add_flags(&parse_netlink(&bytes(FLAGS)).reported);
    }
    Machine {
        kernel,
        library: Ok(three()),
        is_here: true,
    }
}

struct Case<'a> {
    machine: Machine,
    unseen: Option<Obstacle>,
    route: Route,
    offload: &'a str,
    algorithm: &'a str,
    compared: Vec<Compared>,
    by: By,
    facts: Facts,
    cryptodev_mode: Option<u32>,
}

impl Case<'_> {
    fn answer(&self) -> Recommendation {
        let offload = self.offload.parse().ok();
        recommend(&Question {
            machine: &self.machine,
            unseen: self.unseen.as_ref(),
            algorithm: Algorithm::find(self.algorithm).unwrap(),
            route: self.route,
            offload: offload.as_ref(),
            compared: &self.compared,
            by: self.by,
            facts: &self.facts,
            cryptodev_mode: self.cryptodev_mode,
        })
    }
}

fn case<'a>(route: Route, offload: &'a str) -> Case<'a> {
    Case {
        machine: machine(three()),
        unseen: None,
        route,
        offload,
        algorithm: "aes-128-cbc",
        compared: both(VIRTIO_TIMES, VIRTIO_TIMES),
        by: By::Both,
        facts: Facts {
            source: "report.json".to_owned(),
            ..Facts::default()
        },
        cryptodev_mode: None,
    }
}

const AF_ALG: Route = Route::Kernel(Consumer::AfAlg);
const DM_CRYPT: Route = Route::Kernel(Consumer::DmCrypt);
const DRIVER: &str = "af-alg:virtio_crypto_aes_cbc";

/// A case with what is answered.
struct Refused<'a> {
    case: Case<'a>,
    worth: Worth,
    headline: &'a str,
    fix: &'a str,
}

fn refused<'a>(case: Case<'a>, worth: Worth, headline: &'a str, fix: &'a str) -> Refused<'a> {
    Refused {
        case,
        worth,
        headline,
        fix,
    }
}

/// Each has a cause, and nothing is to be copied for it.
fn are_refused(all: Vec<Refused<'_>>) {
    for one in all {
        let answer = one.case.answer();
        let shown = text(&answer);
        assert_eq!(answer.worth, one.worth, "{shown}");
        assert!(answer.headline.contains(one.headline), "{shown}");
        let found = answer.fix.clone().unwrap_or_default();
        assert_eq!(found.is_empty(), one.fix.is_empty(), "{shown}");
        assert!(found.contains(one.fix), "{}: {shown}", one.fix);
        let mut places = answer.pieces.iter().map(|piece| &*piece.place);
        assert!(places.all(|place| place == LEFT_OUT), "{shown}");
        assert_eq!(answer.reasons.len(), one.case.compared.len());
    }
}

/// File that leaves a driver out.
pub(super) const LEFT_OUT: &str = "/etc/modprobe.d/brisk-crypto.conf";

/// Facts besides the source.
fn with(facts: Facts) -> Facts {
    Facts {
        source: "report.json".to_owned(),
        ..facts
    }
}

#[test]
fn figures_decide() {
    let time_only = || vec![compared(Metric::Time, GENERIC, VIRTIO_TIMES)];
    are_refused(vec![
        refused(
            Case {
                compared: both([9e3; 5], VIRTIO_TIMES),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Not,
            "Do not: software takes less wall-clock time at every size measured, up to 65536 \
             bytes.",
            "",
        ),
        refused(
            Case {
                compared: both(VIRTIO_TIMES, [9e3; 5]),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Not,
            "Do not: software takes less CPU time of the whole system at every size",
            "",
        ),
        refused(
            Case {
                compared: both(GENERIC, VIRTIO_TIMES),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Not,
            "Do not: software and the offload do not differ in wall-clock time.",
            "",
        ),
        refused(
            Case {
                compared: time_only(),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Unknown,
            "No recommendation: CPU time of the whole system is not known, since it is missing \
             in report.json.",
            "",
        ),
        refused(
            Case {
                facts: with(Facts {
                    others: Some(0.5),
                    ..Facts::default()
                }),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Unknown,
            "other programs used up to 50 % of a CPU",
            "",
        ),
        refused(
            case(DM_CRYPT, DRIVER),
            Worth::Not,
            "and dm-crypt hands over 4096 bytes at most (the largest sector of dm-crypt).",
            "",
        ),
    ]);
}

#[test]
fn drivers_that_a_consumer_cannot_use_are_refused() {
    let ktls = || Case {
        algorithm: "aes-128-gcm",
        ..case(Route::Kernel(Consumer::Ktls), "ktls")
    };
    are_refused(vec![
        refused(
            Case {
                machine: as_captured(VIRTIO),
                ..case(DM_CRYPT, DRIVER)
            },
            Worth::Not,
            "Do not: dm-crypt refuses virtio_crypto_aes_cbc: it has ALLOCATES_MEMORY",
            "another consumer may use the driver",
        ),
        refused(
            Case {
                machine: as_captured(NO_DEVICE),
                ..case(AF_ALG, "af-alg")
            },
            Worth::Not,
            "Do not: There is no device that does cryptography.",
            "none on this machine",
        ),
        refused(
            Case {
                machine: as_captured(NO_DEVICE),
                ..case(AF_ALG, DRIVER)
            },
            Worth::Unknown,
            "/proc/crypto has no driver virtio_crypto_aes_cbc for cbc(aes) here.",
            "load its module",
        ),
        refused(
            case(AF_ALG, "af-alg:cbc(aes-generic)"),
            Worth::Not,
            "cbc(aes-generic) is no offload: it runs on the CPU: C.",
            "nothing",
        ),
        refused(
            ktls(),
            Worth::Not,
            "The driver virtio_crypto does not have gcm(aes).",
            "keep to the CPU",
        ),
    ]);
}

#[test]
fn openssl_needs_what_it_is_to_use() {
    are_refused(vec![
        refused(
            case(Route::Openssl, "openssl-no-aesni"),
            Worth::Not,
            "openssl-no-aesni is software, and no offload.",
            "name the offload last",
        ),
        refused(
            case(Route::Openssl, "provider:legacy"),
            Worth::Not,
            "provider:legacy is software",
            "name the offload last",
        ),
        refused(
            case(Route::Openssl, DRIVER),
            Worth::Unknown,
            "openssl does not use af-alg:virtio_crypto_aes_cbc.",
            "--impl engine:NAME",
        ),
        refused(
            case(Route::Openssl, "no implementation"),
            Worth::Unknown,
            "the name of the offload is not that of an implementation",
            "measure with --impl",
        ),
        refused(
            Case {
                machine: machine(four()),
                ..case(Route::Openssl, "engine:afalg")
            },
            Worth::Not,
            "has no engines, and afalg is one.",
            "there is none",
        ),
        refused(
            case(Route::Openssl, "engine:nosuch"),
            Worth::Not,
            "OpenSSL's engine nosuch is not installed.",
            "built with the engine nosuch",
        ),
        refused(
            case(Route::Openssl, "provider:nosuch"),
            Worth::Not,
            "OpenSSL's provider nosuch is not installed.",
            "install the provider",
        ),
        refused(
            Case {
                algorithm: "aes-128-ctr",
                ..case(Route::Openssl, "engine:afalg")
            },
            Worth::Not,
            "OpenSSL's engine afalg lacks aes-128-ctr.",
            "aes-128-cbc",
        ),
        refused(
            Case {
                machine: Machine {
                    library: Err("not asked for".to_owned()),
                    ..machine(three())
                },
                ..case(Route::Openssl, "engine:afalg")
            },
            Worth::Unknown,
            "nothing is known of OpenSSL: not asked for.",
            "on the machine itself",
        ),
        refused(
            Case {
                facts: with(Facts {
                    proof: Some("no driver was in use more than before: not proven".to_owned()),
                    ..Facts::default()
                }),
                ..case(Route::Openssl, "engine:afalg")
            },
            Worth::Unknown,
            "that the device did the work is not proven",
            "brisk crypto explain",
        ),
    ]);
}

/// AF_ALG that is switched off.
#[test]
fn a_restricted_af_alg_is_in_the_way() {
    let text = edited(
        VIRTIO,
        &[("=== end", "=== proc/sys/crypto/af_alg_restrict\n2\n=== end")],
    );
    let answer = Case {
        machine: Machine {
            kernel: kernel(&text),
            library: Ok(three()),
            is_here: true,
        },
        ..case(AF_ALG, DRIVER)
    }
    .answer();
    assert_eq!(answer.worth, Worth::Not);
    assert!(answer.headline.contains("af_alg_restrict"), "{answer:?}");
    assert_eq!(
        answer.fix.as_deref(),
        Some("sysctl crypto.af_alg_restrict=0")
    );
}

#[test]
fn one_quantity_decides_alone_if_asked() {
    let by = |by, compared| {
        Case {
            by,
            compared,
            ..case(AF_ALG, DRIVER)
        }
        .answer()
        .worth
    };
    let time = || vec![compared(Metric::Time, GENERIC, [1.0; 5])];
    assert_eq!(by(By::Time, time()), Worth::From(16));
    assert_eq!(by(By::Cpu, time()), Worth::Unknown);
    assert_eq!(by(By::Cpu, both([9e3; 5], [1.0; 5])), Worth::From(16));
    assert_eq!(by(By::Both, both([9e3; 5], [1.0; 5])), Worth::Not);
    // Of two sizes the larger one counts.
    let (time, cpu) = (
        by(By::Both, both([1.0; 5], VIRTIO_TIMES)),
        by(By::Both, both([1.0; 5], TWICE)),
    );
    let size = |worth| match worth {
        Worth::From(bytes) => bytes,
        other => panic!("{other}"),
    };
    assert!(size(time) < size(cpu), "{time} {cpu}");
}
