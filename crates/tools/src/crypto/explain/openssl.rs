//! Steps about OpenSSL and FIPS. Pure.

use super::{Outcome, Route, Subject};
use crate::crypto::Algorithm;
use crate::crypto::libcrypto::Library;
use brisk_lint::Fix;

/// Providers and engines that reach a device by themselves, without the kernel's crypto API: Intel's
/// QAT_Engine.
const DIRECT: [&str; 2] = ["qatprovider", "qatengine"];

/// Ciphers of the engine afalg (`engines/e_afalg.c`).
pub(in crate::crypto) const AFALG: [&str; 3] = ["aes-128-cbc", "aes-192-cbc", "aes-256-cbc"];

/// What to write into `openssl.cnf` for the engine.
const ENGINE: &str = "in openssl.cnf: openssl_conf = init; [init] engines = engines; [engines] \
                      afalg = afalg; [afalg] engine_id = afalg, default_algorithms = ALL. OpenSSL 4 \
                      has no engines any more";

/// A provider or an engine that is active and reaches a device by itself.
pub(super) fn reaches_device(subject: &Subject<'_>) -> Option<&'static str> {
    if subject.route != Route::Openssl {
        return None;
    }
    let library = subject.library()?;
    let is_active = |id: &&str| {
        let mut providers = library.providers.iter();
        let is_provider = providers.any(|it| it.id == *id && it.is_active);
        is_provider || library.version.has_engines() && library.is_configured_engine(id)
    };
    DIRECT.into_iter().find(|id| is_active(id))
}

pub(super) fn handed_on(subject: &Subject<'_>) -> Outcome {
    if subject.route != Route::Openssl {
        return Outcome::yes("not by OpenSSL");
    }
    let library = match &subject.machine.library {
        Ok(library) => library,
        Err(reason) => return Outcome::unknown(reason.clone()),
    };
    let name = &library.version.library;
    if let Some(id) = reaches_device(subject) {
        return Outcome::yes(format!("{name}: {id} is active"));
    }
    if library.version.major.is_none() {
        return Outcome::unknown(format!("{name} is not OpenSSL"));
    }
    if !library.version.has_engines() {
        return without_engines(library);
    }
    by_engine(subject, library)
}

fn without_engines(library: &Library) -> Outcome {
    let name = &library.version.library;
    let configured = library.configuration.iter().flat_map(|it| &it.engines);
    let configured: Vec<_> = configured.map(|engine| &*engine.name).collect();
    let fix = match configured.is_empty() {
        true => "none for AF_ALG or cryptodev: no provider for these exists".to_owned(),
        false => format!(
            "remove {} from openssl.cnf; no provider for AF_ALG or cryptodev exists",
            configured.join(", ")
        ),
    };
    Outcome::no(
        format!("openssl version: {name}; its providers"),
        format!("{name} has no engines, and no provider that reaches a device is active."),
        Fix::Advice(fix),
    )
}

fn by_engine(subject: &Subject<'_>, library: &Library) -> Outcome {
    let id = match subject.kernel().has_cryptodev {
        Some(true) => "devcrypto",
        _ => "afalg",
    };
    let path = library.configuration_path.as_deref();
    let path = path.map_or("openssl.cnf".into(), |path| path.display().to_string());
    let is_installed = library.installed_engines.iter().any(|it| it == id)
        || library.engines.iter().any(|it| it.id == id);
    let name = subject.algorithm.name;
    let looked_at = format!("{}, {path}", library.version.library);
    if !is_installed {
        return Outcome::no(
            looked_at,
            format!("OpenSSL's engine {id} is not installed."),
            Fix::Advice(format!("an OpenSSL that was built with the engine {id}")),
        );
    }
    if id == "afalg" && !AFALG.contains(&name) {
        return Outcome::no(
            looked_at,
            format!("OpenSSL's engine afalg does not have {name}."),
            Fix::Advice(format!("use one that it has: {}", AFALG.join(", "))),
        );
    }
    match library.is_configured_engine(id) {
        true => Outcome::yes(format!("{looked_at}: engine {id}")),
        false => Outcome::no(
            looked_at,
            format!("OpenSSL's configuration does not use the engine {id}."),
            Fix::Advice(ENGINE.into()),
        ),
    }
}

/// Whether the kernel's self-tests know it as approved (`fips_allowed` of `crypto/testmgr.c`).
fn is_approved(algorithm: &Algorithm) -> bool {
    !algorithm.kernel.contains("chacha")
}

pub(super) fn fips(subject: &Subject<'_>) -> Outcome {
    let kernel = subject.kernel();
    let name = subject.algorithm.name;
    if kernel.is_fips.is_none() && !is_approved(subject.algorithm) {
        return Outcome::unknown(format!(
            "/proc/sys cannot be read: {name} is not allowed in FIPS mode"
        ));
    }
    if kernel.is_fips == Some(true) && !is_approved(subject.algorithm) {
        return Outcome::no(
            "crypto.fips_enabled = 1",
            format!("The kernel is in FIPS mode, which does not allow {name}."),
            Fix::Advice("use an algorithm that FIPS 140 approves, such as aes-256-gcm".into()),
        );
    }
    let configuration = subject.library().and_then(|it| it.configuration.as_ref());
    let is_fips = configuration.is_some_and(|it| it.is_fips());
    if subject.route == Route::Openssl && is_fips {
        return Outcome::no(
            "openssl.cnf: default_properties = fips=yes",
            "OpenSSL is to use the FIPS provider alone, and an engine is outside of it.",
            Fix::Advice(
                "stay without offload; or remove fips=yes if FIPS 140 is not required".into(),
            ),
        );
    }
    match kernel.is_fips {
        Some(true) => Outcome::yes(format!("crypto.fips_enabled = 1, and {name} is approved")),
        Some(false) => Outcome::yes("FIPS mode is off"),
        None => Outcome::yes(format!("{name} is approved for FIPS mode")),
    }
}
