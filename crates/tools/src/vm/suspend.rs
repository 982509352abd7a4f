//! To an image.

use std::ops::Range;
use std::time::Duration;

use brisk_vm::image::{
    self, Base, Changed, Outline, Recipient, Report, Secret, Source, Writer, host_key,
};
use brisk_vm::migration::PAGE;
use brisk_vm::qemu::save_state;
use serde_json::json;

use super::bases;
use super::describe::describe;
use super::directories::one_has_ended;
use super::disk_locks::DiskLocks;
use super::error::Error;
use super::home::Home;
use super::lazy::wait_until_filled;
use super::lifecycle::Running;
use super::live::{self, Condition};
use super::noted::Noted;
use super::ports::{executions, quiet};
use super::resume::set_clock;
use super::shrink::{drop_cache, left_out};
use super::standing::{self, Standing};
use super::unlock::host_keys;
use crate::chain;

/// How long QEMU may take to end.
const END: Duration = Duration::from_secs(30);

/// How a machine is suspended, besides what its definition says.
#[derive(Debug, Default)]
pub struct Suspending {
    /// What opens the image, too.
    pub passphrase: Option<Secret>,
    /// Whether the guest first forgets what it can read from its disks again, whatever the
    /// definition says.
    pub drop_cache: Option<bool>,
    /// Whether commands that run in it may end first, and none begins meanwhile.
    pub wait: bool,
}

