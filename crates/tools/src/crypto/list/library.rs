//! Implementations of OpenSSL: libcrypto's own, providers and engines. Pure.

use serde::Serialize;

use super::consumer::{Consumer, May};
use crate::crypto::kernel::Kernel;
use crate::crypto::libcrypto::{CpuSettings, Library};
use crate::crypto::{ALGORITHMS, Kind};

/// An implementation of OpenSSL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LibraryRow {
    /// What it is, such as `libcrypto` or `engine afalg`.
    pub name: String,
    /// What runs it.
    pub runs: String,
    /// Whether programs use it as things are.
    pub is_used: bool,
    /// How to have it used, or why it cannot be.
    pub how: String,
}

/// A feature of x86 that libcrypto has implementations for (OPENSSL_ia32cap(3ssl)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Feature {
    name: &'static str,
    /// Word of `OPENSSL_ia32cap`.
    word: usize,
    bit: u32,
}

const fn feature(name: &'static str, word: usize, bit: u32) -> Feature {
    Feature { name, word, bit }
}

const AES_NI: Feature = feature("AES-NI", 0, 57);
const PCLMULQDQ: Feature = feature("PCLMULQDQ", 0, 33);
const SSSE3: Feature = feature("SSSE3", 0, 41);
const AVX: Feature = feature("AVX", 0, 60);
const AVX2: Feature = feature("AVX2", 1, 5);
const AVX512: Feature = feature("AVX-512", 1, 16);
const SHA_NI: Feature = feature("SHA-NI", 1, 29);

/// Features of Arm: bits of `OPENSSL_armcap` (`crypto/arm_arch.h`).
const ARM_AES: u32 = 2;
const ARM_SHA1: u32 = 3;
const ARM_SHA256: u32 = 4;
const ARM_SHA512: u32 = 6;

/// Features for an algorithm: the fast ones, which are taken away together, and the ones that
/// libcrypto falls back to.
struct Features {
    fast: &'static [Feature],
    slow: &'static [Feature],
    arm: u32,
}

fn features(name: &str) -> Features {
    let (fast, slow, arm): (&[_], &[_], _) = match name {
        "gcm(aes)" => (&[AES_NI, PCLMULQDQ], &[SSSE3], ARM_AES),
        "rfc7539(chacha20,poly1305)" => (&[AVX512, AVX2, AVX, SSSE3], &[], 0),
        "sha1" => (&[SHA_NI], &[AVX2, AVX, SSSE3], ARM_SHA1),
        "sha256" => (&[SHA_NI], &[AVX2, AVX, SSSE3], ARM_SHA256),
        "sha512" => (&[AVX2, AVX], &[SSSE3], ARM_SHA512),
        _ => (&[AES_NI], &[SSSE3], ARM_AES),
    };
    Features { fast, slow, arm }
}

/// Engines that hand work to something outside of the process.
struct OffloadEngine {
    id: &'static str,
    runs: &'static str,
    ciphers: &'static [&'static str],
    hashes: bool,
}

/// `engines/e_afalg.c` and `engines/e_devcrypto.c` of OpenSSL, and Intel's qatengine.
const ENGINES: &[OffloadEngine] = &[
    OffloadEngine {
        id: "afalg",
        runs: "the kernel, by AF_ALG",
        ciphers: &["cbc(aes)"],
        hashes: false,
    },
    OffloadEngine {
        id: "devcrypto",
        runs: "the kernel, by /dev/crypto",
        ciphers: &["cbc(aes)", "ctr(aes)", "ecb(aes)"],
        hashes: true,
    },
    OffloadEngine {
        id: "qatengine",
        runs: "Intel QAT",
        ciphers: &["cbc(aes)", "gcm(aes)"],
        hashes: false,
    },
];

/// Implementations of OpenSSL for an algorithm of the kernel's name; empty if it has none.
#[must_use]
pub fn library_rows(name: &str, kernel: &Kernel, library: &Library) -> Vec<LibraryRow> {
    let Some(algorithm) = ALGORITHMS
        .iter()
        .find(|one| one.kernel == name && one.in_openssl)
    else {
        return Vec::new();
    };
    let mut rows = own_rows(name, library);
    let providers = library.providers.iter().filter(|it| !is_own(&it.id));
    rows.extend(providers.map(|provider| {
        LibraryRow {
            name: format!("provider {}", provider.id),
            runs: provider.name.clone(),
            is_used: provider.is_active,
            how: match provider.is_active {
                true => {
                    "the configuration activates it; whether it has the algorithm: openssl list \
                     -cipher-algorithms"
                        .into()
                }
                false => "not active".into(),
            },
        }
    }));
    let unused = library
        .installed_providers
        .iter()
        .filter(|name| !library.providers.iter().any(|it| it.id == **name));
    rows.extend(unused.map(|name| LibraryRow {
        name: format!("provider {name}"),
        runs: "unknown".into(),
        is_used: false,
        how: "installed; the configuration does not activate it".into(),
    }));
    let is_hash = algorithm.kind == Kind::Hash;
    let engines = ENGINES
        .iter()
        .filter(|engine| engine.ciphers.contains(&name) || engine.hashes && is_hash);
    rows.extend(engines.filter_map(|engine| engine_row(engine, kernel, library)));
    rows
}

