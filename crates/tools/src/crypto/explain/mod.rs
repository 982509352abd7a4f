//! Why a device for cryptography is not used, as steps from the device to OpenSSL. Pure.
//!
//! Each step says what was looked at, and answers yes, no or unknown; the first no is the cause. The
//! rules of [`rules`] find the same for `brisk doctor`, and say which figures mislead on a machine.

mod fallback;
mod openssl;
pub mod rules;
mod steps;
#[cfg(test)]
mod tests;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::kernel::{self, Driver, Kernel};
use super::libcrypto::Library;
use super::list::{CONSUMERS, Consumer, Place, Runs, consumer_choice};
use super::{Algorithm, Machine, Trial};
use brisk_lint::Fix;

pub(super) use openssl::AFALG;
pub use steps::STEPS;

/// What should use a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// A user of the kernel's crypto API.
    Kernel(Consumer),
    /// Programs that use OpenSSL: by an engine and AF_ALG or cryptodev, or by a provider.
    Openssl,
}

/// A question: why does a consumer not use a device for an algorithm?
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The algorithm, with the size of its key.
    pub algorithm: &'static Algorithm,
    /// The consumer.
    pub route: Route,
    /// What the driver of the device did when it was used; none if it was not tried.
    pub trial: Option<&'a Trial>,
}

/// Answer to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Nothing is in the way here.
    Yes,
    /// This is in the way.
    No,
    /// A fact is missing, or a step before is in the way.
    Unknown,
}

/// A step: what has to be so.
#[derive(Debug)]
pub struct Step {
    /// Stable name.
    pub id: &'static str,
    /// Question that it answers.
    pub question: &'static str,
    /// Answers it.
    pub check: fn(&Subject<'_>) -> Outcome,
}

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// What was looked at, and what is there.
    pub looked_at: String,
    /// The cause, in a sentence, where the answer is no.
    pub cause: Option<String>,
    /// What to do about it.
    pub fix: Option<Fix>,
}

/// A step with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Name of the step.
    pub id: &'static str,
    /// Question that was answered.
    pub question: &'static str,
    /// Outcome.
    pub outcome: Outcome,
}

/// All steps for a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Name of the algorithm, such as `aes-128-cbc`.
    pub algorithm: &'static str,
    /// Name of the consumer.
    pub consumer: &'static str,
    /// Whether a device is used: unknown if a step is unknown and none is no.
    pub is_used: Answer,
    /// Steps in their order.
    pub steps: Vec<Answered>,
}

/// Driver of a device that would be used for an algorithm: of those that passed their self-test the
/// one with the highest priority; else the first.
#[must_use]
pub fn offload<'a>(machine: &'a Machine, algorithm: &'static Algorithm) -> Option<&'a Driver> {
    let route = Route::Kernel(Consumer::AfAlg);
    Subject::new(machine, algorithm, route).offload()
}

/// All routes, in the order of tables.
#[must_use]
pub fn routes() -> Vec<Route> {
    let kernel = CONSUMERS.map(Route::Kernel);
    std::iter::once(Route::Openssl).chain(kernel).collect()
}

/// Answers all steps.
#[must_use]
pub fn explain(subject: &Subject<'_>) -> Explanation {
    let steps: Vec<_> = STEPS
        .iter()
        .map(|step| Answered {
            id: step.id,
            question: step.question,
            outcome: (step.check)(subject),
        })
        .collect();
    let has = |answer| steps.iter().any(|step| step.outcome.answer == answer);
    Explanation {
        algorithm: subject.algorithm.name,
        consumer: subject.route.name(),
        is_used: match (has(Answer::No), has(Answer::Unknown)) {
            (true, _) => Answer::No,
            (false, true) => Answer::Unknown,
            (false, false) => Answer::Yes,
        },
        steps,
    }
}

impl Explanation {
    /// The first step that is in the way.
    #[must_use]
    pub fn cause(&self) -> Option<&Answered> {
        let mut steps = self.steps.iter();
        steps.find(|step| step.outcome.answer == Answer::No)
    }
}

