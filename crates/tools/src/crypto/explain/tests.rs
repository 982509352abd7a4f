mod fallback;
mod figures;

use std::path::Path;

use super::rules::{figures, findings};
use super::*;
use crate::crypto::captured::{CLOUD, NO_DEVICE, NOT_LOADED, VIRTIO, VIRTIO_AND_AESNI};
use crate::crypto::captured::{FLAGS, bytes, edited, kernel};
use crate::crypto::kernel::parse_netlink;
use crate::crypto::libcrypto::{Configuration, Provider, VersionInfo};

const AF_ALG: Route = Route::Kernel(Consumer::AfAlg);
const DM_CRYPT: Route = Route::Kernel(Consumer::DmCrypt);
const FSCRYPT: Route = Route::Kernel(Consumer::Fscrypt);
const KTLS: Route = Route::Kernel(Consumer::Ktls);

/// A configuration that uses the engine afalg.
const ENGINE: &str = "openssl_conf = init\n[init]\nengines = engines\n[engines]\nafalg = afalg\n\
                      [afalg]\nengine_id = afalg\ndefault_algorithms = ALL\n";

/// An OpenSSL of a captured version, with engines as Debian has them.
fn openssl(text: &str, configuration: &str) -> Library {
    let version = VersionInfo::parse(text);
    let has_engines = version.has_engines();
    Library {
        providers: Provider::parse(text),
        installed_engines: match has_engines {
            true => vec!["afalg".into(), "padlock".into()],
            false => Vec::new(),
        },
        configuration: Some(Configuration::parse(configuration)),
        ..Library::below(Path::new("/nonexistent"), version, None)
    }
}

fn debian_12(configuration: &str) -> Library {
    openssl(include_str!("../captured/openssl-3.0.txt"), configuration)
}

fn four(configuration: &str) -> Library {
    openssl(include_str!("../captured/openssl-4.0.txt"), configuration)
}

fn machine(capture: &str, library: Library) -> Machine {
    Machine {
        kernel: kernel(capture),
        library: Ok(library),
        is_here: true,
    }
}

/// Name of the first step that is in the way, its cause, and the remedy; or the answer.
fn cause(machine: &Machine, algorithm: &str, route: Route) -> (String, String, String) {
    let algorithm = Algorithm::find(algorithm).unwrap();
    let explanation = explain(&Subject::new(machine, algorithm, route));
    let ids: Vec<_> = explanation.steps.iter().map(|step| step.id).collect();
    assert_eq!(ids, STEPS.iter().map(|step| step.id).collect::<Vec<_>>());
    let Some(step) = explanation.cause() else {
        let answer = explanation.is_used.name().to_owned();
        return (answer, String::new(), String::new());
    };
    let fix = step.outcome.fix.as_ref().unwrap().to_string();
    (step.id.into(), step.outcome.cause.clone().unwrap(), fix)
}

/// What makes a machine differ from its capture, and what the cause is.
struct Case {
    capture: &'static str,
    edits: &'static [(&'static str, &'static str)],
    algorithm: &'static str,
    route: Route,
    step: &'static str,
    cause: &'static str,
    fix: &'static str,
}

/// The entry of the device's driver up to its self-test.
const PRIORITY: &str = "priority     : 150\n";

const RESTRICTED: (&str, &str) = ("=== end", "=== proc/sys/crypto/af_alg_restrict\n1\n=== end");
const OFF: (&str, &str) = ("=== end", "=== proc/sys/crypto/af_alg_restrict\n2\n=== end");
const FIPS: (&str, &str) = ("fips_enabled\n0", "fips_enabled\n1");

