//! Choices for the next boot alone, and services that are not enabled.

use super::faults::{ENDED, kill_at, kills_its_caller};
use super::kept::Kept;
use super::{ended_in_the_firmware, last_restart};
use brisk_testkit::Computer;

/// Adds entries to GRUB's menu that start the running kernel and do not come up: one panics, and the
/// initial RAM disk of the other does nothing, for ever.
const BAD: &str = "\
    mkdir -p /tmp/i/bin && cd /tmp/i && cp /bin/busybox bin/
    printf '#!/bin/busybox sh\\nwhile :; do busybox sleep 1000; done\\n' >init
    chmod 755 init && find . | busybox cpio -o -H newc >/boot/loops.img
    root=$(findmnt -n -o SOURCE /)
    cat >>/etc/grub.d/40_custom <<END
menuentry panics {
    linux /boot/vmlinuz-$(uname -r) root=$root console=ttyS0 init=/bin/false
    initrd /boot/initrd.img-$(uname -r)
}
menuentry hangs {
    linux /boot/vmlinuz-$(uname -r) root=UUID=$(findmnt -n -o UUID /) console=ttyS0 quiet
    initrd /boot/loops.img
}
END
    update-grub && sync";

/// In place of systemctl: notes which watchdog systemd is to arm when it is asked to restart the machine.
const TELLS_THE_LIMIT: &str = "\
    cat >/usr/local/sbin/systemctl <<'END'
#!/bin/sh
case \"$*\" in *kexec) /usr/bin/systemctl show --property=KExecWatchdogUSec --value >/root/limit; sync ;; esac
exec /usr/bin/systemctl \"$@\"
END
    chmod 755 /usr/local/sbin/systemctl";

/// The choice that GRUB's environment block has; empty if it has none.
#[track_caller]
fn choice(machine: &mut Computer) -> String {
    machine
        .ok("grub-editenv /boot/grub/grubenv list | sed -n s/^next_entry=//p")
        .trim()
        .to_owned()
}

/// An entry that GRUB is to start once does not come up: the machine comes back in its default, without
/// anybody at its keyboard.
pub(super) fn comes_back_in_the_default() {
    let mut machine = Kept::booted().go_on("once");
    machine.ok(BAD);
    let default = machine.ok("uname -r");
    for (number, (entry, options)) in [("panics", ""), ("hangs", "--watchdog 40s")]
        .into_iter()
        .enumerate()
    {
        machine.ok(&format!("grub-reboot {entry}"));
        let check = machine.run("brisk reboot check --no-trial-load");
        assert_eq!(check.status, 0, "{}", check.output);
        assert!(
            check.output.contains("[one-shot-choice]"),
            "{}",
            check.output
        );
        machine.begin(&format!("brisk reboot {options}"));
        machine.booted();
        // A second failure of the entry would not have come to an end.
        assert_eq!(machine.firmware_runs(), number + 1, "{entry}");
        ended_in_the_firmware(&mut machine);
        assert_eq!(machine.ok("uname -r"), default);
        assert_eq!(choice(&mut machine), "");
        super::kept::has_watchdog(&mut machine);
    }
}

/// A choice outlives restarts that do not come about, and a block that cannot be written makes one cold.
pub(super) fn is_restored_or_left_to_grub() {
    let mut machine = Kept::booted().go_on("restored");
    let wanted = machine.ok("ls /boot/vmlinuz-*-cloud-amd64 | sed s,.*vmlinuz-,,");
    // Not the default, and not for repairs.
    let title = format!("GNU/Linux, with Linux {}", wanted.trim());
    machine.ok(&format!("test -x /usr/bin/chattr && grub-reboot '{title}'"));
    let is_undone = |machine: &mut Computer, command: &str| {
        let asked = machine.run(command);
        assert_eq!(asked.status, 125, "{command}: {}", asked.output);
        machine.ok(ENDED);
        assert_eq!(choice(machine), title, "{command}: {}", asked.output);
    };
    is_undone(&mut machine, &kill_at("consume the one-shot", ""));
    machine.ok(&kills_its_caller(true));
    is_undone(&mut machine, "brisk reboot");
    machine.ok("rm /usr/local/sbin/systemctl");
    machine.ok("chattr +i /boot/grub/grubenv");
    let check = machine.run("brisk reboot check --no-trial-load");
    assert_eq!(check.status, 10, "{}", check.output);
    assert!(
        check.output.contains("cannot be written"),
        "{}",
        check.output
    );
    let only = machine.run("brisk reboot --warm-only");
    assert_eq!(only.status, 10, "{}", only.output);
    machine.ok("chattr -i /boot/grub/grubenv");
    machine.begin("brisk reboot");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    assert_eq!(machine.ok("uname -r"), wanted);
    assert_eq!(choice(&mut machine), "");
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
}

/// Without the services that stop it, the watchdog is not armed, and the machine stays up.
pub(super) fn nothing_would_stop_the_watchdog() {
    let mut machine = Kept::booted().go_on("unattended");
    let check = machine.ok("brisk reboot check --no-trial-load --same");
    assert!(!check.contains("[watchdog-not-armed]"), "{check}");
    machine.ok("systemctl disable brisk-reboot.service brisk-reboot-early.service");
    let check = machine.ok("brisk reboot check --no-trial-load --same");
    assert!(check.contains("[watchdog-not-armed]"), "{check}");
    machine.ok(TELLS_THE_LIMIT);
    machine.begin("brisk reboot --same --watchdog 40s");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 0);
    let limit = machine.ok("cat /root/limit");
    assert!(matches!(limit.trim(), "0" | "infinity"), "{limit}");
}
