//! Recommendations and proofs of configurations for crypto offload.

use std::fs;

use brisk_testkit::{Brisk, Files, brisk_of};
use serde_json::{Value, json};

fn config() -> Brisk {
    brisk_of!["crypto", "config"]
}

/// A machine with Linux 6.12 and a driver for a device, of which files alone are read.
fn machine(files: &Files) -> String {
    let driver = |name: &str, module: &str, priority: u32| {
        format!(
            "name         : cbc(aes)\ndriver       : {name}\nmodule       : {module}\n\
             priority     : {priority}\nrefcnt       : 1\nselftest     : passed\n\
             internal     : no\ntype         : skcipher\nasync        : yes\nblocksize    : 16\n\
             min keysize  : 16\nmax keysize  : 32\nivsize       : 16\n\n"
        )
    };
    let crypto = driver("virtio_crypto_aes_cbc", "virtio_crypto", 150)
        + &driver("cbc-aes-aesni", "aesni_intel", 400);
    let _ = files.write("root/proc/crypto", &crypto);
    let _ = files.write(
        "root/proc/version",
        "Linux version 6.12.1 (builder@host) #1 SMP\n",
    );
    let _ = files.write(
        "root/proc/modules",
        "virtio_crypto 1 0 - Live 0x0\naf_alg 1 0 - Live 0x0\nalgif_skcipher 1 0 - Live 0x0\n",
    );
    files.at("root")
}

/// A report with times in microseconds at three sizes, as brisk crypto bench writes it.
fn report(offload: &str, metrics: &[&str], times: [f64; 3]) -> String {
    let rows = [("openssl", [33.0, 174.0, 2407.0]), (offload, times)];
    let series = metrics.iter().flat_map(|metric| {
        rows.iter().flat_map(move |(name, times)| {
            [16, 4096, 65536]
                .iter()
                .zip(times)
                .map(move |(bytes, time)| {
                    let samples = [0.99, 1.0, 1.01].map(|factor| {
                        json!({"iteration": 0, "phase": "measured", "outcome": "ok",
                        "value": time * 1e-6 * factor})
                    });
                    json!({"name": format!("{name} {bytes} B: {metric}"), "unit": "seconds",
                    "better": "lower", "samples": samples})
                })
        })
    });
    json!({"schema": "brisk.report/1", "kind": "crypto", "created": "",
        "environment": {"extra": {"algorithm": "aes-128-cbc", "measured kernel": "6.12.1"}},
        "series": series.collect::<Vec<_>>()})
    .to_string()
}

const BOTH: [&str; 2] = ["time per operation", "whole-system CPU per operation"];
const DRIVER: &str = "af-alg:virtio_crypto_aes_cbc";

#[test]
fn what_is_worth_it_has_pieces_to_copy() {
    let files = Files::new();
    let root = machine(&files);
    let from = files.write("r.json", &report(DRIVER, &BOTH, [163.0, 100.0, 617.0]));
    let out = files.at("out.json");
    let shown = config()
        .args(["--from", &from, "--sysroot", &root, "-o", &out])
        .exits(0)
        .text();
    for text in [
        "Worth it from ",
        "by wall-clock time and CPU time of the whole system.",
        "--- /etc/modules-load.d/brisk-crypto.conf",
        "\nvirtio_crypto\n",
        ".salg_name = \"virtio_crypto_aes_cbc\"",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(shown.contains(&format!("# Measured: {from}.")), "{shown}");
    let saved: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(saved["kind"], "crypto-config");
    let facts = &saved["environment"]["extra"];
    assert!(facts["worth it"].as_str().unwrap().starts_with("from "));
    let piece = &facts["configuration: /etc/modules-load.d/brisk-crypto.conf"];
    assert!(piece.as_str().unwrap().ends_with("virtio_crypto\n"));

    // A report of a recommendation has the figures that it rests on.
    let again = config()
        .args(["--from", &out, "--sysroot", &root, "--format", "json"])
        .exits(0)
        .text();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["environment"]["extra"]["worth it"], facts["worth it"]);
    // One that recommends nothing has no pieces of the other.
    let refused = config()
        .args(["--from", &out, "--sysroot", &root, "--format", "json"])
        .args(["--consumer", "ipsec"])
        .exits(1)
        .text();
    assert!(!refused.contains("configuration: "), "{refused}");
}