const CASES: &[Case] = &[
    Case {
        capture: NO_DEVICE,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "device",
        cause: "There is no device that does cryptography.",
        fix: "none on this machine",
    },
    Case {
        capture: CLOUD,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: DM_CRYPT,
        step: "module",
        cause: "The kernel 6.1.0-56-cloud-amd64 has no driver for the virtio crypto device.",
        fix: "boot a kernel that has one",
    },
    Case {
        capture: NOT_LOADED,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "module",
        cause: "The module virtio_crypto for the virtio crypto device is not loaded.",
        fix: "modprobe virtio_crypto",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-gcm",
        route: KTLS,
        step: "algorithm",
        cause: "The driver virtio_crypto does not have gcm(aes).",
        fix: "keep to the CPU: what the driver has is weaker",
    },
    Case {
        capture: VIRTIO,
        edits: &[(
            "priority     : 150\nrefcnt       : 1\nselftest     : passed",
            "priority     : 150\nrefcnt       : 1\nselftest     : unknown",
        )],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "self-test",
        cause: "The self-test of virtio_crypto_aes_cbc has not passed, so that nothing may use it.",
        fix: "dmesg | grep 'alg:'",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: KTLS,
        step: "consumer",
        cause: "ktls does not use cbc(aes).",
        fix: "ask for an algorithm that it uses",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: DM_CRYPT,
        step: "flags",
        cause: "dm-crypt refuses virtio_crypto_aes_cbc: it has ALLOCATES_MEMORY by its source.",
        fix: "none: another consumer may use the driver",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: FSCRYPT,
        step: "flags",
        cause: "fscrypt refuses virtio_crypto_aes_cbc: it has ALLOCATES_MEMORY by its source.",
        fix: "none: another consumer may use the driver",
    },
    Case {
        capture: VIRTIO,
        edits: &[("Debian 6.12.", "Debian 7.2.")],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "flags",
        cause: "af-alg refuses virtio_crypto_aes_cbc: it has ASYNC, ALLOCATES_MEMORY by its source.",
        fix: "none: another consumer may use the driver",
    },
    Case {
        capture: VIRTIO,
        edits: &[
            (
                "name         : cbc(aes)\ndriver       : virtio",
                "name         : gcm(aes)\ndriver       : virtio",
            ),
            RESTRICTED,
        ],
        algorithm: "aes-128-gcm",
        route: AF_ALG,
        step: "af-alg-restrict",
        cause: "crypto.af_alg_restrict is 1, and gcm(aes) is not on the kernel's list.",
        fix: "sysctl crypto.af_alg_restrict=0",
    },
    Case {
        capture: VIRTIO,
        edits: &[OFF],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "af-alg-restrict",
        cause: "crypto.af_alg_restrict is 2, which switches AF_ALG off.",
        fix: "sysctl crypto.af_alg_restrict=0",
    },
    Case {
        capture: VIRTIO,
        edits: &[
            RESTRICTED,
            ("CapEff:\t000001ffffffffff", "CapEff:\t0000000000000000"),
        ],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "capability",
        cause: "AF_ALG asks for CAP_NET_ADMIN or CAP_SYS_ADMIN, and this process has neither.",
        fix: "run it as root",
    },
    Case {
        capture: VIRTIO,
        edits: &[RESTRICTED],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "yes",
        cause: "",
        fix: "",
    },
    Case {
        capture: VIRTIO_AND_AESNI,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "priority",
        cause: "cbc-aes-aesni has the higher priority (400, and virtio_crypto_aes_cbc 150).",
        fix: "measure first: the CPU is often faster (brisk crypto bench); then have the program ask \
              for virtio_crypto_aes_cbc by name",
    },
    Case {
        capture: VIRTIO_AND_AESNI,
        edits: &[(PRIORITY, "priority     : 4001\n")],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "yes",
        cause: "",
        fix: "",
    },
    Case {
        capture: VIRTIO,
        edits: &[(
            "async        : yes\nblocksize    : 16\nmin keysize  : 16\nmax keysize  : 32",
            "async        : yes\nblocksize    : 16\nmin keysize  : 16\nmax keysize  : 16",
        )],
        algorithm: "aes-256-cbc",
        route: AF_ALG,
        step: "key-size",
        cause: "virtio_crypto_aes_cbc takes keys of 16 to 16 bytes, and aes-256-cbc has 32.",
        fix: "use a key of a size that it takes",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: Route::Openssl,
        step: "openssl",
        cause: "OpenSSL's configuration does not use the engine afalg.",
        fix: "in openssl.cnf: openssl_conf = init",
    },
    Case {
        capture: VIRTIO,
        edits: &[],
        algorithm: "aes-128-cbc",
        route: AF_ALG,
        step: "yes",
        cause: "",
        fix: "",
    },
];