fn is_own(id: &str) -> bool {
    ["default", "base", "legacy", "null", "fips"].contains(&id)
}

fn own_rows(name: &str, library: &Library) -> Vec<LibraryRow> {
    let own = |runs: String, is_used, how: String| LibraryRow {
        name: library.version.library.clone(),
        runs,
        is_used,
        how,
    };
    let wanted = features(name);
    match library.cpu {
        None => vec![own("CPU".into(), true, String::new())],
        Some(CpuSettings::Arm(bits)) => {
            let has = wanted.arm != 0 && bits >> wanted.arm & 1 == 1;
            let mut rows = Vec::new();
            if has {
                let runs = "CPU: Armv8 Crypto Extensions";
                rows.push(own(runs.into(), true, String::new()));
            }
            let without = bits & !(1_u64 << wanted.arm);
            let how = match has {
                true => format!("OPENSSL_armcap={without:#x}"),
                false => String::new(),
            };
            rows.push(own("CPU: no such instructions".into(), !has, how));
            rows
        }
        Some(CpuSettings::X86(words)) => {
            let present = |features: &[Feature]| -> Vec<Feature> {
                let on = |feature: &&Feature| words[feature.word] >> feature.bit & 1 == 1;
                features.iter().filter(on).copied().collect()
            };
            let (fast, slow) = (present(wanted.fast), present(wanted.slow));
            let mut rows = Vec::new();
            if !fast.is_empty() {
                rows.push(own(on_cpu(&fast), true, String::new()));
            }
            let how = match fast.is_empty() {
                true => String::new(),
                false => switched_off(&fast),
            };
            // Of several that it could fall back to it takes the first.
            let slow = &slow[..slow.len().min(1)];
            rows.push(own(on_cpu(slow), fast.is_empty(), how));
            rows
        }
    }
}

fn on_cpu(features: &[Feature]) -> String {
    let names: Vec<_> = features.iter().map(|feature| feature.name).collect();
    match names.is_empty() {
        true => "CPU: no such instructions".into(),
        false => format!("CPU: {}", names.join(", ")),
    }
}

/// Setting of the environment that takes features away and leaves all others: words that are not
/// named are set to 0 (`OPENSSL_cpuid_setup` of `crypto/cpuid.c`), of which OpenSSL 3.5 has five. An
/// older one ignores those behind the second.
fn switched_off(features: &[Feature]) -> String {
    let mut masks = [0_u64; 5];
    for feature in features {
        masks[feature.word] |= 1 << feature.bit;
    }
    let words = masks.map(|mask| format!("~{mask:#x}"));
    format!("OPENSSL_ia32cap={}", words.join(":"))
}

fn engine_row(engine: &OffloadEngine, kernel: &Kernel, library: &Library) -> Option<LibraryRow> {
    let is_there = library.installed_engines.iter().any(|id| id == engine.id)
        || library.engines.iter().any(|it| it.id == engine.id);
    let is_configured = library.is_configured_engine(engine.id);
    if !is_there && !is_configured {
        return None;
    }
    let af_alg = match engine.id {
        "afalg" => Consumer::AfAlg.is_there(kernel, Kind::Cipher),
        _ => May::Yes,
    };
    let is_by_cryptodev = engine.id == "devcrypto";
    let loaded = library.engines.iter().find(|it| it.id == engine.id);
    let is_available = loaded.is_none_or(|it| it.is_available);
    let (is_used, how) = match () {
        () if !library.version.has_engines() => (
            false,
            "configured, but OpenSSL 4 has no engines: remove it".to_owned(),
        ),
        () if !is_there => (false, "configured, but not installed".to_owned()),
        () if is_by_cryptodev && kernel.has_cryptodev == Some(false) => {
            (false, "there is no /dev/crypto".to_owned())
        }
        () if matches!(af_alg, May::No(_)) => (false, "the kernel has no AF_ALG".to_owned()),
        () if !is_available => (false, "it cannot be initialised here".to_owned()),
        () if is_configured => (true, "the configuration activates it".to_owned()),
        () if matches!(af_alg, May::Unknown(_)) => (
            false,
            "-engine afalg; whether the kernel has AF_ALG is not known".to_owned(),
        ),
        () if is_by_cryptodev && kernel.has_cryptodev.is_none() => (
            false,
            "-engine devcrypto; whether there is /dev/crypto is not known".to_owned(),
        ),
        () => (false, format!("-engine {}", engine.id)),
    };
    Some(LibraryRow {
        name: format!("engine {}", engine.id),
        runs: engine.runs.into(),
        is_used,
        how,
    })
}
