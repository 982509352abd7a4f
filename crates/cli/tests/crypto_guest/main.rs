//! Implementations of the kernel's crypto API are measured in guests of Debian's kernels with QEMU's
//! virtio-crypto, an offload that has one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

mod fallback;
mod times;

use std::fs;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use brisk_testkit::{
    Brisk, GeneralKernel, brisk_of, fallback_module, read_report, trial, values, virtio_crypto,
    with_aes_ni,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::tempdir;

const VIRTIO: &str = "af-alg:virtio_crypto_aes_cbc";
const TIME: &str = "time per operation";
const WHOLE: &str = "whole-system CPU per operation";

/// A processor without AES-NI.
const WITHOUT_AES: &str = "--cpu=qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16";

/// The test that needs a module which set-up compiles.
const SOFTWARE: &str = "software_in_the_place_of_a_device_is_named";

/// A test in guests of a kernel.
type Test = fn(&GeneralKernel);

/// Taken by each test. The one that compares times of several processors has it alone: another guest
/// beside it takes a processor away.
static HOST: RwLock<()> = RwLock::new(());

/// Whether other tests may run beside a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Others,
    Nothing,
}
use Beside::{Nothing, Others};

impl Beside {
    fn run(self, test: Test, kernel: &GeneralKernel) {
        // A test that failed has left nothing behind.
        match self {
            Others => {
                let _shared = HOST.read().unwrap_or_else(PoisonError::into_inner);
                test(kernel);
            }
            Nothing => {
                let _alone = HOST.write().unwrap_or_else(PoisonError::into_inner);
                test(kernel);
            }
        }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let (kernels, missing) = match GeneralKernel::all() {
        Ok(kernels) => (kernels, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let newest = &kernels[kernels.len().saturating_sub(1)..];
    // The longest one of those that share the host begins first.
    let tests: [(&str, Test, &[GeneralKernel], Beside); 8] = [
        (
            "a_crossover_lies_where_the_order_changes",
            times::crossover_and_combined,
            newest,
            Nothing,
        ),
        (
            "a_configuration_is_recommended_and_proven",
            configured,
            newest,
            Others,
        ),
        (
            "a_device_of_known_times_is_recovered",
            times::is_recovered,
            newest,
            Others,
        ),
        (
            "an_offload_is_proven_and_accounted_for",
            times::is_proven,
            &kernels,
            Others,
        ),
        (SOFTWARE, fallback::software, &kernels, Others),
        (
            "the_cause_of_an_unused_device_is_named",
            causes,
            newest,
            Others,
        ),
        (
            "aeads_and_hashes_are_right_and_measured",
            are_right,
            newest,
            Others,
        ),
        (
            "disks_and_tls_are_measured",
            other_consumers,
            newest,
            Others,
        ),
    ];
    let of = |(name, test, kernels, beside): (&str, Test, &[GeneralKernel], Beside)| {
        let named = kernels.iter().map(|kernel| {
            let own = kernel.clone();
            let lacking = match name {
                SOFTWARE => fallback_module(kernel).err(),
                _ => None,
            };
            let name = format!("{name}_{}", kernel.release);
            trial(name, lacking, move || beside.run(test, &own))
        });
        let ignored = missing
            .iter()
            .map(|reason| trial(name, Some(reason.clone()), || ()));
        named.chain(ignored).collect::<Vec<Trial>>()
    };
    libtest_mimic::run(&arguments, tests.into_iter().flat_map(of).collect()).exit();
}

/// A command that runs brisk in a guest of a kernel.
fn through(kernel: &GeneralKernel, options: &[String]) -> String {
    let brisk = env!("CARGO_BIN_EXE_brisk");
    let words = [brisk.to_owned(), "run".to_owned()];
    let words = words
        .into_iter()
        .chain(with_aes_ni())
        .chain(kernel.options())
        .chain(options.iter().cloned());
    let words: Vec<_> = words.chain(["--".to_owned(), brisk.to_owned()]).collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap()
}

/// Modules of the crypto API that a guest without a tree of modules cannot load by itself.
const MODULES: [&str; 10] = [
    "algif_skcipher",
    "algif_aead",
    "algif_hash",
    "cbc",
    "xts",
    "gcm",
    "chacha_generic",
    "poly1305_generic",
    "chacha20poly1305",
    "ghash-generic",
];

fn with_modules(modules: &[&str]) -> Vec<String> {
    let all = MODULES.iter().chain(modules);
    all.map(|name| format!("--module={name}")).collect()
}

/// Options for a guest that has these modules, and QEMU's device: with messages for interrupts, since
/// a line that it shares with other devices proves nothing.
fn with_device(throttle: &str, modules: &[&str]) -> Vec<String> {
    let machine = "--machine=q35".to_owned();
    let device = virtio_crypto(throttle).into_iter().chain([machine]);
    with_modules(modules).into_iter().chain(device).collect()
}

fn bench(report: &Path, through: &str, words: &[&str]) -> Brisk {
    brisk_of!["crypto", "bench"]
        .args(words)
        .arg("--output")
        .arg(report)
        .arg("--through")
        .arg(through)
}

/// The middle one of what was measured.
fn median(report: &Value, implementation: &str, bytes: u64, metric: &str) -> f64 {
    let mut found = values(report, &format!("{implementation} {bytes} B"), metric);
    found.sort_by(f64::total_cmp);
    assert!(!found.is_empty(), "{implementation} {bytes} {metric}");
    found[found.len() / 2]
}

/// The shortest time per operation: a busy host makes some longer, and none shorter.
fn least(report: &Value, implementation: &str, bytes: u64) -> f64 {
    let times = values(report, &format!("{implementation} {bytes} B"), TIME);
    times.into_iter().fold(f64::INFINITY, f64::min)
}

fn proof<'a>(report: &'a Value, implementation: &str, bytes: u64) -> &'a str {
    let facts = &report["environment"]["extra"];
    let name = format!("proof of {implementation} {bytes} B");
    facts[&name]
        .as_str()
        .unwrap_or_else(|| panic!("{name}: {facts}"))
}

/// The device is worth it for an OpenSSL without AES-NI, through the engine afalg; and what is written
/// for that does what it says.
fn configured(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let options = || {
        let mut options = kernel.options();
        options.extend(["--accel=tcg", WITHOUT_AES].map(str::to_owned));
        options.extend(with_device("", &["virtio_crypto"]));
        options
    };
    let config = |words: &[&str]| {
        brisk_of!["run"]
            .args(options())
            .args(["--", env!("CARGO_BIN_EXE_brisk"), "crypto", "config"])
            .args(["aes-128-cbc", "--sizes=256,4K,64K", "--format=json"])
            .args(["--output=/tmp/report.json"])
            .args(words)
            .exits(0)
            .text()
    };
    let measured = |words: &[&str]| -> Value {
        let text = config(words);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let report = measured(&[
        "--rounds=6",
        "--seconds=0.3",
        "--by=time",
        "--impl=openssl",
        "--impl=engine:afalg",
    ]);
    let facts = &report["environment"]["extra"];
    let proof = facts["proof of engine:afalg 65536 B"].as_str().unwrap();
    assert!(
        proof.starts_with("virtio_crypto_aes_cbc was in use"),
        "{proof}"
    );
    let file = dir.path().join("offload.cnf");
    let piece = facts["configuration: /etc/ssl/openssl-offload.cnf"].as_str();
    fs::write(&file, piece.unwrap_or_else(|| panic!("{facts}"))).unwrap();
    let check = format!("--check={}", file.display());
    let report = measured(&["--rounds=6", &check]);
    let notes = report["notes"].as_array().unwrap();
    let proven = "Driver: proven. virtio_crypto_aes_cbc was in use";
    let mut notes = notes.iter().filter_map(Value::as_str);
    assert!(notes.any(|note| note.starts_with(proven)), "{report}");
}

/// The cause that brisk names in a guest for each algorithm and consumer: a step, or `used`.
fn cause(kernel: &GeneralKernel, options: &[String], cases: &[(&str, &str, &str)]) {
    let brisk = env!("CARGO_BIN_EXE_brisk");
    let command = |(algorithm, consumer, _): &(&str, &str, &str)| {
        format!("{brisk} crypto explain {algorithm} --consumer {consumer} --format json; echo ---;")
    };
    let script: String = cases.iter().map(command).collect();
    let has_cpu = |words: &[String]| words.iter().any(|word| word.starts_with("--cpu="));
    let mut own = [kernel.options(), with_aes_ni().to_vec()].concat();
    own.retain(|word| !(word.starts_with("--cpu=") && has_cpu(options)));
    let ended = brisk_of!["run"]
        .args(own)
        .args(options)
        .script(&script)
        .exits(0);
    let text = ended.text();
    let answers: Vec<_> = text.split("---\n").collect();
    for ((algorithm, consumer, expected), answer) in cases.iter().zip(answers) {
        let answer: Value = serde_json::from_str(answer).unwrap();
        let steps = answer["explanations"][0]["steps"].as_array().unwrap();
        let no = steps.iter().find(|step| step["answer"] != "yes");
        let found = no.map_or("used", |step| step["step"].as_str().unwrap());
        assert_eq!(found, *expected, "{algorithm} {consumer}: {answer}");
    }
}

fn causes(kernel: &GeneralKernel) {
    // Netlink tells the drivers' flags, if its module is there.
    let all = with_device(
        "",
        &["virtio_crypto", "aesni_intel", "dm-crypt", "crypto_user"],
    );
    cause(
        kernel,
        &all,
        &[
            ("aes-128-cbc", "af-alg", "priority"),
            ("aes-128-cbc", "openssl", "priority"),
            ("aes-128-cbc", "dm-crypt", "flags"),
            ("aes-128-cbc", "fscrypt", "flags"),
            ("aes-128-cbc", "ktls", "consumer"),
            ("aes-128-ctr", "af-alg", "algorithm"),
            ("sha256", "af-alg", "algorithm"),
        ],
    );
    // A processor without AES-NI: the device is preferred to plain code.
    let mut plain = with_device("", &["virtio_crypto", "crypto_user"]);
    plain.push(WITHOUT_AES.to_owned());
    let cases = [("aes-128-cbc", "af-alg", "used")];
    cause(kernel, &plain, &cases);
    // The device is there, and its driver is not; and no device.
    let cases = [("aes-128-cbc", "af-alg", "module")];
    cause(kernel, &with_device("", &[]), &cases);
    let cases = [("aes-128-cbc", "af-alg", "device")];
    cause(kernel, &with_modules(&["virtio_crypto"]), &cases);
}

/// Published vectors of AEADs and hashes, in the kernel, come before their times.
fn are_right(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let through = through(kernel, &with_modules(&["aesni_intel"]));
    for (algorithm, implementation) in [
        ("aes-128-gcm", "af-alg"),
        ("aes-256-xts", "af-alg:xts-aes-aesni"),
        ("sha256", "af-alg"),
        ("chacha20-poly1305", "af-alg"),
    ] {
        let implementation_word = format!("--impl={implementation}");
        let words = [
            algorithm,
            "--sizes=1024",
            "--seconds=0.1",
            "--rounds=1",
            "--decrypt",
            &implementation_word,
        ];
        bench(&path, &through, &words).exits(0);
        let report = read_report(&path);
        assert!(
            median(&report, implementation, 1024, TIME) > 0.0,
            "{algorithm}"
        );
    }
}

fn other_consumers(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let modules = with_device(
        "",
        &["virtio_crypto", "aesni_intel", "dm-crypt", "dm-zero", "tls"],
    );
    let through = through(kernel, &modules);
    let words = [
        "aes-128-cbc",
        "--sizes=4096",
        "--seconds=0.3",
        "--rounds=1",
        "--impl=dm-crypt:cbc-aes-aesni",
        "--impl=dm-crypt:virtio_crypto_aes_cbc",
    ];
    let ended = bench(&path, &through, &words).exits(0);
    let report = read_report(&path);
    let time = median(&report, "dm-crypt:cbc-aes-aesni", 4096, TIME);
    assert!(time > 0.0);
    let found = proof(&report, "dm-crypt:cbc-aes-aesni", 4096);
    assert!(found.contains("cbc-aes-aesni"), "{found}");
    // dm-crypt takes no driver that allocates memory while it encrypts.
    let text = ended.text();
    let refused = "dm-crypt:virtio_crypto_aes_cbc, 4.000 KiB: failed: cannot make a device";
    assert!(text.contains(refused), "{text}");
    let words = [
        "aes-128-gcm",
        "--sizes=1024,16K",
        "--seconds=0.3",
        "--rounds=1",
        "--impl=ktls",
        "--impl=tcp",
    ];
    bench(&path, &through, &words).exits(0);
    let report = read_report(&path);
    for bytes in [1024, 16384] {
        let found = proof(&report, "ktls", bytes);
        assert!(found.contains("gcm"), "{found}");
    }
    let process =
        |implementation| median(&report, implementation, 16384, "process CPU per operation");
    assert!(process("ktls") > process("tcp"));
}
