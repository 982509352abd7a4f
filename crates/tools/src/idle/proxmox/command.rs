//! Commands of Proxmox VE for what is found of its guests.

use std::ffi::{OsStr, OsString};

use brisk_lint::{Finding, Fix};
use brisk_vm::hardware::Place;
use brisk_vm::qemu::cmdline::CommandLine;

use super::property;

/// Number of a guest of Proxmox VE, by its command line; `VMID` if its configuration did not say it.
#[must_use]
pub fn id(words: &[OsString]) -> Option<String> {
    // The first one is Proxmox' own: what the guest's args have comes last.
    let place = words.iter().position(|word| word == "-id")?;
    let id = words.get(place + 1)?.to_str()?;
    let is_number = !id.is_empty() && id.chars().all(|c| c.is_ascii_digit());
    (is_number || id == "VMID").then(|| id.to_owned())
}

/// The command that changes what was found of a guest of Proxmox VE; None for other guests, and
/// where Proxmox has no setting for it.
#[must_use]
pub fn command(words: &[OsString], finding: &Finding) -> Option<String> {
    let id = id(words)?;
    let has = |start: &str| {
        let mut all = words.iter().filter_map(|word| word.to_str());
        all.any(|word| word.starts_with(start))
    };
    let is_exact = matches!(&finding.fix, Fix::Edit(edit) if edit.is_exact());
    let change = match finding.rule {
        "usb-uhci" if has("usb-tablet,id=tablet") => "--tablet 0".to_owned(),
        // Other arguments stay.
        "hpet" if is_exact => {
            format!("--args \"$(qm config {id} | sed -n 's/^args: //p') -machine hpet=off\"")
        }
        // Sound and USB devices of SPICE need its server.
        "display-client" if !has("spicevmc,id=usbredir") && !has("spice,") => {
            let is_qxl = has("qxl-vga,id=vga") && has("piix3-usb-uhci");
            match (is_qxl, has("usb-tablet,id=tablet")) {
                // With another screen there is a tablet by default.
                (true, false) => "--vga std --tablet 0".to_owned(),
                _ if has("qxl-vga,id=vga") || has("virtio-vga") => "--vga std".to_owned(),
                _ => return None,
            }
        }
        "audio" => "--delete audio0".to_owned(),
        "cdrom" => {
            let drive = drive(finding, words)?;
            let mut all = words.iter().filter_map(|word| word.to_str());
            let is_made = |word: &str| word.contains("cloudinit") && word.contains(drive);
            if all.any(is_made) {
                return None;
            }
            format!("--delete {drive}")
        }
        // Its own flags give Windows all that it needs.
        "hv-stimer" if cpus(words) < 2 => {
            let name = CommandLine::with_program(words);
            let name = name
                .value("name")
                .and_then(OsStr::to_str)
                .unwrap_or_default();
            match name.contains("11") || name.contains("2025") {
                true => "--ostype win11".to_owned(),
                false => "--ostype win10".to_owned(),
            }
        }
        _ => return None,
    };
    Some(format!("qm set {id} {change}"))
}

/// Whether the processor's flags are those of `args`, which replace Proxmox' own.
#[must_use]
pub fn has_own_cpu(words: &[OsString]) -> bool {
    cpus(words) > 1
}

fn cpus(words: &[OsString]) -> usize {
    words.iter().filter(|word| *word == "-cpu").count()
}

/// The key of a drive that was found: `ide2` of `ide-cd,bus=ide.1,unit=0,id=ide2`. Another device of
/// that name may be the one that the configuration has.
fn drive<'a>(finding: &Finding, words: &'a [OsString]) -> Option<&'a str> {
    let Some(Place::Words(range)) = &finding.place else {
        return None;
    };
    let texts = |words: &'a [OsString]| words.iter().filter_map(|word| word.to_str());
    let (kind, id) = texts(words.get(range.clone())?).find_map(|word| {
        let kind = word.split(',').next()?;
        Some((kind, property(word, "id")?))
    })?;
    let buses: &[&str] = match kind {
        "ide-cd" => &["ide", "sata"],
        "scsi-cd" => &["scsi"],
        _ => return None,
    };
    let is_key = buses.contains(&id.trim_end_matches(|c: char| c.is_ascii_digit()));
    let is_device = |word: &&str| !word.starts_with("file=") && property(word, "id") == Some(id);
    (is_key && texts(words).filter(is_device).count() == 1).then_some(id)
}
