//! Suspend of a VM to an image.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use brisk_image::{
    self, Base, Changed, Image, KeptMemory, Outline, PAGE_SIZE, Recipient, Report, Secret, Source,
    Writer,
};
use brisk_vm::cache::Cache;
use brisk_vm::guest_pages::VmcoreinfoLocation;
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::{CapabilitiesError, Disk, save_state};
use serde_json::json;

use super::backing_chain;
use super::clock::set_clock;
use super::condition::Condition;
use super::cpu_features::cpu_features;
use super::definition::Definition;
use super::describe::describe;
use super::directories::one_has_ended;
use super::disk_locks::DiskLocks;
use super::error::{Error, file};
use super::exec::{executions, quiet};
use super::host_key::HostRecipient;
use super::kept::{Area, Keeping};
use super::live;
use super::paths::VmPaths;
use super::postcopy::{can_be_filled, wait_until_filled};
use super::process;
use super::running::Running;
use super::shrink::{drop_cache, left_out};
use super::standing::{self, Standing};
use super::suspend_record::SuspendRecord;
use super::unlock::host_keys;
use crate::reboot::restart::Keep;
use brisk_host::chain;

/// Time limit of QEMU to end.
const END: Duration = Duration::from_secs(30);

/// Options of a suspend besides those of the definition.
#[derive(Debug, Default)]
pub struct Suspending {
    /// Passphrase that the image is encrypted to, too.
    pub passphrase: Option<Secret>,
    /// Whether the guest drops its page cache; `None`: as the definition says.
    pub drop_cache: Option<bool>,
    /// Whether to wait for commands that run in the VM; no other one begins meanwhile.
    pub wait: bool,
    /// Whether its memory is kept in RAM, where its definition wants that and it is possible.
    pub keep: Option<Keep>,
}

/// Writes a running VM to its image and ends it. If this fails, the VM continues.
///
/// # Errors
/// If it does not run, QEMU cannot save it, or the image cannot be written.
pub fn suspend(
    paths: &VmPaths,
    how: Suspending,
    control: brisk_image::Control<'_>,
) -> Result<Report, Error> {
    let _lock = paths.lock("suspend")?;
    let definition = paths.must_be_own().and_then(|()| paths.definition())?;
    let options = definition.suspend.options().map_err(|e| paths.wrong(e))?;
    let mut recipients = recipients(paths, &definition, how.passphrase.as_ref())?;
    let now = live::settle(paths)?;
    can_be_filled(paths)?;
    if !matches!(now, Condition::Running | Condition::Paused) {
        return Err(Error::not_running(&paths.name, now));
    }
    let path = paths.image(&definition);
    has_room_for_endings(paths, &path)?;
    wait_until_filled(paths, control)?;
    // Writing would find that, too, but with a guest that stands still.
    if let Some(path) = brisk_image::resumable(&path) {
        return Err(Error::state(
            &paths.name,
            format!("cannot be suspended: {} exists already", path.display()),
            "move that, or name another place with brisk vm set --suspend-path",
        ));
    }
    recipients.extend(this_host(paths, &definition)?);
    let mut running = Running::of(paths)?;
    if let Some(directories) = &mut running.directories {
        directories.look();
    }
    if let Some((what, hint)) = running.cannot_be_saved() {
        return Err(Error::state(&paths.name, what, hint));
    }
    resumes_here(paths, &running)?;
    let _quiet = match how.wait {
        true => Some(quiet(paths, &|| match control.cancelled() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        })?),
        false => None,
    };
    // What cannot be made durable is reported while the guest runs.
    paths.sync_kept(&running.machine)?;
    paths.processing("suspend", &format!("to {}", path.display()));
    if !how.wait {
        note_executions(paths);
    }
    let stream = process::connect(paths)?.ok_or_else(|| Error::has_ended(&paths.name))?;
    let mut qmp = process::control(&stream)?;
    // An earlier suspend that was killed may have left it standing still.
    standing::go_on(paths, &mut qmp, Standing::read(paths)?.as_ref(), &[])?;
    if running.directories.is_some() && one_has_ended(&mut qmp)? {
        let (what, hint) = (
            "cannot be suspended: what serves its directories has ended",
            "brisk vm kill ends it; its qemu.log may say more",
        );
        return Err(Error::state(&paths.name, what, hint));
    }
    let keeps = how
        .keep
        .and_then(|keep| area(paths, &definition, &running, keep));
    let alone = matches!(keeps, Some((_, Keep::Alone)));
    let base = backing_chain::of(paths, &path).filter(|base| {
        !alone
            && definition.suspend.incremental
            && backing_chain::has_same_recipients(base, &definition, how.passphrase.as_ref())
    });
    let suspend = Suspend {
        paths,
        definition: &definition,
        running: &running,
        path: &path,
        recipients: &recipients,
        options: &options,
        base: base.as_ref(),
        keeps: keeps.as_ref(),
        standing: RefCell::new(None),
        control,
    };
    let drops = !alone && how.drop_cache.unwrap_or(definition.suspend.drop_cache);
    let begun = suspend.begin(drops).map_err(|error| {
        paths.note(&format!(
            "Suspend failed before the guest stood still: {error}"
        ));
        error.or_interrupted()
    })?;
    paths.note("VM suspending");
    let locks = DiskLocks::take(&running.machine.devices.disks);
    let (report, based) = match suspend.write(begun, &mut qmp, &locks) {
        Ok(written) => written,
        Err(error) => {
            // It goes on where it was, with its own locks.
            drop(locks);
            SuspendRecord::forget_prepared(paths);
            return Err(suspend.go_on(&mut qmp, error));
        }
    };
    let noted = suspend.note(based);
    // The image is durable: from here on it is the VM.
    let _ = qmp.execute("quit", &json!(null));
    process::wait_for_end(paths, END);
    process::end(paths)?;
    if keeps.is_none() {
        paths.forget_running_memory();
    }
    for line in report.lines() {
        paths.note(&line);
    }
    paths.note("VM halted");
    noted.map(|()| report)
}

