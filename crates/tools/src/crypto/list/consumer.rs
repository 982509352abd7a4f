//! Users of the kernel's crypto API, and implementations that each of them refuses. Pure.

use serde::Serialize;

use super::place::Runs;
use crate::crypto::Kind;
use crate::crypto::kernel::{Driver, Flags, Kernel, Setting, Since, State, Version};

/// A user of the kernel's crypto API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consumer {
    /// Sockets for programs: OpenSSL's engine afalg, `cryptsetup benchmark`, libkcapi.
    AfAlg,
    /// Encrypted disks.
    DmCrypt,
    /// Encrypted directories.
    Fscrypt,
    /// TLS in the kernel, without a network card that does it.
    Ktls,
    /// ESP.
    Ipsec,
}

/// All of them, in the order of columns.
pub const CONSUMERS: [Consumer; 5] = [
    Consumer::AfAlg,
    Consumer::DmCrypt,
    Consumer::Fscrypt,
    Consumer::Ktls,
    Consumer::Ipsec,
];

/// Flags with which an implementation is refused.
#[derive(Debug)]
struct Mask {
    since: Since,
    flags: Flags,
    source: &'static str,
}

const OFF_CPU: Flags = Flags::ALLOCATES_MEMORY.with(Flags::KERN_DRIVER_ONLY);

/// The newest first.
const AF_ALG: &[Mask] = &[Mask {
    since: Since {
        mainline: Version::new(7, 2, 0),
        stable: &[],
    },
    flags: OFF_CPU.with(Flags::ASYNC),
    source: "AF_ALG_CRYPTOAPI_MASK of include/crypto/if_alg.h, since Linux 7.2",
}];

const DM_CRYPT: &[Mask] = &[Mask {
    since: Since {
        mainline: Version::new(5, 10, 0),
        stable: &[],
    },
    flags: Flags::ALLOCATES_MEMORY,
    source: "crypt_alloc_tfms_skcipher of drivers/md/dm-crypt.c, since Linux 5.10",
}];

const FSCRYPT: &[Mask] = &[
    Mask {
        since: Since {
            mainline: Version::new(6, 17, 0),
            stable: &[],
        },
        flags: OFF_CPU.with(Flags::ASYNC),
        source: "FSCRYPT_CRYPTOAPI_MASK of fs/crypto/fscrypt_private.h, since Linux 6.17",
    },
    Mask {
        // Announcements of the stable series of August 2025.
        since: Since {
            mainline: Version::new(6, 17, 0),
            stable: &[
                Version::new(5, 10, 241),
                Version::new(5, 15, 190),
                Version::new(6, 1, 149),
                Version::new(6, 6, 103),
                Version::new(6, 12, 44),
                Version::new(6, 16, 2),
            ],
        },
        flags: OFF_CPU,
        source: "FSCRYPT_CRYPTOAPI_MASK of fs/crypto/fscrypt_private.h, in stable series since \
                 August 2025",
    },
];

/// An algorithm that `af_alg_restrict=1` allows.
struct Allowed {
    name: &'static str,
    /// Whether only with `CAP_NET_ADMIN` or `CAP_SYS_ADMIN`.
    needs_admin: bool,
}

const fn allowed(name: &'static str, needs_admin: bool) -> Allowed {
    Allowed { name, needs_admin }
}

/// `skcipher_allowlist`, `aead_allowlist` and `hash_allowlist` of `crypto/algif_*.c` of Linux 7.3.
const ALLOWED: &[Allowed] = &[
    allowed("adiantum(xchacha12,aes)", false),
    allowed("adiantum(xchacha20,aes)", false),
    allowed("cbc(aes)", true),
    allowed("cbc(des)", true),
    allowed("cbc(des3_ede)", true),
    allowed("ctr(aes)", true),
    allowed("ecb(aes)", true),
    allowed("ecb(des)", true),
    allowed("hctr2(aes)", false),
    allowed("xts(aes)", false),
    allowed("ccm(aes)", true),
    allowed("cmac(aes)", true),
    allowed("hmac(md5)", true),
    allowed("hmac(sha1)", true),
    allowed("hmac(sha224)", true),
    allowed("hmac(sha256)", true),
    allowed("hmac(sha384)", true),
    allowed("hmac(sha512)", true),
    allowed("md4", true),
    allowed("md5", true),
    allowed("sha1", false),
    allowed("sha224", true),
    allowed("sha256", true),
    allowed("sha384", true),
    allowed("sha512", true),
];

/// `af_alg_restrict` of Linux 7.3, before the module `af_alg` makes the file.
const RESTRICTED: Version = Version::new(7, 3, 0);

