//! `openssl speed` as a subprocess: its command line, and what came of it. Pure.

use super::lines::{self, Line};

/// Value of `OPENSSL_ia32cap` by which libcrypto uses neither AES-NI nor PCLMULQDQ, SHA, VAES and
/// VPCLMULQDQ. Newer OpenSSLs have five words, and clear those that are left out
/// (OPENSSL_ia32cap(3)).
pub const UNACCELERATED: &str = "~0x200000200000000:~0x60020000000:~0x0:~0x0:~0x0";

/// Where libcrypto takes the implementation from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Route {
    /// From where its configuration says.
    #[default]
    Default,
    /// From an engine; OpenSSL 4 has none.
    Engine(String),
    /// From a provider, which others are then not loaded beside; OpenSSL 3 and later.
    Provider(String),
}

/// A run of one algorithm at one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Name of the algorithm that libcrypto knows, such as `aes-128-cbc`.
    pub algorithm: String,
    /// Bytes of an operation, from 1.
    pub bytes: u64,
    /// Seconds until the end, from 1.
    pub seconds: u32,
    /// Whether to decrypt.
    pub decrypts: bool,
    /// Whether as an AEAD: nonce, associated data and tag with each operation. Without it, openssl
    /// measures the cipher inside alone.
    pub is_aead: bool,
    /// Implementation.
    pub route: Route,
    /// Processes at once; 1 for no others.
    pub processes: u32,
    /// Value of `OPENSSL_ia32cap`, such as [`UNACCELERATED`].
    pub processor: Option<String>,
}

/// What a run measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    /// Operations, of all processes together.
    pub count: u64,
    /// Seconds of wall clock that each process took for its part; the resolution is 10 ms.
    pub seconds: f64,
}

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
    /// It ended without a result.
    #[error("openssl speed has no result: {0}")]
    NoResult(String),
}

impl Invocation {
    /// One process that encrypts by libcrypto's own implementation.
    #[must_use]
    pub fn new(algorithm: impl Into<String>, bytes: u64, seconds: u32) -> Self {
        Self {
            algorithm: algorithm.into(),
            bytes,
            seconds,
            decrypts: false,
            is_aead: false,
            route: Route::Default,
            processes: 1,
            processor: None,
        }
    }

