//! Restarts that are refused, interrupted or killed while VMs are suspended: the VMs run on.

use brisk_testkit::{AREA, Computer};

use super::faults::{ENDED, begun_at, kill_at};
use super::{is_well, last_restart, memory};

/// Prints traces of a restart: a pending record, the unit, a loaded kernel.
const LEFT: &str = "ls -A /var/lib/brisk/reboot | grep pending
    systemctl is-active brisk-reboot-run
    cat /sys/kernel/kexec/loaded 2>/dev/null || cat /sys/kernel/kexec_loaded";

/// Asserts that nothing is left of a restart, that the VM runs on, and that its memory is in the area
/// once. The result is how many rounds it has made.
fn is_undone(machine: &mut Computer, boot: &str, before: u64) -> u64 {
    machine.ok(ENDED);
    assert_eq!(machine.run(LEFT).output, "inactive\n0\n");
    let now = is_well(machine, "one", boot);
    assert!(now >= before);
    assert_eq!(machine.ok(&format!("ls {AREA} | grep -c ram")), "1\n");
    now
}

pub(super) fn go_on() {
    let (mut machine, boot) = memory::machine("interrupted");
    let mut rounds = is_well(&mut machine, "one", boot);
    // Nothing would resume it.
    machine.ok("systemctl disable -q brisk-vms");
    let refused = machine.run("brisk reboot --same");
    assert_eq!(refused.status, 125, "{}", refused.output);
    let is_named = refused.output.contains("brisk-vms.service is not enabled");
    assert!(is_named, "{}", refused.output);
    machine.ok("systemctl enable -q brisk-vms");
    rounds = is_undone(&mut machine, boot, rounds);
    for options in ["--keep-vms", "--keep-vms=alone", ""] {
        let options = format!("--same {options}");
        let asked = machine.run(&begun_at("suspend VMs", &options, "kill -INT $!"));
        assert_eq!(asked.status, 130, "{options}: {}", asked.output);
        rounds = is_undone(&mut machine, boot, rounds);
        let asked = machine.run(&kill_at("suspend VMs", &options));
        assert_eq!(asked.status, 125, "{options}: {}", asked.output);
        rounds = is_undone(&mut machine, boot, rounds);
    }
    // Without D-Bus systemctl(1) and systemd-run(1) reach systemd by themselves.
    machine.ok("systemctl stop dbus.socket dbus.service");
    machine.begin("brisk reboot --same --keep-vms=alone");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    assert!(is_well(&mut machine, "one", boot) >= rounds);
    assert_eq!(last_restart(&mut machine)["record"]["result"], "warm");
}
