//! Restarts whose process is killed, and whose machine loses its power.

use std::path::PathBuf;

use brisk_testkit::{Computer, STOPPED, STOPPING, UP};

use super::kept::Kept;
use super::{directory, last_restart};

/// What a restart changes until systemd was asked: the kernel that is loaded, what was written down,
/// the watchdog of the jump, and drivers of GPUs.
const STATE: &str = "\
    cat /sys/kernel/kexec/loaded 2>/dev/null || cat /sys/kernel/kexec_loaded
    ls -A /var/lib/brisk/reboot /run/systemd/system.conf.d 2>/dev/null | grep -e pending -e brisk
    systemctl show --property=KExecWatchdogUSec --value
    cat /sys/class/watchdog/watchdog0/state
    ls /dev/dri";

/// Waits until the unit of a restart has ended, and what undoes it, too.
pub(super) const ENDED: &str =
    "until [ \"$(systemctl is-active brisk-reboot-run)\" = inactive ]; do :; done";

/// Begins a restart, and does something as soon as it says that it does a step: by commands that are part
/// of the shell, which are quick.
pub(super) fn begun_at(step: &str, options: &str, then: &str) -> String {
    format!(
        "rm -f /run/brisk/reboot/progress.jsonl
         brisk reboot {options} &
         until [ \"$begun\" ]; do
             while read -r line; do
                 case $line in *'{step}'*) begun=1 ;; esac
             done </run/brisk/reboot/progress.jsonl
         done 2>/dev/null
         {then}
         wait %1"
    )
}

/// Kills the process of a restart as soon as it does a step.
pub(super) fn kill_at(step: &str, options: &str) -> String {
    let kill = "\
        read -r main </sys/fs/cgroup/system.slice/brisk-reboot-run.service/cgroup.procs
        kill -KILL $main";
    begun_at(step, options, kill)
}

/// In place of systemctl: kills its caller before, or after, it is asked to restart the machine.
pub(super) fn kills_its_caller(before: bool) -> String {
    let (before, after) = match before {
        true => ("kill -KILL $PPID; exit 1", ":"),
        false => (":", "kill -KILL $PPID"),
    };
    format!(
        "cat >/usr/local/sbin/systemctl <<'END'
#!/bin/sh
case \"$*\" in *kexec) {before} ;; esac
/usr/bin/systemctl \"$@\"
status=$?
case \"$*\" in *kexec) {after} ;; esac
exit $status
END
chmod 755 /usr/local/sbin/systemctl"
    )
}

/// Delays a shutdown until the unit of the restart has ended, and what undoes it has looked.
const DELAYS: &str = "\
    mkdir -p /run/systemd/logind.conf.d
    printf '[Login]\\nInhibitDelayMaxSec=10min\\n' >/run/systemd/logind.conf.d/long.conf
    systemctl restart systemd-logind
    systemd-run --quiet --collect systemd-inhibit --what=shutdown --mode=delay sh -c '
        until grep -q \"have systemd\" /run/brisk/reboot/progress.jsonl; do sleep 0.1; done
        until ! systemctl show --property=ActiveState brisk-reboot-run |
            grep -q -e =active -e =deactivating; do sleep 0.1; done'
    until systemd-inhibit --list --no-legend | grep -q shutdown; do :; done
    rm -f /run/brisk/reboot/progress.jsonl";

pub(super) fn killed() {
    let kept = Kept::booted();
    let mut machine = kept.go_on("killed");
    let before = machine.run(STATE).output;
    assert!(before.starts_with("0\n"), "{before}");
    let is_undone = |machine: &mut Computer, command: &str| {
        let asked = machine.run(command);
        assert_eq!(asked.status, 125, "{command}: {}", asked.output);
        let is_told = asked.output.contains("what it had done is undone");
        assert!(is_told, "{command}: {}", asked.output);
        machine.ok(ENDED);
        assert_eq!(machine.run(STATE).output, before, "{command}");
    };
    for step in [
        "load the kernel",
        "suspend VMs",
        "release GPUs",
        "arm the watchdog",
    ] {
        is_undone(&mut machine, &kill_at(step, "--same"));
    }
    machine.ok(&kills_its_caller(true));
    is_undone(&mut machine, "brisk reboot --same");
    // systemd was asked, and so it goes on, also if a program delays the shutdown until the unit has
    // ended.
    machine.ok(&kills_its_caller(false));
    machine.ok(DELAYS);
    machine.begin("brisk reboot --same");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
    // The watchdog that was armed over the jump is not any more.
    let watchdog = machine.ok("cat /sys/class/watchdog/watchdog0/state");
    assert_eq!(watchdog, "inactive\n");
}

