//! What a rehearsal cannot reproduce of a command line and of a machine. Pure.

use brisk_host::boot_entries::words;

use super::cmdline::last;
use super::console::Console;
use super::verdict::RehearsedDisk;

/// Options of the kernel that mean another thing in a VM with other memory, and those that ask for
/// the network.
const MEMORY: [&str; 6] = [
    "mem=",
    "memmap=",
    "hugepages=",
    "crashkernel=",
    "movablecore=",
    "kernelcore=",
];
const NETWORK: [&str; 5] = ["ip=", "nfsroot=", "netroot=", "rd.neednet", "boot=nfs"];
/// Names of the root's device that come from the disk's model or place.
const OTHER_NAMES: [&str; 3] = [
    "/dev/disk/by-id/",
    "/dev/disk/by-path/",
    "/dev/disk/by-diskseq/",
];

/// Sentences without their ends.
pub(super) fn of_cmdline(cmdline: &str, memory_mib: u64, disks: &[RehearsedDisk]) -> Vec<String> {
    let words = words(cmdline);
    let mut notes = Vec::new();
    let with = |starts: &[&str]| {
        let found = words
            .iter()
            .filter(|word| starts.iter().any(|start| word.starts_with(start)));
        found.copied().collect::<Vec<_>>().join(" ")
    };
    let memory = with(&MEMORY);
    if !memory.is_empty() {
        notes.push(format!(
            "{memory} is about memory, of which the VM has {memory_mib} MiB"
        ));
    }
    let network = with(&NETWORK);
    if !network.is_empty() {
        notes.push(format!(
            "{network} asks for the network, and the VM has none"
        ));
    }
    let root = last(&words, "root").unwrap_or_default();
    if OTHER_NAMES.iter().any(|start| root.starts_with(start)) {
        notes.push(format!(
            "root={root} names the disk by its model or place, which are others in the VM: take \
             UUID= or PARTUUID="
        ));
    }
    let names = names(disks);
    let device = root.strip_prefix("/dev/").unwrap_or_default();
    let family = ["sd", "vd", "nvme", "xvd", "hd", "mmcblk"];
    let is_disk = family.iter().any(|start| device.starts_with(start));
    if is_disk && !names.iter().any(|name| device.starts_with(&**name)) {
        let there = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        notes.push(format!(
            "root={root} names a disk by the order in which it is found, and the VM's are: {there}; \
             take UUID= or PARTUUID="
        ));
    }
    notes
}

/// A sentence without its end about a host that has less memory than the VM would get, MiB.
pub(super) fn of_little_memory(memory_mib: u64, usual_mib: u64) -> String {
    format!(
        "the VM has {memory_mib} MiB of memory instead of {usual_mib}, as this machine has no more \
         available: where it runs out of memory, that is no fault of the kernel"
    )
}

/// The kernel's names of the disks.
fn names(disks: &[RehearsedDisk]) -> Vec<String> {
    let mut counts = [("sd", 0_u8), ("vd", 0), ("nvme", 0)];
    let mut names = Vec::new();
    for disk in disks {
        let family = disk.bus.family();
        let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == family) else {
            continue;
        };
        names.push(match family {
            "nvme" => format!("nvme{count}n1"),
            _ => format!("{family}{}", char::from(b'a' + *count)),
        });
        *count += 1;
    }
    names
}

/// About disks that changed, or that are attached to something else.
pub(super) fn of_disks(disks: &[RehearsedDisk]) -> Vec<String> {
    let mut notes = Vec::new();
    for disk in disks {
        if let Some(driver) = &disk.unlike {
            notes.push(format!(
                "{} has {driver} here and {} in the VM: whether the initial RAM disk has {driver} is \
                 not known",
                disk.path,
                disk.bus.name()
            ));
        }
        if disk.written_meanwhile.is_some_and(|bytes| bytes > 0) {
            notes.push(format!(
                "{} is in use: files that changed meanwhile may have looked damaged to the VM",
                disk.path
            ));
        }
    }
    notes
}

/// About a boot that went on in another way than its command line asks for.
pub(super) fn of_boot(cmdline: &str, console: &Console) -> Vec<String> {
    let words = words(cmdline);
    let named = last(&words, "init");
    match (named, &console.root_init) {
        (Some(named), Some(init)) if named != init => {
            vec![format!("{init} runs, not {named}, which init= names")]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::attachment::Bus;
    use super::super::goal::Goal;
    use super::*;
    use std::time::Duration;

    fn disk(bus: Bus) -> RehearsedDisk {
        RehearsedDisk {
            path: "/dev/x".to_owned(),
            bus,
            unlike: None,
            written_meanwhile: None,
        }
    }

    #[test]
    fn what_cannot_be_reproduced_is_said() {
        let disks = [disk(Bus::Ahci), disk(Bus::Nvme), disk(Bus::Usb)];
        for (cmdline, part) in [
            ("root=UUID=1 ro quiet", None),
            ("root=/dev/sdb2 ro", None),
            ("root=/dev/nvme0n1p2", None),
            ("root=/dev/mapper/vg-root", None),
            ("root=/dev/sdc1", Some("the VM's are: sda, nvme0n1, sdb")),
            ("root=/dev/vda1", Some("the VM's are")),
            ("root=/dev/disk/by-id/ata-x-part1", Some("model or place")),
            (
                "crashkernel=512M root=UUID=1 hugepages=8",
                Some("crashkernel=512M hugepages=8 is about"),
            ),
            ("root=UUID=1 ip=dhcp", Some("ip=dhcp asks for the network")),
        ] {
            let notes = of_cmdline(cmdline, 1024, &disks);
            match part {
                None => assert!(notes.is_empty(), "{cmdline}: {notes:?}"),
                Some(part) => assert!(notes[0].contains(part), "{cmdline}: {notes:?}"),
            }
        }
    }

    #[test]
    fn disks_in_use_and_unlike_are_said() {
        let mut one = disk(Bus::Ahci);
        one.written_meanwhile = Some(0);
        assert_eq!(of_disks(&[one.clone()]), [""; 0]);
        one.written_meanwhile = Some(4096);
        one.unlike = Some("mpt3sas".to_owned());
        let notes = of_disks(&[one]);
        assert!(notes[0].contains("whether the initial RAM disk has mpt3sas is not known"));
        assert!(notes[1].contains("in use"));
    }

    #[test]
    fn another_init_than_the_one_that_is_named_is_said() {
        let of = |cmdline: &str| {
            let mut console = Console::new(cmdline, &Goal::Init);
            let line = b"sched_process_exec: filename=/sbin/init pid=1 old_pid=1\n";
            console.push(line, Duration::ZERO);
            of_boot(cmdline, &console)
        };
        assert_eq!(
            of("init=/nonexistent"),
            ["/sbin/init runs, not /nonexistent, which init= names"]
        );
        assert_eq!(of("init=/sbin/init"), [""; 0]);
        assert_eq!(of("ro"), [""; 0]);
    }
}