/// Whether a consumer may use something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum May {
    /// It may.
    Yes,
    /// It may not.
    No(Why),
    /// A fact is missing.
    Unknown(String),
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The reason, for a sentence.
    pub reason: String,
    /// Where it is known from: a file of the kernel's source.
    pub source: &'static str,
}

impl Consumer {
    /// As options and tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AfAlg => "af-alg",
            Self::DmCrypt => "dm-crypt",
            Self::Fscrypt => "fscrypt",
            Self::Ktls => "ktls",
            Self::Ipsec => "ipsec",
        }
    }

    /// Whether it uses an algorithm, by itself or as a part: fscrypt has `cbc(aes)` in
    /// `cts(cbc(aes))`, IPsec `cbc(aes)` in `authenc(hmac(sha256),cbc(aes))`.
    #[must_use]
    pub fn uses(self, name: &str, kind: Kind) -> bool {
        match self {
            Self::AfAlg => true,
            Self::DmCrypt => kind != Kind::Hash,
            Self::Fscrypt => {
                let known = ["xts(aes)", "cbc(aes)", "cts(cbc(aes))", "hctr2(aes)"];
                known.contains(&name) || name.starts_with("adiantum(") || name.starts_with("essiv(")
            }
            Self::Ktls => ["gcm(aes)", "ccm(aes)", "rfc7539(chacha20,poly1305)"].contains(&name),
            Self::Ipsec => {
                let parts = ["cbc(aes)", "ctr(aes)", "sha1", "sha256", "sha512"];
                let aeads = ["gcm(aes)", "rfc7539(chacha20,poly1305)"];
                let whole = ["rfc4106(gcm(aes))", "rfc7539esp(chacha20,poly1305)"];
                parts.contains(&name)
                    || aeads.contains(&name)
                    || whole.contains(&name)
                    || name.starts_with("authenc(")
            }
        }
    }

    /// Algorithm that it asks for where `name` is a part of that, if there is only one.
    pub(super) fn whole(self, name: &str) -> Option<&'static str> {
        match (self, name) {
            (Self::Ipsec, "gcm(aes)") => Some("rfc4106(gcm(aes))"),
            (Self::Ipsec, "rfc7539(chacha20,poly1305)") => Some("rfc7539esp(chacha20,poly1305)"),
            (Self::Fscrypt, "cbc(aes)") => Some("cts(cbc(aes))"),
            _ => None,
        }
    }

    const fn masks(self) -> &'static [Mask] {
        match self {
            Self::AfAlg => AF_ALG,
            Self::DmCrypt => DM_CRYPT,
            Self::Fscrypt => FSCRYPT,
            // `crypto_alloc_aead(name, 0, 0)` of net/tls/tls_sw.c and net/ipv4/esp4.c.
            Self::Ktls | Self::Ipsec => &[],
        }
    }

    /// Options of the kernel that have it, each with its module: one is enough.
    const fn needs(self, kind: Kind) -> &'static [(&'static str, &'static str)] {
        match (self, kind) {
            (Self::AfAlg, Kind::Cipher) => &[("CONFIG_CRYPTO_USER_API_SKCIPHER", "algif_skcipher")],
            (Self::AfAlg, Kind::Aead) => &[("CONFIG_CRYPTO_USER_API_AEAD", "algif_aead")],
            (Self::AfAlg, Kind::Hash) => &[("CONFIG_CRYPTO_USER_API_HASH", "algif_hash")],
            (Self::DmCrypt, _) => &[("CONFIG_DM_CRYPT", "dm_crypt")],
            (Self::Fscrypt, _) => &[("CONFIG_FS_ENCRYPTION", "fscrypto")],
            (Self::Ktls, _) => &[("CONFIG_TLS", "tls")],
            (Self::Ipsec, _) => &[("CONFIG_INET_ESP", "esp4"), ("CONFIG_INET6_ESP", "esp6")],
        }
    }

    /// Whether this kernel has it.
    #[must_use]
    pub fn is_there(self, kernel: &Kernel, kind: Kind) -> May {
        let needs = self.needs(kind);
        let options: Vec<_> = needs.iter().map(|(option, _)| *option).collect();
        let is_set = |option: &&str| kernel.setting(option) != Some(Setting::No);
        let has_module = |(_, module): &(&str, &str)| {
            let state = kernel.modules.state(module);
            matches!(state, State::Present | State::Loadable)
        };
        match &kernel.config {
            Some(_) if options.iter().any(is_set) => May::Yes,
            Some(_) => May::No(Why {
                reason: format!("the kernel was built without {}", options.join(" and ")),
                source: "the kernel's configuration",
            }),
            None if needs.iter().any(has_module) => May::Yes,
            None => May::Unknown(format!(
                "the kernel's configuration, with {}, cannot be read",
                options.join(" or ")
            )),
        }
    }

    /// Whether it may use an algorithm, whichever implementation it gets. Only AF_ALG is restricted.
    #[must_use]
    pub fn may_name(self, kernel: &Kernel, name: &str) -> May {
        if self != Self::AfAlg {
            return May::Yes;
        }
        let no = |reason: &str, source| {
            May::No(Why {
                reason: reason.to_owned(),
                source,
            })
        };
        let level = restriction(kernel);
        match level {
            0 if kernel.af_alg_restrict.is_none() && kernel.version.is_none() => {
                May::Unknown("the version of the kernel is not known".into())
            }
            0 => May::Yes,
            1 => match needs_admin(name) {
                None => no(
                    "af_alg_restrict is 1, and the algorithm is not on the kernel's list",
                    "crypto/algif_*.c, since Linux 7.3",
                ),
                Some(false) => May::Yes,
                Some(true) => match kernel.capabilities {
                    Some(own) if own.is_admin() => May::Yes,
                    Some(_) => no(
                        "af_alg_restrict is 1, and this process has neither CAP_NET_ADMIN nor \
                         CAP_SYS_ADMIN",
                        "af_alg_check_restriction of crypto/af_alg.c, since Linux 7.3",
                    ),
                    None => May::Unknown("the capabilities of this process are not known".into()),
                },
            },
            _ => no(
                "af_alg_restrict is 2, which switches AF_ALG off",
                "alg_create of crypto/af_alg.c, since Linux 7.3",
            ),
        }
    }

    /// Flags with which this kernel's consumer refuses implementations, and the source; None if
    /// there are none, an error if the kernel's version is not known.
    pub(crate) fn mask(
        self,
        version: Option<Version>,
    ) -> Result<Option<(Flags, &'static str)>, String> {
        let masks = self.masks();
        if masks.is_empty() {
            return Ok(None);
        }
        let Some(version) = version else {
            return Err("the version of the kernel is not known".into());
        };
        let mask = masks.iter().find(|mask| version.has(&mask.since));
        Ok(mask.map(|mask| (mask.flags, mask.source)))
    }

    /// Whether it may use an implementation, by its state and flags. Other implementations and the
    /// name of the algorithm do not count.
    #[must_use]
    pub fn may_use(self, kernel: &Kernel, driver: &Driver, runs: Runs) -> May {
        let no = |reason: String, source| May::No(Why { reason, source });
        if driver.is_internal {
            return no(
                "it is a part of other implementations (INTERNAL)".into(),
                "crypto_alg_mod_lookup of crypto/api.c",
            );
        }
        if !driver.is_tested {
            return no(
                "its self-test has not passed".into(),
                "crypto_alg_lookup of crypto/api.c",
            );
        }
        let (mask, source) = match self.mask(kernel.version) {
            Ok(None) => return May::Yes,
            Ok(Some(mask)) => mask,
            Err(reason) => return May::Unknown(reason),
        };
        let known = KnownFlags::of(driver, runs);
        let refused = known.set.common(mask);
        if !refused.is_empty() {
            let names = refused.names().join(", ");
            let from = match driver.flags {
                Some(_) => "",
                None => " by its source",
            };
            return no(format!("it has {names}{from}"), source);
        }
        let missing = known.unknown.common(mask);
        if missing.is_empty() {
            return May::Yes;
        }
        let names = missing.names().join(", ");
        May::Unknown(format!("whether it has {names} is not known"))
    }
}

