//! Memory of VMs that stays in RAM while the machine restarts.

use std::collections::BTreeSet;

use brisk_testkit::{AREA, Computer, make_area, times};

use super::kept::Kept;
use super::repeated::place;
use super::{is_well, last_restart, start};

/// Place of the area in the RAM, and another one.
const PLACES: [&str; 2] = ["384M!1G", "384M!1408M"];

/// Gives a machine an area, as the book makes it, and a VM whose memory is in it. The result is the VM's
/// boot_id.
pub(super) fn set_up(machine: &mut Computer) -> String {
    make_area(machine, PLACES[0]);
    machine.ok(
        "brisk vm create one --memory 128M --root none --autoshutdown suspend --keep-memory \
         --kernel $(ls /boot/vmlinuz-*-cloud-amd64)",
    );
    start(machine, "one")
}

/// A machine with such a VM, which runs. Its firmware has not run.
pub(super) fn machine(name: &str) -> (Computer, &'static str) {
    let (kept, boot) = Kept::with_vm();
    (kept.go_on(name), boot)
}

/// Restarts warm, and asserts that the VM goes on with its memory. The result is how many rounds it
/// has made, which were so many before.
fn restart(machine: &mut Computer, how: &str, boot: &str, rounds: u64) -> u64 {
    machine.begin(&format!("brisk reboot --keep-vms={how}"));
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    let now = is_well(machine, "one", boot);
    assert!(now >= rounds, "{how}");
    assert_eq!(machine.ok(&format!("ls {AREA} | grep -c ram")), "1\n");
    let log = machine.ok("brisk vm log one");
    assert!(!log.contains("is not used"), "{log}");
    assert_eq!(last_restart(machine)["record"]["result"], "warm");
    now
}

/// Resumes the VM, and asserts that it goes on, with the memory of its image for this reason.
fn goes_on_without(machine: &mut Computer, boot: &str, reason: &str) {
    machine.ok("brisk vm resume one");
    is_well(machine, "one", boot);
    let log = machine.ok("brisk vm log one");
    assert!(log.contains(reason), "{log}");
}

/// Asserts that the VM, whose memory was kept alone, cannot be resumed for this reason.
fn is_lost(machine: &mut Computer, reason: &str) {
    let lost = machine.run("brisk vm resume one");
    assert!(
        lost.status != 0 && lost.output.contains(reason),
        "{}",
        lost.output
    );
}

/// Restarts warm with another command line, made from this one's by sed(1).
fn warm(machine: &mut Computer, edit: &str) {
    machine.begin(&format!(
        "brisk reboot --same --warm-only --cmdline \"$(sed '{edit}' /proc/cmdline)\""
    ));
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
}

pub(super) fn stays() {
    let (mut machine, boot) = machine("memory");
    let mut rounds = is_well(&mut machine, "one", boot);
    for how in ["alone", "with-image", "alone"] {
        rounds = restart(&mut machine, how, boot, rounds);
    }
    // One byte is not what it was.
    machine.ok("brisk vm suspend one --keep-memory");
    machine.ok(&format!(
        "f=$(ls {AREA}/vm-one-*) && printf \"\\\\$(printf %o $((1 ^ $(od -An -tu1 -j50000000 -N1 $f))))\" | \
         dd of=$f bs=1 seek=50000000 conv=notrunc"
    ));
    goes_on_without(&mut machine, boot, "it is not what it was");
    // The RAM has all of it after a reset, too, but nobody could rely on that.
    machine.ok("brisk vm suspend one --keep-memory && sync");
    machine.begin("echo b >/proc/sysrq-trigger");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 1);
    goes_on_without(&mut machine, boot, "has been through its firmware");
    // Its memory is in the area again, which is closed to others.
    assert_eq!(machine.ok(&format!("stat -c %a {AREA}")), "700\n");
    // A lazy resume says that, too.
    machine.ok(&format!(
        "brisk vm suspend one --keep-memory && umount {AREA}"
    ));
    machine.ok("brisk vm log one | wc -l >/run/lines");
    goes_on_without(&mut machine, boot, "is not in an area of RAM");
    let log = machine.ok("brisk vm log one | tail -n +$(($(cat /run/lines) + 1))");
    for (text, is) in [
        ("Its memory cannot be kept in RAM: ", true),
        ("The memory that was kept in RAM is not used, but", true),
        ("Lazy resume is not possible", false),
    ] {
        assert_eq!(log.contains(text), is, "{text}: {log}");
    }
    machine.ok(&format!(
        "brisk vm suspend one && mount {AREA} && brisk vm resume one"
    ));
    // Alone it is lost then, and never taken for what it was.
    machine.ok("brisk vm suspend one --keep-memory=alone && sync");
    machine.begin("echo b >/proc/sysrq-trigger");
    machine.booted();
    is_lost(&mut machine, "cannot use its memory");
    machine.ok("brisk vm discard one && test -z \"$(ls /var/lib/brisk/vm/one/*.brisk)\"");
}

