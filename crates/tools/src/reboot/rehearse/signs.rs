//! Lines of a console that say how a boot goes. Pure; lines are hostile.

use serde::Serialize;

/// Something that a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sign<'a> {
    /// A process executes a program (trace event `sched_process_exec`).
    Exec {
        /// Its path.
        path: &'a str,
        /// Number of the process.
        pid: u32,
    },
    /// The kernel has panicked.
    Panic,
    /// The kernel cannot be decompressed.
    Corrupt,
    /// A shell for repairs asks for commands.
    Shell,
    /// Somebody has to type a passphrase.
    Passphrase,
    /// The kernel has got to where it starts a program without an initial RAM disk.
    KernelRuns(&'a str),
    /// systemd goes to the root, or another init of it says so.
    RootInit,
    /// systemd has started all.
    Finished,
    /// systemd has started a unit, which is in the rest of the line.
    Started(&'a str),
    /// What may be the reason of a failure.
    Cause(Cause),
}

/// Reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The initial RAM disk cannot be unpacked.
    Initramfs,
    /// The device of the root is not there.
    RootMissing,
    /// The kernel has no driver for the file system.
    FileSystem,
    /// A file system is damaged.
    Damaged,
    /// There is no such init.
    Init,
    /// Modules are of another kernel.
    Modules,
    /// There was too little memory.
    Memory,
    /// A disk could not be read, or the layer in memory is full.
    Disk,
    /// A unit failed.
    Unit,
}

impl Cause {
    /// What to do.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Initramfs => {
                "make the initial RAM disk again (update-initramfs -u -k VERSION, dracut --force, \
                 mkinitcpio -P) and check that there is room for it in /boot"
            }
            Self::RootMissing => {
                "compare root= with blkid; if it is right, the initial RAM disk lacks the driver of \
                 the disk: add it and make the initial RAM disk again"
            }
            Self::FileSystem => {
                "the initial RAM disk or the kernel lacks the file system of the root: add it and \
                 make the initial RAM disk again"
            }
            Self::Damaged => {
                "rehearse again, for the disk is written to meanwhile; if it fails again, check the \
                 file system"
            }
            Self::Init => {
                "correct init= on the command line, or remove it; if there is none, see whether root= is \
                 the right file system"
            }
            Self::Modules => {
                "the modules are of another kernel than this: install the two of one package, and \
                 make the initial RAM disk again"
            }
            Self::Memory => "give the rehearsal more with --memory",
            Self::Disk => {
                "rehearse again with an earlier goal, which writes less; if it fails again, look at \
                 the disk"
            }
            Self::Unit => "see the unit on this machine: systemctl status UNIT, journalctl -u UNIT",
        }
    }
}

/// Parts of lines, and what they may be the reason of: of the kernel, of initramfs-tools, dracut,
/// mkinitcpio, busybox, util-linux, and systemd.
const CAUSES: &[(&str, Cause)] = &[
    ("Initramfs unpacking failed", Cause::Initramfs),
    ("rootfs image is not initramfs", Cause::Initramfs),
    ("Failed to execute /init", Cause::Initramfs),
    ("does not exist.  Dropping to a shell", Cause::RootMissing),
    ("ALERT!  ", Cause::RootMissing),
    ("Cannot open root device", Cause::RootMissing),
    ("ERROR: device '", Cause::RootMissing),
    ("Unable to find root device", Cause::RootMissing),
    ("Timed out waiting for device", Cause::RootMissing),
    (
        "timeout, still waiting for following initqueue hooks",
        Cause::RootMissing,
    ),
    ("Waiting for root device", Cause::RootMissing),
    ("No root device specified", Cause::RootMissing),
    ("unknown filesystem type", Cause::FileSystem),
    ("failed: No such device", Cause::FileSystem),
    ("No filesystem could mount root", Cause::FileSystem),
    ("Unable to mount root fs", Cause::FileSystem),
    ("Bad magic number in super-block", Cause::Damaged),
    ("EXT4-fs error", Cause::Damaged),
    ("Structure needs cleaning", Cause::Damaged),
    ("Metadata corruption detected", Cause::Damaged),
    ("UNEXPECTED INCONSISTENCY", Cause::Damaged),
    ("BTRFS error", Cause::Damaged),
    ("doesn't have requested", Cause::Init),
    ("Requested init ", Cause::Init),
    ("No init found", Cause::Init),
    ("No working init found", Cause::Init),
    ("can't execute '", Cause::Init),
    ("Failed to switch root", Cause::Init),
    ("Failed to start initrd-switch-root.service", Cause::Init),
    ("Failed to start Switch Root", Cause::Init),
    ("Failed to execute ", Cause::Init),
    ("disagrees about version of symbol", Cause::Modules),
    ("version magic '", Cause::Modules),
    ("Out of memory", Cause::Memory),
    ("System is deadlocked on memory", Cause::Memory),
    ("I/O error, dev ", Cause::Disk),
    ("Failed to start ", Cause::Unit),
    ("Dependency failed for ", Cause::Unit),
];

/// Ends of shells' prompts and texts before them.
const SHELLS: [&str; 8] = [
    "(initramfs)",
    "Entering emergency mode",
    "You are in emergency mode",
    "You are in rescue mode",
    "being dropped into an emergency shell",
    "Cannot open access to console, the root account is locked",
    "Give root password for maintenance",
    "[rootfs ",
];

