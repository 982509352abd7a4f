//! brisk on the kernel of the series itself.

use std::path::Path;

use brisk_testkit::NumaMachine;
use serde_json::Value;

use crate::machine::{kernel, machine, run};

/// All commands for a machine that runs such a kernel.
const COMMANDS: &str = "\
    mkdir -p /tmp; cd /tmp\n\
    section info; brisk ktext info; echo status $?\n\
    insmod /modules/lkdtm.ko\n\
    section json; brisk ktext info --format json\n\
    section modules; brisk ktext info -m\n\
    section draw; brisk ktext draw\n\
    section verify; brisk ktext verify; echo status $?\n\
    section off; brisk ktext off 2>&1; echo status $?; cat /sys/kernel/debug/ktext_repl/active\n\
    section check; brisk ktext check\n\
    section bench; brisk ktext bench --rounds 3 --operations kill,open --output /tmp/hot.json; echo status $?\n\
    section switched; cat /sys/kernel/debug/ktext_repl/active\n\
    brisk ktext on; cat /sys/kernel/debug/ktext_repl/active\n\
    insmod /modules/ktext_cold.ko\n\
    section cold; brisk ktext bench --rounds 2 --operations open --no-load --output /tmp/cold.json 2>&1; echo status $?\n\
    section flushed; cat /sys/module/ktext_cold/parameters/pid\n\
    cut -d ' ' -f 1 /sys/module/ktext_cold/parameters/flushed\n\
    cat /sys/kernel/debug/ktext_repl/active\n\
    section killed; brisk ktext bench --rounds 100 --operations kill --no-load --output /tmp/killed.json & \n\
    pid=$!; until [ $(cat /sys/kernel/debug/ktext_repl/active) = 0 ] || ! kill -0 $pid; do :; done; kill -9 $pid\n\
    for i in $(seq 1000); do [ $(cat /sys/kernel/debug/ktext_repl/active) = 0 ] || break; done\n\
    cat /sys/kernel/debug/ktext_repl/active\n\
    section home; brisk ktext bench --cpu 0 --rounds 1 2>&1; echo status $?";

pub(super) fn shows_and_measures() {
    let kernel = kernel();
    let machine = NumaMachine {
        // The kernel is then on node 0.
        append: "nokaslr",
        programs: &[Path::new(env!("CARGO_BIN_EXE_brisk"))],
        ..machine(&kernel, 2)
    };
    let console = run(&machine, COMMANDS).unwrap();
    let has = |section: &str, words: &[&str]| {
        let text = console.section(section);
        for word in words {
            assert!(text.contains(word), "{section}: {word}:\n{text}");
        }
    };
    has("info", &["replication is on, 1 slot", "own", "status 0"]);
    let json: Value = serde_json::from_str(console.section("json")).unwrap();
    assert_eq!(json["schema"], "brisk.ktext.info/1");
    has("modules", &["lkdtm", "Node1"]);
    has("draw", &["node 1", "100.0 %"]);
    has("verify", &["Equal: ", "status 0"]);
    has("off", &["all CPUs run on the master", "status 0\n0\n"]);
    has("check", &["replication-off"]);
    has("bench", &["kill", "open", "status 0"]);
    // It was off before, and is so afterwards.
    has("switched", &["0\n", "1\n"]);
    has("cold", &["hot", "cold", "status 0"]);
    let flushed: Vec<u64> = console
        .section("flushed")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let [pid, flushes, active] = flushed[..] else {
        panic!("{flushed:?}");
    };
    assert_eq!((pid, active), (0, 1));
    assert!(flushes > 100, "{flushes}");
    // What did the operations outlives a brisk that is killed, and restores replication.
    has("killed", &["1\n"]);
    has(
        "home",
        &["CPU 0 has no copy", "one that has is 2", "status 125"],
    );
}
