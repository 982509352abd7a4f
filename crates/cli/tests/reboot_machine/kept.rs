//! Machines that have booted, each kept as it is then: a test goes on with one, as often as it likes,
//! in less time than a boot takes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use brisk_testkit::Computer;

use super::{directory, disk, memory, rehearsed};

/// A watchdog that outlives a kernel.
const WATCHDOG: [&str; 4] = ["-device", "i6300esb", "-watchdog-action", "reset"];

/// Options of QEMU for all of them: the watchdog, and a disk with the files of rehearsals.
fn options() -> Vec<&'static str> {
    static CASES: OnceLock<String> = OnceLock::new();
    let cases = CASES.get_or_init(|| {
        let disk = rehearsed::disk().display();
        format!("file={disk},format=raw,if=virtio,readonly=on")
    });
    [&WATCHDOG[..], &["-drive", cases]].concat()
}

/// A machine that was kept.
#[derive(Debug)]
pub(super) struct Kept {
    disk: PathBuf,
    state: PathBuf,
}

impl Kept {
    /// One that has booted, and has brisk.
    pub(super) fn booted() -> &'static Self {
        static KEPT: OnceLock<Kept> = OnceLock::new();
        KEPT.get_or_init(|| {
            let disk = disk("booted");
            let mut machine = Computer::start(&disk, directory(), &options());
            machine.booted();
            machine.tells_how_far_it_is();
            has_watchdog(&mut machine);
            Self::of(machine, disk)
        })
    }

    /// One with a VM that runs, whose memory is in an area of RAM that a restart keeps; with the boot_id
    /// of the VM, which takes ten minutes to boot.
    pub(super) fn with_vm() -> (&'static Self, &'static str) {
        static KEPT: OnceLock<(Kept, String)> = OnceLock::new();
        let (kept, boot) = KEPT.get_or_init(|| {
            let disk = disk("vm");
            let mut machine = Computer::start(&disk, directory(), &options());
            machine.booted();
            let boot = memory::set_up(&mut machine);
            (Self::of(machine, disk), boot)
        });
        (kept, boot)
    }

    /// Keeps a machine as it is now.
    fn of(machine: Computer, disk: PathBuf) -> Self {
        let state = disk.with_extension("state");
        machine.keep(&state);
        Self { disk, state }
    }

    /// Goes on with it, on a disk of its own.
    pub(super) fn go_on(&self, name: &str) -> Computer {
        self.go_on_with(name, &[])
    }

    /// Goes on with it, with more options of QEMU that are no devices.
    pub(super) fn go_on_with(&self, name: &str, more: &[&str]) -> Computer {
        let disk = directory().join(format!("{name}.qcow2"));
        Computer::disk(&disk, &self.disk);
        let options = [&options()[..], more].concat();
        let mut machine = Computer::go_on(&self.state, &disk, directory(), &options);
        // The hardware clock went on meanwhile, and is what the next kernel reads.
        machine.ok("busybox hwclock -s -u");
        machine
    }

    /// Boots a machine of this kind from a disk.
    pub(super) fn boot(disk: &Path) -> Computer {
        let mut machine = Computer::start(disk, directory(), &options());
        machine.booted();
        machine
    }
}

/// Loads the driver of the machine's watchdog, so that it does not stop its device at the jump. Newer
/// kernels of Debian have it loaded already, and stop it.
pub(super) fn has_watchdog(machine: &mut Computer) {
    machine.ok(
        "modprobe -r i6300esb watchdog; modprobe watchdog stop_on_reboot=0 &&
        modprobe i6300esb && test -e /dev/watchdog0 &&
        test \"$(cat /sys/module/watchdog/parameters/stop_on_reboot)\" = 0",
    );
}