/// Bytes of a file's name (`NAME_MAX`).
const LONGEST_NAME: usize = 255;
/// Bytes of the longest ending that an image's name gets, with some more.
const ENDING: usize = 32;

/// Checks that an image of this name could be resumed.
fn has_room_for_endings(paths: &VmPaths, image: &Path) -> Result<(), Error> {
    let length = image.file_name().map_or(0, |name| name.len());
    if length + ENDING <= LONGEST_NAME {
        return Ok(());
    }
    Err(Error::state(
        &paths.name,
        format!(
            "cannot be suspended: the name of {} is longer than {} bytes",
            image.display(),
            LONGEST_NAME - ENDING
        ),
        "choose a shorter one with brisk vm set --suspend-path",
    ))
}

/// Checks that its image could be resumed. That of another QEMU than the one that is installed could
/// not, as after an upgrade.
fn resumes_here(paths: &VmPaths, running: &Running) -> Result<(), Error> {
    let cache = Cache::open().map_err(CapabilitiesError::from);
    match cache.and_then(|cache| running.cannot_be_resumed(&cache)) {
        Ok(None) => Ok(()),
        Ok(Some((what, hint))) => Err(Error::state(&paths.name, what, hint)),
        // It may be installed again.
        Err(error) => {
            paths.note(&format!(
                "Whether its QEMU is there is not known: {}",
                chain(&error)
            ));
            Ok(())
        }
    }
}

/// Area that the memory of a VM is kept in.
fn area(
    paths: &VmPaths,
    definition: &Definition,
    running: &Running,
    keep: Keep,
) -> Option<(Area, Keep)> {
    let found = paths.area(definition).and_then(|area| {
        let Some(area) = area else { return Ok(None) };
        let memory = paths.open_memory(running).map_err(|error| chain(&error))?;
        area.has(&memory)?;
        Ok(Some(area))
    });
    match found {
        Ok(area) => Some((area?, keep)),
        Err(reason) => {
            paths.note(&format!("Its memory is not kept in RAM: {reason}"));
            None
        }
    }
}

/// What opens the image, besides this host's key.
fn recipients(
    paths: &VmPaths,
    definition: &Definition,
    passphrase: Option<&Secret>,
) -> Result<Vec<Recipient>, Error> {
    let recipients = definition.suspend.recipients();
    let mut recipients = recipients.map_err(|source| paths.wrong(source))?;
    if definition.suspend.passphrase && passphrase.is_none() {
        let hint = "give a file with it: --passphrase-file";
        return Err(Error::state(
            &paths.name,
            "is encrypted to a passphrase",
            hint,
        ));
    }
    recipients.extend(passphrase.cloned().map(Recipient::Passphrase));
    Ok(recipients)
}

