//! Whether libcrypto gives the published results, by commands of the program `openssl`.

use std::io::Write;
use std::path::Path;

use brisk_host::program::Program;
use tempfile::NamedTempFile;

use super::algorithm::{Algorithm, Kind};
use super::configured;
use super::direct;
use super::implementation::Implementation;
use super::libcrypto::VersionInfo;
use super::libcrypto::program::{AT_WORK, PATIENCE, output};
use super::measure::{NotMeasured, environment};
use super::vectors::{Checked, VectorError, digits, vector};
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::output_within;

/// Bytes of the longest version.
const LONGEST_VERSION: usize = 1000;

/// First line of `openssl version`.
///
/// # Errors
/// If it cannot be run.
pub(super) fn version() -> Result<String, String> {
    let not_measured = |reason: String| format!("libcrypto is not measured: {reason}");
    let program = Program::find("openssl").map_err(|error| not_measured(error.to_string()))?;
    version_of(&program).map_err(not_measured)
}

fn version_of(program: &Program) -> Result<String, String> {
    let program = program.clone().args(["version"]);
    let text = output(&program, PATIENCE)?;
    let line = text.lines().next().unwrap_or_default();
    if line.contains(' ') && line.len() <= LONGEST_VERSION {
        return Ok(line.to_owned());
    }
    Err("openssl version does not say which".to_owned())
}

/// Has `openssl enc` or `openssl dgst` do the vector in both directions. No command of OpenSSL does
/// AEADs and XTS: for these a process of the program `brisk` calls libcrypto's functions.
///
/// # Errors
/// If the result differs, the program fails, or a signal comes.
pub(super) fn check(
    brisk: Option<&Path>,
    implementation: &Implementation,
    algorithm: &'static Algorithm,
    interrupt: &Interrupt,
) -> Result<Checked, NotMeasured> {
    if let Implementation::Engine(name) = implementation {
        let version = version().map_err(NotMeasured::Failed)?;
        if !VersionInfo::parse(&version).has_engines() {
            return Err(NotMeasured::Failed(format!(
                "{version} has no engines any more"
            )));
        }
        // Commands warn of an engine that they cannot load, and go on without it.
        let program = Program::find("openssl")
            .map_err(|error| NotMeasured::Failed(error.to_string()))?
            .args(["engine", name]);
        output_within(&program, Some(AT_WORK), interrupt)?;
    }
    if let Implementation::OpenSslConf(path) = implementation {
        configured::check(path, interrupt)?;
    }
    if algorithm.kind == Kind::Aead || algorithm.kernel.starts_with("xts") {
        return match brisk {
            Some(brisk) => direct::check(brisk, implementation, algorithm, interrupt),
            None => Ok(Checked::No(
                "there is no command that has it do one".to_owned(),
            )),
        };
    }
    let vector = vector(algorithm);
    let once = |decrypt: bool, input: &[u8], expected: &[u8]| {
        let mut file = NamedTempFile::new()?;
        file.write_all(input)?;
        let mut words = words(implementation, algorithm, decrypt);
        if algorithm.kind != Kind::Hash {
            words.push("-in".to_owned());
        }
        words.push(file.path().to_string_lossy().into_owned());
        let program = Program::find("openssl")
            .map_err(|error| NotMeasured::Failed(error.to_string()))?
            .args(words);
        let variables = environment(implementation).into_iter();
        let program = variables.fold(program, |program, (name, value)| program.set(name, value));
        let found = output_within(&program, Some(AT_WORK), interrupt)?;
        if found == expected {
            return Ok(());
        }
        let wrong = VectorError::wrong(implementation, algorithm);
        Err(NotMeasured::Failed(wrong.to_string()))
    };
    once(false, &vector.plain, &vector.result)?;
    if algorithm.kind == Kind::Cipher {
        once(true, &vector.result, &vector.plain)?;
    }
    Ok(Checked::Yes)
}

/// Arguments of `openssl`, but for the input. The key is a published one, and no secret.
fn words(implementation: &Implementation, algorithm: &Algorithm, decrypt: bool) -> Vec<String> {
    let vector = vector(algorithm);
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: &str| words.push(word.to_owned());
    match algorithm.kind {
        Kind::Hash => {
            add("dgst");
            add(&format!("-{}", algorithm.name));
            add("-binary");
        }
        Kind::Cipher | Kind::Aead => {
            add("enc");
            add(&format!("-{}", algorithm.name));
            add("-nopad");
            add("-K");
            add(&digits(&vector.key));
            if !vector.iv.is_empty() {
                add("-iv");
                add(&digits(&vector.iv));
            }
            if decrypt {
                add("-d");
            }
        }
    }
    match implementation {
        Implementation::Engine(name) => {
            add("-engine");
            add(name);
        }
        Implementation::Provider(name) => {
            add("-provider");
            add(name);
            add("-provider");
            add("default");
            add("-propquery");
            add(&format!("?provider={name}"));
        }
        _ => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::ALGORITHMS;
    use super::*;

    /// The vectors themselves, by an implementation that is not ours.
    #[test]
    fn libcrypto_gives_the_published_results() {
        let interrupt = Interrupt::new().unwrap();
        for algorithm in ALGORITHMS {
            let checked = check(None, &Implementation::OpenSsl, algorithm, &interrupt).unwrap();
            let is_done = !algorithm.name.ends_with("xts") && algorithm.kind != Kind::Aead;
            assert_eq!(checked == Checked::Yes, is_done, "{}", algorithm.name);
        }
    }

    #[test]
    fn a_version_is_one_line_of_some_length() {
        let shell = |script| version_of(&Program::at("/bin/sh").args(["-c", script]));
        assert_eq!(
            shell("echo OpenSSL 3.0; echo x"),
            Ok("OpenSSL 3.0".to_owned())
        );
        for other in ["exit 0", "echo OpenSSL", "exec tr '\\0' ' ' </dev/zero"] {
            let error = shell(other).unwrap_err();
            assert_eq!(error, "openssl version does not say which", "{other}");
        }
        assert!(shell("exit 3").unwrap_err().contains("exit status: 3"));
    }

    #[test]
    fn what_an_engine_lacks_is_said() {
        let interrupt = Interrupt::new().unwrap();
        let algorithm = Algorithm::find("aes-128-cbc").unwrap();
        let engine = Implementation::Engine("nosuch".to_owned());
        let error = check(None, &engine, algorithm, &interrupt).unwrap_err();
        assert!(error.to_string().contains("nosuch"), "{error}");
    }
}
