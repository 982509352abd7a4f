//! An area of a machine's RAM that keeps memory of VMs while it restarts.

use std::fs;
use std::path::Path;

use crate::computer::Computer;

/// Where the area is mounted.
pub const AREA: &str = "/var/lib/brisk/memory";

/// Has the kernel keep a part of the RAM apart, such as `384M!1G`, makes a file system there as the book
/// says, and names it in brisk's configuration. The machine, which has brisk, restarts cold.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn make_area(machine: &mut Computer, place: &str) {
    let unit = unit_of_book();
    machine.ok(&format!(
        "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&memmap={place} /' /etc/default/grub && update-grub && \
         mkdir -p {AREA} /etc/brisk && echo '/dev/pmem0 {AREA} ext4 dax,nofail,x-systemd.before=brisk-vms.service 0 0' >>/etc/fstab && \
         cat >/etc/systemd/system/brisk-memory.service <<'END' && \
         systemctl enable brisk-memory.service && \
         printf '[vms]\\nkeep = \"{AREA}\"\\n' >/etc/brisk/reboot.toml\n{unit}END\n"
    ));
    machine.begin("brisk reboot --cold");
    machine.booted();
    machine.ok(&format!("mountpoint {AREA}"));
}

/// The unit that makes the file system.
fn unit_of_book() -> String {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/vm/keep.md");
    let text = fs::read_to_string(chapter).unwrap();
    let (_, rest) = text.split_once("```ini\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}