/// This host as a recipient, if the definition wants that.
fn this_host(paths: &VmPaths, definition: &Definition) -> Result<Option<Recipient>, Error> {
    if !definition.suspend.host_key {
        return Ok(None);
    }
    let host = paths.dirs().host_recipient()?;
    if host.is_new {
        paths.note(&HostRecipient::advice(paths.key()));
    }
    Ok(Some(host.recipient))
}

/// Notes the commands that end because their VM is suspended.
fn note_executions(paths: &VmPaths) {
    for execution in executions(paths) {
        // Its words may be secret.
        let program = execution.command.split(' ').next().unwrap_or_default();
        let process = execution.process;
        paths.note(&format!(
            "Command {program} of process {process} ends with that"
        ));
    }
}

/// A suspend for which all is known but the guest's state.
struct Suspend<'a> {
    paths: &'a VmPaths,
    definition: &'a Definition,
    running: &'a Running,
    /// The image.
    path: &'a Path,
    recipients: &'a [Recipient],
    options: &'a brisk_image::Options,
    /// The image that it was resumed from, to write only what has changed.
    base: Option<&'a Image>,
    /// Where its memory is kept.
    keeps: Option<&'a (Area, Keep)>,
    /// The disks of the guest since it stands still.
    standing: RefCell<Option<Standing>>,
    control: brisk_image::Control<'a>,
}

/// An image that was begun while its guest ran.
struct Begun<'a> {
    ram: File,
    writer: Writer<'a>,
    /// Where the kernel shows which pages are free.
    place: Option<VmcoreinfoLocation>,
}

impl<'a> Suspend<'a> {
    /// Bytes of the guest's memory.
    fn memory(&self) -> u64 {
        self.running.machine.memory.mib << 20
    }

    fn writer(&self, base: Option<&'a Image>) -> Result<Writer<'a>, Error> {
        let uuid = self.definition.uuid();
        let outline = Outline {
            vm: uuid.map_err(|e| self.paths.wrong(e))?.unwrap_or_default(),
            memory: self.memory(),
            base,
        };
        let begun = Writer::begin(
            self.path,
            outline,
            self.recipients,
            self.options,
            self.control,
        );
        Ok(begun?)
    }

    /// Begins the image while the guest runs; `drops`: the guest forgets its page cache first.
    fn begin(&self, drops: bool) -> Result<Begun<'a>, Error> {
        let disks = &self.running.machine.devices.disks;
        DiskLocks::check_others(&self.paths.name, disks)?;
        let ram = self.paths.open_memory(self.running)?;
        let writer = self.writer(self.base)?;
        let (writer, place) = match drops {
            true => drop_cache(self.paths, self.running, &ram, writer, self.control)?,
            false => (writer, None),
        };
        self.prepare(&writer)?;
        Ok(Begun { ram, writer, place })
    }

    /// Prepares the record of an image.
    fn prepare(&self, writer: &Writer<'_>) -> Result<(), Error> {
        let disks = &self.running.machine.devices.disks;
        let record = SuspendRecord::of(self.definition, self.path, writer.id(), disks);
        record.prepare(self.paths)
    }

    /// Notes the disks of the guest, which stands still.
    fn stands(&self, finished: bool) -> Result<(), Error> {
        let standing = Standing::of(&self.running.machine.devices.disks, finished)?;
        let written = standing.write(self.paths);
        self.standing.replace(Some(standing));
        written
    }

