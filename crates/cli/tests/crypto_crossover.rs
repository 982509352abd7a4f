//! Outputs of `openssl speed` and reports become crossovers.

use std::fs;
use std::path::Path;

use brisk_testkit::{Brisk, Files, brisk_of};
use serde_json::Value;

fn crossover() -> Brisk {
    brisk_of!["crypto", "crossover"]
}

/// Operations in 3 s at each size, as `openssl speed -elapsed` writes them.
fn elapsed(name: &str, counts: &[(u64, u64)]) -> String {
    let lines = counts.iter().map(|(bytes, count)| {
        format!("Doing {name} for 3s on {bytes} size blocks: {count} {name}'s in 3.00s\n")
    });
    let head = "You have chosen to measure elapsed time instead of user CPU time.\n";
    std::iter::once(head.to_owned()).chain(lines).collect()
}

/// A board of 1.2 GHz, without and with its engine.
const SOFTWARE: [(u64, u64); 5] = [
    (16, 1_870_065),
    (64, 516_074),
    (256, 132_474),
    (1024, 33_342),
    (8192, 4171),
];
const ENGINE: [(u64, u64); 5] = [
    (16, 85_277),
    (64, 82_960),
    (256, 59_806),
    (1024, 40_939),
    (8192, 8227),
];

#[test]
fn two_outputs_have_a_crossover_in_every_form() {
    let files = Files::new();
    let software = files.write("sw.txt", &elapsed("aes-128-cbc", &SOFTWARE));
    let engine = format!("engine \"afalg\" set.\n{}", elapsed("aes-128-cbc", &ENGINE));
    let engine = files.write("hw.txt", &engine);
    let (json, svg, html) = (files.at("r.json"), files.at("r.svg"), files.at("r.html"));
    let shown = crossover()
        .args(["--from", &software, &engine, "-o", &json])
        .args(["--svg", &svg, "--html", &html])
        .exits(0)
        .text();
    let table = shown.split("\n\n").collect::<Vec<_>>();
    assert_eq!(
        table[..],
        [
            "time per operation\n\
             software: aes-128-cbc\n\
             offload:  aes-128-cbc, engine afalg",
            "size    software   offload  software / offload     software      offload       faster\n\
             16 B    1.604 µs  35.18 µs                0.05  9.512 MiB/s  444.2 KiB/s     software\n\
             64 B    5.813 µs  36.16 µs                0.16  10.50 MiB/s  1.688 MiB/s     software\n\
             256 B   22.65 µs  50.16 µs                0.45  10.78 MiB/s  4.867 MiB/s     software\n\
             1024 B  89.98 µs  73.28 µs                1.23  10.85 MiB/s  13.33 MiB/s  not decided\n\
             8192 B  719.3 µs  364.7 µs                1.97  10.86 MiB/s  21.42 MiB/s      offload",
            "line of the software: 200.8 ns + 89.81 µs/KiB, within 0.1 %\n\
             line of the offload: 35.01 µs + 41.01 µs/KiB, within 9.8 %",
            "aes-128-cbc, engine afalg is faster than aes-128-cbc from 730 bytes on (95 % interval \
             613 to 880; measured between 256 and 8192 bytes).\n",
        ],
        "{shown}"
    );
    let picture = fs::read_to_string(svg).unwrap();
    for text in ["Time per operation", "Throughput", "730 B", "engine afalg"] {
        assert!(picture.contains(text), "{text}");
    }
    assert!(fs::read_to_string(html).unwrap().contains("from 730 bytes"));
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["kind"], "crypto-crossover");
    let found = &report["crossings"][0];
    assert_eq!(found["quantity"], "time per operation");
    assert_eq!(found["offload"], "aes-128-cbc, engine afalg");
    assert_eq!(found["answer"], "from");
    let rounded = |number: &Value| number.as_f64().map(f64::round);
    assert_eq!(rounded(&found["bytes"]), Some(730.0));
    let ends = |name: &str| ["low", "high"].map(|end| rounded(&found[name][end]));
    assert_eq!(ends("interval"), [Some(613.0), Some(880.0)]);
    assert_eq!(ends("bracket"), [Some(256.0), Some(8192.0)]);
    let less: Vec<_> = found["sizes"].as_array().unwrap().iter().collect();
    let less: Vec<_> = less
        .iter()
        .map(|size| size["less"].as_str().unwrap())
        .collect();
    let software = "software";
    assert_eq!(
        less,
        [software, software, software, "not decided", "offload"]
    );
    assert_eq!(found["sizes"][3]["bytes"], 1024);
    let series = &report["series"][0];
    assert_eq!(series["name"], "aes-128-cbc 16 B: time per operation");

    // The report says again what it was made from.
    let again = crossover().args(["--from", &json]).exits(0).text();
    assert_eq!(again, shown);
    // What it was made from is not replaced.
    let before = fs::read(&json).unwrap();
    crossover()
        .args(["--from", &json, "--output", &json])
        .exits(125)
        .explains(&["the report would take the place of that file"]);
    assert_eq!(fs::read(&json).unwrap(), before);
    let csv = crossover().args(["--from", &json, "--format", "csv"]);
    assert!(csv.exits(0).text().contains("aes-128-cbc 16 B"));
}

