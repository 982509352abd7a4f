//! Eager resume: all memory is loaded before the guest runs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_image::{Claim, Image, Keys};
use brisk_vm::cache::Cache;
use brisk_vm::qemu::control::Control;
use brisk_vm::qemu::{DiskFormat, Ram, State, load_state, qmp};

use super::backing_chain;
use super::clock::set_clock;
use super::condition::Condition;
use super::definition::text_of_uuid;
use super::describe::disks_are_as_noted;
use super::disk_error;
use super::error::{Error, file};
use super::first_run::{self, Failure, FirstRun};
use super::kept::{self, Found, Loss};
use super::lifecycle::launch;
use super::live::{self, condition};
use super::memory::Fresh;
use super::paths::{StateDirs, VmPaths};
use super::process;
use super::qemu_fit::{self, Fit, adopt, check_started, fit, replace_firmware};
use super::running::Running;
use super::standing::{self, Standing};
use super::stderr_tail::StderrTail;
use super::suspend_record::{self, SuspendRecord, cut_off, image_missing};
use super::unlock::{host_keys, with_host_key};
use crate::guest;
use brisk_host::chain;

/// How often it is looked whether the user wants no more while QEMU says nothing.
const GLANCE: Duration = Duration::from_millis(500);

/// Options of a resume.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// Keys that open the image besides this host's key.
    pub keys: Keys,
    /// Disks that the administrator has accepted as unchanged.
    pub accepted_disks: Vec<PathBuf>,
    /// Whether the guest may see fewer features of its CPU than before.
    pub accepts_cpu: bool,
    /// Whether a QEMU of another release than the one that made the image may resume it.
    pub accepts_qemu: bool,
    /// Whether to resume an image again whose last resume was cut off, and which a guest may have
    /// run from. Its disks must be unchanged.
    pub again: bool,
}

/// Result of a resume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resumed {
    /// Time until the guest ran.
    pub running: Duration,
    /// Bytes of the guest's memory.
    pub memory: u64,
    /// Time it took to read, decrypt and decompress.
    pub loading: Duration,
}

impl Resumed {
    /// Formats the result like the report of a suspend.
    pub(super) fn line(&self) -> String {
        let megabytes = self.memory as f64 / 1e6;
        let seconds = self.loading.as_secs_f64().max(1e-9);
        let rate = megabytes / seconds;
        format!("loaded: {megabytes:.0} MB in {seconds:.2} sec {rate:.1} MB/s")
    }
}

/// Resumes a VM from its image, which is used up.
///
/// # Errors
/// If there is none, it is damaged, or what it needs has changed. The image is unchanged until the
/// guest runs.
pub fn resume(
    paths: &VmPaths,
    cache: &Cache,
    how: &How,
    control: brisk_image::Control<'_>,
) -> Result<Resumed, Error> {
    let begun = Instant::now();
    let _lock = paths.lock("resume")?;
    let definition = paths.definition()?;
    match live::settle(paths)? {
        Condition::Suspended => {}
        Condition::Paused => return go_on(paths, how, begun),
        // What lies there says whose it is.
        Condition::Off if brisk_image::resumable(&paths.image(&definition)).is_some() => {}
        Condition::Missing => return Err(image_missing(paths)),
        Condition::CutOff if how.again => {}
        Condition::CutOff => return Err(cut_off(paths, &definition)),
        Condition::Off
            if how.again && brisk_image::resumed(&paths.image(&definition))?.is_some() =>
        {
            return Err(Error::state(
                &paths.name,
                "has run since it was resumed: its image is older than its disks",
                "brisk vm start boots it",
            ));
        }
        Condition::Off => {
            return Err(Error::state(
                &paths.name,
                "is not suspended",
                "brisk vm start boots it",
            ));
        }
        _ => {
            disk_error::check_continuable(paths)?;
            return Err(Error::runs_already(&paths.name));
        }
    }
    let path = paths.image(&definition);
    paths.processing("resume", &format!("from {}", path.display()));
    let mut claim = match brisk_image::resumable(&path) {
        None if how.again => Claim::take_again(&path)?,
        _ => Claim::take(&path)?,
    };
    let resumed = load(paths, &mut claim, how, cache, control, begun);
    match resumed {
        Ok((resumed, image)) => {
            // The VM runs whatever becomes of its image.
            if let Err(error) = backing_chain::keep(paths, claim, &image) {
                paths.note(&format!("The image was not removed: {}", chain(&error)));
            }
            paths.note(&resumed.line());
            paths.note("VM running");
            Ok(resumed)
        }
        Err(Failure::NotRun(error)) => {
            // What went wrong first is what matters.
            let _ = process::end(paths);
            paths.note(&format!("Resume failed: {}", chain(&error)));
            claim.release()?;
            Err(error.or_interrupted())
        }
        Err(Failure::Unknown(error)) => {
            paths.note(&format!("VM may run: {}", chain(&error)));
            Err(error)
        }
    }
}