#[test]
fn each_cause_is_found() {
    for case in CASES {
        let capture = edited(case.capture, case.edits);
        let machine = machine(&capture, debian_12(""));
        let (step, cause, fix) = cause(&machine, case.algorithm, case.route);
        let shown = format!("{} {}", case.algorithm, case.cause);
        assert_eq!((&*step, &*cause), (case.step, case.cause), "{shown}");
        assert!(fix.starts_with(case.fix), "{shown}: {fix}");
    }
}

#[test]
fn openssl_hands_on_by_an_engine_that_it_has() {
    let found = |library, algorithm| {
        let machine = machine(VIRTIO, library);
        cause(&machine, algorithm, Route::Openssl)
    };
    assert_eq!(found(debian_12(ENGINE), "aes-128-cbc").0, "yes");
    let mut without = debian_12("");
    without.installed_engines.clear();
    let cases = [
        (
            without,
            "aes-128-cbc",
            "OpenSSL's engine afalg is not installed.",
        ),
        (
            four(ENGINE),
            "aes-128-cbc",
            "OpenSSL 4.0.3 has no engines, and no provider that reaches a device is active.",
        ),
    ];
    for (library, algorithm, expected) in cases {
        let (step, cause, _) = found(library, algorithm);
        assert_eq!((&*step, &*cause), ("openssl", expected));
    }
    let (_, _, fix) = found(four(ENGINE), "aes-128-cbc");
    assert!(fix.starts_with("remove afalg from openssl.cnf"), "{fix}");
    let gcm = [(
        "name         : cbc(aes)\ndriver       : virtio",
        "name         : gcm(aes)\ndriver       : virtio",
    )];
    let other = machine(&edited(VIRTIO, &gcm), debian_12(ENGINE));
    let (_, cause, _) = cause(&other, "aes-128-gcm", Route::Openssl);
    assert_eq!(cause, "OpenSSL's engine afalg does not have aes-128-gcm.");
}

#[test]
fn a_provider_that_reaches_a_device_needs_no_driver_in_the_kernel() {
    let mut library = debian_12("");
    library.providers.push(Provider {
        id: "qatprovider".into(),
        name: "QAT Provider".into(),
        version: "1.8".into(),
        is_active: true,
    });
    let machine = machine(NOT_LOADED, library);
    assert_eq!(cause(&machine, "aes-128-gcm", Route::Openssl).0, "yes");
    assert_eq!(cause(&machine, "aes-128-cbc", AF_ALG).0, "module");
}

#[test]
fn cryptodev_refuses_no_driver_and_needs_its_own_engine() {
    let device = ("=== end", "=== dev/crypto\n=== end");
    let newer = ("Debian 6.12.", "Debian 7.3.");
    let capture = edited(VIRTIO, &[device, newer]);
    let mut library = debian_12(&ENGINE.replace("afalg", "devcrypto"));
    library.installed_engines.push("devcrypto".into());
    let with = machine(&capture, library);
    assert_eq!(cause(&with, "aes-128-cbc", Route::Openssl).0, "yes");
    assert_eq!(cause(&with, "aes-128-cbc", AF_ALG).0, "flags");
    let without = machine(&capture, debian_12(ENGINE));
    let (_, cause, _) = cause(&without, "aes-128-cbc", Route::Openssl);
    assert_eq!(cause, "OpenSSL's engine devcrypto is not installed.");
}

#[test]
fn fips_mode_allows_approved_algorithms_and_no_engine() {
    let chacha = (
        "name         : cbc(aes)\ndriver       : virtio",
        "name         : rfc7539(chacha20,poly1305)\ndriver       : virtio",
    );
    let kernel_mode = machine(&edited(VIRTIO, &[FIPS, chacha]), debian_12(""));
    let (step, found, _) = cause(&kernel_mode, "chacha20-poly1305", KTLS);
    let expected = "The kernel is in FIPS mode, which does not allow chacha20-poly1305.";
    assert_eq!((&*step, &*found), ("fips", expected));
    let approved = machine(&edited(VIRTIO, &[FIPS]), debian_12(""));
    assert_eq!(cause(&approved, "aes-128-cbc", AF_ALG).0, "yes");
    let properties = "alg_section = algorithms\n[algorithms]\ndefault_properties = fips=yes\n";
    let configuration = ENGINE.replace("[engines]", &format!("{properties}[engines]"));
    let provider = machine(VIRTIO, debian_12(&configuration));
    let (step, found, _) = cause(&provider, "aes-128-cbc", Route::Openssl);
    let expected = "OpenSSL is to use the FIPS provider alone, and an engine is outside of it.";
    assert_eq!((&*step, &*found), ("fips", expected));
}

