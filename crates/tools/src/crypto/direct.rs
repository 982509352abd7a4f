//! Whether libcrypto gives the published results, by its functions: for AEADs and XTS, of which no
//! command of OpenSSL does one.
//!
//! A process of its own loads the library that the program `openssl` is linked with: settings of the
//! environment count from the library's start, and a provider may end the process.

use std::convert::Infallible;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use brisk_host::program::{Error, Program};
use brisk_sys::{CipherError, CipherOperation, Libcrypto, Source, Tag};
use serde::{Deserialize, Serialize};

use super::algorithm::{Algorithm, Kind};
use super::implementation::Implementation;
use super::libcrypto::program::{AT_WORK, PATIENCE};
use super::measure::{NotMeasured, environment};
use super::vectors::{Checked, Vector, VectorError, vector};
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::{NoOutput, output_within};

/// What the process is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    library: PathBuf,
    algorithm: String,
    implementation: Implementation,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    /// The published results.
    Right,
    /// Other results, or a forged tag was accepted.
    Wrong,
    /// The library does not have what is asked for; the reason.
    Lacks(String),
    /// It has it, and a step of the operation failed; the reason.
    Failed(String),
    /// It cannot be asked; the reason.
    Unable(String),
}

/// Asks the libcrypto of `openssl` by a process of `brisk`, the path of this program.
///
/// # Errors
/// If it gives wrong results, does not have the algorithm, or a signal comes.
pub(super) fn check(
    brisk: &Path,
    implementation: &Implementation,
    algorithm: &'static Algorithm,
    interrupt: &Interrupt,
) -> Result<Checked, NotMeasured> {
    let library = match library(interrupt) {
        Ok(library) => library,
        Err(NotMeasured::Failed(reason)) => return Ok(Checked::No(reason)),
        Err(other) => return Err(other),
    };
    let question = Question {
        library,
        algorithm: algorithm.name.to_owned(),
        implementation: implementation.clone(),
    };
    let text = serde_json::to_string(&question).map_err(io::Error::from)?;
    let program = Program::at(brisk).args(["crypto", "libcrypto", &text]);
    let variables = environment(implementation).into_iter();
    let program = variables.fold(program, |program, (name, value)| program.set(name, value));
    let text = match output_within(&program, Some(AT_WORK), interrupt) {
        Ok(text) => text,
        Err(NoOutput::Failed(Error::Failed { status, stderr, .. })) => {
            let said: Vec<_> = stderr.split_whitespace().collect();
            let reason = format!(
                "{} ends brisk's process when it is to do the vector: {status} {}",
                question.library.display(),
                said.join(" ")
            );
            // libcrypto itself may not go with this process; what it loads has to.
            return match implementation {
                Implementation::OpenSsl | Implementation::OpenSslPlain => Ok(Checked::No(reason)),
                _ => Err(NotMeasured::Failed(reason)),
            };
        }
        Err(other) => return Err(other.into()),
    };
    match serde_json::from_slice(&text) {
        Ok(Answer::Right) => Ok(Checked::Yes),
        Ok(Answer::Wrong) => {
            let wrong = VectorError::wrong(implementation, algorithm);
            Err(NotMeasured::Failed(wrong.to_string()))
        }
        Ok(Answer::Lacks(reason)) => Err(NotMeasured::Failed(format!(
            "it does not do {}: {reason}",
            algorithm.name
        ))),
        Ok(Answer::Failed(reason)) => Err(NotMeasured::Failed(format!(
            "it fails at the published test vector of {}: {reason}",
            algorithm.name
        ))),
        Ok(Answer::Unable(reason)) => Ok(Checked::No(reason)),
        Err(error) => Ok(Checked::No(format!("libcrypto did not answer: {error}"))),
    }
}

/// Answers a question, which is JSON, with JSON, and ends the process: what the library would do at
/// its end counts no more.
///
/// # Errors
/// If it is no question, or the answer cannot be written.
pub fn answer_and_exit(question: &str, output: &mut dyn Write) -> io::Result<Infallible> {
    output.write_all(answer(question)?.as_bytes())?;
    output.flush()?;
    brisk_sys::exit_at_once(0)
}

