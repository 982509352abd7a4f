//! The kernel's own tests of what modifies its text.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk_testkit::{NumaConsole, NumaKernel, NumaMachine};

use crate::copies::check_equal;
use crate::machine::{machine, run, variant};

/// A run takes ten minutes.
pub(super) const LIMIT: Duration = Duration::from_secs(3600);

/// `tools/testing/selftests/ftrace`, and KUnit's tests of kprobes, while replication is on. Those of
/// static keys and calls, of tracers and of events ran when the kernel booted.
const TESTS: &str = "\
    section boot; dmesg | grep -E 'Testing |selftest|self test|FAILED' || :\n\
    insmod /modules/test_static_key_base.ko && insmod /modules/test_static_keys.ko; status=$?\n\
    section keys; echo $status\n\
    insmod /modules/test_kprobes.ko\n\
    section kunit; cat kunit/kprobes_test/results\n\
    mkdir -p /tmp /selftests; tar -C /selftests -xf /selftests.tar; cd /selftests/ftrace\n\
    section ftrace; sh ./ftracetest 2>&1 | grep '^\\[[0-9]*\\]' || :\n\
    cd /sys/kernel/debug\n";

/// All copies are compared with the master.
const VERIFY: &str = "section verify; cat ktext_repl/verify";

/// Verdict of each of the tests of ftrace, by its description.
fn verdicts(console: &NumaConsole) -> BTreeMap<String, String> {
    let lines = console.section("ftrace").lines();
    let verdicts = lines.filter_map(|line| {
        let (number, rest) = line.split_once(']')?;
        let (description, verdict) = rest.trim_end().rsplit_once('[')?;
        let name = format!("{number}] {}", description.trim());
        Some((name, verdict.trim_end_matches(']').to_owned()))
    });
    verdicts.collect()
}

/// Verdict of each of KUnit's cases: `ok 1 test_kprobe`, or `not ok`.
fn cases(console: &NumaConsole) -> Vec<&str> {
    let lines = console.section("kunit").lines().map(str::trim);
    let is_verdict = |line: &&str| line.starts_with("ok ") || line.starts_with("not ok ");
    lines.filter(is_verdict).collect()
}

/// What the tests say on a kernel, with more of its command line and of the script.
fn tested(kernel: &NumaKernel, append: &str, more: &str) -> NumaConsole {
    let machine = NumaMachine {
        append,
        files: &[kernel.file("selftests.tar")],
        limit: LIMIT,
        ..machine(kernel, 2)
    };
    run(&machine, &format!("{TESTS}{more}")).unwrap()
}

const CONFIG: [&str; 2] = ["--config", "variants/selftests.config"];

/// The kernel of the series with its own tests.
pub(super) fn kernel_with_tests() -> NumaKernel {
    variant("ktext-selftests", &CONFIG)
}

pub(super) fn pass() {
    let unpatched = variant(
        "ktext-selftests-unpatched",
        &[&CONFIG[..], &["--unpatched"]].concat(),
    );
    let without = variant(
        "ktext-selftests-without",
        &[&CONFIG[..], &["--config", "variants/without.config"]].concat(),
    );
    let kernel = kernel_with_tests();
    let sides = [
        ("unpatched", tested(&unpatched, "", "")),
        ("not configured", tested(&without, "", "")),
        ("off", tested(&kernel, "ktext_repl=off", "")),
        ("on", tested(&kernel, "", VERIFY)),
    ];
    for (side, console) in &sides {
        let boot = console.section("boot");
        assert!(boot.contains("Testing tracer function"), "{side}: {boot}");
        assert!(!boot.contains("FAILED"), "{side}: {boot}");
        // The kernel writes what fails between the lines.
        let keys = console.section("keys").lines().next();
        assert_eq!(keys, Some("0"), "{side}");
        println!("{side}: {}", console.section("kunit"));
        let all = verdicts(console);
        let passed = all.values().filter(|verdict| *verdict == "PASS").count();
        println!("{side}: {passed} of {} of ftrace pass", all.len());
        assert!(passed > 50, "{side}: {all:#?}");
    }
    let [(_, unpatched), others @ ..] = &sides;
    let (wanted, wanted_cases) = (verdicts(unpatched), cases(unpatched));
    assert!(wanted_cases.len() > 4, "{wanted_cases:?}");
    for (test, verdict) in &wanted {
        if verdict != "PASS" {
            println!("{test}: {verdict}");
        }
    }
    for (side, console) in others {
        assert_eq!(cases(console), wanted_cases, "{side}");
        assert_eq!(verdicts(console), wanted, "{side}");
    }
    check_equal(&sides[3].1, "verify").unwrap();
}
