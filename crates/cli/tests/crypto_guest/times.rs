//! Times and CPU times of a device, against those of software.

use brisk_testkit::{GeneralKernel, brisk_of, read_report, values};
use serde_json::Value;
use tempfile::tempdir;

use super::{TIME, VIRTIO, WHOLE, bench, least, median, proof, through, with_device};

pub(super) fn is_proven(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let through = through(kernel, &with_device("", &["virtio_crypto", "aesni_intel"]));
    let words = [
        "aes-128-cbc",
        "--sizes=256,64K",
        "--seconds=0.5",
        "--rounds=2",
        "--impl=af-alg:virtio_crypto_aes_cbc",
        "--impl=af-alg:cbc-aes-aesni",
        "--impl=af-alg:cbc(aes-generic)",
        "--impl=af-alg",
        "--impl=af-alg:nosuch",
        "--impl=openssl",
    ];
    let ended = bench(&path, &through, &words).exits(0);
    let text = ended.text();
    let report = read_report(&path);
    for bytes in [256, 65536] {
        let found = proof(&report, VIRTIO, bytes);
        assert!(
            found.starts_with("virtio_crypto_aes_cbc was in use, and its device"),
            "{found}"
        );
        // A name of software, with what the template of it uses; and no device.
        let software = proof(&report, "af-alg:cbc(aes-generic)", bytes);
        assert!(software.contains("cbc(aes-generic)"), "{software}");
        assert!(software.ends_with("has no device"), "{software}");
        // Of the three, the kernel prefers AES-NI.
        let preferred = proof(&report, "af-alg", bytes);
        assert!(preferred.contains("cbc-aes-aesni"), "{preferred}");
        let interrupts = median(&report, VIRTIO, bytes, "device interrupts per operation");
        assert!((0.5..1.5).contains(&interrupts), "{interrupts}");
        // What the parts do not explain is little, and what QEMU takes on the host is known.
        let of = |metric| values(&report, &format!("{VIRTIO} {bytes} B"), metric);
        let account = [
            WHOLE,
            "process CPU per operation",
            "kernel threads per operation",
            "other CPU per operation",
        ]
        .map(of);
        assert!(account.iter().all(|part| part.len() == 2), "{account:?}");
        for round in 0..2 {
            let [whole, process, threads, rest] = [0, 1, 2, 3].map(|part| account[part][round]);
            let parts = process + threads + rest;
            assert!((parts / whole - 1.0).abs() < 0.03, "{account:?}");
            // A busy host makes the rest longer, too.
            assert!(threads > 0.1 * process, "{account:?}");
        }
        assert!(
            median(
                &report,
                VIRTIO,
                bytes,
                "QEMU's CPU on the host per operation"
            ) > 0.0
        );
        assert!(median(&report, "openssl", bytes, TIME) > 0.0);
    }
    // The device is worth it against plain code in large operations, and not in small ones.
    let time = |implementation, bytes| median(&report, implementation, bytes, TIME);
    let generic = "af-alg:cbc(aes-generic)";
    assert!(time(VIRTIO, 256) > time(generic, 256) * 1.3);
    assert!(time(VIRTIO, 65536) < time(generic, 65536) * 0.8);
    assert!(time("af-alg:cbc-aes-aesni", 65536) < time(generic, 65536));
    assert!(values(&report, "idle again", "CPUs in use").len() == 2);
    // Its figures say nothing of this host, which has no such device and is not looked at.
    let elsewhere = brisk_of!["crypto", "config", "--from"]
        .arg(&path)
        .args(["--software=af-alg:cbc(aes-generic)", "--consumer=af-alg"])
        .args(["--offload", VIRTIO, "--output"])
        .arg(dir.path().join("elsewhere.json"))
        .output()
        .text();
    for of_this_host in [
        "There is no device",
        "/proc/crypto",
        "Judged by",
        "Worth it",
    ] {
        assert!(!elsewhere.contains(of_this_host), "{elsewhere}");
    }
    for part in [
        "af-alg:nosuch is left out: the kernel gives no nosuch",
        "QEMU on the host",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// A device that QEMU limits to known rates: 1000 operations a second, or 4 MB/s.
pub(super) fn is_recovered(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let measured = |throttle: &str, sizes: &str| {
        let through = through(kernel, &with_device(throttle, &["virtio_crypto"]));
        let implementation = format!("--impl={VIRTIO}");
        let words = [sizes, "--seconds=2", "--rounds=3", &implementation];
        bench(&path, &through, &words).exits(0);
        read_report(&path)
    };
    // After a pause QEMU lets through what it would have in a tenth of a second more: of two seconds
    // that is 5 %.
    let least = |report: &Value, bytes: u64| {
        let times = values(report, &format!("{VIRTIO} {bytes} B"), TIME);
        assert_eq!(times.len(), 3, "{times:?}");
        least(report, VIRTIO, bytes)
    };
    let report = measured(",throttle-ops=1000", "--sizes=16,4096");
    for bytes in [16, 4096] {
        let time = least(&report, bytes);
        assert!((0.9e-3..1.1e-3).contains(&time), "{bytes} {time}");
    }
    // The device's own part of 250 ns a byte, without what an operation takes by itself.
    let report = measured(",throttle-bps=4000000", "--sizes=16K,64K");
    let times = [16384, 65536].map(|bytes| least(&report, bytes));
    let slope = (times[1] - times[0]) / (65536.0 - 16384.0);
    assert!((0.9 / 4e6..1.1 / 4e6).contains(&slope), "{times:?} {slope}");
}

/// Two threads, on two processors that share what emulates them.
pub(super) fn crossover_and_combined(kernel: &GeneralKernel) {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let through = through(kernel, &with_device("", &["virtio_crypto", "aesni_intel"]));
    let run = |command: &str, software: &str, words: &[&str]| {
        brisk_of!["crypto", command, "--rounds=6", "--seconds=0.2"]
            .args(words)
            .args([&format!("--impl={software}"), &format!("--impl={VIRTIO}")])
            .arg("--output")
            .arg(&path)
            .args(["--through", &through])
            .exits(0)
            .text()
    };
    let generic = "af-alg:cbc(aes-generic)";
    // Against plain code the order changes once, wherever this host is slow.
    for software in [generic, "af-alg:cbc-aes-aesni"] {
        let text = run("crossover", software, &["--sizes=256,1K,16K,64K"]);
        let report = read_report(&path);
        let time = |implementation, bytes| least(&report, implementation, bytes);
        assert!(time(VIRTIO, 256) > time(software, 256), "{text}");
        // AES-NI takes about as long as the device at this size; which takes less is the host's matter.
        let is_faster = time(VIRTIO, 65536) < time(software, 65536) * 0.8;
        assert!(is_faster || software != generic, "{text}");
        // What the noise of a busy host hides is not claimed.
        let crossings = report["crossings"].as_array().unwrap();
        let of_time = |one: &&Value| one["quantity"] == TIME && one["offload"] == VIRTIO;
        let crossing = crossings.iter().find(of_time).unwrap();
        if let Some(bytes) = crossing["bytes"].as_f64() {
            assert!((256.0..65536.0).contains(&bytes), "{text}");
        }
        let bracket = &crossing["bracket"];
        let is_bracketed = bracket.is_object();
        if is_bracketed {
            let [low, high] = ["low", "high"].map(|end| bracket[end].as_f64().unwrap());
            assert!(low >= 256.0 && high <= 65536.0, "{text}");
        }
        let sizes = crossing["sizes"].as_array().unwrap();
        assert_eq!(sizes.len(), 4, "{text}");
        let is_withheld = |size: &Value| size["less"] == "alike" || size["less"] == "not decided";
        let is_told = is_bracketed || sizes.iter().any(is_withheld);
        assert!(is_told || !is_faster, "{text}");
        assert!(is_told || text.contains("at no size"), "{text}");
        for metric in [
            "process CPU per operation",
            "whole-system CPU per operation",
        ] {
            assert!(text.contains(metric), "{text}");
        }
    }
    let text = run("combined", generic, &["--sizes=64K"]);
    let report = read_report(&path);
    let of = |split: &str| {
        let mut found = values(&report, split, "throughput");
        assert_eq!(found.len(), 6, "{split}");
        found.sort_by(f64::total_cmp);
        f64::midpoint(found[2], found[3])
    };
    let alone = of("1 software + 0 offload") + of("0 software + 1 offload");
    // One processor cannot do both at once as fast as each alone.
    assert!(of("1 software + 1 offload") < alone * 0.9, "{text}");
    for part in [
        "of the sum alone",
        "Best: ",
        "fewer than 1 threads of each kind need",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