#[test]
fn what_is_wrong_with_figures_is_said() {
    let files = Files::new();
    let software = files.write("sw.txt", &elapsed("aes-256-cbc", &SOFTWARE));
    // 2194 MB/s that were 53.
    let user = "Invalid engine \"devcrypto\"\n\
                Doing aes-256-cbc for 3s on 1024 size blocks: 99000 aes-256-cbc's in 0.12s\n\
                Doing aes-256-cbc for 3s on 8192 size blocks: 19500 aes-256-cbc's in 0.08s\n\
                Doing aes-256-cbc for 3s on 16384 size blocks: 9766 aes-256-cbc's in 0.07s\n";
    crossover()
        .args(["--from", &software, "-"])
        .stdin(user)
        .exits(125)
        .explains(&[
            "standard input: the engine devcrypto was not loaded",
            "aes-256-cbc, without engine devcrypto: no verdict",
        ]);
    let loaded = user.replace("Invalid engine \"devcrypto\"", "engine \"devcrypto\" set.");
    let shown = crossover()
        .args(["--from", &software, "-"])
        .stdin(&*loaded)
        .exits(0)
        .text();
    for text in [
        "at 16384 bytes the throughput it shows is 42.9 times the real one",
        "aes-256-cbc, engine devcrypto and aes-256-cbc have 2 sizes in common",
        "only one has: 16, 64, 256, 16384 bytes",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

/// A table by CPU time, an engine whose every call fails, and software beside other programs.
#[test]
fn what_says_nothing_about_an_offload_has_no_verdict() {
    let files = Files::new();
    let software = files.write("sw.txt", &elapsed("aes-128-cbc", &SOFTWARE));
    let refused = |software: &str, offload: &str, says: &[&str]| {
        let offload = files.write("hw.txt", offload);
        let _ = crossover()
            .args(["--from", software, &offload])
            .exits(125)
            .explains(says);
    };
    let table = "The 'numbers' are in 1000s of bytes per second processed.\n\
        type             16 bytes     64 bytes    256 bytes   1024 bytes   8192 bytes\n\
        aes-128-cbc      12500.00k    61000.00k   240000.00k   700000.00k  1310000.00k\n";
    refused(&software, table, &["no verdict", "Measure with -elapsed"]);
    // The command above it tells the clock.
    let command = format!("$ openssl speed -evp aes-128-cbc -elapsed -engine x\n{table}");
    let offload = files.write("elapsed.txt", &command);
    let shown = crossover().args(["--from", &software, &offload]).exits(0);
    assert!(shown.text().contains("offload:  aes-128-cbc"), "{command}");
    let failed = |message: &str| {
        let lines = ENGINE
            .iter()
            .zip([2871333, 2870950, 2871122, 2871288, 2871100]);
        let lines = lines.map(|((bytes, _), count)| {
            format!("+DT:AES-128-CBC:3:{bytes}\n{message}+R:{count}:AES-128-CBC:3.000000\n")
        });
        lines.collect::<String>()
    };
    refused(
        &software,
        &failed("ALG_PERR: cannot bind\n"),
        &["ALG_PERR: cannot bind"],
    );
    refused(&software, &failed(""), &["does not depend on the size"]);
    let half = elapsed("aes-128-cbc", &SOFTWARE).replace("in 3.00s", "in 1.50s");
    let (_, half) = half.split_once('\n').unwrap();
    let half = files.write("half.txt", half);
    let engine = format!("engine \"afalg\" set.\n{}", elapsed("aes-128-cbc", &ENGINE));
    refused(&half, &engine, &["had only 50 % of a CPU"]);
}

/// A table with the names of cores behind its numbers.
#[test]
fn labels_behind_numbers_tell_rows_apart() {
    let files = Files::new();
    let table = "You have chosen to measure elapsed time instead of user CPU time.\n\
        type             16 bytes     64 bytes    256 bytes   1024 bytes   8192 bytes\n\
        aes-128-cbc     170000.00k   480000.00k   870000.00k  1090000.00k  1170000.00k (Cortex-A55)\n\
        aes-128-cbc     640000.00k  1160000.00k  1620000.00k  1740000.00k  1790000.00k (Cortex-A76)\n";
    let file = files.write("cores.txt", table);
    let shown = crossover().args(["--from", &file]).exits(0).text();
    assert!(
        shown.contains("software: aes-128-cbc, Cortex-A55\noffload:  aes-128-cbc, Cortex-A76"),
        "{shown}"
    );
    let _ = crossover()
        .args([
            "--from",
            &files.write("cpu.txt", table.split_once('\n').unwrap().1),
        ])
        .exits(125)
        .explains(&["no verdict", "-elapsed"]);
}

#[test]
fn implementations_are_chosen_by_name() {
    let files = Files::new();
    let both = format!(
        "$ openssl speed -elapsed -evp aes-128-cbc\n{}\
         $ openssl speed -elapsed -evp aes-128-cbc -engine afalg\nengine \"afalg\" set.\n{}",
        elapsed("aes-128-cbc", &SOFTWARE),
        elapsed("aes-128-cbc", &ENGINE)
    );
    let file = files.write("both.txt", &both);
    let out = files.at("r.json");
    let turned = crossover()
        .args(["--from", &file, "-o", &out])
        .args(["--software", "afalg", "--offload", "aes-128-cbc"])
        .exits(0)
        .text();
    let expected = "aes-128-cbc is faster than aes-128-cbc, engine afalg up to 730 bytes only (";
    assert!(turned.contains(expected), "{turned}");
    let refused = |words: &[&str], says: &[&str]| {
        let _ = crossover().args(words).exits(125).explains(says);
    };
    let failed = format!("Invalid engine \"qat\"\n{}", elapsed("sha1", &SOFTWARE));
    let failed = files.write("failed.txt", &failed);
    refused(
        &["--from", &failed],
        &[
            "failed.txt: the engine qat was not loaded",
            "there is only sha1, without engine qat",
        ],
    );
    refused(
        &["--from", &file, "--software", "qat"],
        &["no qat", "\"aes-128-cbc, engine afalg\" in both.txt"],
    );
    let third = files.write("sha1.txt", &elapsed("sha1", &SOFTWARE));
    refused(
        &["--from", &third],
        &["there is only sha1", "a file of the software"],
    );
    refused(
        &["--from", &file, &third, &third],
        &["--software and --offload", "\"sha1\" in sha1.txt"],
    );
}

#[test]
fn each_quantity_of_a_report_has_its_answer() {
    let files = Files::new();
    // Microseconds of 6.12 in a guest with one processor, and half the time for CPU time.
    let rows = [
        (
            "cbc-aes-aesni",
            "time per operation",
            [33.0, 43.0, 74.0, 220.0, 796.0],
        ),
        (
            "virtio",
            "time per operation",
            [163.0, 195.0, 196.0, 296.0, 617.0],
        ),
        (
            "cbc-aes-aesni",
            "process CPU per operation",
            [33.0, 43.0, 74.0, 220.0, 796.0],
        ),
        (
            "virtio",
            "process CPU per operation",
            [80.0, 80.5, 81.0, 90.0, 120.0],
        ),
    ];
    let sizes = [16, 1024, 4096, 16384, 65536];
    let series = rows.iter().flat_map(|(name, metric, times)| {
        sizes.iter().zip(times).map(move |(bytes, time)| {
            let samples = [0.99, 1.0, 1.01].map(|factor| {
                serde_json::json!({"iteration": 0, "phase": "measured", "outcome": "ok",
                    "value": time * 1e-6 * factor})
            });
            serde_json::json!({"name": format!("{name} {bytes} B: {metric}"), "unit": "seconds",
                "better": "lower", "samples": samples})
        })
    });
    let report = serde_json::json!({"schema": "brisk.report/1", "kind": "crypto", "created": "",
        "environment": {}, "series": series.collect::<Vec<_>>()});
    let file = files.write("report.json", &report.to_string());
    let svg = files.at("r.svg");
    let shown = crossover()
        .args(["--from", &file, "--svg", &svg, "-o", &files.at("r.json")])
        .exits(0)
        .text();
    let summary = shown.split("\n\n").last().unwrap();
    assert_eq!(
        summary,
        "quantity                        software  offload  offload takes less    95 % interval  \
         measured between\n\
         time per operation         cbc-aes-aesni   virtio        from 32156 B  23604 – 50757 B   \
         16384 – 65536 B\n\
         process CPU per operation  cbc-aes-aesni   virtio         from 4461 B    4019 – 4976 B    \
         4096 – 16384 B\n"
    );
    let cpu = "virtio takes less CPU time of its process than cbc-aes-aesni from 4461 bytes on";
    assert!(shown.contains(cpu), "{shown}");
    let picture = fs::read_to_string(svg).unwrap();
    assert_eq!(picture.matches("Throughput").count(), 1);
    assert!(picture.contains("Process CPU per operation"));
}

#[test]
fn what_has_no_curve_is_named() {
    let files = Files::new();
    let refused = |path: &str, says: &[&str]| {
        let _ = crossover().args(["--from", path]).exits(125).explains(says);
    };
    refused("/nonexistent", &["cannot read /nonexistent"]);
    refused("/dev/zero", &["not a regular file"]);
    let empty = files.write("empty", "");
    refused(&empty, &["no result of openssl speed", "\"+R:…\""]);
    let failed = files.write("failed", "speed: Unknown option: -engine\n");
    refused(&failed, &["an error of openssl", "Unknown option: -engine"]);
    let json = files.write("other.json", "{}");
    refused(&json, &["other.json", "schema"]);
    let keys = "Doing 2048 bits private rsa's for 10s: 99 2048 bits private RSA's in 9.99s\n";
    refused(&files.write("rsa", keys), &["public keys"]);
    let many: Vec<_> = (1..=1001).map(|bytes| (bytes, 5000 - bytes)).collect();
    let many = files.write("many", &elapsed("sha1", &many));
    refused(&many, &["many has 1001 sizes of sha1", "1000 are read"]);
    let _ = crossover()
        .args(["--from", "-", "-"])
        .exits(125)
        .explains(&["give - one time only"]);
    let _ = crossover()
        .exits(125)
        .explains(&["name two implementations by --impl", "--from FILE"]);
    assert!(Path::new(&empty).exists());
}