fn answer(question: &str) -> io::Result<String> {
    let question: Question = serde_json::from_str(question).map_err(io::Error::from)?;
    let answer = match Algorithm::find(&question.algorithm) {
        None => Answer::Unable(format!("no algorithm {}", question.algorithm)),
        Some(algorithm) => Libcrypto::load(&question.library)
            .and_then(|library| {
                let implementation = &question.implementation;
                try_vector(&library, implementation, algorithm, &vector(algorithm))
            })
            .into(),
    };
    serde_json::to_string(&answer).map_err(io::Error::from)
}

impl From<Result<bool, CipherError>> for Answer {
    fn from(tried: Result<bool, CipherError>) -> Self {
        match tried {
            Ok(true) => Self::Right,
            Ok(false) => Self::Wrong,
            Err(CipherError::Lacks(reason)) => Self::Lacks(reason),
            Err(CipherError::Failed(reason) | CipherError::Forged(reason)) => Self::Failed(reason),
            Err(CipherError::Unable(reason)) => Self::Unable(reason),
        }
    }
}

/// Whether a library encrypts and decrypts the vector, and refuses a forged tag.
fn try_vector(
    library: &Libcrypto,
    implementation: &Implementation,
    algorithm: &Algorithm,
    vector: &Vector,
) -> Result<bool, CipherError> {
    let (sealed, tag) = vector.result.split_at(vector.plain.len());
    // In its first bit and in its last one: an implementation may compare a part.
    let [mut first, mut last] = [tag.to_vec(), tag.to_vec()];
    if let Some(byte) = first.first_mut() {
        *byte ^= 0x80;
    }
    if let Some(byte) = last.last_mut() {
        *byte ^= 1;
    }
    let forged = [first, last];
    let run = |input: &[u8], tag| {
        library.apply(&CipherOperation {
            cipher: algorithm.name,
            source: match implementation {
                Implementation::Engine(name) => Source::Engine(name),
                Implementation::Provider(name) => Source::Provider(name),
                _ => Source::Chosen,
            },
            key: &vector.key,
            iv: &vector.iv,
            associated: &vector.associated,
            input,
            tag,
        })
    };
    if run(&vector.plain, Tag::Make(algorithm.tag()))? != vector.result {
        return Ok(false);
    }
    // What it encrypted right and does not take back, it does wrong.
    match run(sealed, Tag::Check(tag)) {
        Ok(plain) if plain == vector.plain => {}
        Ok(_) | Err(CipherError::Forged(_)) => return Ok(false),
        Err(other) => return Err(other),
    }
    if algorithm.kind != Kind::Aead {
        return Ok(true);
    }
    for tag in &forged {
        match run(sealed, Tag::Check(tag)) {
            Err(CipherError::Forged(_)) => {}
            Ok(_) => return Ok(false),
            Err(other) => return Err(other),
        }
    }
    Ok(true)
}

/// Path of the libcrypto that the program `openssl` is linked with, as the dynamic loader finds it
/// (`LD_TRACE_LOADED_OBJECTS`, ld.so(8)).
fn library(interrupt: &Interrupt) -> Result<PathBuf, NotMeasured> {
    let failed = |error: String| NotMeasured::Failed(error);
    let program = Program::find("openssl").map_err(|error| failed(error.to_string()))?;
    let trace = program.set("LD_TRACE_LOADED_OBJECTS", "1");
    let list = output_within(&trace, Some(PATIENCE), interrupt)?;
    traced(&String::from_utf8_lossy(&list)).map_err(failed)
}

