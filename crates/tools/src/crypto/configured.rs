//! Whether OpenSSL takes what a configuration names: unless `config_diagnostics` is set, it goes on
//! without what it cannot load, and says nothing.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use brisk_host::program::Program;
use tempfile::NamedTempFile;

use super::libcrypto::program::AT_WORK;
use super::libcrypto::{Configuration, Configured, Engine, Provider};
use super::measure::NotMeasured;
use brisk_host::interrupt::Interrupt;
use brisk_host::program_output::output_within;

/// Bytes of a configuration at most.
const LARGEST: u64 = 1 << 20;

/// Reads a configuration.
///
/// # Errors
/// If it cannot be read, is too large, or OpenSSL would take nothing from it.
fn read(path: &Path) -> Result<(Vec<u8>, Configuration), NotMeasured> {
    let no = |reason: String| NotMeasured::Failed(format!("{}: {reason}", path.display()));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| no(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(no(format!("it has more than {LARGEST} bytes")));
    }
    let text = String::from_utf8_lossy(&bytes);
    let configuration = Configuration::with_includes(&text, Path::new("/"));
    if configuration.names.start.is_none() {
        return Err(no(
            "it has no openssl_conf, so that OpenSSL takes nothing from it: see \
                       config(5ssl)"
                .to_owned(),
        ));
    }
    Ok((bytes, configuration))
}

/// Has OpenSSL read a copy of a configuration that does not let it go on without what it cannot
/// load.
fn read_strictly(bytes: &[u8], path: &str, interrupt: &Interrupt) -> Result<(), NotMeasured> {
    let failed = |error: std::io::Error| NotMeasured::Failed(error.to_string());
    let mut copy = NamedTempFile::new().map_err(failed)?;
    let all = [b"config_diagnostics = 1\n", bytes].concat();
    copy.write_all(&all).map_err(failed)?;
    let program = Program::find("openssl")
        .map_err(|error| NotMeasured::Failed(error.to_string()))?
        .arg("version")
        .set("OPENSSL_CONF", copy.path());
    match output_within(&program, Some(AT_WORK), interrupt).map_err(NotMeasured::from) {
        Err(NotMeasured::Failed(reason)) => Err(NotMeasured::Failed(format!(
            "OpenSSL cannot load all of {path}, and goes on without the rest unless \
             config_diagnostics = 1 is set: {reason}"
        ))),
        other => other.map(|_| ()),
    }
}

/// Asks OpenSSL with a configuration which providers and engines it has.
///
/// # Errors
/// If it lacks one that the configuration activates, does not start with it, or a signal comes.
pub(super) fn check(path: &str, interrupt: &Interrupt) -> Result<(), NotMeasured> {
    let (bytes, configuration) = read(Path::new(path))?;
    read_strictly(&bytes, path, interrupt)?;
    let ask = |words: &[&str]| {
        let program = Program::find("openssl")
            .map_err(|error| NotMeasured::Failed(error.to_string()))?
            .args(words)
            .set("OPENSSL_CONF", path);
        let output = output_within(&program, Some(AT_WORK), interrupt)?;
        Ok::<_, NotMeasured>(String::from_utf8_lossy(&output).into_owned())
    };
    let lacks = |kind: &str, one: &Configured| {
        Err(NotMeasured::Failed(format!(
            "OpenSSL does not load the {kind} {} of {path}, and goes on without it: \
             OPENSSL_CONF={path} openssl list -providers shows what it has",
            one.name
        )))
    };
    let providers = Provider::parse(&ask(&["list", "-providers", "-verbose"])?);
    for wanted in configuration.providers.iter().filter(|one| one.is_active) {
        let mut active = providers.iter().filter(|one| one.is_active);
        if !active.any(|one| one.id == wanted.name) {
            return lacks("provider", wanted);
        }
    }
    let mut engines = configuration.engines.iter().filter(|one| one.is_active);
    if engines.clone().next().is_none() {
        return Ok(());
    }
    let known = Engine::parse(&ask(&["engine"])?);
    match engines.find(|wanted| !known.iter().any(|one| one.id == wanted.name)) {
        Some(wanted) => lacks("engine", wanted),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Activates the providers and the engine, whose names are given, without diagnostics.
    fn text(provider: &str, engine: &str) -> String {
        format!(
            "openssl_conf = init\n[init]\nproviders = p\nengines = e\n\
             [p]\ndefault = on\n{provider} = on\n[on]\nactivate = 1\n\
             [e]\n{engine} = {engine}_e\n[{engine}_e]\nengine_id = {engine}\n\
             default_algorithms = CIPHERS\n"
        )
    }

    #[test]
    fn what_openssl_goes_on_without_is_named() {
        let interrupt = Interrupt::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("openssl.cnf");
        let path = path.to_str().unwrap();
        let found = |text: &str| {
            fs::write(path, text).unwrap();
            match check(path, &interrupt) {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(found(&text("legacy", "loader_attic")), "");
        let without = text("legacy", "loader_attic").replace("[loader_attic_e]", "[other]");
        for bad in [text("legacy", "nosuch"), without] {
            let error = found(&bad);
            assert!(error.contains("OpenSSL cannot load all of"), "{error}");
        }
        // Diagnostics do not tell a provider that is missing.
        let error = found(&text("nosuch", "loader_attic"));
        assert!(error.contains("the provider nosuch of"), "{error}");
        // Its last word is that it may go on.
        let silent = "config_diagnostics = 0\n";
        let error = found(&format!("{silent}{}", text("legacy", "nosuch")));
        assert!(error.contains("the engine nosuch of"), "{error}");
        let error = found("options virtio_crypto x=1\n");
        assert!(error.contains("it has no openssl_conf"), "{error}");
        let error = check("/nonexistent", &interrupt).unwrap_err().to_string();
        assert!(error.contains("/nonexistent: No such file"), "{error}");
    }
}
