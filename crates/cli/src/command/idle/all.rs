//! All guests of this host.

use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use brisk_host::proc::Procfs;
use brisk_tools::idle::text::Text;
use brisk_vm::hardware::XmlError;
use brisk_vm::libvirt::{Defined, Error, Virsh};
use brisk_vm::qemu::cmdline::CommandLine;

use super::description::{Capabilities, Described, Guests};
use super::target::{HIDDEN, tell_of_hidden};
use crate::ui::Ui;

/// Domains that are asked for at once: most of the time is virsh's and libvirt's.
const READERS: usize = 8;

/// Guests, of which some may be missing.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) guests: Vec<Described>,
    /// Whether something could not be read; what, was said.
    pub(super) is_partial: bool,
}

/// All domains, and the QEMUs that are not domains.
pub(super) fn all(guests: &Guests, ui: &Ui) -> anyhow::Result<All> {
    let mut all = domains(guests, ui)?;
    let of_domain = |guest: &Described| {
        let domain = guest.domain.as_ref().filter(|domain| !domain.is_off());
        domain.map(|domain| OsString::from(domain.uuid()))
    };
    let uuids: Vec<_> = all.guests.iter().filter_map(of_domain).collect();
    let mut processes = Procfs::default().processes().context("cannot read /proc")?;
    processes.sort_unstable();
    // Most processes are no QEMU.
    let guests = processes
        .into_iter()
        .filter_map(|pid| guests.of_process(pid, format!("process {pid}")).ok());
    let mut of_domains = Vec::new();
    for guest in guests {
        match uuid(&guest.text).filter(|uuid| uuids.contains(uuid)) {
            Some(uuid) => of_domains.push((uuid, guest)),
            None => all.guests.push(guest),
        }
    }
    // Any user may put the UUID of a domain on a command line: one process of it is the domain's.
    for (uuid, guest) in &of_domains {
        if of_domains.iter().filter(|(one, _)| one == uuid).count() > 1 {
            all.guests.push(guest.clone());
        }
    }
    match all.guests.is_empty() {
        true => ui.note(&format!(
            "no guest was found; define or start one, or {HIDDEN}"
        )),
        false => tell_of_hidden(ui),
    }
    Ok(all)
}

/// UUID on a command line.
pub(super) fn uuid(text: &Text) -> Option<OsString> {
    let Text::Arguments(words) = text else {
        return None;
    };
    let line = CommandLine::with_program(words);
    line.value("uuid").map(OsString::from)
}

/// All domains of libvirt's that are defined. Without a `--connect`, a libvirt that is not there is
/// none.
pub(super) fn domains(guests: &Guests, ui: &Ui) -> anyhow::Result<All> {
    let mut all = All::default();
    let uri = guests.connect.as_deref();
    let found = Virsh::connect(uri).and_then(|virsh| Ok((Defined::names(&virsh)?, virsh)));
    let (names, virsh) = match found {
        Ok(found) => found,
        Err(error) if uri.is_some() => return Err(error.into()),
        Err(error) => {
            all.is_partial = !is_absent(&error);
            ui.note(&format!("domains of libvirt are left out: {error}"));
            return Ok(all);
        }
    };
    for (name, read) in names.iter().zip(read(&names, &virsh, guests)) {
        match read {
            Ok(guest) => all.guests.push(guest),
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                all.is_partial |= !is_foreign(&error);
                ui.note(&format!("domain {name} is left out: {error:#}"));
            }
        }
    }
    Ok(all)
}

/// Domains by their names, in order.
fn read(names: &[String], virsh: &Virsh, guests: &Guests) -> Vec<anyhow::Result<Described>> {
    let next = AtomicUsize::new(0);
    let known = Capabilities::default();
    let one = |name: &String| {
        let domain = Defined::find_at(virsh.clone(), name)?;
        guests.of_defined(domain, name, &known)
    };
    let reader = || {
        let mut list = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(place) else {
                return list;
            };
            list.push((place, one(name)));
        }
    };
    let mut list = std::thread::scope(|scope| {
        let readers: Vec<_> = (1..READERS.min(names.len()))
            .map(|_| scope.spawn(reader))
            .collect();
        let mut list = reader();
        for reader in readers {
            match reader.join() {
                Ok(read) => list.extend(read),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        list
    });
    list.sort_by_key(|(place, _)| *place);
    list.into_iter().map(|(_, read)| read).collect()
}

/// Whether there is no libvirt, and not one that cannot be asked.
fn is_absent(error: &Error) -> bool {
    match error {
        Error::NoVirsh(_) => true,
        // A user without an account cannot have a libvirt.
        Error::Connect(text) => {
            let without = ["No such file or directory", "Failed to find user record"];
            without.iter().any(|part| text.contains(part))
        }
        _ => false,
    }
}

/// Whether a domain is gone since it was listed.
fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Unknown { .. }))
}

/// Whether it is a guest of another hypervisor.
fn is_foreign(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(XmlError::NotQemu(_)))
}
