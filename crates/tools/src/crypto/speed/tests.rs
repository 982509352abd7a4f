mod commands;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Speed {
    Speed::parse(text).unwrap()
}

/// Curves and remarks, a line each.
fn shown(text: &str) -> String {
    let speed = parse(text);
    let mut lines = Vec::new();
    for one in &speed.measured {
        let points = one.curve.points.iter().map(|point| {
            let times = point
                .seconds
                .iter()
                .map(|time| format!("{:.4}", time * 1e6));
            format!("{}: {}", point.bytes, times.collect::<Vec<_>>().join(" "))
        });
        lines.push(format!(
            "{} [{:?}{}] {}",
            one.curve.name,
            one.clock,
            if one.is_wall_clock {
                ""
            } else {
                ", not wall clock"
            },
            points.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.extend(speed.remarks.iter().map(ToString::to_string));
    lines.join("\n")
}

#[test]
fn elapsed_times_are_divided_by_counts() {
    let text = "$ openssl speed -elapsed -evp aes-128-cbc -engine afalg\r\n\
        engine \"afalg\" set.\r\n\
        You have chosen to measure elapsed time instead of user CPU time.\r\n\
        Doing aes-128-cbc for 3s on 16 size blocks: 85277 aes-128-cbc's in 3.00s\r\n\
        Doing aes-128-cbc for 3s on 8192 size blocks: 8227 aes-128-cbc's in 3.01s\r\n\
        OpenSSL 1.1.1d  10 Sep 2019\r\n\
        The 'numbers' are in 1000s of bytes per second processed.\r\n\
        type             16 bytes   8192 bytes\r\n\
        aes-128-cbc        454.81k    22390.56k\r\n";
    insta::assert_snapshot!(
        shown(text),
        @"aes-128-cbc, engine afalg [Elapsed] 16: 35.1795, 8192: 365.8685"
    );
}

#[test]
fn user_time_is_corrected_by_the_alarm() {
    // 53 MB/s that were shown as 2194 MB/s.
    let text = "Doing AES-128-CBC ops for 3s on 16384 size blocks: 9705 AES-128-CBC ops in 0.07s\n\
        Doing AES-128-CBC ops for 3s on 16 size blocks: 100000 AES-128-CBC ops in 2.99s\n\
        type             16 bytes  16384 bytes\n\
        AES-128-CBC        535.12k  2271524.57k\n";
    insta::assert_snapshot!(shown(text), @r"
    AES-128-CBC [User] 16: 30.0000, 16384: 309.1190
    AES-128-CBC: openssl divided by its user CPU time, not by the time that passed: at 16384 bytes the throughput it shows is 42.9 times the real one. The other time went to an offload, to the kernel, or to other programs. Here times are those that passed: the seconds of the alarm, divided by the count. Measure with -elapsed.
    ");
}

/// `0.00s` is less than a tick; how much less, only the table tells.
#[test]
fn a_time_that_is_too_short_is_that_of_the_table() {
    let counts = "Doing sha1 for 3s on 16 size blocks: 100000 sha1's in 0.05s\n\
        Doing sha1 for 3s on 8192 size blocks: 12000 sha1's in 0.00s\n";
    let wrong = |table: &str| {
        let text = shown(&format!("{counts}{table}"));
        let (_, rest) = text.split_once("the throughput it shows is ").unwrap();
        rest.split_once(" the real one").unwrap().0.to_owned()
    };
    assert_eq!(wrong(""), "at least 300.0 times");
    // Of 4 ms.
    let table = "type   16 bytes   8192 bytes\nsha1   32000.00k   24576000.00k\n";
    assert_eq!(wrong(table), "750.0 times");
    // Of another run.
    let other = table.replace("24576000.00k", "24576.00k");
    assert_eq!(wrong(&other), "at least 300.0 times");
    let infinite = table.replace("24576000.00k", "infk");
    assert_eq!(wrong(&infinite), "at least 300.0 times");
}

#[test]
fn a_table_alone_warns_of_its_clock() {
    let table = "type             16 bytes     64 bytes    256 bytes\n\
        aes-128 cbc      37255.54k    42867.84k    45405.70k\n\
        des ede3          9876.54     12000.00k        0.00\n";
    insta::assert_snapshot!(shown(table), @r"
    aes-128 cbc [Unknown, not wall clock] 16: 0.4295, 64: 1.4930, 256: 5.6381
    des ede3 [Unknown, not wall clock] 16: 1620.0005, 64: 5.3333
    aes-128 cbc and des ede3: there are only throughputs, by user CPU time unless -elapsed was given; user CPU time says nothing about an offload. Measure with -elapsed, or give the lines before the table, too.
    ");
    let elapsed =
        format!("You have chosen to measure elapsed time instead of user CPU time.\n{table}");
    let speed = parse(&elapsed);
    assert!(speed.measured.iter().all(|one| one.is_wall_clock));
    assert_eq!(speed.remarks, []);
    // However many rows there are.
    let rows = "des 1.00k 2.00k 3.00k\nrc4 1.00k 2.00k 3.00k\n";
    let [one] = &parse(&format!("{table}{rows}")).remarks[..] else {
        panic!("not one remark");
    };
    let one = one.to_string();
    assert!(
        one.starts_with("aes-128 cbc and 3 more: there are"),
        "{one}"
    );
}

#[test]
fn several_processes_are_taken_together() {
    // As openssl 3.0 -multi 2 has them: the children time by the wall clock.
    // As openssl 3.0.19 -multi 2 writes into one file; the children time by the wall clock.
    let text = "Forked child 0\n+DT:AES-128-CBC:1:16\n+DT:AES-128-CBC:1:16\n\
        +R:1000:AES-128-CBC:1.000000\n+DT:AES-128-CBC:1:64\n+R:3000:AES-128-CBC:1.000000\n\
        +DT:AES-128-CBC:1:64\n+R:500:AES-128-CBC:1.000000\n+R:1500:AES-128-CBC:1.000000\n\
        Forked child 1\n\
        Got: +H:16:64 from 0\nGot: +F:25:AES-128-CBC:16000.00:32000.00 from 0\n\
        Got: +H:16:64 from 1\nGot: +F:25:AES-128-CBC:48000.00:96000.00 from 1\n";
    // Without a head.
    let table = "version: 3.0.19\nCPUINFO: OPENSSL_ia32cap=0xff:0x40\n\
        AES-128-CBC         64.00k      128.00k\n";
    let terse = "+F:25:AES-128-CBC:64000.00:128000.00\n";
    let expected = "AES-128-CBC, 2 processes [Elapsed] 16: 250.0000, 64: 500.0000";
    for end in ["", table, terse] {
        let whole = format!("{text}{end}");
        assert_eq!(parse(&whole).measured[0].processes, 2);
        assert_eq!(shown(&whole), expected);
    }
    // Their standard output alone.
    let output = text.lines().filter(|line| !line.starts_with('+'));
    let output = format!("{}\n{table}", output.collect::<Vec<_>>().join("\n"));
    assert_eq!(shown(&output), expected);
    // Their standard error alone.
    let counts = text.lines().filter(|line| line.starts_with('+'));
    let counts = counts.collect::<Vec<_>>().join("\n");
    assert_eq!(shown(&counts), expected);
}

#[test]
fn counts_of_unknown_sizes_are_left_out() {
    // A run that was ended, and another one: or two at once, of which one was ended.
    let text = "+DT:sha1:1:16\n+DT:sha1:1:16\n+R:2000000:sha1:1.0\n+DT:sha1:1:64\n\
        +R:1000000:sha1:1.0\n";
    let error = Speed::parse(text).unwrap_err();
    assert!(matches!(error, SpeedError::LeftOut(_)), "{error:?}");
    let table = format!("{text}+H:16:64\n+F:8:sha1:32000000.00:64000000.00\n");
    let speed = parse(&table);
    assert_eq!(speed.remarks, [Remark::Mixed]);
    assert_eq!(speed.measured[0].curve.points[1].seconds, [1e-6]);
}

#[test]
fn mr_does_not_say_its_clock() {
    let text = "+DT:sha256:1:16\n+R:2000000:sha256:1.000000\n+DT:sha256:1:64\n\
        +R:1000000:sha256:0.500000\n+H:16:64\n+F:8:sha256:32000000.00:128000000.00\n";
    insta::assert_snapshot!(shown(text), @r"
    sha256 [Unknown] 16: 0.5000, 64: 1.0000
    sha256: openssl divided by its user CPU time, not by the time that passed: at 64 bytes the throughput it shows is 2.0 times the real one. The other time went to an offload, to the kernel, or to other programs. Here times are those that passed: the seconds of the alarm, divided by the count. Measure with -elapsed.
    ");
}

#[test]
fn counts_are_preferred_and_checked() {
    let text = "You have chosen to measure elapsed time instead of user CPU time.\n\
        Doing sha1 for 3s on 16 size blocks: 3000000 sha1's in 3.00s\n\
        type             16 bytes\n\
        sha1             19000.00k\n";
    insta::assert_snapshot!(shown(text), @r"
    sha1 [Elapsed] 16: 1.0000
    sha1: at 16 bytes the table has 19.00 MB/s, and count and time beside it are 16.00 MB/s. The count is used; are the two of the same run?
    ");
}

#[test]
fn standard_output_may_come_before_standard_error() {
    let table = "type             16 bytes     64 bytes\nsha1             16000.00k    32000.00k\n";
    let counts = "You have chosen to measure elapsed time instead of user CPU time.\n\
        Doing sha1 for 3s on 16 size blocks: 3000000 sha1's in 3.00s\n\
        Doing sha1 for 3s on 64 size blocks: 1500000 sha1's in 3.00s\n";
    let expected = "sha1 [Elapsed] 16: 1.0000, 64: 2.0000";
    assert_eq!(shown(&format!("{table}{counts}")), expected);
    let other = counts.replace("3000000", "2000000");
    let speed = parse(&format!("{table}{other}"));
    assert_eq!(speed.measured[0].curve.points[0].seconds, [1e-6, 1.5e-6]);
}

#[test]
fn runs_are_told_apart_by_what_the_text_says() {
    let run = |before: &str, count: u32| {
        format!(
            "{before}\nYou have chosen to measure elapsed time instead of user CPU time.\n\
             Doing aes-128-cbc for 3s on 16 size blocks: {count} aes-128-cbc's in 3.00s\n"
        )
    };
    let text = [
        run("# openssl speed -evp aes-128-cbc -elapsed", 3_000_000),
        run("engine \"devcrypto\" set.", 30_000),
        run(
            "# OPENSSL_ia32cap='~0x2' openssl speed -evp aes-128-cbc -elapsed",
            1_000_000,
        ),
        run(
            "$ openssl speed -provider qat -decrypt -evp aes-128-cbc",
            10_000,
        ),
        run("$ openssl speed -evp aes-128-cbc -elapsed", 1_500_000),
    ];
    insta::assert_snapshot!(shown(&text.concat()), @r"
    aes-128-cbc [Elapsed] 16: 1.0000 2.0000
    aes-128-cbc, engine devcrypto [Elapsed] 16: 100.0000
    aes-128-cbc, OPENSSL_ia32cap ~0x2 [Elapsed] 16: 3.0000
    aes-128-cbc, provider qat, decryption [Elapsed] 16: 300.0000
    aes-128-cbc: taken as 2 runs of the same implementation, since their commands are the same. If they differ, give each its file.
    ");
    let failed = run("Invalid engine \"devcrypto\"", 3_000_000);
    insta::assert_snapshot!(shown(&failed), @r"
    aes-128-cbc, without engine devcrypto [Elapsed] 16: 1.0000
    the engine devcrypto was not loaded, and openssl measured without it. OpenSSL 4 has no engines; before, see openssl engine -t devcrypto.
    ");
}

/// Rows of boards and cores, as people paste them.
#[test]
fn a_label_behind_the_numbers_is_no_number() {
    let text = "You have chosen to measure elapsed time instead of user CPU time.\n\
        type             16 bytes     64 bytes\n\
        aes-128-cbc     170000.00k   480000.00k (Cortex-A55)\n\
        aes-128-cbc     640000.00k  1160000.00k | Rock 5B\n";
    insta::assert_snapshot!(shown(text), @r"
    aes-128-cbc, Cortex-A55 [Elapsed] 16: 0.0941, 64: 0.1333
    aes-128-cbc, Rock 5B [Elapsed] 16: 0.0250, 64: 0.0552
    ");
}

/// An engine that fails at each call: the loop is counted, and nothing is encrypted.
#[test]
fn runs_of_failed_calls_have_no_result() {
    let run = |message: &str| {
        let of = |size: u32| {
            format!(
                "+DT:AES-128-CBC:3:{size}\n{message}+R:{}:AES-128-CBC:3.0\n",
                2_871_333 - size / 16
            )
        };
        Speed::parse(&[16, 64, 256, 1024].map(of).concat())
            .unwrap_err()
            .to_string()
    };
    assert!(run("ALG_PERR: cannot bind\n").contains("error within it"));
    assert!(run("40B7:error:12800067:DSO support routines::x\n").contains("error within it"));
    assert!(run("").contains("does not depend on the size"));
}

#[test]
fn an_engine_that_fails_at_each_call_has_no_result() {
    let elapsed = "You have chosen to measure elapsed time instead of user CPU time.\n";
    let of = |message: &str| {
        // As of a Geode: a failure takes 1.38 µs, whatever the size.
        let counts = [2_187_795, 2_145_693, 2_143_373, 2_152_109, 2_149_864];
        let sizes = [16, 64, 256, 1024, 8192].into_iter().zip(counts);
        let lines = sizes.map(|(size, count)| {
            let name = "aes-128-cbc";
            format!(
                "Doing {name} for 3s on {size} size blocks: {message}{count} {name}'s in 3.00s\n"
            )
        });
        let text: Vec<_> = lines.collect();
        Speed::parse(&format!("{elapsed}{}", text.concat()))
            .unwrap_err()
            .to_string()
    };
    let bind = "ALG_PERR: ../engines/e_afalg.c(388): Failed to bind socket : No such file\n";
    assert!(of(bind).contains("an error within it"), "{}", of(bind));
    assert!(of("").contains("does not depend on the size"), "{}", of(""));
}

#[test]
fn bold_numbers_are_numbers() {
    let text = "You have chosen to measure elapsed time instead of user CPU time.\n\
        Doing AES-128-CBC for **3s** on 16 size blocks: **512457** AES-128-CBC's in **3.00s**\n";
    assert!(shown(text).contains("16:"), "{}", shown(text));
}

#[test]
fn outputs_of_other_programs_are_named() {
    for (text, name) in [
        (
            "# Tests are approximate using memory only (no storage IO).\n\
             PBKDF2-sha1      1236528 iterations per second for 256-bit key\n",
            "cryptsetup benchmark",
        ),
        (
            "#     Algorithm |       Key |      Encryption |      Decryption\n\
             aes-xts        256b      2017.5 MiB/s      2010.6 MiB/s\n",
            "cryptsetup benchmark",
        ),
        (
            "Testing AES-128-CBC cipher:\n\tEncrypting in chunks of 512 bytes: done. 110.86 MB in \
             5.00 secs: 22.17 MB/sec\n",
            "cryptodev-linux",
        ),
        (
            "tcrypt: test 0 (128 bit key, 16 byte blocks): 4861246 operations in 1 seconds \
             (77779936 bytes)\n",
            "tcrypt",
        ),
        (
            "tcrypt:\ntesting speed of async cbc(aes) (cbc-aes-board) encryption\n",
            "tcrypt",
        ),
        (
            "[  2.5] testing speed of async sha256 (sha256-board)\n",
            "tcrypt",
        ),
        (
            "tcrypt: test  2 (128 bit key,  256 byte blocks): 2100000 ops/s (537600000 bytes)\n",
            "tcrypt",
        ),
        (
            "tcrypt: test 0 (128 bit key, 16 byte blocks): 1 operation in 7900 cycles (16 bytes)\n",
            "tcrypt",
        ),
        (
            "sbc-bench v0.9.8 Example Board\ntype 16 bytes 64 bytes\naes-128-cbc 1.00k 2.00k\n\
             aes-128-cbc 3.00k 4.00k\n",
            "sbc-bench",
        ),
    ] {
        let error = Speed::parse(text).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    // A sentence.
    let text = "I am testing speed of AES (256 bit) here:\ntype 16 bytes\nsha1 1.00k\n";
    assert_eq!(parse(text).measured.len(), 1);
}

#[test]
fn what_has_no_result_says_why() {
    let error = |text: &str| Speed::parse(text).unwrap_err().to_string();
    assert!(error("").contains("\"+R:…\""));
    assert!(error("rsa 2048 bits 0.000512s\n").contains("no result of openssl speed"));
    let keys = "Doing 2048 bits private rsa's for 10s: 99 2048 bits private RSA's in 9.99s\n";
    assert!(error(keys).contains("public keys"));
    let option = "speed: Unknown option: -engine\nspeed: Use -help for summary.\n";
    assert_eq!(
        error(option),
        "it has no result, but an error of openssl: speed: Unknown option: -engine"
    );
    assert_eq!(
        Speed::parse(&" ".repeat(LARGEST + 1)),
        Err(SpeedError::TooLarge)
    );
    // Sizes without a count or a time are named, and others kept.
    let text = "You have chosen to measure elapsed time instead of user CPU time.\n\
        Doing sha1 for 3s on 16 size blocks: 0 sha1's in 3.00s\n\
        Doing sha1 for 3s on 64 size blocks: 5 sha1's in 0.00s\n\
        Doing sha1 for 3s on 256 size blocks: 3000000 sha1's in 3.00s\n";
    insta::assert_snapshot!(shown(text), @r"
    sha1 [Elapsed] 256: 1.0000
    sha1: 16 bytes are left out, which have no count or no time.
    sha1: 64 bytes are left out, which have no count or no time.
    ");
}

#[test]
fn ten_megabytes_of_garbage_are_survived() {
    let lines = [
        "+DT:AES-128-CBC:1:16\n",
        "+R:99999999999999999999:AES-128-CBC:1.0\n",
        "+R:18446744073709551615:AES-128-CBC:0.000000\n",
        "Doing \u{0} for -3s on 16 size blocks: 1 x's in NaNs\n",
        "type   16 bytes 16 bytes\nx 1.00k 1.00k\n",
        "Forked child 1\n+F:0:n:1:2:3\n+H:16:16\n",
        "\u{1b}[2JDoing a for 3s on 16 size blocks: 7 a's in 3.00s\r",
    ];
    let garbage = lines.concat();
    let _ = Speed::parse(&garbage.repeat((10 << 20) / garbage.len()));
    let many: String = (1..200_000)
        .map(|size| {
            format!(
                "+DT:n{}:3:{size}\n+R:{}:n:1.0\n",
                size % 3000,
                200_000 - size
            )
        })
        .collect();
    let speed = parse(&many);
    assert!(speed.measured.len() <= 500, "{}", speed.measured.len());
}

proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        let _ = Speed::parse(&text);
    }

    #[test]
    fn times_are_above_zero(lines in proptest::collection::vec(
        prop_oneof![
            "\\+DT:[ab]:[0-9]{1,2}:(16|64|0)",
            "\\+R:[0-9]{1,20}:[ab]:[0-9]{1,3}\\.[0-9]{0,6}",
            "\\+H(:(16|64|256)){0,3}",
            "\\+F:1:[ab](:[0-9.]{1,9}){0,4}",
            "Doing [ab]( ops)? for [0-9]s on (16|64) size blocks: [0-9]{0,9} [ab]('s| ops) in [0-9]\\.[0-9]{2}s",
            "type {1,9}(16 bytes)?( {1,3}64 bytes)?",
            "[ab] {1,5}[0-9]{1,6}\\.[0-9]{2}k?( {1,5}[0-9]{1,6}\\.[0-9]{2}k?)?",
            "You have chosen to measure elapsed time instead of user CPU time\\.",
            "Forked child [0-9]",
            "[Ee]ngine \"[ab]\" set\\.",
            "\\$ openssl speed -engine [ab]",
        ],
        0..30,
    )) {
        let Ok(speed) = Speed::parse(&lines.join("\n")) else {
            return Ok(());
        };
        for one in &speed.measured {
            prop_assert!(!one.curve.points.is_empty());
            prop_assert!(one.curve.points.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
            for point in &one.curve.points {
                prop_assert!(!point.seconds.is_empty());
                prop_assert!(point.seconds.iter().all(|time| time.is_finite() && *time > 0.0));
            }
        }
        let mut names: Vec<_> = speed.measured.iter().map(|one| &one.curve.name).collect();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), speed.measured.len());
    }
}