    /// The arguments of `openssl`, without its name.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        // Without -evp, engines and providers are bypassed.
        let mut words: Vec<String> = ["speed", "-elapsed", "-mr", "-evp", &self.algorithm]
            .map(str::to_owned)
            .to_vec();
        let mut option = |name: &str, value: Option<String>| {
            words.push(name.to_owned());
            words.extend(value);
        };
        option("-bytes", Some(self.bytes.to_string()));
        option("-seconds", Some(self.seconds.to_string()));
        if self.decrypts {
            option("-decrypt", None);
        }
        if self.is_aead {
            option("-aead", None);
        }
        match &self.route {
            Route::Default => {}
            Route::Engine(name) => option("-engine", Some(name.clone())),
            Route::Provider(name) => option("-provider", Some(name.clone())),
        }
        if self.processes > 1 {
            option("-multi", Some(self.processes.to_string()));
        }
        words
    }

    /// Variable to be set in the environment. If None, an `OPENSSL_ia32cap` that is there already
    /// has to be taken out.
    #[must_use]
    pub fn environment(&self) -> Option<(&'static str, &str)> {
        let value = self.processor.as_deref()?;
        Some(("OPENSSL_ia32cap", value))
    }

    /// What the run measured, from its standard error and whether it succeeded.
    ///
    /// # Errors
    /// If it measured nothing, or without the engine that was asked for.
    pub fn result(&self, stderr: &str, succeeded: bool) -> Result<Ran, RunError> {
        let mut count = 0_u64;
        let mut seconds: f64 = 0.0;
        let mut ended = 0_u32;
        for line in stderr.lines() {
            match lines::read(line, 0) {
                Some(Line::EngineFailed(engine)) => return Err(RunError::Engine { engine }),
                Some(Line::Error(text)) => {
                    if let Some(error) = self.error(&text) {
                        return Err(error);
                    }
                }
                Some(Line::End(end)) => {
                    count = count.saturating_add(end.count);
                    seconds = seconds.max(end.seconds);
                    ended += 1;
                }
                _ => {}
            }
        }
        let first = stderr.lines().find(|line| !line.starts_with('+'));
        let why = match (succeeded, first.map(str::trim)) {
            (_, Some(first)) if !first.is_empty() => brisk_measure::render::shorten(first, 200),
            (false, _) => "it failed, and does not say why".to_owned(),
            (true, _) => {
                "there is no line +R:COUNT:NAME:SECONDS with a count and a time".to_owned()
            }
        };
        if !succeeded || count == 0 || seconds <= 0.0 {
            return Err(RunError::NoResult(why));
        }
        if ended != self.processes.max(1) {
            let processes = self.processes;
            let why = format!("{ended} of {processes} processes have one");
            return Err(RunError::NoResult(why));
        }
        Ok(Ran { count, seconds })
    }

    /// The error that a message of openssl's is, None if it is none that ends it.
    fn error(&self, text: &str) -> Option<RunError> {
        let algorithm = self.algorithm.clone();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_a_command_line() {
        let plain = Invocation::new("aes-128-cbc", 4096, 3);
        let all = Invocation {
            decrypts: true,
            is_aead: true,
            route: Route::Engine("afalg".into()),
            processes: 2,
            processor: Some(UNACCELERATED.into()),
            ..plain.clone()
        };
        let provider = Invocation {
            route: Route::Provider("qatprovider".into()),
            ..plain.clone()
        };
        let line = |one: &Invocation| one.arguments().join(" ");
        let base = "speed -elapsed -mr -evp aes-128-cbc -bytes 4096 -seconds 3";
        assert_eq!(line(&plain), base);
        assert_eq!(
            line(&all),
            format!("{base} -decrypt -aead -engine afalg -multi 2")
        );
        assert_eq!(line(&provider), format!("{base} -provider qatprovider"));
        assert_eq!(plain.environment(), None);
        let environment = all.environment();
        assert_eq!(environment, Some(("OPENSSL_ia32cap", UNACCELERATED)));
    }

    #[test]
    fn results_are_counts_of_all_processes() {
        let one = Invocation::new("aes-128-cbc", 16, 1);
        let text =
            "Engine \"afalg\" set.\n+DT:AES-128-CBC:1:16\n+R:29650657:AES-128-CBC:1.000000\n";
        let ran = Ran {
            count: 29_650_657,
            seconds: 1.0,
        };
        assert_eq!(one.result(text, true), Ok(ran));
        let two = Invocation {
            processes: 2,
            ..one.clone()
        };
        let lost = two.result(text, true).unwrap_err();
        assert_eq!(
            lost.to_string(),
            "openssl speed has no result: 1 of 2 processes have one"
        );
        let text = "+DT:AES-128-CBC:1:16\n+DT:AES-128-CBC:1:16\n+R:10:AES-128-CBC:1.010000\n\
                    +R:20:AES-128-CBC:1.000000\n";
        let ran = Ran {
            count: 30,
            seconds: 1.01,
        };
        assert_eq!(two.result(text, true), Ok(ran));
        assert!(one.result(text, true).is_err());
    }

    #[test]
    fn each_failure_has_its_reason() {
        // Of OpenSSL 3.0.19; the options of 4.0 are refused in the form in which 3.0 refuses others.
        let one = Invocation::new("nosuch", 16, 1);
        let algorithm = || "nosuch".to_owned();
        let cases = [
            (
                "Invalid engine \"afalgo\"\n40B7:error:12800067:DSO support routines::could not \
                 load the shared library\n+DT:AES-128-CBC:1:16\n+R:29650657:AES-128-CBC:1.000000\n",
                true,
                RunError::Engine {
                    engine: "afalgo".into(),
                },
            ),
            (
                "speed: nosuch is an unknown cipher or digest\n40F7:error:0308010C::unsupported\n",
                false,
                RunError::Algorithm {
                    algorithm: algorithm(),
                },
            ),
            (
                "speed: Unknown option: -engine\nspeed: Use -help for summary.\n",
                false,
                RunError::Option {
                    option: "-engine".into(),
                },
            ),
            (
                "speed: unable to load provider qat\nHint: use -provider-path option or \
                 OPENSSL_MODULES environment variable.\n",
                false,
                RunError::Provider {
                    provider: "qat".into(),
                },
            ),
            (
                "AES-128-CBC is not an AEAD cipher\n",
                false,
                RunError::NotAead {
                    algorithm: algorithm(),
                },
            ),
            (
                "speed: Non-positive number \"0\" for option -bytes\n",
                false,
                RunError::NoResult("speed: Non-positive number \"0\" for option -bytes".into()),
            ),
            (
                "+DT:AES-128-CBC:1:16\n+R:5:AES-128-CBC:0.000000\n",
                true,
                RunError::NoResult(
                    "there is no line +R:COUNT:NAME:SECONDS with a count and a time".into(),
                ),
            ),
            (
                "",
                false,
                RunError::NoResult("it failed, and does not say why".into()),
            ),
        ];
        for (text, succeeded, expected) in cases {
            assert_eq!(one.result(text, succeeded), Err(expected), "{text}");
        }
    }
}