/// The kernel is at another address after each.
pub(super) fn stays_over_many_restarts() {
    let (mut machine, boot) = machine("many");
    let mut places = BTreeSet::from([place(&mut machine)]);
    let mut rounds = is_well(&mut machine, "one", boot);
    // Its files stay mounted as long as it does.
    let mounts = machine.ok("systemctl show --property=RequiresMountsFor brisk-vm-one.scope");
    assert!(
        mounts.contains("/var/lib/brisk/vm/one/one.brisk"),
        "{mounts}"
    );
    let wanted = times(3, 20);
    for _ in 0..wanted {
        rounds = restart(&mut machine, "alone", boot, rounds);
        places.insert(place(&mut machine));
    }
    assert!(places.len() > wanted / 2, "{places:?}");
}

/// In place of systemctl: somebody else restarts the machine when it is asked for a kexec.
const ANOTHER_RESTART: &str = "\
    cat >/usr/local/sbin/systemctl <<'END'
#!/bin/sh
case \"$*\" in
*kexec) SYSTEMCTL_SKIP_AUTO_KEXEC=1 /usr/bin/systemctl reboot; exit 1 ;;
esac
exec /usr/bin/systemctl \"$@\"
END
    chmod 755 /usr/local/sbin/systemctl";

/// Somebody else restarts the machine when the memory is in RAM alone.
pub(super) fn is_written_for_another_restart() {
    let (mut machine, boot) = machine("another");
    let rounds = is_well(&mut machine, "one", boot);
    machine.ok(ANOTHER_RESTART);
    machine.begin("brisk reboot --same --keep-vms=alone");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 1);
    assert!(is_well(&mut machine, "one", boot) >= rounds);
    let log = machine.ok("brisk vm log one");
    let suspended = log.matches("VM suspending").count();
    assert!(
        suspended == 2 && !log.contains("cannot use its memory"),
        "{log}"
    );
    // As a resume leaves it that is killed, before an administrator's restart.
    let image = "/var/lib/brisk/vm/one/one.brisk";
    machine.ok(&format!(
        "brisk vm suspend one --keep-memory=alone && mv {image} {image}.resuming && sync"
    ));
    machine.begin("SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 2);
    assert!(is_well(&mut machine, "one", boot) >= rounds);
}

/// The area is somewhere else after a restart, with the same bytes in it, and then there is none.
pub(super) fn is_not_used_elsewhere() {
    let (mut machine, boot) = machine("elsewhere");
    machine.ok("brisk vm suspend one --keep-memory && sync");
    machine.ok(&format!("cp {AREA}/vm-one-* /root && sync"));
    let [here, elsewhere] = PLACES;
    warm(&mut machine, &format!("s/{here}/{elsewhere}/"));
    // That of the book makes none after a kexec.
    machine.ok(&format!(
        "mkfs.ext4 -q -F -b 4096 /dev/pmem0 && mount {AREA} && cp /root/vm-one-* {AREA}"
    ));
    goes_on_without(&mut machine, boot, "in another place of the RAM");
    // Its memory is in the area where that is now, and the next kernel has none.
    machine.ok("brisk vm suspend one --keep-memory=alone && sync");
    warm(&mut machine, "s/memmap=[^ ]*//");
    is_lost(&mut machine, "is not in an area of RAM");
    machine.ok("brisk vm discard one");
}
