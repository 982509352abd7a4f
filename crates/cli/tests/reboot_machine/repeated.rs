//! Restart after restart, and kernels that hang early.

use std::collections::BTreeSet;

use brisk_testkit::{Computer, times};
use serde_json::Value;

use super::ended_in_the_firmware;
use super::faults::{ENDED, begun_at};
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

/// A kernel that lacks kexec_file_load(2): the older call loads the other one, if there is kexec.
pub(super) fn older_call() {
    let mut machine = Kept::booted().go_on("older");
    let first = boot(&mut machine);
    let lacks = "SystemCallFilter=~kexec_file_load\\nSystemCallErrorNumber=ENOSYS";
    machine.ok(&format!(
        "d=/etc/systemd/system/brisk-reboot-run.service.d && mkdir $d && \
         printf '[Service]\\n{lacks}\\n' >$d/lacks.conf && systemctl daemon-reload"
    ));
    let there = "systemd-run --quiet --pipe --wait -E HOME=/root -p SystemCallFilter='~kexec_file_load' \
                 -p SystemCallErrorNumber=ENOSYS brisk reboot";
    machine.ok("mv /usr/sbin/kexec /usr/sbin/kexec.away");
    let refused = machine.run(&format!("{there} --same"));
    let names = |text| refused.output.contains(text);
    assert!(
        refused.status == 11 && names("ENOSYS") && names("install kexec-tools"),
        "{}",
        refused.output
    );
    machine.ok("mv /usr/sbin/kexec.away /usr/sbin/kexec");
    // The trial load is undone by the older call, too.
    let check = machine.run(&format!("{there} check --same"));
    let passed = check
        .output
        .contains("loads them by the older one, kexec_load");
    assert!(check.status == 0 && passed, "{}", check.output);
    assert_eq!(machine.ok("cat /sys/kernel/kexec_loaded"), "0\n");
    // So does the unit, and it says so; what is undone is unloaded.
    let asked = machine.run(&begun_at("loaded by kexec_load", "--same", "kill -INT $!"));
    assert_eq!(asked.status, 130, "{}", asked.output);
    machine.ok(ENDED);
    assert_eq!(machine.ok("cat /sys/kernel/kexec_loaded"), "0\n");
    machine.begin(&format!("{there} --same"));
    machine.booted();
    assert_ne!(boot(&mut machine), first);
    assert_eq!(machine.firmware_runs(), 0);
    assert_eq!(
        super::last_restart(&mut machine)["record"]["result"],
        "warm"
    );
}

/// Services as those of Debian 12's kexec-tools: one loads a kernel when the machine is to restart, the
/// other one jumps into whatever is loaded, both as soon as they are stopped.
const KEXEC_TOOLS: &str = "\
    service() {
        cat >/etc/init.d/$1 <<END
#!/bin/sh
### BEGIN INIT INFO
# Provides: $1
# Required-Start: $3
# Required-Stop: $3
# Default-Start: 2 3 4 5
# Default-Stop: 6
# Short-Description: $1
### END INIT INFO
[ \\$1 != stop ] || $2
exit 0
END
        chmod 755 /etc/init.d/$1 && update-rc.d $1 defaults
    }
    kernel=/boot/vmlinuz-$(uname -r)
    service kexec-load \"! systemctl list-jobs reboot.target | grep -q reboot.target ||
        kexec -l $kernel --initrd=$(echo $kernel | sed s/vmlinuz/initrd.img/) --reuse-cmdline\" '$local_fs kexec'
    service kexec 'grep -qx 0 /sys/kernel/kexec_loaded || kexec -e' '$local_fs'
    echo LOAD_KEXEC=true >/etc/default/kexec
    systemctl daemon-reload && systemctl start kexec-load kexec && sync";

/// Such services do nothing in a restart of brisk's, and are as before if it is undone.
pub(super) fn kexec_tools() {
    let mut machine = Kept::booted().go_on("services");
    machine.ok(KEXEC_TOOLS);
    let act = |machine: &mut Computer| {
        let active = machine.ok("systemctl is-active kexec-load kexec");
        assert_eq!(active, "active\nactive\n");
        let does = machine.ok("systemctl show --property=ExecStop kexec kexec-load");
        assert_eq!(does.matches("/etc/init.d/kexec").count(), 4, "{does}");
    };
    act(&mut machine);
    // By themselves they make a kexec of every restart.
    machine.begin("systemctl reboot");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    act(&mut machine);
    let asked = machine.run(&begun_at("load the kernel", "--same", "kill -INT $!"));
    assert_eq!(asked.status, 130, "{}", asked.output);
    machine.ok(ENDED);
    act(&mut machine);
    machine.begin("brisk reboot --same");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    let restart = super::last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm");
    // All services had stopped before the jump.
    assert!(restart["phases"]["shutdown"].is_number(), "{restart:#}");
    act(&mut machine);
    machine.begin("brisk reboot --cold");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 1);
    assert_eq!(
        super::last_restart(&mut machine)["record"]["result"],
        "cold"
    );
}

/// VMs go down with the host also while others are still being started, and a restart waits for those.
pub(super) fn goes_down_early() {
    let mut machine = Kept::booted().go_on("early-down");
    machine.ok("systemctl stop brisk-vms && mv /usr/bin/brisk /usr/bin/brisk.real");
    // In its place: notes what it is asked for, and does not come to the end of starting.
    machine.ok("\
        cat >/usr/bin/brisk <<'END'
#!/bin/sh
echo \"$*\" >>/run/words
[ \"$*\" != 'vm autostart' ] || exec sleep infinity
exec /usr/bin/brisk.real \"$@\"
END
        chmod 755 /usr/bin/brisk && systemctl start --no-block brisk-vms
        until grep -q autostart /run/words; do :; done");
    let asked = machine.run("timeout --signal=INT --preserve-status 60 brisk.real reboot --same");
    let is_told = asked.output.contains("interrupted; nothing was changed");
    assert!(asked.status == 130 && is_told, "{}", asked.output);
    assert_eq!(machine.ok("cat /sys/kernel/kexec_loaded"), "0\n");
    machine.ok("systemctl stop brisk-vms");
    assert_eq!(machine.ok("cat /run/words"), "vm autostart\nvm autostop\n");
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
