//! Every implementation of an algorithm: libcrypto's, the kernel's, and what may use which. Pure.

mod consumer;
mod library;
mod place;
#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};

pub use consumer::{CONSUMERS, Consumer, May, Why};
pub(crate) use consumer::{needs_admin, restriction};
pub use library::{LibraryRow, library_rows};
pub use place::{FAMILIES, Family, Place, Runs};

use super::kernel::{self, Driver, Kernel, Setting};
use super::libcrypto::Library;
use super::{ALGORITHMS, Algorithm, Kind};

/// Implementations of an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Name in the kernel, such as `cbc(aes)`.
    pub name: String,
    /// Names that OpenSSL has for it, one for each size of the key.
    pub openssl: Vec<&'static str>,
    /// Implementations of libcrypto; empty if there is none.
    pub library: Vec<LibraryRow>,
    /// Implementations of the kernel, the highest priority first.
    pub drivers: Vec<DriverRow>,
    /// Modules with further ones, or parts of them, that are not loaded.
    pub loadable: Vec<String>,
    /// Option with which the kernel would have it in software, and without which it was built.
    pub without: Option<&'static str>,
}

/// An implementation of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverRow {
    /// What the kernel says of it.
    #[serde(flatten)]
    pub driver: Driver,
    /// Where it runs.
    pub runs: Runs,
    /// Whether it is what the algorithm's name means, for a consumer that refuses nothing.
    pub is_default: bool,
    /// What each consumer makes of it, in the order of [`CONSUMERS`].
    pub consumers: Vec<ConsumerRow>,
}

/// What a consumer makes of an implementation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsumerRow {
    /// The consumer.
    pub consumer: Consumer,
    /// Its use of the implementation.
    #[serde(flatten)]
    pub used: Use,
}

/// A consumer's use of an implementation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// It gets this one for the algorithm's name.
    Chosen,
    /// It may use it, and gets another for the algorithm's name.
    Allowed,
    /// It may not.
    Refused(Why),
    /// A fact is missing; the reason.
    Unknown(String),
    /// It may, if this kernel has the consumer, which is not known; the reason.
    Perhaps(String),
    /// It has no use for the algorithm.
    Unused,
    /// This kernel does not have the consumer.
    Absent(Why),
}

impl Use {
    /// For a table.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Allowed => "yes",
            Self::Refused(_) => "no",
            Self::Unknown(_) | Self::Perhaps(_) => "?",
            Self::Unused => "-",
            Self::Absent(_) => "absent",
        }
    }

    /// Why, if there is a reason.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Refused(why) | Self::Absent(why) => {
                Some(format!("{} ({})", why.reason, why.source))
            }
            Self::Unknown(reason) | Self::Perhaps(reason) => Some(reason.clone()),
            Self::Chosen | Self::Allowed | Self::Unused => None,
        }
    }
}

impl Serialize for Use {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Allowed => "allowed",
            Self::Refused(_) => "refused",
            Self::Unknown(_) | Self::Perhaps(_) => "unknown",
            Self::Unused => "unused",
            _ => self.name(),
        };
        let value = serde_json::json!({ "use": name, "why": self.why() });
        value.serialize(serializer)
    }
}

/// Names in the kernel that users mean by a name: of OpenSSL, of the kernel, or of one of its
/// implementations.
#[must_use]
pub fn kernel_name(name: &str, kernel: &Kernel) -> Option<String> {
    if let Some(algorithm) = Algorithm::find(name) {
        return Some(algorithm.kernel.to_owned());
    }
    let drivers = kernel.drivers.iter().flatten();
    let known = drivers
        .filter(|driver| driver.does().is_some())
        .find(|driver| driver.name == name || driver.driver == name);
    known.map(|driver| driver.name.clone())
}

/// Names in the kernel of the algorithms that brisk knows, each once.
#[must_use]
pub fn kernel_names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for algorithm in ALGORITHMS {
        if !names.iter().any(|name| name == algorithm.kernel) {
            names.push(algorithm.kernel.to_owned());
        }
    }
    names
}

/// Implementations of the algorithm with this name in the kernel.
#[must_use]
pub fn listing(name: &str, kernel: &Kernel, library: Option<&Library>) -> Listing {
    let openssl = ALGORITHMS.iter().filter(|one| one.kernel == name);
    let openssl: Vec<_> = openssl.map(|one| one.name).collect();
    Listing {
        library: library.map_or_else(Vec::new, |library| library_rows(name, kernel, library)),
        drivers: driver_rows(name, kernel),
        loadable: kernel.modules.loadable_for(name),
        openssl,
        without: without(name, kernel),
        name: name.to_owned(),
    }
}