/// Has a VM go on that a killed command or a failed disk left standing still, and leaves others as
/// they are.
///
/// # Errors
/// If another command works on it, or it cannot go on.
pub(super) fn resume_standing(paths: &VmPaths) -> Result<(), Error> {
    let begun = Instant::now();
    let _lock = paths.lock("resume")?;
    match live::settle(paths)? {
        Condition::Paused => go_on(paths, &How::default(), begun).map(drop),
        _ => Ok(()),
    }
}

/// A VM that a killed command or a failed disk left standing still.
fn go_on(paths: &VmPaths, how: &How, begun: Instant) -> Result<Resumed, Error> {
    disk_error::check_continuable(paths)?;
    let stream = process::connect(paths)?.ok_or_else(|| Error::has_ended(&paths.name))?;
    let noted = Standing::read(paths)?;
    let mut qmp = process::control(&stream)?;
    standing::go_on(paths, &mut qmp, noted.as_ref(), &how.accepted_disks)?;
    // The guest runs all the same.
    let _ = SuspendRecord::remove(paths);
    paths.note("VM goes on");
    set_clock(paths);
    Ok(Resumed {
        running: begun.elapsed(),
        memory: 0,
        loading: Duration::ZERO,
    })
}

fn load(
    paths: &VmPaths,
    claim: &mut Claim,
    how: &How,
    cache: &Cache,
    control: brisk_image::Control<'_>,
    begun: Instant,
) -> Result<(Resumed, Image), Failure> {
    let (image, mut running) = open(paths, claim.file()?, claim.image(), how, cache)?;
    for disk in &how.accepted_disks {
        paths.note(&format!("Disk {} is taken for what it was", disk.display()));
    }
    if how.accepts_cpu {
        paths.note("Its CPU may lack features that it had");
    }
    let first = FirstRun {
        paths,
        image: &image,
        claim: Some(claim),
        how,
    };
    let resumed = run_from(first, &mut running, control, begun)?;
    set_clock(paths);
    Ok((resumed, image))
}

/// Starts a VM from an open image, and runs it.
pub(super) fn run_from(
    first: FirstRun<'_>,
    running: &mut Running,
    control: brisk_image::Control<'_>,
    begun: Instant,
) -> Result<Resumed, Failure> {
    let (paths, image) = (first.paths, first.image);
    paths.clear();
    paths.prepare()?;
    if first.claim.is_some() {
        SuspendRecord::ensure(paths, image, &running.machine.devices.disks)?;
    }
    let length = image.header().memory;
    let loading = Instant::now();
    // A clone leaves it to its VM.
    let found = match first.claim.is_some() {
        true => kept_memory(paths, image, control)?,
        false => None,
    };
    let memory = match &found {
        Some(found) => found.memory().map_err(file("open", "kept memory"))?,
        None => loaded_memory(paths, image, control)?,
    };
    let loading = loading.elapsed();
    let devices = image.state()?;
    let state = Fresh::without_name(devices.len() as u64, false)?;
    let written = state.file.write_all_at(&devices, 0);
    written.map_err(file("write", "the state of the devices"))?;
    let place = State {
        path: state.path,
        offset: 0,
    };
    running.machine.memory.ram = Ram::File(memory.path);
    running.machine.state = Some(place.clone());
    running.machine.stopped = true;
    let ran = run_loaded(first, running, &place, control);
    if let (Err(Failure::NotRun(_)), Some(found)) = (&ran, &found) {
        // What went wrong first is what matters.
        let _ = process::end(paths);
        found.note_again(paths, image);
    }
    ran?;
    if let Some(Err(error)) = found.map(|found| found.runs(paths)) {
        // Nothing finds it by an image: that is used up.
        paths.note(&format!("Its memory keeps the name of its image: {error}"));
    }
    Ok(Resumed {
        running: begun.elapsed(),
        memory: length,
        loading,
    })
}