impl Route {
    /// As options have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel(consumer) => consumer.name(),
            Self::Openssl => "openssl",
        }
    }

    /// Consumer of the kernel by which it gets there. OpenSSL's engine afalg uses AF_ALG.
    #[must_use]
    pub const fn consumer(self) -> Consumer {
        match self {
            Self::Kernel(consumer) => consumer,
            Self::Openssl => Consumer::AfAlg,
        }
    }
}

impl Answer {
    /// For tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

impl Outcome {
    fn yes(looked_at: impl Into<String>) -> Self {
        Self {
            answer: Answer::Yes,
            looked_at: looked_at.into(),
            cause: None,
            fix: None,
        }
    }

    fn unknown(looked_at: impl Into<String>) -> Self {
        Self {
            answer: Answer::Unknown,
            ..Self::yes(looked_at)
        }
    }

    fn no(looked_at: impl Into<String>, cause: impl Into<String>, fix: Fix) -> Self {
        Self {
            answer: Answer::No,
            cause: Some(cause.into()),
            fix: Some(fix),
            ..Self::yes(looked_at)
        }
    }
}

impl Serialize for Answered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Step", 6)?;
        fields.serialize_field("step", self.id)?;
        fields.serialize_field("question", self.question)?;
        fields.serialize_field("answer", &self.outcome.answer)?;
        fields.serialize_field("looked_at", &self.outcome.looked_at)?;
        fields.serialize_field("cause", &self.outcome.cause)?;
        let fix = self.outcome.fix.as_ref().map(ToString::to_string);
        fields.serialize_field("fix", &fix)?;
        fields.end()
    }
}

impl<'a> Subject<'a> {
    /// A question about a machine on which nothing was tried.
    #[must_use]
    pub const fn new(machine: &'a Machine, algorithm: &'static Algorithm, route: Route) -> Self {
        Self {
            machine,
            algorithm,
            route,
            trial: None,
        }
    }

    fn kernel(&self) -> &'a Kernel {
        &self.machine.kernel
    }

    fn drivers(&self) -> &'a [Driver] {
        self.kernel().drivers.as_deref().unwrap_or_default()
    }

    fn runs(&self, driver: &Driver) -> Runs {
        Runs::of(driver, &self.kernel().modules)
    }

    /// Implementations of the algorithm.
    fn implementations(&self) -> Vec<&'a Driver> {
        kernel::of(self.drivers(), self.algorithm.kernel)
    }

    /// Those on devices.
    fn offloads(&self) -> Vec<&'a Driver> {
        let mut all = self.implementations();
        all.retain(|driver| self.runs(driver).place == Place::Device);
        all
    }

    /// The driver that is chosen, if it is not known where it runs.
    fn unknown(&self) -> Option<&'a Driver> {
        let chosen = kernel::chosen(self.implementations())?;
        let is_unknown = self.runs(chosen).place == Place::Unknown;
        (is_unknown && chosen.is_async == Some(true)).then_some(chosen)
    }

    /// See [`offload`].
    fn offload(&self) -> Option<&'a Driver> {
        let all = self.offloads();
        kernel::chosen(all.iter().copied()).or(all.first().copied())
    }

    /// Whether OpenSSL gets to the kernel by cryptodev, which refuses no driver: it calls
    /// `crypto_alloc_skcipher(name, 0, 0)` (`cryptlib.c` of cryptodev-linux).
    fn is_by_cryptodev(&self) -> bool {
        self.route == Route::Openssl && self.kernel().has_cryptodev == Some(true)
    }

    /// What the consumer gets for the algorithm's name.
    pub(in crate::crypto) fn choice(&self) -> Option<&'a Driver> {
        let all = self.implementations();
        if self.is_by_cryptodev() {
            return kernel::chosen(all);
        }
        consumer_choice(self.route.consumer(), self.kernel(), &all)
    }

    fn library(&self) -> Option<&'a Library> {
        self.machine.library.as_ref().ok()
    }
}
