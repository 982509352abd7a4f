//! brisk crypto list and explain, on this machine and on another system's tree.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use brisk_testkit::{brisk, brisk_of};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Names and priorities of implementations of an algorithm, read without brisk's parser: sorted.
fn drivers(proc_crypto: &str, algorithm: &str) -> Vec<(String, i64)> {
    let field = |entry: &str, key: &str| {
        let line = entry.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(": ")?.1.to_owned())
    };
    let mut found: Vec<_> = proc_crypto
        .split("\n\n")
        .filter(|entry| field(entry, "name ").as_deref() == Some(algorithm))
        .map(|entry| {
            let priority = field(entry, "priority ").unwrap();
            (field(entry, "driver ").unwrap(), priority.parse().unwrap())
        })
        .collect();
    found.sort();
    found
}

/// What brisk lists, in this form.
fn listed(list: &Value, algorithm: &str) -> Vec<(String, i64)> {
    let all = list["algorithms"].as_array().unwrap().iter();
    let found = all.filter(|one| one["name"] == algorithm);
    let rows = found.flat_map(|one| one["drivers"].as_array().unwrap());
    let mut rows: Vec<_> = rows
        .map(|row| {
            let driver = row["driver"].as_str().unwrap().to_owned();
            (driver, row["priority"].as_i64().unwrap())
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn all_implementations_of_this_kernel_are_listed() {
    let text = fs::read_to_string("/proc/crypto").unwrap();
    let run = brisk_of!["crypto", "list", "--kernel", "--format", "json"].exits(0);
    let list: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(list["schema"], "brisk.crypto.list/1");
    assert_eq!(list["openssl"], Value::Null);
    for algorithm in ["cbc(aes)", "sha1", "sha256", "gcm(aes)"] {
        assert_eq!(listed(&list, algorithm), drivers(&text, algorithm));
    }
    let defaults = list["algorithms"].as_array().unwrap().iter().map(|one| {
        let rows = one["drivers"].as_array().unwrap().iter();
        (
            rows.len(),
            rows.filter(|row| row["is_default"] == true).count(),
        )
    });
    for (rows, defaults) in defaults {
        assert!(defaults <= 1 && (rows == 0) <= (defaults == 0));
    }
}

#[test]
fn a_guest_lists_what_its_kernel_has() {
    let script =
        "cat /proc/crypto; echo; echo =====; exec \"$0\" crypto list --kernel --format json";
    let binary = env!("CARGO_BIN_EXE_brisk");
    let run = brisk!["--", "sh", "-c", script, binary].exits(0);
    let text = run.text();
    let (crypto, list) = text.split_once("=====\n").unwrap();
    let list: Value = serde_json::from_str(list).unwrap();
    let release = list["kernel"]["release"].as_str().unwrap();
    assert!(
        release.starts_with(|c: char| c.is_ascii_digit()),
        "{release}"
    );
    let all = ["cbc(aes)", "sha1", "sha256", "sha512"];
    for algorithm in all {
        assert_eq!(listed(&list, algorithm), drivers(crypto, algorithm));
    }
    let count = all.iter().map(|algorithm| drivers(crypto, algorithm).len());
    assert!(count.sum::<usize>() > 0, "{crypto}");
}

#[test]
fn a_guest_says_why_its_device_is_not_used() {
    let binary = env!("CARGO_BIN_EXE_brisk");
    let device = [
        "--machine=q35",
        "--qemu-arg=-object",
        "--qemu-arg=cryptodev-backend-builtin,id=c0",
        "--qemu-arg=-device",
        "--qemu-arg=virtio-crypto-pci,cryptodev=c0",
    ];
    let words = ["crypto", "explain", "--consumer=af-alg", "--format=json"];
    let run = brisk![]
        .args(device)
        .command([&[binary], &words[..]].concat());
    let value: Value = serde_json::from_str(&run.exits(1).text()).unwrap();
    let release = value["kernel"].as_str().unwrap();
    let list = format!("/lib/modules/{release}/modules.dep");
    let list = fs::read_to_string(list).unwrap_or_default();
    // Debian's kernels for clouds do not have it.
    let cause = match list.contains("/virtio_crypto.ko") {
        true => "The module virtio_crypto for the virtio crypto device is not loaded.".to_owned(),
        false => format!("The kernel {release} has no driver for the virtio crypto device."),
    };
    let steps = value["explanations"][0]["steps"].as_array().unwrap();
    let no = steps.iter().find(|step| step["answer"] == "no").unwrap();
    assert_eq!(no["step"], "module");
    assert_eq!(no["cause"], cause);
}

#[test]
fn openssl_is_listed_with_features_of_the_cpu_and_without() {
    let run = brisk_of![
        "crypto",
        "list",
        "sha256",
        "aes-128-cbc",
        "--format",
        "json"
    ]
    .exits(0);
    let list: Value = serde_json::from_str(&run.text()).unwrap();
    let library = list["openssl"]["library"].as_str().unwrap();
    assert!(library.starts_with("OpenSSL "), "{library}");
    for algorithm in list["algorithms"].as_array().unwrap() {
        let rows = algorithm["library"].as_array().unwrap();
        let own: Vec<_> = rows.iter().filter(|row| row["name"] == library).collect();
        let used = own.iter().filter(|row| row["is_used"] == true);
        assert_eq!(used.count(), 1, "{rows:?}");
    }
    let missing = brisk_of!["crypto", "list", "sha256", "--openssl", "/does/not/exist"].exits(0);
    let text = missing.text();
    assert!(
        text.contains("OpenSSL: cannot run /does/not/exist"),
        "{text}"
    );
    assert!(text.contains("in the kernel"), "{text}");
}

#[test]
fn an_algorithm_that_nobody_knows_is_an_error() {
    let run = brisk_of!["crypto", "list", "aes-129-cbc"].exits(125);
    let error = &run.stderr;
    assert!(error.contains("aes-129-cbc is not known"), "{error}");
    assert!(error.contains("aes-128-cbc"), "{error}");
    brisk_of!["crypto", "explain", "aes-129-cbc"].exits(125);
    brisk_of!["crypto", "explain", "--consumer", "nobody"].exits(2);
}

#[test]
fn every_step_is_answered_on_this_machine() {
    let run = brisk_of!["crypto", "explain", "--format", "json"].output();
    let value: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(value["schema"], "brisk.crypto.explain/1");
    let all = value["explanations"].as_array().unwrap();
    let consumers: Vec<_> = all
        .iter()
        .map(|one| one["consumer"].as_str().unwrap())
        .collect();
    let expected = ["openssl", "af-alg", "dm-crypt", "fscrypt", "ktls", "ipsec"];
    assert_eq!(consumers, expected);
    for one in all {
        let steps = one["steps"].as_array().unwrap();
        let known = brisk_tools::crypto::explain::STEPS.len();
        assert_eq!(steps.len(), known);
        for step in steps {
            assert!(!step["looked_at"].as_str().unwrap().is_empty(), "{step}");
            let is_no = step["answer"] == "no";
            assert_eq!(is_no, step["cause"].is_string(), "{step}");
        }
    }
    let is_used = all.iter().any(|one| one["is_used"] == "yes");
    brisk_of!["crypto", "explain"].exits(i32::from(!is_used));
}

/// A system with virtio-crypto, whose module is not loaded.
fn system() -> TempDir {
    let root = tempdir().unwrap();
    let device = "sys/bus/virtio/devices/virtio1";
    let modules = "lib/modules/6.1.0-9-amd64";
    let version = "Linux version 6.1.0-9-amd64 (x) (gcc) #1 SMP Debian 6.1.27-1 (2023-05-08)\n";
    let hostile = "name         : cbc(aes)\ndriver       : a\u{1b}[31mb\nmodule       : m\n\
                   priority     : 1\nselftest     : passed\ntype         : skcipher\n";
    for (path, text) in [
        ("proc/version", version),
        ("proc/crypto", hostile),
        (&format!("{device}/modalias"), "virtio:d00000014v00001AF4\n"),
        (
            &format!("{modules}/modules.dep"),
            "kernel/drivers/crypto/virtio/virtio_crypto.ko:\n",
        ),
        (
            &format!("{modules}/modules.alias"),
            "alias virtio:d00000014v* virtio_crypto\n",
        ),
    ] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn explained(root: &Path) -> String {
    let run = brisk_of![
        "crypto",
        "explain",
        "--consumer",
        "af-alg",
        "--sysroot",
        root
    ]
    .exits(1);
    run.text()
}

#[test]
fn another_systems_tree_is_looked_at() {
    let root = system();
    let text = explained(root.path());
    let cause = "No device is used: The module virtio_crypto for the virtio crypto device is not \
                 loaded.\nTo do: modprobe virtio_crypto\n";
    assert!(text.contains(cause), "{text}");
    let device = root.path().join("sys/bus/virtio/devices/virtio1");
    symlink("../drivers/virtio_crypto", device.join("driver")).unwrap();
    let modules = root.path().join("proc/modules");
    fs::write(modules, "virtio_crypto 1 0 - Live 0\n").unwrap();
    let text = explained(root.path());
    assert!(
        text.contains("is loaded, but registered no algorithm"),
        "{text}"
    );
    let list = brisk_of!["crypto", "list", "cbc(aes)", "--sysroot", root.path()].exits(0);
    let text = list.text();
    assert!(text.contains("virtio virtio1"), "{text}");
    let note = "Note: whether this kernel has af-alg, fscrypt, ipsec is not known (\"?\"): its \
                configuration cannot be read\n";
    assert_eq!(text.matches(note).count(), 1, "{text}");
    assert!(!text.contains("cannot be read ("), "{text}");
    fs::create_dir(root.path().join("boot")).unwrap();
    let config = root.path().join("boot/config-6.1.0-9-amd64");
    fs::write(config, "CONFIG_CRYPTO_CBC=y\nCONFIG_DM_CRYPT=m\n").unwrap();
    let list = brisk_of![
        "crypto",
        "list",
        "cbc(aes)",
        "xts(aes)",
        "--sysroot",
        root.path()
    ];
    let text = list.exits(0).text();
    assert!(!text.contains("whether this kernel has"), "{text}");
    for line in [
        "  af-alg: the kernel was built without CONFIG_CRYPTO_USER_API_SKCIPHER (",
        "in the kernel: none: the kernel was built without CONFIG_CRYPTO_XTS\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_tree_without_devices_says_nothing_of_cryptodev() {
    let root = system();
    let list = |format: &str| {
        let list = brisk_of!["crypto", "list", "sha1", "--format", format, "--sysroot"];
        list.args([root.path()]).exits(0).text()
    };
    let json =
        || serde_json::from_str::<Value>(&list("json")).unwrap()["kernel"]["cryptodev"].clone();
    let line = "/dev/crypto: not known, the tree has no devices\n";
    assert!(list("table").contains(line), "{}", list("table"));
    assert_eq!(json(), Value::Null);
    // As an image of a root has it, for devtmpfs.
    let dev = root.path().join("dev");
    fs::create_dir(&dev).unwrap();
    assert_eq!(json(), Value::Null);
    for (name, line, value) in [("null", "none", false), ("crypto", "there", true)] {
        fs::write(dev.join(name), "").unwrap();
        let text = list("table");
        assert!(text.contains(&format!("/dev/crypto: {line}\n")), "{text}");
        assert_eq!(json(), value);
    }
}

#[test]
fn what_a_tree_lacks_is_not_known() {
    let root = system();
    let remove = |path: &str| fs::remove_file(root.path().join(path)).unwrap();
    let show = |words: &[&str]| {
        let run = brisk_of!["crypto"].args(words);
        run.args([Path::new("--sysroot"), root.path()])
            .output()
            .text()
    };
    let explain = ["explain", "--consumer", "af-alg"];
    remove("proc/version");
    let text = show(&explain);
    for line in [
        "Linux, release not known\n",
        "module           unknown  the kernel's modules cannot be read: whether one is for the virtio \
         crypto device is not known\n",
        "neither crypto.af_alg_restrict nor the kernel's version is known",
        "aes-128-cbc is approved for FIPS mode",
        "\nWhether a device is used is not known: see the steps above.\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // The release is in another file, too, and with it the modules are found.
    let release = root.path().join("proc/sys/kernel");
    fs::create_dir_all(&release).unwrap();
    fs::write(release.join("osrelease"), "6.1.0-9-amd64\n").unwrap();
    let text = show(&explain);
    assert!(text.contains("Linux 6.1.0-9-amd64\n"), "{text}");
    assert!(text.contains("To do: modprobe virtio_crypto\n"), "{text}");
    // Without a list of drivers or devices there may be one.
    remove("proc/crypto");
    let text = show(&explain);
    assert!(
        text.contains("unknown  /proc/crypto cannot be read\n"),
        "{text}"
    );
    fs::remove_dir_all(root.path().join("sys")).unwrap();
    let text = show(&explain);
    let line = "device           unknown  /sys/bus and /proc/crypto cannot be read\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("No device"), "{text}");
    let text = show(&["list", "xts(aes)"]);
    assert!(
        text.contains("in the kernel: not known, /proc/crypto cannot be read\n"),
        "{text}"
    );
    assert!(
        text.contains("Devices: not known, /sys/bus cannot be read\n"),
        "{text}"
    );
    let value: Value = serde_json::from_str(&show(&["explain", "--format", "json"])).unwrap();
    assert_eq!(value["kernel"], "6.1.0-9-amd64");
    let empty = tempdir().unwrap();
    let run = brisk_of!["crypto", "explain", "--sysroot", empty.path()].exits(125);
    let says = "it is no system's tree: it has none of proc, sys, boot, lib/modules";
    assert!(run.stderr.contains(says), "{}", run.stderr);
}