/// Starts a QEMU that has the memory, has it load the state of the devices, and runs the guest.
fn run_loaded(
    first: FirstRun<'_>,
    running: &mut Running,
    place: &State,
    control: brisk_image::Control<'_>,
) -> Result<(), Failure> {
    let paths = first.paths;
    let stderr = StderrTail::from_now(paths);
    launch(paths, running)?;
    let explain = |error: Error| stderr.explain(paths, error);
    let stream = process::connect(paths)?.ok_or_else(|| Error::ended_loading(&paths.name));
    let stream = stream.map_err(explain)?;
    let mut qmp = process::control(&stream).map_err(explain)?;
    check_started(paths, running, &mut qmp)?;
    load_state(&mut qmp, place).map_err(|error| explain(error.into()))?;
    drop(qmp);
    let mut qmp = Control::new(&stream, qmp::Reader::default(), GLANCE);
    let asked = Instant::now();
    first.run(&mut qmp, &mut || {
        !control.cancelled() && asked.elapsed() < first_run::PATIENCE
    })
}

/// The memory that was kept for an image, if it can be used. An image that has the memory, too, is
/// read if not.
fn kept_memory(
    paths: &VmPaths,
    image: &Image,
    control: brisk_image::Control<'_>,
) -> Result<Option<Found>, Error> {
    match kept::find(paths, image, control) {
        Err(loss) if image.header().kept => Err(loss.error(paths)),
        Err(Loss::Cancelled) => Err(Error::Interrupted),
        Err(Loss::Lost(reason)) => {
            paths.note_unused(&reason);
            Ok(None)
        }
        Ok(found) => {
            if found.is_some() {
                paths.note("Its memory is what was kept in RAM");
            }
            Ok(found)
        }
    }
}

/// Memory with the content that an image has.
fn loaded_memory(
    paths: &VmPaths,
    image: &Image,
    control: brisk_image::Control<'_>,
) -> Result<Fresh, Error> {
    let memory = paths.make_defined_memory(image.header().memory, &paths.definition()?)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    image.load(&memory.file, &memory.path, threads, control)?;
    Ok(memory)
}

/// An image that is open and stays as it is, and the VM in it, which can go on here.
pub(super) fn open(
    paths: &VmPaths,
    file: File,
    path: &Path,
    how: &How,
    cache: &Cache,
) -> Result<(Image, Running), Error> {
    let keys = with_host_key(paths, &how.keys)?;
    let image = Image::from_file(file, path, &keys)?;
    SuspendRecord::admits(paths, &image)?;
    let image = image.with_parents(&keys, &[])?;
    let mut running = machine_of(&image, path)?;
    running.filled_from = None;
    let chain = std::iter::successors(Some(&image), |image| image.parent());
    running.images = chain.map(|image| image.header().id).collect();
    complete_chains(&mut running, path)?;
    check(paths, &image, &mut running, how, cache)?;
    accepted_are_disks(&image, &how.accepted_disks)?;
    // Again when the guest is about to run: it takes long to load memory.
    disks_are_as_noted(&image, &how.accepted_disks)?;
    Ok((image, running))
}

/// Reads the backing chains of qcow2 images again: another user may have written other names to a
/// header, and restored the file's time. An older brisk did not record the names.
fn complete_chains(running: &mut Running, path: &Path) -> Result<(), Error> {
    let disks = running.machine.devices.disks.iter_mut();
    for disk in disks.filter(|disk| disk.format == DiskFormat::Qcow2) {
        let chain = brisk_rootfs::backing_chain(&disk.path).map_err(|source| {
            Error::from(guest::Error::Root {
                argument: disk.path.display().to_string(),
                source: Box::new(source),
            })
        })?;
        let backing = guest::backing(&chain);
        if !disk.backing.is_empty() && disk.backing != backing {
            return Err(Error::Unlike {
                path: path.to_owned(),
                reason: format!(
                    "its disk {} reads from other files than it did",
                    disk.path.display()
                ),
            });
        }
        disk.backing = backing;
    }
    Ok(())
}