/// The libcrypto of a list such as `\tlibcrypto.so.3 => /lib/libcrypto.so.3 (0x00007f)`.
fn traced(list: &str) -> Result<PathBuf, String> {
    let lines = list
        .lines()
        .filter_map(|line| line.trim().split_once(" => "));
    let mut found = lines.filter(|(name, _)| name.starts_with("libcrypto.so"));
    let Some((name, rest)) = found.next() else {
        return Err("openssl is a script, or is not linked with a libcrypto of its own".to_owned());
    };
    let path = rest.rsplit_once(" (0x").map_or(rest, |(path, _)| path);
    match path.starts_with('/') {
        true => Ok(PathBuf::from(path)),
        false => Err(format!(
            "the dynamic loader does not find {name} of openssl"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::ALGORITHMS;
    use super::*;

    fn ask(implementation: &str, algorithm: &str) -> Answer {
        let question = Question {
            library: library(&Interrupt::new().unwrap()).unwrap(),
            algorithm: algorithm.to_owned(),
            implementation: implementation.parse().unwrap(),
        };
        let text = answer(&serde_json::to_string(&question).unwrap()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_systems_libcrypto_gives_the_published_results() {
        for algorithm in ALGORITHMS {
            if algorithm.kind == Kind::Aead || algorithm.kernel.starts_with("xts") {
                for implementation in ["openssl", "provider:default"] {
                    let answer = ask(implementation, algorithm.name);
                    assert_eq!(answer, Answer::Right, "{implementation} {}", algorithm.name);
                }
            }
        }
    }

    /// Flips a bit of what a vector has.
    fn altered(name: &str, alter: fn(&mut Vector)) -> Result<bool, CipherError> {
        let algorithm = Algorithm::find(name).unwrap();
        let mut vector = vector(algorithm);
        alter(&mut vector);
        let library = Libcrypto::load(&library(&Interrupt::new().unwrap()).unwrap()).unwrap();
        try_vector(&library, &Implementation::OpenSsl, algorithm, &vector)
    }

    #[test]
    fn a_result_that_differs_is_wrong() {
        for name in ["aes-128-gcm", "aes-256-xts", "chacha20-poly1305"] {
            assert_eq!(altered(name, |_| ()), Ok(true), "{name}");
            assert_eq!(altered(name, |it| it.result[0] ^= 1), Ok(false), "{name}");
            assert_eq!(altered(name, |it| it.plain[1] ^= 1), Ok(false), "{name}");
            assert_eq!(altered(name, |it| it.key[2] ^= 1), Ok(false), "{name}");
        }
        let other = |it: &mut Vector| it.associated[0] ^= 1;
        assert_eq!(altered("aes-256-gcm", other), Ok(false));
        let short = altered("aes-256-gcm", |it| it.key.truncate(16));
        assert!(matches!(short, Err(CipherError::Lacks(_))), "{short:?}");
    }

    #[test]
    fn what_is_not_there_is_lacking() {
        for implementation in ["provider:nosuch", "provider:base", "engine:nosuch"] {
            let answer = ask(implementation, "aes-128-gcm");
            assert!(
                matches!(answer, Answer::Lacks(_)),
                "{implementation}: {answer:?}"
            );
        }
        let missing = Libcrypto::load(Path::new("/nonexistent/libcrypto.so.3"));
        assert!(matches!(missing, Err(CipherError::Unable(_))));
        let other = Libcrypto::load(Path::new("libc.so.6"));
        assert!(matches!(other, Err(CipherError::Unable(_))));
    }

    #[test]
    fn the_loaders_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibssl.so.3 => /lib/libssl.so.3 (0x00007f1)\n\
                    \tlibcrypto.so.3 => /opt/my ssl/libcrypto.so.3 (0x00007f2)\n";
        let found = traced(list);
        assert_eq!(found, Ok(PathBuf::from("/opt/my ssl/libcrypto.so.3")));
        let missing = traced("\tlibcrypto.so.3 => not found\n").unwrap_err();
        assert!(
            missing.contains("does not find libcrypto.so.3"),
            "{missing}"
        );
        for other in ["", "\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"] {
            let error = traced(other).unwrap_err();
            assert!(error.starts_with("openssl is a script"), "{error}");
        }
    }
}