    /// Stops the guest and writes the image; whether it has only what changed.
    fn write(
        &self,
        begun: Begun<'_>,
        qmp: &mut Control<'_>,
        locks: &DiskLocks,
    ) -> Result<(Report, bool), Error> {
        let Begun { ram, writer, place } = begun;
        let (paths, base) = (self.paths, self.base);
        let disks = &self.running.machine.devices.disks;
        qmp.execute("stop", &json!(null))?;
        self.stands(false)?;
        let state = save_state(qmp)?;
        locks.check(&paths.name)?;
        // QEMU makes the data durable, and not always when it was written, by which a disk is known.
        make_durable(disks)?;
        self.stands(true)?;
        let features = cpu_features(qmp, &mut || false)?;
        let description = describe(paths, self.running, self.definition, features)?;
        let free = place.and_then(|place| left_out(paths, place, &ram, &description));
        let keeping = match self.keeps {
            Some((area, keep)) => {
                let keeping = Keeping::begin(paths, area, &ram, &writer.id(), self.control);
                Some((keeping?, *keep))
            }
            None => None,
        };
        let kept = keeping.as_ref().map(|(keeping, keep)| KeptMemory {
            kept: &keeping.kept,
            in_image: *keep == Keep::WithImage,
        });
        let needed = match kept {
            Some(KeptMemory {
                in_image: false, ..
            }) => Vec::new(),
            _ => needed_first(paths, self.memory()),
        };
        let source = Source {
            memory: &ram,
            size: self.memory(),
            leave_out: free.as_ref(),
            state: &state,
            description: &description,
            base: base.map(|image| Base {
                image,
                changed: Changed::Compare,
            }),
            kept,
            working_set: &needed,
        };
        let written = match writer.finish(&source) {
            Err(error @ brisk_image::Error::Damaged { .. }) if base.is_some() => {
                paths.note(&format!("All is written, not what changed: {error}"));
                let whole = Source {
                    base: None,
                    // It has the name of the other image.
                    kept: None,
                    ..source
                };
                let writer = self.writer(None)?;
                self.prepare(&writer)?;
                return Ok((writer.finish(&whole)?, false));
            }
            result => (result?, base.is_some()),
        };
        if let Some((keeping, _)) = keeping {
            keeping.stay(paths);
        }
        Ok(written)
    }

    /// Notes where the image is, and removes those that it does not need.
    ///
    /// # Errors
    /// If it cannot be noted: the VM is suspended all the same.
    fn note(&self, based: bool) -> Result<(), Error> {
        let paths = self.paths;
        backing_chain::remove(paths, self.path, self.base.filter(|_| based));
        if let Some(other) = backing_chain::noted(paths).filter(|other| *other != self.path) {
            backing_chain::remove(paths, &other, None);
        }
        // Without that note the image is known by its keys.
        SuspendRecord::place(paths).map_err(|error| {
            paths.note(&format!("Where it is was not noted: {}", chain(&error)));
            Error::NotNoted {
                name: paths.name.clone(),
                image: self.path.to_owned(),
                source: Box::new(error),
            }
        })
    }

    /// Has the guest go on, which could not be suspended; the message about that.
    fn go_on(&self, qmp: &mut Control<'_>, error: Error) -> Error {
        let paths = self.paths;
        if let Err(refused) = standing::go_on(paths, qmp, self.standing.take().as_ref(), &[]) {
            let what = format!(
                "was not suspended ({}), and stands still: {}",
                chain(&error),
                chain(&refused)
            );
            paths.note(&format!("VM {what}"));
            // Another process may have locked a disk meanwhile.
            return Error::state(&paths.name, what, "brisk vm resume has it go on");
        }
        paths.note(&format!("Suspend failed, it goes on: {error}"));
        set_clock(paths);
        error.or_interrupted()
    }
}

/// Makes the disks durable that a guest has written to, with the times of the last change.
fn make_durable(disks: &[Disk]) -> Result<(), Error> {
    for disk in disks.iter().filter(|disk| disk.writable) {
        let synced = File::open(&disk.path).and_then(|disk| disk.sync_all());
        synced.map_err(file("make durable", &disk.path))?;
    }
    Ok(())
}

/// What the guest needed first after the last resume, if that is known.
fn needed_first(paths: &VmPaths, memory: u64) -> Vec<Range<u64>> {
    let pages = memory / PAGE_SIZE;
    let keys = host_keys(paths);
    let known = keys.and_then(|keys| brisk_image::read_working_set(&paths.working_set(), &keys));
    // Without it a resume is slower and nothing else.
    let ranges = known.map(|(_, ranges)| ranges).unwrap_or_default();
    let fits = ranges.iter().all(|range| range.end <= pages);
    if fits { ranges } else { Vec::new() }
}