/// Writes a running machine to its image and ends it. When this fails, the machine goes on.
///
/// # Errors
/// If it does not run, QEMU cannot save it, or the image cannot be written.
pub fn suspend(home: &Home, how: Suspending, control: image::Control<'_>) -> Result<Report, Error> {
    let definition = home.definition()?;
    let wrong = |source| home.wrong(source);
    let options = definition.suspend.options().map_err(wrong)?;
    let mut recipients = definition.suspend.recipients().map_err(wrong)?;
    if definition.suspend.passphrase && how.passphrase.is_none() {
        let hint = "give a file with it: --passphrase-file";
        return Err(Error::state(&home.name, "is locked for a passphrase", hint));
    }
    let secret = how.passphrase;
    recipients.extend(secret.clone().map(Recipient::Passphrase));
    let _lock = home.lock("suspend")?;
    let now = live::settle(home)?;
    if !matches!(now, Condition::Running | Condition::Paused) {
        return Err(Error::not_running(&home.name, now));
    }
    let path = home.image(&definition);
    wait_until_filled(home, control)?;
    // Writing would find that, too, but with a guest that stands still.
    if let Some(path) = image::resumable(&path) {
        return Err(Error::state(
            &home.name,
            format!("cannot be suspended: {} exists already", path.display()),
            "move that, or name another place with brisk vm set --suspend-path",
        ));
    }
    if definition.suspend.host_key {
        recipients.push(Recipient::Host(host_key(home.key(), true)?.to_public()));
    }
    let mut running = Running::of(home)?;
    if let Some(directories) = &mut running.directories {
        directories.look();
    }
    if let Some((what, hint)) = running.cannot_be_saved() {
        return Err(Error::state(&home.name, what, hint));
    }
    let _quiet = match how.wait {
        true => Some(quiet(home, &|| match control.cancelled() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        })?),
        false => None,
    };
    // What cannot be made durable is told while the guest runs.
    home.sync_kept(&running.machine)?;
    home.processing("suspend", &format!("to {}", path.display()));
    let ending = match how.wait {
        true => Vec::new(),
        false => executions(home),
    };
    for execution in ending {
        // Its words may be secret.
        let program = execution.command.split(' ').next().unwrap_or_default();
        let process = execution.process;
        home.note(&format!(
            "Command {program} of process {process} ends with that"
        ));
    }
    let stream = live::connect(home)?.ok_or_else(|| Error::has_ended(&home.name))?;
    let mut qmp = live::control(&stream)?;
    // An earlier suspend that was killed may have left it standing still.
    standing::go_on(home, &mut qmp, &[])?;
    if running.directories.is_some() && one_has_ended(&mut qmp)? {
        let (what, hint) = (
            "cannot be suspended: what serves its directories has ended",
            "brisk vm kill ends it; its qemu.log may say more",
        );
        return Err(Error::state(&home.name, what, hint));
    }
    let base = bases::of(home, &path).filter(|base| {
        definition.suspend.incremental && bases::is_locked_so(base, &definition, secret.as_ref())
    });
    let memory = running.machine.memory_mib << 20;
    let outline = Outline {
        vm: definition.uuid().map_err(wrong)?.unwrap_or_default(),
        memory,
        base: base.as_ref(),
    };
    let begin = |outline| Writer::begin(&path, outline, &recipients, &options, control);
    let drops = how.drop_cache.unwrap_or(definition.suspend.drop_cache);
    let begun = home.open_memory(&running).and_then(|ram| {
        let writer = begin(outline)?;
        let (writer, place) = match drops {
            true => drop_cache(home, &running, (&ram, writer), control)?,
            false => (writer, None),
        };
        Ok((ram, writer, place))
    });
    let (ram, writer, place) = begun.map_err(|error| {
        home.note(&format!(
            "Suspend failed before the guest stood still: {error}"
        ));
        error.or_interrupted()
    })?;
    home.note("VM suspending");
    let locks = DiskLocks::take(&running.machine.disks);
    let disks = &running.machine.disks;
    let stopped = qmp.execute("stop", &json!(null)).map_err(Error::from);
    let recorded = stopped.and_then(|_| Standing::record(home, disks, false));
    let saved = recorded.and_then(|()| Ok(save_state(&mut qmp)?));
    let written = saved.and_then(|state| {
        locks.check(&home.name)?;
        Standing::record(home, disks, true)?;
        let description = describe(home, &running, &definition)?;
        let free = place.and_then(|place| left_out(home, place, &ram, &description));
        let source = Source {
            memory: &ram,
            size: memory,
            leave_out: free.as_ref(),
            state: &state,
            description: &description,
            base: base.as_ref().map(|image| Base {
                image,
                changed: Changed::Compare,
            }),
            working_set: &needed_first(home, memory),
        };
        match writer.finish(&source) {
            Err(error @ image::Error::Damaged { .. }) if base.is_some() => {
                home.note(&format!("All is written, not what changed: {error}"));
                let whole = Source {
                    base: None,
                    ..source
                };
                let outline = Outline {
                    base: None,
                    ..outline
                };
                Ok((begin(outline)?.finish(&whole)?, false))
            }
            result => Ok((result?, base.is_some())),
        }
    });
    let (report, based) = match written {
        Ok(written) => written,
        Err(error) => {
            // It goes on where it was, with its own locks.
            drop(locks);
            if let Err(refused) = standing::go_on(home, &mut qmp, &[]) {
                let what = format!(
                    "was not suspended ({}), and stands still: {}",
                    chain(&error),
                    chain(&refused)
                );
                home.note(&format!("VM {what}"));
                // Another process may have locked a disk meanwhile.
                return Err(Error::state(
                    &home.name,
                    what,
                    "brisk vm resume has it go on",
                ));
            }
            home.note(&format!("Suspend failed, it goes on: {error}"));
            set_clock(home);
            return Err(error.or_interrupted());
        }
    };
    bases::remove(home, &path, base.as_ref().filter(|_| based));
    if let Some(other) = bases::noted(home).filter(|other| *other != path) {
        bases::remove(home, &other, None);
    }
    // Without that note the image is known by its keys.
    if let Err(error) = Noted::write(home, &definition, &path, &running.machine.disks) {
        home.note(&format!("Where it is was not noted: {}", chain(&error)));
    }
    // The image is durable: from here on it is the machine.
    let _ = qmp.execute("quit", &json!(null));
    live::wait_for_end(home, END);
    live::end(home)?;
    for line in report.lines() {
        home.note(&line);
    }
    home.note("VM halted");
    Ok(report)
}

/// What the guest needed first after the last resume, if that is known.
fn needed_first(home: &Home, memory: u64) -> Vec<Range<u64>> {
    let pages = memory / PAGE as u64;
    let keys = host_keys(home);
    let known = keys.and_then(|keys| image::read_working_set(&home.working_set(), &keys));
    // Without it a resume is slower and nothing else.
    let ranges = known.map(|(_, ranges)| ranges).unwrap_or_default();
    let fits = ranges.iter().all(|range| range.end <= pages);
    if fits { ranges } else { Vec::new() }
}
