//! Restart after restart, and kernels that hang early.

use std::collections::BTreeSet;

use brisk_testkit::{Computer, times};
use serde_json::Value;

use super::ended_in_the_firmware;
use super::kept::Kept;

pub(super) fn restarts() {
    let mut machine = Kept::booted().go_on("repeated");
    let mut places = BTreeSet::from([place(&mut machine)]);
    let mut boots = BTreeSet::from([boot(&mut machine)]);
    let wanted = times(20, 20);
    for number in 1..=wanted {
        machine.begin("brisk reboot --same");
        machine.booted();
        assert!(boots.insert(boot(&mut machine)), "{number}");
        let loader = machine.ok("echo $(($(cat /proc/sys/kernel/bootloader_type) >> 4))");
        assert_eq!(loader, "13\n", "{number}");
        places.insert(place(&mut machine));
    }
    assert_eq!(machine.firmware_runs(), 0);
    // The address is random.
    assert!(places.len() > wanted / 2, "{places:?}");
    let text = machine.ok("brisk reboot report --format json");
    let report: Value = serde_json::from_str(&text).unwrap();
    let restarts = report["restarts"].as_array().unwrap();
    assert_eq!(restarts.len(), wanted, "{report:#}");
    for restart in restarts {
        assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
        assert_eq!(restart["lost"], serde_json::json!([]), "{restart:#}");
    }
}

/// Identity of the boot.
pub(super) fn boot(machine: &mut Computer) -> String {
    machine.ok("cat /proc/sys/kernel/random/boot_id")
}

/// Address of the kernel.
pub(super) fn place(machine: &mut Computer) -> String {
    machine.ok("grep -m 1 ' _text$' /proc/kallsyms")
}

pub(super) fn hangs_early() {
    let mut machine = Kept::booted().go_on("early");
    // The kernel pauses for ten seconds behind each of its messages, from the first one on.
    let bad = "--same --cmdline 'root=/dev/vda1 ro console=ttyS0 boot_delay=10000'";
    machine.begin(&format!("brisk reboot {bad} --watchdog 40s"));
    machine.booted();
    assert_eq!(machine.firmware_runs(), 1);
    ended_in_the_firmware(&mut machine);
    let only = machine.run(&format!("brisk reboot --warm-only {bad}"));
    assert_eq!(only.status, 10, "{}", only.output);
}