/// Checks that accepted paths are disks of the VM: a misspelt path would accept nothing.
fn accepted_are_disks(image: &Image, accepted: &[PathBuf]) -> Result<(), Error> {
    let disks = &image.description().disks;
    match accepted
        .iter()
        .find(|path| disks.iter().all(|disk| disk.path != **path))
    {
        None => Ok(()),
        Some(path) => {
            let known: Vec<_> = disks
                .iter()
                .map(|disk| disk.path.display().to_string())
                .collect();
            Err(Error::state(
                &image.description().name,
                format!("has no disk {}", path.display()),
                match known.is_empty() {
                    true => "it has none at all".to_owned(),
                    false => format!("it has {}", known.join(", ")),
                },
            ))
        }
    }
}

fn machine_of(image: &Image, path: &Path) -> Result<Running, Error> {
    let unlike = |reason: &str| Error::Unlike {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let text = &image.description().definition;
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| unlike("it does not say what VM it holds"))?;
    let machine = value["machine"].as_str().unwrap_or_default();
    serde_json::from_str(machine)
        .map_err(|_| unlike("it was made by another version of brisk, whose VMs are unknown"))
}

/// Checks that the QEMU that is installed can continue the guest, and has it do so.
fn fits(paths: &VmPaths, running: &mut Running, how: &How, cache: &Cache) -> Result<(), String> {
    let (program, installed) = qemu_fit::installed(running, cache)?;
    if program != running.machine.program {
        let (was, now) = (running.machine.program.display(), program.display());
        paths.note(&format!("{was} is not there any more, {now} is used"));
        running.machine.program = program;
    }
    replace_firmware(running, &installed);
    match fit(running, &installed) {
        Fit::Same => return Ok(()),
        Fit::Doubtful(_) if how.accepts_qemu => {}
        Fit::Alike => {}
        unfit => return Err(unfit.advice()),
    }
    let (was, now) = (&running.qemu, &installed.package);
    paths.note(&format!("QEMU {now} continues what QEMU {was} saved"));
    adopt(running, &installed);
    Ok(())
}

/// Why the QEMU that is installed does not resume a suspended VM; none if it does, as far as this host
/// can find out without another key.
pub(super) fn unfit(paths: &VmPaths, cache: &Cache) -> Option<String> {
    let path = brisk_image::resumable(&paths.image_now().ok()?)?;
    let image = Image::open(&path, &host_keys(paths).ok()?).ok()?;
    let running = machine_of(&image, &path).ok()?;
    let found =
        qemu_fit::installed(&running, cache).map(|(_, installed)| fit(&running, &installed));
    match found {
        Ok(Fit::Same | Fit::Alike) => None,
        Ok(unfit) => Some(unfit.advice()),
        Err(reason) => Some(reason),
    }
}

/// Names of suspended VMs that the QEMU which is installed does not resume, with reasons.
#[must_use]
pub fn stranded(dirs: &StateDirs, cache: &Cache) -> Vec<(String, String)> {
    let reason = |name: String| {
        let paths = dirs.vm(&name).ok()?;
        let is_suspended = condition(&paths).ok()? == Condition::Suspended;
        let reason = unfit(&paths, cache).filter(|_| is_suspended)?;
        Some((name, reason))
    };
    dirs.names().into_iter().filter_map(reason).collect()
}

/// Checks that the host has what the image needs.
fn check(
    paths: &VmPaths,
    image: &Image,
    running: &mut Running,
    how: &How,
    cache: &Cache,
) -> Result<(), Error> {
    let unlike = |reason: String| {
        Err(Error::Unlike {
            path: image.path().to_owned(),
            reason,
        })
    };
    let description = image.description();
    if description.name != paths.name {
        return unlike(format!("it holds the VM {}", description.name));
    }
    let uuid = paths.definition()?.uuid().map_err(|e| paths.wrong(e))?;
    if let Some(uuid) = uuid.filter(|_| !suspend_record::has_uuid(description, uuid)) {
        return unlike(format!(
            "it holds another VM {}: one with the UUID {}, and this has {}",
            paths.name,
            text_of_uuid(description.uuid),
            text_of_uuid(uuid)
        ));
    }
    fits(paths, running, how, cache).or_else(unlike)?;
    for file in [
        &running.machine.boot.kernel,
        &running.machine.boot.initramfs,
    ] {
        if !file.exists() {
            return unlike(format!("{} is not there any more", file.display()));
        }
    }
    if let Some(directories) = &mut running.directories {
        directories.again(cache).or_else(unlike)?;
    }
    Ok(())
}
