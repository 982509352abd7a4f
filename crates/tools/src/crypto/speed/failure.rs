//! Messages by which `openssl speed` says why it measures nothing, or something else. Pure.

use super::lines::{self, Line};

/// Value of `OPENSSL_ia32cap` by which libcrypto uses neither AES-NI (bit 57) nor PCLMULQDQ (33),
/// nor, of the second word, SHA (29), VAES (41) and VPCLMULQDQ (42). Newer OpenSSLs have five words,
/// and clear those that are left out (OPENSSL_ia32cap(3)).
pub const UNACCELERATED: &str = "~0x200000200000000:~0x60020000000:~0x0:~0x0:~0x0";

/// A run that measured nothing, or something else than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// openssl measures without the engine then.
    #[error(
        "openssl did not load the engine {engine}, and measured without it; see openssl engine -t \
         {engine}"
    )]
    Engine {
        /// Its name.
        engine: String,
    },
    /// There is no such provider.
    #[error(
        "openssl did not load the provider {provider}; see openssl list -providers -provider \
         {provider}, or set OPENSSL_MODULES to its directory"
    )]
    Provider {
        /// Its name.
        provider: String,
    },
    /// libcrypto does not have the algorithm, or not in the provider.
    #[error(
        "openssl does not know {algorithm} here; openssl list -cipher-algorithms and openssl list \
         -digest-algorithms have what it knows"
    )]
    Algorithm {
        /// Its name.
        algorithm: String,
    },
    /// This openssl lacks an option.
    #[error(
        "this openssl has no option {option}: engines were removed in OpenSSL 4, -seconds and \
         -bytes came with 1.1.1, -provider with 3.0"
    )]
    Option {
        /// The option.
        option: String,
    },
    /// `-aead` of what is none.
    #[error("{algorithm} is no AEAD for openssl")]
    NotAead {
        /// Name of the algorithm.
        algorithm: String,
    },
}

/// The reason in the standard error of a run that was to measure an algorithm; None if openssl gives
/// none that is known.
#[must_use]
pub fn failure(stderr: &str, algorithm: &str) -> Option<RunError> {
    stderr.lines().find_map(|line| match lines::read(line, 0) {
        Some(Line::EngineFailed(engine)) => Some(RunError::Engine { engine }),
        Some(Line::Error(text)) => of_message(&text, algorithm),
        _ => None,
    })
}

fn of_message(text: &str, algorithm: &str) -> Option<RunError> {
    let algorithm = algorithm.to_owned();
    let option = text.split_once(": Unknown option: ").map(|(_, name)| name);
    // 1.1.1 writes "Option unknown option -x".
    let option = option.or_else(|| text.split_once("unknown option ").map(|(_, name)| name));
    if let Some(option) = option {
        return Some(RunError::Option {
            option: option.trim().to_owned(),
        });
    }
    if text.ends_with("is not an AEAD cipher") {
        return Some(RunError::NotAead { algorithm });
    }
    if text.ends_with("is an unknown cipher or digest") || text.contains("Unknown algorithm") {
        return Some(RunError::Algorithm { algorithm });
    }
    let (_, provider) = text.split_once("unable to load provider ")?;
    Some(RunError::Provider {
        provider: provider.trim().to_owned(),
    })
}

/// Whether a line is an error of libcrypto's queue (`40B7:error:12800067:…`), or one of an engine:
/// `ALG_PERR: …` and `ALG_ERR: …` of afalg, `cryptodev_…: …` and `…: failed`.
pub(super) fn is_trouble(line: &str) -> bool {
    let starts = [
        "ALG_PERR:",
        "ALG_ERR:",
        "ALG_WARN:",
        "cryptodev_",
        "EVP_CIPHER_",
    ];
    let is_queue = line.split_once(":error:").is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    is_queue || starts.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_reason() {
        // Of OpenSSL 3.0.19; the options of 4.0 are refused in the form in which 3.0 refuses others.
        let algorithm = || "nosuch".to_owned();
        let cases = [
            (
                "Invalid engine \"afalgo\"\n40B7:error:12800067:DSO support routines::could not \
                 load the shared library\n+DT:AES-128-CBC:1:16\n+R:29650657:AES-128-CBC:1.000000\n",
                Some(RunError::Engine {
                    engine: "afalgo".into(),
                }),
            ),
            (
                "speed: nosuch is an unknown cipher or digest\n40F7:error:0308010C::unsupported\n",
                Some(RunError::Algorithm {
                    algorithm: algorithm(),
                }),
            ),
            (
                "speed: Unknown option: -engine\nspeed: Use -help for summary.\n",
                Some(RunError::Option {
                    option: "-engine".into(),
                }),
            ),
            (
                "speed: unable to load provider qat\nHint: use -provider-path option or \
                 OPENSSL_MODULES environment variable.\n",
                Some(RunError::Provider {
                    provider: "qat".into(),
                }),
            ),
            (
                "AES-128-CBC is not an AEAD cipher\n",
                Some(RunError::NotAead {
                    algorithm: algorithm(),
                }),
            ),
            ("speed: Non-positive number \"0\" for option -bytes\n", None),
            ("+DT:AES-128-CBC:1:16\n+R:5:AES-128-CBC:0.000000\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(failure(text, "nosuch"), expected, "{text}");
        }
    }
}