const PASSPHRASES: [&str; 6] = [
    "Please unlock disk",
    "Please enter passphrase for",
    "Enter passphrase for",
    "A password is required to access",
    "Please enter LUKS passphrase",
    "Please enter the passphrase",
];

/// Lines of inits of a root that are no systemd, and of programs that only a root starts.
const INITS: [&str; 3] = [
    "INIT: version ",
    "OpenRC ",
    "Starting periodic command scheduler",
];

/// Begins the line of a trace event.
const EXEC: &str = "sched_process_exec: filename=";

/// Signs of a line, which may be the beginning of one.
pub(super) fn signs(line: &str) -> Vec<Sign<'_>> {
    if let Some((path, pid)) = exec(line) {
        return vec![Sign::Exec { path, pid }];
    }
    let mut list = Vec::new();
    let has = |part: &&str| line.contains(part);
    let cause = CAUSES.iter().find(|(part, _)| line.contains(part));
    list.extend(cause.map(|(_, cause)| Sign::Cause(*cause)));
    if line.contains("Kernel panic - not syncing") {
        list.push(Sign::Panic);
    }
    if line.contains("-- System halted") {
        list.push(Sign::Corrupt);
    }
    if SHELLS.iter().any(has) {
        list.push(Sign::Shell);
    }
    if PASSPHRASES.iter().any(has) {
        list.push(Sign::Passphrase);
    }
    if let Some(path) = between(line, "Run ", " as init process") {
        list.push(Sign::KernelRuns(path));
    }
    if line.contains("Switching root") || INITS.iter().any(has) {
        list.push(Sign::RootInit);
    }
    if let Some((_, text)) = line.split_once("systemd[1]: ") {
        if text.starts_with("Startup finished in ") {
            list.push(Sign::Finished);
        }
        let started = [
            "Reached target ",
            "Started ",
            "Finished ",
            "Mounted ",
            "Listening on ",
        ];
        let started = started.iter().find_map(|start| text.strip_prefix(start));
        list.extend(started.map(Sign::Started));
    }
    list
}

/// Whether a line is the trace's, and says nothing to people.
pub(super) fn is_trace(line: &str) -> bool {
    line.contains(EXEC)
}

fn exec(line: &str) -> Option<(&str, u32)> {
    let (_, rest) = line.split_once(EXEC)?;
    let (path, numbers) = rest.split_once(" pid=")?;
    let number = numbers.split(' ').next()?;
    Some((path, number.trim().parse().ok()?))
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_kernels_and_initial_ram_disks_are_understood() {
        for (line, expected) in [
            (
                "[   13.856425] sched_process_exec: filename=/sbin/init pid=1 old_pid=1",
                vec![Sign::Exec {
                    path: "/sbin/init",
                    pid: 1,
                }],
            ),
            (
                "(initramfs) [    3.1] sched_process_exec: filename=/bin/a b pid=77 old_pid=77",
                vec![Sign::Exec {
                    path: "/bin/a b",
                    pid: 77,
                }],
            ),
            ("sched_process_exec: filename=/sbin/init pid=x", vec![]),
            (
                "[    5.012597] Kernel panic - not syncing: No working init found.  Try passing",
                vec![Sign::Cause(Cause::Init), Sign::Panic],
            ),
            (
                "[    5.0] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)",
                vec![Sign::Cause(Cause::FileSystem), Sign::Panic],
            ),
            (" -- System halted", vec![Sign::Corrupt]),
            (
                "ALERT!  UUID=1-2 does not exist.  Dropping to a shell!",
                vec![Sign::Cause(Cause::RootMissing)],
            ),
            ("(initramfs) ", vec![Sign::Shell]),
            ("Generating \"/run/initramfs/rdsosreport.txt\"", vec![]),
            (
                "Entering emergency mode. Exit the shell to continue.",
                vec![Sign::Shell],
            ),
            ("Please unlock disk sda2_crypt: ", vec![Sign::Passphrase]),
            (
                "Please enter passphrase for disk VBOX (luks-1): ",
                vec![Sign::Passphrase],
            ),
            (
                "[    5.481] Run /init as init process",
                vec![Sign::KernelRuns("/init")],
            ),
            (
                "[    9.1] systemd[1]: Switching root.",
                vec![Sign::RootInit],
            ),
            (
                "[   20.1] systemd[1]: Reached target multi-user.target - Multi-User System.",
                vec![Sign::Started("multi-user.target - Multi-User System.")],
            ),
            (
                "[   20.1] systemd[1]: Startup finished in 5.1s (kernel) + 3s (initrd) + 9s (userspace) = 17s.",
                vec![Sign::Finished],
            ),
            (
                "[   20.1] systemd[1]: Failed to start ssh.service - OpenBSD Secure Shell server.",
                vec![Sign::Cause(Cause::Unit)],
            ),
            (
                "[FAILED] Failed to start initrd-switch-root.service - Switch Root.",
                vec![Sign::Cause(Cause::Init)],
            ),
            ("[   20.1] reboot: Power down", vec![]),
            (
                "mount: mounting /dev/vda on /root failed: No such device",
                vec![Sign::Cause(Cause::FileSystem)],
            ),
            ("", vec![]),
        ] {
            assert_eq!(signs(line), expected, "{line}");
        }
    }

    #[test]
    fn each_cause_has_a_remedy() {
        for (_, cause) in CAUSES {
            assert!(cause.advice().len() > 20);
        }
    }
}