#[test]
fn flags_are_those_that_the_kernel_tells() {
    let mut told = machine(VIRTIO, debian_12(""));
    told.kernel
        .add_flags(&parse_netlink(&bytes(FLAGS)).reported);
    let (step, cause, _) = cause(&told, "aes-128-cbc", DM_CRYPT);
    let expected = "dm-crypt refuses virtio_crypto_aes_cbc: it has ALLOCATES_MEMORY.";
    assert_eq!((&*step, &*cause), ("flags", expected));
}

#[test]
fn what_is_not_known_is_no_cause() {
    // A driver of which nothing but its module is known, and no flags.
    let unknown = edited(
        VIRTIO,
        &[(
            "driver       : virtio_crypto_aes_cbc",
            "driver       : new-aes-cbc",
        )],
    );
    let machine = Machine {
        kernel: kernel(&unknown),
        library: Err("openssl is not installed".into()),
        is_here: true,
    };
    assert_eq!(cause(&machine, "aes-128-cbc", DM_CRYPT).0, "unknown");
    assert_eq!(cause(&machine, "aes-128-cbc", AF_ALG).0, "yes");
    assert_eq!(cause(&machine, "aes-128-cbc", Route::Openssl).0, "unknown");
}

#[test]
fn a_secure_processor_is_explained_and_no_finding_of_doctor() {
    let edits = [
        ("virtio:d00000014v00001AF4", "virtio:d00000001v00001AF4"),
        (
            "pci:v00001AF4d00001054sv00001AF4sd00001100bc00scFFi00",
            "pci:v00001022d00001456sv00001022sd00001456bc10sc80i00",
        ),
        ("bus/pci/drivers/virtio-pci", "bus/pci/drivers/ccp"),
    ];
    let machine = machine(&edited(NOT_LOADED, &edits), debian_12(""));
    let (step, cause, fix) = cause(&machine, "aes-128-cbc", AF_ALG);
    let expected = "The module ccp_crypto for the PCI encryption controller is not loaded.";
    assert_eq!((&*step, &*cause), ("module", expected));
    assert_eq!(fix, "modprobe ccp_crypto");
    assert!(findings(&machine).is_empty());
}

/// Drivers of boards that brisk does not know, and those of old kernels with a generator of IVs.
#[test]
fn a_driver_that_is_not_known_is_not_denied() {
    let entry = |driver: &str, module: &str, kind: &str| {
        format!(
            "=== proc/crypto\nname         : cbc(aes)\ndriver       : {driver}\nmodule       : \
             {module}\npriority     : 3000\nrefcnt       : 1\nselftest     : passed\ntype         \
             : {kind}\nasync        : yes\nblocksize    : 16\nmin keysize  : 16\nmax keysize  : \
             32\nivsize       : 16\n\n"
        )
    };
    let explained = |entry: &str| {
        let capture = edited(NO_DEVICE, &[("=== proc/crypto\n", entry)]);
        let machine = machine(&capture, debian_12(""));
        let algorithm = Algorithm::find("aes-128-cbc").unwrap();
        explain(&Subject::new(&machine, algorithm, AF_ALG))
    };
    let unknown = explained(&entry("cbc-aes-mt7628", "mtk_aes", "skcipher"));
    let device = &unknown.steps[0].outcome;
    assert_eq!(device.answer, Answer::Unknown, "{device:?}");
    assert!(
        device
            .looked_at
            .contains("cbc-aes-mt7628 of mtk_aes has the highest priority, 3000")
    );
    assert_eq!(device.fix, None);
    let caam = explained(&entry("cbc-aes-caam", "kernel", "givcipher"));
    let algorithm = caam.steps.iter().find(|step| step.id == "algorithm");
    let outcome = &algorithm.unwrap().outcome;
    assert_eq!(outcome.answer, Answer::Yes, "{outcome:?}");
    assert!(outcome.looked_at.contains("cbc-aes-caam for cbc(aes)"));
}