/// A moment of a restart.
struct Moment {
    /// The machine's console says so.
    says: &'static str,
    /// What brisk reports after a power cut then, and the phase of it.
    result: (&'static str, &'static str),
}

/// All of them, in their order.
const MOMENTS: [Moment; 10] = {
    const fn moment(says: &'static str, result: (&'static str, &'static str)) -> Moment {
        Moment { says, result }
    }
    [
        moment("load the kernel", ("interrupted", "load")),
        moment("suspend VMs", ("interrupted", "vms")),
        moment("release GPUs", ("interrupted", "quiesce")),
        moment("arm the watchdog", ("interrupted", "arm")),
        moment("have systemd restart", ("cold-instead", "shutdown")),
        moment(STOPPING, ("cold-instead", "shutdown")),
        moment(STOPPED, ("cold-instead", "kernel")),
        moment("Linux version", ("cold-instead", "kernel")),
        moment("Run /init", ("cold-instead", "kernel")),
        moment(UP, ("cold-instead", "userspace")),
    ]
};

pub(super) fn power_cut() {
    let kept = Kept::booted();
    let copies = copies(kept);
    for (number, copy) in copies.iter().enumerate() {
        let moment = &MOMENTS[number];
        let says = moment.says;
        let mut machine = Kept::boot(copy);
        let restart = last_restart(&mut machine);
        let record = &restart["record"];
        let text = |name: &str| record[name].as_str().unwrap();
        let result = (text("result"), text("phase"));
        // It went on for a moment when it had said so.
        let next = MOMENTS.get(number + 1).map(|next| next.result);
        assert!(
            result == moment.result || Some(result) == next,
            "{says}: {restart:#}"
        );
        // What may have been the kernel's fault is.
        let is_barred = matches!(result.1, "kernel" | "userspace");
        let barred = machine.ok("brisk reboot allow");
        assert_eq!(barred.contains("6."), is_barred, "{says}: {barred}");
        let left = machine.run(STATE).output;
        assert!(
            left.starts_with("0\n") && !left.contains("pending"),
            "{says}: {left}"
        );
    }
}

/// Has the console say what the restart does; the shutdown waits until it has said the last of it.
const TELLS: &str = "\
    mkdir -p /run/systemd/logind.conf.d && mkdir -p -m 700 /run/brisk/reboot
    printf '[Login]\\nInhibitDelayMaxSec=10min\\n' >/run/systemd/logind.conf.d/long.conf
    systemctl restart systemd-logind
    { tail -n +1 -F /run/brisk/reboot/progress.jsonl 2>/dev/null | tee /dev/ttyS0 >/run/told & }
    systemd-run --quiet --collect systemd-inhibit --what=shutdown --mode=delay sh -c '
        until grep -q \"have systemd\" /run/told; do sleep 0.1; done'
    until systemd-inhibit --list --no-legend | grep -q shutdown; do :; done";

/// Disks as power cuts at the [`MOMENTS`] leave them.
fn copies(kept: &Kept) -> Vec<PathBuf> {
    let mut machine = kept.go_on("cut");
    machine.ok(TELLS);
    machine.begin(
        "brisk reboot --same --cmdline \"$(sed 's/ quiet//; s/BOOT_IMAGE=[^ ]* //' /proc/cmdline)\"",
    );
    let mut copies = Vec::new();
    for moment in &MOMENTS {
        machine.shows(moment.says);
        let copy = directory().join(format!("cut-{}.qcow2", copies.len()));
        machine.copy_disk(&copy);
        copies.push(copy);
    }
    // Without a power cut it comes to its end.
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
    copies
}
