//! Suspend to memory, and a kernel that boots another one by kexec.

use brisk_testkit::{NumaConsole, NumaMachine};

use crate::copies::{check_divergence, check_equal};
use crate::machine::{kernel, machine, no_complaints, run};

/// The clock wakes the machine. Its first processor resumes on the page tables that it had. QEMU does
/// not switch itself off after that, with or without replication, but ends when the machine restarts.
const SUSPENDED: &str = "\
    section homes; cat ktext_repl/cpus\n\
    section sleep\n\
    for round in 1 2 3; do\n\
    echo 0 >/sys/class/rtc/rtc0/wakealarm; echo +2 >/sys/class/rtc/rtc0/wakealarm\n\
    echo mem >/sys/power/state || echo failed\n\
    echo function >tracing/current_tracer; echo nop >tracing/current_tracer\n\
    insmod /modules/lkdtm.ko; rmmod lkdtm\n\
    done\n\
    section woken; dmesg | grep -c 'Waking up from system sleep state S3'\n\
    section storm; storm 3 >/dev/null; echo $?\n\
    section divergence; cat ktext_repl/divergence; section verify; cat ktext_repl/verify\n\
    section cpus; cat ktext_repl/cpus\n\
    section complaints; complaints; section end\n\
    reboot -f";

/// On the machine with its nodes turned round, the first processor has a copy.
#[track_caller]
fn check_first(console: &NumaConsole, section: &str, is_reversed: bool) {
    let rows = console.rows(section, ["cpu", "slot"]);
    let slot = if is_reversed { "1" } else { "0" };
    assert_eq!(rows[0], ["0", slot], "{rows:?}");
}

pub(super) fn suspends() {
    let kernel = kernel();
    for is_reversed in [false, true] {
        let machine = NumaMachine {
            append: "nokaslr",
            is_reversed,
            ..machine(&kernel, 2)
        };
        let console = run(&machine, SUSPENDED).unwrap();
        check_first(&console, "homes", is_reversed);
        let slept = console.section("sleep");
        assert!(!slept.contains("failed"), "{slept}");
        assert_eq!(console.section("woken").trim(), "3");
        assert_eq!(console.section("storm").trim(), "0");
        check_divergence(&console, "divergence", 2, true).unwrap();
        check_equal(&console, "verify").unwrap();
        for [cpu, verdict] in console.rows("cpus", ["cpu", "verdict"]) {
            assert_eq!(verdict, "own", "processor {cpu}");
        }
    }
}

/// The second kernel has a word more on its command line.
const AGAIN: &str = "\
    boot=first; if grep -q second /proc/cmdline; then boot=second; fi\n\
    section $boot-homes; cat ktext_repl/cpus\n\
    section $boot-divergence; cat ktext_repl/divergence\n\
    section $boot-verify; cat ktext_repl/verify\n\
    section $boot-storm; storm 2 >/dev/null; echo $?\n\
    if [ $boot = first ]; then\n\
    section first-complaints; complaints; section again\n\
    (cd /; find . -xdev | cpio -o -H newc) >/dev/initramfs 2>/dev/null\n\
    again /bzImage /dev/initramfs \"$(cat /proc/cmdline) second\"\n\
    fi";

pub(super) fn boots_another() {
    let kernel = kernel();
    for is_reversed in [false, true] {
        let machine = NumaMachine {
            append: "nokaslr",
            is_reversed,
            files: &[kernel.file("bzImage")],
            ..machine(&kernel, 2)
        };
        let console = run(&machine, AGAIN).unwrap();
        no_complaints(&console, "first-complaints").unwrap();
        // Where the second kernel lies is not known.
        check_first(&console, "first-homes", is_reversed);
        for boot in ["first", "second"] {
            let section = |what| format!("{boot}-{what}");
            check_divergence(&console, &section("divergence"), 2, true).unwrap();
            check_equal(&console, &section("verify")).unwrap();
            assert_eq!(console.section(&section("storm")).trim(), "0", "{boot}");
        }
    }
}
