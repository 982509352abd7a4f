//! Implementations of an algorithm that can be measured, by the names that users give them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::{Algorithm, Kind};

/// An implementation and the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Implementation {
    /// libcrypto, by `openssl speed`.
    OpenSsl,
    /// libcrypto without the CPU's instructions for AES, SHA and carry-less multiplication.
    OpenSslPlain,
    /// An engine of OpenSSL before 4, such as `afalg`.
    Engine(String),
    /// A provider of OpenSSL.
    Provider(String),
    /// libcrypto with a configuration (`OPENSSL_CONF`), by the path of that file.
    OpenSslConf(String),
    /// What the kernel gives to a socket of `AF_ALG` that asks for the algorithm.
    AfAlg,
    /// A driver of the kernel by its name, through `AF_ALG`.
    Driver(String),
    /// dm-crypt, with a driver of the kernel by its name, or with the one that the kernel prefers.
    DmCrypt(Option<String>),
    /// TLS records that the kernel encrypts while they are sent on a loopback connection.
    Ktls,
    /// Data on such a connection in clear: what of the time of kTLS is TCP's.
    Tcp,
}

/// Implementations as users write them.
const SYNTAX: &str = "openssl, openssl-no-aesni, engine:NAME, provider:NAME, \
                      openssl-conf:FILE, af-alg, af-alg:DRIVER, dm-crypt, dm-crypt:DRIVER, ktls, tcp";

/// Providers that are OpenSSL's own, in software.
const SOFTWARE: [&str; 5] = ["default", "legacy", "base", "fips", "null"];

/// Why a text is no implementation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no implementation: write one of {SYNTAX}")]
pub struct NoImplementation(String);

impl FromStr for Implementation {
    type Err = NoImplementation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no = || NoImplementation(text.to_owned());
        match text.split_once(':') {
            None => match text {
                "openssl" => Ok(Self::OpenSsl),
                "openssl-no-aesni" => Ok(Self::OpenSslPlain),
                "af-alg" => Ok(Self::AfAlg),
                "dm-crypt" => Ok(Self::DmCrypt(None)),
                "ktls" => Ok(Self::Ktls),
                "tcp" => Ok(Self::Tcp),
                _ => Err(no()),
            },
            Some(("openssl-conf", path)) => {
                // It ends as a variable of the environment, and in lists of names.
                let is_plain = !path.chars().any(char::is_control) && !path.contains(", ");
                match !path.is_empty() && is_plain {
                    true => Ok(Self::OpenSslConf(path.to_owned())),
                    false => Err(no()),
                }
            }
            Some((kind, name)) => {
                // They end as words of a command line, and as names of drivers.
                let is_name = |byte: u8| byte.is_ascii_graphic() && !b"'\"\\`$".contains(&byte);
                if name.is_empty() || name.starts_with('-') || !name.bytes().all(is_name) {
                    return Err(no());
                }
                match kind {
                    "engine" => Ok(Self::Engine(name.to_owned())),
                    "provider" => Ok(Self::Provider(name.to_owned())),
                    "af-alg" => Ok(Self::Driver(name.to_owned())),
                    "dm-crypt" => Ok(Self::DmCrypt(Some(name.to_owned()))),
                    _ => Err(no()),
                }
            }
        }
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenSsl => formatter.write_str("openssl"),
            Self::OpenSslPlain => formatter.write_str("openssl-no-aesni"),
            Self::Engine(name) => write!(formatter, "engine:{name}"),
            Self::Provider(name) => write!(formatter, "provider:{name}"),
            Self::OpenSslConf(path) => write!(formatter, "openssl-conf:{path}"),
            Self::AfAlg => formatter.write_str("af-alg"),
            Self::Driver(name) => write!(formatter, "af-alg:{name}"),
            Self::DmCrypt(None) => formatter.write_str("dm-crypt"),
            Self::DmCrypt(Some(name)) => write!(formatter, "dm-crypt:{name}"),
            Self::Ktls => formatter.write_str("ktls"),
            Self::Tcp => formatter.write_str("tcp"),
        }
    }
}

impl From<Implementation> for String {
    fn from(implementation: Implementation) -> Self {
        implementation.to_string()
    }
}

impl TryFrom<String> for Implementation {
    type Error = NoImplementation;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Implementation {
    /// Whether it is libcrypto or something that libcrypto loads.
    #[must_use]
    pub const fn is_of_openssl(&self) -> bool {
        matches!(
            self,
            Self::OpenSsl
                | Self::OpenSslPlain
                | Self::Engine(_)
                | Self::Provider(_)
                | Self::OpenSslConf(_)
        )
    }

    /// Whether it is libcrypto's own code.
    #[must_use]
    pub fn is_software(&self) -> bool {
        match self {
            Self::OpenSsl | Self::OpenSslPlain => true,
            Self::Provider(name) => SOFTWARE.contains(&&**name),
            _ => false,
        }
    }

    /// The name that a socket of `AF_ALG` is bound to; none for what does not use one.
    #[must_use]
    pub fn bound_name<'a>(&'a self, algorithm: &'a Algorithm) -> Option<&'a str> {
        match self {
            Self::AfAlg => Some(algorithm.kernel),
            Self::Driver(name) => Some(name),
            _ => None,
        }
    }

    /// Why it cannot do an algorithm by nature; none if it may.
    #[must_use]
    pub fn excludes(&self, algorithm: &Algorithm) -> Option<&'static str> {
        match self {
            Self::DmCrypt(_) if algorithm.kind != Kind::Cipher => {
                Some("dm-crypt without integrity encrypts with ciphers only, such as aes-256-xts")
            }
            Self::Ktls if algorithm.kind != Kind::Aead => {
                Some("kTLS encrypts with AEADs only: aes-128-gcm, aes-256-gcm, chacha20-poly1305")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "openssl",
            "openssl-no-aesni",
            "engine:afalg",
            "provider:legacy",
            "openssl-conf:/etc/ssl/my own.cnf",
            "af-alg",
            "af-alg:cbc(aes-generic)",
            "af-alg:virtio_crypto_aes_cbc",
            "dm-crypt",
            "dm-crypt:cbc-aes-aesni",
            "ktls",
            "tcp",
        ] {
            let read: Implementation = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        for text in [
            "",
            "cbc",
            "engine:",
            "engine:-x",
            "af-alg:a b",
            "a:b",
            "af-alg:$(x)",
            "openssl-conf:",
            "openssl-conf:a\nb",
            "openssl-conf:a, b",
        ] {
            let refused = text.parse::<Implementation>().unwrap_err();
            assert!(
                refused
                    .to_string()
                    .starts_with(&format!("\"{text}\" is no"))
            );
        }
    }

    #[test]
    fn ktls_needs_an_aead() {
        let of = |name| Implementation::Ktls.excludes(Algorithm::find(name).unwrap());
        assert!(of("aes-128-cbc").unwrap().contains("AEADs only"));
        assert_eq!(of("aes-128-gcm"), None);
    }
}
