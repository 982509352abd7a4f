//! Obstacles between a consumer and an offload. Pure.
//!
//! The steps of [`explain`](crate::crypto::explain) find it, but for those that a configuration is
//! for: a priority that a name goes around, and an engine that is not configured yet.

use super::Question;
use crate::crypto::bench::{Shown, shown};
use crate::crypto::explain::{AFALG, Answer, Route, Subject, explain};
use crate::crypto::kernel::Driver;
use crate::crypto::libcrypto::{Library, VersionInfo};
use crate::crypto::list::{Consumer, May, Place, Runs, Use, Why, listing};
use crate::crypto::{Implementation, Kind};

/// Something that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Whether it is certain; else a fact is missing.
    pub is_certain: bool,
    /// The cause, in a sentence.
    pub cause: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Obstacle {
    pub(super) fn certain(cause: impl Into<String>) -> Self {
        Self {
            is_certain: true,
            cause: cause.into(),
            fix: None,
        }
    }

    pub(super) fn unknown(cause: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            is_certain: false,
            cause: cause.into(),
            fix: Some(fix.into()),
        }
    }

    fn with(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Engines that go to the kernel.
pub(super) const TO_KERNEL: [&str; 2] = ["afalg", "devcrypto"];

/// The first thing in the way; none if there is none.
pub(super) fn of(question: &Question<'_>) -> Option<Obstacle> {
    let Some(offload) = question.offload else {
        return Some(Obstacle::unknown(
            "the name of the offload is not that of an implementation, so that nothing can be \
             configured for it.",
            "measure with --impl, or take a report of brisk crypto bench",
        ));
    };
    software(offload)
        .or_else(|| not_its_route(question.route, offload))
        .or_else(|| match question.route {
            _ if question.unseen.is_some() => by_names(question, offload),
            Route::Openssl => openssl(question, offload),
            Route::Kernel(consumer) => kernel(question, consumer, offload),
        })
        .or_else(|| unproven(question, offload))
}

fn software(offload: &Implementation) -> Option<Obstacle> {
    let is_software = match offload {
        Implementation::Tcp => true,
        other => other.is_software(),
    };
    let cause = format!("{offload} is software, and no offload.");
    is_software.then(|| {
        Obstacle::certain(cause).with(
            "name the offload last: --impl SOFTWARE --impl OFFLOAD; brisk crypto list shows what \
             is here",
        )
    })
}

/// Whether what was measured is what the consumer would use.
fn not_its_route(route: Route, offload: &Implementation) -> Option<Obstacle> {
    use Implementation::{AfAlg, DmCrypt, Driver, Engine, Ktls, Provider};
    let fits = matches!(
        (route, offload),
        (Route::Openssl, Engine(_) | Provider(_))
            | (Route::Kernel(_), AfAlg | Driver(_))
            | (Route::Kernel(Consumer::DmCrypt), DmCrypt(_))
            | (Route::Kernel(Consumer::Ktls), Ktls)
    );
    let measure = match route {
        Route::Openssl => "--impl engine:NAME or --impl provider:NAME",
        Route::Kernel(Consumer::DmCrypt) => "--impl dm-crypt:DRIVER",
        Route::Kernel(Consumer::Ktls) => "--impl ktls",
        Route::Kernel(_) => "--impl af-alg:DRIVER",
    };
    (!fits).then(|| {
        Obstacle::unknown(
            format!("{} does not use {offload}.", route.name()),
            format!("measure what it uses: {measure}"),
        )
    })
}

/// An obstacle on a machine that cannot be looked at, certain by names alone: of the algorithm, the
/// driver, the kernel and OpenSSL.
fn by_names(question: &Question<'_>, offload: &Implementation) -> Option<Obstacle> {
    let algorithm = question.algorithm;
    let consumer = match (question.route, offload) {
        (Route::Openssl, Implementation::Engine(name)) => {
            let version = question.facts.openssl.as_deref().map(VersionInfo::parse);
            let version = version.filter(|version| version.major.is_some());
            return version
                .and_then(|version| gone(&version, name))
                .or_else(|| lacks(question, name));
        }
        (Route::Openssl, _) => return None,
        (Route::Kernel(consumer), _) => consumer,
    };
    if !consumer.uses(algorithm.kernel, algorithm.kind) {
        return Some(unused(question, consumer));
    }
    let (Implementation::Driver(name) | Implementation::DmCrypt(Some(name))) = offload else {
        return None;
    };
    let driver = Driver {
        driver: name.clone(),
        is_tested: true,
        ..Driver::default()
    };
    let kernel = &question.machine.kernel;
    match consumer.may_use(kernel, &driver, Runs::of(&driver, &kernel.modules)) {
        May::No(why) => Some(refused(question, consumer, name, &why)),
        May::Yes | May::Unknown(_) => None,
    }
}

fn unused(question: &Question<'_>, consumer: Consumer) -> Obstacle {
    Obstacle::certain(format!(
        "{} does not use {}.",
        consumer.name(),
        question.algorithm.kernel
    ))
}

fn refused(question: &Question<'_>, consumer: Consumer, name: &str, why: &Why) -> Obstacle {
    Obstacle::certain(format!(
        "{} refuses {name}: {} ({}).",
        consumer.name(),
        why.reason,
        why.source
    ))
    .with(refused_fix(question))
}

/// Steps that a configuration is for, or that a name goes around.
fn is_configured(question: &Question<'_>, step: &str) -> bool {
    let is_named = matches!(
        question.offload,
        Some(Implementation::Driver(_) | Implementation::DmCrypt(Some(_)))
    );
    match (step, question.route) {
        ("openssl", _) => true,
        // The measurement tells how often its device was at work.
        ("fallback", _) => {
            let proof = question.facts.proof.as_deref();
            proof.is_some_and(|proof| shown(proof) != Shown::Nothing)
        }
        ("priority", Route::Kernel(Consumer::AfAlg | Consumer::DmCrypt)) => is_named,
        _ => false,
    }
}

/// The first step of `explain` that is in the way, else the first that cannot be answered.
fn by_steps(question: &Question<'_>) -> Option<Obstacle> {
    let explanation = explain(&Subject::new(
        question.machine,
        question.algorithm,
        question.route,
    ));
    let steps = explanation.steps.iter();
    let steps = steps.filter(|step| !is_configured(question, step.id));
    let mut unknown = None;
    for step in steps {
        let outcome = &step.outcome;
        let fix = outcome.fix.as_ref().map(ToString::to_string);
        match outcome.answer {
            Answer::Yes => {}
            Answer::No => {
                return Some(Obstacle {
                    is_certain: true,
                    cause: outcome.cause.clone().unwrap_or_default(),
                    fix,
                });
            }
            // A kernel whose configuration is not readable has its usual consumers.
            Answer::Unknown if step.id == "consumer" => {}
            Answer::Unknown => {
                unknown = unknown.or(Some(Obstacle {
                    is_certain: false,
                    cause: format!("{}: {}.", step.question, outcome.looked_at),
                    fix,
                }));
            }
        }
    }
    unknown
}

fn kernel(
    question: &Question<'_>,
    consumer: Consumer,
    offload: &Implementation,
) -> Option<Obstacle> {
    let named = match offload {
        Implementation::Driver(name) | Implementation::DmCrypt(Some(name)) => Some(name),
        _ => None,
    };
    named
        .and_then(|name| driver(question, consumer, name))
        .or_else(|| by_steps(question))
}

/// An obstacle to a driver that is named.
fn driver(question: &Question<'_>, consumer: Consumer, name: &str) -> Option<Obstacle> {
    let listing = listing(question.algorithm.kernel, &question.machine.kernel, None);
    let mut rows = listing.drivers.iter();
    let Some(row) = rows.find(|row| row.driver.driver == name) else {
        return Some(Obstacle::unknown(
            format!(
                "/proc/crypto has no driver {name} for {} here.",
                question.algorithm.kernel
            ),
            "load its module, or look at the machine that was measured",
        ));
    };
    if row.runs.place == Place::Cpu {
        let by = row.runs.text();
        let cause = format!("{name} is no offload: it runs on the {by}.");
        return Some(
            Obstacle::certain(cause)
                .with("nothing: the kernel chooses among implementations on the CPU by priority"),
        );
    }
    let used = row.consumers.iter().find(|one| one.consumer == consumer);
    match &used?.used {
        Use::Refused(why) | Use::Absent(why) => Some(refused(question, consumer, name, why)),
        Use::Unused => Some(unused(question, consumer)),
        Use::Unknown(reason) => Some(Obstacle::unknown(
            format!("{reason}."),
            "modprobe crypto_user, which tells flags",
        )),
        // A kernel whose configuration is not readable has its usual consumers.
        Use::Perhaps(_) | Use::Chosen | Use::Allowed => None,
    }
}

/// The remedy that `explain` knows for a refusal.
fn refused_fix(question: &Question<'_>) -> String {
    let found = match question.unseen {
        Some(_) => None,
        None => by_steps(question).and_then(|obstacle| obstacle.fix),
    };
    found.unwrap_or_else(|| {
        "none: another consumer may use the driver (brisk crypto list)".to_owned()
    })
}

fn openssl(question: &Question<'_>, offload: &Implementation) -> Option<Obstacle> {
    let library = match &question.machine.library {
        Ok(library) => library,
        Err(reason) => {
            return Some(Obstacle::unknown(
                format!("nothing is known of OpenSSL: {reason}."),
                "run brisk crypto config on the machine itself, with openssl installed",
            ));
        }
    };
    match offload {
        Implementation::Engine(name) => engine(question, library, name),
        Implementation::Provider(name) => provider(question, library, name),
        _ => None,
    }
}

fn engine(question: &Question<'_>, library: &Library, name: &str) -> Option<Obstacle> {
    if let Some(obstacle) = gone(&library.version, name) {
        return Some(obstacle);
    }
    let is_installed = library.installed_engines.iter().any(|one| one == name)
        || library.engines.iter().any(|one| one.id == name);
    if !is_installed {
        return Some(
            Obstacle::certain(format!("OpenSSL's engine {name} is not installed."))
                .with(format!("an OpenSSL that was built with the engine {name}")),
        );
    }
    lacks(question, name).or_else(|| match TO_KERNEL.contains(&name) {
        true => by_steps(question),
        false => fips(question),
    })
}

/// An engine, for an OpenSSL that has none.
fn gone(version: &VersionInfo, name: &str) -> Option<Obstacle> {
    let cause = format!("{} has no engines, and {name} is one.", version.library);
    (!version.has_engines()).then(|| {
        Obstacle::certain(cause)
            .with("a provider, if there is one; for AF_ALG and cryptodev there is none")
    })
}

/// An engine that does not have the algorithm.
fn lacks(question: &Question<'_>, name: &str) -> Option<Obstacle> {
    let algorithm = question.algorithm;
    if name == "afalg" && !AFALG.contains(&algorithm.name) {
        return Some(
            Obstacle::certain(format!("OpenSSL's engine afalg lacks {}.", algorithm.name))
                .with(format!("use one that it has: {}", AFALG.join(", "))),
        );
    }
    if name == "devcrypto" && algorithm.kind == Kind::Aead {
        return Some(Obstacle::certain(format!(
            "OpenSSL's engine devcrypto has no AEADs, such as {}.",
            algorithm.name
        )));
    }
    None
}

fn provider(question: &Question<'_>, library: &Library, name: &str) -> Option<Obstacle> {
    let is_installed = library.installed_providers.iter().any(|one| one == name)
        || library.providers.iter().any(|one| one.id == name);
    if !is_installed {
        return Some(
            Obstacle::certain(format!("OpenSSL's provider {name} is not installed.")).with(
                format!(
                    "install the provider {name} into {}",
                    library
                        .version
                        .modules
                        .as_deref()
                        .unwrap_or("its directory")
                ),
            ),
        );
    }
    fips(question)
}

/// The step about FIPS alone, for what does not go by the kernel.
fn fips(question: &Question<'_>) -> Option<Obstacle> {
    let explanation = explain(&Subject::new(
        question.machine,
        question.algorithm,
        question.route,
    ));
    let mut steps = explanation.steps.into_iter();
    let outcome = steps.find(|step| step.id == "fips")?.outcome;
    (outcome.answer == Answer::No).then(|| Obstacle {
        is_certain: true,
        cause: outcome.cause.unwrap_or_default(),
        fix: outcome.fix.map(|fix| fix.to_string()),
    })
}

/// Drivers that leave the work to software were measured as software.
fn unproven(question: &Question<'_>, offload: &Implementation) -> Option<Obstacle> {
    let reaches_kernel = match offload {
        Implementation::Engine(name) => TO_KERNEL.contains(&&**name),
        Implementation::Provider(_) => false,
        _ => true,
    };
    let proof = question.facts.proof.as_deref()?;
    (reaches_kernel && shown(proof) == Shown::NotAtWork).then(|| {
        Obstacle::unknown(
            format!("that the device did the work is not proven: {proof}."),
            "brisk crypto explain says what is in the way to the device",
        )
    })
}