/// Option of the kernel that has an algorithm in software, if this kernel was built without it: it
/// does not come when something asks for it.
fn without(name: &str, kernel: &Kernel) -> Option<&'static str> {
    let option = match name {
        "rfc7539(chacha20,poly1305)" => "CONFIG_CRYPTO_CHACHA20POLY1305",
        "sha1" => "CONFIG_CRYPTO_SHA1",
        "sha256" => "CONFIG_CRYPTO_SHA256",
        "sha512" => "CONFIG_CRYPTO_SHA512",
        name => match name.split('(').next()? {
            "cbc" => "CONFIG_CRYPTO_CBC",
            "ctr" => "CONFIG_CRYPTO_CTR",
            "ecb" => "CONFIG_CRYPTO_ECB",
            "gcm" => "CONFIG_CRYPTO_GCM",
            "xts" => "CONFIG_CRYPTO_XTS",
            _ => return None,
        },
    };
    (kernel.setting(option) == Some(Setting::No)).then_some(option)
}

fn driver_rows(name: &str, kernel: &Kernel) -> Vec<DriverRow> {
    let drivers = kernel.drivers.as_deref().unwrap_or_default();
    let all = kernel::of(drivers, name);
    let default = kernel::chosen(all.iter().copied());
    let is =
        |driver: &Driver, other: Option<&Driver>| other.is_some_and(|it| std::ptr::eq(it, driver));
    let chosen = CONSUMERS.map(|consumer| {
        let choice = consumer_choice(consumer, kernel, &all);
        choice.filter(|driver| is_part_of_choice(consumer, kernel, driver))
    });
    let row = |driver: &&Driver| {
        let runs = Runs::of(driver, &kernel.modules);
        let consumers = CONSUMERS.iter().zip(&chosen).map(|(consumer, choice)| {
            let is_chosen = is(driver, *choice);
            ConsumerRow {
                consumer: *consumer,
                used: use_of(*consumer, kernel, driver, runs, is_chosen),
            }
        });
        DriverRow {
            driver: (*driver).clone(),
            runs,
            is_default: is(driver, default),
            consumers: consumers.collect(),
        }
    };
    let mut rows: Vec<_> = all.iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.driver.priority));
    rows
}

/// Whether a consumer that asks for more than the driver's algorithm gets this driver with it: the
/// name of a template has the names of its parts. True if it asks for the algorithm alone, or
/// nothing for the whole is there yet.
fn is_part_of_choice(consumer: Consumer, kernel: &Kernel, driver: &Driver) -> bool {
    let Some(whole) = consumer.whole(&driver.name) else {
        return true;
    };
    let drivers = kernel.drivers.as_deref().unwrap_or_default();
    let choice = consumer_choice(consumer, kernel, &kernel::of(drivers, whole));
    choice.is_none_or(|whole| whole.driver.contains(&*driver.driver))
}

/// Implementation that a consumer gets for the name of an algorithm: the highest priority of those
/// that it does not refuse. Of those with a missing fact it is not known whether it gets them.
pub(crate) fn consumer_choice<'a>(
    consumer: Consumer,
    kernel: &Kernel,
    all: &[&'a Driver],
) -> Option<&'a Driver> {
    let not_refused = all.iter().copied().filter(|driver| {
        let runs = Runs::of(driver, &kernel.modules);
        !matches!(consumer.may_use(kernel, driver, runs), May::No(_))
    });
    kernel::chosen(not_refused)
}

fn use_of(
    consumer: Consumer,
    kernel: &Kernel,
    driver: &Driver,
    runs: Runs,
    is_chosen: bool,
) -> Use {
    let kind = driver.does().unwrap_or(Kind::Hash);
    if !consumer.uses(&driver.name, kind) {
        return Use::Unused;
    }
    let there = consumer.is_there(kernel, kind);
    if let May::No(why) = there {
        return Use::Absent(why);
    }
    let all = [
        consumer.may_name(kernel, &driver.name),
        consumer.may_use(kernel, driver, runs),
    ];
    let mut missing = None;
    for may in all {
        match may {
            May::No(why) => return Use::Refused(why),
            May::Unknown(reason) => missing = missing.or(Some(reason)),
            May::Yes => {}
        }
    }
    match (missing, there, is_chosen) {
        (Some(reason), ..) => Use::Unknown(reason),
        (None, May::Unknown(reason), _) => Use::Perhaps(reason),
        (None, _, true) => Use::Chosen,
        (None, _, false) => Use::Allowed,
    }
}
