//! libcrypto is listed and measured with the OpenSSL of the system and with a newer one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::env;
use std::path::PathBuf;

use brisk_testkit::{
    Brisk, Files, brisk_of, capture, newer_openssl, read_report, tool, trial, values,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;

/// A test with the directory of an OpenSSL that is to be found first.
type Test = fn(&Openssl);

/// An OpenSSL.
#[derive(Clone)]
struct Openssl {
    /// Directory to be found first; none for the system's.
    dir: Option<PathBuf>,
}

impl Openssl {
    fn brisk(&self, words: &[&str]) -> Brisk {
        let run = brisk_of!["crypto"].args(words);
        match &self.dir {
            None => run,
            Some(dir) => {
                let path = env::var_os("PATH").unwrap();
                let all = std::iter::once(dir.clone()).chain(env::split_paths(&path));
                run.env("PATH", env::join_paths(all).unwrap())
            }
        }
    }

    /// What it says of itself.
    fn asked(&self, words: &[&str]) -> String {
        let program = match &self.dir {
            None => tool("openssl"),
            Some(dir) => dir.join("openssl"),
        };
        capture(&program, words)
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 3] = [
        ("it_is_listed_as_it_is", listed),
        ("it_is_checked_and_measured", measured),
        ("a_configuration_is_proven", proven),
    ];
    let newer = newer_openssl();
    let mut trials: Vec<Trial> = Vec::new();
    for (name, test) in tests {
        trials.push(trial(format!("{name}_system"), None::<String>, move || {
            test(&Openssl { dir: None });
        }));
        let (dir, missing) = match newer.clone() {
            Ok(dir) => (Some(dir), None),
            Err(reason) => (None, Some(reason)),
        };
        let openssl = Openssl { dir };
        trials.push(trial(format!("{name}_newer"), missing, move || {
            assert!(!openssl.asked(&["version"]).starts_with("OpenSSL 3.0"));
            test(&openssl);
        }));
    }
    trials.push(trial(
        "engines_of_openssl_4_are_gone",
        None::<String>,
        engines_are_gone,
    ));
    trials.push(trial(
        "a_provider_without_the_cipher_is_left_out",
        None::<String>,
        another_is_not_measured,
    ));
    libtest_mimic::run(&arguments, trials).exit();
}

/// One that lacks the cipher is not measured by another's.
fn another_is_not_measured() {
    let files = Files::new();
    let report = files.at("report.json");
    let bench = |algorithm: &str| {
        brisk_of![
            "crypto",
            "bench",
            algorithm,
            "--impl=provider:base",
            "--rounds=1",
            "--output",
            &report
        ]
        .exits(125)
        .stderr
    };
    let lacks = "provider:base is left out: it does not do aes-256-gcm: it has no such cipher";
    let error = bench("aes-256-gcm");
    assert!(error.contains(lacks), "{error}");
}

/// What answers as OpenSSL 4 does.
fn engines_are_gone() {
    let files = Files::new();
    brisk_testkit::script(
        files.at("openssl").as_ref(),
        "#!/bin/sh\necho 'OpenSSL 4.0.3 29 Sep 2026 (Library: OpenSSL 4.0.3 29 Sep 2026)'\n",
    );
    let dir = PathBuf::from(files.at(""));
    let words = ["bench", "aes-128-cbc", "--impl=engine:afalg", "--rounds=1"];
    let error = Openssl { dir: Some(dir) }
        .brisk(&words)
        .args(["--output", &files.at("report.json")])
        .exits(125)
        .stderr;
    assert!(
        error.contains("29 Sep 2026) has no engines any more"),
        "{error}"
    );
}

fn listed(openssl: &Openssl) {
    let text = openssl.brisk(&["list", "--format=json"]).exits(0).text();
    let list: Value = serde_json::from_str(&text).unwrap();
    let version = openssl.asked(&["version", "-v"]);
    let shown = list["openssl"]["library"].as_str().unwrap();
    assert!(version.contains(shown), "{shown}: {version}");
    let ids = list["openssl"]["providers"].as_array().unwrap();
    let known = openssl.asked(&["list", "-providers"]);
    for provider in ids {
        let id = provider["id"].as_str().unwrap();
        assert!(known.contains(id), "{id}: {known}");
    }
    // Engines are there until OpenSSL 4.
    let engines = list["openssl"]["engines"].as_array().unwrap();
    assert!(!engines.is_empty(), "{text}");
}

fn measured(openssl: &Openssl) {
    let files = Files::new();
    for (algorithm, bytes) in [
        ("aes-128-cbc", 1024),
        ("aes-256-gcm", 1024),
        ("sha256", 16384),
    ] {
        let output = files.at("report.json");
        let size = format!("--sizes={bytes}");
        let words = [
            "bench",
            algorithm,
            "--impl=openssl",
            "--impl=openssl-no-aesni",
            "--impl=provider:default",
            "--rounds=1",
            &size,
            "--output",
            &output,
        ];
        openssl.brisk(&words).exits(0);
        let report = read_report(output.as_ref());
        let facts = &report["environment"]["extra"];
        let version = facts["measured OpenSSL"].as_str().unwrap();
        assert!(openssl.asked(&["version"]).contains(version), "{version}");
        for implementation in ["openssl", "openssl-no-aesni", "provider:default"] {
            let side = format!("{implementation} {bytes} B");
            let times = values(&report, &side, "time per operation");
            assert_eq!(times.len(), 1, "{algorithm} {side}: {report}");
            // A newer one on Debian 12 is a script, of which libcrypto is not known.
            let notes = report["notes"].as_array().unwrap();
            let mut notes = notes.iter().filter_map(Value::as_str);
            let unchecked = format!("{implementation} was not checked");
            let is_checked = !notes.any(|note| note.starts_with(&unchecked));
            let is_known = openssl.dir.is_none() || algorithm != "aes-256-gcm";
            assert_eq!(is_checked, is_known, "{algorithm} {side}: {report}");
            assert!(
                (1e-9..1e-2).contains(&times[0]),
                "{algorithm} {side}: {times:?}"
            );
        }
    }
}

/// A file whose parts OpenSSL loads is measured, and one whose parts it does not is refused.
fn proven(openssl: &Openssl) {
    let files = Files::new();
    let file = files.write(
        "default.cnf",
        "openssl_conf = start\n[start]\nproviders = list\n[list]\ndefault = own\n[own]\nactivate = 1\n",
    );
    let text = openssl
        .brisk(&[
            "config",
            "aes-128-cbc",
            "--sizes=1024",
            "--rounds=1",
            "--check",
            &file,
        ])
        .args(["--output", &files.at("report.json")])
        .exits(0)
        .text();
    assert!(text.contains("With the file / without it"), "{text}");
    // One that OpenSSL goes on without.
    let file = files.write(
        "missing.cnf",
        "openssl_conf = start\n[start]\nproviders = list\n[list]\nnosuch = own\n[own]\nactivate = 1\n",
    );
    let error = openssl
        .brisk(&[
            "config",
            "aes-128-cbc",
            "--sizes=1024",
            "--rounds=1",
            "--check",
            &file,
        ])
        .exits(125)
        .stderr;
    assert!(
        error.contains("nosuch") || error.contains("goes on without"),
        "{error}"
    );
}