/// Whether `af_alg_restrict=1` asks for a capability; None if the algorithm is not on the kernel's
/// list.
pub(crate) fn needs_admin(name: &str) -> Option<bool> {
    let entry = ALLOWED.iter().find(|entry| entry.name == name);
    entry.map(|entry| entry.needs_admin)
}

/// `af_alg_restrict` as it is, or will be when AF_ALG is used for the first time.
pub(crate) fn restriction(kernel: &Kernel) -> u32 {
    let default = u32::from(kernel.version.is_some_and(|version| version >= RESTRICTED));
    kernel.af_alg_restrict.unwrap_or(default)
}

/// Flags that an implementation is known to have, and those of which nothing is known.
struct KnownFlags {
    set: Flags,
    unknown: Flags,
}

impl KnownFlags {
    fn of(driver: &Driver, runs: Runs) -> Self {
        if let Some(set) = driver.flags {
            return Self {
                set,
                unknown: Flags::default(),
            };
        }
        // Of hashes, `/proc/crypto` shows it for the type that can be asynchronous.
        let is_async = driver.is_async.unwrap_or(false);
        let set = match is_async {
            true => Flags::ASYNC,
            false => Flags::default(),
        };
        match runs.flags {
            Some(flags) => Self {
                set: set.with(flags),
                unknown: Flags::default(),
            },
            None => Self {
                set,
                unknown: OFF_CPU,
            },
        }
    }
}
