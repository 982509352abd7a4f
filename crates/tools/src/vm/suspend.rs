//! To an image.

use std::ops::Range;
use std::time::Duration;

use brisk_image::{
    self, Base, Changed, Outline, Recipient, Report, Secret, Source, Writer, host_key,
};
use brisk_vm::migration::PAGE;
use brisk_vm::qemu::save_state;
use serde_json::json;

use super::backing_chain;
use super::describe::describe;
use super::directories::one_has_ended;
use super::disk_locks::DiskLocks;
use super::error::Error;
use super::lifecycle::Running;
use super::live::{self, Condition};
use super::paths::VmPaths;
use super::ports::{executions, quiet};
use super::postcopy::wait_until_filled;
use super::resume::set_clock;
use super::shrink::{drop_cache, left_out};
use super::standing::{self, Standing};
use super::suspend_record::SuspendRecord;
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
pub fn suspend(
    paths: &VmPaths,
    how: Suspending,
    control: brisk_image::Control<'_>,
) -> Result<Report, Error> {
    let definition = paths.definition()?;
    let wrong = |source| paths.wrong(source);
    let options = definition.suspend.options().map_err(wrong)?;
    let mut recipients = definition.suspend.recipients().map_err(wrong)?;
    if definition.suspend.passphrase && how.passphrase.is_none() {
        let hint = "give a file with it: --passphrase-file";
        return Err(Error::state(
            &paths.name,
            "is locked for a passphrase",
            hint,
        ));
    }
    let secret = how.passphrase;
    recipients.extend(secret.clone().map(Recipient::Passphrase));
    let _lock = paths.lock("suspend")?;
    let now = live::settle(paths)?;
    if !matches!(now, Condition::Running | Condition::Paused) {
        return Err(Error::not_running(&paths.name, now));
    }
    let path = paths.image(&definition);
    wait_until_filled(paths, control)?;
    // Writing would find that, too, but with a guest that stands still.
    if let Some(path) = brisk_image::resumable(&path) {
        return Err(Error::state(
            &paths.name,
            format!("cannot be suspended: {} exists already", path.display()),
            "move that, or name another place with brisk vm set --suspend-path",
        ));
    }
    if definition.suspend.host_key {
        recipients.push(Recipient::Host(host_key(paths.key(), true)?.to_public()));
    }
    let mut running = Running::of(paths)?;
    if let Some(directories) = &mut running.directories {
        directories.look();
    }
    if let Some((what, hint)) = running.cannot_be_saved() {
        return Err(Error::state(&paths.name, what, hint));
    }
    let _quiet = match how.wait {
        true => Some(quiet(paths, &|| match control.cancelled() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        })?),
        false => None,
    };
    // What cannot be made durable is told while the guest runs.
    paths.sync_kept(&running.machine)?;
    paths.processing("suspend", &format!("to {}", path.display()));
    let ending = match how.wait {
        true => Vec::new(),
        false => executions(paths),
    };
    for execution in ending {
        // Its words may be secret.
        let program = execution.command.split(' ').next().unwrap_or_default();
        let process = execution.process;
        paths.note(&format!(
            "Command {program} of process {process} ends with that"
        ));
    }
    let stream = live::connect(paths)?.ok_or_else(|| Error::has_ended(&paths.name))?;
    let mut qmp = live::control(&stream)?;
    // An earlier suspend that was killed may have left it standing still.
    standing::go_on(paths, &mut qmp, &[])?;
    if running.directories.is_some() && one_has_ended(&mut qmp)? {
        let (what, hint) = (
            "cannot be suspended: what serves its directories has ended",
            "brisk vm kill ends it; its qemu.log may say more",
        );
        return Err(Error::state(&paths.name, what, hint));
    }
    let base = backing_chain::of(paths, &path).filter(|base| {
        definition.suspend.incremental
            && backing_chain::is_locked_so(base, &definition, secret.as_ref())
    });
    let memory = running.machine.memory_mib << 20;
    let outline = Outline {
        vm: definition.uuid().map_err(wrong)?.unwrap_or_default(),
        memory,
        base: base.as_ref(),
    };
    let begin = |outline| Writer::begin(&path, outline, &recipients, &options, control);
    let drops = how.drop_cache.unwrap_or(definition.suspend.drop_cache);
    let begun = paths.open_memory(&running).and_then(|ram| {
        let writer = begin(outline)?;
        let (writer, place) = match drops {
            true => drop_cache(paths, &running, &ram, writer, control)?,
            false => (writer, None),
        };
        Ok((ram, writer, place))
    });
    let (ram, writer, place) = begun.map_err(|error| {
        paths.note(&format!(
            "Suspend failed before the guest stood still: {error}"
        ));
        error.or_interrupted()
    })?;
    paths.note("VM suspending");
    let locks = DiskLocks::take(&running.machine.disks);
    let disks = &running.machine.disks;
    let stopped = qmp.execute("stop", &json!(null)).map_err(Error::from);
    let recorded = stopped.and_then(|_| Standing::record(paths, disks, false));
    let saved = recorded.and_then(|()| Ok(save_state(&mut qmp)?));
    let written = saved.and_then(|state| {
        locks.check(&paths.name)?;
        Standing::record(paths, disks, true)?;
        let description = describe(paths, &running, &definition)?;
        let free = place.and_then(|place| left_out(paths, place, &ram, &description));
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
            working_set: &needed_first(paths, memory),
        };
        match writer.finish(&source) {
            Err(error @ brisk_image::Error::Damaged { .. }) if base.is_some() => {
                paths.note(&format!("All is written, not what changed: {error}"));
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
            if let Err(refused) = standing::go_on(paths, &mut qmp, &[]) {
                let what = format!(
                    "was not suspended ({}), and stands still: {}",
                    chain(&error),
                    chain(&refused)
                );
                paths.note(&format!("VM {what}"));
                // Another process may have locked a disk meanwhile.
                return Err(Error::state(
                    &paths.name,
                    what,
                    "brisk vm resume has it go on",
                ));
            }
            paths.note(&format!("Suspend failed, it goes on: {error}"));
            set_clock(paths);
            return Err(error.or_interrupted());
        }
    };
    backing_chain::remove(paths, &path, base.as_ref().filter(|_| based));
    if let Some(other) = backing_chain::noted(paths).filter(|other| *other != path) {
        backing_chain::remove(paths, &other, None);
    }
    // Without that note the image is known by its keys.
    if let Err(error) = SuspendRecord::write(paths, &definition, &path, &running.machine.disks) {
        paths.note(&format!("Where it is was not noted: {}", chain(&error)));
    }
    // The image is durable: from here on it is the machine.
    let _ = qmp.execute("quit", &json!(null));
    live::wait_for_end(paths, END);
    live::end(paths)?;
    for line in report.lines() {
        paths.note(&line);
    }
    paths.note("VM halted");
    Ok(report)
}

/// What the guest needed first after the last resume, if that is known.
fn needed_first(paths: &VmPaths, memory: u64) -> Vec<Range<u64>> {
    let pages = memory / PAGE as u64;
    let keys = host_keys(paths);
    let known = keys.and_then(|keys| brisk_image::read_working_set(&paths.working_set(), &keys));
    // Without it a resume is slower and nothing else.
    let ranges = known.map(|(_, ranges)| ranges).unwrap_or_default();
    let fits = ranges.iter().all(|range| range.end <= pages);
    if fits { ranges } else { Vec::new() }
}