#[test]
fn what_is_not_worth_it_has_none() {
    let files = Files::new();
    let root = machine(&files);
    let refused = |from: &str, more: &[&str], says: &[&str]| {
        let shown = config()
            .args([
                "--from",
                from,
                "--sysroot",
                &root,
                "-o",
                &files.at("o.json"),
            ])
            .args(more)
            .exits(1)
            .text();
        for text in says {
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert!(!shown.contains("---"), "{shown}");
    };
    let slow = files.write("slow.json", &report(DRIVER, &BOTH, [9e3, 9e3, 9e3]));
    refused(
        &slow,
        &[],
        &["Do not: software takes less wall-clock time at every size measured, up to 65536"],
    );
    let time = files.write(
        "time.json",
        &report(DRIVER, &BOTH[..1], [163.0, 100.0, 617.0]),
    );
    refused(
        &time,
        &[],
        &["No recommendation: CPU time of the whole system is not known"],
    );
    let fast = files.write("fast.json", &report(DRIVER, &BOTH, [1.0, 1.0, 1.0]));
    refused(
        &fast,
        &["--consumer", "dm-crypt"],
        &["dm-crypt refuses virtio_crypto_aes_cbc", "To do: "],
    );
    let engine = files.write(
        "engine.json",
        &report("engine:afalg", &BOTH, [1.0, 1.0, 1.0]),
    );
    refused(
        &engine,
        &[],
        &["nothing is known of OpenSSL: OpenSSL of another system's tree is not run."],
    );
    let _ = config()
        .args(["--from", &time, "--sysroot", &root, "--by", "time"])
        .args(["-o", &files.at("o.json")])
        .exits(0)
        .text();
}

/// Output of openssl speed at two sizes, with these operations in 3 s.
fn speed(name: &str, counts: [u32; 2]) -> String {
    let lines = [16, 64, 1024, 8192].map(|bytes: u32| {
        // A line: what an operation costs, and what a byte does.
        let time = 3.0 / f64::from(counts[0]);
        let slope = (3.0 / f64::from(counts[1]) - time) / 8192.0;
        let count = (3.0 / (time + slope * f64::from(bytes))) as u64;
        format!("Doing {name} for 3s on {bytes} size blocks: {count} {name}'s in 3.00s\n")
    });
    let head = "You have chosen to measure elapsed time instead of user CPU time.\n";
    head.to_owned() + &lines.concat()
}

#[test]
fn files_are_judged_by_the_machine_that_they_name() {
    let files = Files::new();
    let software = speed("aes-128-cbc", [9_000_000, 30_000]);
    let offload = format!(
        "$ openssl speed -elapsed -evp aes-128-cbc -engine afalg\nengine \"afalg\" set.\n{}",
        speed("aes-128-cbc", [80_000, 70_000])
    );
    let software = files.write("software.txt", &software);
    let offload_file = files.write("offload.txt", &offload);
    let out = files.at("out.json");
    let show = |offload: &str, more: &[&str]| {
        let run = config()
            .args(more)
            .args(["--from", &software, offload, "--by", "time"]);
        run.args(["-o", &out]).exits(1).text()
    };
    let shown = show(&offload_file, &[]);
    for text in [
        "No recommendation: by these figures it would be worth it from ",
        "; which machine the figures are of is not known, since the files do not say it.\n",
        "To do: if they are of this one, say so with --sysroot /; else run ",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    // This machine is asked only if it is theirs.
    let shown = show(&offload_file, &["--sysroot", "/"]);
    assert!(!shown.contains("which machine"), "{shown}");
    let nas = "Linux nas 5.10.0-8-armmp #1 SMP Debian 5.10.46-4 armv7l GNU/Linux\n\
               OpenSSL 1.1.1k  25 Mar 2021\n";
    let named = files.write("nas.txt", &format!("{offload}{nas}"));
    let shown = show(&named, &[]);
    let text = "; the figures are of nas, armv7l, Linux 5.10.0-8-armmp, OpenSSL 1.1.1k, and this \
                machine is ";
    assert!(shown.contains(text), "{shown}");
    let saved: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let facts = &saved["environment"]["extra"];
    assert_eq!(facts["measured kernel"], "5.10.0-8-armmp");
    // Certain of every OpenSSL of that version.
    let four = files.write("four.txt", &format!("{offload}OpenSSL 4.0.1 14 Apr 2026\n"));
    let shown = show(&four, &[]);
    assert!(
        shown.starts_with("Do not: OpenSSL 4.0.1 has no engines"),
        "{shown}"
    );
    // A report of this kernel may be of any machine that has it.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let own = report(DRIVER, &BOTH, [163.0, 100.0, 617.0]).replace("6.12.1", release.trim());
    let of_kernel = files.write("kernel.json", &own);
    let run = config().args(["--from", &of_kernel, "-o", &out]);
    let shown = run.exits(1).text();
    assert!(
        shown.contains("which machine the figures are of is not known"),
        "{shown}"
    );
    // One that names the host, too, is of this one.
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let kernel = format!("\"measured kernel\":\"{}\"", release.trim());
    let both = format!("\"measured host\":\"{}\",{kernel}", name.trim());
    let named = own.replace(&kernel, &both);
    assert_ne!(named, own);
    let own = files.write("own.json", &named);
    let shown = config().args(["--from", &own, "-o", &out]).exits(1).text();
    let text = format!(
        "Note: Judged by this machine, of which all is so that the figures name of theirs: {}, Linux {}.\n",
        name.trim(),
        release.trim()
    );
    assert!(shown.contains(&text), "{shown}");
}

#[test]
fn the_algorithm_is_that_of_the_files() {
    let files = Files::new();
    let root = machine(&files);
    let text = report(DRIVER, &BOTH, [163.0, 100.0, 617.0]);
    let from = files.write("r.json", &text);
    let unnamed = text.replace("\"algorithm\":\"aes-128-cbc\",", "");
    assert_ne!(text, unnamed);
    let unnamed = files.write("unnamed.json", &unnamed);
    let run = |words: &[&str], from: &str| {
        let words = config().args(words);
        words.args([
            "--from",
            from,
            "--sysroot",
            &root,
            "-o",
            &files.at("o.json"),
        ])
    };
    let _ = run(&["AES128"], &from).exits(0);
    let _ = run(&["aes-128-cbc"], &unnamed).exits(0);
    let says = "the files are about aes-128-cbc, and sha256 is asked for";
    let _ = run(&["sha256"], &from).exits(125).explains(&[says]);
    let says = "the files do not say which algorithm they are about";
    let _ = run(&[], &unnamed)
        .exits(125)
        .explains(&[says, "name it before --from"]);
    // One algorithm in two spellings, and another that is left out.
    let short = speed("id-aes128-GCM", [9_000_000, 30_000]);
    let long = speed("AES-128-GCM", [80_000, 70_000]);
    let hash = |counts| speed("sha256", counts);
    let (software, offload) = (hash([9_000_000, 30_000]), hash([80_000, 70_000]));
    let software = files.write("software.txt", &(short + &software));
    let offload = files.write("offload.txt", &(long + &offload));
    let run = |words: &[&str]| {
        let words = config().args(words).args(["--from", &software, &offload]);
        words.args(["--by", "time", "-o", &files.at("o.json")])
    };
    let says = "several algorithms: AES-128-GCM, id-aes128-GCM, sha256; name one before --from";
    let _ = run(&[]).exits(125).explains(&[says]);
    let shown = run(&["aes-128-gcm"]).exits(1).text();
    assert!(!shown.contains("sha256"), "{shown}");
}

/// Activates the providers default and legacy.
const PROVIDERS: &str = "openssl_conf = init\n[init]\nproviders = list\n\
                         [list]\ndefault = on\nlegacy = on\n[on]\nactivate = 1\n";

#[test]
fn a_configuration_is_measured_against_none() {
    let files = Files::new();
    let file = files.write("two providers.cnf", PROVIDERS);
    let out = files.at("out.json");
    let shown = config()
        .args([
            "sha256",
            "--check",
            &file,
            "--sizes",
            "1024",
            "--seconds",
            "1",
        ])
        .args(["-n", "1", "-o", &out])
        .exits(0)
        .text();
    for text in [
        "With the file / without it",
        "1.000 KiB",
        "time per operation: ",
        "process CPU per operation: ",
        "whole-system CPU per operation: ",
        "Driver: not proven. The file names no engine that goes to the kernel",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("failed"), "{shown}");
    let saved: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let names = &saved["environment"]["extra"]["implementations"];
    assert_eq!(names, &format!("openssl, openssl-conf:{file}"));
    let compared = &saved["comparisons"][0];
    assert_eq!(compared["a"], "openssl 1024 B: time per operation");
    assert!(compared["ratio"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_cannot_be_checked_is_told_apart() {
    let files = Files::new();
    let refused = |name: &str, text: &str, says: &[&str]| {
        let file = files.write(name, text);
        let _ = config().args(["--check", &file]).exits(125).explains(says);
    };
    refused(
        "modprobe.d/qat.conf",
        "options qat_4xxx x=1\n",
        &["cannot be checked", "options of modules", "crypto bench"],
    );
    refused("modules-load.d/x.conf", "cryptodev\n", &["loaded at boot"]);
    refused("60-x.rules", "KERNEL==\"crypto\"\n", &["who may open"]);
    refused("crypttab", "a /dev/x none luks\n", &["--impl dm-crypt"]);
    refused("sysctl.d/x.conf", "crypto.x = 1\n", &["whole machine"]);
    refused(
        "notes",
        "hello\n",
        &["a line openssl_conf = SECTION is missing"],
    );
    // OpenSSL goes on without these, and would be measured as it is.
    let missing = PROVIDERS.replace("legacy", "nosuch");
    refused(
        "missing.cnf",
        &missing,
        &["the provider nosuch of", "goes on without it"],
    );
    let _ = config()
        .args(["--check", "/nonexistent"])
        .exits(125)
        .explains(&["cannot read /nonexistent"]);
    let file = files.write("good.cnf", PROVIDERS);
    let _ = config()
        .args(["--check", &file, "--impl", "openssl"])
        .exits(2)
        .explains(&["--impl"]);
    let _ = config()
        .exits(125)
        .explains(&["name two implementations by --impl"]);
}
